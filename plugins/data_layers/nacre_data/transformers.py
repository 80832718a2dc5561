"""Transformers: changes of a batch on its way into the net, on the host; those of pictures work on bytes too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nacre import (
    ConfigError,
    Converted,
    DataError,
    Pair,
    Paths,
    Transformer,
    default,
    local_file,
    non_negative,
    positive,
)

from .means import no_fit, read_mean


class PerChannel(Converted["float | Sequence[float]", "tuple[float, ...]"]):
    """A number for all channels, or one for each."""

    wants = "a finite number, or a list with one for each channel"

    @staticmethod
    def convert(value: Any) -> tuple[float, ...]:
        numbers = np.asarray(value, np.float64)
        if numbers.ndim > 1 or not numbers.size or not np.isfinite(numbers).all():
            raise ValueError
        return tuple(numbers.reshape(-1).tolist())


class Factors(Converted["float | Sequence[float]", "float | tuple[float, ...]"]):
    """A number, or one for each channel."""

    wants = PerChannel.wants

    @staticmethod
    def convert(value: Any) -> float | tuple[float, ...]:
        numbers = PerChannel.convert(value)
        return numbers if np.ndim(value) else numbers[0]


class Scale(Transformer):
    """Multiplies every number by `scale`, in every phase: one factor, or one for each channel (axis 1 of the batch)."""

    by_record = True

    scale: Annotated[Factors, "factor: a number, or one for each channel"] = default(1.0)

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        self.transform_into(batch, batch, random, phase)

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        factor = self._fit(out.shape[1:]).astype(out.dtype)
        np.multiply(given, factor, out=out, dtype=out.dtype, casting="unsafe")

    def _fit(self, record: tuple[int, ...]) -> np.ndarray:
        """Return the factors in a shape by which records of this shape can be multiplied."""
        factors = np.asarray(self.scale, np.float64)
        if factors.size == 1:
            return factors.reshape(())
        if factors.shape != record[:1]:
            raise DataError(f"Scale: {factors.size} factors do not fit records of shape {record}")
        return factors.reshape(-1, *[1] * (len(record) - 1))


Given = float | Sequence[float] | np.ndarray
Read = tuple[float, ...] | np.ndarray


class Means(Converted[Given, Read]):
    """A mean to subtract: numbers, or an array of the shape of a record."""

    wants = "a number, a list of numbers (one for each channel), or an array"

    @staticmethod
    def convert(value: Any) -> Read:
        mean = np.asarray(value, np.float64)
        if not np.isfinite(mean).all():
            raise ValueError
        if hasattr(value, "__array__"):
            return mean
        if mean.ndim > 1:
            raise ValueError
        return tuple(mean.reshape(-1).tolist())


class SubMean(Transformer):
    """Subtracts a mean, in every phase: `mean`, or that in the file `mean_file`.

    The mean is a number, has one number for each channel (axis 1 of the batch), or the shape of a record, with or
    without a batch axis of length 1. A file is HDF5 with a dataset "mean", a `BlobProto` of Caffe's if "binaryproto" is
    in its name, else a record of SINGA's. Raises DataError with the first batch, if it does not fit or the file cannot
    be read. After Mocha.jl's `DataTransformers.SubMean`, and Caffe's `mean_file` and `mean_value`.
    """

    by_record = True

    mean: Annotated[Means, "the mean: a number, one for each channel, or an array"] = default(())
    mean_file: Annotated[Paths, "file with the mean; relative to the net file"] = default(())

    def _complete(self) -> None:
        object.__setattr__(self, "_fitted", {})  # a cache: the mean for the last shape

    def complaints(self) -> Iterator[str]:
        if bool(np.size(self.mean)) + len(self.mean_file) != 1:
            yield f"mean={self.mean!r} and mean_file={self.mean_file}, but exactly one of them is needed"

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        self.transform_into(batch, batch, random, phase)

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        np.subtract(given, self.fit_to(out.shape[1:], out.dtype), out=out, dtype=out.dtype, casting="unsafe")

    def fit_to(self, record: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return the mean in a type, and in a shape that can be subtracted from records of this shape.

        Raises:
            DataError: it does not fit, or its file cannot be read.
        """
        fitted: dict[Any, np.ndarray] = vars(self)["_fitted"]
        mean = fitted.get((record, dtype))
        if mean is None:  # several threads may come here, and then each makes one
            mean = self._fit(record).astype(dtype)
            fitted.clear()
            fitted[record, dtype] = mean
        return mean

    def standalone(self) -> SubMean:
        return replace(self, mean=self.mean_in_file(), mean_file=()) if self.mean_file else self

    def mean_in_file(self) -> np.ndarray:
        """Return what is in `mean_file`. Raises DataError if it cannot be read."""
        return read_mean(str(local_file(self.mean_file[0])))

    def _fit(self, record: tuple[int, ...]) -> np.ndarray:
        path = str(local_file(self.mean_file[0])) if self.mean_file else ""
        try:
            mean = read_mean(path, record) if path else np.asarray(self.mean, np.float64)
            if mean.shape == (1, *record):
                return mean[0]
            if mean.shape == record or mean.size == 1:
                return mean if mean.shape == record else mean.reshape(())
            if mean.ndim == 1 and mean.shape == record[:1]:
                return mean.reshape(-1, *[1] * (len(record) - 1))
            raise no_fit(path, mean.shape, record)
        except DataError as error:
            raise DataError(f"{type(self).__name__}: {error.args[0]}", error.remedy) from error


