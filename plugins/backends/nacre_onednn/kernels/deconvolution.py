"""Deconvolution of images with one to three axes, with bias and ReLU in one."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from nacre import Array
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.convolution.geometry import Transposed

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import Unimplemented, library
from ..dnnl.primitives import (
    BLOCKED,
    CHANNELS_LAST,
    PLAIN,
    Call,
    Desc,
    Primitive,
    attributes,
    block,
    call,
    describe,
    free,
    into,
    plain,
    strided,
)
from ..helper.direct import DirectConvolution
from . import convolution
from .base import Layouts, make_ones, rectify, stays_plain
from .columns import ColumnsConvolution

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

    PASSES: ClassVar = {"forward": ("forward",), "backward": ("gate", "weights", "bias", "data")}
    GEOMETRY: ClassVar = Transposed
    FORMS: ClassVar = Forms
    FILTERS: ClassVar = 1
    OF_OURS: ClassVar = {"forward": "data", "weights": "weights", "data": "forward"}

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

    def ready(self) -> None:
        images, _, *image = self.blobs[0].shape
        self.ones = {
            "ones of pixels": make_ones(self.backend, prod(image), self.backend.compute),
            "ones of images": make_ones(self.backend, images),
        }
        super().ready()

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **self.ones}

    def stages(self) -> list[str]:
        wanted = self.layer.bias and self.blobs_diff[0] is not None and self.parameters[1].gradient is not None
        return [*super().stages(), *(["bias"] if wanted else [])]

    def ways_of(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        return ("",) if stage == "bias" else super().ways_of(stage, layouts)

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        if stage == "bias":
            top = self.blobs[0]
            return sum_up("gated" if self.relu else "dy", top.shape, layouts(top), top.dtype)
        return super().make(stage, way, layouts)

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


def sum_up(name: str, shape: tuple[int, ...], layout: str, dtype: str = "float32") -> list[Call]:
    """Return the calls that add up a blob over pixels, then over images: the gradient of the bias.

    They are products with ones. A matrix of the first has the pixels of an image, or of one block of its channels.
    """
    images, channels, *image = shape
    pixels = prod(image)
    count, width = (images * channels // block(), block()) if layout == BLOCKED else (images, channels)
    steps = (width, 1) if layout in (BLOCKED, CHANNELS_LAST) else (1, pixels)
    blob = strided((count, pixels, width), (pixels * width, *steps), dtype)
    ones, sums = plain(1, 1, pixels, dtype=dtype), plain(count, 1, width)
    first = Primitive("matmul", library().engine, ones, blob, None, sums, attributes())
    rows, table, row = plain(1, images), plain(images, channels), plain(1, channels)
    second = Primitive("matmul", library().engine, rows, table, None, row, attributes())
    return [
        call(first, {arg.SRC: ("ones of pixels", ones), arg.WEIGHT: (name, blob), arg.DST: ("sums", sums)}),
        call(second, {arg.SRC: ("ones of images", rows), arg.WEIGHT: ("sums", table), arg.DST: ("dbias", row)}),
    ]
