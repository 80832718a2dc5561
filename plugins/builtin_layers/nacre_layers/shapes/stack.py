"""Stack: several blobs as one, along a new axis."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, at_least, exactly

from ..axes import axis_of


class StackLayer(Layer, can_do_bp=True):
    """Put bottoms of one shape side by side along a new axis: y[:, i] = x_i for axis 1. The inverse of Unstack.

    Bottoms of one type make a top of that type, others one of the net's. As NumPy's `stack`.

    Example:
        [[layer]]
        type = "Stack"
        bottoms = ["first", "second"]  # (8, 10), (8, 10)
        tops = ["both"]  # (8, 2, 10)
    """

    bottoms: Annotated[Names, at_least(1), "the blobs, of one shape"]
    tops: Annotated[Names, exactly(1), "the blob with one axis more"]
    axis: Annotated[int, "the new axis in the top; not the batch axis"] = 1


class StackState(LayerState, of=StackLayer, reads="", capturable=True):
    """`StackLayer` on any backend."""

    def __init__(self, layer: StackLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = inputs[0].shape
        for name, one in zip(layer.bottoms, inputs, strict=True):
            if one.shape != shape:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' has the shape {one.shape}, but '{layer.bottoms[0]}' has {shape}",
                    "give it bottoms of one shape",
                )
        axis = axis_of(layer, (*shape, len(inputs)))
        dtypes = {one.dtype for one in inputs}
        self.blobs = [
            backend.blob((*shape[:axis], len(inputs), *shape[axis:]), inputs[0].dtype if len(dtypes) == 1 else None)
        ]
        self.parts = [(*[slice(None)] * axis, index) for index in range(len(inputs))]

    def forward(self, inputs: list[Array]) -> None:
        for x, part in zip(inputs, self.parts, strict=True):
            self.blobs[0][part] = x

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dx, part in zip(diffs, self.parts, strict=True):
            if dx is not None:
                dx[...] = self.blobs_diff[0][part]
