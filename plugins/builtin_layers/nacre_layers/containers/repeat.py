"""Repeat: the same layers several times, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from nacre import Inner, Layer, Layers, Names, as_many_as, at_least, fresh

from ..fields import Learning
from .chain import repetitions, unused
from .sequential import SequentialLayer


class RepeatLayer(Learning):
    """The same layers `times` times: each repetition is a Sequential, and reads what the one before it wrote.

    y = block(... block(block(x))). In the layers, the names of the container's bottoms and tops mean those of the
    repetition. Repetitions are called 1, 2, ..., so that there are parameters like `stage/2/Convolution1/weight`; with
    `shared = true` all use the same ones, `stage/Convolution1/weight`, whose gradients are added up.

    Example:
        [[layer]]
        type = "Repeat"
        name = "stage"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["stage"]  # (8, 3, 32, 32)
        times = 4

        [[layer.layer]]
        type = "Convolution"
        n_filter = 3
        kernel = 3
        pad = 1
        neuron = "ReLU"
    """

    bottoms: Annotated[Names, at_least(1), "the blobs that the first repetition reads"]
    tops: Annotated[Names, as_many_as("bottoms"), "the blobs that the last repetition writes"]
    times: Annotated[int, repetitions, "number of repetitions"]
    shared: Annotated[bool, "whether all repetitions have the same parameters"] = False
    layer: Annotated[Layers, at_least(1), "the layers of one repetition"]

    def _complete(self) -> None:
        super()._complete()
        block = SequentialLayer(name=self.name, bottoms=self.bottoms, tops=self.tops, layer=self.layer)
        vars(self).update(layer=block.layer, _block=block)

    def implied(self, inner: Any) -> Collection[str]:
        return vars(self)["_block"].implied(inner)

    def expand(self) -> Sequence[Inner | Layer]:
        first: Layer = vars(self)["_block"]
        taken, below = {*self.bottoms, *self.tops}, self.bottoms
        inner: list[Inner] = []
        for number in range(1, self.times + 1):
            block = first if self.shared or number == 1 else fresh(first)
            above = self.tops if number == self.times else unused(str(number), taken, len(self.tops))
            inner.append(Inner(block, str(number), below, above, owner="" if self.shared else None))
            below = above
        return inner
