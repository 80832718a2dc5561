"""OneHot: whole numbers as vectors with a single 1, on a new last axis."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, ClassCount, Layer, LayerState, Names, as_many_as, at_least, positive

from ..losses.classes import whole_numbers

REMEDY = "check the data, and n_class"
"""What the errors about wrong numbers advise."""


class OneHotLayer(Layer):
    """y[..., c] = 1 where c is the number x[...], and 0 elsewhere; numbers are counted from 0.

    Bottoms are whole numbers of any type and shape (images, ...), such as those of characters; tops are (images, ...,
    n_class), of the net's type. Rows that are not real are all 0. Raises DataError if a number is out of range. There
    is no gradient. After SINGA's `OneHotLayer`; `Index2Onehot` puts the vectors on an axis of length 1 instead.

    Example:
        [[layer]]
        type = "OneHot"
        bottoms = ["index"]  # (8, 50)
        tops = ["onehot"]  # (8, 50, 96)
        n_class = 96
    """

    bottoms: Annotated[Names, at_least(1), "the numbers"]
    tops: Annotated[Names, as_many_as("bottoms"), "the vectors"]
    n_class: Annotated[ClassCount, positive, "length of a vector: how many numbers there are, or the blob of classes"]


class OneHotState(LayerState, of=OneHotLayer, reads="", capturable="rows"):
    """`OneHotLayer` on any backend."""

    def __init__(self, layer: OneHotLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((*one.shape, layer.n_class)) for one in inputs]

    def ready(self) -> None:
        self.numbers = self.backend.empty((1, self.layer.n_class), "int64")
        self.numbers[0] = self.backend.xp.arange(self.layer.n_class)

    def forward(self, inputs: list[Array]) -> None:
        layer = self.layer
        for x, y in zip(inputs, self.blobs, strict=True):
            y = y.reshape(-1, layer.n_class)
            count = x.size // x.shape[0] * min(self.backend.rows, x.shape[0])
            given = whole_numbers(layer, self.backend, x, count, layer.n_class, what="number", remedy=REMEDY)
            self.backend.xp.equal(given.reshape(-1, 1), self.numbers, out=y[:count])
            y[count:] = 0

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: a whole number has no gradient."""
