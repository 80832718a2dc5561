"""Convolutions by Winograd's minimal filtering, by the helper: see winograd.c."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, ClassVar

from ..dnnl.primitives import Buffer, Call, Desc, HelperCall, block, into
from .direct import DirectConvolution, is_blocked, served
from .native import CONSTANTS, LANES, lanes

if TYPE_CHECKING:
    from nacre_layers.convolution.geometry import Geometry

    from .direct import Sizes

TILES, WINDOW, LONG = (CONSTANTS[f"WINOGRAD_{name}"] for name in ("TILES", "WINDOW", "LONG"))
"""Tiles of a product; cells of a filter, at most; and numbers of a long tile in a cell."""


MOST_TILES, ROOM = 48, 1 << 19
MOST_OF_ALL, ROOM_OF_ALL = 1 << 10, 1 << 21
"""Tiles at a time, and the bytes that they may take: of a thread, and of all for the gradient of the filters."""

ROOM_OF_RESULTS = 1 << 18
"""The bytes that results of tiles may take, if those of 32 filters take less."""

LEAST = {9: 48, 16: 24}
"""Tiles at a time even if they take more, by their cells: for each such number all filters are read again."""


EXACT, EXACT_GRADIENT = 64, 2048
"""Numbers from which on sums of larger tiles are as exact as direct ones: over channels, and over pixels."""


ALONE = 1 << 20
"""Bytes up to which each worker has sums of its own for the gradient of the filters."""


class WinogradConvolution(DirectConvolution):
    """The stages of convolutions of 2 x 2, 3 x 3 and 5 x 5, and with a stride of 2 of 4 x 4 and 6 x 6.

    With three axes, these are the last two; filters may see any number of planes along the first. Images are of float32
    or of bf16; sums are of float32.

    Args:
        large: whether tiles have as many results as the digits of the images allow, instead of two by two.
        narrow: whether images are of bf16.
        paired: whether what tiles and filters become is rounded to bf16, so that a product multiplies pairs of them:
            for images of bf16, and two by two results. Filters of a phase have 2 x 2 or 3 x 3 cells then; others of
            bf16 have 5 x 5, or larger tiles.
    """

    ADDS = True
    KERNELS: ClassVar = {1: (2, 3, 5), 2: (4, 6)}
    """The kernels that are served, by their stride."""

    def __init__(
        self,
        geometry: Geometry,
        *,
        keeps: bool,
        large: bool = False,
        narrow: bool = False,
        paired: bool = False,
    ) -> None:
        super().__init__(geometry, keeps=keeps)
        self.large, self.narrow, self.paired = large, narrow, paired
        self.types = {"narrow": narrow, "paired": paired}
        self.word = 2 if paired else 1
        """Numbers in a word of a product."""

    def has(self, stage: str) -> bool:
        g = self.sizes
        width = lanes()
        if not (self.usual and g.channels % width == 0 == g.filters % width and block() == width):
            return False
        if self.narrow and width < LANES:
            return False
        down, across = g.axes
        alike = (down.kernel, down.stride) == (across.kernel, across.stride)
        known = down.kernel in self.KERNELS.get(down.stride, ())
        if not (alike and known) or g.deep.kernel * down.kernel**2 > WINDOW:
            return False
        if self.narrow and (self.large or self.paired) == (self.side == 5):
            return False
        if self.large and self._results(stage) == (2, 2):
            return False
        if stage == "data" and self.step == 1:
            return all(axis.pad >= 0 for axis in g.back.axes)
        # with a step, a pixel that no filter sees is in no tile
        return stage != "data" or all(axis.span >= axis.pad + axis.length for axis in g.axes)

    def _results(self, stage: str) -> tuple[int, int]:
        """Return the rows and columns of results of a tile."""
        g = self.sizes
        if not self.large or self.side == 5:
            return 2, 2
        if stage == "weights":
            exact = g.images * g.deep.count * prod(axis.count for axis in g.axes) >= EXACT_GRADIENT
        else:
            summed = g.channels * self.many if stage == "forward" else g.filters * g.deep.kernel
            exact = self.side == 2 and summed >= EXACT
        return (4, 4) if exact or self.narrow else (4, 2) if self.side == 3 else (2, 2)

    def _edges(self, stage: str) -> dict[str, int]:
        """Return the edges of a tile, and of a filter of a phase, by the names of operations.h."""
        tall, broad = (count + self.side - 1 for count in self._results(stage))
        return {"tall": tall, "broad": broad, "side": self.side}

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
    def back(self) -> Sizes:
        return super().back if self.step == 1 else self.sizes

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
        tiled = "Tiled weight" if self.keeps else "tiled weight"
        edges = self._edges("data" if back else "forward")
        cells = edges["tall"] * edges["broad"]
        size = self.groups * _bytes(cells, sizes.channels * sizes.filters * self.many // self.word)
        counts = {"filters": self.sizes.filters, "channels": self.sizes.channels, "groups": self.groups}
        filters = {**counts, **edges, "step": self.step, "depth": self.sizes.deep.kernel, **self.types}
        tiling = HelperCall(
            {"w": (self.names[0], self.weight), "tiled": (tiled, size)},
            "winograd_filters",
            {**filters, "back": back},
            once=self.keeps,
        )
        numbers = {**self._numbers(sizes, x_desc, y_desc), **edges, "relu": relu}
        channels = sizes.channels * self.many
        if back and self.step > 1:
            channels, numbers = sizes.filters * sizes.deep.kernel, _turned(numbers)
        words = channels // self.word
        tiles = self._share(numbers, _tiles(cells * words, LEAST.get(cells, TILES), MOST_TILES, ROOM))
        panel = _bytes(cells, tiles * 2 * lanes())
        panels = max(1, min(ROOM_OF_RESULTS // panel, -(-numbers["filters"] // (2 * lanes()))))
        scratch = (_bytes(cells, tiles * _row(words)) + panels * panel) * self.workers
        buffers = {
            "x": (x, x_desc.bytes),
            "w": (tiled, size),
            "bias": (bias, self.bias),
            "other": (added, y_desc.bytes),
            "y": (y, y_desc.bytes),
            "scratch": ("scratch", scratch),
        }
        return [tiling, HelperCall(buffers, "winograd", {**numbers, "tiles": tiles, "panels": panels}, self.workers)]

    def _share(self, numbers: Mapping[str, int], most: int) -> int:
        """Return how many tiles are worked on at a time, so that few tiles are as much work for each thread."""
        phases, side = numbers["y_step"], numbers["side"]
        rows, columns = (
            -(-numbers[pixels] // (phases * (numbers[edge] + 1 - side)))
            for pixels, edge in (("out_height", "tall"), ("out_width", "broad"))
        )
        tiles = numbers["images"] * numbers["out_deep"] * rows * columns
        each = min(tiles, -(-tiles * phases**2 // self.workers))
        strips = -(-each // most)
        return -(-each // (strips * TILES)) * TILES

    def weights(self, bottom: Buffer, top: Buffer, bias: str) -> list[Call]:
        sizes, channels = self.sizes, self.sizes.channels * self.many
        before, (source, x) = into(*bottom, served(bottom[1]))
        also, (gradient, y) = into(*top, served(top[1]))
        edges = self._edges("weights")
        cells = edges["tall"] * edges["broad"]
        together = cells * (channels + sizes.filters) // self.word
        workers = self.workers if _bytes(cells, channels * sizes.filters) <= ALONE else 0
        tiles = (
            _tiles(together, TILES, MOST_TILES, ROOM)
            if workers
            else _tiles(together, MOST_TILES, MOST_OF_ALL, ROOM_OF_ALL)
        )
        rows = tiles // self.word
        of_tops = rows * _row(sizes.filters)
        pieces = (rows * _row(channels), of_tops, channels * sizes.filters)
        sums = _bytes(1, of_tops) + 4 * sizes.filters
        scratch = (sum(_bytes(cells, piece) for piece in pieces) + sums) * max(workers, 1)
        buffers = {
            "x": (source, x.bytes),
            "dy": (gradient, y.bytes),
            "dw": (self.names[1], self.weight),
            "db": (bias, self.bias),
            "scratch": ("scratch", scratch),
        }
        numbers = {**self._numbers(sizes, x, y), **edges, "tiles": tiles}
        return [*before, *also, HelperCall(buffers, "winograd_weights", numbers, workers)]

    def _numbers(self, sizes: Sizes, x: Desc, y: Desc) -> dict[str, int]:
        """Return the numbers of `winograd` in operations.h that all passes have."""
        blocked = {"x_blocked": is_blocked(x), "y_blocked": is_blocked(y)}
        steps = {"x_step": self.step, "y_step": 1}
        deep = sizes.deep
        planes = {"deep": deep.length, "out_deep": deep.count, "depth": deep.kernel, "before": deep.pad}
        return {**sizes.numbers, **blocked, **steps, **planes, **self.types, "groups": self.groups}


def _bytes(cells: int, numbers: int) -> int:
    """Return the bytes of so many cells, each of so many numbers and a line between them."""
    return 4 * cells * (numbers + LANES)


def _row(numbers: int) -> int:
    """Return the numbers of a tile in a cell, and of the line behind it where these are many."""
    return numbers if numbers < LONG else numbers + LANES


def _tiles(numbers: int, least: int, most: int, room: int) -> int:
    """Return the tiles at a time that fit into so many bytes, where each has so many numbers."""
    return min(most, max(least, room // (4 * numbers) // TILES * TILES))


def _turned(numbers: dict[str, int]) -> dict[str, int]:
    """Return the numbers of a pass from top to bottom: each name has the number of its opposite."""
    pairs = (
        ("channels", "filters"), ("height", "out_height"), ("width", "out_width"), ("deep", "out_deep"),
        ("x_step", "y_step"),
    )  # fmt: skip
    turned = {one: numbers[other] for pair in pairs for one, other in (pair, pair[::-1])}
    return {**numbers, **turned, "before": numbers["depth"] - 1 - numbers["before"]}
