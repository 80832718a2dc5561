"""Convolutions of float32 in which each channel has a filter of its own, by the helper: see depthwise.c."""

from __future__ import annotations

from ..dnnl.primitives import (
    CHANNELS_LAST,
    Buffer,
    Call,
    HelperCall,
    describe,
    into,
    out_of,
    plain,
    reorder,
    strided,
)
from .direct import DirectConvolution
from .native import lanes


class DepthwiseConvolution(DirectConvolution):
    """The forward pass between images with one or two axes and their channels last."""

    def has(self, stage: str) -> bool:
        own = self.groups > 1 and self.sizes.channels == self.sizes.filters == 1
        return lanes() > 0 and stage == "forward" and own and self.flat

    def forward(self, x: Buffer, y: Buffer, bias: str, added: str = "", *, relu: bool = False) -> list[Call]:
        numbers = {**self.sizes.of_windows, "channels": self.groups, "relu": relu}
        shape = numbers["rows"] * numbers["columns"], self.groups
        inner, laid = describe(x[1].shape, CHANNELS_LAST), plain(*shape)
        before, (source, _) = into(*x, inner, "last x")
        (result, top), after = out_of(*y, describe(y[1].shape, CHANNELS_LAST))
        weight = "Depthwise weight" if self.keeps else "depthwise weight"
        laying = reorder(self.names[0], strided(shape, (1, shape[0])), weight, laid)
        for one in laying:
            one.once = self.keeps
        buffers = {
            "x": (source, inner.bytes),
            "w": (weight, laid.bytes),
            "bias": (bias, self.bias),
            "y": (result, top.bytes),
        }
        return [*before, *laying, HelperCall(buffers, "depthwise", numbers), *after]
