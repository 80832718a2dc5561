"""DotProductAttention: each query gets a mean of the values, weighted by how well their keys fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Annotated, Any

import numpy as np

from nacre import Array, ConfigError, Layer, LayerState, Names, at_least, exactly, non_negative, positive

from .rotary import Rotation


class DotProductAttentionLayer(Layer, can_do_bp=True):
    """y = softmax(q kᵀ / √d) v, for each of `heads` heads, whose d numbers lie side by side.

    Queries are (images, rows, heads · d), keys and values (images, keys, heads · d). Bottoms are these three; or two,
    of which the second has keys and values side by side; or one with all three side by side. With `masked` there is one
    bottom more: a mask (images, keys), or (images, rows, keys), whose zeros are not looked at. With `causal` position i
    looks at those up to i alone. A query that may look at nothing gets 0. `rotary` turns queries and keys by angles
    that grow with their positions; Su et al., "RoFormer", 2021.

    With `carry`, in phase predict, batches go on from each other: so many of the last keys and values before a batch
    are kept and looked at too, and positions are counted on. `net.rewind()` forgets them. So a text is written with
    the work for one position a step.

    Example:
        [[layer]]
        type = "DotProductAttention"
        bottoms = ["q", "k", "v"]  # (8, 20, 64), (8, 30, 64), (8, 30, 64)
        tops = ["y"]  # (8, 20, 64)
        heads = 4
    """

    shown = ("heads", "causal")

    bottoms: Annotated[Names, at_least(1), "queries, keys and values, of which neighbours may be one blob"]
    tops: Annotated[Names, exactly(1), "the means of the values"]
    heads: Annotated[int, positive, "number of heads"]
    causal: Annotated[bool, "no position looks at later ones"] = False
    masked: Annotated[bool, "the last bottom is a mask"] = False
    rotary: Annotated[bool, "turn queries and keys by their positions"] = False
    carry: Annotated[int, non_negative, "positions of earlier batches that are looked at in phase predict"] = 0

    def complaints(self) -> Iterator[str]:
        """Check the number of bottoms, and what can be carried."""
        yield from super().complaints()
        if not 1 <= len(self.bottoms) - self.masked <= 3:
            most = "4 at most, of which the last is the mask" if self.masked else "3 at most"
            yield f"bottoms={list(self.bottoms)}, but there must be {2 if self.masked else 1} or more, {most}"
        if self.carry and self.masked:
            yield f"carry={self.carry}, but a mask says nothing of earlier batches: leave one of the two out"
        if self.carry and not self.causal:
            yield f"carry={self.carry}, but causal=False lets positions look at later ones, which are not there yet"

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        """Return those of both products."""
        parts = Parts(self, list(bottoms))
        images, rows, size = parts.q.shape
        return int(2 * images * size * rows * parts.k.shape[1])


class Part:
    """Queries, keys or values: some columns of a bottom."""

    def __init__(self, bottom: int, start: int, shape: tuple[int, int, int], width: int) -> None:
        self.bottom, self.start, self.shape, self.width = bottom, start, shape, width

    def of(self, arrays: Any) -> Array | None:
        """Return the part of one of several arrays, or None if it is not there."""
        array = arrays[self.bottom]
        return None if array is None else array[..., self.start : self.start + self.shape[2]]


class Parts:
    """Where queries, keys and values lie among bottoms of these shapes.

    Raises:
        ConfigError: they do not fit each other, or the heads.
    """

    def __init__(self, layer: DotProductAttentionLayer, shapes: list[Any]) -> None:
        count = len(shapes) - layer.masked
        widths = {1: [3], 2: [1, 2], 3: [1, 1, 1]}[count]
        found: list[Part] = []
        size = shapes[0][-1] // widths[0]
        for bottom, (shape, width) in enumerate(zip(shapes, widths, strict=False)):
            if len(shape) != 3 or shape[0] != shapes[0][0] or shape[2] != width * size:
                beside = f", beside {tuple(shapes[0])} of '{layer.bottoms[0]}'" if bottom else ""
                times = f"{width} · " if width > 1 else ""
                raise ConfigError(
                    f"{layer.name}: bottom '{layer.bottoms[bottom]}' has the shape {tuple(shape)}, but must be "
                    f"(images, positions, {times}features){beside}"
                )
            images, length, _ = shape
            found += [Part(bottom, place * size, (images, length, size), width * size) for place in range(width)]
        self.q, self.k, self.v = found
        if self.k.shape[1] != self.v.shape[1]:
            raise ConfigError(f"{layer.name}: there are {self.k.shape[1]} keys, but {self.v.shape[1]} values")
        if size % layer.heads:
            raise ConfigError(f"{layer.name}: heads={layer.heads}, but {size} features cannot be divided by it")
        if layer.rotary and size // layer.heads % 2:
            raise ConfigError(f"{layer.name}: rotary=True, but a head has {size // layer.heads} features, not pairs")
        if layer.carry and self.q.shape[1] != self.k.shape[1]:
            raise ConfigError(f"{layer.name}: carry={layer.carry}, but queries and keys are of different positions")
        if layer.masked:
            (images, rows, _), keys, mask = self.q.shape, self.k.shape[1], tuple(shapes[-1])
            if mask not in ((images, keys), (images, rows, keys)):
                raise ConfigError(
                    f"{layer.name}: the mask '{layer.bottoms[-1]}' has the shape {mask}, but must have "
                    f"{(images, keys)} or {(images, rows, keys)}"
                )


class DotProductAttentionState(LayerState, of=DotProductAttentionLayer, reads="inputs"):
    """`DotProductAttentionLayer` on any backend; the weights of the values are kept for backward."""

    def __init__(self, layer: DotProductAttentionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parts = Parts(layer, [tuple(one.shape) for one in inputs])
        self.images, self.rows, self.size = self.parts.q.shape
        self.keys, self.head = self.parts.k.shape[1], self.size // layer.heads
        self.blobs = [backend.blob(self.parts.q.shape)]
        self.scale = 1 / sqrt(self.head)
        self.carries = bool(layer.carry) and self.phase == "predict"
        self.count = 0
        seen = (self.images, layer.heads, self.rows, self._carried + self.keys)
        kept = [] if self.carries else [self._room(self.keys)] * 2  # what is carried on is no net's to plan
        self.intermediates = [backend.blob(shape) for shape in (seen, self._room(self.rows), *kept)]

    def ready(self) -> None:
        """Find the weights of the values, and queries, keys and values as they are multiplied."""
        before, keys = self._carried, self._carried + self.keys
        self.seen, self.q, *kept = self.intermediates
        self.k, self.v = kept or (self.backend.empty(self._room(keys)) for _ in range(2))
        self.later = self.backend.constant(
            np.where(np.arange(self.rows)[:, None] + before < np.arange(keys), -np.inf, 0.0)
        )
        longest = max(self.rows, self.keys)
        self.rotation = Rotation(self.backend, longest, self.head) if self.layer.rotary else None

    @property
    def _carried(self) -> int:
        return self.layer.carry if self.carries else 0

    def _room(self, length: int) -> tuple[int, ...]:
        return self.images, self.layer.heads, length, self.head

    def heads(self, part: Array) -> Array:
        """Read (images, positions, features) as (images, heads, positions, features of a head)."""
        return part.reshape(*part.shape[:2], self.layer.heads, self.head).swapaxes(1, 2)

    def forward(self, inputs: list[Array]) -> None:
        """Compute what each query looks at, and the top."""
        self.look(inputs, self.blobs[0])

    def look(self, inputs: list[Array], top: Array) -> None:
        """Write the top."""
        xp, before = self.backend.xp, self._carried
        q, k, v = (self.heads(part.of(inputs)) for part in (self.parts.q, self.parts.k, self.parts.v))
        xp.multiply(q, self.scale, out=self.q)
        xp.copyto(self.k[:, :, before:], k)
        xp.copyto(self.v[:, :, before:], v)
        if self.rotation is not None:
            self.rotation.begin_at(self.count)
            self.rotation.turn(self.q)
            self.rotation.turn(self.k[:, :, before:])
        xp.matmul(self.q, self.k.swapaxes(2, 3), out=self.seen)
        self._softmax(inputs)
        xp.matmul(self.seen, self.v, out=self.heads(top))

    def _softmax(self, inputs: list[Array]) -> None:
        """Make weights of the scores in `seen`: those of a query add up to 1, or to 0 if it may look at nothing."""
        xp, seen = self.backend.xp, self.seen
        if self.layer.causal:
            xp.add(seen, self.later, out=seen)
        if self.layer.masked:
            mask = inputs[-1]
            shut = mask[:, None, :, :] if mask.ndim == 3 else mask[:, None, None, :]
            xp.copyto(seen, -np.inf, where=shut == 0)
        seen[..., : max(0, self._carried - self.count)] = -np.inf
        most = xp.maximum(xp.max(seen, axis=3, keepdims=True), np.finfo(str(seen.dtype)).min)
        xp.subtract(seen, most, out=seen)
        xp.exp(seen, out=seen)
        total = xp.sum(seen, axis=3, keepdims=True)
        xp.divide(seen, xp.maximum(total, np.finfo(str(seen.dtype)).tiny), out=seen)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Write the gradients of queries, keys and values, as they were before they were turned."""
        xp, scratch, parts = self.backend.xp, self.backend.scratch, self.parts
        dy, look = self.heads(self.blobs_diff[0]), self.seen.shape
        dq, dk, dv = (
            None if (one := part.of(diffs)) is None else self.heads(one) for part in (parts.q, parts.k, parts.v)
        )
        if dv is not None:
            xp.matmul(self.seen.swapaxes(2, 3), dy, out=dv)
        dseen, product = scratch(look, slot=0), scratch(look, slot=1)
        xp.matmul(dy, self.v.swapaxes(2, 3), out=dseen)
        xp.multiply(dseen, self.seen, out=product)
        xp.subtract(dseen, xp.sum(product, axis=3, keepdims=True), out=dseen)
        xp.multiply(dseen, self.seen, out=dseen)
        if dq is not None:
            xp.matmul(dseen, self.k, out=dq)
            xp.multiply(dq, self.scale, out=dq)
        if dk is not None:
            xp.matmul(dseen.swapaxes(2, 3), self.q, out=dk)
        for turned in (dq, dk):
            if self.rotation is not None and turned is not None:
                self.rotation.turn(turned, back=True)
        if self.layer.masked and diffs[-1] is not None:
            diffs[-1][...] = 0

    # What is kept of earlier batches

    def advance(self) -> None:
        """Keep the last keys and values."""
        if self.carries:
            xp = self.backend.xp
            for kept in (self.k, self.v):
                last = self.backend.scratch(kept[:, :, : self._carried].shape)
                xp.copyto(last, kept[:, :, self.keys :])
                xp.copyto(kept[:, :, : self._carried], last)
            self.count += self.rows

    def rewind(self) -> None:
        """Forget earlier batches."""
        self.count = 0

    def memory(self) -> Mapping[str, Any]:
        """Return the kept keys and values, and how many positions there were."""
        if not self.carries:
            return {}
        kept = {
            name: self.backend.to_host(array)[:, :, : self._carried] for name, array in (("k", self.k), ("v", self.v))
        }
        return {**kept, "count": self.count}

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        """Go on from kept keys and values; tell that they are forgotten if they are of other numbers."""
        if not self.carries:
            return None
        for name, array in (("k", self.k), ("v", self.v)):
            value, host = np.asarray(memory[name]), self.backend.to_host(array)
            if value.shape != host[:, :, : self._carried].shape:
                self.rewind()
                return f"{self.layer.name}: the kept keys of shape {value.shape} do not fit here: they are forgotten"
            host[:, :, : self._carried] = value
            self.backend.from_host(host, array)
        self.count = int(memory["count"])
        return None
