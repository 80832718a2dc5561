"""Max and mean pooling of images with one to three axes, or of tokens, with ReLU in one."""

from __future__ import annotations

from dataclasses import dataclass
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
from .base import (
    Layouts,
    OnednnKernel,
    describe_blob,
    gate,
    is_images,
    layout_beside,
    rectify,
    side_by_side,
    stays_plain,
    unfit,
)


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


def of_tokens(layer: PoolingLayer, shape: tuple[int, ...]) -> bool:
    """Return whether a layer pools tokens: a blob (records, tokens, features) over axis 1."""
    return len(shape) == 3 and layer.axes == (1,)


def as_images(layer: PoolingLayer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a bottom or top as images."""
    return (shape[0], shape[2], shape[1]) if of_tokens(layer, shape) else shape


MOST_BYTES = 1 << 8
"""The most cells of a window whose number fits into a byte."""


class PoolingKernel(OnednnKernel, reads=""):
    """Max and mean pooling, with ReLU behind it; of equal maxima the first gets the gradient.

    The helper computes max pooling, since oneDNN's loses a NaN: over two axes, and then over the first of three. And
    the mean of whole images whose channels lie side by side, which runs together with what is before and behind it.

    Tokens (records, tokens, features), of which only axis 1 is pooled, are images with the features as their last
    channels.
    """

    PASSES: ClassVar = {"forward": ("forward",), "backward": ("gate", "data")}
    LIES, ALIKE = "by channels", True

    @classmethod
    def supports(cls, layer: PoolingLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs):
            return reason
        shape = inputs[0].shape
        if not is_images(shape) or not (of_tokens(layer, shape) or layer.axes in ((), tuple(range(2, len(shape))))):
            return "serves images with one to three axes, all of them pooled, and tokens, whose axis 1 is pooled"
        if layer.masks:
            return "makes no masks"
        axes = list(pooled_axes(layer, shape).values())
        number = algorithm(layer, axes)
        if number is None:
            return f"serves Max, and Mean where oneDNN divides by the same cells, not {layer.pooling!r}"
        if number == dnnl.POOLING_MAX:
            return MISSING if helper() is None else too_large([axis.kernel for axis in axes])
        shape = as_images(layer, shape)
        layout = PLAIN if stays_plain(shape) and not of_tokens(layer, shape) else CHANNELS_LAST
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
        self.images = as_images(layer, shape)
        self.mean = None if number in (None, dnnl.POOLING_MAX) else Forms(self.images, axes, number)
        self.tokens = of_tokens(layer, shape)
        counts = [axis.count for axis in axes]
        self.blobs = [backend.blob((shape[0], *counts, shape[2]) if self.tokens else (*shape[:2], *counts))]
        if self.tokens:
            self.LIES = "in order"
        if self.relu:
            self.reads = "blobs"

    def stages(self) -> list[str]:
        stages = super().stages()
        return [*stages, "gate"] if self.relu and "data" in stages else stages

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        bottom, top = self.inputs[0], self.blobs[0]
        if self.tokens:
            layout = CHANNELS_LAST
            x, y = (describe(as_images(self.layer, one.shape), layout, one.dtype) for one in (bottom, top))
        else:
            layout = layout_beside(bottom, layouts, top)
            x, y = describe_blob(bottom, layouts, top), describe_blob(top, layouts, bottom)
        if stage == "gate":
            return gate(y, "gated")
        above = "gated" if self.relu else "dy"
        if self.mean is None:
            side = side_by_side(self.images, layout)
            return self._largest(x, y, side) if stage == "forward" else self._to_largest(x, y, side, above)
        if stage == "forward":
            return [self._average(x, y, side_by_side(self.images, layout)), *(rectify(y) if self.relu else [])]
        return [call(self.mean.backward(x, y), {arg.DIFF_DST: (above, y), arg.DIFF_SRC: ("dx", x)})]

    def _average(self, x: Desc, y: Desc, side: int) -> Call:
        """Return the call of the mean."""
        assert self.mean is not None, "maxima have none"
        whole = all((axis.kernel, axis.count, axis.pad) == (axis.length, 1, 0) for axis in self.axes)
        if whole and side > 1 and helper() is not None:
            sizes = {"planes": prod(self.images[:2]) // side, "pixels": prod(self.images[2:]), "side": side}
            buffers = {"x": ("x", x.bytes), "y": ("y", y.bytes)}
            return HelperCall(buffers, "mean", {**sizes, "narrow": self.inputs[0].dtype == "bf16"})
        trained = "data" in self.stages()
        return call(self.mean.forward(x, y, trained), {arg.SRC: ("x", x), arg.DST: ("y", y)})

    def _largest(self, x: Desc, y: Desc, side: int) -> list[Call]:
        """Return the calls that find the largest numbers, and note their cells if there is a backward pass."""
        passes, noted = self._passes(side), "data" in self.stages()
        calls: list[Call] = []
        source = ("x", x.bytes)
        for one in passes:
            last = one is passes[-1]
            result = ("y", y.bytes) if last else ("between", self._bytes(one))
            buffers = {"x": source, "y": result, "winners": (one.winners if noted else "", one.notes)}
            calls.append(HelperCall(buffers, "pooling", {**self._numbers(one), "relu": self.relu and last}))
            source = result
        return calls

    def _to_largest(self, x: Desc, y: Desc, side: int, above: str) -> list[Call]:
        """Return the calls that bring the gradient `above` of y to the noted cells."""
        passes, workers = self._passes(side), number_of_threads()
        narrow = self.inputs[0].dtype == "bf16"
        calls: list[Call] = []
        source = (above, y.bytes)
        for one in reversed(passes):
            result = ("dx", x.bytes) if one is passes[0] else ("between", self._bytes(passes[0]))
            scratch = ("scratch" if narrow else "", 4 * side * one.across.length * workers)
            buffers = {"dy": source, "dx": result, "winners": (one.winners, one.notes), "scratch": scratch}
            calls.append(HelperCall(buffers, "pooling_gradient", self._numbers(one), workers if narrow else 0))
            source = result
        return calls

    def _passes(self, side: int) -> list[Pass]:
        """Return the one or two passes of which max pooling is made, if so many channels lie side by side."""
        images, channels = self.images[:2]
        planes = images * channels // side
        if len(self.axes) < 3:
            down, across = [WindowAxis(1, 1), *self.axes][-2:]
            return [Pass(planes, down, across, side, "Winners")]
        deep, down, across = self.axes
        pixels = WindowAxis(down.count * across.count, 1)
        return [
            Pass(planes * deep.length, down, across, side, "Winners"),
            Pass(planes, deep, pixels, side, "Winners in depth"),
        ]

    def _bytes(self, one: Pass) -> int:
        """Return the bytes of what a pass writes."""
        return one.size * (2 if self.inputs[0].dtype == "bf16" else 4)

    def _numbers(self, one: Pass) -> dict[str, int]:
        return {**one.numbers, "narrow": self.inputs[0].dtype == "bf16"}


@dataclass(frozen=True)
class Pass:
    """Max pooling of planes over two axes, with so many numbers `side` by side; `winners` names the buffer of notes."""

    planes: int
    down: WindowAxis
    across: WindowAxis
    side: int
    winners: str

    @property
    def size(self) -> int:
        """Numbers of the result."""
        return self.planes * self.down.count * self.across.count * self.side

    @property
    def in_bytes(self) -> bool:
        """Whether the number of a cell fits into a byte."""
        return self.down.kernel * self.across.kernel <= MOST_BYTES

    @property
    def notes(self) -> int:
        """Bytes of the notes of all winning cells."""
        return self.size * (1 if self.in_bytes else 4)

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers of `pooling` in operations.h that are sizes."""
        down, across = self.down, self.across
        return {
            "planes": self.planes,
            "rows": down.length,
            "columns": across.length,
            "side": self.side,
            "out_rows": down.count,
            "out_columns": across.count,
            "down": down.kernel,
            "right": across.kernel,
            "step_down": down.stride if down.count > 1 else 1,
            "step_right": across.stride if across.count > 1 else 1,
            "above": down.pad,
            "beside": across.pad,
            "bytes": self.in_bytes,
        }


class Forms:
    """The primitives of a pooling of one shape."""

    def __init__(self, shape: tuple[int, ...], axes: list[WindowAxis], number: int) -> None:
        self.number = number
        self.top = (*shape[:2], *(axis.count for axis in axes))
        self.sizes = (
            dims([axis.stride for axis in axes]),
            dims([axis.kernel for axis in axes]),
            dims([0] * len(axes)),
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
