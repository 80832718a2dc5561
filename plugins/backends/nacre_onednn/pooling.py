"""Max and mean pooling of images with two axes, with ReLU in one."""

from __future__ import annotations

from typing import Any, ClassVar

from nacre import Neuron
from nacre_layers.neurons import is_relu
from nacre_layers.pooling import Axis, Max, Mean, PoolingLayer, pooled_axes

from . import library as dnnl
from .kernel import Layouts, OnednnKernel, describe_blob, gate, stays_plain, unfit
from .library import Unimplemented, library
from .primitives import (
    CHANNELS_LAST,
    DIFF_DST,
    DIFF_SRC,
    DST,
    PLAIN,
    SPACE,
    SRC,
    Call,
    Desc,
    Primitive,
    attributes,
    call,
    describe,
    dims,
)


def algorithm(layer: PoolingLayer, axes: list[Axis]) -> int | None:
    """Give oneDNN's number of a pooling function, or None.

    oneDNN divides a sum by the cells of the whole window or by those inside the image. The cells of the padded image
    are the former where no window reaches beyond it, and the latter where there is no padding.
    """
    pooling = layer.pooling
    if type(pooling) is Max:
        return dnnl.POOLING_MAX
    if type(pooling) is not Mean:
        return None
    if pooling.divide_by == "image" or (pooling.divide_by == "padded" and not any(axis.pad for axis in axes)):
        return dnnl.POOLING_INSIDE
    within = all(axis.reach <= axis.length + 2 * axis.pad for axis in axes)
    return dnnl.POOLING_ALL if pooling.divide_by == "kernel" or within else None


class PoolingKernel(OnednnKernel, reads=""):
    """Max and mean pooling, with ReLU behind it; of equal maxima the first gets the gradient, as forward has noted."""

    PASSES: ClassVar = {"forward": ("forward",), "backward": ("gate", "data")}

    @classmethod
    def supports(cls, layer: PoolingLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs):
            return reason
        shape = inputs[0].shape
        if len(shape) != 4 or layer.axes not in ((), (2, 3)):
            return "serves images with two axes, both of them pooled"
        if layer.masks:
            return "makes no masks"
        axes = pooled_axes(layer, shape)
        number = algorithm(layer, axes)
        if number is None:
            return f"serves Max, and Mean where oneDNN divides by the same cells, not {layer.pooling!r}"
        forms = Forms(shape, axes, number, is_relu(layer.neuron))
        layout = PLAIN if stays_plain(shape) else CHANNELS_LAST
        try:
            forms.backward(describe(shape, layout), describe(forms.top, layout))
        except Unimplemented as error:
            return str(error)
        return None

    def __init__(self, layer: PoolingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = inputs[0].shape
        axes = pooled_axes(layer, shape)
        self.relu = is_relu(layer.neuron)
        self.forms = Forms(shape, axes, algorithm(layer, axes) or 0, self.relu)
        self.blobs = [backend.blob(self.forms.top)]
        if self.relu:
            self.reads = "blobs"

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return self.relu

    def parts(self) -> list[str]:
        parts = super().parts()
        return [*parts, "gate"] if self.relu and "data" in parts else parts

    def make(self, part: str, way: str, layouts: Layouts) -> list[Call]:
        bottom, top = self.inputs[0], self.blobs[0]
        x, y = describe_blob(bottom, layouts, top), describe_blob(top, layouts, bottom)
        if part == "gate":
            return gate(y, "gated")
        trained = "data" in self.parts()
        forward = self.forms.forward(x, y, trained)
        keeps = {}
        if trained and self.forms.number == dnnl.POOLING_MAX:
            keeps = {SPACE: ("Winners", forward.memory(dnnl.WORKSPACE))}
        if part == "forward":
            return [call(forward, {SRC: ("x", x), DST: ("y", y), **keeps})]
        above = "gated" if self.relu else "dy"
        return [call(self.forms.backward(x, y), {DIFF_DST: (above, y), DIFF_SRC: ("dx", x), **keeps})]


class Forms:
    """The primitives of a pooling of one shape."""

    def __init__(self, shape: tuple[int, ...], axes: list[Axis], number: int, relu: bool) -> None:
        self.shape, self.number, self.relu = shape, number, relu
        self.top = (*shape[:2], *(axis.windows for axis in axes))
        ends = [max(0, (one.windows - 1) * one.stride + one.kernel - one.length - one.pad) for one in axes]
        self.sizes = (
            dims([axis.stride for axis in axes]),
            dims([axis.kernel for axis in axes]),
            dims((0, 0)),
            dims([axis.pad for axis in axes]),
            dims(ends),
        )

    def forward(self, x: Desc, y: Desc, trained: bool = True) -> Primitive:
        kind = dnnl.FORWARD_TRAINING if trained else dnnl.FORWARD_INFERENCE
        return self._make("forward", [kind], x, y, attributes(self.relu))

    def backward(self, x: Desc, y: Desc) -> Primitive:
        return self._make("backward", [], x, y, self.forward(x, y).desc, attributes())

    def _make(self, kind: str, first: list[int], x: Desc, y: Desc, *last: Any) -> Primitive:
        return Primitive(f"pooling_{kind}", library().engine, *first, self.number, x, y, *self.sizes, *last)
