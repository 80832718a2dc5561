"""LRN of images, across channels and within them."""

from __future__ import annotations

import ctypes
from typing import Any

from nacre_layers.lrn import LRNLayer, window_axes

from . import library as dnnl
from .kernel import Layouts, OnednnKernel, describe_blob, stays_plain, unfit
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
    into,
    out_of,
)


class LRNKernel(OnednnKernel, reads="inputs"):
    """LRN of images whose channels are axis 1; forward notes what divides."""

    @classmethod
    def supports(cls, layer: LRNLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs):
            return reason
        shape = inputs[0].shape
        if len(shape) != 4 or layer.axis not in (1, -3):
            return "serves images with two axes, and the channels before them"
        window_axes(layer, shape)
        # oneDNN 3.2 takes even windows for shorter ones; across channels it crashes at 1 and is wrong from 7 on
        served = layer.kernel in (3, 5) if layer.mode == "across" else layer.kernel % 2
        if not served:
            return f"serves odd windows, of 3 or 5 across channels, not kernel={layer.kernel}"
        try:
            Forms(layer).backward(describe(shape, PLAIN if stays_plain(shape) else CHANNELS_LAST))
        except Unimplemented as error:
            return str(error)
        return None

    def __init__(self, layer: LRNLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.forms = Forms(layer)
        self.blobs = [backend.blob(inputs[0].shape)]

    def make(self, part: str, way: str, layouts: Layouts) -> list[Call]:
        outer = describe_blob(self.inputs[0], layouts)
        inner = self._inner(outer)
        before, source = into("x", outer, inner)
        keeps = {}
        trained = "data" in self.parts()
        forward = self.forms.forward(inner, trained)
        if trained and (space := forward.memory(dnnl.WORKSPACE)).bytes:
            keeps = {SPACE: ("Norms", space)}
        if part == "forward":
            result, after = out_of("y", outer, inner)
            return [*before, call(forward, {SRC: source, DST: result, **keeps}), *after]
        more, top = into("dy", outer, inner)
        result, after = out_of("dx", outer, inner)
        backward = self.forms.backward(inner)
        return [*before, *more, call(backward, {SRC: source, DIFF_DST: top, DIFF_SRC: result, **keeps}), *after]

    def _inner(self, outer: Desc) -> Desc:
        """Give the layout that is computed in: channels last where oneDNN lacks code for that of the blobs."""
        try:
            self.forms.backward(outer)
        except Unimplemented:
            return describe(self.inputs[0].shape, CHANNELS_LAST, self.inputs[0].dtype)
        return outer


class Forms:
    """The primitives of an LRN."""

    def __init__(self, layer: LRNLayer) -> None:
        self.number = dnnl.LRN_ACROSS if layer.mode == "across" else dnnl.LRN_WITHIN
        numbers = map(ctypes.c_float, (layer.scale, layer.power, layer.shift))
        self.rest = (ctypes.c_int64(layer.kernel), *numbers)

    def forward(self, x: Desc, trained: bool = True) -> Primitive:
        kind = dnnl.FORWARD_TRAINING if trained else dnnl.FORWARD_INFERENCE
        return Primitive("lrn_forward", library().engine, kind, self.number, x, x, *self.rest, attributes())

    def backward(self, x: Desc) -> Primitive:
        hint = self.forward(x).desc
        return Primitive("lrn_backward", library().engine, self.number, x, x, x, *self.rest, hint, attributes())
