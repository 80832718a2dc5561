"""BatchNorm by nacre's helper beside oneDNN's, forward and backward, in turns: `python -m benchmarks.batch_norm`.

Each line is a shape and a layout: milliseconds of both, least of the rounds, and how many times as long oneDNN's takes
(the median of the rounds, and their range), above 1 where nacre's is faster.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from nacre.threads import number_of_threads
from nacre_layers.neurons import ReLU
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_onednn.dnnl import arguments as arg
from nacre_onednn.dnnl import library as dnnl
from nacre_onednn.dnnl.library import library
from nacre_onednn.dnnl.primitives import BLOCKED, CHANNELS_LAST, Call, Primitive, attributes, call, describe, plain
from nacre_onednn.kernels.batch_norm import BatchNormKernel
from nacre_onednn.record import Record, aligned, sizes_of

SHAPES = [(64, 64, 56, 56), (64, 256, 14, 14), (128, 16, 32, 32), (128, 64, 8, 8), (16, 20, 28, 28)]
"""Of ResNet-50, of ResNet-20 for CIFAR, and one whose channels fill no blocks."""
SECONDS = 0.2  # of each sample
MEAN, VARIANCE, SCALE, SHIFT, DIFF_SCALE, DIFF_SHIFT = 49, 50, 51, 52, 255, 256
SCALED_SHIFTED_RELU = 2 | 4 | 8
EPSILON = 1e-5


class Own(BatchNormKernel):
    """The kernel with a blob that belongs to no net."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.layer = BatchNormLayer(bottoms="x", tops="y", neuron=ReLU(), epsilon=EPSILON)
        blob, learned = SimpleNamespace(shape=shape, dtype="float32"), SimpleNamespace(gradient=True)
        self.inputs, self.diffs, self.relu = [blob], [blob], True
        self.plain: Any = SimpleNamespace(learned={"scale": learned, "bias": learned}, follows=True)

    def calls(self, layout: str) -> list[Call]:
        """Return the calls of a training step."""
        return [one for stage in ("forward", "data") for one in self.make(stage, "", lambda _: layout)]


def onednn(shape: tuple[int, ...], layout: str) -> list[Call]:
    """Return oneDNN's calls of a training step, without the running mean and variance."""
    x, few = describe(shape, layout), plain(shape[1])
    rest = (ctypes.c_float(EPSILON), SCALED_SHIFTED_RELU)
    kind = "batch_normalization"
    forward = Primitive(f"{kind}_forward", library().engine, dnnl.FORWARD_TRAINING, x, x, *rest, attributes())
    backward = Primitive(
        f"{kind}_backward", library().engine, dnnl.BACKWARD, x, x, x, *rest, forward.desc, attributes()
    )
    common = {
        arg.SRC: ("x", x),
        MEAN: ("mean", few),
        VARIANCE: ("variance", few),
        SCALE: ("scale", few),
        arg.WORKSPACE: ("passes", forward.memory(dnnl.WORKSPACE)),
    }
    gradients = {
        arg.DIFF_DST: ("dy", x),
        arg.DIFF_SRC: ("dx", x),
        DIFF_SCALE: ("dscale", few),
        DIFF_SHIFT: ("dbias", few),
    }
    return [
        call(forward, {**common, SHIFT: ("bias", few), arg.DST: ("y", x)}),
        call(backward, {**common, **gradients}),
    ]


def prepare(calls: Sequence[Call], arrays: Mapping[str, Any], threads: int) -> Callable[[], None]:
    """Return the function that runs the calls on these buffers; those that lack are made."""
    more = {name: aligned(size) for name, size in sizes_of(calls, arrays).items()}
    buffers, record = {**arrays, **more}, Record()
    for one in calls:
        record.add_call(one, {name: array.ctypes.data for name, array in buffers.items()}, list(buffers.values()))
    return record.replay(threads)


def sample(run: Callable[[], None]) -> float:
    """Return the seconds of a run, the mean over a while."""
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SECONDS:
        run()
        count += 1
    return passed / count


def main() -> None:
    """Print a line for each shape and layout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds, threads = parser.parse_args().rounds, number_of_threads()
    library().set_threads(threads)
    print(f"oneDNN {library().version}, {library().instructions}, {threads} threads")
    for shape in SHAPES:
        for layout in (CHANNELS_LAST, BLOCKED) if shape[1] % 16 == 0 else (CHANNELS_LAST,):
            random, size = np.random.default_rng(0), 4 * int(np.prod(shape))
            arrays = {name: aligned(size) for name in ("x", "dy")}
            for array in arrays.values():
                array.view(np.float32)[...] = random.standard_normal(size // 4, np.float32)
            arrays |= {name: aligned(4 * shape[1]) for name in ("scale", "bias")}
            arrays["scale"].view(np.float32)[...] = 1
            sides = [prepare(calls, arrays, threads) for calls in (Own(shape).calls(layout), onednn(shape, layout))]
            for run in sides:
                run()
            times = [[sample(run) for run in sides] for _ in range(rounds)]
            ours, theirs = (1e3 * min(each) for each in zip(*times, strict=True))
            ratios = [theirs / ours for ours, theirs in times]
            span = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"{shape!s:20} {layout:14} nacre {ours:8.3f} ms, oneDNN {theirs:8.3f} ms: {span}", flush=True)


if __name__ == "__main__":
    main()
