"""`python -m benchmarks.parallel`: two ranks of one thread beside one process, a ceiling, and PyTorch.

For each net, in turns in one run: one process of one thread with the whole batch; two ranks of one thread with half of
it each; the ceiling, two such processes that are not connected; one process of two threads; and PyTorch's
DistributedDataParallel over gloo. Then what an all-reduce of all gradients takes, and a model of many machines. A
number of one run on a busy machine says nothing; see README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from . import nets

RATE, MOMENTUM = 0.01, 0.9
SIZES = 8, 1 << 10, 1 << 13, 1 << 17, 1 << 20, 1 << 23
"""Bytes of the messages by which α and β are found."""
NETWORKS = {"10 Gb/s": 10e9 / 8, "100 Gb/s": 100e9 / 8}


@dataclass(frozen=True)
class Case:
    """A net with a batch; two ranks are to have `ceiling` of what is possible, and to be `faster` than one process."""

    net: str
    batch: int
    ceiling: float
    faster: float
    than_torch: float


CASES = {
    "LeNet-128": Case("LeNet-128", 128, 0.85, 1.5, 3.0),
    "quick-200": Case("CIFAR quick-100", 200, 0.85, 1.5, 1.3),
    "MLP-256": Case("MLP-128", 256, 0.75, 1.25, 4.0),
    "AlexNet-32": Case("AlexNet-16", 32, 0.75, 1.25, 2.5),
}
DIVIDED = {"AlexNet-32": ("fc6", "drop6", "fc7", "drop7", "fc8")}
"""The layers whose features are divided in "data for convolutions, features for inner products"."""


# One process of a side


class Ours:
    """A net of nacre that trains; of several ranks by AllReduce, or `divided`."""

    def __init__(self, case: Case, backend: str, batch: int, ranks: Any, divided: Sequence[str] = ()) -> None:
        import numpy as np

        from nacre import Solver
        from nacre_parallel import AllReduce

        file = nets.load(case.net, batch=batch)
        if divided:
            dims = [-1 if one.has_loss else int(one.name in divided) for one in file.layers]
            layers = [replace(one, partition_dim=dim) for one, dim in zip(file.layers, dims, strict=True)]
            file = replace(file, layers=tuple(layers))
        self.ranks = ranks
        self.net = file.net("train", backend=backend, communicator=ranks)
        random = np.random.default_rng(0)
        for blob in self.net.unwritten():
            value = self.net.memory.final[blob]
            whole = blob == "label"
            self.net.write(blob, random.integers(0, 10, value.shape) if whole else random.normal(size=value.shape))
        self.training = Solver("SGD", lr_policy=RATE, momentum_policy=MOMENTUM, framework=AllReduce()).start(self.net)

    def step(self) -> float:
        self.training.step()
        return self.training.loss

    def add_up(self, count: int) -> float:
        """Return the seconds of adding up all gradients, without waiting for a slower rank."""
        import numpy as np

        array = np.zeros(sum(slot.storage.size for slot in self.training.slots), np.float32)
        return _together(self.ranks, array, count)

    def wire(self) -> int:
        """Return the bytes that go to other ranks in an iteration: gradients that are added up, and bridges."""
        bridges = self.net.division.bridges if self.net.division else ()
        crossing = sum(prod(one.shape) * 4 * (1 + one.gradient) for one in bridges)
        return crossing + 4 * sum(slot.storage.size for slot in self.net.slots if slot.everywhere and slot.trainable)


def _together(ranks: Any, array: Any, count: int) -> float:
    seconds = 0.0
    for _ in range(count):
        ranks.barrier()
        begin = time.perf_counter()
        ranks.allreduce(array)
        seconds += time.perf_counter() - begin
    return seconds / count


class Theirs:
    """The same net in PyTorch, of several processes by DistributedDataParallel over gloo."""

    def __init__(self, folder: Path, mode: str, ranks: int) -> None:
        import torch
        from torch import distributed
        from torch.nn.parallel import DistributedDataParallel

        from . import twins

        torch.set_num_threads(1)
        distributed.init_process_group("gloo", world_size=ranks)
        self.side = twins.Training(folder, RATE, MOMENTUM, compared=True, bf16=False, **twins.MODES[mode])
        self.side.choose_update()
        self.side.with_dropout()
        self.side.model = DistributedDataParallel(self.side.model)

    def step(self) -> float:
        return self.side.step()


def work(arguments: argparse.Namespace) -> None:
    """Be one process of a side: answer commands on stdin, which the first of several ranks reads for all."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    case, ranks = CASES[arguments.net], None
    if arguments.side == "nacre":
        if "NACRE_SHM" in os.environ:
            from nacre_parallel import ShmCommunicator

            ranks = ShmCommunicator.connect()
        side: Any = Ours(case, arguments.backend, arguments.batch, ranks, arguments.divided)
    else:
        side = Theirs(arguments.folder, arguments.side, 2)
    for _ in range(3):
        side.step()
    first = ranks is None or ranks.rank == 0
    if first:
        print(json.dumps("ready"), file=answers, flush=True)
    while True:
        line = sys.stdin.readline() if first else ""
        if ranks is not None:
            line = ranks.share(line)
        if not line:
            break
        command, _, count = line.strip().partition(" ")
        answer = _answer(side, ranks, command, int(count or 0))
        if first:
            print(json.dumps(answer), file=answers, flush=True)
    if ranks is not None:
        ranks.close()


