"""`python -m benchmarks.deep`: seconds to set up nets of many layers, and to start their training; see README.md."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[250, 500, 1000, 2000, 4000])
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these kinds of nets")
    parser.add_argument("--backend", action="append", help="numpy unless given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", nargs=3, metavar=("KIND", "BACKEND", "LAYERS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        kind, backend, count = arguments.once
        print(json.dumps(measure(KINDS[kind], backend, int(count))))
        return
    print("| net | backend | layers | Net, s | start of a training, s |\n|---|---|---|---|---|")
    for kind in arguments.kind or KINDS:
        for backend in arguments.backend or ["numpy"]:
            for count in arguments.layers:
                rounds = [_in_a_process(kind, backend, count) for _ in range(arguments.rounds)]
                cells = (f"{statistics.median(found):.2f}" for found in zip(*rounds, strict=True))
                print(f"| {kind} | {backend} | {count:,} | {' | '.join(cells)} |", flush=True)


def _in_a_process(kind: str, backend: str, count: int) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.deep", "--once", kind, backend, str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(make: Callable[[int], list[Any]], backend: str, count: int) -> list[float]:
    """Return the seconds that a net of these layers takes, and the start of its training; imports do not count."""
    from nacre import Net, Solver

    Net("small", make(10), backend=backend, insert_splits=True)
    layers, solver = make(count), Solver("SGD")
    begin = time.perf_counter()
    net = Net("deep", layers, backend=backend, insert_splits=True)
    made = time.perf_counter()
    solver.start(net).shutdown()
    return [made - begin, time.perf_counter() - made]


def _inputs(*shape: int) -> list[Any]:
    from nacre import InputLayer

    return [InputLayer(name=name, tops=name, shape=shape, batch_size=2) for name in ("data", "label")]


def _loss(bottom: str) -> list[Any]:
    from nacre_layers.losses.square_loss import SquareLossLayer

    return [SquareLossLayer(name="loss", bottoms=[bottom, "label"])]


def chain(count: int) -> list[Any]:
    """Make inner products, one upon the other."""
    from nacre_layers.linear.inner_product import InnerProductLayer

    names = ["data", *(f"ip{number}" for number in range(count))]
    layers = [InnerProductLayer(bottoms=below, tops=name, output_dim=4) for below, name in pairwise(names)]
    return [*_inputs(4), *layers, *_loss(names[-1])]


def residual(count: int) -> list[Any]:
    """Make convolutions with BatchNorm, whose tops are added to what the convolution read."""
    from nacre_layers.convolution.convolution import ConvolutionLayer
    from nacre_layers.elementwise.element_wise import Add, ElementWiseLayer
    from nacre_layers.neurons import ReLU
    from nacre_layers.normalisation.batch_norm import BatchNormLayer

    layers, top = _inputs(2, 4, 4), "data"
    for number in range(count // 3):
        middle, normal, below, top = f"conv{number}", f"norm{number}", top, f"sum{number}"
        layers += [
            ConvolutionLayer(bottoms=below, tops=middle, n_filter=2, kernel=3, pad=1, bias=False),
            BatchNormLayer(bottoms=middle, tops=normal, neuron=ReLU()),
            ElementWiseLayer(bottoms=[normal, below], tops=top, operation=Add()),
        ]
    return [*layers, *_loss(top)]


def unroll(count: int) -> list[Any]:
    """Make steps of ten layers that share their parameters, each of which reads the step before."""
    from nacre_layers import ConcatLayer, InnerProductLayer, UnrollLayer

    names = ["both", *(f"ip{number}" for number in range(9))]
    layers = [
        ConcatLayer(bottoms=["data", "before"], tops="both"),
        *(InnerProductLayer(name=name, bottoms=below, tops=name, output_dim=4) for below, name in pairwise(names)),
    ]
    connection = {"type": "OneToOne", "name": "before", "blob": "ip8", "shape": [4]}
    steps = max(count // 10, 1)
    unrolled = UnrollLayer(
        name="unroll", bottoms=["data"], tops=["ip8"], steps=steps, connections=[connection], layer=layers
    )
    return [*_inputs(steps, 4), unrolled, *_loss("ip8")]


KINDS = {"chain": chain, "residual": residual, "unroll": unroll}


if __name__ == "__main__":
    main()
