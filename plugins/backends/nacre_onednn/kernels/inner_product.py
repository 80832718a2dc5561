"""Inner products of rows of features, with bias and ReLU in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

from nacre import Array
from nacre_layers.linear.inner_product import InnerProductLayer, InnerProductState
from nacre_layers.neurons import is_relu

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import library
from ..dnnl.primitives import (
    IN_ORDER,
    PLAIN,
    Buffer,
    Call,
    Desc,
    Primitive,
    attributes,
    call,
    free,
    into,
    plain,
    reorder,
    strided,
    too_large,
)
from ..helper.product import PanelProduct, weights_in_pairs
from ..helper.small_batch import SmallBatchProduct
from ..record import Copies, recorder
from .base import Layouts, OnednnKernel, describe_blob, gate, is_images, make_ones, rectify, unfit
from .products import FEW_ROWS, GEMM, PACKED, PAIRS, PANELS, PRODUCT, in_pairs, own_products

Laid = Callable[..., Desc]
"""Describes weights of a shape: `plain` or `free`."""


FEW = "of few images"
"""A way besides those of products.py: the helper's, where the batch is small."""


NARROW = "narrow weight"
"""The weights in bf16, for both passes: written by the update, or before a pass if something else changed them."""


def first_axis(layer: InnerProductLayer, shape: tuple[int, ...]) -> int:
    """Return the first axis of the features, counted from the front."""
    return layer.axis if layer.axis >= 0 else len(shape) + layer.axis


def not_rows(layer: InnerProductLayer, shape: tuple[int, ...]) -> str | None:
    """Return why a layer is not a product of (rows, features) and (output_dim, features), or None."""
    axis = first_axis(layer, shape)
    if layer.transpose:
        return "serves only weights of (output_dim, features)"
    if axis < 1:
        return "serves no batch that is one row of features: axis=0"
    if len(shape) == 4 and axis > 1:
        return "serves bottoms of four axes with axis=1 only: they may lie with their channels last"
    return "serves no tops of four axes, which may lie with their channels last" if axis == 3 else None


