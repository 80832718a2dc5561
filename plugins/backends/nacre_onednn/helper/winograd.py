"""Convolutions by Winograd's minimal filtering, by the helper: see winograd.c."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, ClassVar

from ..dnnl.primitives import Buffer, Call, Desc, HelperCall, block, into
from .direct import DirectConvolution, is_blocked, served
from .native import CONSTANTS, LANES

if TYPE_CHECKING:
    from nacre_layers.convolution.geometry import Geometry

    from .direct import Sizes

TILES, WINDOW = CONSTANTS["WINOGRAD_TILES"], CONSTANTS["WINOGRAD_WINDOW"]
"""Tiles of a product, and cells of a filter, at most."""


MOST_TILES, ROOM = 48, 1 << 19
MOST_OF_ALL, ROOM_OF_ALL = 1 << 10, 1 << 21
"""Tiles at a time, and the bytes that they may take: of a thread, and of all for the gradient of the filters."""

LEAST = {3: 48, 4: 24, 5: TILES, 6: TILES}
"""Tiles at a time even if they take more, by their edge: for each such number all filters are read again."""


EXACT = 64
"""Numbers from which on sums in tiles of four by four results are as exact as direct ones, which round each time."""


ALONE = 1 << 20
"""Bytes up to which each worker has sums of its own for the gradient of the filters."""


class WinogradConvolution(DirectConvolution):
    """The stages of convolutions of 2 x 2, 3 x 3 and 5 x 5, and with a stride of 2 of 4 x 4 and 6 x 6.

    With three axes, these are the last two; filters may see any number of planes along the first. Images are of float32
    or of bf16; sums are of float32.

    Args:
        results: in a row of a tile, 2 or 4. More take fewer products, but digits of sums over few channels.
    """

    KERNELS: ClassVar = {2: {1: (2, 3, 5), 2: (4, 6)}, 4: {1: (2, 3), 2: (4, 6)}}
    """The kernels that are served, by the results and by their stride."""

    def __init__(self, geometry: Geometry, *, relu: bool, keeps: bool, results: int = 2, narrow: bool = False) -> None:
        super().__init__(geometry, relu=relu, keeps=keeps)
        self.results, self.narrow = results, narrow

    def has(self, stage: str) -> bool:
        g = self.sizes
        if not (self.usual and g.channels % LANES == 0 == g.filters % LANES and block() == LANES):
            return False
        down, across = g.axes
        alike = (down.kernel, down.stride) == (across.kernel, across.stride)
        known = down.kernel in self.KERNELS[self.results].get(down.stride, ())
        if not (alike and known and self._is_exact(stage)) or g.deep.kernel * down.kernel**2 > WINDOW:
            return False
        if stage == "data" and self.step == 1:
            return all(axis.pad >= 0 for axis in g.back.axes)
        # with a step, a pixel that no filter sees is in no tile
        return stage != "data" or all(axis.span >= axis.pad + axis.length for axis in g.axes)

    def _is_exact(self, stage: str) -> bool:
        """Return whether the sums of a stage are long enough, or tiles so small that it does not matter."""
        g = self.sizes
        summed = {
            "forward": g.channels * self.many,
            "data": g.filters * g.deep.kernel,
            "weights": g.images * g.deep.count * prod(axis.count for axis in g.axes),
        }
        return self.results == 2 or self.narrow or summed[stage] >= EXACT

    @property
    def step(self) -> int:
        """The stride."""
        return self.sizes.axes[0].stride

    @property
    def many(self) -> int:
        """How many planes and phases of an image stand for channels."""
        return self.step**2 * self.sizes.deep.kernel

    @property
    def side(self) -> int:
        """The edge of a filter of a phase."""
        return self.sizes.axes[0].kernel // self.step

    @property
    def edge(self) -> int:
        """Numbers in a row of a tile."""
        return self.results + self.side - 1

    @property
    def back(self) -> Sizes:
        return super().back if self.step == 1 else self.sizes

    def _cells(self, numbers: int) -> int:
        """Return the bytes of all cells of a tile, of so many numbers each, and of a line between them."""
        return 4 * self.edge**2 * (numbers + LANES)

    def _tiles(self, numbers: int, least: int, most: int, room: int) -> int:
        """Return the tiles at a time that fit into so many bytes, where each has so many numbers in a cell."""
        fit = room // (4 * self.edge**2 * numbers) // TILES * TILES
        return min(most, max(least, fit))

    def _convolution(
        self, sizes: Sizes, source: Buffer, bias: str, result: Buffer, *, relu: bool = False, back: bool = False
    ) -> list[Call]:
        (x, x_desc), (y, y_desc) = source, result
        tiled = "Tiled weight" if self.keeps else "tiled weight"
        size = self.groups * self._cells(sizes.channels * sizes.filters * self.many)
        counts = {"filters": self.sizes.filters, "channels": self.sizes.channels, "groups": self.groups}
        filters = {**counts, "edge": self.edge, "side": self.side, "step": self.step, "depth": self.sizes.deep.kernel}
        tiling = HelperCall(
            {"w": (self.names[0], self.weight), "tiled": (tiled, size)},
            "winograd_filters",
            {**filters, "back": back},
            once=self.keeps,
        )
        numbers = {**self._numbers(sizes, x_desc, y_desc), "relu": relu}
        channels = sizes.channels * self.many
        if back and self.step > 1:
            channels, numbers = sizes.filters * sizes.deep.kernel, _turned(numbers)
        tiles = self._tiles(channels, LEAST[self.edge], MOST_TILES, ROOM)
        scratch = (self._cells(tiles * channels) + self._cells(tiles * 2 * LANES)) * self.workers
        buffers = {
            "x": (x, x_desc.bytes),
            "w": (tiled, size),
            "bias": (bias, self.bias),
            "y": (y, y_desc.bytes),
            "scratch": ("scratch", scratch),
        }
        return [tiling, HelperCall(buffers, "winograd", {**numbers, "tiles": tiles}, self.workers)]

    def weights(self, bottom: Buffer, top: Buffer, bias: str) -> list[Call]:
        sizes, channels = self.sizes, self.sizes.channels * self.many
        before, (source, x) = into(*bottom, served(bottom[1]))
        also, (gradient, y) = into(*top, served(top[1]))
        together = channels + sizes.filters
        workers = self.workers if self._cells(channels * sizes.filters) <= ALONE else 0
        tiles = (
            self._tiles(together, TILES, MOST_TILES, ROOM)
            if workers
            else self._tiles(together, MOST_TILES, MOST_OF_ALL, ROOM_OF_ALL)
        )
        of_tops = tiles * sizes.filters
        pieces = (tiles * channels, of_tops, channels * sizes.filters)
        sums = 4 * (of_tops + LANES + sizes.filters)
        scratch = (sum(map(self._cells, pieces)) + sums) * max(workers, 1)
        buffers = {
            "x": (source, x.bytes),
            "dy": (gradient, y.bytes),
            "dw": (self.names[1], self.weight),
            "db": (bias, self.bias),
            "scratch": ("scratch", scratch),
        }
        numbers = {**self._numbers(sizes, x, y), "tiles": tiles}
        return [*before, *also, HelperCall(buffers, "winograd_weights", numbers, workers)]

    def _numbers(self, sizes: Sizes, x: Desc, y: Desc) -> dict[str, int]:
        """Return the numbers of `winograd` in operations.h that all passes have."""
        blocked = {"x_blocked": is_blocked(x), "y_blocked": is_blocked(y)}
        steps = {"x_step": self.step, "y_step": 1}
        deep = sizes.deep
        planes = {"deep": deep.length, "out_deep": deep.count, "depth": deep.kernel, "before": deep.pad}
        tile = {"edge": self.edge, "side": self.side, "narrow": self.narrow}
        return {**sizes.numbers, **blocked, **steps, **planes, **tile, "groups": self.groups}


def _turned(numbers: dict[str, int]) -> dict[str, int]:
    """Return the numbers of a pass from top to bottom: each name has the number of its opposite."""
    pairs = (
        ("channels", "filters"), ("height", "out_height"), ("width", "out_width"), ("deep", "out_deep"),
        ("x_step", "y_step"),
    )  # fmt: skip
    turned = {one: numbers[other] for pair in pairs for one, other in (pair, pair[::-1])}
    return {**numbers, **turned, "before": numbers["depth"] - 1 - numbers["before"]}
