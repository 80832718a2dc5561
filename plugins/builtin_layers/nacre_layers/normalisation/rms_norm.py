"""RMSNorm: divides the numbers of each record by the root of the mean of their squares."""

from __future__ import annotations

from typing import Annotated

from nacre import Identity, Names, Neuron, exactly, non_zero, positive

from ..fields import ScaleFields
from .base import Standard
from .layer_norm import LayerNormState


class RMSNormLayer(ScaleFields, has_param=True, has_neuron=True, can_do_bp=True):
    """y = scale · x / sqrt(mean(x²) + epsilon), over the axes from `axis` to the last.

    The mean is that of the squares at one index of the axes before; scale has the shape of the axes from `axis` on. So
    no mean is subtracted, and no bias added: a LayerNorm with half the work. Zhang and Sennrich, "Root mean square
    layer normalization", 2019; PyTorch's `RMSNorm`, whose default of epsilon is 1.2e-7 in float32.

    Example:
        [[layer]]
        type = "RMSNorm"
        bottoms = ["tokens"]  # (8, 10, 64)
        tops = ["normal"]  # (8, 10, 64)
        axis = -1
    """

    bottoms: Annotated[Names, exactly(1), "the blob to normalise"]
    tops: Annotated[Names, exactly(1), "the normalised blob"]
    axis: Annotated[int, non_zero, "first of the axes to normalise together"] = 1
    epsilon: Annotated[float, positive, "added to the mean of the squares"] = 1e-5
    scale: Annotated[bool, "whether there is a scale"] = True
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()


class RMSNormState(LayerNormState, of=RMSNormLayer, reads="", capturable=True):
    """`RMSNormLayer` on any backend: a LayerNorm without means and a bias."""

    learns = ("scale",)

    def standard_of(self, shape: tuple[int, int, int]) -> Standard:
        return Standard(self.backend, shape, self.layer.epsilon, centred=False)
