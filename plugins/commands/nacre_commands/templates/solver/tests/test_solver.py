"""NewName: the kit compares its steps with a naive version, and looks at restarts, types and all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from nacre_new_solver import NewName

from nacre import L, Net, Solver
from nacre.testing import SolverTests


class TestNewName(SolverTests):
    """The steps, with the fields as they are unless said."""

    component = NewName

    def reference(
        self, method: Any, value: Any, gradients: Sequence[Any], rates: Sequence[float], momenta: Sequence[float]
    ) -> Any:
        """Compute a parameter after these updates in another way."""
        mean = np.zeros_like(value)
        for gradient, rate in zip(gradients, rates, strict=True):
            mean = method.beta * mean + (1 - method.beta) * gradient
            value = value - rate * np.sign(mean)
        return value


def test_it_learns() -> None:
    """Which points have a positive first number; the loss of a coin is ln 2 = 0.69."""
    points = np.random.default_rng(0).normal(size=(40, 4))
    x, label = L.MemoryData(data=[points, points[:, 0] > 0], tops=["x", "label"], batch_size=10)()
    with Net("small", [L.SoftmaxLoss()(L.InnerProduct(output_dim=2)(x), label)]) as net:
        assert Solver(NewName(), max_iter=100, lr_policy=0.01).solve(net, quiet=True).loss < 0.5
