"""MnistImage: square pictures of one channel, normalised and distorted, as SINGA's parser was meant to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nacre import ConfigError, Configured, Transformer, every, finite, non_negative, non_zero

from .parser import ParserLayer

DRAWS = 4
"""Random numbers of a record besides its displacements: two for the scaling, and two for the angle."""


class MnistImageFields(Configured):
    """The fields of the transformer and of the layer `MnistImage`, by SINGA's names."""

    norm_a: Annotated[float, finite, non_zero, "numbers are divided by this"] = 1.0
    norm_b: Annotated[float, finite, "and then this is subtracted"] = 0.0
    resize: Annotated[int, non_negative, "rows and columns to which pictures are scaled; 0: as they are"] = 0
    gamma: Annotated[
        float, every(lambda percent: 0 <= percent < 100, "from 0 to below 100"), "largest scaling, in percent"
    ] = 0.0
    beta: Annotated[float, finite, non_negative, "largest rotation, or shear, in degrees"] = 0.0
    alpha: Annotated[float, finite, non_negative, "largest displacement before it is smoothed, in pixels"] = 0.0
    sigma: Annotated[float, finite, non_negative, "width of the Gaussian that smooths displacements, in pixels"] = 0.0
    kernel: Annotated[int, non_negative, "rows and columns of this Gaussian's window, an odd number"] = 0
    elastic_freq: Annotated[int, non_negative, "0: no displacements; any other number: each record has its own"] = 0

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        given = {name: getattr(self, name) for name in ("alpha", "sigma", "kernel", "elastic_freq")}
        if any(given.values()) and not all(given.values()):
            named = ", ".join(f"{name}={value}" for name, value in given.items())
            yield f"{named}, but displacements need all four to be above 0"
        if self.kernel and self.kernel % 2 == 0:
            yield f"kernel={self.kernel}, but it must be an odd number"


