"""What Mocha.jl's documentation and code disagreed on, and its bugs, where no other test keeps them (docs/mocha.md)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import InputLayer, Net, Solver
from nacre.config import load
from nacre_layers.initializers import Constant
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_solvers import SGD, Snapshot

LENET = Path(__file__).parents[1] / "examples/lenet/lenet.toml"


def layers(weight: float | None = None) -> list[Any]:
    init: dict[str, Any] = {} if weight is None else {"weight_init": Constant(value=weight)}
    return [
        InputLayer(tops=["x"], shape=3, batch_size=2),
        InputLayer(tops=["t"], shape=4, batch_size=2),
        InnerProductLayer(bottoms="x", tops="y", output_dim=4, **init),
        SquareLossLayer(name="loss", bottoms=["y", "t"]),
    ]


def net_of(given: list[Any], phase: str = "train") -> Net:
    net = Net("small", given, phase=phase, backend="numpy", dtype="float64")
    net.write("x", np.arange(6).reshape(2, 3))
    net.write("t", np.ones((2, 4)))
    return net


def test_the_loss_has_no_penalty_in_it() -> None:
    """Mocha's documentation adds up losses and regularisers; its code left them out, as PyTorch's losses do."""
    net = net_of(layers(weight=2))
    plain = net.forward()
    with Solver(SGD(), lr_policy=0.1, regu_coef=1).start(net) as training:
        training.step()
        assert training.loss == plain
    decayed = net.parameters["y/weight"].value
    other = net_of(layers(weight=2))
    with Solver(SGD(), lr_policy=0.1, regu_coef=0).start(other) as training:
        training.step()
    np.testing.assert_allclose(decayed, other.parameters["y/weight"].value - 0.1 * 2)  # it is in the gradient


def test_lenets_rate() -> None:
    """Mocha's tutorial says gamma = 0.001, its script 0.0001."""
    with load(LENET).solver().start(load(LENET).net(backend="numpy")) as training:
        assert training.rate.rate(0) == 0.01
        assert training.rate.rate(1000) == pytest.approx(0.01 * 1.1**-0.75)


@pytest.mark.parametrize("first", ["validation", "train"])
def test_a_validation_net_made_first_leaves_loaded_weights_alone(first: str, tmp_path: Path) -> None:
    """In Mocha the net that is made first owns the initialisers, and they ran again after the weights were loaded."""
    Solver(SGD(), max_iter=3, callbacks=[Snapshot(folder=str(tmp_path))]).solve(net_of(layers(weight=7)))
    given = layers(weight=1)
    nets = {phase: net_of(given, phase) for phase in (first, "train" if first == "validation" else "validation")}
    assert nets["train"].load(tmp_path).complete
    loaded = np.array(nets["train"].parameters["y/weight"].value)
    assert abs(loaded - 1).max() > 0.1
    with Solver(SGD(), lr_policy=0.001).start(nets["train"]) as training:
        assert nets["train"].forward() == nets["validation"].forward()
        np.testing.assert_array_equal(nets["validation"].parameters["y/weight"].value, loaded)
        training.step()
    assert nets["train"].forward() == nets["validation"].forward()
