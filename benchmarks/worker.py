"""One side of a benchmark in a process of its own: it makes its net, and runs steps when it is told to.

Commands come as lines on standard input: "check FOLDER" first, then "sample SECONDS" and "loaded SECONDS"; each is
answered by a line of JSON. With --peak it runs some steps instead, and prints the peak of its memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from .nets import NETS

MOMENTUM = 0.9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("side")
    parser.add_argument("net")
    parser.add_argument("folder", type=Path, help="what nets.describe has written")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--peak", action="store_true")
    parser.add_argument("--batch", type=int, default=0, help="of nacre's net; the others find theirs in the folder")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # compilers write where they like
    make = maker(arguments)
    begin = time.perf_counter()
    side = make()
    if arguments.peak:
        print(json.dumps(_peak(side)), file=answers, flush=True)
        return
    for line in sys.stdin:
        command, _, value = line.strip().partition(" ")
        if command == "check":
            answer: Any = _check(side, Path(value), begin)
        else:
            with _computing_beside(command == "loaded"):
                answer = sample_of(side.step, float(value))
        print(json.dumps(answer), file=answers, flush=True)


def maker(arguments: argparse.Namespace) -> Callable[[], Any]:
    """Import what makes a side of this name: "nacre numpy", "PyTorch channels last", "JAX", "onnxruntime"."""
    who, _, rest = arguments.side.partition(" ")
    folder = arguments.folder
    how: dict[str, Any] = {"compared": not arguments.peak, "bf16": arguments.bf16}
    pace = (NETS[arguments.net].rate, MOMENTUM)
    if who == "nacre":
        from . import ours

        how["batch"] = arguments.batch
        if arguments.predict:
            return partial(ours.Predicting, folder, arguments.net, rest, **how)
        return partial(ours.Training, folder, arguments.net, rest, *pace, **how)
    if who == "JAX":
        os.sched_setaffinity(0, range(arguments.threads))  # which is all that it heeds
        from . import jax_twin

        return partial(jax_twin.Training, folder, *pace, compared=not arguments.peak)
    import torch

    from . import twins

    torch.set_num_threads(arguments.threads)
    if who == "onnxruntime":
        return partial(twins.OnnxRuntime, folder, arguments.threads)
    if arguments.predict:
        frozen = rest.startswith("frozen")
        return partial(twins.Predicting, folder, frozen=frozen, **twins.MODES[rest.removeprefix("frozen ")], **how)
    return partial(twins.Training, folder, *pace, **twins.MODES[rest], **how)


def _check(side: Any, folder: Path, begin: float) -> dict[str, Any]:
    """Save what the first batch gives, its gradients or its output, and train three steps.

    Gives the names of what was saved, the seconds since `begin` that the first batch took, and the steps' losses.
    """
    from .nets import save

    folder.mkdir()
    if hasattr(side, "output"):
        output = side.output()
        seconds = time.perf_counter() - begin
        save(folder, "output", output)
        return {"names": ["output"], "losses": [], "seconds": seconds}
    names: list[str] = []
    seconds = 0.0
    for name, gradient in side.gradients():
        seconds = seconds or time.perf_counter() - begin
        save(folder, name, gradient)
        names.append(name)
    losses = [side.step() for _ in range(3)]
    side.with_dropout()
    side.step()
    return {"names": names, "losses": losses, "seconds": seconds}


def sample_of(step: Callable[[], Any], seconds: float) -> float:
    """Return the seconds of a step: the mean over so many seconds, or one step where that takes longer.

    The first one, which wakes the threads, is counted only then.
    """
    begin = time.perf_counter()
    step()
    if (first := time.perf_counter() - begin) > seconds:
        return first
    count, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        step()
        count += 1
    return passed / count


@contextmanager
def _computing_beside(wanted: bool) -> Generator[None]:
    """Let a Python thread compute beside, as one that prepares data does, where that is wanted."""
    done = threading.Event()

    def compute() -> None:
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if wanted:
            thread.join()


def _peak(side: Any) -> float:
    """Run 20 steps, or 3 and more for ten seconds, and give the peak of resident memory in MB."""
    begin = time.perf_counter()
    for number in range(20):
        side.step()
        if number >= 2 and time.perf_counter() - begin > 10:
            break
    # Not getrusage: its figure survives exec, so it would be that of the process that measures.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
