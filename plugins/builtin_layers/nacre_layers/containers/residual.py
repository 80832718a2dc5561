"""Residual: layers whose result is added to what they read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from nacre import Identity, Inner, Layer, Layers, Names, Neuron, at_least, default, exactly

from ..elementwise.element_wise import ElementWiseLayer
from ..fields import Learning
from .chain import Chain, unused
from .sequential import SequentialLayer


class ResidualLayer(Learning):
    """y = f(x + block(x)), with a neuron f: the layers of the block one after the other, as in a Sequential.

    Where the block changes the shape, `projection` has layers that change x alike, such as a Convolution of one pixel;
    they are called `projection/...`. He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2015.

    Example:
        [[layer]]
        type = "Residual"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["res1"]  # (8, 16, 32, 32)
        neuron = "ReLU"
        layer = [
            { type = "Convolution", n_filter = 16, kernel = 3, pad = 1, neuron = "ReLU" },
            { type = "Convolution", n_filter = 16, kernel = 3, pad = 1 },
        ]
        projection = [{ type = "Convolution", n_filter = 16 }]
    """

    bottoms: Annotated[Names, exactly(1), "the blob x"]
    tops: Annotated[Names, exactly(1), "the blob y"]
    neuron: Annotated[Neuron, "activation function of the sum"] = Identity()
    layer: Annotated[Layers, at_least(1), "the layers of the block"]
    projection: Annotated[Layers, "layers between x and the sum, where the block changes the shape"] = default(())

    def _complete(self) -> None:
        super()._complete()
        taken = {*self.bottoms, *self.tops}
        changed, short_cut = unused("block", taken), self.bottoms
        block = Chain(self.name, self.layer, self.bottoms, changed)
        inner: list[Inner | Layer] = [*block.inner]
        chains: list[Any] = [block]
        if self.projection:
            short_cut = unused("projection", taken)
            projection = SequentialLayer(name="projection", bottoms=self.bottoms, tops=short_cut, layer=self.projection)
            vars(self)["projection"] = projection.layer
            inner.append(projection)
            chains.append(projection)
        summed = (*changed, *short_cut)
        inner.append(ElementWiseLayer(name="add", bottoms=summed, tops=self.tops, operation="Add", neuron=self.neuron))
        vars(self).update(layer=block.layers, _chains=chains, _inner=inner)

    def implied(self, inner: Any) -> Collection[str]:
        return {name for chain in vars(self)["_chains"] for name in chain.implied(inner)}

    def expand(self) -> Sequence[Inner | Layer]:
        return vars(self)["_inner"]
