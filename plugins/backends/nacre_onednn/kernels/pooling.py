"""Max and mean pooling of images with two axes, with ReLU in one."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from nacre import number_of_threads
from nacre_layers.neurons import is_relu
from nacre_layers.pooling.base import pooled_axes
from nacre_layers.pooling.functions import Max, Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.windows import WindowAxis

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import Unimplemented, library
from ..dnnl.primitives import (
    CHANNELS_LAST,
    PLAIN,
    Call,
    Desc,
    HelperCall,
    Primitive,
    attributes,
    call,
    describe,
    dims,
    too_large,
)
from ..helper.native import MISSING, helper
from .base import Layouts, OnednnKernel, describe_blob, gate, layout_beside, rectify, side_by_side, stays_plain, unfit


def algorithm(layer: PoolingLayer, axes: list[WindowAxis]) -> int | None:
    """Return oneDNN's number of a pooling function, or None.

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
    within = all(axis.reach == axis.padded for axis in axes)
    return dnnl.POOLING_ALL if pooling.divide_by == "kernel" or within else None


MOST_BYTES = 1 << 8
"""The most cells of a window whose number fits into a byte."""


class PoolingKernel(OnednnKernel, reads=""):
    """Max and mean pooling, with ReLU behind it; of equal maxima the first gets the gradient.

    The helper computes max pooling, since oneDNN's loses a NaN.
    """

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
        axes = list(pooled_axes(layer, shape).values())
        number = algorithm(layer, axes)
        if number is None:
            return f"serves Max, and Mean where oneDNN divides by the same cells, not {layer.pooling!r}"
        if number == dnnl.POOLING_MAX:
            return MISSING if helper() is None else too_large([axis.kernel for axis in axes])
        layout = PLAIN if stays_plain(shape) else CHANNELS_LAST
        try:
            forms = Forms(shape, axes, number)
            forms.backward(describe(shape, layout), describe(forms.top, layout))
        except Unimplemented as error:
            return str(error)
        return None

    def __init__(self, layer: PoolingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = inputs[0].shape
        axes = list(pooled_axes(layer, shape).values())
        self.relu, self.axes = is_relu(layer.neuron), axes
        number = algorithm(layer, axes)
        self.mean = None if number in (None, dnnl.POOLING_MAX) else Forms(shape, axes, number)
        self.blobs = [backend.blob((*shape[:2], *(axis.count for axis in axes)))]
        if self.relu:
            self.reads = "blobs"

    def stages(self) -> list[str]:
        stages = super().stages()
        return [*stages, "gate"] if self.relu and "data" in stages else stages

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        bottom, top = self.inputs[0], self.blobs[0]
        x, y = describe_blob(bottom, layouts, top), describe_blob(top, layouts, bottom)
        if stage == "gate":
            return gate(y, "gated")
        above = "gated" if self.relu else "dy"
        if self.mean is None:
            side = side_by_side(bottom.shape, layout_beside(bottom, layouts, top))
            return [self._largest(x, y, side) if stage == "forward" else self._to_largest(x, y, side, above)]
        if stage == "forward":
            trained = "data" in self.stages()
            pooling = call(self.mean.forward(x, y, trained), {arg.SRC: ("x", x), arg.DST: ("y", y)})
            return [pooling, *(rectify(y) if self.relu else [])]
        return [call(self.mean.backward(x, y), {arg.DIFF_DST: (above, y), arg.DIFF_SRC: ("dx", x)})]

    def _largest(self, x: Desc, y: Desc, side: int) -> Call:
        """Return the call that finds the largest numbers, and notes their cells if there is a backward pass."""
        winners = "Winners" if "data" in self.stages() else ""
        buffers = {"x": ("x", x.bytes), "y": ("y", y.bytes), "winners": (winners, self._winners)}
        return HelperCall(buffers, "pooling", self._numbers(side))

    def _to_largest(self, x: Desc, y: Desc, side: int, above: str) -> Call:
        """Return the call that brings the gradient `above` of y to the noted cells."""
        workers = number_of_threads()
        scratch = "scratch" if self.inputs[0].dtype == "bf16" else ""
        buffers = {
            "dy": (above, y.bytes),
            "dx": ("dx", x.bytes),
            "winners": ("Winners", self._winners),
            "scratch": (scratch, 4 * side * self.axes[1].length * workers),
        }
        return HelperCall(buffers, "pooling_gradient", self._numbers(side), workers if scratch else 0)

    @property
    def _in_bytes(self) -> bool:
        return prod(axis.kernel for axis in self.axes) <= MOST_BYTES

    @property
    def _winners(self) -> int:
        """Bytes of the notes of all winning cells."""
        return self.blobs[0].size * (1 if self._in_bytes else 4)

    def _numbers(self, side: int) -> dict[str, int]:
        """Return the numbers of `pooling` in operations.h."""
        images, channels, rows, columns = self.inputs[0].shape
        down, across = self.axes
        return {
            "planes": images * channels // side,
            "rows": rows,
            "columns": columns,
            "side": side,
            "out_rows": down.count,
            "out_columns": across.count,
            "down": down.kernel,
            "right": across.kernel,
            "step_down": down.stride if down.count > 1 else 1,
            "step_right": across.stride if across.count > 1 else 1,
            "above": down.pad,
            "beside": across.pad,
            "relu": self.relu,
            "bytes": self._in_bytes,
            "narrow": self.inputs[0].dtype == "bf16",
        }


class Forms:
    """The primitives of a pooling of one shape."""

    def __init__(self, shape: tuple[int, ...], axes: list[WindowAxis], number: int) -> None:
        self.number = number
        self.top = (*shape[:2], *(axis.count for axis in axes))
        self.sizes = (
            dims([axis.stride for axis in axes]),
            dims([axis.kernel for axis in axes]),
            dims((0, 0)),
            dims([axis.pad for axis in axes]),
            dims([axis.behind for axis in axes]),
        )

    def forward(self, x: Desc, y: Desc, trained: bool = True) -> Primitive:
        kind = dnnl.FORWARD_TRAINING if trained else dnnl.FORWARD_INFERENCE
        return self._make("forward", [kind], x, y, attributes())

    def backward(self, x: Desc, y: Desc) -> Primitive:
        return self._make("backward", [], x, y, self.forward(x, y).desc, attributes())

    def _make(self, kind: str, first: list[int], x: Desc, y: Desc, *last: Any) -> Primitive:
        return Primitive(f"pooling_{kind}", library().engine, *first, self.number, x, y, *self.sizes, *last)
