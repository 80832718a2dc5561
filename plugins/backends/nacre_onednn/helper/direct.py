"""Convolutions of float32 as direct sums by the helper, and copies of weights for oneDNN's products: direct.c, pack.c.

They are alternatives to oneDNN's, taken where they are faster: oneDNN's convolutions are fast where channels fill
registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nacre import number_of_threads
from nacre_layers.convolution.geometry import Geometry
from nacre_layers.windows import WindowAxis

from ..dnnl.library import library
from ..dnnl.primitives import (
    BLOCKED,
    CHANNELS_LAST,
    Buffer,
    Call,
    Desc,
    HelperCall,
    block,
    describe,
    into,
    out_of,
    plain,
    tagged,
)
from .native import CONSTANTS, has_avx512, lanes

SIDE = CONSTANTS["DIRECT_SIDE"]
"""Filters whose gradients are added up together, at most."""


MOST = 1 << 21
"""The most bytes of a register's images: above it, too few rows stay in a core's cache."""


TILES = {
    "float32": {237: 16, 238: 32, 239: 64},  # AB16b16a, AB16b32a, AB16b64a
    "bf16": {240: 16, 241: 32, 242: 64},  # AB8b16a2b, AB8b32a2b, AB8b64a2b
}
"""Format tags of packed weights, and the rows of their tiles."""


def packing(name: str, outer: Desc, inner: Desc, copy: str) -> Call | None:
    """Return the copy of a plain matrix into the layout `inner`, if the helper has it."""
    shape = outer.shape
    if not has_avx512() or len(shape) != 2 or outer != plain(*shape):
        return None
    rows, columns = shape
    for dtype in TILES if library().narrow else ("float32",):
        for tag, tile in TILES[dtype].items():
            if inner == tagged(shape, tag, dtype):
                buffers = {"matrix": (name, outer.bytes), "packed": (copy, inner.bytes)}
                numbers = {"rows": rows, "columns": columns, "block": tile, "narrow": dtype == "bf16"}
                return HelperCall(buffers, "pack", numbers)
    return None


@dataclass(frozen=True)
class Sizes:
    """The sizes of a group of a convolution along planes, and along rows and columns: `axes`."""

    images: int
    channels: int
    filters: int
    deep: WindowAxis
    axes: tuple[WindowAxis, ...]

    @property
    def numbers(self) -> dict[str, int]:
        """The sizes that `direct` and `winograd` of operations.h have in common."""
        down, across = self.axes
        return {
            "images": self.images,
            "channels": self.channels,
            "height": down.length,
            "width": across.length,
            "filters": self.filters,
            "out_height": down.count,
            "out_width": across.count,
            "above": down.pad,
            "beside": across.pad,
        }

    @property
    def of_windows(self) -> dict[str, int]:
        """The sizes that `columns` and `depthwise` of operations.h have in common."""
        down, across = self.axes
        sizes = self.numbers
        del sizes["filters"]
        steps = {"down": down.stride, "right": across.stride}
        dilation = {"row_step": down.dilation, "column_step": across.dilation}
        return {**sizes, "rows": down.kernel, "columns": across.kernel, **steps, **dilation}

    @property
    def back(self) -> Sizes:
        """The sizes of the convolution that turns the gradient of the top into that of the bottom; the stride is 1."""
        return Sizes(self.images, self.filters, self.channels, self.deep.back, tuple(axis.back for axis in self.axes))

    @property
    def block(self) -> int:
        """Bytes of a register's images, with columns of zeros on both sides."""
        down, across = self.axes
        return 4 * lanes() * down.length * across.padded * self.channels

    @property
    def line(self) -> int:
        """Bytes of a row of as many results."""
        return 4 * lanes() * self.axes[1].count * self.filters


def is_blocked(desc: Desc) -> bool:
    """Return whether images lie in whole blocks of channels."""
    return desc.shape[1] % block() == 0 and desc == describe(desc.shape, BLOCKED, desc.dtype)


def served(desc: Desc) -> Desc:
    """Return a layout that the helper reads: this one, or the one with the channels last."""
    return desc if is_blocked(desc) else describe(desc.shape, CHANNELS_LAST, desc.dtype)


