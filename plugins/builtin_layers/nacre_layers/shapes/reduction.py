"""Reduction: one number for all numbers from an axis on."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any, Literal

from nacre import Array, Layer, LayerState, Names, as_many_as, at_least, finite, non_zero

from ..axes import axis_of


class ReductionLayer(Layer, can_do_bp=True):
    """y = coefficient · Σ f(x) over all axes from `axis` on, where f(x) is x, |x| or x²; or the mean of x.

    `operation` is "sum" (Σ x), "asum" (Σ |x|), "sumsq" (Σ x²) or "mean" (Σ x / n). A bottom (2, 3, 4) becomes (2), or
    with axis=2 (2, 3); one top for each bottom. Where x is 0, the gradient of |x| is 0. After Caffe's `Reduction`,
    whose default axis is 0: here images stay separate.

    Example:
        [[layer]]
        type = "Reduction"
        bottoms = ["conv5"]  # (8, 20, 6, 6)
        tops = ["features"]  # (8, 20)
        operation = "mean"
        axis = 2
    """

    shown = ("operation",)

    bottoms: Annotated[Names, at_least(1), "the blobs to reduce"]
    tops: Annotated[Names, as_many_as("bottoms"), "the results"]
    operation: Annotated[Literal["sum", "asum", "sumsq", "mean"], "the function of the numbers"] = "sum"
    axis: Annotated[int, non_zero, "first of the axes to reduce to one number"] = 1
    coefficient: Annotated[float, finite, "multiplies the result"] = 1.0


class ReductionState(LayerState, of=ReductionLayer, reads="inputs", capturable=True):
    """`ReductionLayer` on any backend; bottoms are read as (results, numbers)."""

    def __init__(self, layer: ReductionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        if layer.operation in ("sum", "mean"):
            self.reads = ""
        axes = [axis_of(layer, one.shape) for one in inputs]
        self.shapes = [(prod(one.shape[:axis]), prod(one.shape[axis:])) for one, axis in zip(inputs, axes, strict=True)]
        self.blobs = [backend.blob(one.shape[:axis]) for one, axis in zip(inputs, axes, strict=True)]

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        for x, y, shape in zip(inputs, self.blobs, self.shapes, strict=True):
            x, y = x.reshape(shape), y.reshape(shape[0])
            if self.layer.operation in ("asum", "sumsq"):
                x = (xp.abs if self.layer.operation == "asum" else xp.square)(x, out=self.backend.scratch(shape))
            xp.sum(x, axis=1, out=y)
            xp.multiply(y, self._factor(shape), out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for x, dy, dx, shape in zip(inputs, self.blobs_diff, diffs, self.shapes, strict=True):
            if dx is None:
                continue
            x, dy, dx = x.reshape(shape), dy.reshape(shape[0], 1), dx.reshape(shape)
            slope = self.backend.scratch(dy.shape)
            xp.multiply(dy, self._factor(shape) * (2 if self.layer.operation == "sumsq" else 1), out=slope)
            if self.layer.operation == "sumsq":
                xp.multiply(x, slope, out=dx)
            elif self.layer.operation == "asum":
                xp.sign(x, out=dx)
                xp.multiply(dx, slope, out=dx)
            else:
                xp.copyto(dx, slope)

    def _factor(self, shape: tuple[int, int]) -> float:
        return self.layer.coefficient / (shape[1] if self.layer.operation == "mean" else 1)
