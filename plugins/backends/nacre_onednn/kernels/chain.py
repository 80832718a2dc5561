"""Layers and neurons in a row that compute element by element, in one pass over memory: see chain.c."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any, Literal

import numpy as np

from nacre import Array, LayerState

from ..dnnl.primitives import Call, Desc, HelperCall, plain
from ..helper.native import CONSTANTS, STRUCTURES, Operation, helper, operation
from ..record import Record
from .base import Layouts, OnednnKernel, describe_blob, numbered, unserved_any

MOST_LINKS = CONSTANTS["MOST_LINKS"]
LARGE = 1 << 21
"""Bytes of a blob from which on backward takes less time to compute again what it reads than to fetch it from memory.

In bf16, where nearly all the time goes into computing, it never does.
"""


@dataclass(frozen=True)
class Link:
    """A link of a chain: its name in operations.h, its numbers there, what its gradients read, and its other arrays."""

    name: str
    numbers: tuple[float, ...] = ()
    reads: Literal["", "x", "y"] = ""
    others: int = 0

    @property
    def is_long(self) -> bool:
        """Whether its results take longer than to look them up among those of all numbers of bf16."""
        return not self.others and self.name not in SHORT


RELU, TIMES = Link("RELU", reads="y"), Link("TIMES", reads="x", others=1)
SHORT = ("HARDSWISH", "LRELU", "RELU", "SCALED")


@dataclass
class ChainCall(HelperCall):
    """A pass over a chain of links; its operands "other 2" and "dother 2" are those of the third link."""

    links: Sequence[Link] = ()

    @property
    def info(self) -> str:
        links = ", ".join(f"{link.name}{list(link.numbers)}" for link in self.links)
        return f"helper: {self.kind} {dict(self.numbers)} of {links}"

    def bound(self, addresses: Mapping[str, int]) -> tuple[Operation, Any]:
        given = {operand: addresses[name] for operand, (name, _) in self.buffers.items() if name}
        first, slopes = self.links[0], None
        if self.numbers["narrow"] and first.is_long and len(self.links) == 1:
            if self.kind == "chain":
                results = results_of(first)
                looked_up = {**given, "results": results.ctypes.data, "size": self.numbers["size"]}
                return operation("look_up", looked_up), (self, results)
            if first.reads == "x":  # the slopes of the others are simple
                slopes = slopes_of(first)
                given["slopes"] = slopes.ctypes.data
        links = (STRUCTURES["link"] * len(self.links))()
        for number, (made, link) in enumerate(zip(links, self.links, strict=True)):
            made.function = CONSTANTS[link.name]
            made.first, made.second, *_ = (*link.numbers, 0.0, 0.0)
            made.other, made.dother = (given.pop(f"{end} {number}", None) for end in ("other", "dother"))
        chain = {"links": ctypes.addressof(links), "count": len(links)}
        return operation(self.kind, {**given, **chain, **self.numbers}), (self, links, slopes)


def forward_call(
    links: Sequence[Link], desc: Desc, x: str = "x", others: Sequence[str] = (), *, y: str = "y", kept: str = ""
) -> Call:
    """Return the call that computes y.

    Args:
        others: the buffers of the other arrays.
        kept: the buffer that gets the slopes of the only link, if it is wanted.
    """
    return _chain("chain", links, desc, {"x": x, "y": y, "kept": kept, **_sides("other", links, others)})


def backward_call(
    links: Sequence[Link],
    desc: Desc,
    ends: Mapping[str, str],
    others: Sequence[str] = (),
    gradients: Sequence[str] = (),
) -> Call:
    """Return the call that computes gradients from dy.

    Args:
        ends: the buffers of dx, and of x or y, if a gradient reads them.
        others: the buffers of the other arrays.
        gradients: the buffers of their gradients, "" for one that is not wanted.
    """
    sides = {**_sides("other", links, others), **_sides("dother", links, gradients)}
    return _chain("chain_gradient", links, desc, {**ends, "dy": "dy", **sides})


def _chain(kind: str, links: Sequence[Link], desc: Desc, buffers: Mapping[str, str]) -> Call:
    sizes = {operand: (name, desc.bytes) for operand, name in buffers.items()}
    size = prod(desc.shape)
    return ChainCall(sizes, kind, {"size": size, "narrow": desc.bytes < 4 * size}, links=links)


def _sides(end: str, links: Sequence[Link], buffers: Sequence[str]) -> dict[str, str]:
    """Return the operands of the links that have other arrays."""
    numbers = [number for number, link in enumerate(links) if link.others]
    return {f"{end} {number}": buffer for number, buffer in zip(numbers, buffers, strict=False)}


@lru_cache(maxsize=16)
def results_of(link: Link) -> Array:
    """Return the results of a function for all numbers of bf16, in the order of their bits."""
    x = np.arange(1 << 16, dtype=np.uint16)
    _run(forward_call([link, Link("SCALED", (1.0,))], plain(x.size, dtype="bf16")), x=x, y=x)
    return x


@lru_cache(maxsize=16)
def slopes_of(link: Link) -> Array:
    """Return the slopes of a function at all numbers of bf16."""
    x = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    slopes = np.ones_like(x)
    _run(backward_call([link], plain(x.size), {"x": "x", "dx": "dx"}), x=x, dy=slopes, dx=slopes)
    return slopes


def _run(call: Call, **arrays: Array) -> None:
    made = Record()
    made.add_call(call, {name: array.ctypes.data for name, array in arrays.items()}, [*arrays.values()])
    made.replay(1)()


class LinkedKernel(OnednnKernel):
    """A kernel that another one can compute together with the kernels above it and below."""

    LIES, ALIKE = "as below", True

    def links(self, index: int) -> Sequence[Link] | None:
        """Return what it does with bottom `index`, whose other arrays are its other bottoms; None: it is no link."""
        return None

    def joined_with(self, below: LayerState, index: int) -> Callable[[list[Any], list[Any]], LayerState] | None:
        if helper() is None or not isinstance(below, LinkedKernel):
            return None
        lower, upper = below.links(0), self.links(index)
        if not lower or upper is None or len(lower) + len(upper) > MOST_LINKS:
            return None
        links, narrow = [*lower, *upper], self.backend.compute == "bf16"
        if narrow and any(link.is_long for link in links):
            return None  # to look up its results takes less time
        trains = any(dx is not None for dx in (*below.diffs, *self.diffs))
        if trains and not by_top(links) and (narrow or 4 * self.inputs[0].size < LARGE):
            return None
        return partial(ChainKernel, self.layer, self.backend, links=links)

    def stages(self) -> list[str]:
        return ["forward", *(["data"] if any(dx is not None for dx in self.diffs) else [])]

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **numbered("x", self.inputs), **numbered("dx", self.diffs)}


class ChainKernel(LinkedKernel):
    """The links of a chain; the bottoms are what the first one reads, and then the other arrays in their order.

    `backward` computes again what lies between them, unless only the last link's gradient reads anything, the top. Of a
    neuron alone whose slopes take long, `forward` keeps them, which it has nearly computed, instead of the bottom.
    """

    def __init__(
        self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any], *, links: Sequence[Link] = ()
    ) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.chain = links
        self.blobs = [backend.blob(inputs[0].shape)]
        self.reads = "inputs" if not by_top(links) else "blobs" if links[-1].reads else ""
        alone = len(links) == 1 and links[0].is_long and links[0].reads == "x"
        self.keeps_slopes = alone and diffs[0] is not None and backend.compute == "float32"
        if self.keeps_slopes:
            self.intermediates, self.reads = [backend.blob(inputs[0].shape)], ""

    def links(self, index: int) -> Sequence[Link] | None:
        return self.chain if index == 0 else None

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        desc, others = describe_blob(self.blobs[0], layouts), [f"x{index}" for index in range(1, len(self.inputs))]
        kept = "slopes" if self.keeps_slopes else ""
        if stage == "forward":
            return [forward_call(self.chain, desc, "x0", others, kept=kept)]
        if kept:
            return [forward_call([TIMES], desc, "dy", [kept], y="dx0")]
        ends = {"inputs": {"x": "x0"}, "blobs": {"y": "y"}}.get(self.reads, {})
        dx, *gradients = (f"dx{index}" if one is not None else "" for index, one in enumerate(self.diffs))
        return [
            backward_call(self.chain, desc, {**ends, "dx": dx}, others if self.reads == "inputs" else (), gradients)
        ]

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **({"slopes": self.intermediates[0]} if self.keeps_slopes else {})}


def by_top(links: Sequence[Link]) -> bool:
    """Return whether gradients read nothing, or only the top, so that nothing must be computed again."""
    return links[-1].reads != "x" and not any(link.reads for link in links[:-1])


class ActivationKernel(LinkedKernel, reads=""):
    """Activation: the top is the bottom, to which the net applies the neuron; so it is part of chains."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return "serves one bottom" if len(inputs) != 1 else unserved_any(inputs)

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0])]

    def links(self, index: int) -> Sequence[Link]:
        return ()

    def stages(self) -> list[str]:
        return []
