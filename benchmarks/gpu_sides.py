"""One side of the benchmark on a GPU, in a process of its own: nacre, or a mode of PyTorch; see worker.py.

Commands are "check FOLDER", "sample SECONDS" and "peak". Steps are timed without a look at their loss: they are
enqueued, and waited for at the end of a sample, on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PRECISIONS = ("float32", "tf32", "bf16")
"""float32 whose products are exact in all digits, with factors rounded to 11 bits, and bf16 with float32 parameters."""
MODES = ("eager", "graph", "compile")
WARM_UP = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", help="'nacre BACKEND' or 'PyTorch MODE'")
    parser.add_argument("net")
    parser.add_argument("folder", type=Path, help="what nets.describe has written")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--device", default="cuda", help="PyTorch's")
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # compilers write where they like
    begin = time.perf_counter()
    side = made(arguments)
    for line in sys.stdin:
        command, _, value = line.strip().partition(" ")
        print(json.dumps(answer(side, command, value, begin)), file=answers, flush=True)


def made(arguments: argparse.Namespace) -> Any:
    """Return the side that is asked for."""
    from .nets import NETS
    from .worker import MOMENTUM

    rate = NETS[arguments.net].rate
    who, _, what = arguments.side.partition(" ")
    common: dict[str, Any] = {"compared": True, "bf16": arguments.precision == "bf16"}
    if who == "nacre":
        os.environ["CUPY_TF32"] = str(int(arguments.precision == "tf32"))
        return ours(arguments.folder, arguments.net, what, rate, MOMENTUM, batch=arguments.batch, **common)
    tf32 = arguments.precision != "float32"
    return peer(arguments.folder, rate, MOMENTUM, mode=what, device=arguments.device, tf32=tf32, **common)


def answer(side: Any, command: str, value: str, begin: float) -> Any:
    """Do what a command says; return what it gives."""
    if command == "check":
        from .worker import _check

        checked = _check(side, Path(value), begin)
        side.prepare()
        return checked
    if command == "sample":
        return sample(side.run, float(value))
    assert command == "peak"
    return side.peak()


def sample(run: Callable[[int], None], seconds: float) -> float:
    """Return the seconds of a step: the mean over about so many seconds, at least over three steps."""
    begin = time.perf_counter()
    run(1)
    first = time.perf_counter() - begin
    count = max(3, round(seconds / first))
    begin = time.perf_counter()
    run(count)
    return (time.perf_counter() - begin) / count


def ours(*where: Any, **how: Any) -> Any:
    """Return nacre's side."""
    from . import ours as of_nacre

    class Ours(of_nacre.Training):
        """A net on a GPU."""

        def prepare(self) -> None:
            if self.net.backend.captures:  # of the net that was compared
                self.net.backend.cupy.get_default_memory_pool().free_all_blocks()
            self.run(WARM_UP)

        def run(self, count: int) -> None:
            for _ in range(count):
                self.training.step()
            self.net.backend.wait()

        def peak(self) -> dict[str, float]:
            """Return what the pools hold, in MB: they give nothing back while they work."""
            backend = self.net.backend
            if not backend.captures:
                return {}
            pools = [backend.cupy.get_default_memory_pool(), *(one.pool for one in backend.recordings)]
            return {"MB": sum(pool.total_bytes() for pool in pools) / 1e6}

    return Ours(*where, check_finite=False, **how)


def peer(*where: Any, mode: str, device: str, tf32: bool, **how: Any) -> Any:
    """Return PyTorch's side: channels last, fused SGD, cuDNN's fastest algorithms."""
    import torch

    from . import twins

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32

    class Peer(twins.Training):
        """A twin on a GPU: step by step, as a CUDA graph, or compiled."""

        graph: torch.cuda.CUDAGraph | None = None

        def choose_update(self) -> None:
            """It is the fused one."""

        def train(self) -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = self._loss()
            loss.backward()
            self.optimizer.step()
            return loss

        def prepare(self) -> None:
            if device != "cpu":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            if mode != "graph":
                self.run(WARM_UP)
                return
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    self.train()
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.train()
            self.run(WARM_UP)

        def run(self, count: int) -> None:
            for _ in range(count):
                if self.graph is None:
                    self.train()
                else:
                    self.graph.replay()
            if device != "cpu":
                torch.cuda.synchronize()

        def peak(self) -> dict[str, float]:
            """Return what PyTorch has asked of the device for its pools, in MB."""
            return {} if device == "cpu" else {"MB": torch.cuda.max_memory_reserved() / 1e6}

    compiled: Any = "max-autotune" if mode == "compile" else False
    return Peer(*where, channels_last=True, device=device, compiled=compiled, **how)


if __name__ == "__main__":
    main()
