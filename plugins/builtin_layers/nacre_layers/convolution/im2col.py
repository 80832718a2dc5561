"""Im2col: the windows of an image as its channels."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import (
    Array,
    ConfigError,
    Layer,
    LayerState,
    Names,
    Sizes,
    as_many_as,
    at_least,
    default,
    non_negative,
    positive,
)

from ..windows import WindowGrid
from .geometry import fit, slide


class Im2colLayer(Layer, can_do_bp=True):
    """y[n, (c, cell), window] = x[n, c, stride · window + dilation · cell - pad]: what a filter sees, as channels.

    Bottoms are (images, channels, rows, columns), with any number of axes after the channels; outside the image is 0.
    Tops are (images, channels · cells of the kernel, *windows), with floor((length + 2 pad - dilation (kernel - 1) - 1)
    / stride) + 1 windows along an axis; a convolution of 1 × 1 on them is one of this kernel on the bottoms. `kernel`,
    `stride`, `pad` and `dilation` are one number for all directions, or one for each, in pixels. One top for each
    bottom. After Caffe's `Im2col`.

    Example:
        [[layer]]
        type = "Im2col"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["windows"]  # (8, 75, 28, 28)
        kernel = 5
    """

    shown = ("kernel", "stride")

    bottoms: Annotated[Names, at_least(1), "the images"]
    tops: Annotated[Names, as_many_as("bottoms"), "their windows"]
    kernel: Annotated[Sizes, positive, "size of a window, in pixels"]
    stride: Annotated[Sizes, positive, "step between windows, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of zeros on each side, in pixels"] = default((0,))
    dilation: Annotated[Sizes, positive, "step between the cells of a window, in pixels"] = default((1,))


def windows_of(layer: Im2colLayer, shape: tuple[int, ...]) -> WindowGrid:
    """Return the windows of a bottom.

    Raises:
        ConfigError: the fields do not fit the bottom.
    """
    if len(shape) < 3:
        raise ConfigError(f"{layer.name}: the bottom of shape {shape} has no axes after the channels")
    return WindowGrid(shape, dict(enumerate(fit(layer, slide(layer, shape[2:])), 2)))


class Im2colState(LayerState, of=Im2colLayer, reads="", capturable=True):
    """`Im2colLayer` on any backend: one strided copy for each cell of the window."""

    def __init__(self, layer: Im2colLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.grids = [windows_of(layer, one.shape) for one in inputs]
        tops = [(grid.shape[0], grid.shape[1] * len(grid.cells), *grid.counts[2:]) for grid in self.grids]
        self.blobs = [backend.blob(top) for top in tops]

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        for x, y, grid in zip(inputs, self.blobs, self.grids, strict=True):
            padded, windows = self._zeros(grid), cells_apart(y, grid)
            xp.copyto(padded[grid.image], x)
            for number, cell in enumerate(grid.cells):
                xp.copyto(windows[:, :, number], padded[cell])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for dy, dx, grid in zip(self.blobs_diff, diffs, self.grids, strict=True):
            if dx is None:
                continue
            padded, windows = self._zeros(grid), cells_apart(dy, grid)
            for number, cell in enumerate(grid.cells):
                xp.add(padded[cell], windows[:, :, number], out=padded[cell])
            xp.copyto(dx, padded[grid.image])

    def _zeros(self, grid: WindowGrid) -> Array:
        padded = self.backend.scratch(grid.padded)
        padded[...] = 0
        return padded


def cells_apart(y: Array, grid: WindowGrid) -> Array:
    """Return a top as (images, channels, cells, *windows)."""
    return y.reshape(*grid.counts[:2], len(grid.cells), *grid.counts[2:])
