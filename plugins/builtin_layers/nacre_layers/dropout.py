"""Dropout: at random, some elements become 0."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Layer, LayerState, Names, exactly, fraction


class DropoutLayer(Layer, can_do_bp=True, is_inplace=True):
    """In phase `train` each element becomes 0 with probability `ratio`; the others are divided by 1 - ratio.

    The bottom, of any shape, is changed in place. In all other phases nothing is done. The mask is a function of the
    seed, the layer's name and the iteration: an element stays where the Philox uniform of its place (`nacre.random`,
    float32, C order) is `ratio` or more. Srivastava et al., "Dropout", 2014; after Mocha.jl's `DropoutLayer`.
    """

    bottoms: Annotated[Names, exactly(1), "what is dropped from"]
    ratio: Annotated[float, fraction, "probability to become 0"] = 0.5
    auto_scale: Annotated[bool, "divide the rest by 1 - ratio"] = True

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> DropoutState:
        return DropoutState(self, backend, inputs, diffs)


class DropoutState(LayerState, reads=""):
    """`DropoutLayer` on any backend."""

    def __init__(self, layer: DropoutLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        acts = self.phase == "train"
        self.blobs = [backend.blob(inputs[0].shape) if acts else backend.alias(inputs[0])]
        self.random = backend.random(layer.name)
        self.scale = 1 / (1 - layer.ratio) if layer.auto_scale else 1.0

    def ready(self) -> None:
        if self.phase == "train":
            self.uniform = self.backend.empty(self.blobs[0].shape, "float32")
            self.mask = self.backend.empty(self.blobs[0].shape)

    def forward(self, inputs: list[Array]) -> None:
        if self.phase != "train":
            return
        xp = self.backend.xp
        self.random.uniform(self.uniform)
        xp.greater_equal(self.uniform, self.layer.ratio, out=self.mask)
        xp.multiply(self.mask, self.scale, out=self.mask)
        xp.multiply(inputs[0], self.mask, out=self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        if diffs[0] is None:
            return
        if self.phase == "train":
            self.backend.xp.multiply(self.blobs_diff[0], self.mask, out=diffs[0])

    def shutdown(self) -> None:
        """Nothing is held."""
