"""Sequential: layers one after the other, as one layer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from nacre import Inner, Layer, Layers, Names, at_least

from ..fields import Learning
from .chain import Chain


class SequentialLayer(Learning):
    """Layers one after the other: each reads what the one before it wrote, unless it names blobs.

    y = last(... second(first(x))): the first reads the bottoms, the last writes the tops. In the tables of the layers
    `name`, `bottoms` and `tops` may be left out: the name is then the type and a number (`Convolution1`), and the top
    has the name of its layer. Blobs inside have the full name of the container in front (`features/Convolution1`).
    After Leaf's `Sequential`.

    Example:
        [[layer]]
        type = "Sequential"
        name = "features"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["features"]  # (8, 20, 14, 14)

        [[layer.layer]]
        type = "Convolution"
        n_filter = 20
        kernel = 5

        [[layer.layer]]
        type = "Pooling"
        kernel = 2
        stride = 2
    """

    bottoms: Annotated[Names, "the blobs that the first layer reads"]
    tops: Annotated[Names, "the blobs that the last layer writes"]
    layer: Annotated[Layers, at_least(1), "the layers"]

    def _complete(self) -> None:
        super()._complete()
        chain = Chain(self.name, self.layer, self.bottoms, self.tops)
        vars(self).update(layer=chain.layers, _chain=chain)

    def implied(self, inner: Any) -> Collection[str]:
        return vars(self)["_chain"].implied(inner)

    def expand(self) -> Sequence[Inner | Layer]:
        return vars(self)["_chain"].inner
