"""Kernels of the helper that fill registers where oneDNN does not, or need fewer products: see direct.c and winograd.c.

They are ways beside those of oneDNN, taken where they are faster: convolutions whose channels fill no blocks,
convolutions of 3 x 3 and 5 x 5, and copies of weights into the layouts that oneDNN's products read.
"""

from __future__ import annotations

from dataclasses import dataclass

from nacre import number_of_threads
from nacre_layers.convolution.windows import Geometry

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
from .native import DIRECT, DIRECT_WEIGHTS, PACK, DIRECT_FILTERS, has_avx512

LANES = 16
TILES_AT_ONCE = 12
"""Of winograd.c: the tiles of a product."""


MOST_TILES, ROOM = 48, 1 << 19
MOST_OF_ALL, ROOM_OF_ALL = 1 << 10, 1 << 21
"""Tiles at a time, and the bytes that they may take: of a thread, and of all for the gradient of the filters."""


ALONE = 1 << 20
"""Bytes up to which each worker has sums of its own for the gradient of the filters."""


SIDE = 5
"""Filters whose gradients are added up together."""


MOST = 1 << 21
"""Bytes of 16 images: of more, too few rows stay in a core's cache."""


TILES = {
    "float32": {237: 16, 238: 32, 239: 64},  # AB16b16a, AB16b32a, AB16b64a
    "bf16": {240: 16, 241: 32, 242: 64},  # AB8b16a2b, AB8b32a2b, AB8b64a2b
}
"""Format tags of packed weights, and the rows of their tiles."""


def packing(name: str, outer: Desc, inner: Desc, copy: str) -> Call | None:
    """Return the copy of a plain matrix into the layout `inner`, if direct.c has it."""
    shape = outer.shape
    if not has_avx512() or len(shape) != 2 or outer != plain(*shape):
        return None
    for dtype in TILES if library().narrow else ("float32",):
        for tag, rows in TILES[dtype].items():
            if inner == tagged(shape, tag, dtype):
                return HelperCall({name: outer.bytes, copy: inner.bytes}, PACK, (*shape, rows, int(dtype == "bf16")))
    return None


@dataclass(frozen=True)
class Sizes:
    """The sizes of a group of a convolution, as the helper wants them; lengths are pairs, (rows, columns)."""

    images: int
    channels: int
    image: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...]
    out: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]

    def numbers(self, x: Desc, y: Desc) -> tuple[int, ...]:
        """Return all of them, and how many channels of bottom and top lie side by side."""
        there = (self.images, self.channels, *self.image, self.filters, *self.kernel, *self.out)
        parts = (block() if is_blocked(desc) else desc.shape[1] for desc in (x, y))
        return (*there, *self.stride, *self.pad, *parts)

    @property
    def back(self) -> Sizes:
        """Those of the convolution that leads from the gradient of the top to that of the bottom; the stride is 1."""
        pad = tuple(extent - 1 - pad for extent, pad in zip(self.kernel, self.pad, strict=True))
        return Sizes(self.images, self.filters, self.out, self.channels, self.kernel, self.image, (1, 1), pad)

    @property
    def block(self) -> int:
        """Bytes of 16 images, with columns of zeros beside."""
        return 4 * LANES * self.image[0] * (self.image[1] + 2 * self.pad[1]) * self.channels

    @property
    def line(self) -> int:
        """Bytes of a row of 16 results."""
        return 4 * LANES * self.out[1] * self.filters


def is_blocked(desc: Desc) -> bool:
    """Return whether images lie in whole blocks of channels."""
    return desc.shape[1] % block() == 0 and desc == describe(desc.shape, BLOCKED)


def served(desc: Desc) -> Desc:
    """Return a layout that the helper reads: this one, or that with the channels last."""
    return desc if is_blocked(desc) else describe(desc.shape, CHANNELS_LAST)


class DirectConvolution:
    """The parts of a convolution of float32, over buffers whose channels come last or in blocks.

    Args:
        relu: whether the forward pass applies ReLU.
        keeps: whether the turned filters are kept from pass to pass.
    """

    def __init__(self, geometry: Geometry, *, relu: bool, keeps: bool) -> None:
        g = geometry
        channels = g.weight[1]
        self.groups = g.channels // channels
        self.sizes = Sizes(
            g.images, channels, tuple(g.image), g.filters // self.groups, g.kernel, tuple(g.out), g.stride, g.pad
        )
        self.relu, self.keeps = relu, keeps
        self.workers = number_of_threads()
        self.usual = has_avx512() and g.dilation == (1, 1)
        self.weight, self.bias = plain(*g.weight).bytes, 4 * g.filters

    def has(self, part: str) -> bool:
        """Return whether it computes "forward", "weights" or "data"."""
        sizes = self.sizes.back if part == "data" else self.sizes
        steps = self.sizes.stride == (1, 1) or part != "data"
        return self.usual and self.groups == 1 and steps and min(sizes.pad) >= 0 and sizes.block <= MOST

    def forward(self, x: Desc, y: Desc, bias: str) -> list[Call]:
        """Return the calls of y = x * weight + bias; `bias` is "" where there is none."""
        before, source = into("x", x, served(x))
        result, after = out_of("y", y, served(y))
        return [*before, *self._convolution(self.sizes, source, bias, result, relu=self.relu), *after]

    def data(self, x: Desc, y: Desc, top: str) -> list[Call]:
        """Return the calls of dx from the gradient `top` of y: a convolution with filters that are turned round."""
        before, source = into(top, y, served(y))
        result, after = out_of("dx", x, served(x))
        return [*before, *self._convolution(self.sizes.back, source, "", result, back=True), *after]

    def _convolution(
        self, sizes: Sizes, source: Buffer, bias: str, result: Buffer, *, relu: bool = False, back: bool = False
    ) -> list[Call]:
        (x, x_desc), (y, y_desc) = source, result
        turned = "Turned weight" if self.keeps else "turned weight"
        filters = (self.sizes.filters, self.sizes.channels, *self.sizes.kernel)
        turning = HelperCall({"weight": self.weight, turned: self.weight}, DIRECT_FILTERS, (*filters, int(back)), once=self.keeps)
        buffers = {
            x: x_desc.bytes,
            turned: self.weight,
            bias: self.bias,
            y: y_desc.bytes,
            "lanes": (sizes.block + sizes.line) * self.workers,
        }
        return [turning, HelperCall(buffers, DIRECT, (*sizes.numbers(x_desc, y_desc), int(relu)), self.workers)]

    def weights(self, x: Desc, y: Desc, top: str, bias: str) -> list[Call]:
        """Return the calls of the gradients of weight and bias, `bias` by name as above."""
        sizes = self.sizes
        before, (source, x) = into("x", x, served(x))
        also, (gradient, y) = into(top, y, served(y))
        blocks = -(-sizes.images // LANES) * (sizes.block + sizes.out[0] * sizes.line)
        sums = 4 * LANES * SIDE * sizes.kernel[1] * sizes.channels * self.workers
        buffers = {
            source: x.bytes,
            gradient: y.bytes,
            "dweight": self.weight,
            bias: self.bias,
            "lanes": blocks + sums,
        }
        return [*before, *also, HelperCall(buffers, DIRECT_WEIGHTS, sizes.numbers(x, y), self.workers)]