def _answer(side: Any, ranks: Any, command: str, count: int) -> Any:
    import numpy as np

    if command == "allreduce":
        return side.add_up(count)
    if command == "wire":
        return side.wire()
    if command == "messages":
        return [_together(ranks, np.zeros(size // 4, np.float32), count) for size in SIZES]
    begin = time.perf_counter()
    for _ in range(count):
        side.step()
    return (time.perf_counter() - begin) / count


# Sides


class Side:
    """Processes that work at the same time, each of `threads` threads; they answer with what the slowest has found."""

    def __init__(self, name: str, net: str, words: Sequence[str], processes: int, **how: Any) -> None:
        self.name, self.processes = name, []
        program = [sys.executable, "-m", "benchmarks.parallel", "--work", "--net", net, *words]
        processors = sorted(os.sched_getaffinity(0))
        for number in range(processes):
            own = (
                processors if how.get("threads", 1) > 1 or how.get("ranks") else [processors[number % len(processors)]]
            )
            self.processes.append(self._start(program, number, own, **how))
        for process in self.processes:
            self._read(process)

    @staticmethod
    def _start(
        program: Sequence[str], number: int, own: Sequence[int], *, threads: int = 1, ranks: int = 0, port: int = 0
    ) -> Any:
        every = [sys.executable, "-m", "nacre_parallel", "-n", str(ranks), *program] if ranks else program
        known = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NACRE_NUM_THREADS")}
        known |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(number)} if port else {}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, own)
        try:
            return subprocess.Popen(every, env={**os.environ, **known}, cwd=nets.ROOT, **pipes)
        finally:
            os.sched_setaffinity(0, before)

    def _read(self, process: Any) -> Any:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended with exit code {process.wait()}")
        return json.loads(line)

    def ask(self, command: str) -> Any:
        for process in self.processes:
            process.stdin.write(f"{command}\n")
            process.stdin.flush()
        return max(self._read(process) for process in self.processes)

    def close(self) -> None:
        for process in self.processes:
            process.communicate()


def sides_of(name: str, backend: str, folder: Path, stack: ExitStack) -> dict[str, Side]:
    """Start the sides for a net."""
    case = CASES[name]
    half = case.batch // 2

    def ours(what: str, batch: int, processes: int = 1, *divided: str, **how: Any) -> Side:
        words = ["--side", "nacre", "--backend", backend, "--batch", str(batch)]
        return Side(what, name, [*words, *(["--divided", *divided] if divided else [])], processes, **how)

    made = [
        ours("one process", case.batch),
        ours("two ranks", half, ranks=2),
        ours("two processes, not connected", half, 2),
        ours("one process, two threads", case.batch, threads=2),
    ]
    if name in DIVIDED:
        made.append(ours("two ranks, inner products by features", case.batch, 1, *DIVIDED[name], ranks=2))
    try:
        import torch.distributed as _  # noqa: F401

        nets.describe(case.net, folder, half)
        for mode in ("eager", "channels last"):
            made.append(Side(f"DDP {mode}", name, ["--side", mode, "--folder", str(folder)], 2, port=_free_port()))
    except ImportError:
        pass
    for side in made:
        stack.callback(side.close)
    return {side.name: side for side in made}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# What is measured


def measure(name: str, backend: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the seconds of a step of every side, the medians over rounds in which they take turns; and more."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        sides = sides_of(name, backend, Path(folder), stack)
        counts = {one: max(1, round(seconds / side.ask("step 2"))) for one, side in sides.items()}
        found: dict[str, list[float]] = {one: [] for one in sides}
        for _ in range(rounds):
            for one, side in sides.items():
                found[one].append(side.ask(f"step {counts[one]}"))
        ranks = sides["two ranks"]
        return {
            "seconds": {one: statistics.median(some) for one, some in found.items()},
            "allreduce": ranks.ask(f"allreduce {max(3, counts['two ranks'])}"),
            "messages": ranks.ask("messages 20"),
            "bytes": {one: side.ask("wire") for one, side in sides.items() if one.startswith("two ranks")},
        }


def fitted(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return α in seconds and β in bytes per second of α + size / β, by least squares of the relative errors."""
    import numpy as np

    size, time_of = np.array(sizes, float), np.array(seconds)
    matrix = np.stack([1 / time_of, size / time_of], axis=1)
    (alpha, inverse), *_ = np.linalg.lstsq(matrix, np.ones(len(size)))
    return max(float(alpha), 0.0), 1 / max(float(inverse), 1e-15)


def model(compute: float, size: int, ranks: int, alpha: float, beta: float) -> tuple[float, str]:
    """Return the efficiency of so many machines, each with the batch of one, and what limits it.

    A ring adds up `size` bytes in 2 (n - 1) messages of size / n bytes, each of α + size / (n β) seconds; it begins
    when the gradients are there, and ends before the update.
    """
    turns = 2 * (ranks - 1)
    waits, moves = turns * alpha, turns * size / ranks / beta
    step = compute + waits + moves
    limit = max(("compute", compute), ("latency", waits), ("bandwidth", moves), key=lambda one: one[1])
    return compute / step, limit[0]


def show(name: str, found: dict[str, Any], tell: Callable[[str], object]) -> None:
    """Tell what was measured of a net."""
    case, seconds = CASES[name], found["seconds"]
    tell(f"\n## {name}\n\n| side | ms a step | of one process |\n|---|---|---|")
    for one, value in seconds.items():
        tell(f"| {one} | {1e3 * value:.2f} | {seconds['one process'] / value:.2f} x |")
    two, ceiling = seconds["two ranks"], seconds["two processes, not connected"]
    tell(f"\n* {ceiling / two:.2f} of the ceiling; wanted: {case.ceiling}")
    tell(f"* {seconds['one process'] / two:.2f} x one process; wanted: {case.faster} x")
    if peers := [value for one, value in seconds.items() if one.startswith("DDP")]:
        tell(f"* {min(peers) / two:.2f} x PyTorch's DDP; wanted: {case.than_torch} x")
    tell(f"* the all-reduce is {100 * found['allreduce'] / two:.1f} % of a step of two ranks")
    for one, size in found["bytes"].items():
        tell(f"* {one}: {size:,} bytes on the wire in an iteration")
    alpha, beta = fitted(SIZES, found["messages"])
    tell(f"* α = {1e6 * alpha:.0f} µs, β = {beta / 1e9:.2f} GB/s between two ranks of this machine")


def show_model(every: dict[str, dict[str, Any]], tell: Callable[[str], object]) -> None:
    """Tell what is to be expected of many machines."""
    counts = [2**power for power in range(1, 11)]
    tell("\n## Model\n\nNothing of this was measured beyond one machine. α is that above, β that of the network.")
    for network, beta in NETWORKS.items():
        tell(f"\n| {network}, efficiency | {' | '.join(f'{count:,}' for count in counts)} | limited by |")
        tell("|---" * (len(counts) + 2) + "|")
        for name, found in every.items():
            alpha, _ = fitted(SIZES, found["messages"])
            size, compute = found["bytes"]["two ranks"], found["seconds"]["one process"]
            cells = [model(compute, size, count, alpha, beta) for count in counts]
            tell(f"| {name} | {' | '.join(f'{100 * share:.0f} %' for share, _ in cells)} | {cells[-1][1]} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--net", action="append", choices=CASES, help="only these nets")
    parser.add_argument("--backend", default="onednn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a sample of one side")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--divided", nargs="*", default=(), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        arguments.net = arguments.net[0]
        work(arguments)
        return
    every: dict[str, dict[str, Any]] = {}
    for name in arguments.net or CASES:
        every[name] = measure(name, arguments.backend, arguments.rounds, arguments.seconds)
        show(name, every[name], print)
    show_model(every, print)


if __name__ == "__main__":
    main()
