"""ElementWise, with ReLU in one, and Split's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre import Array, Own
from nacre_layers.elementwise.element_wise import (
    Add,
    Average,
    Divide,
    ElementWiseLayer,
    ElementWiseState,
    Maximum,
    Multiply,
    Subtract,
)
from nacre_layers.neurons import is_relu
from nacre_layers.shapes.split import SplitLayer

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import library
from ..dnnl.primitives import Call, Desc, HelperCall, Primitive, attributes, call, pass_over, reorder
from ..helper.native import MISSING, helper
from ..rewrite import is_sum, sum_of
from .base import Layouts, OnednnKernel, describe_blob, gate, numbered, rectify, unfit_any
from .batch_norm import KEPT, BatchNormKernel
from .chain import MOST_LINKS, RELU, ChainKernel, Link

PLUS = Link("WEIGHED", (1.0, 1.0), others=1)


def links_of(operation: Any, count: int, index: int = 0) -> list[Link] | None:
    """Return an operation on so many bottoms as links that begin with bottom `index`, or None if there are none.

    One bottom after the other is joined to what there is, so of more than two only the first can begin.
    """
    kind, second = type(operation), index == 1
    if index and count > 2:
        return None
    if kind is Add:
        first, *factors = operation.coefficients or [1.0] * count
        pairs = [(first, factors[0]), *((1.0, factor) for factor in factors[1:])]
        return [Link("WEIGHED", pair[::-1] if second else pair, others=1) for pair in pairs]
    if kind is Subtract:
        return [Link("WEIGHED", (-1.0, 1.0) if second else (1.0, -1.0), others=1)]
    if kind is Average:
        return [*[PLUS] * (count - 1), Link("SCALED", (1 / count,))]
    names = {Multiply: ("TIMES", "TIMES"), Divide: ("OVER", "UNDER"), Maximum: ("LARGER", "LARGER_SECOND")}
    return [Link(names[kind][second], reads="x", others=1)] * (count - 1) if kind in names else None


class ElementWiseKernel(ChainKernel):
    """All operations of ElementWise; applies ReLU itself, and as a sum a BatchNorm below that leaves its top to it.

    In phase predict it is `joined` to the filters below that BatchNorm, whose top becomes its own.
    """

    @classmethod
    def supports(cls, layer: ElementWiseLayer, inputs: list[Any]) -> str | None:
        if not is_sum(layer):
            links = links_of(layer.operation, len(inputs))
            if links is None or len(links) >= MOST_LINKS:
                return f"serves no {layer.operation!r} of {len(inputs)} bottoms"
            if helper() is None:
                return MISSING
        return unfit_any(inputs)

    def __init__(self, layer: ElementWiseLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        ElementWiseState(layer, backend, inputs, diffs)  # which checks the shapes
        self.relu = is_relu(layer.neuron)
        super().__init__(layer, backend, inputs, diffs, links=self._links(layer, len(inputs), 0) or ())
        self.norm: BatchNormKernel | None = None
        """The BatchNorm whose top it computes itself."""
        self.below = sum_of(layer)
        self.joined = self.below is not None and self.below.waits and self._joins(self.below.norm)
        if self.below is not None and self.joined:
            self.blobs = [backend.alias(inputs[self.below.index])]

    def _joins(self, norm: BatchNormKernel | None) -> bool:
        """Return whether the filters below a BatchNorm compute the sum."""
        return norm is not None and norm.filters is not None and norm.filters.take_over_sum(self)

    @property
    def other(self) -> Own:
        """What is added to the top of the BatchNorm below."""
        assert self.below is not None, "only those of rewrite.py are asked"
        return self.inputs[1 - self.below.index]

    def stages(self) -> list[str]:
        return [] if self.joined else super().stages()

    def links(self, index: int) -> Sequence[Link] | None:
        return None if self.below else self._links(self.layer, len(self.inputs), index)

    def _links(self, layer: ElementWiseLayer, count: int, index: int) -> Sequence[Link] | None:
        links = links_of(layer.operation, count, index)
        return [*links, RELU] if links and self.relu else links

    def take_over(self) -> None:
        """Compute the top of the BatchNorm below; see rewrite.py.

        The BatchNorm's bottom must still be there when the sum is computed: it is, if there is a backward pass.
        """
        norm = self.below and self.below.norm
        if self.below is None or norm is None or norm.blobs_diff[0] is None:
            return
        top = self.inputs[self.below.index]
        if top is norm.blobs[0] and not top.pinned:  # it may be a copy in another memory
            norm.leaves_its_top, self.norm = True, norm

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        if not is_sum(self.layer):
            return super().make(stage, way, layouts)
        desc = describe_blob(self.blobs[0], layouts)
        if stage == "forward" and self.norm is not None:
            ends = {"x": "x of the norm", "other": f"x{self.inputs.index(self.other)}", "y": "y"}
            buffers = {name: (buffer, desc.bytes) for name, buffer in ends.items()}
            buffers["kept"] = "moments of the norm", KEPT * self.blobs[0].shape[1]
            flags = {"relu": self.relu, "narrow": self.blobs[0].dtype == "bf16"}
            return [HelperCall(buffers, "batch_norm_sum", {**self.norm.sizes(layouts), **flags})]
        if stage == "forward":
            return add_up([f"x{index}" for index in range(len(self.inputs))], "y", desc, self.relu)
        wanted = [f"dx{index}" for index, dx in enumerate(self.diffs) if dx is not None]
        if not self.relu and (len(wanted) == 1 or helper() is None):
            return [copy for name in wanted for copy in reorder("dy", desc, name, desc)]
        first, also, *others = (*wanted, "") if len(wanted) == 1 else wanted
        copies = [copy for name in others for copy in reorder(first, desc, name, desc)]
        if self.relu:
            return [*gate(desc, first, also), *copies]
        return [pass_over("gate", {"dy": "dy", "dx": first, "also": also}, desc), *copies]

    def buffers(self) -> dict[str, Array]:
        norm = self.norm
        more = {"x of the norm": norm.inputs[0].memory, "moments of the norm": norm.own["Moments"]} if norm else {}
        return {**super().buffers(), **more}


class SplitKernel(OnednnKernel, reads=""):
    """Every top is the bottom; the gradients of the tops are added up."""

    LIES, ALIKE = "as below", True

    @classmethod
    def supports(cls, layer: SplitLayer, inputs: list[Any]) -> str | None:
        return unfit_any(inputs)

    def __init__(self, layer: SplitLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0]) for _ in layer.tops]

    def stages(self) -> list[str]:
        several = sum(dy is not None for dy in self.blobs_diff) > 1  # a single one lies in the bottom's memory
        return ["data"] if several and self.diffs[0] is not None else []

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        wanted = [f"dy{index}" for index, dy in enumerate(self.blobs_diff) if dy is not None]
        return add_up(wanted, "dx", describe_blob(self.inputs[0], layouts))

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **numbered("dy", self.blobs_diff)}


def add_up(names: list[str], target: str, desc: Desc, relu: bool = False) -> list[Call]:
    """Return the calls that add up buffers of one layout, with ReLU behind the last sum."""
    sums = [(names[0], names[1]), *((target, name) for name in names[2:])]
    if helper() is not None:
        last = len(sums) - 1
        return [
            pass_over("add", {"one": one, "other": other, "y": target}, desc, relu=relu and number == last)
            for number, (one, other) in enumerate(sums)
        ]
    addition = Primitive("binary", library().engine, dnnl.BINARY_ADD, desc, desc, desc, attributes())
    calls = [
        call(addition, {arg.SRC: (one, desc), arg.SRC_1: (other, desc), arg.DST: (target, desc)}) for one, other in sums
    ]
    return [*calls, *(rectify(desc, target) if relu else [])]
