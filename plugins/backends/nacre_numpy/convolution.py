"""Convolution of images that lie as (images, rows, columns, channels), by products of matrices over chunks in cache.

Every pass is a list of tasks over views made once (see `threads.run`), for a piece of the batch and a worker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nacre import Array
from nacre_layers.windows import WindowAxis

from .arrays import Arrays
from .threads import Pool, Task, maximum, run

Pair = tuple[int, int]

CHUNK_BYTES = 1 << 21
"""The most that the matrix of windows takes: half is as fast for one thread, but two get in each other's way."""


def gate_tasks(y: Array, dy: Array, gated: Array, scratch: Array) -> list[Task]:
    """Return the tasks for `gated = dy where y > 0 else 0`, the gradient below a ReLU.

    `scratch` has the bytes of two `y`. A product of integers with 0 or 1 is exact for every float, NaN too, and faster
    than a masked copy.
    """
    integer = np.dtype(f"i{y.dtype.itemsize}")
    positive = scratch[: y.size].view(np.bool_).reshape(y.shape)
    factor = scratch[y.nbytes : 2 * y.nbytes].view(integer).reshape(y.shape)
    return [
        (np.greater, (y, 0, positive)),
        (np.copyto, (factor, positive.view(np.int8))),
        (np.multiply, (dy.view(integer), factor, gated.view(integer))),
    ]


class _Windows:
    """What a kernel sees in some images, copied into the rows of a matrix: (positions, groups, window [+ a one])."""

    def __init__(
        self, images: int, channels: int, down: WindowAxis, across: WindowAxis, groups: int, dtype: Any, ones: bool,
        positions: int, memory: Array,
    ) -> None:  # fmt: skip
        self.channels, self.down, self.across, self.groups = channels, down, across, groups
        self.taps = down.kernel * across.kernel * channels // groups
        self.padded = None
        if down.pad or across.pad:
            self.padded = np.zeros((images, down.padded, across.padded, channels), dtype)
        memory = memory.view(dtype)[: positions * groups * (self.taps + ones)]
        if channels == 1:  # runs along the image are longer than runs along the window
            self.matrix = memory.reshape(1, self.taps + ones, positions).transpose(2, 0, 1)
        else:
            self.matrix = memory.reshape(positions, groups, self.taps + ones)

    def pad_tasks(self, x: Array) -> tuple[Array, list[Task]]:
        """Return `x` with its border of zeros, and the tasks that copy it there."""
        if self.padded is None:
            return x, []
        padded = self.padded[: len(x)]
        return padded, [(np.copyto, (padded[:, self.down.image, self.across.image], x))]

    def tasks(self, padded: Array, top: int, bottom: int) -> tuple[Array, list[Task]]:
        """Return the matrix for rows `top` to `bottom` of the result, and the tasks that fill it."""
        images, channels, down, across = len(padded), self.channels // self.groups, self.down, self.across
        image, row, column, channel = padded.strides
        shape = (images, bottom - top, across.count, self.groups, down.kernel, across.kernel, channels)
        windows = as_strided(
            padded[:, top * down.stride :],
            shape,
            (image, row * down.stride, column * across.stride, channel * channels,
             row * down.dilation, column * across.dilation, channel),
        )  # fmt: skip
        matrix = self.matrix[: images * (bottom - top) * across.count]
        copy: list[Task] = [(np.copyto, (matrix[:, :, : self.taps].reshape(shape), windows))]
        return matrix, [*copy, (matrix[:, :, self.taps :].fill, (1,))]


