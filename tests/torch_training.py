"""The same small net trained by nacre and by PyTorch, step by step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nacre import Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers.initializers import Gaussian
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import Tanh


def train_both(
    solver: Solver, optimizer: Callable[..., Any], decay: float = 0.0, before: Callable[..., Any] | None = None
) -> Any:
    """Train 100 steps in float64 and compare losses and weights to 1e-10; give the training.

    `optimizer` is made of PyTorch's groups of parameters, of which only weights have the weight decay; `before` is
    called with its parameters before each of its steps.
    """
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    x, label = random.normal(size=(30, 5)), random.integers(0, 3, 30)
    layers = [
        MemoryDataLayer(name="in", tops=["x", "label"], data=[x, label], batch_size=10 // solver.n_accumulate),
        InnerProductLayer(bottoms="x", tops="a", output_dim=7, neuron=Tanh(), weight_init=Gaussian(std=0.5)),
        InnerProductLayer(bottoms="a", tops="b", output_dim=3, weight_init=Gaussian(std=0.5)),
        SoftmaxLossLayer(name="loss", bottoms=["b", "label"]),
    ]
    net = Net("ours", layers, dtype="float64", backend="numpy")
    theirs = {name: torch.tensor(np.array(handle.value), requires_grad=True) for name, handle in net.parameters.items()}
    groups = [{"params": [theirs[name]], "weight_decay": decay if name.endswith("weight") else 0.0} for name in theirs]
    optimizer = optimizer(groups)
    with solver.start(net) as training:
        for step in range(100):
            training.step()
            rows = slice(step % 3 * 10, step % 3 * 10 + 10)
            hidden = torch.tanh(torch.tensor(x[rows]) @ theirs["a/weight"].T + theirs["a/bias"])
            scores = hidden @ theirs["b/weight"].T + theirs["b/bias"]
            loss = torch.nn.functional.cross_entropy(scores, torch.tensor(label[rows]))
            optimizer.zero_grad()
            loss.backward()
            if before is not None:
                before(list(theirs.values()))
            optimizer.step()
            assert training.loss == pytest.approx(loss.item(), abs=1e-10)
    for name, handle in net.parameters.items():
        np.testing.assert_allclose(handle.value, theirs[name].detach().numpy(), rtol=0, atol=1e-10)
    return training
