"""LayerNorm: normalises the numbers of each record to mean 0 and variance 1."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import non_zero

from ..axes import axis_of
from .base import Normalising, NormalisingState


class LayerNormLayer(Normalising):
    """y = scale · (x - mean) / sqrt(variance + epsilon) + bias, over the axes from `axis` to the last.

    Mean and variance are those of the numbers at one index of the axes before; scale and bias have the shape of the
    axes from `axis` on. Ba, Kiros and Hinton, "Layer normalization", 2016; PyTorch's `LayerNorm`.

    Example:
        [[layer]]
        type = "LayerNorm"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["norm1"]  # (8, 500)
    """

    axis: Annotated[int, non_zero, "first of the axes to normalise together"] = 1


class LayerNormState(NormalisingState, of=LayerNormLayer, reads="", capturable=True):
    """`LayerNormLayer` on any backend; arrays are read as (1, before the axis, from it on)."""

    def __init__(self, layer: LayerNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape: tuple[int, ...] = inputs[0].shape
        axis = axis_of(layer, shape)
        self.shape = (1, prod(shape[:axis]), prod(shape[axis:]))
        self.wide = (*self.shape[1:], 1)
        self.declare(inputs, shape[axis:])
