"""RBMHidden: the hidden units of a restricted Boltzmann machine."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, LayerState, Names, Parameter, exactly, positive

from ..fields import Weighted
from .units import Units, to_means


class RBMHiddenLayer(Weighted, has_param=True):
    """The means of the hidden units of a restricted Boltzmann machine, given the visible ones.

    h = σ(v Wᵀ + c), or of Gaussian units, which have variance 1, h = v Wᵀ + c.

    The bottom, of visible units, is read as (images, features); the top is (images, output_dim). `weight` is
    (output_dim, features) and `bias` (output_dim), as those of `InnerProduct`. With an `RBMVisible` that reads the top,
    the algorithm `CD` trains both. Alone, or after the `RBMVisible` of a trained net, it is an encoder, which learns
    nothing more. After SINGA's `RBMHid`.

    Example:
        [[layer]]
        type = "RBMHidden"
        bottoms = ["vis"]  # (8, 784)
        tops = ["hid"]  # (8, 500)
        output_dim = 500
    """

    bottoms: Annotated[Names, exactly(1), "the visible units"]
    tops: Annotated[Names, exactly(1), "the means of the hidden units"]
    output_dim: Annotated[int, positive, "number of hidden units"]
    units: Annotated[Units, "binary, or gaussian with variance 1"] = "binary"

    needs_algorithm = "CD"


def hidden_parameters(layer: RBMHiddenLayer, visible: int) -> list[Parameter]:
    """Declare the weight and the bias."""
    weight = Parameter.of(layer, "weight", (layer.output_dim, visible))
    return [weight, Parameter.of(layer, "bias", (layer.output_dim,))] if layer.bias else [weight]


class RBMHiddenState(LayerState, of=RBMHiddenLayer, reads=""):
    """`RBMHiddenLayer` on any backend."""

    def __init__(self, layer: RBMHiddenLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        images, *features = inputs[0].shape
        self.visible = prod(features)
        self.parameters = hidden_parameters(layer, self.visible)
        self.blobs = [backend.blob((images, layer.output_dim))]

    def forward(self, inputs: list[Array]) -> None:
        xp, h = self.backend.xp, self.blobs[0]
        xp.matmul(inputs[0].reshape(-1, self.visible), self.parameters[0].blob.T, out=h)
        for bias in self.parameters[1:]:
            xp.add(h, bias.blob, out=h)
        to_means(self.backend, self.layer.units, h)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: no loss reaches it, and CD's gradients are those of `Contrast`."""
