"""Layers and neurons in a row that compute element by element, in one pass over memory: see chain.cu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np

from nacre import Array, LayerState, Own

from .launch import LANES, TYPES, CudaKernel

MOST_LINKS = 6
"""Links of a chain, at most: in backward each keeps its numbers in registers."""
NUMBERS = 3
"""Numbers that a link has in chain.cu."""


@dataclass(frozen=True)
class Link:
    """A link of a chain: its name in chain.cu, its numbers there, what its gradients read, and its other arrays.

    `draws` returns the words of one that draws random numbers, once arrays have memory. In phases other than `train`
    it has the numbers `idle` instead, if there are any.
    """

    name: str
    numbers: Sequence[float]
    reads: Literal["", "x", "y"]
    others: int = 0
    draws: Callable[[], Sequence[int]] | None = None
    idle: Sequence[float] | None = None


class LinkedKernel(CudaKernel):
    """A kernel that another one can compute together with the kernels above it and below."""

    def links(self, index: int) -> list[Link] | None:
        """Return what it does with bottom `index`, whose other arrays are its other bottoms; None: it is no link."""
        return None

    def joined_with(self, below: LayerState, index: int) -> Callable[[list[Any], list[Any]], LayerState] | None:
        lower = below.links(0) if isinstance(below, LinkedKernel) else None
        upper = self.links(index)
        if not lower or upper is None or len(lower) + len(upper) > MOST_LINKS:
            return None
        return partial(ChainKernel, self.layer, self.backend, links=[*lower, *upper])


class ChainKernel(LinkedKernel):
    """The links of a chain; the bottoms are what the first one reads, and then the other arrays in their order.

    `backward` computes again what lies between them, unless only the last link's gradient reads anything, the top.
    """

    in_bf16 = True

    def __init__(
        self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any], *, links: Sequence[Link] = ()
    ) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.chain = list(links)
        self.blobs = [backend.blob(inputs[0].shape)]
        last = self.chain[-1].reads
        self.by_top = last != "x" and not any(link.reads for link in self.chain[:-1])
        self.reads = "inputs" if not self.by_top else "blobs" if last else ""

    def links(self, index: int) -> list[Link] | None:
        return self.chain if index == 0 else None

    def ready(self) -> None:
        self.numbers = self._constant([link.numbers for link in self.chain])
        self.idle = self._constant([link.idle or link.numbers for link in self.chain])
        words, others = list[int](), iter(_addresses(self.inputs[1:]))
        for link in self.chain:
            words += islice(others, link.others) if link.draws is None else link.draws()
        self.words, self.targets = map(self._whole, (words, _addresses(self.diffs[1:])))

    def _constant(self, numbers: Sequence[Sequence[float]]) -> Array:
        return self.backend.constant(np.array([[*some, *[0.0] * (NUMBERS - len(some))] for some in numbers]), "float64")

    def _whole(self, numbers: Sequence[int]) -> Array:
        return self.backend.constant(np.array(numbers or [0], np.int64), "int64")

    def forward(self, inputs: list[Own]) -> None:
        self._enqueue("chain_forward", "", inputs[0].memory, self.words, self._numbers, self.blobs[0].memory)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        dy = self.blobs_diff[0].memory
        x = dy if self.by_top else inputs[0].memory  # not looked at; nor is y, unless it is read
        y = self.blobs[0].memory if self.reads == "blobs" else dy
        dx = None if diffs[0] is None else diffs[0].memory
        top = f"{str(self.by_top).lower()}, "
        self._enqueue("chain_backward", top, x, self.words, self._numbers, y, dy, dx, self.targets)

    @property
    def _numbers(self) -> Array:
        return self.numbers if self.phase == "train" else self.idle  # an algorithm may have phases of its own

    def _enqueue(self, kernel: str, top: str, *arrays: Any) -> None:
        kind, size = TYPES[self.blobs[0].dtype], self.blobs[0].size
        links = ", ".join(link.name for link in self.chain)
        self.launch("chain", f"{kernel}<{kind}, {top}Chain<{links}>>", -(-size // LANES[kind]), *arrays, size)


def _addresses(blobs: Sequence[Own | None]) -> list[int]:
    """Return the addresses of blobs, 0 for one that is not there."""
    return [0 if one is None else one.memory.data.ptr for one in blobs]