class Convolution2D:
    """Convolution over a batch of fixed shape, its scratch memory and its tasks.

    `x`, `dx` are (batch, height, width, channels), `y`, `dy` (batch, rows, columns, filters), all C-contiguous;
    `weight`, `dweight` (filters, channels / groups, *kernel), `bias`, `dbias` (filters,). With `relu`,
    y = max(x * W + b, 0).

    Set the arrays once with `bind`. `forward` and `backward` work on the pool's threads, one piece of the batch each.
    Results are written, not added.
    """

    def __init__(
        self, batch: int, channels: int, filters: int, down: WindowAxis, across: WindowAxis, groups: int = 1,
        dtype: Any = np.float32, pool: Pool | None = None, relu: bool = False,
    ) -> None:  # fmt: skip
        self.batch, self.channels, self.filters, self.groups = batch, channels, filters, groups
        self.down, self.across, axes = down, across, (down, across)
        self.dtype, self.pool, self.relu = np.dtype(dtype), pool or Pool(1), relu
        self.kernel = (down.kernel, across.kernel)
        height, width, self.rows, self.columns = down.length, across.length, down.count, across.count
        if self.rows < 1 or self.columns < 1 or channels % groups or filters % groups:
            raise ValueError(
                f"no convolution of {height}x{width}x{channels} by {filters} {self.kernel} in {groups} groups"
            )
        unstrided = all(axis.stride == 1 for axis in axes)
        # the image is its own matrix
        self.direct = self.kernel == (1, 1) and unstrided and not any(axis.pad for axis in axes)
        self.taps = math.prod(self.kernel) * channels // groups
        # With stride 1 the gradient of x is a convolution of dy, whose windows serve for the gradient of the weights
        # too: better than adding up windows, unless dy has to be made much larger for it.
        self.mirrored = (
            not self.direct
            and unstrided
            and all(axis.pad < axis.extent for axis in axes)
            and height * width * filters <= 1.3 * self.rows * self.columns * max(filters, channels)
        )
        most = max(stop - start for start, stop in self.pool.pieces(batch))
        self.images, self.band = self._chunk(most, self.rows, self.columns, groups * (self.taps + 1))
        per_group = filters // groups
        self.mirror_taps = math.prod(self.kernel) * per_group
        self.mirror_images, self.mirror_band = self._chunk(most, height, width, groups * self.mirror_taps)
        self._reserve()
        self.packed = np.zeros((groups, self.taps + (not self.direct), per_group), self.dtype)
        self.mirror_packed = np.zeros((groups, self.mirror_taps * self.mirrored, channels // groups), self.dtype)
        self._scratch: dict[tuple[str, int], Array] = {}
        self._forward: dict[tuple[int, int, int], list[Task]] = {}
        self._backward: dict[tuple[int, int, int], list[Task]] = {}
        self._partial: dict[int, tuple[Array, Array]] = {}

    def _chunk(self, most: int, rows: int, columns: int, width: int) -> Pair:
        """Return how many images, and how many rows of the result of each, are worked on at a time."""
        row_bytes = columns * width * self.dtype.itemsize
        images = min(most, max(1, CHUNK_BYTES // (rows * row_bytes)))
        images = -(-most // -(-most // images))  # chunks of equal size
        return images, min(rows, max(1, CHUNK_BYTES // row_bytes)) if images == 1 else rows

    def _reserve(self) -> None:
        positions = self.images * self.band * self.columns
        mirror_positions = self.mirror_images * self.mirror_band * self.across.length * self.mirrored
        size = max(positions * (self.taps + 1), mirror_positions * self.mirror_taps) * self.groups * self.dtype.itemsize
        self.pool.reserve("windows", -(-size // 8) * 8)  # layers of float64 may share it

    # The arrays, and the passes on the pool's threads

    def bind(self, arrays: Arrays) -> None:
        """Set the arrays that the passes work on."""
        self.arrays = arrays
        self._forward.clear()
        self._backward.clear()
        self._partial.clear()

    def forward(self) -> None:
        """Write y."""
        run(self.prepare_tasks())
        self.pool.parallel(self.forward_piece, self.batch)

    def backward(self) -> None:
        """Write the gradients that are wanted, after `forward`, which has copied the weights."""
        self.pool.parallel(self.backward_piece, self.batch)
        run(self.finish_tasks(self.pool.pieces(self.batch)))

    def forward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write images `start` to `stop` of y; `prepare_tasks` have run."""
        run(self.forward_tasks(start, stop, worker))

    def backward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write images `start` to `stop` of dx, and the piece's share of the gradients of weight and bias."""
        run(self.backward_tasks(start, stop, worker))

    # Tasks

    def prepare_tasks(self) -> list[Task]:
        """Return the tasks that copy the weights into the layouts of the products."""
        groups, (high, wide), each = self.groups, self.kernel, self.channels // self.groups
        per_group = self.filters // groups
        weight, bias = self.arrays.weight.reshape(groups, per_group, each, high, wide), self.arrays.bias
        packed = self.packed[:, : self.taps].reshape(groups, high, wide, each, per_group)
        tasks: list[Task] = [(np.copyto, (packed, weight.transpose(0, 3, 4, 2, 1)))]
        if not self.direct:
            row = self.packed[:, self.taps]
            tasks.append((np.copyto, (row, 0 if bias is None else bias.reshape(groups, per_group))))
        if self.mirrored and self.arrays.dx is not None:
            mirror = self.mirror_packed.reshape(groups, high, wide, per_group, each)
            tasks.append((np.copyto, (mirror, weight[..., ::-1, ::-1].transpose(0, 3, 4, 1, 2))))
        return tasks

    def forward_tasks(self, start: int, stop: int, worker: int) -> list[Task]:
        """Return the tasks that write images `start` to `stop` of y."""
        key = (start, stop, worker)
        if key not in self._forward:
            self._forward[key] = list(self._make_forward(*key))
        return self._forward[key]

    def backward_tasks(self, start: int, stop: int, worker: int) -> list[Task]:
        """Return the tasks that write images `start` to `stop` of dx, and their share of dweight and dbias."""
        key = (start, stop, worker)
        if key not in self._backward:
            self._backward[key] = list(self._make_backward(*key))
        return self._backward[key]

    def finish_tasks(self, pieces: Sequence[Pair]) -> list[Task]:
        """Return the tasks that add up the pieces' gradients of weight and bias, in the order of the pieces."""
        dweight, dbias, dx = self.arrays.dweight, self.arrays.dbias, self.arrays.dx
        if dweight is None and dbias is None:
            return []
        weights, biases = zip(*(self._partial[start] for start, _ in pieces), strict=True)
        tasks: list[Task] = []
        for partial in (weights, biases):
            tasks.extend((np.add, (partial[0], other, partial[0])) for other in partial[1:])
        groups, (high, wide), each = self.groups, self.kernel, self.channels // self.groups
        per_group = self.filters // groups
        if dweight is not None:
            target = dweight.reshape(groups, per_group, each, high, wide)
            if self.mirrored and dx is not None:
                total = weights[0].reshape(groups, high, wide, per_group, each)
                tasks.append((np.copyto, (target[..., ::-1, ::-1], total.transpose(0, 3, 4, 1, 2))))
            else:
                total = weights[0].reshape(groups, high, wide, each, per_group)
                tasks.append((np.copyto, (target, total.transpose(0, 4, 3, 1, 2))))
        if dbias is not None:
            tasks.append((np.copyto, (dbias, biases[0])))
        return tasks

    # How the tasks are made

    def _make_forward(self, start: int, stop: int, worker: int) -> Iterator[Task]:
        bias, y = self.arrays.bias, self.arrays.y
        for first, last, top, bottom, matrix, tasks in self._matrices(start, stop, worker):
            yield from tasks
            result = y[first:last, top:bottom].reshape(-1, self.filters)
            for group, (_, outputs) in enumerate(self._group_slices()):
                yield np.matmul, (matrix[:, group], self.packed[group], result[:, outputs])
            if self.direct and bias is not None:
                yield np.add, (result, bias, result)
            if self.relu:
                zeros = self._shared("zeros", 0, result.size, np.zeros)
                yield maximum, (result.reshape(-1), zeros, result.reshape(-1))

    def _matrices(self, start: int, stop: int, worker: int) -> Iterator[tuple[int, int, int, int, Array, list[Task]]]:
        """Yield a piece's chunks (first image, last, top row, bottom), their matrices, and the tasks that fill them."""
        windows, x = None if self.direct else self._windows(worker), self.arrays.x
        for first in range(start, stop, self.images):
            last = min(first + self.images, stop)
            padded, pad_tasks = windows.pad_tasks(x[first:last]) if windows else (x[first:last], [])
            for top in range(0, self.rows, self.band):
                bottom = min(top + self.band, self.rows)
                if windows:
                    matrix, tasks = windows.tasks(padded, top, bottom)
                else:
                    matrix, tasks = padded[:, top:bottom].reshape(-1, self.groups, self.taps), []
                yield first, last, top, bottom, matrix, pad_tasks + tasks
                pad_tasks = []

    def _make_backward(self, start: int, stop: int, worker: int) -> Iterator[Task]:
        y, dy, dweight, dbias, dx = (
            self.arrays.y, self.arrays.dy, self.arrays.dweight, self.arrays.dbias, self.arrays.dx,
        )  # fmt: skip
        mirrored = dx is not None and self.mirrored
        weights, biases = self._partial_gradient(start)
        size = self.mirror_images if mirrored else self.images
        for first in range(start, stop, size):
            last = min(first + size, stop)
            gradient = dy[first:last]
            if self.relu:
                gated = self._shared("gated", worker, gradient.size, np.empty).reshape(gradient.shape)
                scratch = self._shared("gate", worker, 2 * gradient.nbytes, np.empty, np.uint8)
                yield from gate_tasks(y[first:last], gradient, gated, scratch)
                gradient = gated
            total = None if dweight is None else weights
            if mirrored:
                yield from self._mirrored_tasks(gradient, first, last, worker, total, first == start)
            elif dx is not None or dweight is not None:
                yield from self._window_tasks(gradient, first, last, worker, total, first == start)
            if dbias is not None:
                flat = gradient.reshape(-1, self.filters)
                ones = self._shared("ones", 0, len(flat), np.ones)
                yield from self._accumulate(ones, flat, biases, first == start, worker)

    def _window_tasks(
        self, dy: Array, first: int, last: int, worker: int, total: Array | None, begin: bool
    ) -> Iterator[Task]:
        """Yield the tasks of the gradients by the windows of x: dW = windows^T dy, and W dy is added into dx."""
        dx = self.arrays.dx
        padded_dx = None if dx is None or self.direct else self._padded_dx(dx, first, last, worker)
        if padded_dx is not None:
            yield padded_dx.fill, (0,)
        for _, _, top, bottom, matrix, tasks in self._matrices(first, last, worker):
            result = dy[:, top:bottom].reshape(-1, self.filters)
            if total is not None:
                yield from tasks
            for group, (inputs, outputs) in enumerate(self._group_slices()):
                if total is not None:
                    windows = matrix[:, group, : self.taps].T
                    yield from self._accumulate(windows, result[:, outputs], total[group], begin and top == 0, worker)
                if padded_dx is not None:
                    target = padded_dx[..., inputs]
                    yield from self._add_windows(result[:, outputs], group, target, last - first, top, bottom, worker)
                elif dx is not None:
                    target = dx[first:last, top:bottom].reshape(-1, self.channels)
                    yield np.matmul, (result[:, outputs], self.packed[group].T, target[:, inputs])
        if dx is not None and padded_dx is not None and (self.down.pad or self.across.pad):
            yield np.copyto, (dx[first:last], padded_dx[:, self.down.image, self.across.image])

    def _add_windows(
        self, dy: Array, group: int, dx: Array, images: int, top: int, bottom: int, worker: int
    ) -> Iterator[Task]:
        """Add the windows' gradients into dx in two stages: all rows of the kernel in long runs, then its columns."""
        (high, wide), down = self.kernel, self.down.stride
        each, rows = self.channels // self.groups, bottom - top
        span = (rows - 1) * down + self.down.extent
        kernel_rows = self.packed[group, : self.taps].reshape(high, wide * each, -1).transpose(0, 2, 1)
        run_length = self.columns * wide * each
        parts = self._shared("parts", worker, high * images * rows * run_length, np.empty)
        parts = parts.reshape(high, images * rows * self.columns, wide * each)
        yield np.matmul, (dy, kernel_rows, parts)
        parts = parts.reshape(high, images, rows, run_length)
        strip = self._shared("strip", worker, images * span * run_length, np.empty).reshape(images, span, run_length)
        yield strip.fill, (0,)
        for i in range(high):
            begin = i * self.down.dilation
            target = strip[:, begin : begin + (rows - 1) * down + 1 : down]
            yield np.add, (target, parts[i], target)
        strip = strip.reshape(images, span, self.columns, wide, each)
        dx = dx[:, top * down : top * down + span]
        for j in range(wide):
            target = dx[:, :, self.across.index(j)]
            yield np.add, (target, strip[:, :, :, j], target)

    def _mirrored_tasks(
        self, dy: Array, first: int, last: int, worker: int, total: Array | None, begin: bool
    ) -> Iterator[Task]:
        """Yield the tasks of the gradients by the windows of dy: dx = windows W, dW = windows^T x, both turned."""
        windows = self._mirror_windows(worker)
        padded, tasks = windows.pad_tasks(dy)
        yield from tasks
        for top in range(0, self.down.length, self.mirror_band):
            bottom = min(top + self.mirror_band, self.down.length)
            matrix, tasks = windows.tasks(padded, top, bottom)
            yield from tasks
            images = self.arrays.x[first:last, top:bottom].reshape(-1, self.channels)
            target = self.arrays.dx[first:last, top:bottom].reshape(-1, self.channels)
            for group, (inputs, _) in enumerate(self._group_slices()):
                yield np.matmul, (matrix[:, group], self.mirror_packed[group], target[:, inputs])
                if total is not None:
                    transposed = matrix[:, group].T
                    yield from self._accumulate(transposed, images[:, inputs], total[group], begin and top == 0, worker)

    def _accumulate(self, left: Array, right: Array, total: Array, begin: bool, worker: int) -> Iterator[Task]:
        """Yield the tasks of `total = left @ right`, or of `+=` after the beginning."""
        if begin:
            yield np.matmul, (left, right, total)
            return
        product = self._shared("product", worker, total.size, np.empty).reshape(total.shape)
        yield np.matmul, (left, right, product)
        yield np.add, (total, product, total)

    # Memory

    def _group_slices(self) -> list[tuple[slice, slice]]:
        """Return the channels and the filters of each group."""
        channels, filters = self.channels // self.groups, self.filters // self.groups
        return [
            (slice(g * channels, (g + 1) * channels), slice(g * filters, (g + 1) * filters)) for g in range(self.groups)
        ]

    def _shared(self, name: str, worker: int, size: int, make: Any, dtype: Any = None) -> Array:
        """Return a flat scratch array of at least `size` elements; ask for the largest first, or it is replaced."""
        found = self._scratch.get((name, worker))
        if found is None or found.size < size:
            found = self._scratch[name, worker] = make(size, dtype or self.dtype)
        return found[:size]

    def _padded_dx(self, dx: Array, first: int, last: int, worker: int) -> Array:
        if not (self.down.pad or self.across.pad):
            return dx[first:last]
        shape = (last - first, self.down.padded, self.across.padded, self.channels)
        return self._shared("padded dx", worker, math.prod(shape), np.empty).reshape(shape)

    def _partial_gradient(self, start: int) -> tuple[Array, Array]:
        """Return the gradients of weight (as the product has it) and bias by the piece that begins at `start`."""
        if start not in self._partial:
            like = self.mirror_packed if self.mirrored and self.arrays.dx is not None else self.packed[:, : self.taps]
            self._partial[start] = np.zeros(like.shape, self.dtype), np.zeros(self.filters, self.dtype)
        return self._partial[start]

    def _windows(self, worker: int) -> _Windows:
        key = ("windows", worker)
        if key not in self._scratch:
            self._scratch[key] = _Windows(
                self.images, self.channels, self.down, self.across, self.groups, self.dtype, True,
                self.images * self.band * self.columns, self.pool.scratch("windows", worker),
            )  # fmt: skip
        return self._scratch[key]

    def _mirror_windows(self, worker: int) -> _Windows:
        key = ("mirror windows", worker)
        if key not in self._scratch:
            positions = self.mirror_images * self.mirror_band * self.across.length
            self._scratch[key] = _Windows(
                self.mirror_images, self.filters, self.down.back, self.across.back, self.groups, self.dtype, False,
                positions, self.pool.scratch("windows", worker),
            )  # fmt: skip
        return self._scratch[key]
