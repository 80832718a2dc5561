"""Convolutions of 3 x 3 and 5 x 5 by Winograd's minimal filtering, in the helper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dnnl.primitives import Buffer, Call, Desc, HelperCall, block, into
from .direct import (
    ALONE,
    LANES,
    MOST_OF_ALL,
    MOST_TILES,
    ROOM,
    ROOM_OF_ALL,
    TILES_AT_ONCE,
    DirectConvolution,
    is_blocked,
    served,
)
from .native import WINOGRAD_FILTERS, WINOGRAD, WINOGRAD_WEIGHTS

if TYPE_CHECKING:
    from .direct import Sizes


class WinogradConvolution(DirectConvolution):
    """The parts of convolutions of 3 x 3 and 5 x 5 of float32, by Winograd's minimal filtering."""

    KERNELS = ((3, 3), (5, 5))

    def has(self, part: str) -> bool:
        g = self.sizes.back if part == "data" else self.sizes
        whole = g.channels % LANES == 0 == g.filters % LANES and block() == LANES
        return self.usual and g.kernel in self.KERNELS and self.sizes.stride == (1, 1) and whole and min(g.pad) >= 0

    @property
    def edge(self) -> int:
        """Numbers in a row of a tile."""
        return self.sizes.kernel[0] + 1

    def _cells(self, numbers: int) -> int:
        """Return the bytes of all cells of a tile, of so many numbers each, and of a line between them."""
        return 4 * self.edge**2 * (numbers + LANES)

    def _tiles(self, numbers: int, least: int, most: int, room: int) -> int:
        """Return the tiles at a time that fit into so many bytes, where each has so many numbers in a cell."""
        fit = room // (4 * self.edge**2 * numbers) // TILES_AT_ONCE * TILES_AT_ONCE
        return min(most, max(least, fit))

    def _convolution(
        self, sizes: Sizes, source: Buffer, bias: str, result: Buffer, *, relu: bool = False, back: bool = False
    ) -> list[Call]:
        (x, x_desc), (y, y_desc) = source, result
        turned = "Tiled weight" if self.keeps else "tiled weight"
        size = self.groups * self._cells(sizes.channels * sizes.filters)
        filters = (self.sizes.filters, self.sizes.channels, int(back), self.groups, self.edge)
        tiling = HelperCall({"weight": self.weight, turned: size}, WINOGRAD_FILTERS, filters, once=self.keeps)
        tiles = self._tiles(sizes.channels, TILES_AT_ONCE, MOST_TILES, ROOM)
        buffers = {
            x: x_desc.bytes,
            turned: size,
            bias: self.bias,
            y: y_desc.bytes,
            "lanes": (self._cells(tiles * sizes.channels) + self._cells(tiles * 2 * LANES)) * self.workers,
        }
        numbers = self._numbers(sizes, x_desc, y_desc, int(relu), tiles)
        return [tiling, HelperCall(buffers, WINOGRAD, numbers, self.workers)]

    def weights(self, x: Desc, y: Desc, top: str, bias: str) -> list[Call]:
        sizes = self.sizes
        before, (source, x) = into("x", x, served(x))
        also, (gradient, y) = into(top, y, served(y))
        together = sizes.channels + sizes.filters
        workers = self.workers if self._cells(sizes.channels * sizes.filters) <= ALONE else 0
        tiles = (
            self._tiles(together, TILES_AT_ONCE, MOST_TILES, ROOM)
            if workers
            else self._tiles(together, MOST_TILES, MOST_OF_ALL, ROOM_OF_ALL)
        )
        parts = (tiles * sizes.channels, tiles * sizes.filters, sizes.channels * sizes.filters)
        buffers = {
            source: x.bytes,
            gradient: y.bytes,
            "dweight": self.weight,
            bias: self.bias,
            "lanes": (sum(map(self._cells, parts)) + 4 * sizes.filters) * max(workers, 1),
        }
        return [*before, *also, HelperCall(buffers, WINOGRAD_WEIGHTS, self._numbers(sizes, x, y, 0, tiles), workers)]

    def _numbers(self, sizes: Sizes, x: Desc, y: Desc, relu: int, tiles: int) -> tuple[int, ...]:
        """Return the numbers of winograd.c: sizes, whether x and y are in blocks, whether ReLU, groups, tiles, edge."""
        there = (sizes.images, sizes.channels, *sizes.image, sizes.filters, *sizes.out, *sizes.pad)
        return (*there, int(is_blocked(x)), int(is_blocked(y)), relu, self.groups, tiles, self.edge)