class InnerProductKernel(OnednnKernel, reads="inputs"):
    """y = x Wᵀ + b with plain weights; applies ReLU itself.

    Bottom and top are read as (rows, features) and (rows, outputs). A bottom of images is copied to be flat.
    """

    PASSES: ClassVar = {"forward": ("flatten", "forward"), "backward": ("gate", "weights", "bias", "data", "unflatten")}

    @classmethod
    def supports(cls, layer: InnerProductLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs) or not_rows(layer, inputs[0].shape):
            return reason
        shape, axis = inputs[0].shape, first_axis(layer, inputs[0].shape)
        return too_large((layer.output_dim, prod(shape[axis:])), (prod(shape[:axis]), layer.output_dim))

    def __init__(self, layer: InnerProductLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        state = InnerProductState(layer, backend, inputs, diffs)
        self.features, self.parameters, self.blobs = state.features, state.parameters, state.blobs
        self.relu = is_relu(layer.neuron)
        if self.relu:
            self.reads = "inputs blobs"
        *before, outputs = self.blobs[0].shape
        self.rows = rows = prod(before)
        if first_axis(layer, inputs[0].shape) == 1:
            self.LIES = "as it likes"
        self.dtype = backend.compute
        self.x, self.y = plain(rows, self.features, dtype=self.dtype), plain(rows, outputs, dtype=self.dtype)
        self.weight, self.bias = plain(outputs, self.features), plain(outputs) if layer.bias else None
        self.narrow = plain(outputs, self.features, dtype=self.dtype)
        self.row = plain(1, outputs)
        self.ours = SmallBatchProduct(rows, outputs, self.features, self.dtype, relu=self.relu)
        self.in_panels = own_products(rows, self.features, outputs, self.dtype, keeps=self.keeps)

    def ready(self) -> None:
        self.ones = make_ones(self.backend, self.rows, self.dtype)
        self.copy = recorder(self.backend).narrow(self.parameters[0].storage) if self.shares else None
        super().ready()

    def buffers(self) -> dict[str, Array]:
        narrow = {} if self.copy is None else {NARROW: self.copy.array}
        return {**super().buffers(), "ones": self.ones, **narrow}

    def copies(self) -> Copies:
        return self.copy or super().copies()

    @property
    def flat(self) -> bool:
        """Whether the bottom can be read as a matrix without a copy."""
        x = self.inputs[0]
        in_order = x.layout in (PLAIN, IN_ORDER) or not is_images(x.shape) or prod(x.shape[2:]) == 1
        return x.dtype == self.dtype and in_order

    def stages(self) -> list[str]:
        flatten = not self.flat
        stages = [*(["flatten"] if flatten else []), "forward"]
        if self.blobs_diff[0] is None:
            return stages
        data = self.diffs[0] is not None
        return [
            *stages,
            *(["gate"] if self.relu else []),
            *(["weights"] if self.learns("weight") else ["bias"] if self.learns("bias") else []),
            *(["data"] if data else []),
            *(["unflatten"] if data and flatten else []),
        ]

    def ways_of(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        if stage not in ("forward", "weights", "data"):
            return ("",)
        if stage == "forward" and PANELS in self.in_panels and self.waits_for_weights:
            return (PANELS,)
        pairs = in_pairs(self.dtype) if stage == "weights" else ()
        return (*pairs, PRODUCT, GEMM, PACKED, *((FEW,) if self.ours.usual else ()), *self.in_panels)

    @property
    def waits_for_weights(self) -> bool:
        """Whether a forward pass has few rows, and more weights to read than rows: see the same of convolutions."""
        return self.reads_mostly_weights and self.rows <= FEW_ROWS

    def by_rule(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        """Return the ways with the one for few images first."""
        return tuple(sorted(self.ways_of(stage, layouts), key=lambda way: way != FEW))

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        self.source, self.gradient = ("x", "dx") if self.flat else ("Flat x", "flat dx")
        self.top = "gated" if self.relu else "dy"
        if stage == "gate":
            return gate(self.y, "gated")
        if stage == "bias":
            return self._summed()
        if stage in ("flatten", "unflatten"):
            blob, flat = self._bottom(layouts)
            return reorder("x", blob, self.source, flat) if stage == "flatten" else reorder("flat dx", flat, "dx", blob)
        narrowing = self._narrowing() if stage == "forward" and self.shares else []
        ours = {PRODUCT: "product", FEW: "of_few", PAIRS: "in_pairs"}
        if way in ours:
            calls = getattr(self, f"_{stage}_{ours[way]}")()
        elif way in self.in_panels:
            calls = self._in_panels(self.in_panels[way], stage)
        else:
            calls = getattr(self, f"_{stage}")(plain if way == GEMM else free)
        rectifies = way == FEW or way in self.in_panels
        behind = rectify(self.y) if stage == "forward" and self.relu and not rectifies else []
        return [*narrowing, *calls, *behind]

    def _bottom(self, layouts: Layouts) -> tuple[Desc, Desc]:
        """Describe the bottom as it lies, and flattened."""
        x = self.inputs[0]
        if x.layout == PLAIN:  # of any number of axes
            return plain(self.rows, self.features, dtype=x.dtype), self.x
        return describe_blob(x, layouts), plain(*x.shape, dtype=self.dtype)

    # As products of matrices

    def _forward_product(self) -> list[Call]:
        outputs, features = self.parameters[0].shape
        turned = strided((features, outputs), (1, features), self.dtype)
        bias = None if self.bias is None else self.row
        primitive = Primitive("matmul", library().engine, self.x, turned, bias, self.y, attributes())
        narrowing, (weight, _) = self._weight(self.narrow)
        buffers = {arg.SRC: (self.source, self.x), arg.WEIGHT: (weight, turned), arg.DST: ("y", self.y)}
        return [*narrowing, call(primitive, {**buffers, **({arg.BIAS: ("bias", self.row)} if bias else {})})]

    @property
    def shares(self) -> bool:
        """Whether forward and backward pass share a copy of the weights in bf16."""
        return self.dtype == "bf16" and "data" in self.stages()

    def _narrowing(self) -> list[Call]:
        return [replace(one, once=True) for one in reorder("weight", self.weight, NARROW, self.narrow)]

    def _weight(self, inner: Desc) -> tuple[list[Call], Buffer]:
        """Return the calls that copy the weights for a primitive, if needed, and the buffer to read then."""
        if self.shares and inner == self.narrow:
            return [], (NARROW, inner)
        return self.packed("weight", self.weight, inner)

    def _weights_product(self) -> list[Call]:
        outputs = self.parameters[0].shape[0]
        turned = strided((outputs, self.rows), (1, outputs), self.dtype)
        primitive = Primitive("matmul", library().engine, turned, self.x, None, self.weight, attributes())
        buffers = {arg.SRC: (self.top, turned), arg.WEIGHT: (self.source, self.x), arg.DST: ("dweight", self.weight)}
        return [call(primitive, buffers), *self._summed()]

    def _summed(self) -> list[Call]:
        """Return the calls of the gradient of the bias: a product with ones."""
        if self.bias is None:
            return []
        ones = plain(1, self.rows, dtype=self.dtype)
        primitive = Primitive("matmul", library().engine, ones, self.y, None, self.row, attributes())
        buffers = {arg.SRC: ("ones", ones), arg.WEIGHT: (self.top, self.y), arg.DST: ("dbias", self.row)}
        return [call(primitive, buffers)]

    def _data_product(self) -> list[Call]:
        narrowing, weight = self._weight(self.narrow)
        primitive = Primitive("matmul", library().engine, self.y, weight[1], None, self.x, attributes())
        product = call(primitive, {arg.SRC: (self.top, self.y), arg.WEIGHT: weight, arg.DST: (self.gradient, self.x)})
        return [*narrowing, product]

    # As products of few images

    def _forward_of_few(self) -> list[Call]:
        narrowing, (weight, _) = self._weight(self.narrow)
        return [*narrowing, *self.ours.forward(self.source, weight, "" if self.bias is None else "bias", "y")]

    def _weights_of_few(self) -> list[Call]:
        rows, outputs = self.rows, self.parameters[0].shape[0]
        widening, (source, _) = into(self.source, self.x, plain(rows, self.features), "wide x")
        also, (top, _) = into(self.top, self.y, plain(rows, outputs), "wide dy")
        return [*widening, *also, *self.ours.weights(source, top, "dweight", "" if self.bias is None else "dbias")]

    def _data_of_few(self) -> list[Call]:
        narrowing, (weight, _) = self._weight(self.narrow)
        return [*narrowing, *self.ours.data(self.top, weight, self.gradient)]

    # As products of the helper's

    def _in_panels(self, ours: PanelProduct, stage: str) -> list[Call]:
        if stage == "forward":
            return ours.forward(self.source, "weight", "" if self.bias is None else "bias", "y", relu=self.relu)
        if stage == "weights":
            return ours.weights(self.source, self.top, "dweight", "" if self.bias is None else "dbias")
        return ours.data(self.top, "weight", self.gradient)

    def _weights_in_pairs(self) -> list[Call]:
        outputs, bias = self.parameters[0].shape[0], "" if self.bias is None else "dbias"
        sizes = {"rows": self.rows, "features": self.features, "outputs": outputs}
        return weights_in_pairs(self.source, self.top, "dweight", bias, **sizes)

    # As inner products, the weights as they are or as oneDNN likes them

    def _hint(self, laid: Laid) -> Primitive:
        return Primitive(
            "inner_product_forward", library().engine, dnnl.FORWARD_TRAINING,
            self.x, laid(*self.parameters[0].shape, dtype=self.dtype), self.bias, self.y, attributes(),
        )  # fmt: skip

    def _forward(self, laid: Laid) -> list[Call]:
        primitive = self._hint(laid)
        packing, packed = self._weight(primitive.memory(dnnl.WEIGHTS))
        buffers = {arg.SRC: (self.source, self.x), arg.WEIGHT: packed, arg.DST: ("y", self.y)}
        if self.bias is not None:
            buffers[arg.BIAS] = ("bias", self.bias)
        return [*packing, call(primitive, buffers)]

    def _weights(self, laid: Laid) -> list[Call]:
        primitive = Primitive(
            "inner_product_backward_weights", library().engine,
            self.x, laid(*self.parameters[0].shape), self.bias, self.y, self._hint(laid).desc, attributes(),
        )  # fmt: skip
        inner = primitive.memory(dnnl.DIFF_WEIGHTS)
        packed = inner != self.weight
        result = "inner dweight" if packed else "dweight"
        buffers = {arg.SRC: (self.source, self.x), arg.DIFF_DST: (self.top, self.y), arg.DIFF_WEIGHT: (result, inner)}
        if self.bias is not None:
            buffers[arg.DIFF_BIAS] = ("dbias", self.bias)
        return [call(primitive, buffers), *(reorder(result, inner, "dweight", self.weight) if packed else [])]

    def _data(self, laid: Laid) -> list[Call]:
        primitive = Primitive(
            "inner_product_backward_data", library().engine,
            self.x, laid(*self.parameters[0].shape, dtype=self.dtype), self.y, self._hint(laid).desc, attributes(),
        )  # fmt: skip
        packing, packed = self._weight(primitive.memory(dnnl.WEIGHTS))
        buffers = {arg.DIFF_DST: (self.top, self.y), arg.WEIGHT: packed, arg.DIFF_SRC: (self.gradient, self.x)}
        return [*packing, call(primitive, buffers)]
