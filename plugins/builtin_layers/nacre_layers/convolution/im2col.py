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

from .geometry import Sliding


class Im2colLayer(Layer, can_do_bp=True):
    """y[n, (c, cell), window] = x[n, c, stride · window + dilation · cell - pad]: what a filter sees, as channels.

    Bottoms are (images, channels, rows, columns), with any number of axes behind the channels; outside the image is 0.
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

    bottoms: Annotated[Names, at_least(1), "the images"]
    tops: Annotated[Names, as_many_as("bottoms"), "their windows"]
    kernel: Annotated[Sizes, positive, "size of a window, in pixels"]
    stride: Annotated[Sizes, positive, "step between windows, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of zeros on each side, in pixels"] = default((0,))
    dilation: Annotated[Sizes, positive, "step between the cells of a window, in pixels"] = default((1,))


class Patches:
    """The windows of bottoms of one shape: `cells[i]` is where cell i of every window lies in the padded bottom."""

    def __init__(self, layer: Im2colLayer, shape: tuple[int, ...]) -> None:
        if len(shape) < 3:
            raise ConfigError(f"{layer.name}: the bottom of shape {shape} has no axes after the channels")
        images, channels, *image = shape
        sliding = Sliding(layer, len(image))
        windows = sliding.count(layer, image)
        self.padded = (images, channels, *sliding.padded(image))
        self.inside, self.cells = sliding.inside(image), sliding.cells(windows)
        self.shape = (images, channels, len(self.cells), *windows)
        self.top = (images, channels * len(self.cells), *windows)


class Im2colState(LayerState, of=Im2colLayer, reads=""):
    """`Im2colLayer` on any backend: one strided copy for each cell of the window."""

    def __init__(self, layer: Im2colLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.patches = [Patches(layer, one.shape) for one in inputs]
        self.blobs = [backend.blob(patches.top) for patches in self.patches]

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        for x, y, patches in zip(inputs, self.blobs, self.patches, strict=True):
            padded, y = self._zeros(patches), y.reshape(patches.shape)
            xp.copyto(padded[patches.inside], x)
            for number, cell in enumerate(patches.cells):
                xp.copyto(y[:, :, number], padded[cell])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for dy, dx, patches in zip(self.blobs_diff, diffs, self.patches, strict=True):
            if dx is None:
                continue
            padded, dy = self._zeros(patches), dy.reshape(patches.shape)
            for number, cell in enumerate(patches.cells):
                xp.add(padded[cell], dy[:, :, number], out=padded[cell])
            xp.copyto(dx, padded[patches.inside])

    def _zeros(self, patches: Patches) -> Array:
        padded = self.backend.scratch(patches.padded)
        padded[...] = 0
        return padded
