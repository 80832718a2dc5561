"""What losses have in common: their weight, what they are divided by, and two bottoms of one shape."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from nacre import Array, ConfigError, DataError, Layer, LayerState, non_negative

FLOOR = 1e-20
"""Probabilities below this count as this, so that logarithms and fractions are finite. Mocha.jl's and Caffe's."""

SLACK = 1e-4
"""How far outside of 0 to 1 what is taken for a probability may lie, by rounding or by a numerical derivative."""

Normalizer = Literal["valid", "full", "batch", "none"]


class Loss(Layer):
    """A layer with a loss."""

    weight: Annotated[float, non_negative, "multiplies the loss"] = 1.0


def divisor(normalize: Normalizer, *, valid: int, full: int, batch: int) -> int:
    """Return what a loss is divided by: the labels that are not ignored, all labels, the records, or 1."""
    return {"valid": max(valid, 1), "full": full, "batch": batch, "none": 1}[normalize]


def alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether two shapes are equal but for axes of length 1 behind the batch."""
    first, second = ([shape[0], *(length for length in shape[1:] if length != 1)] for shape in (one, other))
    return first == second


def check_alike(layer: Any, inputs: list[Any]) -> None:
    """Check that the first two bottoms have one shape, but for axes of length 1; raise ConfigError if not."""
    first, second = (tuple(one.shape) for one in inputs[:2])
    if not alike(first, second):
        raise ConfigError(
            f"{layer.name}: bottom '{layer.bottoms[1]}' of shape {second} differs from "
            f"'{layer.bottoms[0]}' of shape {first}"
        )


def check_probabilities(layer: Any, backend: Any, x: Array, remedy: str, place: int = 0) -> None:
    """Refuse numbers of a bottom, the first unless said, that are no probabilities; NaN passes.

    Raises:
        DataError: names the number.
    """
    for extreme in (float(backend.xp.min(x)), float(backend.xp.max(x))):
        if extreme < -SLACK or extreme > 1 + SLACK:
            raise DataError(
                f"{layer.name}: bottom '{layer.bottoms[place]}' holds {extreme:g}, which is no probability", remedy
            )


class PairLossState(LayerState, reads="inputs"):
    """loss = weight / N · Σ f(a, b) over all elements of two bottoms of one shape, in the N rows that count.

    A subclass computes f in `terms` and its slopes in `slope`; axes of length 1 may differ.

    Raises:
        ConfigError: the bottoms differ in shape.
    """

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        check_alike(layer, inputs)
        self.images = inputs[0].shape[0]
        self.loss: Any = 0.0

    def terms(self, a: Array, b: Array, out: Array) -> None:
        """Write f(a, b) into `out`."""
        raise NotImplementedError

    def slope(self, place: int, a: Array, b: Array, out: Array) -> None:
        """Write df/da (place 0) or df/db (place 1) into `out`."""
        raise NotImplementedError

    def pair(self, inputs: list[Array], rows: int) -> list[Array]:
        """Return a and b as (rows, elements)."""
        return [one.reshape(self.images, -1)[:rows] for one in inputs]

    def divisor(self, rows: int) -> int:
        """Return what the sum is divided by; called after `terms`."""
        return rows

    def forward(self, inputs: list[Array]) -> None:
        rows = min(self.backend.rows, self.images)
        a, b = self.pair(inputs, rows)
        out = self.backend.scratch(a.shape)
        self.terms(a, b, out)
        self.factor = self.layer.weight / self.divisor(rows)
        self.loss = self.factor * self.backend.xp.sum(out)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        rows = min(self.backend.rows, self.images)
        a, b = self.pair(inputs, rows)
        for place, diff in enumerate(diffs):
            if diff is None:
                continue
            gradient = diff.reshape(self.images, -1)
            self.slope(place, a, b, gradient[:rows])
            self.backend.xp.multiply(gradient[:rows], self.factor, out=gradient[:rows])
            gradient[rows:] = 0
