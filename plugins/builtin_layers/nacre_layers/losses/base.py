"""The common code of losses: their weight, their divisor, and two bottoms of one shape."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from nacre import Array, Check, ConfigError, DataError, Layer, LayerState, View, non_negative

FLOOR = 1e-20
"""Smaller probabilities count as this, so that logarithms and fractions are finite. As in Mocha.jl and Caffe."""

SLACK = 1e-4
"""How far outside of 0 to 1 a probability may be, because of rounding or a numerical derivative."""

Normalizer = Literal["valid", "full", "batch", "none"]


two_or_three = Check(
    lambda names, _: None if 2 <= len(names) <= 3 else "2 or 3 must be given", "2 or 3", least=2, most=3
)
"""A validator for the bottoms of a loss that may have a weight for each record."""


class Loss(Layer):
    """A layer with a loss."""

    weighs: ClassVar[bool] = False
    """Whether a third bottom has a number for each record, which multiplies the record's loss."""

    weight: Annotated[float, non_negative, "multiplies the loss"] = 1.0

    def weighing(self, blob: str) -> Layer | None:
        has_weights = len(self.bottoms) > 2
        return self.connected(self.name, [*self.bottoms, blob]) if self.weighs and not has_weights else None

    def ignored(self) -> int | None:
        return getattr(self, "ignore_label", None)


def check_weights(layer: Any, inputs: list[Any]) -> bool:
    """Return whether there is a bottom with weights. Raises ConfigError unless it has one number for each record."""
    if len(inputs) < 3:
        return False
    shape, images = tuple(inputs[2].shape), inputs[0].shape[0]
    if shape not in ((images,), (images, 1)):
        raise ConfigError(
            f"{layer.name}: bottom '{layer.bottoms[2]}' of shape {shape} must have one weight for each of the {images} "
            "records"
        )
    return True


def divisor(backend: View, normalize: Normalizer, *, valid: Any, full: int, batch: int) -> Any:
    """Return the divisor of a loss: the number of labels that are not ignored, of all labels, of records, or 1.

    `valid`, and then the result, may be an array of one on a device.
    """
    if normalize == "valid":
        return max(valid, 1) if isinstance(valid, int) else backend.xp.maximum(valid, 1)
    return {"full": full, "batch": batch, "none": 1}[normalize]


class Factor:
    """weight / divisor, by which a state multiplies its loss and its gradient; made in `ready`.

    What a device computes lies in the same array in every pass: a recorded `backward` may follow any `forward`.
    """

    def __init__(self, backend: View) -> None:
        self._xp = backend.xp
        self._place = None if backend.backend.on_host else backend.empty((), "float64")

    def of(self, weight: float, divisor: Any) -> Any:
        """Return the factor: a number, or where the divisor is an array of one, such an array."""
        factor = weight / divisor
        if self._place is None or isinstance(factor, float):
            return factor
        self._xp.copyto(self._place, factor)
        return self._place


def divided_by(normalize: Normalizer, *, ignores: bool) -> Literal["rows", "count", "nothing"]:
    """Return what the divisor of a loss counts, for the net: unless labels are ignored, all rows have as many."""
    if normalize == "valid" and ignores:
        return "count"
    return "nothing" if normalize == "none" else "rows"


def alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether two shapes are equal, apart from axes of length 1 after the batch."""
    first, second = ([shape[0], *(length for length in shape[1:] if length != 1)] for shape in (one, other))
    return first == second


def check_alike(layer: Any, inputs: list[Any]) -> None:
    """Raise ConfigError unless the first two bottoms have one shape, apart from axes of length 1."""
    first, second = (tuple(one.shape) for one in inputs[:2])
    if not alike(first, second):
        raise ConfigError(
            f"{layer.name}: bottom '{layer.bottoms[1]}' of shape {second} differs from "
            f"'{layer.bottoms[0]}' of shape {first}"
        )


def check_probabilities(layer: Any, backend: View, x: Array, remedy: str, index: int = 0) -> None:
    """Raise DataError for numbers of a bottom, by default the first, that are not probabilities; NaN is allowed.

    Raises:
        DataError: names the number.
    """
    low, high = backend.xp.min(x), backend.xp.max(x)
    too_low, too_high = low < -SLACK, high > 1 + SLACK

    def wrong() -> DataError:
        extreme = float(low if bool(too_low) else high)
        holds = f"{layer.name}: bottom '{layer.bottoms[index]}' holds {extreme:g}"
        return DataError(f"{holds}, which is not a probability", remedy)

    backend.require((layer.name, "probabilities", index), ~(too_low | too_high), wrong)


class PairLossState(LayerState, reads="inputs", capturable="rows"):
    """loss = weight / N · Σ f(a, b) over all elements of two bottoms of one shape, in the N rows that count.

    A third bottom multiplies the terms of each record.

    A subclass computes f in `terms` and its slopes in `slope`; axes of length 1 may differ.

    Raises:
        ConfigError: the bottoms differ in shape.
    """

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        check_alike(layer, inputs)
        self.weighs = check_weights(layer, inputs)
        self.images = inputs[0].shape[0]
        self.loss: Any = 0.0

    def ready(self) -> None:
        self.factors = Factor(self.backend)

    def terms(self, a: Array, b: Array, out: Array) -> None:
        """Write f(a, b) into `out`."""
        raise NotImplementedError

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        """Write df/da (index 0) or df/db (index 1) into `out`."""
        raise NotImplementedError

    def pair(self, inputs: list[Array], rows: int) -> list[Array]:
        """Return a and b as (rows, elements), and the weights if there are any."""
        return [one.reshape(self.images, -1)[:rows] for one in inputs]

    def divisor(self, rows: int) -> Any:
        """Return the divisor of the sum; called after `terms`."""
        return rows

    def forward(self, inputs: list[Array]) -> None:
        rows = min(self.backend.rows, self.images)
        a, b, *weights = self.pair(inputs, rows)
        out = self.backend.scratch(a.shape)
        self.terms(a, b, out)
        for weight in weights:
            self.backend.xp.multiply(out, weight, out=out)
        self.factor = self.factors.of(self.layer.weight, self.divisor(rows))
        self.loss = self.factor * self.backend.xp.sum(out, dtype="float64")

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        rows = min(self.backend.rows, self.images)
        a, b, *weights = self.pair(inputs, rows)
        for index, diff in enumerate(diffs):
            if diff is None:
                continue
            if index == 2:
                diff[...] = 0  # weights are data
                continue
            gradient = diff.reshape(self.images, -1)
            self.slope(index, a, b, gradient[:rows])
            self.backend.xp.multiply(gradient[:rows], self.factor, out=gradient[:rows])
            for weight in weights:
                self.backend.xp.multiply(gradient[:rows], weight, out=gradient[:rows])
            gradient[rows:] = 0
