"""Softmax of scores, by the helper: oneDNN's loses a NaN, and its gradient needs AVX-512."""

from __future__ import annotations

from math import prod
from typing import Any

from nacre import Own
from nacre_layers.axes import axis_or_batch
from nacre_layers.elementwise.softmax import SoftmaxLayer, SoftmaxState

from ..dnnl.primitives import CHANNELS_LAST, Call, Desc, HelperCall, describe, into, out_of
from .base import Layouts, OnednnKernel, describe_blob, is_images, unserved


class SoftmaxKernel(OnednnKernel, reads="blobs"):
    """Probabilities along the last axis, or over the channels of images, and their gradient.

    Images are copied so that their channels lie side by side, unless they do.
    """

    ALIKE = True

    @classmethod
    def supports(cls, layer: SoftmaxLayer, inputs: list[Any]) -> str | None:
        if reason := unserved(inputs):
            return reason
        shape = inputs[0].shape
        axis = axis_or_batch(layer, shape)
        if axis == 0 or (axis != 1 and axis != len(shape) - 1) or (axis == 1 and len(shape) > 5):
            return "serves scores along the last axis, and over the channels of images"
        return "serves no last axis of four, which may lie with their channels last" if axis == 3 else None

    def __init__(self, layer: SoftmaxLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = SoftmaxState(layer, backend, inputs, diffs).blobs  # which checks the axis
        shape = inputs[0].shape
        self.axis = axis_or_batch(layer, shape)
        self.images = is_images(shape) and self.axis == 1
        if self.images:
            self.LIES = "by channels"

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        y = self.blobs[0]
        forward = stage == "forward"
        outer, inner = self._lies(y, layouts)
        before: list[Call] = []
        buffers: dict[str, tuple[str, int]] = {}
        for name in ("x",) if forward else ("y", "dy"):
            calls, (read, _) = into(name, outer, inner)
            before += calls
            buffers[name] = read, inner.bytes
        result = "y" if forward else "dx"
        (written, _), after = out_of(result, outer, inner)
        buffers[result] = written, inner.bytes
        classes = y.shape[self.axis]
        numbers = {"images": prod(y.shape) // classes, "classes": classes, "narrow": y.dtype == "bf16"}
        return [*before, HelperCall(buffers, "softmax" if forward else "softmax_gradient", numbers), *after]

    def _lies(self, y: Own, layouts: Layouts) -> tuple[Desc, Desc]:
        """Describe the blobs as they lie, and with their classes side by side."""
        if not self.images:
            desc = describe(y.shape, layouts(y), y.dtype)
            return desc, desc
        return describe_blob(y, layouts), describe(y.shape, CHANNELS_LAST, y.dtype)
