"""Deconvolution of images with one to three axes, with bias and ReLU in one."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.convolution.geometry import Transposed

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import Unimplemented, library
from ..dnnl.primitives import (
    CHANNELS_LAST,
    PLAIN,
    Call,
    Desc,
    Primitive,
    attributes,
    call,
    describe,
    free,
    into,
    plain,
    strided,
)
from ..helper.direct import DirectConvolution
from . import convolution
from .base import rectify, stays_plain
from .columns import ColumnsConvolution
from .products import sum_up

NESTED = "conv:"
"""How oneDNN calls a deconvolution that runs a convolution, and behind it reference code for the bias."""


class Forms(convolution.Forms):
    """The descriptors and primitives of a deconvolution of one shape; oneDNN counts filters before channels."""

    KIND, ALGORITHM = "deconvolution", dnnl.DECONVOLUTION_DIRECT

    def lay(self, shape: tuple[int, ...], axes: int) -> tuple[tuple[int, ...], Desc]:
        strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
        turned = _turned(shape, axes)
        return turned, strided(turned, _turned(strides, axes))


class DeconvolutionKernel(convolution.ConvolutionKernel, reads="inputs"):
    """Deconvolution in groups or without, with stride, padding, dilation and extra pixels; applies ReLU itself.

    The helper's ways are those of the convolution from top to bottom, of which this is the transpose.

    The bias is a call of its own where oneDNN would take reference code for it, which made a forward pass 20 to 70
    times as long. The gradient of the bias always is one: oneDNN's took 20 times as long as the rest in bf16.
    """

    GEOMETRY: ClassVar = Transposed
    FORMS: ClassVar = Forms
    FILTERS: ClassVar = 1
    OF_OURS: ClassVar = {"forward": "data", "weights": "weights", "data": "forward"}
    SUMS_UP: ClassVar = False

    @classmethod
    def supports(cls, layer: DeconvolutionLayer, inputs: list[Any]) -> str | None:
        if reason := super().supports(layer, inputs):
            return reason
        top = Transposed(layer, inputs[0].shape).top
        layout = PLAIN if stays_plain(top) else CHANNELS_LAST
        try:
            add_bias(describe(top, layout), top[1])
            sum_up("dy", top, layout)
        except Unimplemented as error:
            return str(error)
        return None

    def __init__(self, layer: DeconvolutionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.whole = self.exact if self.is_exact("forward") else self.forms
        self.forms, self.exact = self.make_forms(bias=False)

    def take_over(self, norm: Any) -> bool:
        if self.layer.n_group > 1 or not super().take_over(norm):
            return False
        self.whole, (self.forms, self.exact) = self.forms, self.make_forms(bias=False)
        return True

    def take_over_sum(self, behind: Any) -> bool:
        return False

    def _of_ours(self, ours: DirectConvolution, stage: str, x: Desc, y: Desc) -> list[Call]:
        top = ("gated" if self.relu else "dy", y)
        if stage == "weights":
            return ours.weights(top, ("x", x), "")
        if stage == "data":
            return ours.forward(top, ("dx", x), "")
        ours.names = self.weight, ours.names[1]
        if isinstance(ours, ColumnsConvolution):
            made = ours.data(("y", y), ("x", x), self.bias if self.biased else "")
            return [*made, *(rectify(y) if self.relu else [])]
        bias = add_bias(y, self.layer.n_filter, self.bias) if self.biased else []
        return [*ours.data(("y", y), ("x", x)), *bias, *(rectify(y) if self.relu else [])]

    def _forward(self, primitive: Primitive, x: Desc, y: Desc, bias: Desc | None = None) -> list[Call]:
        whole = self._in_one(primitive)
        if whole is not None:
            return super()._forward(whole, x, y, self.whole.bias)
        calls = super()._forward(primitive, x, y)
        return [*calls, *(add_bias(y, self.layer.n_filter, self.bias) if self.biased else [])]

    def _in_one(self, primitive: Primitive) -> Primitive | None:
        """Return the primitive that also adds the bias, if oneDNN has good code for that."""
        try:
            whole = self.whole.forward(primitive.memory(dnnl.SOURCE), primitive.memory(dnnl.RESULT))
        except Unimplemented:
            return None
        return None if whole.info.startswith(NESTED) else whole


def _turned(numbers: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """Return the numbers of weights' axes with those of filters and channels exchanged, which stand before `axes`."""
    *groups, channels, filters = numbers[:-axes]
    return (*groups, filters, channels, *numbers[-axes:])


def add_bias(y: Desc, channels: int, name: str = "bias") -> list[Call]:
    """Return the calls that add the bias, a buffer of this name, to `y` in place."""
    shape = (1, channels, *[1] * (len(y.shape) - 2))
    primitive = Primitive("binary", library().engine, dnnl.BINARY_ADD, y, free(*shape), y, attributes())
    before, bias = into(name, plain(*shape), primitive.memory(dnnl.SOURCE, 1))
    return [*before, call(primitive, {arg.SRC: ("y", y), arg.SRC_1: bias, arg.DST: ("y", y)})]