class MnistImage(MnistImageFields, Transformer):
    """Normalises pictures of one channel, and distorts them in phase `train`: y = distorted(x) / norm_a - norm_b.

    Records are squares (1, size, size) or (size, size). They become (1, resize, resize), or with `resize = 0` keep
    their size.

    In phase `train` a picture is changed around its middle, with the record's random numbers u and g = 2 u - 1. It is
    scaled to `resize`, and its rows by 1 + g[0] gamma / 100, its columns by 1 + g[1] gamma / 100. Then, if u[3] < 0.5,
    it is turned by g[2] beta degrees, counter-clockwise; else it is sheared: each row moves to the right by g[2] beta /
    90 for each row that it is below the middle. Then it is displaced: each pixel is taken from a place that is away by
    alpha times random numbers from [-1, 1), smoothed with a Gaussian of width sigma in a window of kernel x kernel. The
    numbers for the rows are u[4] and those that follow, then come those for the columns.

    Numbers between pixels are interpolated (bilinear), and those from outside are 0. In the other phases only `resize`
    acts. Displacements are those of Simard, Steinkraus and Platt, "Best practices for convolutional neural networks
    applied to visual document analysis", 2003. In SINGA, elastic_freq was the number of pictures whose displacements
    were drawn at once, and its code for all of this was switched off; it also sheared the digits 1 and 7 only half as
    much, which a parser of pictures cannot know.
    """

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape[:-2] not in ((), (1,)) or len(shape) < 2 or shape[-1] != shape[-2]:
            raise ConfigError(f"MnistImage: records must be squares (1, size, size) or (size, size), not {shape}")
        size = self.resize or shape[-1]
        if self.kernel > 2 * size:
            raise ConfigError(f"MnistImage: kernel={self.kernel}, but the pictures have only {size} rows")
        return 1, size, size

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        self.transform_into(batch, batch, random, phase)

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        pictures, made = given.reshape(len(given), *given.shape[-2:]), out[:, 0]
        distorts = phase == "train" and (self.gamma or self.beta or self.elastic_freq)
        if distorts or pictures.shape != made.shape:
            draws = self._draws(made, random) if distorts else np.empty((len(made), 0))
            made[...] = bilinear(pictures, *self._places(draws, pictures.shape[-1], made.shape[-1]))
            pictures = made
        np.divide(pictures, made.dtype.type(self.norm_a), out=made, dtype=made.dtype, casting="unsafe")
        if self.norm_b:
            np.subtract(made, made.dtype.type(self.norm_b), out=made)

    def _draws(self, made: np.ndarray, random: Any) -> np.ndarray:
        return random.each(DRAWS + (2 * made[0].size if self.elastic_freq else 0))

    def _places(self, draws: np.ndarray, old: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return from which row and column of a picture of `old` rows each pixel is taken: arrays (n, size, size).

        So the changes are undone here, the last one first.
        """
        middle = (size - 1) / 2
        rows, columns = np.meshgrid(*[np.arange(size) - middle] * 2, indexing="ij")
        rows, columns = np.broadcast_to((rows, columns), (len(draws), 2, size, size)).transpose(1, 0, 2, 3)
        if self.elastic_freq and draws.size:
            away = 2 * draws[:, DRAWS:].reshape(-1, 2, size, size) - 1
            moved = self.alpha * smoothed(away, self.kernel, self.sigma)
            rows, columns = rows + moved[:, 0], columns + moved[:, 1]
        if draws.size:
            scales, degrees = 1 + (2 * draws[:, :2] - 1) * self.gamma / 100, (2 * draws[:, 2] - 1) * self.beta
            rows, columns = _undone(rows, columns, degrees, draws[:, 3] < 0.5)
            rows, columns = rows / scales[:, 0, None, None], columns / scales[:, 1, None, None]
        return rows * (old / size) + (old - 1) / 2, columns * (old / size) + (old - 1) / 2


def _undone(
    rows: np.ndarray, columns: np.ndarray, degrees: np.ndarray, turned: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where pixels were before pictures were turned, or sheared, by so many degrees."""
    angle = np.where(turned, np.deg2rad(degrees), 0)[:, None, None]
    shear = np.where(turned, 0, degrees / 90)[:, None, None]
    columns = columns - shear * rows
    return np.cos(angle) * rows + np.sin(angle) * columns, np.cos(angle) * columns - np.sin(angle) * rows


def smoothed(fields: np.ndarray, kernel: int, sigma: float) -> np.ndarray:
    """Return arrays (..., rows, columns) smoothed with a Gaussian in a window of kernel x kernel; outside is 0."""
    weights = np.exp(-((np.arange(kernel) - kernel // 2) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    for axis in (-1, -2):
        border = [(0, 0)] * fields.ndim
        border[axis] = (kernel // 2, kernel // 2)
        fields = sliding_window_view(np.pad(fields, border), kernel, axis) @ weights
    return fields


def bilinear(pictures: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return for each picture (n, height, width) the numbers at places between its pixels; outside is 0."""
    count, height, width = pictures.shape
    padded = np.pad(pictures.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    rows, columns = np.clip(rows, -1, height), np.clip(columns, -1, width)
    tops, lefts = (np.minimum(np.floor(places), most - 1) for places, most in ((rows, height), (columns, width)))
    down, right = rows - tops, columns - lefts
    first = np.arange(count)[:, None, None]
    row, column = tops.astype(np.intp) + 1, lefts.astype(np.intp) + 1
    above = padded[first, row, column] * (1 - right) + padded[first, row, column + 1] * right
    below = padded[first, row + 1, column] * (1 - right) + padded[first, row + 1, column + 1] * right
    return above * (1 - down) + below * down


class MnistImageLayer(MnistImageFields, ParserLayer):
    """Make pictures of one channel of the records of a source: normalised, and distorted in phase `train`.

    y = distorted(x) / norm_a - norm_b; see the transformer MnistImage, which does the same within a source.

    The bottom is (images, 1, size, size) or (images, size, size), the top has the net's type and no gradient. The
    random numbers of a picture are a function of the seed, the layer's name, the pass and the record's number, if the
    bottom is of a source that numbers its records, or of another parser; else of its row and the iteration.

    Example:
        [[layer]]
        type = "MnistImage"
        bottoms = ["data"]  # (8, 28, 28)
        tops = ["mnist"]  # (8, 1, 28, 28)
        norm_a = 127.5
        norm_b = 1.0
    """

    parses = MnistImage
