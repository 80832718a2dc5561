"""Max and mean pooling of images that lie as (images, rows, columns, channels), one axis after the other.

A window's maximum is the maximum over its rows of the maxima over its columns, and likewise its sum; so a k x k window
costs 2 k passes instead of k * k, and half of them run over whole rows of pixels. Passes are lists of tasks, as in
`convolution`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import numpy as np

from nacre import Array
from nacre_layers.windows import WindowAxis

from .threads import Pool, Task, maximum, run

CHUNK_BYTES = 1 << 20
"""Size of the image data worked on at a time. Smaller chunks would stay in the second-level cache, but threads that
take and give back the interpreter's lock every few microseconds wait for each other more than they gain."""


class _Axis:
    """The cells of windows along one axis, those in the image, in slices."""

    def __init__(self, axis: WindowAxis) -> None:
        windows, starts, self.length = axis.count, axis.starts, axis.length
        if 0 in axis.sizes("image") or windows < 1:
            raise ValueError(f"one of the windows of {axis} misses the {axis.length} pixels")
        self.offsets: list[tuple[slice, slice]] = []  # for cell t of the windows: which windows have it, where it lies
        for t in range(min(axis.kernel, axis.pad + axis.length)):
            inside = axis.windows_with(t)
            if inside:
                first, last = starts[inside[0]] + t, starts[inside[-1]] + t
                self.offsets.append((slice(inside.start, inside.stop), slice(first, last + 1, axis.stride)))
        begun = np.zeros(windows, bool)
        self.first: list[tuple[slice, slice]] = []  # the first cell of every window
        self.rest: list[tuple[slice, slice]] = []  # all later cells
        for where, cells in self.offsets:
            fresh = int(np.count_nonzero(~begun[where]))  # they are the lowest: with padding, window 0 begins last
            middle, cell = where.start + fresh, cells.start + fresh * axis.stride
            if fresh:
                self.first.append((slice(where.start, middle), slice(cells.start, cell - axis.stride + 1, axis.stride)))
            if middle < where.stop:
                self.rest.append((slice(middle, where.stop), slice(cell, cells.stop, axis.stride)))
            begun[where] = True

        self.one_go = len(self.first) == 1 and bool(self.rest) and self.rest[0][0] == slice(0, windows)
        """Every window has its first two cells."""

    def reduce_tasks(self, function: Any, source: Array, result: Array) -> Iterator[Task]:
        """Yield tasks: `result[:, i]` = `function` over the cells of window i of `source` (outer, length, run)."""
        rest = self.rest
        if self.one_go:
            yield function, (source[:, self.first[0][1]], source[:, rest[0][1]], result)
            rest = rest[1:]
        else:
            for where, cells in self.first:
                yield np.copyto, (result[:, where], source[:, cells])
        for where, cells in rest:
            yield function, (result[:, where], source[:, cells], result[:, where])

    def put_tasks(self, values: Array, target: Array, cells: slice, written: Array) -> Iterator[Task]:
        """Yield tasks that write values to cells of `target` (outer, length, run), or add them to what is written."""
        if not written[cells].any():
            yield np.copyto, (target[:, cells], values)
        else:
            for cell in np.arange(self.length)[cells][~written[cells]]:
                yield target[:, cell].fill, (0,)
            yield np.add, (target[:, cells], values, target[:, cells])
        written[cells] = True

    def clear_tasks(self, target: Array, written: Array) -> Iterator[Task]:
        """Yield the tasks that write 0 to the cells that no window has."""
        for cell in np.flatnonzero(~written):
            yield target[:, cell].fill, (0,)


