"""Convolutions of 3 x 3 and 5 x 5 of float32 by Winograd's minimal filtering, by the helper: see winograd.c."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dnnl.primitives import Buffer, Call, Desc, HelperCall, block, into
from .direct import DirectConvolution, is_blocked, served
from .native import CONSTANTS, LANES

if TYPE_CHECKING:
    from .direct import Sizes

TILES = CONSTANTS["WINOGRAD_TILES"]
"""Tiles of a product."""


MOST_TILES, ROOM = 48, 1 << 19
MOST_OF_ALL, ROOM_OF_ALL = 1 << 10, 1 << 21
"""Tiles at a time, and the bytes that they may take: of a thread, and of all for the gradient of the filters."""


ALONE = 1 << 20
"""Bytes up to which each worker has sums of its own for the gradient of the filters."""


class WinogradConvolution(DirectConvolution):
    """The stages of convolutions of 3 x 3 and 5 x 5 of float32, by Winograd's minimal filtering."""

    KERNELS = ((3, 3), (5, 5))

    def has(self, stage: str) -> bool:
        g = self.sizes.back if stage == "data" else self.sizes
        whole = g.channels % LANES == 0 == g.filters % LANES and block() == LANES
        kernel, padded = tuple(axis.kernel for axis in g.axes), all(axis.pad >= 0 for axis in g.axes)
        return self.usual and kernel in self.KERNELS and self.unstrided and whole and padded

    @property
    def edge(self) -> int:
        """Numbers in a row of a tile."""
        return self.sizes.axes[0].kernel + 1

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
        size = self.groups * self._cells(sizes.channels * sizes.filters)
        filters = {"filters": self.sizes.filters, "channels": self.sizes.channels, "groups": self.groups}
        tiling = HelperCall(
            {"w": (self.names[0], self.weight), "tiled": (tiled, size)},
            "winograd_filters",
            {**filters, "edge": self.edge, "back": back},
            once=self.keeps,
        )
        tiles = self._tiles(sizes.channels, TILES, MOST_TILES, ROOM)
        scratch = (self._cells(tiles * sizes.channels) + self._cells(tiles * 2 * LANES)) * self.workers
        buffers = {
            "x": (x, x_desc.bytes),
            "w": (tiled, size),
            "bias": (bias, self.bias),
            "y": (y, y_desc.bytes),
            "scratch": ("scratch", scratch),
        }
        numbers = {**self._numbers(sizes, x_desc, y_desc), "tiles": tiles, "relu": relu}
        return [tiling, HelperCall(buffers, "winograd", numbers, self.workers)]

    def weights(self, bottom: Buffer, top: Buffer, bias: str) -> list[Call]:
        sizes = self.sizes
        before, (source, x) = into(*bottom, served(bottom[1]))
        also, (gradient, y) = into(*top, served(top[1]))
        together = sizes.channels + sizes.filters
        workers = self.workers if self._cells(sizes.channels * sizes.filters) <= ALONE else 0
        tiles = (
            self._tiles(together, TILES, MOST_TILES, ROOM)
            if workers
            else self._tiles(together, MOST_TILES, MOST_OF_ALL, ROOM_OF_ALL)
        )
        pieces = (tiles * sizes.channels, tiles * sizes.filters, sizes.channels * sizes.filters)
        scratch = (sum(map(self._cells, pieces)) + 4 * sizes.filters) * max(workers, 1)
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
        return {**sizes.numbers, **blocked, "groups": self.groups, "edge": self.edge}
