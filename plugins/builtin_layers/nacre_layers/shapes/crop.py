"""Crop: a window of each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from nacre import Array, ConfigError, Layer, LayerState, Names, Pair, as_many_as, at_least, positive


class CropLayer(Layer, can_do_bp=True):
    """Cut a window of `crop_size` out of each image; one top for each bottom, of its type.

    y[n, c, i, j] = x[n, c, row + i, column + j], where the window begins at (row, column).

    Bottoms are (images, channels, rows, columns). The window lies in the middle, ((rows - crop rows) // 2, (columns -
    crop columns) // 2). In phase `train`, with `random_crop` it lies anywhere, and with `random_mirror` half of the
    windows are turned left to right. Every image has random numbers of its own, the same for number i of all bottoms (a
    picture and its mask are cut in the same way). With the Philox uniforms u (`nacre.random`, float32, of shape (3,
    images)) image i begins at row floor(u[0, i] (rows - crop rows + 1)), column floor(u[1, i] (columns - crop columns +
    1)), and is mirrored where u[2, i] < 0.5. Gradients of pixels outside are 0. Raises ConfigError if an image is too
    small. After Mocha.jl's `CropLayer`, which cuts all images of a batch in the same way, in every phase.

    Example:
        [[layer]]
        type = "Crop"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["cropped"]  # (8, 3, 28, 28)
        crop_size = 28
        random_crop = true
        random_mirror = true
    """

    bottoms: Annotated[Names, at_least(1), "the images"]
    tops: Annotated[Names, as_many_as("bottoms"), "the windows"]
    crop_size: Annotated[Pair, positive, "size of a window: (rows, columns), in pixels"]
    random_crop: Annotated[bool, "in phase train, put the windows at random positions"] = False
    random_mirror: Annotated[bool, "in phase train, turn half of them left to right"] = False

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> LayerState:
        cuts = [self._middle(name, one.shape) for name, one in zip(self.bottoms, inputs, strict=True)]
        acts = backend.phase == "train" and (self.random_crop or self.random_mirror)
        return (RandomCropState if acts else CropState)(self, backend, inputs, diffs, cuts)

    def _middle(self, name: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the window in the middle of the images of a bottom."""
        if len(shape) != 4:
            raise ConfigError(
                f"{self.name}: bottom '{name}' of shape {shape} must be (images, channels, rows, columns)"
            )
        window = [slice(None), slice(None)]
        for length, crop in zip(shape[2:], self.crop_size, strict=True):
            if crop > length:
                raise ConfigError(
                    f"{self.name}: crop_size={self.crop_size} is larger than the images of bottom '{name}', {shape[2:]}"
                )
            window.append(slice((length - crop) // 2, (length - crop) // 2 + crop))
        return tuple(window)


class CropState(LayerState, reads="", capturable=True):
    """Layers whose tops are fixed windows of the first bottoms, on any backend."""

    def __init__(
        self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any], cuts: Sequence[tuple[slice, ...]]
    ) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.cuts = cuts
        for one, cut in zip(inputs, cuts, strict=False):
            lengths = [len(range(length)[part]) for length, part in zip(one.shape, cut, strict=True)]
            self.blobs.append(backend.blob(lengths, one.dtype))

    def forward(self, inputs: list[Array]) -> None:
        for x, y, cut in zip(inputs, self.blobs, self.cuts, strict=False):
            self.backend.xp.copyto(y, x[cut])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dx in diffs:
            if dx is not None:
                dx[...] = 0
        for dy, dx, cut in zip(self.blobs_diff, diffs, self.cuts, strict=False):
            if dx is not None:
                self.backend.xp.copyto(dx[cut], dy)


class RandomCropState(CropState, reads="", capturable=False):
    """`CropLayer` with a random window for every image: `drawn` holds those of each bottom."""

    def __init__(
        self, layer: CropLayer, backend: Any, inputs: list[Any], diffs: list[Any], cuts: Sequence[tuple[slice, ...]]
    ) -> None:
        super().__init__(layer, backend, inputs, diffs, cuts)
        self.random = backend.random(layer.name)
        self.drawn: list[list[tuple[slice, ...]]] = [[] for _ in inputs]

    def forward(self, inputs: list[Array]) -> None:
        for index, (x, y) in enumerate(zip(inputs, self.blobs, strict=True)):
            # in a phase of an algorithm's own nothing is drawn
            self.drawn[index] = self._draw(x.shape) if self.phase == "train" else [self.cuts[index][1:]] * x.shape[0]
            for image, window, cut in zip(x, y, self.drawn[index], strict=True):
                self.backend.xp.copyto(window, image[cut])

    def _draw(self, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
        """Draw the positions of the windows in images of this shape."""
        images, _, *lengths = shape
        first, every = self.random.joined(images)
        ours = self.random.generator().random((3, every), np.float32)[:, first : first + images]
        uniform = ours.astype(np.float64)  # so that u n is exact
        starts: list[list[int]] = []
        for length, crop, chance in zip(lengths, self.layer.crop_size, uniform, strict=False):
            anywhere = (chance * (length - crop + 1)).astype(int)  # rounds down
            starts.append(anywhere.tolist() if self.layer.random_crop else [(length - crop) // 2] * images)
        mirrored = (uniform[2] < 0.5).tolist() if self.layer.random_mirror else [False] * images
        height, width = self.layer.crop_size
        return [
            (slice(None), slice(row, row + height), _turned(column, width) if turn else slice(column, column + width))
            for row, column, turn in zip(*starts, mirrored, strict=True)
        ]

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dy, dx, drawn in zip(self.blobs_diff, diffs, self.drawn, strict=True):
            if dx is not None:
                dx[...] = 0
                for image, window, cut in zip(dx, dy, drawn, strict=True):
                    self.backend.xp.copyto(image[cut], window)


def _turned(start: int, length: int) -> slice:
    """Return a window with its columns in reverse order."""
    return slice(start + length - 1, start - 1 if start else None, -1)
