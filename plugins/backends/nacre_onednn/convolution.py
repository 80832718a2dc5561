"""Convolution of images with two axes, with bias and ReLU in one."""

from __future__ import annotations

from typing import Any, ClassVar

from nacre import Neuron
from nacre_layers.convolution import ConvolutionLayer, Geometry, declare
from nacre_layers.neurons import is_relu

from . import library as dnnl
from .kernel import Layouts, OnednnKernel, describe_blob, gate, into, out_of, unfit
from .library import Unimplemented, library
from .primitives import (
    BIAS,
    DIFF_BIAS,
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHT,
    DST,
    PLAIN,
    SRC,
    WEIGHT,
    Call,
    Desc,
    Primitive,
    attributes,
    call,
    describe,
    dims,
    free,
    plain,
)

AS_IT_IS, AS_THE_TOP, ANY = "as it is", "as the top", "any"
"""Ways to read the bottom: in its own layout, copied into the top's, and everything as oneDNN likes it best."""


class Forms:
    """The descriptors and primitives of a convolution of one shape.

    `weight` is plain: (filters, channels, rows, columns), or (groups, filters / groups, ...).
    """

    def __init__(self, g: Geometry, groups: int, bias: bool, relu: bool, dtype: str = "float32") -> None:
        filters = g.top[1]
        shape = (groups, filters // groups, *g.weight[1:]) if groups > 1 else g.weight
        self.weight = plain(*shape)
        self.free_weight, self.free_gradient = free(*shape, dtype=dtype), free(*shape)
        self.bias = plain(filters) if bias else None
        self.relu = relu
        gaps = [step - 1 for step in g.dilation]  # oneDNN counts dilation from 0
        rest = (dims(g.stride), dims(gaps), dims(g.pad))
        reach = [(out - 1) * stride + extent for out, stride, extent in zip(g.out, g.stride, g.extent, strict=True)]
        ends = [max(0, end - length - pad) for end, length, pad in zip(reach, g.image, g.pad, strict=True)]
        self.sizes = (*rest, dims(ends))

    def forward(self, x: Desc, y: Desc) -> Primitive:
        return Primitive(
            "convolution_forward", library().engine, dnnl.FORWARD_TRAINING, dnnl.CONVOLUTION_DIRECT,
            x, self.free_weight, self.bias, y, *self.sizes, attributes(self.relu),
        )  # fmt: skip

    def backward(self, part: str, x: Desc, y: Desc) -> Primitive:
        """Give the primitive of the gradient of the weights or of the data."""
        hint = self.forward(x, y).desc
        weights = [self.free_gradient, self.bias] if part == "weights" else [self.free_weight]
        return Primitive(
            f"convolution_backward_{part}", library().engine, dnnl.CONVOLUTION_DIRECT,
            x, *weights, y, *self.sizes, hint, attributes(),
        )  # fmt: skip


class ConvolutionKernel(OnednnKernel, reads="inputs"):
    """Convolution in groups or without, with stride, padding and dilation; applies ReLU itself.

    The weights stay plain outside, and are copied into the layouts of the primitives in every pass: they are small.
    """

    PASSES: ClassVar = {"forward": ("forward",), "backward": ("gate", "weights", "data")}

    @classmethod
    def supports(cls, layer: ConvolutionLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs):
            return reason
        if len(inputs[0].shape) != 4:
            return "serves images with two axes"
        geometry = Geometry(layer, inputs[0].shape)
        forms = Forms(geometry, layer.n_group, layer.bias, relu=False)
        x, y = free(*inputs[0].shape), free(*geometry.top)
        try:
            forms.forward(x, y)
            for part in ("weights", "data"):
                forms.backward(part, x, y)
        except Unimplemented as error:
            return str(error)
        return None

    def __init__(self, layer: ConvolutionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs)
        self.relu = is_relu(layer.neuron)
        self.forms = Forms(self.geometry, layer.n_group, layer.bias, self.relu, backend.compute)
        if self.relu:
            self.reads = "inputs blobs"

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return self.relu

    def parts(self) -> list[str]:
        if self.blobs_diff[0] is None:
            return ["forward"]
        weights = self.parameters[0].gradient is not None
        return [
            "forward",
            *(["gate"] if self.relu else []),
            *(["weights"] if weights else []),
            *(["data"] if self.diffs[0] is not None else []),
        ]

    def ways_of(self, part: str, layouts: Layouts) -> tuple[str, ...]:
        if part == "gate":
            return ("",)
        return (AS_IT_IS, AS_THE_TOP, ANY) if layouts(self.inputs[0]) == PLAIN else (AS_IT_IS, ANY)

    def make(self, part: str, way: str, layouts: Layouts) -> list[Call]:
        bottom, top = self.inputs[0], self.blobs[0]
        x, y = describe_blob(bottom, layouts, top), describe_blob(top, layouts, bottom)
        if part == "gate":
            return gate(y, "gated")
        make = self.forms.forward if part == "forward" else lambda x, y: self.forms.backward(part, x, y)
        if way == ANY:
            primitive = make(*(free(*blob.shape, dtype=blob.dtype) for blob in (bottom, top)))
        elif way == AS_THE_TOP:
            primitive = make(describe(bottom.shape, layouts(top), bottom.dtype), y)
        else:
            primitive = make(x, y)
        return getattr(self, f"_{part}")(primitive, x, y)

    def _forward(self, primitive: Primitive, x: Desc, y: Desc) -> list[Call]:
        inner_x, inner_w, inner_y = (primitive.memory(one) for one in (dnnl.SOURCE, dnnl.WEIGHTS, dnnl.RESULT))
        before, source = into("x", x, inner_x)
        packing, weight = self.packed("weight", self.forms.weight, inner_w)
        result, after = out_of("y", y, inner_y)
        buffers = {SRC: source, WEIGHT: weight, DST: result}
        if self.forms.bias is not None:
            buffers[BIAS] = ("bias", self.forms.bias)
        return [*before, *packing, call(primitive, buffers), *after]

    def _weights(self, primitive: Primitive, x: Desc, y: Desc) -> list[Call]:
        inner_x, inner_w, inner_y = (primitive.memory(o) for o in (dnnl.SOURCE, dnnl.DIFF_WEIGHTS, dnnl.DIFF_RESULT))
        before, source = into("x", x, inner_x)
        gradient, top = into("gated" if self.relu else "dy", y, inner_y)
        result, after = out_of("dweight", self.forms.weight, inner_w)
        buffers = {SRC: source, DIFF_DST: top, DIFF_WEIGHT: result}
        if self.forms.bias is not None:
            buffers[DIFF_BIAS] = ("dbias", self.forms.bias)
        return [*before, *gradient, call(primitive, buffers), *after]

    def _data(self, primitive: Primitive, x: Desc, y: Desc) -> list[Call]:
        inner_x, inner_w, inner_y = (primitive.memory(o) for o in (dnnl.DIFF_SOURCE, dnnl.WEIGHTS, dnnl.DIFF_RESULT))
        gradient, top = into("gated" if self.relu else "dy", y, inner_y)
        packing, weight = self.packed("weight", self.forms.weight, inner_w)
        result, after = out_of("dx", x, inner_x)
        buffers = {DIFF_DST: top, WEIGHT: weight, DIFF_SRC: result}
        return [*gradient, *packing, call(primitive, buffers), *after]