class OfPictures(Transformer):
    """Transformers of pictures (channels, rows, columns), in the type in which they are stored."""

    keeps_type = True

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) != 3:
            name = type(self).__name__
            raise ConfigError(f"{name}: records must be (channels, rows, columns), not {shape}")
        return shape

    def _check_window(self, size: tuple[int, int], lengths: tuple[int, int]) -> None:
        if size[0] > lengths[0] or size[1] > lengths[1]:
            name = type(self).__name__
            raise ConfigError(f"{name}: size={size} is larger than the pictures, which have {lengths} pixels")


def window_places(random: Any, rooms: Any) -> Sequence[Sequence[int]]:
    """Return in which row and in which column each record's window begins, both below `rooms`: from u[0] and u[1]."""
    return (random.each(2) * rooms).astype(np.intp).T.tolist()


class Crop(OfPictures):
    """Cuts a window of `size` out of each picture: in phase `train` anywhere, else in the middle.

    The middle begins at ((rows - size rows) // 2, (columns - size columns) // 2). In phase `train` a window begins at
    row floor(u[0] (rows - size rows + 1)) and column floor(u[1] (columns - size columns + 1)), where u are the record's
    random numbers: a function of the seed, the layer's name, the pass, and the record's number. Pictures that have this
    size already stay as they are. Raises ConfigError if they are smaller. After Caffe's `crop_size`.
    """

    size: Annotated[Pair, positive, "size of a window: (rows, columns), in pixels"]

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        channels, rows, columns = super().shape_of(shape)
        self._check_window(self.size, (rows, columns))
        return channels, *self.size

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        """Change nothing: the pictures have this size."""

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        windows = sliding_window_view(given, self.size, (2, 3))
        rooms = np.array(windows.shape[2:4])
        if phase == "train":
            for made, some, row, column in zip(out, windows, *window_places(random, rooms), strict=True):
                made[...] = some[:, row, column]
        else:
            row, column = (rooms - 1) // 2
            out[...] = windows[:, :, row, column]


class Mirror(OfPictures):
    """In phase `train`, turns half of the pictures left to right.

    A picture is turned where u[0] < 0.5, where u are the record's random numbers: a function of the seed, the layer's
    name, the pass, and the record's number. After Caffe's `mirror`.
    """

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        if phase == "train":
            self._turn(batch, batch, random)

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        np.copyto(out, given)
        if phase == "train":
            self._turn(given, out, random)

    def _turn(self, given: np.ndarray, out: np.ndarray, random: Any) -> None:
        for row in np.flatnonzero(random.each(1)[:, 0] < 0.5).tolist():
            out[row] = given[row, ..., ::-1]


class RandomShift(OfPictures):
    """In phase `train`, moves each picture by whole pixels, drawn uniformly from -pixels..pixels for rows and columns.

    Pixels from outside the picture are 0. With the record's random numbers u, the rows move down by pixels - floor(u[0]
    n), the columns right by pixels - floor(u[1] n), where n = 2 pixels + 1. They are a function of the seed, the
    layer's name, the pass, and the record's number.
    """

    pixels: Annotated[int, non_negative, "largest shift, in pixels"] = 1

    def _complete(self) -> None:
        object.__setattr__(self, "_scratch", {})  # a cache: arrays for the last shape

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        largest = max(super().shape_of(shape)[1:])
        if self.pixels > 8 * largest:  # all of it is outside, but needs memory
            raise ConfigError(
                f"RandomShift: pixels={self.pixels}, but the pictures have only {largest} rows or columns"
            )
        return shape

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        if phase != "train" or not self.pixels:
            return
        scratch: dict[Any, Any] = vars(self)["_scratch"]
        key = batch.shape, batch.dtype
        inner, windows = memory = scratch.pop(key, None) or self._memory(batch)  # taken out: other threads have theirs
        np.copyto(inner, batch)
        for made, some, row, column in zip(batch, windows, *window_places(random, 2 * self.pixels + 1), strict=True):
            made[...] = some[:, row, column]
        scratch.clear()
        scratch[key] = memory

    def _memory(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the inside of a batch with a border of zeros, and its windows for every shift."""
        images, channels, height, width = batch.shape
        border = self.pixels
        padded = np.zeros((images, channels, height + 2 * border, width + 2 * border), batch.dtype)
        inner = padded[:, :, border : border + height, border : border + width]
        return inner, sliding_window_view(padded, (height, width), (2, 3))
