"""BatchNorm over the channels of axis 1, with ReLU in one."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

from nacre import Neuron
from nacre_layers.batch_norm import BatchNormLayer, BatchNormState
from nacre_layers.neurons import is_relu

from . import library as dnnl
from .kernel import Layouts, OnednnKernel, describe_blob, stays_plain, unfit
from .library import Unimplemented, library
from .primitives import (
    CHANNELS_LAST,
    DIFF_DST,
    DIFF_SCALE,
    DIFF_SHIFT,
    DIFF_SRC,
    DST,
    MEAN,
    PLAIN,
    SCALE,
    SHIFT,
    SPACE,
    SRC,
    VARIANCE,
    Call,
    Desc,
    Primitive,
    attributes,
    call,
    describe,
    plain,
    weighted_sum,
)


class BatchNormKernel(OnednnKernel, reads="inputs"):
    """BatchNorm; applies ReLU itself, and notes where it passes."""

    PASSES: ClassVar = {"forward": ("forward", "frozen forward"), "backward": ("data", "frozen data")}

    @classmethod
    def supports(cls, layer: BatchNormLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs):
            return reason
        shape = inputs[0].shape
        if not 2 <= len(shape) <= 5 or layer.axis not in (1, 1 - len(shape)):
            return "serves blobs of two to five axes, the channels being axis 1"
        if layer.use_batch:
            return "outside of training it serves the running mean and variance: use_batch=False"
        return _lacks(Forms(layer, relu=False), shape)

    def __init__(self, layer: BatchNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.plain = BatchNormState(layer, backend, inputs, diffs)
        self.parameters, self.blobs = self.plain.parameters, self.plain.blobs
        self.relu = is_relu(layer.neuron) and _lacks(Forms(layer, relu=True), inputs[0].shape) is None
        self.forms = Forms(layer, self.relu)
        self.channels = plain(inputs[0].shape[1])

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return self.relu

    def parts(self) -> list[str]:
        learns = any(one.gradient is not None for one in self.plain.learned.values())
        wanted = self.blobs_diff[0] is not None and (learns or self.diffs[0] is not None)
        kind = "frozen " if self.plain.mean.frozen else ""
        return [f"{kind}forward", *([f"{kind}data"] if wanted else [])]

    def make(self, part: str, way: str, layouts: Layouts) -> list[Call]:
        desc, few, follows = describe_blob(self.inputs[0], layouts), self.channels, self.plain.follows
        forward = self.forms.forward(desc, follows, trained=follows or len(self.parts()) == 2)
        mean, variance = ("Mean", "Variance") if follows else ("mean", "variance")
        common = {SRC: ("x", desc), MEAN: (mean, few), VARIANCE: (variance, few)}
        if (space := forward.memory(dnnl.WORKSPACE)).bytes:
            common[SPACE] = ("Passes", space)
        if self.layer.scale:
            common[SCALE] = ("scale", few)
        if part.endswith("forward"):
            shift = {SHIFT: ("bias", few)} if self.layer.bias else {}
            return [call(forward, {**common, **shift, DST: ("y", desc)}), *(self._follow() if follows else [])]
        common |= {DIFF_DST: ("dy", desc), DIFF_SRC: ("dx" if self.diffs[0] is not None else "no dx", desc)}
        for place, name in ((DIFF_SCALE, "scale"), (DIFF_SHIFT, "bias")):
            if name in self.plain.learned:
                wanted = self.plain.learned[name].gradient is not None
                common[place] = (f"d{name}" if wanted else f"no d{name}", few)
        return [call(self.forms.backward(desc, forward, follows), common)]

    def _follow(self) -> list[Call]:
        """Give the calls by which the running mean and variance follow those of the batch."""
        decay, count = self.layer.decay, self.plain.count
        return [
            weighted_sum(running, [(running, decay), (batch, (1 - decay) * factor)], self.channels)
            for running, batch, factor in (("mean", "Mean", 1.0), ("variance", "Variance", count / max(count - 1, 1)))
        ]


class Forms:
    """The primitives of a BatchNorm."""

    def __init__(self, layer: BatchNormLayer, relu: bool) -> None:
        self.epsilon = ctypes.c_float(layer.epsilon)
        self.flags = dnnl.NORM_SCALE * layer.scale | dnnl.NORM_SHIFT * layer.bias | dnnl.NORM_RELU * relu

    def forward(self, x: Desc, follows: bool, trained: bool) -> Primitive:
        kind = dnnl.FORWARD_TRAINING if trained else dnnl.FORWARD_INFERENCE
        rest = (self.epsilon, self._flags(follows), attributes())
        return Primitive("batch_normalization_forward", library().engine, kind, x, x, *rest)

    def backward(self, x: Desc, forward: Primitive, follows: bool) -> Primitive:
        rest = (self.epsilon, self._flags(follows), forward.desc, attributes())
        return Primitive("batch_normalization_backward", library().engine, dnnl.BACKWARD, x, x, x, *rest)

    def _flags(self, follows: bool) -> int:
        return self.flags | (0 if follows else dnnl.NORM_GIVEN)


def _lacks(forms: Forms, shape: tuple[int, ...]) -> str | None:
    """Give the reason why oneDNN cannot train with these forms on blobs of a shape, or None."""
    desc = describe(shape, PLAIN if stays_plain(shape) else CHANNELS_LAST)
    try:
        for follows in (True, False):
            forms.backward(desc, forms.forward(desc, follows, trained=True), follows)
    except Unimplemented as error:
        return str(error)
    return None
