"""What `net.fit` costs over the compiled loop: python -m benchmarks.fit. LeNet, 64 pictures a batch.

The time of an epoch is divided: the calls that compute (sources, passes, update), and all that is around them (making
the net, rates, checks for finite numbers, callbacks, progress). Their quotient should be 3 % at most. Both are measured
in the same epoch, as long as one of MNIST's, as CPU time of the thread, so that it matters little what else the machine
does.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from nacre import Callback, CallbackState, Input, L, Net, Training

BATCH = 64


class Timed(Callback):
    """Adds up the time in the calls that compute."""

    seconds = 0.0

    def start(self, training: Training) -> CallbackState:
        def timed(call: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                begin = time.thread_time()
                call()
                Timed.seconds += time.thread_time() - begin

            return run

        training._calls = [timed(call) for call in training._calls]
        return CallbackState(self, training)


def lenet(backend: str) -> Net:
    """Return LeNet, as examples/lenet has it."""
    x, label = Input((1, 28, 28)), Input(dtype="int64")
    h = L.Pooling(kernel=2, stride=2)(L.Convolution(n_filter=20, kernel=5)(x))
    h = L.Pooling(kernel=2, stride=2)(L.Convolution(n_filter=50, kernel=5)(h))
    score = L.InnerProduct(output_dim=10)(L.InnerProduct(output_dim=500, neuron="ReLU")(h))
    return Net("lenet", [L.SoftmaxLoss()(score, label), L.Accuracy()(score, label)], backend=backend)


def main() -> None:
    """Print the costs of some epochs, and their median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="onednn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=938)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    count = BATCH * arguments.batches
    pictures, labels = random.random((count, 1, 28, 28), np.float32), random.integers(0, 10, count)
    net, costs = lenet(arguments.backend), list[float]()
    for _ in range(arguments.rounds):
        Timed.seconds = 0.0
        begin = time.thread_time()
        training = net.fit(pictures, labels, epochs=1, batch_size=BATCH, callbacks=[Timed()])
        whole = time.thread_time() - begin
        around = whole - Timed.seconds
        costs.append(around / Timed.seconds)
        each = 1e3 / training.iteration
        print(f"compiled calls {each * Timed.seconds:.3f} ms, around {each * around:.3f} ms: {100 * costs[-1]:.2f} %")
    print(f"net.fit costs {100 * statistics.median(costs):.2f} % over the compiled loop")


if __name__ == "__main__":
    main()
