"""Dropout with the bits of the layer's own mask: see dropout.cu."""

from __future__ import annotations

from typing import Any

from nacre import Own
from nacre.random import name_key
from nacre_layers.elementwise.dropout import DropoutState

from .chain import Link, LinkedKernel
from .launch import TYPES, is_image, scalars
from .random import signed


class DropoutKernel(LinkedKernel, reads=""):
    """Dropout, and RandomMask; an intermediate has a bit for each number. C order says which is whose.

    As a part of a chain it keeps no mask, and draws it again in backward.
    """

    in_bf16 = True

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        own = DropoutState(layer, backend, inputs, diffs)
        self.blobs, self.scale, self.acts = own.blobs, own.scale, own.acts
        self.on_plain = self.acts and any(is_image(one.shape) for one in inputs)  # which may lie in another order
        self.intermediates = [backend.blob((-(-one.size // 8),), "uint8") for one in inputs if self.acts]
        self.random = backend.random(layer.name)
        self.keys = signed(backend.seed & (2**64 - 1)), signed(name_key(backend.full_name(layer.name)))

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if any(one.box is not None and one.box.whole != one.shape for one in inputs):
            return "draws the masks of whole blobs only"
        return super().supports(layer, inputs)

    def links(self, index: int) -> list[Link] | None:
        if not self.acts:
            return []
        if self.on_plain:
            return None
        return [Link("Dropout", (self.layer.ratio, self.scale), "", draws=self._words, idle=(-1.0, 1.0))]

    def _words(self) -> list[int]:
        place, first = self.backend.scalars.place("step"), self.random.joined(self.inputs[0].size)[0]
        return [scalars(self.backend).data.ptr, place, 0, *self.keys, first]

    def ready(self) -> None:
        self.known = scalars(self.backend)

    def forward(self, inputs: list[Own]) -> None:
        if not self.acts:
            return
        for draw, (x, y, kept) in enumerate(zip(inputs, self.blobs, self.intermediates, strict=True)):
            if self.phase != "train":  # of an algorithm
                self.backend.xp.copyto(y.memory, x.memory)
                continue
            numbers = (
                x.size,
                self.known,
                self.backend.scalars.place("step"),
                draw,
                *self.keys,
                self.random.joined(x.size)[0],
                self.layer.ratio,
                self.scale,
            )
            name, items = f"dropout_forward<{TYPES[x.dtype]}>", -(-x.size // 8)
            self.launch("dropout", name, items, x.memory, y.memory, kept, *numbers)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if not self.acts:
            return
        for kept, dy, dx in zip(self.intermediates, self.blobs_diff, diffs, strict=True):
            if dx is not None and self.phase != "train":
                self.backend.xp.copyto(dx.memory, dy.memory)
            elif dx is not None:
                name, items = f"dropout_backward<{TYPES[dx.dtype]}>", -(-dx.size // 8)
                self.launch("dropout", name, items, kept, dy.memory, dx.memory, dx.size, self.scale)
