"""What benchmarks.gpu measures: the device's own limits, and nets of nacre beside PyTorch's."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

from nacre import registry

from . import nets
from .sides import Checked, Side, Worker, compare

SECONDS = 0.5  # of each sample


def per_call(run: Callable[[], None], wait: Callable[[], None], count: int = 10) -> float:
    """Return the seconds of a call, the least of five means."""
    found: list[float] = []
    run()
    wait()
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        found.append((time.perf_counter() - begin) / count)
    return min(found)


def copies(backend: Any, size: int) -> dict[str, Any]:
    """Return bytes a second: read and written by copies on the device, and copied from pinned memory."""
    import numpy as np

    cupy, stream = backend.cupy, backend.stream
    with backend.here:
        one, other = (cupy.empty((size,), "uint8") for _ in range(2))
        host = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        copy = cupy.cuda.runtime.memcpyAsync
        there = per_call(lambda: copy(other.data.ptr, one.data.ptr, size, 3, stream.ptr), backend.wait)
        up = per_call(lambda: copy(one.data.ptr, host.ctypes.data, size, 1, stream.ptr), backend.wait)
    return {"bytes": size, "device": 2 * size / there, "upload": size / up}


def products(name: str, size: int, *, tf32: bool) -> dict[str, Any]:
    """Return operations a second of a product of square matrices in float32 or TF32, on a new backend."""
    before = os.environ.get("CUPY_TF32", "")
    os.environ["CUPY_TF32"] = str(int(tf32))
    try:
        backend = registry().open("backend", name)()
    finally:
        os.environ["CUPY_TF32"] = before
    with backend.here:
        a, b, y = (backend.cupy.ones((size, size), "float32") for _ in range(3))
        seconds = per_call(lambda: backend.xp.matmul(a, b, out=y), backend.wait)
    return {"size": size, "operations": 2 * size**3 / seconds}


def products_in_bf16(size: int, device: str) -> dict[str, Any]:
    """Return operations a second of a product of square matrices in bf16, by PyTorch."""
    import torch

    a, b = (torch.ones((size, size), dtype=torch.bfloat16, device=device) for _ in range(2))
    y = torch.empty_like(a)
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    seconds = per_call(lambda: torch.matmul(a, b, out=y), wait)
    return {"size": size, "operations": 2 * size**3 / seconds}


def graphs(backend: Any, nodes: int) -> dict[str, Any]:
    """Return the seconds of a launch of a graph with one node, and of each node of a long one."""
    cupy, stream = backend.cupy, backend.stream
    seconds: list[float] = []
    with backend.here:
        one = cupy.zeros((1,), "float32")
        cupy.add(one, one, out=one)
        for count in (1, nodes):
            stream.begin_capture()
            for _ in range(count):
                cupy.add(one, one, out=one)
            graph = stream.end_capture()
            seconds.append(per_call(lambda graph=graph: graph.launch(stream), backend.wait))
    return {"launch": seconds[0], "node": (seconds[1] - seconds[0]) / (nodes - 1)}


def uploads(backend: Any, size: int, side: int) -> dict[str, Any]:
    """Return the seconds of uploads, of products, and of both in turns; and whether every upload has arrived.

    `hidden` is which share of the shorter of the two takes no time beside the other.
    """
    import numpy as np

    turns = 4
    batches = [np.full(size, number, np.uint8) for number in range(turns)]
    there, seen = backend.empty((size,), "uint8"), backend.empty((turns,), "uint8")
    with backend.here:
        a, b, y = (backend.cupy.ones((side, side), "float32") for _ in range(3))
    products = 1

    def run(sends: bool, computes: bool) -> None:
        for turn, batch in enumerate(batches):
            if sends:
                backend.upload(batch, there)
            with backend.here:
                for _ in range(products if computes else 0):
                    backend.xp.matmul(a, b, out=y)
                backend.cupy.copyto(seen[turn : turn + 1], there[-1:])

    def seconds(sends: bool, computes: bool) -> float:
        return per_call(lambda: run(sends, computes), backend.wait, 1)

    sent, computed = seconds(True, False), seconds(False, True)
    products = max(1, min(100, round(sent / computed)))  # such that both take about as long
    computed = seconds(False, True)
    both = seconds(True, True)
    arrived = backend.to_host(seen).tolist() == list(range(turns))
    hidden = (sent + computed - both) / min(sent, computed)
    return {"ok": arrived, "upload": sent, "compute": computed, "both": both, "hidden": hidden}


def work_of(name: str, batch: int, precision: str) -> dict[str, float]:
    """Return what a training step of a net takes at the least: operations, and bytes read and written.

    Products are counted forward and for both gradients. Each blob is written and read
    forward, read again backward, and its gradient written and read; each parameter is read forward and backward, its
    gradient written and read, and its value and history read and written, all of these in float32.
    """
    net = nets.load(name, batch=batch).net("train", backend="numpy", allocate=False)
    layers = net.summary().layers
    products = sum(layer.multiplications or 0 for layer in layers)
    parameters = sum(layer.parameters for layer in layers)
    tops = sum(prod(blob.shape) for blob in net.memory.final.values())
    net.shutdown()
    size = 2 if precision == "bf16" else 4
    return {"operations": 6.0 * products, "bytes": 5.0 * size * tops + 4.0 * 8 * parameters}


def throughput(
    name: str,
    batch: int,
    precision: str,
    modes: Sequence[str],
    *,
    backend: str,
    device: str,
    rounds: int,
    seconds: float = SECONDS,
    kept: Path | None = None,
) -> dict[str, Any]:
    """Time training steps of nacre and of PyTorch's modes, in turns; first they must compute the same.

    In TF32 and bf16 they may differ as in bf16 elsewhere. Figures are seconds of a step, one for each round. Plans and
    compiled code are `kept` in a folder for the next call.
    """
    sides = [Side(f"nacre {backend}"), *(Side(f"PyTorch {mode}") for mode in modes)]
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        records = nets.describe(name, folder, batch)
        options = ["--batch", str(batch), "--precision", precision, "--device", device]
        workers: list[Worker] = []
        for side in sides:
            words = "benchmarks.gpu_sides", side.name, name, place, *options
            workers.append(stack.enter_context(Worker(side, folder, 1, *words, kept=kept)))
        checked: list[Checked] = []
        for worker in workers:
            where = folder / f"check {worker.side}"
            told = worker.ask(f"check {where}")
            checked.append(Checked(worker.side, where, told["names"], told["losses"]))
        for other in checked[1:]:
            compare(name, checked[0], other, wide=precision != "float32")
        times: dict[str, list[float]] = {side.name: [] for side in sides}
        for turn in range(rounds):
            for worker in workers[:: 1 if turn % 2 else -1]:
                times[worker.side.name].append(float(worker.ask(f"sample {seconds}")))
        peaks = {worker.side.name: worker.ask("peak").get("MB") for worker in workers}
    own = sides[0].name
    ratios = {
        side: statistics.median(theirs / ours for theirs, ours in zip(times[side], times[own], strict=True))
        for side in times
        if side != own
    }
    speeds = {side: records / statistics.median(one) for side, one in times.items()}
    return {
        "ok": True,
        "net": name,
        "batch": records,
        "precision": precision,
        "times": times,
        "peaks": peaks,
        "ratios": ratios,
        "records a second": speeds,
        "work": work_of(name, batch, precision),
    }