class Pooling2D:
    """Pooling over a batch of fixed shape, its scratch memory and its tasks.

    `x`, `dx` are (batch, height, width, channels), `y`, `dy` (batch, rows, columns, channels), all C-contiguous.
    Windows lie along the axes `down` and `across`, without dilation. `mode` "max": the maximum of the part inside the
    image, whose first cell (row by row) gets the gradient; a NaN inside gives NaN. `mode` "mean": the sum divided by
    the number of the window's cells inside the image and its padding.

    Set the arrays once with `bind`. `forward` and `backward` work on the pool's threads, one piece of the batch each.
    The backward pass of "max" reads x again: nothing is kept between passes. `dx` may be `x`, if nobody else needs x
    any more.
    """

    def __init__(
        self, batch: int, channels: int, down: WindowAxis, across: WindowAxis, mode: str = "max",
        dtype: Any = np.float32, pool: Pool | None = None,
    ) -> None:  # fmt: skip
        if mode not in ("max", "mean"):
            raise ValueError(f"mode={mode!r}, but it must be 'max' or 'mean'")
        self.batch, self.rows, self.columns, self.mode = batch, down.count, across.count, mode
        self.dtype, self.pool = np.dtype(dtype), pool or Pool(1)
        self.integer = np.dtype(f"i{self.dtype.itemsize}")
        self.down, self.across = _Axis(down), _Axis(across)
        most = max(stop - start for start, stop in self.pool.pieces(batch))
        chunks = -(-most * down.length * across.length * channels * self.dtype.itemsize // CHUNK_BYTES)
        self.images = -(-most // min(most, chunks))
        counts = np.outer(down.sizes("padded"), across.sizes("padded")).astype(self.dtype)
        self.shares = np.repeat((1 / counts)[..., None], channels, axis=2).astype(self.dtype)
        self._scratch: dict[tuple[str, int], Array] = {}
        self._forward: dict[tuple[int, int, int], list[Task]] = {}
        self._backward: dict[tuple[int, int, int], list[Task]] = {}

    def bind(self, x: Array, y: Array, dy: Array = None, dx: Array = None) -> None:
        """Set the arrays that the passes work on; dy and dx are only needed by the backward pass."""
        self.x, self.y, self.dy, self.dx = x, y, dy, dx
        self._forward.clear()
        self._backward.clear()

    def forward(self) -> None:
        """Write y."""
        self.pool.parallel(self.forward_piece, self.batch)

    def backward(self) -> None:
        """Write dx."""
        self.pool.parallel(self.backward_piece, self.batch)

    def forward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write images `start` to `stop` of y."""
        run(self.forward_tasks(start, stop, worker))

    def backward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write images `start` to `stop` of dx."""
        run(self.backward_tasks(start, stop, worker))

    def forward_tasks(self, start: int, stop: int, worker: int) -> list[Task]:
        """Return the tasks that write images `start` to `stop` of y."""
        key = (start, stop, worker)
        if key not in self._forward:
            make = self._max_forward if self.mode == "max" else self._mean_forward
            self._forward[key] = [
                task for chunk in self._chunks(start, stop) for task in make(self.x[chunk], self.y[chunk], worker)
            ]
        return self._forward[key]

    def backward_tasks(self, start: int, stop: int, worker: int) -> list[Task]:
        """Return the tasks that write images `start` to `stop` of dx."""
        key = (start, stop, worker)
        if key not in self._backward:
            make = self._max_backward if self.mode == "max" else self._mean_backward
            self._backward[key] = [
                task
                for chunk in self._chunks(start, stop)
                for task in make(self.x[chunk], self.dy[chunk], self.dx[chunk], worker)
            ]
        return self._backward[key]

    # How the tasks are made

    def _max_forward(self, x: Array, y: Array, worker: int) -> Iterator[Task]:
        n, h, w, c = x.shape
        lines = self._buffer("lines", worker, (n, h, self.columns, c))
        yield from self.across.reduce_tasks(maximum, x.reshape(n * h, w, c), lines.reshape(n * h, self.columns, c))
        flat = (self.columns * c,)
        yield from self.down.reduce_tasks(maximum, lines.reshape(n, h, *flat), y.reshape(n, self.rows, *flat))

    def _max_backward(self, x: Array, dy: Array, dx: Array, worker: int) -> Iterator[Task]:
        n, h, w, c = x.shape
        lines = self._buffer("lines", worker, (n * h, self.columns, c))
        across = yield from self._winner_tasks(self.across, x.reshape(n * h, w, c), lines, "across", worker)
        lines, flat = lines.reshape(n, h, self.columns * c), (n, self.rows, self.columns * c)
        best = self._buffer("best", worker, flat)
        down = yield from self._winner_tasks(self.down, lines, best, "down", worker)
        gradient = best  # its memory is free now
        yield np.copyto, (gradient, dy.reshape(flat))
        yield from self._route_tasks(self.down, down, gradient, lines, worker)
        lines = lines.reshape(n * h, self.columns, c)
        yield from self._route_tasks(self.across, across, lines, dx.reshape(n * h, w, c), worker)

    def _winner_tasks(
        self, axis: _Axis, source: Array, best: Array, name: str, worker: int
    ) -> Generator[Task, None, list[Array]]:
        """Yield the tasks that write the maxima into `best`; return where each later cell beats the earlier ones."""
        in_one_go = axis.one_go  # the first two cells need no copy
        if not in_one_go:
            for where, cells in axis.first:
                yield np.copyto, (best[:, where], source[:, cells])
        beats = []
        for number, (where, cells) in enumerate(axis.rest):
            window = best[:, where]
            before = source[:, axis.first[0][1]] if in_one_go and number == 0 else window
            beats.append(self._buffer(f"{name} {number}", worker, window.shape, np.bool_))
            yield np.greater, (source[:, cells], before, beats[-1])
            yield maximum, (before, source[:, cells], window)
        return beats

    def _route_tasks(
        self, axis: _Axis, beats: list[Array], gradient: Array, target: Array, worker: int
    ) -> Iterator[Task]:
        """Yield the tasks that bring every window's gradient to its winner, last cells first; this uses `gradient` up.

        Products of bits with 0 or 1, and differences by exclusive or, are exact for every float, NaN and infinity too.
        """
        written = np.zeros(axis.length, bool)
        integers = gradient.view(self.integer)
        for (where, cells), beat in zip(reversed(axis.rest), reversed(beats), strict=True):
            window = integers[:, where]
            part = self._buffer("part", worker, window.shape, self.integer)
            yield np.copyto, (part, beat.view(np.int8))
            yield np.multiply, (window, part, part)
            yield np.bitwise_xor, (window, part, window)
            yield from axis.put_tasks(part.view(self.dtype), target, cells, written)
        for where, cells in axis.first:
            yield from axis.put_tasks(gradient[:, where], target, cells, written)
        yield from axis.clear_tasks(target, written)

    def _mean_forward(self, x: Array, y: Array, worker: int) -> Iterator[Task]:
        n, h, w, c = x.shape
        sums = self._buffer("sums", worker, (n, self.rows, w * c))
        yield from self.down.reduce_tasks(self._add(x), x.reshape(n, h, w * c), sums)
        y = y.reshape(n * self.rows, self.columns, c)
        yield from self.across.reduce_tasks(np.add, sums.reshape(n * self.rows, w, c), y)
        y = y.reshape(n, -1)
        yield np.multiply, (y, self.shares.reshape(-1), y)

    def _add(self, x: Array) -> Any:
        """Return what adds up cells: those of whole numbers as floats, or a sum might be too large for their type."""
        return np.add if x.dtype == self.dtype else partial(np.add, dtype=self.dtype)

    def _mean_backward(self, x: Array, dy: Array, dx: Array, worker: int) -> Iterator[Task]:
        n, h, w, c = dx.shape
        shared = self._buffer("shared", worker, (n * self.rows, self.columns, c))
        yield np.multiply, (dy.reshape(n, -1), self.shares.reshape(-1), shared.reshape(n, -1))
        sums = self._buffer("sums", worker, (n * self.rows, w, c))
        yield from self._spread_tasks(self.across, shared, sums)
        yield from self._spread_tasks(self.down, sums.reshape(n, self.rows, w * c), dx.reshape(n, h, w * c))

    def _spread_tasks(self, axis: _Axis, gradient: Array, target: Array) -> Iterator[Task]:
        """Yield the tasks that bring every window's gradient to all its cells."""
        written = np.zeros(axis.length, bool)
        for where, cells in axis.offsets:
            yield from axis.put_tasks(gradient[:, where], target, cells, written)
        yield from axis.clear_tasks(target, written)

    # Memory

    def _chunks(self, start: int, stop: int) -> Iterator[slice]:
        for first in range(start, stop, self.images):
            yield slice(first, min(first + self.images, stop))

    def _buffer(self, name: str, worker: int, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Return a scratch array of the worker; all chunks share it, and the first, the largest, decides its size."""
        size = int(np.prod(shape))
        found = self._scratch.get((name, worker))
        if found is None or found.size < size:
            found = self._scratch[name, worker] = np.empty(size, dtype or self.dtype)
        return found[:size].reshape(shape)
