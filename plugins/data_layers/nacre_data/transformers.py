"""Transformers: changes of a batch on its way into the net, on the host and in the net's type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Annotated, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nacre import ConfigError, Converted, DataError, Paths, Transformer, default, finite, non_negative


class Scale(Transformer):
    """Multiplies every number by `scale`, in every phase."""

    scale: Annotated[float, finite, "factor"] = 1.0

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        np.multiply(batch, self.scale, out=batch)


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
    """Subtracts a mean, in every phase: `mean`, or the dataset "mean" of the HDF5 file `mean_file`.

    The mean is a number, has one number for each channel (axis 1 of the batch), or the shape of a record, with or
    without a batch axis of length 1. Raises DataError with the first batch, if it does not fit or the file cannot be
    read. After Mocha.jl's `DataTransformers.SubMean`, and Caffe's `mean_file` and `mean_value`.
    """

    mean: Annotated[Means, "the mean: a number, one for each channel, or an array"] = default(())
    mean_file: Annotated[Paths, "HDF5 file with the mean; relative to the net file"] = default(())

    def _complete(self) -> None:
        object.__setattr__(self, "_fitted", {})  # a cache: the mean for the last shape

    def complaints(self) -> Iterator[str]:
        if bool(np.size(self.mean)) + len(self.mean_file) != 1:
            yield f"mean={self.mean!r} and mean_file={self.mean_file}, but exactly one of them is needed"

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        fitted: dict[Any, np.ndarray] = vars(self)["_fitted"]
        key = batch.shape[1:], batch.dtype
        if key not in fitted:
            mean = self._fit(batch.shape[1:]).astype(batch.dtype)
            fitted.clear()
            fitted[key] = mean
        np.subtract(batch, fitted[key], out=batch)

    def _fit(self, record: tuple[int, ...]) -> np.ndarray:
        """Return the mean in a shape that can be subtracted from records of this shape."""
        mean = self._read(record) if self.mean_file else np.asarray(self.mean, np.float64)
        if mean.shape == (1, *record):
            return mean[0]
        if mean.shape == record or mean.size == 1:
            return mean if mean.shape == record else mean.reshape(())
        if mean.ndim == 1 and mean.shape == record[:1]:
            return mean.reshape(-1, *[1] * (len(record) - 1))
        raise self._does_not_fit(mean.shape, record)

    def _does_not_fit(self, shape: tuple[int, ...], record: tuple[int, ...]) -> DataError:
        where = f"{self.mean_file[0]}: " if self.mean_file else ""
        return DataError(f"SubMean: {where}a mean of shape {shape} does not fit records of shape {record}")

    def _read(self, record: tuple[int, ...]) -> np.ndarray:
        from .checks import check_entries
        from .hdf5_checks import open_hdf5

        path = self.mean_file[0]
        with open_hdf5(path) as file:
            dataset = file.dataset("mean")
            where = f"{path}: dataset 'mean'"
            check_entries(where, dataset.shape, dataset.dtype)
            if prod(dataset.shape) > prod(record):  # before it is read
                raise self._does_not_fit(dataset.shape, record)
            with file.reading(where):
                mean = np.asarray(dataset[()], np.float64)
        if not np.isfinite(mean).all():
            raise DataError(f"{where} holds numbers that are not finite")
        return mean


class RandomShift(Transformer):
    """In phase `train`, moves each image by whole pixels, drawn uniformly from -pixels..pixels for rows and columns.

    The batch is (images, channels, height, width). Pixels from outside the image are 0. The shift of image i is a
    function of the seed, the layer's name and the iteration: with Philox uniforms u (`nacre.random`, float32) the rows
    move down by pixels - floor(u[0, i] n), the columns right by pixels - floor(u[1, i] n), where n = 2 pixels + 1.
    """

    pixels: Annotated[int, non_negative, "largest shift, in pixels"] = 1

    def _complete(self) -> None:
        object.__setattr__(self, "_scratch", {})  # a cache: arrays for the last shape

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        """Move the images; raise ConfigError if the batch does not hold images."""
        if batch.ndim != 4:
            raise ConfigError(f"RandomShift: images must be (images, channels, height, width), not {batch.shape}")
        if phase != "train" or not self.pixels:
            return
        if self.pixels > 8 * (largest := max(batch.shape[2:])):  # all of it is outside, but needs memory
            raise ConfigError(
                f"RandomShift: pixels={self.pixels}, but the images have at most {largest} rows or columns"
            )
        inner, windows, uniform, starts = self._memory(batch)
        random.uniform(uniform)
        np.multiply(uniform, 2 * self.pixels + 1, out=uniform)
        np.copyto(starts, uniform, casting="unsafe")  # rounds down
        np.copyto(inner, batch)
        for image, window, row, column in zip(batch, windows, *starts.tolist(), strict=True):
            image[...] = window[row, column]

    def _memory(self, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the inside of a batch with a border of zeros, its views for every shift, and arrays for the shifts."""
        scratch: dict[Any, Any] = vars(self)["_scratch"]
        key = batch.shape, batch.dtype
        if key not in scratch:
            scratch.clear()
            images, channels, height, width = batch.shape
            border = self.pixels
            padded = np.zeros((images, channels, height + 2 * border, width + 2 * border), batch.dtype)
            inner = padded[:, :, border : border + height, border : border + width]
            windows = sliding_window_view(padded, (height, width), (2, 3)).transpose(0, 2, 3, 1, 4, 5)
            scratch[key] = inner, windows, np.empty((2, images), np.float32), np.empty((2, images), np.intp)
        return scratch[key]
