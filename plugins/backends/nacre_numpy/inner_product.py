"""y = x W^T + b and its gradients, shared out over threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .arrays import Arrays
from .convolution import gate_tasks
from .threads import Pool, Task, maximum, run, split

ALONE = 1 << 21
"""Operations (multiplications and additions) that one thread has done before a second one is awake."""


class InnerProduct:
    """The product of a batch with a matrix of weights, its scratch memory and its tasks.

    `x`, `dx` are (batch, inputs), `y`, `dy` (batch, outputs), `weight`, `dweight` (outputs, inputs), `bias`, `dbias`
    (outputs,). With `relu`, y = max(x W^T + b, 0).

    A worker computes some columns of every result for the whole batch, not all columns of some rows: it reads only its
    part of the weights, and nothing has to be added up. So all of x must be there before the first piece begins, and
    all pieces must be done before the next layer begins. Set the arrays once with `bind`.
    """

    def __init__(
        self,
        batch: int,
        inputs: int,
        outputs: int,
        dtype: Any = np.float32,
        pool: Pool | None = None,
        relu: bool = False,
    ) -> None:
        self.batch, self.inputs, self.outputs, self.relu = batch, inputs, outputs, relu
        self.dtype, self.pool = np.dtype(dtype), pool or Pool(1)
        alone = 2 * batch * inputs * outputs < ALONE
        self.workers = 1 if alone else min(self.pool.count, inputs, outputs)
        self._ones = np.ones(batch, self.dtype)
        self._zeros = np.zeros(outputs, self.dtype)
        self._forward: list[list[Task]] = []
        self._backward: list[list[Task]] = []

    def bind(self, arrays: Arrays) -> None:
        """Set the arrays that the passes work on, and make their tasks."""
        outputs, inputs = split(self.outputs, self.workers), split(self.inputs, self.workers)
        self._forward = [list(self._make_forward(arrays, slice(*piece))) for piece in outputs]
        if arrays.dy is not None:
            pieces = zip(outputs, inputs, strict=True)
            self._backward = [
                list(self._make_backward(arrays, slice(*some), slice(*others))) for some, others in pieces
            ]

    def forward(self) -> None:
        """Write y."""
        self.pool.parallel(self.forward_piece, self.workers)

    def backward(self) -> None:
        """Write the gradients that are wanted, after `forward`."""
        self.pool.parallel(self.backward_piece, self.workers)

    def forward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write the columns of y that belong to the workers from `start` to `stop`."""
        for piece in range(start, stop):
            run(self._forward[piece])

    def backward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write the shares of all gradients that belong to the workers from `start` to `stop`."""
        for piece in range(start, stop):
            run(self._backward[piece])

    def _make_forward(self, arrays: Arrays, outputs: slice) -> Iterator[Task]:
        y = arrays.y[:, outputs]
        yield np.matmul, (arrays.x, arrays.weight[outputs].T, y)
        if arrays.bias is not None:
            yield np.add, (y, arrays.bias[outputs], y)
        if self.relu:
            yield maximum, (y, self._zeros[outputs], y)

    def _make_backward(self, arrays: Arrays, outputs: slice, inputs: slice) -> Iterator[Task]:
        dy = arrays.dy
        if self.relu:  # every worker for itself: waiting for each other would take longer
            gated = np.empty_like(dy)
            yield from gate_tasks(arrays.y, dy, gated, np.empty(2 * gated.nbytes, np.uint8))
            dy = gated
        if arrays.dweight is not None:
            yield np.matmul, (dy[:, outputs].T, arrays.x, arrays.dweight[outputs])
        if arrays.dbias is not None:
            yield np.matmul, (self._ones, dy[:, outputs], arrays.dbias[outputs])
        if arrays.dx is not None:
            yield np.matmul, (dy, arrays.weight[:, inputs], arrays.dx[:, inputs])
