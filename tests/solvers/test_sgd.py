"""SGD against numbers from its ancestors, and against PyTorch's."""

from typing import Any

import numpy as np
import pytest

from nacre import Solver
from nacre_layers.regularizers import L1
from nacre_solvers import SGD
from torch_training import train_both
from toy_training import pulled_net, trace


class OwnCode(SGD):
    """SGD without its kernel, which serves no subclass."""


def solver(method: type[SGD] = SGD, **fields: Any) -> Solver:
    return Solver(method(), **{"lr_policy": 0.1, "momentum_policy": 0.9, **fields})


def test_on_a_parabola() -> None:
    """As Mocha.jl's formula gives it: the learning rate is inside the momentum."""
    with solver().start(pulled_net()) as training:
        assert trace(training, 3) == pytest.approx([0.9, 0.72, 0.486], abs=1e-15)


def test_on_given_gradients_with_weight_decay() -> None:
    """As Caffe and SINGA give it, to nine digits."""
    net = pulled_net(gradients=((0.5,), (-0.25,), (0.1,)))
    with solver(regu_coef=0.01).start(net) as training:
        assert trace(training, 3) == pytest.approx([0.949, 0.927151, 0.896559749], abs=5e-10)


def test_a_parameter_has_a_rate_of_its_own() -> None:
    with solver(momentum_policy=0.0).start(pulled_net(rate=0.5)) as training:
        assert trace(training, 2) == pytest.approx([0.95, 0.95**2], abs=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_long_parameter_is_updated_from_end_to_end(dtype: str) -> None:
    """Longer than what a kernel works on at a time."""
    size = 300_001
    gradient = np.random.default_rng(0).normal(size=size)
    net = pulled_net(dtype=dtype, shape=(size,), gradients=(gradient, gradient))
    with solver().start(net) as training:
        trace(training, 2)
    first = -0.1 * gradient.astype(dtype)
    expected = 1 + first + (0.9 * first - 0.1 * gradient.astype(dtype))
    np.testing.assert_allclose(net.parameters["pull/w"].value, expected, rtol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("method", [SGD, OwnCode])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_as_torch_does(momentum: float, decay: float, method: type[SGD]) -> None:
    torch = pytest.importorskip("torch")
    ours = solver(method, lr_policy=0.05, momentum_policy=momentum, regu_coef=decay)
    training = train_both(ours, lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=momentum), decay)
    assert (training.choice.kernel is None) is (method is OwnCode)


def test_l1_pulls_by_the_sign() -> None:
    net = pulled_net(gradients=((0.0,),) * 3, first=-0.15, regu=L1(coef=0.5))
    with solver(momentum_policy=0.0, regu_coef=1.0).start(net) as training:
        assert trace(training, 3) == pytest.approx([-0.1, -0.05, 0.0], abs=1e-15)


def test_no_regulariser_no_decay() -> None:
    net = pulled_net(gradients=((0.0,),) * 3, regu=None)
    with solver(regu_coef=1.0).start(net) as training:
        assert trace(training, 3) == [1.0, 1.0, 1.0]
