"""`make bench`: whole training steps of nacre and PyTorch, interleaved in one run; peak memory in fresh processes."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
NETS = {"LeNet-64": "lenet/lenet.toml", "MLP-128": "mlp/mlp.toml", "CIFAR quick-100": "cifar/quick.toml"}
RATE, MOMENTUM = 0.01, 0.9
BACKENDS = {"nacre onednn": "onednn", "nacre numpy": "numpy"}
PAIRS = 9
SECONDS = 0.4  # of each sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--net", choices=NETS, action="append", help="only this one; may be given several times")
    parser.add_argument("--malloc", action="store_true", help="let glibc keep freed memory, which helps PyTorch")
    parser.add_argument("--peak", nargs=2, metavar=("NET", "SIDE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in ("NACRE_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    # One libgomp serves nacre and PyTorch here, whichever loads it: both get what nacre sets for itself. It changes
    # nothing on a quiet machine; on a busy one every parallel region would else cost a time slice.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if arguments.peak:
        peak(*arguments.peak)
        return
    if arguments.malloc:
        again_with_malloc()
    print(machine(arguments.threads))
    print("\n| net | | images/s | to PyTorch eager | to its best mode | peak memory, MB (to PyTorch's) |")
    print("|---|---|---|---|---|---|")
    for name in arguments.net or NETS:
        print(rows(name, arguments.threads), flush=True)


def again_with_malloc() -> None:
    """Begin anew with glibc told to keep freed memory: eager PyTorch is up to a third faster without page faults."""
    settings = {
        "MALLOC_MMAP_THRESHOLD_": "4294967296",
        "MALLOC_TRIM_THRESHOLD_": "8589934592",
        "MALLOC_TOP_PAD_": "268435456",
    }
    if any(os.environ.get(name) != value for name, value in settings.items()):
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], {**os.environ, **settings})


def prepare(name: str, backend: str) -> tuple[Any, Any, Any]:
    """Give the training net of an example, and one random batch for it."""
    import numpy as np

    from nacre.config import load

    net = load(EXAMPLES / NETS[name]).net("train", backend=backend)
    random = np.random.default_rng(0)
    data = random.normal(size=net.schedule.final["data"].shape).astype(np.float32)
    label = random.integers(0, 10, len(data))
    net.write("data", data)
    net.write("label", label)
    return net, data, label


def steps(name: str, threads: int) -> tuple[dict[str, Callable[[], float]], int]:
    """Give, for each side that can run here, what trains one batch and gives its loss; and the size of the batch."""
    import torch

    from nacre import Solver, registry

    from .twins import Peer

    torch.set_num_threads(threads)
    found: dict[str, Callable[[], float]] = {}
    for side, backend in BACKENDS.items():
        if registry().open("backend", backend).unusable():
            continue
        net, data, label = prepare(name, backend)
        if not any("PyTorch" in one for one in found):
            found["PyTorch eager"] = Peer(net, data, label, RATE, MOMENTUM).step
            if data.ndim == 4:
                found["PyTorch channels last"] = Peer(net, data, label, RATE, MOMENTUM, channels_last=True).step
        training = Solver("SGD", lr_policy=RATE, momentum_policy=MOMENTUM).start(net)
        found[side] = partial(_train, training)
    return found, len(data)


def _train(training: Any) -> float:
    training.step()
    return training.loss


def rows(name: str, threads: int) -> str:
    """Measure one net: check that all sides compute the same, then take turns; give a row for each side."""
    sides, batch = steps(name, threads)
    for number in range(5):
        losses = {side: step() for side, step in sides.items()}
        for side, loss in losses.items():
            error = abs(loss - losses["PyTorch eager"]) / abs(losses["PyTorch eager"])
            if error > (1e-3 if number else 1e-5):
                raise SystemExit(f"{name}: in step {number + 1} the losses differ: {losses}, see {side}")
    times: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(PAIRS):
        for side in list(sides) if turn % 2 else reversed(list(sides)):
            times[side].append(_sample(sides[side]))
    middle = {side: statistics.median(seconds) for side, seconds in times.items()}
    others = [side for side in sides if "PyTorch" in side]
    best = min(others, key=lambda side: middle[side])
    theirs = _peak_of(name, "torch")
    told = [f"| {name} | {side} | {batch / middle[side]:,.0f} | | | {theirs:.0f} |" for side in others]
    for side in (side for side in sides if side in BACKENDS):
        ratios = [_ratio(times[side], times[other]) for other in ("PyTorch eager", best)]
        peak = _peak_of(name, BACKENDS[side])
        memory = f"{peak:.0f} ({peak / theirs:.2f})"
        told.append(f"| {name} | {side} | {batch / middle[side]:,.0f} | {' | '.join(ratios)} | {memory} |")
    return "\n".join(told)


def _ratio(ours: list[float], others: list[float]) -> str:
    ratios = [other / our for our, other in zip(ours, others, strict=True)]
    return f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"


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
    if side in BACKENDS.values():
        from nacre import Solver

        net, _, _ = prepare(name, side)
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
