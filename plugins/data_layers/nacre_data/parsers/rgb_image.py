"""RGBImage: pictures less a mean, cut, mirrored and scaled, as SINGA's parser does."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from nacre import Configured, Paths, default, finite, non_negative

from ..transformers import Means, OfPictures, SubMean, window_places
from .parser import ParserLayer


class RGBImageFields(Configured):
    """The fields of the transformer and of the layer `RGBImage`."""

    scale: Annotated[float, finite, "factor, after the mean is subtracted"] = 1.0
    crop_size: Annotated[int, non_negative, "rows and columns of the window that is cut out; 0: all"] = 0
    mirror: Annotated[bool, "in phase train, turn half of the pictures left to right"] = False
    mean: Annotated[Means, "the mean of all pictures, before they are cut; as in SubMean"] = default(())
    mean_file: Annotated[Paths, "file with this mean; as in SubMean"] = default(())

    def sub_mean(self) -> SubMean | None:
        """Return what subtracts the mean, if there is one."""
        given = bool(self.mean_file) or np.size(self.mean)
        return SubMean(mean=self.mean, mean_file=self.mean_file) if given else None

    def standalone(self) -> Any:
        mean = self.sub_mean() if self.mean_file else None
        return self if mean is None else replace(self, mean=mean.mean_in_file(), mean_file=())


class RGBImage(RGBImageFields, OfPictures):
    """Subtracts a mean, cuts a window out of each picture, mirrors and scales it: y = window(x - mean) * scale.

    In phase `train` the window begins at row floor(u[0] (rows - size + 1)) and column floor(u[1] (columns - size + 1)),
    and the picture is turned where u[2] < 0.5, where u are the record's random numbers: a function of the seed, the
    layer's name, the pass, and the record's number. In the other phases the window is in the middle, as in `Crop`, and
    nothing is turned. After SINGA's `RGBImageLayer`, which could not cut a window at the last row, nor with a mean, nor
    outside training.
    """

    keeps_type = False

    def _complete(self) -> None:
        super()._complete()
        object.__setattr__(self, "_mean", self.sub_mean())

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        channels, rows, columns = super().shape_of(shape)
        size = self.crop_size
        if not size:
            return channels, rows, columns
        self._check_window((size, size), (rows, columns))
        return channels, size, size

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        self.transform_into(batch, batch, random, phase)

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        sub_mean: SubMean | None = vars(self)["_mean"]
        record = given.shape[1:]
        mean = None if sub_mean is None else np.broadcast_to(sub_mean.fit_to(record, out.dtype), record)
        rooms = np.array(record[1:]) - out.shape[2:] + 1
        if phase != "train":
            row, column = ((rooms - 1) // 2).tolist()
            _cut(given, out, mean, row, column)
        else:
            for picture, made, row, column in zip(given, out, *window_places(random, rooms), strict=True):
                _cut(picture, made, mean, row, column)
            if self.mirror:
                for number in np.flatnonzero(random.each(3)[:, 2] < 0.5).tolist():
                    out[number] = out[number, ..., ::-1]
        if self.scale != 1:
            np.multiply(out, out.dtype.type(self.scale), out=out)


def _cut(given: np.ndarray, out: np.ndarray, mean: np.ndarray | None, row: int, column: int) -> None:
    """Write the window that begins at a row and a column into `out`, less the mean of these pixels."""
    rows, columns = out.shape[-2:]
    window = (..., slice(row, row + rows), slice(column, column + columns))
    if mean is None:
        np.copyto(out, given[window], casting="unsafe")
    else:
        np.subtract(given[window], mean[window], out=out, dtype=out.dtype, casting="unsafe")


class RGBImageLayer(RGBImageFields, ParserLayer):
    """Make pictures of the records of a source: less a mean, cut, mirrored and scaled.

    y = window(x - mean) * scale; see the transformer RGBImage, which does the same within a source.

    The bottom is (images, channels, rows, columns), the top has the net's type and no gradient. The random numbers of a
    picture are a function of the seed, the layer's name, the pass and the record's number, if the bottom is of a source
    that numbers its records, or of another parser; else of its row and the iteration.

    Example:
        [[layer]]
        type = "RGBImage"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["rgb"]  # (8, 3, 28, 28)
        scale = 0.0078125
        crop_size = 28
        mirror = true
    """

    parses = RGBImage
