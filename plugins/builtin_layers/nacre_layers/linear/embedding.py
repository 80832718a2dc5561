"""Embedding: a learned vector for every word."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, ClassVar

from nacre import Array, ClassCount, Layer, LayerState, Names, Parameter, as_many_as, at_least, positive

from ..cutting import cut_field
from ..fields import Weighted
from ..losses.classes import whole_numbers

REMEDY = "check the data, and input_dim"
"""What would do where a number is out of range."""


class EmbeddingLayer(Weighted, has_param=True, can_do_bp=True, connection="one_to_all"):
    """y = weight[x] + bias: every number of a bottom selects a row of the weight.

    Bottoms are whole numbers from 0 to input_dim - 1, of any type and shape (images, ...); tops are (images, ...,
    output_dim). `weight` is (input_dim, output_dim), `bias` (output_dim). The gradient of a row is the sum over all
    positions with its number; bottoms have none. Rows that are not real count as 0. Raises DataError if a number is out
    of range. After Caffe's `Embed`.

    Example:
        [[layer]]
        type = "Embedding"
        bottoms = ["index"]  # (8, 20)
        tops = ["vector"]  # (8, 20, 64)
        input_dim = 1000
        output_dim = 64
    """

    feature_axis = -1

    elsewhere: ClassVar[Mapping[str, str]] = {
        **Weighted.elsewhere,
        "num_embeddings": "input_dim",
        "embedding_dim": "output_dim",
    }

    bottoms: Annotated[Names, at_least(1), "the numbers, for example of words"]
    tops: Annotated[Names, as_many_as("bottoms"), "their vectors"]
    input_dim: Annotated[ClassCount, positive, "number of different numbers, or the blob of classes"]
    output_dim: Annotated[int, positive, "length of a vector"]

    def partition(self, part: int, parts: int) -> Layer:
        return cut_field(self, "output_dim", part, parts)


class EmbeddingState(LayerState, of=EmbeddingLayer, reads=""):
    """`EmbeddingLayer` on any backend."""

    def __init__(self, layer: EmbeddingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.sizes = [prod(one.shape) for one in inputs]
        self.parameters = [Parameter.of(layer, "weight", (layer.input_dim, layer.output_dim))]
        if layer.bias:
            self.parameters.append(Parameter.of(layer, "bias", (layer.output_dim,)))
        self.blobs = [backend.blob((*one.shape, layer.output_dim)) for one in inputs]

    def ready(self) -> None:
        self.numbers = [self.backend.empty((size,), "int64") for size in self.sizes]

    def forward(self, inputs: list[Array]) -> None:
        xp, layer = self.backend.xp, self.layer
        for x, y, numbers in zip(inputs, self.blobs, self.numbers, strict=True):
            count = x.size // x.shape[0] * min(self.backend.rows, x.shape[0])
            numbers[:count] = whole_numbers(
                layer, self.backend, x, count, layer.input_dim, what="number", remedy=REMEDY
            )
            numbers[count:] = 0
            y = y.reshape(-1, layer.output_dim)
            xp.take(self.parameters[0].blob, numbers, axis=0, out=y, mode="clip")
            if layer.bias:
                xp.add(y, self.parameters[1].blob, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for parameter in self.parameters:
            if parameter.gradient is not None:
                parameter.gradient[...] = 0
        for numbers, dy in zip(self.numbers, self.blobs_diff, strict=True):
            dy = dy.reshape(-1, self.layer.output_dim)
            if self.parameters[0].gradient is not None:
                self._add_rows(self.parameters[0].gradient, numbers, dy)
            if self.layer.bias and self.parameters[1].gradient is not None:
                share = self.backend.scratch((self.layer.output_dim,))
                self.backend.xp.sum(dy, axis=0, out=share)
                self.backend.xp.add(self.parameters[1].gradient, share, out=self.parameters[1].gradient)
        for dx in diffs:
            if dx is not None:
                dx[...] = 0

    def _add_rows(self, total: Array, numbers: Array, rows: Array) -> None:
        """Add each row to the row of `total` with its number; rows with equal numbers are added up first."""
        xp, count, on_host = self.backend.xp, rows.shape[0], self.backend.backend.on_host
        sums, part = (self.backend.scratch(rows.shape, slot=slot) for slot in (0, 1))
        order = xp.argsort(numbers, kind="stable")
        ranked = numbers[order]
        xp.take(rows, order, axis=0, out=sums, mode="clip")
        first = xp.ones((count,), bool)
        xp.not_equal(ranked[1:], ranked[:-1], out=first[1:])
        apart = 1
        while apart < count:
            same = ranked[apart:] == ranked[:-apart]
            if on_host and not xp.any(same):
                break  # a device goes on: to look would be to wait
            # so far each row is the sum of up to `apart` rows from it on, those with its number
            part[apart:] = 0  # not a product by `same`: 0 times what is not finite is NaN
            xp.copyto(part[apart:], sums[apart:], where=same.reshape(-1, 1))
            xp.add(sums[:-apart], part[apart:], out=sums[:-apart])
            apart *= 2
        starts = xp.flatnonzero(first)
        part = part[: starts.shape[0]]
        xp.take(sums, starts, axis=0, out=part, mode="clip")
        if len(self.numbers) > 1:
            xp.add(part, total[ranked[starts]], out=part)
        total[ranked[starts]] = part
