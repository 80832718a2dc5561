"""NewName: multiplies by one number, which it learns."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Initializer, Layer, LayerState, Names, Parameter, default, exactly


class NewNameLayer(Layer, has_param=True, can_do_bp=True):
    """y = factor · x, for a bottom of any shape.

    Example:
        [[layer]]
        type = "NewName"
        bottoms = ["x"]
        tops = ["y"]
    """

    bottoms: Annotated[Names, exactly(1), "the blob to multiply"]
    tops: Annotated[Names, exactly(1), "the product"]
    factor_init: Annotated[Initializer, "first value of the factor"] = default(1.0)


class NewNameState(LayerState, of=NewNameLayer, reads="inputs"):
    """`NewNameLayer` on any backend."""

    def __init__(self, layer: NewNameLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]  # only a shape; the net gives it memory
        self.factor = Parameter("factor", (1,), init=layer.factor_init)
        self.parameters = [self.factor]

    def forward(self, inputs: list[Array]) -> None:
        """Write the product into the top."""
        self.backend.xp.multiply(inputs[0], self.factor.blob, out=self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Write the gradients: of the factor, Σ x · dy, and of the bottom, factor · dy."""
        xp, x, dy, dx = self.backend.xp, inputs[0], self.blobs_diff[0], diffs[0]
        if self.factor.gradient is not None:  # None: nobody needs it
            part = self.backend.scratch(x.shape)
            xp.multiply(x, dy, out=part)
            self.factor.gradient[0] = part.sum()
        if dx is not None:
            xp.multiply(dy, self.factor.blob, out=dx)
