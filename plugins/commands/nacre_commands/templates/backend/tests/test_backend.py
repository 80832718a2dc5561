"""The kit checks the backend; what is its own is checked below."""

from __future__ import annotations

import numpy as np
import pytest
from nacre_new_backend import NewNameBackend

from nacre import L, NacreError, Net, Solver
from nacre.testing import BackendTests
from nacre_layers import RandomNet

POINTS = np.random.default_rng(0).normal(size=(40, 4))


class TestNewName(BackendTests):
    """Arrays, copies, functions, and nets that compute what they compute elsewhere."""

    backend = NewNameBackend


@pytest.mark.parametrize("number", range(20))
def test_random_nets(number: int) -> None:
    """Layers beside each other compute what each computes alone."""
    RandomNet(number).check(NewNameBackend())


def test_what_overflows_is_told() -> None:
    """A learning rate that is far too high ends with an error at once."""
    x, label = L.MemoryData(data=[POINTS, POINTS[:, 0] > 0], tops=["x", "label"], batch_size=10)()
    loss = L.SoftmaxLoss()(L.InnerProduct(output_dim=2)(x), label)
    with Net("small", [loss], backend=NewNameBackend()) as net, pytest.raises(NacreError):
        Solver("SGD", max_iter=30, lr_policy=1e38).solve(net, quiet=True)
