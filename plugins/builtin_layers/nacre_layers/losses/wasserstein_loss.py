"""WassersteinLoss: the cost of moving one distribution to another."""

from __future__ import annotations

from math import log, prod
from typing import Annotated, Any

import numpy as np

from nacre import Array, ConfigError, DataError, LayerState, Names, exactly, positive

from ..fields import NumberLists
from .base import FLOOR, Loss, check_probabilities

NEVER = -1e30
"""The logarithm of 0: finite, so that differences are finite, and far below all others."""

ROUNDING = 1e-2
"""How far from 1 the sum of a distribution may be: bfloat16 rounds numbers by up to 0.4 %."""

REMEDY = "add a Softmax before it, or divide the records by their sums"


class WassersteinLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight / N · Σ <P, cost>, with the cheapest plans P, smoothed, that move a to b, for N rows that count.

    Bottoms are distributions a (N, ...), after a Softmax for example, and b (N, ...), each of which adds up to 1 in
    every row; they may differ in size. `cost` has a row for each number of a, and a column for each of b. Plans are
    found by Sinkhorn's iteration, u = a / K(b / Kᵀu) and v = b / Kᵀu with K = exp(-sharpness · cost), P = u K v,
    computed with logarithms, so that a large `sharpness` is harmless; it takes time and memory for N · a · b numbers.
    Where a distribution is 0 its gradient is that of 1e-20. Raises DataError if a bottom is not a distribution.

    The gradients are those of the smoothed problem, weight / N · log(u) / sharpness and log(v) / sharpness: they are
    those of the loss, up to a constant, only if `sharpness` is large, and the iteration has converged. After Mocha.jl's
    `WassersteinLossLayer` (its `M` and `lambda` are `cost` and `sharpness`); Cuturi, "Sinkhorn distances", 2013, and
    Frogner et al., "Learning with a Wasserstein loss", 2015.

    Example:
        [[layer]]
        type = "WassersteinLoss"
        bottoms = ["prob", "target"]  # (8, 3), (8, 3)
        cost = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
        sharpness = 20.0
    """

    bottoms: Annotated[Names, exactly(2), "the predicted distributions and the true ones"]
    cost: Annotated[NumberLists, "cost of moving 1 from each index of a to each index of b, as a list of rows"]
    sharpness: Annotated[float, positive, "the larger, the less the plans are smoothed"]
    sinkhorn_iter: Annotated[int, positive, "number of iterations"] = 50


class WassersteinLossState(LayerState, of=WassersteinLossLayer, reads="inputs"):
    """`WassersteinLossLayer` on any backend: arrays are (rows, a, b), or with one of both of length 1."""

    def __init__(self, layer: WassersteinLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        a, b = (tuple(one.shape) for one in inputs)
        if a[0] != b[0]:
            raise ConfigError(f"{layer.name}: the bottoms have {a[0]} and {b[0]} rows")
        self.images, self.sizes = a[0], (prod(a[1:]), prod(b[1:]))
        self.host = np.array(layer.cost)
        if self.host.shape != self.sizes:
            raise ConfigError(
                f"{layer.name}: cost has the shape {self.host.shape}, but {self.sizes} is needed for bottoms of the "
                f"shapes {a} and {b}"
            )
        self.tiny = float(np.finfo(backend.dtype).tiny)
        self.loss: Any = 0.0

    def ready(self) -> None:
        empty, (height, width) = self.backend.empty, self.sizes
        cost = self.host.reshape(1, height, width)
        self.cost, self.log_k = self.backend.constant(cost), self.backend.constant(-self.layer.sharpness * cost)
        # of a, then of b: the logarithms of the masses, those of the scales u and v, and those of what divides them
        sides = ((self.images, height, 1), (self.images, 1, width))
        self.totals = [empty((self.images,)) for _ in sides]
        self.masses, self.scales, self.divisors = ([empty(shape) for shape in sides] for _ in range(3))

    def forward(self, inputs: list[Array]) -> None:
        xp, self.rows = self.backend.xp, min(self.backend.rows, self.images)
        for index, (given, mass) in enumerate(zip(inputs, self.masses, strict=True)):
            self._check(index, given[: self.rows].reshape(self.rows, -1))
            self._logarithm(given[: self.rows].reshape(mass[: self.rows].shape), NEVER, mass[: self.rows])
        self.scales[0][...] = -log(self.sizes[0])
        for _ in range(self.layer.sinkhorn_iter):
            self._scale(1)
            self._scale(0)
        self._scale(1)
        plan = self.backend.scratch((self.rows, *self.sizes))
        xp.add(self.log_k, self.scales[0][: self.rows], out=plan)
        xp.add(plan, self.scales[1][: self.rows], out=plan)
        xp.exp(plan, out=plan)
        xp.multiply(plan, self.cost, out=plan)
        self.factor = self.layer.weight / self.rows
        self.loss = self.factor * xp.sum(plan)

    def _check(self, index: int, x: Array) -> None:
        """Raise DataError for rows of a bottom that are not distributions; NaN is allowed, and reaches the loss."""
        xp, layer = self.backend.xp, self.layer
        check_probabilities(layer, self.backend, x, REMEDY, index)
        total, excess = self.totals[index][: self.rows], self.backend.scratch((self.rows,))
        xp.sum(x, axis=1, out=total)
        xp.subtract(total, 1.0, out=excess)
        xp.abs(excess, out=excess)

        def wrong() -> DataError:
            host = self.backend.to_host(total)
            worst = int(np.abs(host - 1).argmax())
            record = f"record {worst} of the batch in bottom '{layer.bottoms[index]}'"
            adds_up = f"adds up to {host[worst]:g}, but a distribution adds up to 1"
            return DataError(f"{layer.name}: {record} {adds_up}", REMEDY)

        self.backend.require((layer.name, "totals", index), ~(xp.max(excess) > ROUNDING), wrong)

    def _logarithm(self, mass: Array, zero: float, out: Array) -> None:
        """Write the logarithm of masses into `out`, and `zero` for a mass of 0."""
        xp, none = self.backend.xp, self.backend.scratch(mass.shape, "bool")
        xp.maximum(mass, self.tiny, out=out)
        xp.log(out, out=out)
        xp.less_equal(mass, 0.0, out=none)
        xp.copyto(out, zero, where=none)

    def _scale(self, side: int) -> None:
        """Set u (side 0) or v (side 1) to the mass / Σ K scale of the other side."""
        xp, axis = self.backend.xp, 2 - side
        mass, scale, divisor = (arrays[side][: self.rows] for arrays in (self.masses, self.scales, self.divisors))
        work = self.backend.scratch((self.rows, *self.sizes))
        top = self.backend.scratch(scale.shape, slot=1)
        xp.add(self.log_k, self.scales[1 - side][: self.rows], out=work)
        xp.max(work, axis=axis, keepdims=True, out=top)
        xp.subtract(work, top, out=work)
        xp.exp(work, out=work)
        xp.sum(work, axis=axis, keepdims=True, out=divisor)
        xp.log(divisor, out=divisor)
        xp.add(divisor, top, out=divisor)
        xp.subtract(mass, divisor, out=scale)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for given, diff, divisor in zip(inputs, diffs, self.divisors, strict=True):
            if diff is not None:
                gradient = diff[: self.rows]
                self._logarithm(given[: self.rows], log(FLOOR), gradient)
                xp.subtract(gradient, divisor[: self.rows].reshape(gradient.shape), out=gradient)
                xp.multiply(gradient, self.factor / self.layer.sharpness, out=gradient)
                diff[self.rows :] = 0
