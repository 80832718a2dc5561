"""Tile: repeats a blob along an axis."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, Layer, LayerState, Names, as_many_as, at_least, non_zero, positive

from ..axes import axis_of


class TileLayer(Layer, can_do_bp=True):
    """Repeat every bottom `tiles` times along `axis`; the gradients of the tiles are added up.

    With `axis` 1 y[n, c] = x[n, c mod C], for a bottom (N, C, ...) and c from 0 to tiles · C - 1.

    A bottom (2, 3, 4) becomes (2, 3 tiles, 4); one top for each bottom, of its type. After Caffe's `Tile`.

    Example:
        [[layer]]
        type = "Tile"
        bottoms = ["code"]  # (8, 5)
        tops = ["tiled"]  # (8, 20)
        tiles = 4
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to repeat"]
    tops: Annotated[Names, as_many_as("bottoms"), "the repeated blobs"]
    axis: Annotated[int, non_zero, "axis along which to repeat them"] = 1
    tiles: Annotated[int, positive, "number of repetitions"]


class TileState(LayerState, of=TileLayer, reads="", capturable=True):
    """`TileLayer` on any backend: a tile is all from `axis` on, and tops are read as (before, tiles, tile)."""

    def __init__(self, layer: TileLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shapes: list[tuple[int, int, int]] = []
        for one in inputs:
            axis = axis_of(layer, one.shape)
            self.shapes.append((prod(one.shape[:axis]), layer.tiles, prod(one.shape[axis:])))
            shape = (*one.shape[:axis], layer.tiles * one.shape[axis], *one.shape[axis + 1 :])
            self.blobs.append(backend.blob(shape, one.dtype))

    def forward(self, inputs: list[Array]) -> None:
        for x, y, shape in zip(inputs, self.blobs, self.shapes, strict=True):
            before, _, tile = shape
            self.backend.xp.copyto(y.reshape(shape), x.reshape(before, 1, tile))

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dy, dx, shape in zip(self.blobs_diff, diffs, self.shapes, strict=True):
            if dx is not None:
                before, _, tile = shape
                self.backend.xp.sum(dy.reshape(shape), axis=1, out=dx.reshape(before, tile))
