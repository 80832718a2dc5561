"""Nets compute on the backend what they compute on nacre's numpy backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nacre_new_backend import NewNameBackend

from nacre import L, NacreError, Net, Solver

POINTS = np.random.default_rng(0).normal(size=(40, 4))


def trained(backend: Any, rate: float = 0.1) -> dict[str, Any]:
    """Return the parameters of a small net that was trained on a backend."""
    x, label = L.MemoryData(data=[POINTS, POINTS[:, 0] > 0], tops=["x", "label"], batch_size=10)()
    hidden = L.InnerProduct(output_dim=6, neuron="Tanh")(x)
    with Net("small", [L.SoftmaxLoss()(L.InnerProduct(output_dim=2)(hidden), label)], backend=backend) as net:
        Solver("SGD", max_iter=30, lr_policy=rate).solve(net, quiet=True)
        return {name: handle.value for name, handle in net.parameters.items()}


def test_a_net_learns_the_same() -> None:
    """To a few bits: the numpy backend has kernels of its own for some layers."""
    found, wanted = trained(NewNameBackend()), trained("numpy")
    assert found.keys() == wanted.keys()
    assert all(np.allclose(found[name], wanted[name], atol=1e-5) for name in wanted)


def test_what_overflows_is_told() -> None:
    """A learning rate that is far too high ends with an error at once."""
    with pytest.raises(NacreError):
        trained(NewNameBackend(), 1e38)
