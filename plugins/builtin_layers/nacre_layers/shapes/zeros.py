"""Zeros: a blob of zeros for each image."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Layer, LayerState, Names, Shape, default, exactly, positive


class ZerosLayer(Layer):
    """y = 0: a blob of zeros with as many images as the bottom, such as the first state of a recurrent net.

    Example:
        [[layer]]
        type = "Zeros"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["state"]  # (8, 10)
        shape = [10]
    """

    bottoms: Annotated[Names, exactly(1), "a blob with as many images"]
    tops: Annotated[Names, exactly(1), "the zeros"]
    shape: Annotated[Shape, positive, "shape of each image's zeros; without it a single number"] = default(())


class ZerosState(LayerState, of=ZerosLayer, reads="", capturable=True):
    """`ZerosLayer` on any backend."""

    def __init__(self, layer: ZerosLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((inputs[0].shape[0], *layer.shape))]

    def forward(self, inputs: list[Array]) -> None:
        self.blobs[0][...] = 0

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Zeros have no gradient."""
