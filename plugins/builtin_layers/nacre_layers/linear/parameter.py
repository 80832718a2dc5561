"""Parameter: a learned blob."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, LayerState, Names, Parameter, Shape, default, exactly, positive

from ..fields import WeightFields


class ParameterLayer(WeightFields, has_param=True, can_do_bp=True):
    """y = weight: a learned blob, which other layers read like any other.

    There are no bottoms. The top and `weight` have the given shape; for the layers that read it, its first axis counts
    the images. After Caffe's `Parameter`.

    Example:
        [[layer]]
        type = "Parameter"
        tops = ["image"]  # (1, 3, 32, 32)
        shape = [1, 3, 32, 32]
    """

    bottoms: Annotated[Names, exactly(0), "none"] = default(())
    tops: Annotated[Names, exactly(1), "the learned blob"]
    shape: Annotated[Shape, positive, "its shape, with the first axis"]

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if not self.shape:
            yield "shape=(), but a blob needs a first axis: shape = 1 makes a single number"


class ParameterState(LayerState, of=ParameterLayer, reads="", capturable=True):
    """`ParameterLayer` on any backend."""

    def __init__(self, layer: ParameterLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [Parameter.of(layer, "weight", layer.shape)]
        self.blobs = [backend.blob(layer.shape)]

    def forward(self, inputs: list[Array]) -> None:
        self.backend.xp.copyto(self.blobs[0], self.parameters[0].blob)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        if self.parameters[0].gradient is not None:
            self.backend.xp.copyto(self.parameters[0].gradient, self.blobs_diff[0])
