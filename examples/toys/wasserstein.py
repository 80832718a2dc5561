"""The Wasserstein loss: a softmax finds the distribution that is nearest to what it is shown.

    python examples/toys/wasserstein.py

Records are histograms over four classes in a row, drawn around a known one; to take one class for another costs as much
as they are apart. The net has no input but a constant, so all it can learn is one distribution; the four numbers come
out within 0.01 of the known ones. After the toy of Mocha.jl, `examples/test-wasserstein.jl`; Frogner and others,
"Learning with a Wasserstein loss", 2015.
"""

from __future__ import annotations

import numpy as np

from nacre import Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.wasserstein_loss import WassersteinLossLayer
from nacre_solvers import Step, TrainingSummary

KNOWN = np.array([0.1, 0.2, 0.3, 0.4])


def run(seed: int = 0) -> float:
    """Return the largest error of a number of the distribution."""
    random = np.random.default_rng(seed)
    shown = random.dirichlet(2000 * KNOWN, 1000)
    distance = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    layers = [
        MemoryDataLayer(name="data", tops=["one", "shown"], data=[np.ones((1000, 1)), shown], batch_size=100),
        InnerProductLayer(name="scores", bottoms=["one"], tops=["scores"], output_dim=4, bias=False),
        SoftmaxLayer(name="found", bottoms=["scores"], tops=["found"]),
        WassersteinLossLayer(bottoms=["found", "shown"], cost=distance.tolist(), sharpness=20.0),
    ]
    net = Net("wasserstein", layers, seed=seed, keep=["found"])
    rate = Step(base=0.5, gamma=0.3, stepsize=300)
    Solver("SGD", max_iter=1000, lr_policy=rate, callbacks=[TrainingSummary(every_n_iter=200)]).solve(net)
    return float(np.abs(net.blob("found")[0] - KNOWN).max())


if __name__ == "__main__":
    print(f"the largest error is {run():.4f}")
