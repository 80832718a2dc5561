"""Linear regression: an inner product finds the matrix that made its data.

    python examples/toys/regression.py

10,000 records of 20 numbers x, and y = A x + b with a little noise; the net learns A and b by the square loss. Every
number of them comes out within 0.01 of the truth. After the toy of Mocha.jl, `examples/test.jl`.
"""

from __future__ import annotations

import numpy as np

from nacre import Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_solvers import Step, TrainingSummary

RECORDS, INPUTS, OUTPUTS = 10_000, 20, 10


def run(seed: int = 0) -> float:
    """Return the largest error of a number of A and b."""
    random = np.random.default_rng(seed)
    a, b = random.standard_normal((OUTPUTS, INPUTS)), random.standard_normal(OUTPUTS)
    x = random.standard_normal((RECORDS, INPUTS))
    y = x @ a.T + b + 0.01 * random.standard_normal((RECORDS, OUTPUTS))
    layers = [
        MemoryDataLayer(name="data", tops=["x", "y"], data=[x, y], batch_size=500, shuffle=True),
        InnerProductLayer(name="model", bottoms=["x"], tops=["guess"], output_dim=OUTPUTS),
        SquareLossLayer(name="loss", bottoms=["guess", "y"]),
    ]
    net = Net("regression", layers, seed=seed)
    rate = Step(base=0.1, gamma=0.1, stepsize=300)
    Solver("SGD", max_iter=500, lr_policy=rate, callbacks=[TrainingSummary(every_n_iter=100)]).solve(net)
    found, offset = net.parameters["model/weight"].value, net.parameters["model/bias"].value
    return float(max(np.abs(found - a).max(), np.abs(offset - b).max()))


if __name__ == "__main__":
    print(f"the largest error is {run():.4f}")
