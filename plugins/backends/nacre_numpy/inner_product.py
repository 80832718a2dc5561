"""y = x W^T + b and its gradients, shared out over threads."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from nacre_numpy.convolution import gate_steps
from nacre_numpy.threads import Pool, Step, maximum, run, split

Array = Any

ALONE = 1 << 21
"""Operations (multiplications and additions) that one thread has done before a second one is awake."""


class InnerProduct:
    """The product of a batch with a matrix of weights, its scratch memory and its steps.

    `x`, `dx` are (batch, inputs), `y`, `dy` (batch, outputs), `weight`, `dweight` (outputs, inputs), `bias`, `dbias`
    (outputs,). With `relu`, y = max(x W^T + b, 0).

    A worker computes some columns of every result for the whole batch, not all columns of some rows: it reads only its
    part of the weights, and nothing has to be added up. So all of x must be there before the first piece begins, and
    all pieces must be done before a next layer begins. Give the arrays once with `bind`, then let the pool run
    `forward_piece` and `backward_piece` over the `workers`; `forward` and `backward` do both.
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
        self._bound: tuple[Array, ...] = (None,) * 8
        self._forward: list[list[Step]] = []
        self._backward: list[list[Step]] = []

    def bind(
        self, x: Array, weight: Array, bias: Array | None, y: Array, dy: Array | None = None,
        dweight: Array | None = None, dbias: Array | None = None, dx: Array | None = None,
    ) -> None:  # fmt: skip
        """Fix the arrays that the steps work on. What is `None` is not there, or not wanted."""
        arrays = (x, weight, bias, y, dy, dweight, dbias, dx)
        if all(new is old for new, old in zip(arrays, self._bound, strict=True)):
            return
        self._bound = arrays
        outputs, inputs = split(self.outputs, self.workers), split(self.inputs, self.workers)
        self._forward = [list(self._make_forward(slice(*piece))) for piece in outputs]
        if dy is not None:
            pieces = zip(outputs, inputs, strict=True)
            self._backward = [list(self._make_backward(slice(*some), slice(*others))) for some, others in pieces]

    def forward(self, x: Array, weight: Array, bias: Array | None, y: Array) -> None:
        """Write y."""
        same = self._bound[0] is x and self._bound[3] is y
        self.bind(x, weight, bias, y, *(self._bound[4:] if same else ()))
        self.pool.parallel(self.forward_piece, self.workers)

    def backward(
        self, x: Array, dy: Array, weight: Array, dweight: Array | None, dbias: Array | None, dx: Array | None,
        y: Array | None = None,
    ) -> None:  # fmt: skip
        """Write the gradients that are wanted. `y`, which only `relu` reads, is the last `forward`'s unless given."""
        y = self._bound[3] if y is None else y
        self.bind(x, weight, self._bound[2], y, dy, dweight, dbias, dx)
        self.pool.parallel(self.backward_piece, self.workers)

    def forward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write the columns of y that belong to the workers from `start` to `stop`."""
        for piece in range(start, stop):
            run(self._forward[piece])

    def backward_piece(self, start: int, stop: int, worker: int) -> None:
        """Write the parts of all gradients that belong to the workers from `start` to `stop`."""
        for piece in range(start, stop):
            run(self._backward[piece])

    def _make_forward(self, outputs: slice) -> Iterator[Step]:
        x, weight, bias, y = self._bound[:4]
        y = y[:, outputs]
        yield np.matmul, (x, weight[outputs].T, y)
        if bias is not None:
            yield np.add, (y, bias[outputs], y)
        if self.relu:
            yield maximum, (y, self._zeros[outputs], y)

    def _make_backward(self, outputs: slice, inputs: slice) -> Iterator[Step]:
        x, weight, _, y, dy, dweight, dbias, dx = self._bound
        if self.relu:  # every worker for itself: waiting for each other would take longer
            gated = np.empty_like(dy)
            yield from gate_steps(y, dy, gated, np.empty(2 * dy.nbytes, np.uint8))
            dy = gated
        if dweight is not None:
            yield np.matmul, (dy[:, outputs].T, x, dweight[outputs])
        if dbias is not None:
            yield np.matmul, (self._ones, dy[:, outputs], dbias[outputs])
        if dx is not None:
            yield np.matmul, (dy, weight[:, inputs], dx[:, inputs])
