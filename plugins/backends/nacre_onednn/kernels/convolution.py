"""Convolution of images with one to three axes, with bias and ReLU in one."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from math import prod
from typing import Any, ClassVar

from nacre import Array, Parameter
from nacre_layers.convolution.filters import FilterLayer, declare
from nacre_layers.convolution.geometry import Geometry
from nacre_layers.neurons import is_relu

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import Unimplemented, library
from ..dnnl.primitives import (
    CHANNELS_LAST,
    PLAIN,
    Buffer,
    Call,
    Desc,
    HelperCall,
    Primitive,
    attributes,
    block,
    call,
    describe,
    dims,
    free,
    into,
    out_of,
    pass_over,
    plain,
    reorder,
    tagged,
)
from ..helper.depthwise import DepthwiseConvolution
from ..helper.direct import DirectConvolution
from ..helper.winograd import WinogradConvolution
from ..record import Copies
from ..rewrite import fold_of
from .base import Layouts, OnednnKernel, describe_blob, gate, make_ones, rectify, unfit
from .columns import MOST_SUMMED, ColumnsConvolution, PanelsConvolution, SplitConvolution
from .products import FEW_ROWS, PANELS, SPLIT, sum_up

AS_IT_IS, AS_THE_TOP, AS_THE_BOTTOM, ANY = "as it is", "as the top", "as the bottom", "any"
"""Ways to lay bottom and top: as they are, with a plain one copied into or from the layout of the other, or both as is
fastest for oneDNN."""


WITH_ZEROS = "with a channel of zeros"
"""A way of pictures with three channels in bf16; with AMX, which gets more channels of zeros, also of two and four."""

MOST_PACKED = 4
"""Channels up to which oneDNN packs pixels of a row for AMX, behind a window also the next ones, times 0."""

DIRECTLY, AS_PRODUCT, BY_CHANNELS = "in lanes", "as a product", "channel by channel"
BY_WINOGRAD, IN_LARGER_TILES, IN_PAIRS = "by Winograd", "by Winograd, in larger tiles", "by Winograd, in pairs"
"""Ways of the helper, by the names that saved plans have for them."""


class Forms:
    """The descriptors and primitives of a convolution of one shape.

    `weight` is plain: (filters, channels, *kernel), or (groups, filters / groups, ...).
    """

    KIND, ALGORITHM = "convolution", dnnl.CONVOLUTION_DIRECT

    def __init__(self, g: Geometry, groups: int, bias: bool, dtype: str = "float32") -> None:
        plain_shape = (groups, g.weight[0] // groups, *g.weight[1:]) if groups > 1 else g.weight
        shape, self.weight = self.lay(plain_shape, len(g.axes))
        self.free_weight, self.free_gradient = free(*shape, dtype=dtype), free(*shape)
        self.bias = plain(g.top[1]) if bias else None
        self.sizes = (
            dims([axis.stride for axis in g.axes]),
            dims([axis.dilation - 1 for axis in g.axes]),  # oneDNN counts from 0
            dims([axis.pad for axis in g.axes]),
            dims([axis.behind for axis in g.axes]),
        )
        far = any(2 * max(axis.pad, axis.behind) >= axis.kernel for axis in g.axes)
        self.wrong = "jit:" if len(g.axes) == 3 and far else None
        """Code of the gradient of the weights that is wrong in oneDNN 3.2: windows reach far over the edge."""

    def lay(self, shape: tuple[int, ...], axes: int) -> tuple[tuple[int, ...], Desc]:
        """Return the shape of plain weights as oneDNN counts their axes, and how they lie; `axes` are the kernel's."""
        return shape, plain(*shape)

    def forward(self, x: Desc, y: Desc) -> Primitive:
        return Primitive(
            f"{self.KIND}_forward", library().engine, dnnl.FORWARD_TRAINING, self.ALGORITHM,
            x, self.free_weight, self.bias, y, *self.sizes, attributes(),
        )  # fmt: skip

    def backward(self, stage: str, x: Desc, y: Desc) -> Primitive:
        """Return the primitive of the gradient of the weights or of the data."""
        hint = self.forward(x, y).desc
        weights = [self.free_gradient, self.bias] if stage == "weights" else [self.free_weight]
        return Primitive(
            f"{self.KIND}_backward_{stage}", library().engine, self.ALGORITHM,
            x, *weights, y, *self.sizes, hint, attributes(), wrong=self.wrong if stage == "weights" else None,
        )  # fmt: skip


