"""`make bench`: whole training steps of nacre and PyTorch, interleaved in one run; peak memory in fresh processes."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
NETS = {"LeNet-64": "lenet/lenet.toml", "MLP-128": "mlp/mlp.toml", "CIFAR quick-100": "cifar/quick.toml"}
RATE, MOMENTUM = 0.01, 0.9
PAIRS = 9
SECONDS = 0.4  # of each sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--net", choices=NETS, action="append", help="only this one; may be given several times")
    parser.add_argument("--peak", nargs=2, metavar=("NET", "SIDE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in ("NACRE_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    if arguments.peak:
        peak(*arguments.peak)
        return
    print(machine(arguments.threads))
    print("\n| net | nacre numpy | PyTorch eager | ratio, median (range) | peak memory | ratio |")
    print("|---|---|---|---|---|---|")
    for name in arguments.net or NETS:
        print(row(name, arguments.threads), flush=True)


def prepare(name: str) -> tuple[Any, Any, Any]:
    """Give the training net of an example, and one random batch for it."""
    import numpy as np

    from nacre.config import load

    net = load(EXAMPLES / NETS[name]).net("train", backend="numpy")
    random = np.random.default_rng(0)
    data = random.normal(size=net.schedule.final["data"].shape).astype(np.float32)
    label = random.integers(0, 10, len(data))
    net.write("data", data)
    net.write("label", label)
    return net, data, label


def row(name: str, threads: int) -> str:
    """Measure one net: check that both sides compute the same, then take turns."""
    import torch

    from nacre import Solver

    from .twins import Peer

    torch.set_num_threads(threads)
    net, data, label = prepare(name)
    training = Solver("SGD", lr_policy=RATE, momentum_policy=MOMENTUM).start(net)
    peer = Peer(net, data, label, RATE, MOMENTUM)
    for number in range(5):
        training.step()
        theirs = peer.step()
        if abs(training.loss - theirs) > 1e-3 * max(1, abs(theirs)) or (
            number == 0 and abs(training.loss - theirs) > 1e-5 * abs(theirs)
        ):
            raise SystemExit(f"{name}: in step {number + 1} the losses differ: {training.loss} and {theirs}")
    ours, others = [], []
    for pair in range(PAIRS):
        sides = [(ours, training.step), (others, peer.step)]
        for times, step in sides if pair % 2 else reversed(sides):
            times.append(_sample(step))
    ratios = [other / our for our, other in zip(ours, others, strict=True)]
    batch = len(data)
    speeds = [batch / statistics.median(times) for times in (ours, others)]
    peaks = [_peak_of(name, side) for side in ("nacre", "torch")]
    return (
        f"| {name} | {speeds[0]:,.0f} img/s | {speeds[1]:,.0f} img/s | **{statistics.median(ratios):.2f}** "
        f"({min(ratios):.2f} to {max(ratios):.2f}) | {peaks[0]:.0f} / {peaks[1]:.0f} MB | {peaks[0] / peaks[1]:.2f} |"
    )


def _sample(step: Any) -> float:
    """Give the seconds of a step: the mean over about SECONDS."""
    start = time.perf_counter()
    step()
    count = max(1, round(SECONDS / (time.perf_counter() - start)))
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def _peak_of(name: str, side: str) -> float:
    command = [sys.executable, "-m", "benchmarks", "--peak", name, side]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak(name: str, side: str) -> None:
    """Train 20 steps on one side in this process, and print its peak resident memory in MB."""
    if side == "nacre":
        from nacre import Solver

        net, _, _ = prepare(name)
        training = Solver("SGD", lr_policy=RATE, momentum_policy=MOMENTUM).start(net)
        for _ in range(20):
            training.step()
    else:
        from .plain_torch import train

        train(name, 20)
    # Not getrusage: its figure survives exec, so it would be that of the process that measures.
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def machine(threads: int) -> str:
    """Describe the machine and the versions."""
    import numpy as np
    import torch

    import nacre
    from nacre.environment import environment

    told = environment()
    core = os.environ.get("OPENBLAS_CORETYPE")
    held = f" (OPENBLAS_CORETYPE={core} holds NumPy's products to that processor's instructions)" if core else ""
    return (
        f"nacre {nacre.__version__}, NumPy {np.__version__}{held}, PyTorch {torch.__version__}, "
        f"Python {sys.version.split()[0]}; "
        f"{told.get('processor', 'unknown processor')}, {threads} threads; {time.strftime('%Y-%m-%d')}"
    )


if __name__ == "__main__":
    main()
