"""Augmentation: pictures turned, scaled, moved, in other colours, and with holes, anew in each pass of a training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from nacre import ConfigError, Converted, DataError, Pair, default, finite, non_negative, positive

from .transformers import OfPictures, PerChannel

PIXELS = 1 << 16
"""Pixels of the pictures that are changed at a time: the arrays stay in a core's cache."""

LEAST_SCALE = 1e-3
"""A picture that is made still smaller would be less than a pixel."""

GREY = (0.299, 0.587, 0.114)
"""The shares of red, green and blue in a grey value, of ITU-R BT.601."""

YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))
"""Grey value and the two differences of colour of NTSC, of red, green and blue."""


class Two(Converted[float | Sequence[float], tuple[float, float]]):
    """Two numbers; a single one stands for both."""

    wants = "a finite number, or two"

    @staticmethod
    def convert(value: Any) -> tuple[float, float]:
        numbers = PerChannel.convert(value)
        first, last = numbers * 2 if len(numbers) == 1 else numbers
        return first, last


class Augmentation(OfPictures):
    """A change of pictures in phase `train` that is drawn for each of them; in other phases they stay as they are.

    What is drawn is a function of the seed, the layer's name, the pass, and the record's number.
    """

    draws = 1
    """How many numbers u from [0, 1) are drawn for each picture."""

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        if phase != "train":
            return
        drawn = random.each(self.draws)
        _, _, rows, columns = batch.shape
        step = max(1, PIXELS // (rows * columns))
        for start in range(0, len(batch), step):
            self.change(batch[start : start + step], drawn[start : start + step])

    def change(self, pictures: np.ndarray, drawn: np.ndarray) -> None:
        """Change pictures in place; `drawn` are the numbers of each."""
        raise NotImplementedError


def filling(name: str, fill: tuple[float, ...], pictures: np.ndarray) -> np.ndarray:
    """Return what fills pictures (records, channels, rows, columns), as an array (channels, 1, 1) of their type.

    Raises:
        DataError: the type does not have these numbers.
    """
    given = np.array(fill * pictures.shape[1] if len(fill) == 1 else fill).reshape(-1, 1, 1)
    with np.errstate(all="ignore"):
        made = given.astype(pictures.dtype)
    if pictures.dtype.kind != "f" and (made != given).any():
        raise DataError(f"{name}: fill={fill}, but the pictures hold numbers of type {pictures.dtype}")
    return made


def check_fill(name: str, fill: tuple[float, ...], channels: int) -> None:
    """Raise ConfigError unless there is one number to fill with, or one for each channel."""
    if len(fill) not in (1, channels):
        raise ConfigError(f"{name}: fill={fill}, but the pictures have {channels} channels")


class RandomAffine(Augmentation):
    """In phase `train`, turns, scales and moves each picture, all in one step.

    With the record's random numbers u the picture is turned to the left by (2 u[0] - 1) · degrees about its middle,
    made larger by a factor from `scale`, low + u[1] (high - low), and moved down by (2 u[2] - 1) · translate rows ·
    rows and to the right by (2 u[3] - 1) · translate columns · columns. They are a function of the seed, the layer's
    name, the pass, and the record's number.

    A pixel is the mean of the four pixels around the place that it comes from ("bilinear"), or the nearest of them;
    outside of the picture is `fill`. Means of whole numbers are rounded. As PyTorch's `RandomAffine` without shear.
    """

    draws = 4

    degrees: Annotated[float, non_negative, finite, "largest angle, to the left and to the right"] = 0.0
    scale: Annotated[Two, positive, "how much larger: (the least, the most), or one number"] = default((1.0, 1.0))
    translate: Annotated[Two, non_negative, "largest shift, as a share of (rows, columns)"] = default((0.0, 0.0))
    fill: Annotated[PerChannel, "what is outside of the picture: a number, or one for each channel"] = default((0.0,))
    interpolation: Annotated[Literal["bilinear", "nearest"], "the mean of four pixels, or the nearest"] = "bilinear"

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.scale[0] > self.scale[1]:
            yield f"scale={self.scale}, but the first must not be larger than the second"
        if self.scale[0] < LEAST_SCALE:
            yield f"scale={self.scale}, but it must be at least {LEAST_SCALE}"
        if not self.degrees and self.scale == (1, 1) and not any(self.translate):
            yield "degrees, scale or translate is needed, or no picture changes"

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        channels, _, _ = super().shape_of(shape)
        check_fill("RandomAffine", self.fill, channels)
        return shape

    def change(self, pictures: np.ndarray, drawn: np.ndarray) -> None:
        count, channels, height, width = pictures.shape
        bordered = np.empty((count, channels, height + 2, width + 2), pictures.dtype)
        bordered[...] = filling("RandomAffine", self.fill, pictures)
        bordered[:, :, 1:-1, 1:-1] = pictures
        flat = bordered.reshape(count, channels, -1)
        places = self._places(drawn, (height, width))
        if self.interpolation == "nearest":
            row, column = ((place + 0.5).astype(np.intp) for place in places)
            index = (row * (width + 2) + column).reshape(count, -1)
            for picture, found, here in zip(flat, pictures, index, strict=True):
                found[...] = picture.take(here, axis=1).reshape(found.shape)
            return
        # the last whole place that has one behind it; a place on the border itself is then all of that one
        whole = [np.minimum(place.astype(np.intp), size) for place, size in zip(places, (height, width), strict=True)]
        down, right = ((place - start).reshape(count, 1, -1) for place, start in zip(places, whole, strict=True))
        index = (whole[0] * (width + 2) + whole[1]).reshape(count, -1)
        upper = _between(flat, index, 1, right)
        lower = _between(flat, index + width + 2, 1, right)
        lower -= upper
        lower *= down
        upper += lower
        if pictures.dtype.kind != "f":
            np.rint(upper, out=upper)
        np.copyto(pictures, upper.reshape(pictures.shape), casting="unsafe")

    def _places(self, drawn: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the row and the column that each pixel comes from, in a picture with a border of one pixel."""
        angle = np.radians((2 * drawn[:, 0] - 1) * self.degrees)
        low, high = self.scale
        factor = low + drawn[:, 1] * (high - low)
        shifts = [(2 * drawn[:, 2 + axis] - 1) * self.translate[axis] * size[axis] for axis in (0, 1)]
        middle = [(length - 1) / 2 for length in size]
        # seen from the middle of what is moved: back by the shift, smaller, and turned to the right
        row, column = (
            (np.arange(length) - half - shift[:, None]) / factor[:, None]
            for length, half, shift in zip(size, middle, shifts, strict=True)
        )
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        parts = ((row * cos + middle[0] + 1, column * sin), (column * cos + middle[1] + 1, -row * sin))
        kind = np.float32 if max(size) < 1 << 12 else np.float64
        found: list[np.ndarray] = []
        for (along, across), turned, length in zip(parts, (False, True), size, strict=True):
            first, second = (across, along) if turned else (along, across)
            place = first.astype(kind)[:, :, None] + second.astype(kind)[:, None, :]
            found.append(np.clip(place, 0, length + 1, out=place))
        return found[0], found[1]


def _between(flat: np.ndarray, index: np.ndarray, step: int, share: np.ndarray) -> np.ndarray:
    """Return (1 - share) of the numbers at `index`, and `share` of those behind, as floating-point numbers."""
    kind = np.float64 if flat.dtype == np.float64 else np.float32
    first, second = (np.empty((*flat.shape[:2], index.shape[1]), kind) for _ in range(2))
    for number, here in enumerate(index):
        first[number] = flat[number].take(here, axis=1)
        second[number] = flat[number].take(here + step, axis=1)
    second -= first
    second *= share
    first += second
    return first


class ColorJitter(Augmentation):
    """In phase `train`, changes brightness, contrast, saturation and hue of each picture, in this order.

    With the record's random numbers u all numbers are multiplied by b = 1 + (2 u[0] - 1) · brightness; then they become
    m + c (x - m), where m is the mean grey value of the picture and c = 1 + (2 u[1] - 1) · contrast; then g + s (x -
    g), where g is the pixel's own grey value and s = 1 + (2 u[2] - 1) · saturation; at last the colours are turned by
    (2 u[3] - 1) · hue of a full turn about the line of grey values. Grey is 0.299 red + 0.587 green + 0.114 blue.

    Pictures have three channels, red first, or one, of which saturation and hue change nothing. Whole numbers are
    rounded, and stay in the range of their type; others are not cut off. The numbers u are a function of the seed, the
    layer's name, the pass, and the record's number. As PyTorch's `ColorJitter`, which draws the order too, cuts off
    after each step, and turns the hue in the space HSV.
    """

    draws = 4

    brightness: Annotated[float, non_negative, finite, "largest change; 0.4 is from 60 to 140 % of the brightness"] = (
        0.0
    )
    contrast: Annotated[float, non_negative, finite, "largest change of the contrast"] = 0.0
    saturation: Annotated[float, non_negative, finite, "largest change of the saturation"] = 0.0
    hue: Annotated[float, non_negative, "largest turn of the colours, up to 0.5 of a full turn"] = 0.0

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for name in ("brightness", "contrast", "saturation"):
            if getattr(self, name) > 1:
                yield f"{name}={getattr(self, name)}, but it must be at most 1"
        if self.hue > 0.5:
            yield f"hue={self.hue}, but it must be at most 0.5"
        if not any((self.brightness, self.contrast, self.saturation, self.hue)):
            yield "brightness, contrast, saturation or hue is needed, or no picture changes"

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        channels, _, _ = super().shape_of(shape)
        if channels not in (1, 3):
            raise ConfigError(f"ColorJitter: records must have 1 or 3 channels, not {channels}")
        return shape

    def change(self, pictures: np.ndarray, drawn: np.ndarray) -> None:
        count, channels, *_ = pictures.shape
        exact = pictures.dtype == np.float64 or (pictures.dtype.kind in "iu" and pictures.dtype.itemsize > 2)
        kind = np.float64 if exact else np.float32
        before = pictures.reshape(count, channels, -1).astype(kind)
        limits = (self.brightness, self.contrast, self.saturation)
        bright, contrast, saturation = (1 + (2 * drawn[:, place] - 1) * limit for place, limit in enumerate(limits))
        grey = np.array(GREY if channels == 3 else (1.0,))
        mean = before.mean(2, dtype=np.float64) @ grey
        added = (bright * (1 - contrast) * mean).astype(kind).reshape(-1, 1)
        colours = self._colours(saturation, drawn[:, 3]) if channels == 3 else np.ones((count, 1, 1))
        factors = (colours * (bright * contrast)[:, None, None]).astype(kind)
        after, part = np.empty_like(before), np.empty_like(before[:, 0])
        for channel in range(channels):
            found = after[:, channel]
            found[...] = added
            for other in range(channels):
                np.multiply(before[:, other], factors[:, channel, other, None], out=part)
                found += part
        if pictures.dtype.kind != "f":
            info = np.iinfo(np.uint8 if pictures.dtype == bool else pictures.dtype)
            most = kind(info.max)
            if int(most) > info.max:  # of 64 bits, which would wrap around
                most = np.nextafter(most, kind(0))
            np.clip(np.rint(after, out=after), info.min, most, out=after)
        np.copyto(pictures, after.reshape(pictures.shape), casting="unsafe")

    def _colours(self, saturation: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """Return for each picture the matrix by which saturation and hue change its colours."""
        share = saturation[:, None, None]
        matrix = share * np.eye(3) + (1 - share) * np.array(GREY)
        if self.hue:
            angle = 2 * np.pi * (2 * drawn - 1) * self.hue
            turn = np.zeros((len(drawn), 3, 3))
            turn[:, 0, 0] = 1
            turn[:, 1, 1] = turn[:, 2, 2] = np.cos(angle)
            turn[:, 2, 1] = np.sin(angle)
            turn[:, 1, 2] = -turn[:, 2, 1]
            yiq = np.array(YIQ)
            matrix = np.linalg.inv(yiq) @ turn @ yiq @ matrix
        return matrix


class Cutout(Augmentation):
    """In phase `train`, fills a window of each picture, so that a net does not rely on a single part.

    With the record's random numbers u the middle of the window is pixel (floor(u[0] rows), floor(u[1] columns)); it
    begins at this pixel less size // 2, and what of it is outside of the picture is left out. They are a function of
    the seed, the layer's name, the pass, and the record's number. DeVries and Taylor, "Improved regularization of
    convolutional neural networks with cutout", 2017; PyTorch's `RandomErasing` draws the size as well.
    """

    draws = 2

    size: Annotated[Pair, positive, "size of a window: (rows, columns), in pixels"]
    fill: Annotated[PerChannel, "what is in the window: a number, or one for each channel"] = default((0.0,))

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        channels, _, _ = super().shape_of(shape)
        check_fill("Cutout", self.fill, channels)
        return shape

    def change(self, pictures: np.ndarray, drawn: np.ndarray) -> None:
        fill = filling("Cutout", self.fill, pictures)
        most = (2 * extent + 1 for extent in pictures.shape[2:])  # covers a picture from any of its pixels
        size = np.array([min(pair) for pair in zip(self.size, most, strict=True)])
        starts = (drawn * pictures.shape[2:]).astype(np.intp) - size // 2
        stops = starts + size
        for picture, (row, column), (bottom, right) in zip(
            pictures, np.maximum(starts, 0).tolist(), stops.tolist(), strict=True
        ):
            picture[:, row:bottom, column:right] = fill