class ConvolutionKernel(OnednnKernel, reads="inputs"):
    """Convolution in groups or without, with stride, padding and dilation; applies ReLU itself.

    The weights stay plain, and are copied into the layouts of the primitives in every pass: they are small.

    In bf16, processors add up channels by pairs. With an odd number of them oneDNN pairs the last with a number of the
    next pixel, times 0, so that a NaN there spreads: such sums are computed in float32 (those of three channels also in
    bf16, with a fourth one of zeros). With AMX so are those of two and four channels. So is what oneDNN 3.2 gets wrong
    in bf16: the gradient of filters that reach over more than the whole image, or with padding have pixels between
    them. And with AMX windows that have pixels between them, those of three axes that reach over more than the image,
    and those of an even width with an even stride and no padding, unless channels are a multiple of 32.

    In phase predict, in float32, it computes the BatchNorm behind it too: `norm`, whose slope and shift become part of
    copies of weights and bias. And the `sum` behind that.
    """

    PASSES: ClassVar = {"forward": ("forward",), "backward": ("gate", "weights", "bias", "data")}
    LIES = "by channels"
    GEOMETRY: ClassVar[type[Any]] = Geometry
    FORMS: ClassVar[type[Forms]] = Forms
    FILTERS: ClassVar[int] = 0
    """The axis of the weights that counts the filters."""
    OF_OURS: ClassVar[Mapping[str, str]] = {stage: stage for stage in ("forward", "weights", "data")}
    """The stage of the helper's convolution that computes a stage."""
    SUMS_UP: ClassVar[bool] = True
    """Whether the stage "weights" computes the gradient of the bias too. If not, or if the weights are frozen, the
    stage "bias" does."""

    @classmethod
    def supports(cls, layer: FilterLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs):
            return reason
        geometry = cls.GEOMETRY(layer, inputs[0].shape)
        try:
            forms = cls.FORMS(geometry, layer.n_group, layer.bias)
            x, y = free(*inputs[0].shape), free(*geometry.top)
            forms.forward(x, y)
            for stage in ("weights", "data"):
                forms.backward(stage, x, y)
        except Unimplemented as error:
            return str(error)
        return None

    def __init__(self, layer: FilterLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs, self.GEOMETRY)
        self.relu = is_relu(layer.neuron)
        summed = {"forward": inputs[0].shape[1], "data": layer.n_filter}
        channels = {stage: count // layer.n_group for stage, count in summed.items()}
        self.right = {stage: self._adds_up(stage, c) and self._is_usual(stage, c) for stage, c in channels.items()}
        self.right["weights"] = self._is_usual("weights")
        self.forms, self.exact = self.make_forms(bias=layer.bias)
        if self.relu:
            self.reads = "inputs blobs"
        self.biased = layer.bias
        self.norm: Any = None
        self.sum: Any = None
        self.weight, self.bias, self.added = "weight", "bias", ""
        """The names of the buffers that the forward pass reads."""
        self.ours = self._make_ours()
        self.ones: dict[str, Array] = {}
        if (fold := fold_of(layer)) is not None:
            fold.below = self

    def _adds_up(self, stage: str, channels: int) -> bool:
        """Return whether oneDNN adds up so many channels in bf16 without reading others, times 0."""
        packed = library().amx and self.OF_OURS[stage] == "forward" and self.layer.n_group == 1
        packed = packed and channels <= MOST_PACKED and self.geometry.axes[-1].kernel > 1
        return channels % 2 == 0 and not packed

    def _is_usual(self, stage: str, channels: int = 0) -> bool:
        """Return whether windows lie so that oneDNN multiplies the right numbers of bf16."""
        axes, last = self.geometry.axes, self.geometry.axes[-1]
        inside = all(axis.extent <= axis.length for axis in axes)
        if self.OF_OURS[stage] == "weights":
            return inside and all(axis.stride <= axis.kernel or axis.pad == 0 for axis in axes)
        if not library().amx:
            return True
        apart = any(axis.stride > axis.kernel for axis in axes) and any(axis.kernel > 1 for axis in axes)
        if apart or (len(axes) == 3 and not inside):
            return False
        even = channels % 32 > 0 and last.kernel % 2 == 0 == last.stride % 2
        return not even or last.pad > 0 or last.dilation > 1

    def _make_ours(self) -> dict[str, DirectConvolution]:
        narrow = self.backend.compute == "bf16"
        forms = {IN_LARGER_TILES: {"large": True}, BY_WINOGRAD: {}, **({IN_PAIRS: {"paired": True}} if narrow else {})}
        ours: dict[str, DirectConvolution] = {
            way: WinogradConvolution(self.geometry, keeps=self.keeps, narrow=narrow, **form)
            for way, form in forms.items()
        }
        self.as_product = ColumnsConvolution(self.geometry, keeps=self.keeps, dtype=self.backend.compute)
        ours[AS_PRODUCT] = self.as_product
        of_floats: dict[str, type[DirectConvolution]] = {
            DIRECTLY: DirectConvolution,
            PANELS: PanelsConvolution,
            SPLIT: SplitConvolution,
            BY_CHANNELS: DepthwiseConvolution,
        }
        exact = {} if narrow else of_floats
        return ours | {way: kind(self.geometry, keeps=self.keeps) for way, kind in exact.items()}

    def take_over(self, norm: Any) -> bool:
        """Compute the BatchNorm behind it too, if that is possible; return whether it is."""
        if self.phase != "predict" or self.backend.compute != "float32" or norm.diffs[0] is not None:
            return False
        self.norm, self.relu, self.biased = norm, norm.relu, True
        self.forms, self.exact = self.make_forms(bias=True)
        return True

    def take_over_sum(self, behind: Any) -> bool:
        """Compute the sum behind the BatchNorm too, if that is possible; return whether it is."""
        self.sum, self.relu, self.adds = behind, behind.relu, True
        return True

    def make_forms(self, *, bias: bool) -> tuple[Forms, Forms]:
        """Return the forms in the type that the net computes in, and those in float32."""
        narrow, exact = (
            self.FORMS(self.geometry, self.layer.n_group, bias, dtype) for dtype in (self.backend.compute, "float32")
        )
        return narrow, exact

    @property
    def waits_for_weights(self) -> bool:
        """Whether a forward pass has few windows, or windows of one pixel, and more weights to read than images.

        The helper's products fetch weights ahead, and run together with its operations before and behind them, which
        no trial shows.
        """
        windows, cells = prod(axis.count for axis in self.geometry.axes), prod(self.geometry.weight[2:])
        return self.reads_mostly_weights and (cells == 1 or windows * self.geometry.images <= FEW_ROWS)

    def is_exact(self, stage: str) -> bool:
        """Return whether a stage is computed in float32, whatever the net computes in."""
        return self.backend.compute != "float32" and not self.right.get(stage, True)

    def ready(self) -> None:
        images, _, *image = self.blobs[0].shape
        if self.blobs_diff[0] is not None and self.biased:
            self.ones = {
                "ones of pixels": make_ones(self.backend, prod(image), self.backend.compute),
                "ones of images": make_ones(self.backend, images),
            }
        super().ready()

    def stages(self) -> list[str]:
        if self.blobs_diff[0] is None:
            return ["forward"]
        return [
            "forward",
            *(["gate"] if self.relu else []),
            *(["weights"] if self.learns("weight") else []),
            *(["data"] if self.diffs[0] is not None else []),
            *(["bias"] if self.learns("bias") and not (self.SUMS_UP and self.learns("weight")) else []),
        ]

    def ways_of(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        if stage in ("gate", "bias"):
            return ("",)
        if self.is_exact(stage):
            if self.OF_OURS[stage] != "forward":
                return (ANY, AS_IT_IS)
            padded = stage == "forward" and self.layer.n_group == 1 and 1 < self.geometry.weight[1] <= MOST_PACKED
            padded = padded and self._is_usual(stage)
            ours = self.as_product.has("forward")
            return (ANY, AS_IT_IS, *((WITH_ZEROS,) if padded else ()), *((AS_PRODUCT,) if ours else ()))
        ends = ((AS_THE_TOP, self.inputs[0]), (AS_THE_BOTTOM, self.blobs[0]))
        ours = [way for way, one in self.ours.items() if one.has(self.OF_OURS[stage])]
        if stage == "forward" and PANELS in ours and self.waits_for_weights:
            return (PANELS,)
        return (AS_IT_IS, *(way for way, blob in ends if layouts(blob) == PLAIN), ANY, *ours)

    def by_rule(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        """Return the ways with Winograd's first, then the direct sum if channels do not fill blocks.

        Where AMX multiplies, there are no products to save: as they are, or as a product where the windows are few.
        """
        ways = self.ways_of(stage, layouts)
        fills = all(blob.shape[1] % block() == 0 for blob in (self.inputs[0], self.blobs[0]))
        wanted = IN_LARGER_TILES, BY_WINOGRAD, *(() if fills else (DIRECTLY,))
        if self.backend.compute == "bf16" and library().amx:
            wanted = (AS_PRODUCT,) if self.as_product.windows <= MOST_SUMMED else ()
        first = [way for way in wanted if way in ways]
        return (*first, *(way for way in ways if way not in first))

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        if self.norm is None or stage != "forward":
            return self._make(stage, way, layouts)
        self.weight, self.bias = "folded weight", "Folded bias"
        before: list[Call] = []
        if self.adds:
            top, other = self.blobs[0], self.sum.other
            y = describe_blob(top, layouts, self.inputs[0])
            before, (self.added, _) = into("added", describe_blob(other, layouts, top), y)
        calls = self._make(stage, way, layouts)
        if any(self.weight in one.sizes() and not one.once for one in calls):  # it is read in every pass
            self.weight = "Folded weight"
            calls = self._make(stage, way, layouts)
        return [self._folding(), *before, *calls]

    def _folding(self) -> Call:
        """Return the call that makes the weights and the bias that normalise."""
        weight, few = self.parameters[0], 4 * self.layer.n_filter
        channels = {"outer": prod(weight.shape[: self.FILTERS]), "channels": weight.shape[self.FILTERS]}
        numbers = {**channels, "inner": prod(weight.shape[self.FILTERS + 1 :]), "epsilon": self.norm.layer.epsilon}
        ends = {"w": "weight", "folded": self.weight}
        rows = {"bias": "bias" if self.layer.bias else "", "folded_bias": self.bias}
        rows |= {operand: name for operand, (name, _) in self._of_norm().items()}
        sizes = {**dict.fromkeys(ends, 4 * prod(weight.shape)), **dict.fromkeys(rows, few)}
        return HelperCall({one: (name, sizes[one]) for one, name in (ends | rows).items()}, "fold", numbers, once=True)

    def _of_norm(self) -> dict[str, tuple[str, Parameter]]:
        """Return the parameters of the BatchNorm: {operand of the helper: (buffer, parameter)}."""
        operands = {"scale": "scale", "bias": "shift", "mean": "mean", "variance": "variance"}
        return {operands[one.name]: (f"{one.name} of the norm", one) for one in self.norm.parameters}

    def buffers(self) -> dict[str, Array]:
        norm = {} if self.norm is None else dict(self._of_norm().values())
        added = {"added": self.sum.other.memory} if self.adds else {}
        return {**super().buffers(), **self.ones, **added, **{name: one.blob for name, one in norm.items()}}

    def copies(self) -> Copies:
        norm = [] if self.norm is None else self.norm.parameters
        return Copies([one.storage for one in (*self.parameters, *norm) if one.storage is not None])

    def _make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        bottom, top = self.inputs[0], self.blobs[0]
        x, y = describe_blob(bottom, layouts, top), describe_blob(top, layouts, bottom)
        if stage == "gate":
            return gate(y, "gated")
        if stage == "bias":
            return sum_up("gated" if self.relu else "dy", top.shape, layouts(top), top.dtype)
        if way in self.ours:
            return self._of_ours(self.ours[way], stage, x, y)
        if way == WITH_ZEROS:
            return [*self._with_zeros(x, y), *self._behind(y)]
        forms, dtype = (self.exact, "float32") if self.is_exact(stage) else (self.forms, self.backend.compute)
        make = forms.forward if stage == "forward" else lambda x, y: forms.backward(stage, x, y)
        if way == ANY:
            primitive = make(*(free(*blob.shape, dtype=dtype) for blob in (bottom, top)))
        elif way == AS_THE_TOP:
            primitive = make(describe(bottom.shape, layouts(top), bottom.dtype), y)
        elif way == AS_THE_BOTTOM:
            primitive = make(x, describe(top.shape, layouts(bottom), top.dtype))
        elif self.is_exact(stage):
            primitive = make(*(describe(blob.shape, layouts(blob), dtype) for blob in (bottom, top)))
        else:
            primitive = make(x, y)
        calls = getattr(self, f"_{stage}")(primitive, x, y)
        return [*calls, *self._behind(y)] if stage == "forward" else calls

    def _behind(self, y: Desc) -> list[Call]:
        """Return the calls of what is behind the filters and their bias."""
        if self.adds:
            return [pass_over("add", {"one": "y", "other": self.added, "y": "y"}, y, relu=self.relu)]
        return rectify(y) if self.relu else []

    def _of_ours(self, ours: DirectConvolution, stage: str, x: Desc, y: Desc) -> list[Call]:
        if stage == "forward":
            ours.names = self.weight, ours.names[1]
            ends, bias = (("x", x), ("y", y)), self.bias if self.biased else ""
            if self.adds and not ours.adds_to(y):
                return [*ours.forward(*ends, bias), *self._behind(y)]
            return ours.forward(*ends, bias, self.added, relu=self.relu)
        top = ("gated" if self.relu else "dy", y)
        dbias = "dbias" if self.biased else ""
        return ours.data(("dx", x), top) if stage == "data" else ours.weights(("x", x), top, dbias)

    def _with_zeros(self, x: Desc, y: Desc) -> list[Call]:
        """Return the calls of the forward pass with channels of zeros, with which oneDNN fills a block."""
        calls: list[Call] = []
        ends: list[Buffer] = []
        wide, blocks = (8, dnnl.BLOCKED_8) if library().amx else (4, dnnl.BLOCKED_4)
        for name, outer in (("x", x), (self.weight, self.forms.weight)):
            count, _, *axes = outer.shape
            padded = tagged(outer.shape, blocks[len(outer.shape)], "bf16")
            ends.append((f"wide {name}", describe((count, wide, *axes), CHANNELS_LAST, "bf16")))
            calls += reorder(name, outer, ends[-1][0], padded)
        calls[-1].once = self.keeps
        (_, images), (_, weight) = wide_x, wide_w = ends
        forms = copy(self.forms)
        forms.free_weight = free(*weight.shape, dtype="bf16")
        last = y == describe(y.shape, CHANNELS_LAST, "bf16")
        primitive = forms.forward(images if last else free(*images.shape, dtype="bf16"), y)
        return [*calls, *self._convolve(primitive, wide_x, wide_w, y, self.forms.bias)]

    def _forward(self, primitive: Primitive, x: Desc, y: Desc, bias: Desc | None = None) -> list[Call]:
        w = self.weight, self.forms.weight
        return self._convolve(primitive, ("x", x), w, y, self.forms.bias if bias is None else bias)

    def _convolve(self, primitive: Primitive, x: Buffer, w: Buffer, y: Desc, bias: Desc | None) -> list[Call]:
        inner_x, inner_w, inner_y = (primitive.memory(one) for one in (dnnl.SOURCE, dnnl.WEIGHTS, dnnl.RESULT))
        before, source = into(*x, inner_x)
        packing, weight = self.packed(*w, inner_w)
        result, after = out_of("y", y, inner_y)
        buffers = {arg.SRC: source, arg.WEIGHT: weight, arg.DST: result}
        if bias is not None:
            buffers[arg.BIAS] = (self.bias, bias)
        return [*before, *packing, call(primitive, buffers), *after]

    def _weights(self, primitive: Primitive, x: Desc, y: Desc) -> list[Call]:
        inner_x, inner_w, inner_y = (primitive.memory(o) for o in (dnnl.SOURCE, dnnl.DIFF_WEIGHTS, dnnl.DIFF_RESULT))
        before, source = into("x", x, inner_x)
        gradient, top = into("gated" if self.relu else "dy", y, inner_y)
        result, after = out_of("dweight", self.forms.weight, inner_w)
        buffers = {arg.SRC: source, arg.DIFF_DST: top, arg.DIFF_WEIGHT: result}
        if self.forms.bias is not None:
            buffers[arg.DIFF_BIAS] = ("dbias", self.forms.bias)
        return [*before, *gradient, call(primitive, buffers), *after]

    def _data(self, primitive: Primitive, x: Desc, y: Desc) -> list[Call]:
        inner_x, inner_w, inner_y = (primitive.memory(o) for o in (dnnl.DIFF_SOURCE, dnnl.WEIGHTS, dnnl.DIFF_RESULT))
        gradient, top = into("gated" if self.relu else "dy", y, inner_y)
        packing, weight = self.packed("weight", self.forms.weight, inner_w)
        result, after = out_of("dx", x, inner_x)
        buffers = {arg.DIFF_DST: top, arg.WEIGHT: weight, arg.DIFF_SRC: result}
        return [*gradient, *packing, call(primitive, buffers), *after]
