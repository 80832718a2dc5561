"""SGD against numbers from its ancestors, and against PyTorch's."""

from typing import Any

import numpy as np
import pytest

from nacre import Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers import L1, Gaussian, InnerProductLayer, SoftmaxLossLayer, Tanh
from nacre_solvers import SGD
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
    random = np.random.default_rng(0)
    x, label = random.normal(size=(30, 5)), random.integers(0, 3, 30)
    layers = [
        MemoryDataLayer(name="in", tops=["x", "label"], data=[x, label], batch_size=10),
        InnerProductLayer(bottoms="x", tops="a", output_dim=7, neuron=Tanh(), weight_init=Gaussian(std=0.5)),
        InnerProductLayer(bottoms="a", tops="b", output_dim=3, weight_init=Gaussian(std=0.5)),
        SoftmaxLossLayer(name="loss", bottoms=["b", "label"]),
    ]
    net = Net("ours", layers, dtype="float64", backend="numpy")
    theirs = {name: torch.tensor(np.array(handle.value), requires_grad=True) for name, handle in net.parameters.items()}
    groups = [{"params": [theirs[name]], "weight_decay": decay if name.endswith("weight") else 0.0} for name in theirs]
    optimizer = torch.optim.SGD(groups, lr=0.05, momentum=momentum)
    with solver(method, lr_policy=0.05, momentum_policy=momentum, regu_coef=decay).start(net) as training:
        assert (training.choice.kernel is None) is (method is OwnCode)
        for step in range(100):
            training.step()
            rows = slice(step % 3 * 10, step % 3 * 10 + 10)
            hidden = torch.tanh(torch.tensor(x[rows]) @ theirs["a/weight"].T + theirs["a/bias"])
            scores = hidden @ theirs["b/weight"].T + theirs["b/bias"]
            loss = torch.nn.functional.cross_entropy(scores, torch.tensor(label[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert training.loss == pytest.approx(loss.item(), abs=1e-10)
    for name, handle in net.parameters.items():
        np.testing.assert_allclose(handle.value, theirs[name].detach().numpy(), rtol=0, atol=1e-10)


def test_l1_pulls_by_the_sign() -> None:
    net = pulled_net(gradients=((0.0,),) * 3, first=-0.15, regu=L1(coef=0.5))
    with solver(momentum_policy=0.0, regu_coef=1.0).start(net) as training:
        assert trace(training, 3) == pytest.approx([-0.1, -0.05, 0.0], abs=1e-15)


def test_no_regulariser_no_decay() -> None:
    net = pulled_net(gradients=((0.0,),) * 3, regu=None)
    with solver(regu_coef=1.0).start(net) as training:
        assert trace(training, 3) == [1.0, 1.0, 1.0]