class DirectConvolution:
    """The stages of a convolution of float32 with one or two axes; channels of buffers come last or in blocks.

    Args:
        keeps: whether the turned filters are kept from pass to pass.
    """

    names: tuple[str, str] = ("weight", "dweight")
    """The buffers of the weights and of their gradient."""
    ADDS: ClassVar[bool] = False
    """Whether the forward pass can add a blob to its result."""

    def __init__(self, geometry: Geometry, *, keeps: bool) -> None:
        g = geometry
        channels = g.weight[1]
        self.groups = g.channels // channels
        deep, *axes = (*[WindowAxis(1, 1)] * (3 - len(g.axes)), *g.axes)
        self.sizes = Sizes(g.images, channels, g.filters // self.groups, deep, tuple(axes))
        self.keeps = keeps
        self.workers = number_of_threads()
        self.flat = len(g.axes) < 3
        self.usual = lanes() > 0 and all(axis.dilation == 1 for axis in g.axes) and deep.stride == 1
        self.unstrided = all(axis.stride == 1 for axis in g.axes)
        self.weight, self.bias = plain(*g.weight).bytes, 4 * g.filters

    def has(self, stage: str) -> bool:
        """Return whether it computes "forward", "weights" or "data"."""
        if not (self.usual and self.flat) or self.groups > 1 or (stage == "data" and not self.unstrided):
            return False
        sizes = self.sizes.back if stage == "data" else self.sizes
        return all(axis.pad >= 0 for axis in sizes.axes) and sizes.block <= MOST

    def forward(self, x: Buffer, y: Buffer, bias: str, added: str = "", *, relu: bool = False) -> list[Call]:
        """Return the calls of y = x * weight + bias + added; a name is "" where there is none.

        What is added lies as y; see `adds_to`. `relu`: with ReLU behind.
        """
        before, source = into(*x, served(x[1]))
        result, after = out_of(*y, served(y[1]))
        return [*before, *self._convolution(self.sizes, source, bias, result, added, relu=relu), *after]

    def adds_to(self, y: Desc) -> bool:
        """Return whether the forward pass can add a blob to results that lie so."""
        return self.ADDS and served(y) == y

    def data(self, dx: Buffer, dy: Buffer) -> list[Call]:
        """Return the calls of dx from dy: a convolution with filters that are turned round."""
        before, source = into(*dy, served(dy[1]))
        result, after = out_of(*dx, served(dx[1]))
        return [*before, *self._convolution(self.back, source, "", result, back=True), *after]

    @property
    def back(self) -> Sizes:
        """The sizes of the pass from top to bottom."""
        return self.sizes.back

    def _convolution(
        self,
        sizes: Sizes,
        source: Buffer,
        bias: str,
        result: Buffer,
        added: str = "",
        *,
        relu: bool = False,
        back: bool = False,
    ) -> list[Call]:
        (x, x_desc), (y, y_desc) = source, result
        turned = "Turned weight" if self.keeps else "turned weight"
        turning = HelperCall(
            {"w": (self.names[0], self.weight), "turned": (turned, self.weight)},
            "direct_filters",
            {"filters": self.sizes.filters, "channels": self.sizes.channels, **self._kernel, "back": back},
            once=self.keeps,
        )
        buffers = {
            "x": (x, x_desc.bytes),
            "w": (turned, self.weight),
            "bias": (bias, self.bias),
            "y": (y, y_desc.bytes),
            "scratch": ("scratch", (sizes.block + sizes.line) * self.workers),
        }
        numbers = {**self._numbers(sizes, x_desc, y_desc), "relu": relu}
        return [turning, HelperCall(buffers, "direct", numbers, self.workers)]

    def weights(self, bottom: Buffer, top: Buffer, bias: str) -> list[Call]:
        """Return the calls of the gradients of weight and bias from x and dy; `bias` by name as above."""
        sizes = self.sizes
        before, (source, x) = into(*bottom, served(bottom[1]))
        also, (gradient, y) = into(*top, served(top[1]))
        blocks = -(-sizes.images // lanes()) * (sizes.block + sizes.axes[0].count * sizes.line)
        sums = 4 * lanes() * SIDE * sizes.axes[1].kernel * sizes.channels * self.workers
        buffers = {
            "x": (source, x.bytes),
            "dy": (gradient, y.bytes),
            "dw": (self.names[1], self.weight),
            "db": (bias, self.bias),
            "scratch": ("scratch", blocks + sums),
        }
        return [*before, *also, HelperCall(buffers, "direct_weights", self._numbers(sizes, x, y), self.workers)]

    @property
    def _kernel(self) -> dict[str, int]:
        return {"rows": self.sizes.axes[0].kernel, "columns": self.sizes.axes[1].kernel}

    def _numbers(self, sizes: Sizes, x: Desc, y: Desc) -> dict[str, int]:
        """Return the numbers of `direct` in operations.h."""
        x_side, y_side = (block() if is_blocked(desc) else desc.shape[1] for desc in (x, y))
        down, right = (axis.stride for axis in sizes.axes)
        steps = {"down": down, "right": right, "x_side": x_side, "y_side": y_side}
        return {**sizes.numbers, **self._kernel, **steps}
