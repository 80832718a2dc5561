"""Unstack: a blob taken apart along an axis."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, at_least, exactly

from ..axes import axis_of


class UnstackLayer(Layer, can_do_bp=True):
    """Take the bottom apart along `axis`, which the tops do not have: y_i = x[:, i] for axis 1. The inverse of Stack.

    There must be as many tops as the axis is long. As NumPy's `unstack`.

    Example:
        [[layer]]
        type = "Unstack"
        bottoms = ["both"]  # (8, 2, 10)
        tops = ["first", "second"]  # (8, 10), (8, 10)
    """

    bottoms: Annotated[Names, exactly(1), "the blob to take apart"]
    tops: Annotated[Names, at_least(1), "its parts, without the axis"]
    axis: Annotated[int, "the axis; not the batch axis"] = 1


class UnstackState(LayerState, of=UnstackLayer, reads="", capturable=True):
    """`UnstackLayer` on any backend."""

    def __init__(self, layer: UnstackLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape, count = inputs[0].shape, len(layer.tops)
        axis = axis_of(layer, shape)
        if shape[axis] != count:
            raise ConfigError(
                f"{layer.name}: axis {axis} of bottom '{layer.bottoms[0]}' of shape {shape} has the length "
                f"{shape[axis]}, but there are {count} tops",
                f"give it {shape[axis]} tops; in an Unroll, write steps = {shape[axis]}",
            )
        self.blobs = [backend.blob((*shape[:axis], *shape[axis + 1 :]), inputs[0].dtype) for _ in range(count)]
        self.parts = [(*[slice(None)] * axis, index) for index in range(count)]

    def forward(self, inputs: list[Array]) -> None:
        for y, part in zip(self.blobs, self.parts, strict=True):
            y[...] = inputs[0][part]

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        if diffs[0] is not None:
            for dy, part in zip(self.blobs_diff, self.parts, strict=True):
                diffs[0][part] = dy
