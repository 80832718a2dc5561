"""Embedding: see embedding.cu."""

from __future__ import annotations

from typing import Any

from nacre import Array, Own
from nacre_layers.linear.embedding import REMEDY, EmbeddingLayer, EmbeddingState
from nacre_layers.losses.classes import no_whole_number

from .bias import BiasGradient
from .launch import LANES, NUMBERS, THREADS, TYPES, CudaKernel, is_image, memory, scalars, too_large, unknown_numbers

TILE, PIECE = 1024, 32
"""Keys that a block sorts, and positions that a thread adds up, as in embedding.cu."""


class EmbeddingKernel(CudaKernel, reads=""):
    """Rows of the weight; an intermediate has the number of each position, with the position, until backward.

    In nets that compute in bf16 tops are rounded to that, unless there are bottoms of a floating type: these would be
    rounded, too, and name other rows.
    """

    in_bf16 = True
    same_dtype = False

    @classmethod
    def supports(cls, layer: EmbeddingLayer, inputs: list[Any]) -> str | None:
        return unknown_numbers("numbers", inputs) or too_large(
            [(layer.input_dim,), *((*one.shape, layer.output_dim) for one in inputs)]
        )

    def __init__(self, layer: EmbeddingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        own = EmbeddingState(layer, backend, inputs, diffs)
        self.sizes, self.parameters, self.blobs = own.sizes, own.parameters, own.blobs
        self.intermediates = [backend.blob((size,), "int64") for size in self.sizes]
        # images may lie in another order
        self.on_plain = any("float" in one.dtype for one in inputs) or any(is_image(one.shape) for one in self.blobs)

    def ready(self) -> None:
        self.known = scalars(self.backend)
        wanted = len(self.parameters) > 1 and self.parameters[1].gradient is not None
        width = self.layer.output_dim
        self.sums = [BiasGradient(self.backend, size, width) for size in self.sizes if wanted]

    def forward(self, inputs: list[Own]) -> None:
        view, (weight, *bias) = self.backend, [one.blob for one in self.parameters]
        width, rows = self.layer.output_dim, (self.known, view.scalars.place("rows"))
        for number, (x, y, keys) in enumerate(zip(inputs, self.blobs, self.intermediates, strict=True)):
            right, kind = view.scratch(keys.shape, "bool"), TYPES[y.dtype]
            given = (x.memory, NUMBERS.index(x.dtype), weight, bias[0] if bias else None, y.memory, keys, right)
            sizes = (keys.size, x.shape[0], self.layer.input_dim, width)
            self.launch("embedding", f"embedding_forward<{kind}>", self._items(keys.size, kind), *given, *sizes, *rows)
            view.require((self.layer.name, number), right, lambda x=x.memory: self._wrong(x))

    def _wrong(self, x: Array) -> Exception:
        return no_whole_number(self.layer, self.backend, x, self.layer.input_dim, what="number", remedy=REMEDY)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        gradient = self.parameters[0].gradient
        if gradient is not None:
            gradient[...] = 0
            for keys, dy in zip(self.intermediates, self.blobs_diff, strict=True):
                self._add_rows(gradient, self._sorted(keys), dy)
        of_bias: Array = self.parameters[-1].gradient  # if there are sums for it
        for number, (sums, dy) in enumerate(zip(self.sums, self.blobs_diff, strict=False)):
            share = self.backend.scratch(of_bias.shape) if number else of_bias
            sums.enqueue(dy.memory, share)
            if number:
                self.backend.xp.add(of_bias, share, out=of_bias)
        for dx in map(memory, diffs):
            if dx is not None:
                dx[...] = 0

    def _sorted(self, keys: Array) -> Array:
        """Return keys in their order; where they were, and in what is returned, are the same ones."""
        other = self.backend.scratch(keys.shape, "int64")
        self.launch("embedding", "embedding_sort", -(-keys.size // TILE) * THREADS, keys, other, keys.size)
        run = TILE
        while run < keys.size:
            keys, other = other, keys
            self.launch("embedding", "embedding_merge", keys.size, keys, other, keys.size, run)
            run *= 2
        return other

    def _add_rows(self, gradient: Array, keys: Array, dy: Own) -> None:
        """Add each row of a top's gradient to the row of the weight's with its number."""
        kind, width, pieces = TYPES[dy.dtype], self.layer.output_dim, -(-keys.size // PIECE)
        parts = self.backend.scratch((pieces, 2, width), "float64", 1)
        items, sizes = self._items(pieces, kind), (keys.size, width)
        self.launch("embedding", f"embedding_parts<{kind}>", items, keys, dy.memory, gradient, parts, *sizes)
        self.launch("embedding", f"embedding_total<{kind}>", items, keys, gradient, parts, *sizes)

    def _items(self, rows: int, kind: str) -> int:
        """Return the number of threads for so many rows of vectors."""
        width, lanes = self.layer.output_dim, LANES[kind]
        return rows * (width // lanes if width % lanes == 0 else width)
