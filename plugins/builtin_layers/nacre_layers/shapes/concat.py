"""Concat: joins several blobs along an axis."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, at_least, exactly

from ..axes import Joins, axis_of, check_whole, parts_along


class ConcatLayer(Layer, can_do_bp=True):
    """Join the bottoms along `axis`; all other axes must agree.

    With `axis` 1 y[n, start_i + c] = x_i[n, c], where bottom i begins at start_i, the lengths of those before it.

    Bottoms of one type make a top of that type, others one of the net's. After Mocha.jl's `ConcatLayer`; axis 1 is the
    channels, and axis 0 joins batches: then all their rows must be real, or it raises DataError.

    Example:
        [[layer]]
        type = "Concat"
        bottoms = ["left", "right"]  # (8, 16, 12, 12), (8, 32, 12, 12)
        tops = ["both"]  # (8, 48, 12, 12)
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to join"]
    tops: Annotated[Names, exactly(1), "the joined blob"]
    axis: Annotated[int, "axis along which to join them"] = 1

    def not_by_records(self) -> str:
        return "" if self.axis else "axis=0 joins the records of a batch"


class ConcatState(Joins, LayerState, of=ConcatLayer, reads=""):
    """`ConcatLayer` on any backend."""

    def __init__(self, layer: ConcatLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        first = inputs[0].shape
        axis = axis_of(layer, first, 0)
        for name, one in zip(layer.bottoms, inputs, strict=True):
            alike = len(one.shape) == len(first)
            if not alike or one.shape[:axis] + one.shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' of shape {one.shape} does not fit "
                    f"'{layer.bottoms[0]}' of shape {first} along axis {axis}"
                )
        ends = list(itertools.accumulate((one.shape[axis] for one in inputs), initial=0))
        self.batch = max(one.shape[0] for one in inputs) if axis == 0 else 0
        self.parts = parts_along(axis, ends)
        dtypes = {one.dtype for one in inputs}
        dtype = inputs[0].dtype if len(dtypes) == 1 else None
        self.blobs = [backend.blob((*first[:axis], ends[-1], *first[axis + 1 :]), dtype)]

    def forward(self, inputs: list[Array]) -> None:
        if self.batch:
            check_whole(self.layer, self.backend, self.batch)
        for x, part in zip(inputs, self.parts, strict=True):
            self.backend.xp.copyto(self.blobs[0][part], x)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dx, part in zip(diffs, self.parts, strict=True):
            if dx is not None:
                self.backend.xp.copyto(dx, self.blobs_diff[0][part])
