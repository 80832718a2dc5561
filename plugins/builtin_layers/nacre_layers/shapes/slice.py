"""Slice: cuts a blob into parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, Shape, at_least, default, exactly, positive

from ..axes import Joins, axis_of, check_whole, parts_along


class SliceLayer(Layer, can_do_bp=True):
    """Cut the bottom along `axis` into parts, one for each top: y_i = x[:, points[i - 1] : points[i]] for axis 1.

    `points` are where the second and later parts begin, one fewer than tops; without them all parts have the same
    length. The inverse of Concat. Raises ConfigError if a part would be empty, and DataError if `axis` is 0 and not all
    rows of the batch are real. After Caffe's `Slice`.

    Example:
        [[layer]]
        type = "Slice"
        bottoms = ["both"]  # (8, 48, 12, 12)
        tops = ["left", "right"]  # (8, 16, 12, 12), (8, 32, 12, 12)
        points = [16]
    """

    bottoms: Annotated[Names, exactly(1), "the blob to cut"]
    tops: Annotated[Names, at_least(1), "the parts"]
    axis: Annotated[int, "axis along which to cut it"] = 1
    points: Annotated[Shape, positive, "where the parts after the first begin; by default all are equal"] = default(())

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.points and len(self.points) != len(self.tops) - 1:
            yield f"points={self.points}, but {len(self.tops)} tops need {len(self.tops) - 1}"
        if any(one >= other for one, other in itertools.pairwise(self.points)):
            yield f"points={self.points}, but each must be above the one before it"

    def not_by_records(self) -> str:
        return "" if self.axis else "axis=0 joins the records of a batch"


class SliceState(Joins, LayerState, of=SliceLayer, reads=""):
    """`SliceLayer` on any backend."""

    def __init__(self, layer: SliceLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = inputs[0].shape
        axis = axis_of(layer, shape, 0)
        length = shape[axis]
        if not layer.points and length % len(layer.tops):
            raise ConfigError(
                f"{layer.name}: axis {axis} of length {length} cannot be cut into {len(layer.tops)} equal parts",
                "set `points`",
            )
        if layer.points and layer.points[-1] >= length:
            raise ConfigError(f"{layer.name}: points={layer.points}, but axis {axis} has the length {length}")
        each = length // len(layer.tops)
        ends = [0, *layer.points, length] if layer.points else range(0, length + 1, each)
        self.batch = length if axis == 0 else 0
        self.parts = parts_along(axis, ends)
        self.blobs = [
            backend.blob((*shape[:axis], end - start, *shape[axis + 1 :]), inputs[0].dtype)
            for start, end in itertools.pairwise(ends)
        ]

    def forward(self, inputs: list[Array]) -> None:
        if self.batch:
            check_whole(self.layer, self.backend, self.batch)
        for y, part in zip(self.blobs, self.parts, strict=True):
            self.backend.xp.copyto(y, inputs[0][part])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        if diffs[0] is None:
            return
        for dy, part in zip(self.blobs_diff, self.parts, strict=True):
            self.backend.xp.copyto(diffs[0][part], dy)
