"""LRN across channels, which lie next to each other in an image of the numpy backend: pixel by pixel."""

from __future__ import annotations

from math import sqrt
from typing import Any

from nacre import Array, LayerState, Own

from .compiling import SUMS, compiled


class LRNKernel(LayerState, reads="inputs", dtypes=("float32", "float64")):
    """LRN of mode "across": the divisors of a pixel are computed while its channels are in the cache, and kept."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        """Decline other modes, and blobs whose channels do not lie next to each other."""
        if layer.mode != "across":
            return "serves mode 'across'"
        if any(len(one.shape) not in (2, 4) or layer.axis % len(one.shape) != 1 for one in inputs):
            return "serves bottoms of 2 or 4 axes, of which the second counts the channels"
        return None

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def ready(self) -> None:
        """Make room for the divisors."""
        self.norms = [self.backend.empty(pixels(one).shape) for one in self.blobs]

    def forward(self, inputs: list[Own]) -> None:
        """Divide."""
        layer = self.layer
        for x, y, norm in zip(inputs, self.blobs, self.norms, strict=True):
            part = self.backend.scratch((3, norm.shape[1]))
            forward(pixels(x), pixels(y), norm, part, layer.kernel, layer.scale, layer.shift, layer.power)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Write dy / norm^power - 2 power scale / kernel · x · Σ dy x / norm^(power + 1), over the windows with x."""
        layer = self.layer
        for x, dy, dx, norm in zip(inputs, self.blobs_diff, diffs, self.norms, strict=True):
            if dx is not None:
                part = self.backend.scratch((3, norm.shape[1]))
                backward(pixels(x), pixels(dy), pixels(dx), norm, part, layer.kernel, layer.scale, layer.power)


def pixels(blob: Own) -> Array:
    """Return a blob as (pixels of all images, channels): channels lie last in memory, or there is one pixel or one."""
    return blob.memory.reshape(-1, blob.shape[1])


@compiled(SUMS)
def add_windows(x: Array, total: Array, down: int, up: int) -> None:
    """Write the sums of the windows of x, which reach from -down to up, into `total`."""
    count = len(x)
    for i in range(count):
        total[i] = x[i]
    for step in range(1, min(max(down, up), count - 1) + 1):
        lower, upper = total[: count - step], total[step:]  # loops that begin at 0 use wide registers
        if step <= up:
            above = x[step:]
            for i in range(count - step):
                lower[i] += above[i]
        if step <= down:
            for i in range(count - step):
                upper[i] += x[i]


@compiled(SUMS)
def divide(x: Array, norm: Array, power: float, y: Array) -> None:
    """Write x / norm^power into y."""
    if power == 0.75:  # two roots are several times faster than the usual power
        for i in range(len(x)):
            root = sqrt(norm[i])
            y[i] = x[i] / (root * sqrt(root))
    else:
        for i in range(len(x)):
            y[i] = x[i] / norm[i] ** x.dtype.type(power)


@compiled(SUMS)
def forward(
    x: Array, y: Array, norms: Array, part: Array, kernel: int, scale: float, shift: float, power: float
) -> None:
    """Write y = x / norm^power, and norm = shift + scale / kernel · Σ x² over the windows."""
    down, factor, more = (kernel - 1) // 2, x.dtype.type(scale / kernel), x.dtype.type(shift)
    square = part[0]
    for row in range(x.shape[0]):
        pixel, norm = x[row], norms[row]
        for i in range(len(pixel)):
            square[i] = pixel[i] * pixel[i] * factor
        add_windows(square, norm, down, kernel - 1 - down)
        for i in range(len(norm)):
            norm[i] += more
        divide(pixel, norm, power, y[row])


@compiled(SUMS)
def backward(
    x: Array, dy: Array, dx: Array, norms: Array, part: Array, kernel: int, scale: float, power: float
) -> None:
    """Write dx; `part` has room for three numbers of each channel."""
    down, factor = (kernel - 1) // 2, x.dtype.type(2 * power * scale / kernel)
    divided, along, total = part[0], part[1], part[2]
    for row in range(x.shape[0]):
        pixel, norm, gradient = x[row], norms[row], dx[row]
        divide(dy[row], norm, power, divided)
        for i in range(len(pixel)):
            along[i] = divided[i] * pixel[i] / norm[i]
        add_windows(along, total, kernel - 1 - down, down)
        for i in range(len(pixel)):
            gradient[i] = divided[i] - factor * pixel[i] * total[i]
