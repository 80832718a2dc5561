"""What benchmarks.gpu checks of a backend: gradients, graphs, bits, NaN, and losses beside the numpy backend's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from nacre import Input, L, Net, Solver, open_backend, registry

from . import nets
from .nets import ROOT

RATE, MOMENTUM = 0.01, 0.9


@dataclass(frozen=True)
class Trained:
    """The losses of a training, its last parameters by name, bytes of pools before and after replays, and graphs."""

    losses: list[float]
    values: dict[str, Any]
    pools: list[int]
    graphs: int


class Batches:
    """Batches that can be learned, if a picture has one class, or each word the next one.

    Pictures are noise over one of each class, words follow each other by a rule. Other labels say nothing of the data.
    """

    def __init__(self, net: Any) -> None:
        told = nets.ends(net)
        self.shapes, self.classes, self.words = told["blobs"], told["classes"], told["words"]
        data, label = self.shapes["data"], self.shapes["label"]
        self.follow = self.words is not None and prod(label) == prod(data)
        self.classic = None
        if self.classes and not self.words and prod(label) == data[0]:
            self.classic = np.random.default_rng(1).normal(size=(self.classes, *data[1:]))

    def batch(self, number: int, *, permuted: bool = False) -> dict[str, Any]:
        """Return what is written into the net's blobs; `permuted` is the same rows in another order."""
        random, shape, of_label = np.random.default_rng((2, number)), self.shapes["data"], self.shapes["label"]
        if self.follow:
            data = (random.integers(0, self.words, (shape[0], 1)) + 7 * np.arange(shape[1])) % self.words
            label = (data + 7) % self.words
        else:
            label, data = (
                random.integers(0, below, size) if below else random.normal(size=size)
                for below, size in ((self.classes, of_label), (self.words, shape))
            )
            if self.classic is not None:
                data = (self.classic[label.reshape(-1)] + data).astype(np.float32)
        order = random.permutation(shape[0]) if permuted else slice(None)
        return {"data": data[order], "label": label[order]}


def trained(
    name: str,
    backend: Any,
    steps: int,
    *,
    batch: int = 0,
    permuted: bool = False,
    dropout: bool = False,
    rate: float = RATE,
    moved: int = 0,
    **options: Any,
) -> Trained:
    """Train a net of nets.NETS; whatever else is given are options of the net.

    `moved` other than 0 moves all first values of parameters by a rounding, each number up or down.
    """
    file = nets.load(name, dropout=dropout, batch=batch)
    solver = Solver("SGD", lr_policy=rate, momentum_policy=MOMENTUM)
    with file.net("train", backend=backend, **options) as net, solver.start(net) as training:
        for one in net.parameters.values() if moved else ():
            up = np.random.default_rng((3, moved)).random(one.value.shape) < 0.5
            one.value = np.nextafter(one.value, np.where(up, np.inf, -np.inf).astype(one.value.dtype))
        batches, losses, pools = Batches(net), list[float](), list[int]()
        for step in range(steps):
            for blob, array in batches.batch(step, permuted=permuted).items():
                net.write(blob, array)
            training.step()
            losses.append(float(training.loss))
            if step in (2, steps - 1) and net.backend.captures:  # called, captured, and from then on replayed
                recordings = [one.pool.total_bytes() for one in net.backend.recordings]
                pools.append(net.backend.cupy.get_default_memory_pool().total_bytes() + sum(recordings))
        graphs = sum(one.graph is not None for one in getattr(net.backend, "recordings", ()))
        return Trained(losses, {one.name: one.value for one in net.parameters.values()}, pools, graphs)


def fresh(name: str, *, captures: bool = True) -> Any:
    """Return a backend of its own; without `captures` it calls every step, as if none could be captured."""
    made = registry().open("backend", name)()
    if not captures:
        made.captures = False
    return made


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the arrays whose bits differ."""
    return [name for name, array in one.items() if array.tobytes() != other[name].tobytes()]


def replay(backend: str, name: str, steps: int, batch: int = 0) -> dict[str, Any]:
    """Compare a training that is replayed, bit by bit, with one whose steps are called; and count its memory.

    Both nets are deterministic: else two trainings may differ however they run.
    """
    replays, how = fresh(backend), {"batch": batch, "dropout": True, "deterministic": True}
    one = trained(name, replays, steps, **how)
    other = trained(name, fresh(backend, captures=False), steps, **how)
    found = differing(one.values, other.values)
    same = not found and one.losses == other.losses and len(set(one.pools)) < 2
    graphs = [one.graphs, other.graphs]
    as_meant = graphs[1] == 0 and bool(graphs[0]) == replays.captures
    told = {"differing": found, "losses": [one.losses, other.losses], "pools": one.pools, "graphs": graphs}
    return {"ok": same and as_meant, **told}


def twice(backend: str, name: str, steps: int, batch: int = 0, compute: str | None = None) -> dict[str, Any]:
    """Compare two trainings of a deterministic net bit by bit."""
    how: dict[str, Any] = {"deterministic": True, "dropout": True, "batch": batch, "compute": compute}
    one, other = (trained(name, fresh(backend), steps, **how) for _ in range(2))
    found = differing(one.values, other.values)
    return {"ok": not found and one.losses == other.losses, "differing": found}


def reduced_by_nccl(name: str) -> dict[str, Any]:
    """Capture NCCL's sum over one rank, and replay it: all numbers must arrive, those of the replay."""
    backend, nccl = fresh(name), import_module("cupy.cuda.nccl")
    with backend.here:
        ours, theirs = backend.cupy.array(np.arange(1000, dtype=np.float32)), backend.cupy.zeros((1000,), "float32")
        communicator: Any = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
        how = ours.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, backend.stream.ptr
        communicator.allReduce(ours.data.ptr, theirs.data.ptr, *how)
        backend.stream.begin_capture()
        communicator.allReduce(ours.data.ptr, theirs.data.ptr, *how)
        graph = backend.stream.end_capture()
        ours.fill(3)
        graph.launch(backend.stream)
        wrong = int((theirs.get() != 3).sum())
        communicator.destroy()
    return {"ok": wrong == 0, "wrong": wrong}


def curve(
    backend: str, name: str, steps: int, batch: int = 0, compute: str | None = None, rate: float = RATE, others: int = 1
) -> dict[str, Any]:
    """Compare the losses of a training with the numpy backend's.

    In float32 they may be 3 times as far from them as are the numpy backend's own with the rows of each batch in
    another order, the farthest of some `others`, all but the first of which also begin with values that are moved by a
    rounding; and in bf16 2e-2, or 2e-2 of what is above 1. Two numbers in a window of max pooling may be as near to
    each other as sums in another order are: which one is the larger, and gets the gradient, is then decided by
    roundings, so of a net with such layers one other training says too little.
    """
    how: dict[str, Any] = {"batch": batch, "rate": rate}
    own = trained(name, open_backend("numpy"), steps, **how).losses
    theirs = trained(name, fresh(backend), steps, compute=compute, **how).losses
    apart = _apart(theirs, own)
    told: dict[str, Any] = {"losses": theirs, "numpy": own, "apart": apart}
    if compute:
        share = float((np.abs(np.subtract(theirs, own)) / np.maximum(np.abs(own), 1)).max())
        return {"ok": share <= 2e-2, "share": share, **told}
    found = [
        _apart(trained(name, open_backend("numpy"), steps, permuted=True, moved=number, **how).losses, own)
        for number in range(others)
    ]
    limit = 3 * max(found)
    return {"ok": apart <= limit, "limit": limit, "others": found, **told}


def _apart(some: list[float], others: list[float]) -> float:
    return float(np.abs(np.subtract(some, others)).max())


def gradients(backend: str, name: str, batch: int = 0) -> dict[str, Any]:
    """Compare gradients in float64 and float32 with the numpy backend's in float64, as shares of their norm."""
    own = _gradients(open_backend("numpy"), name, batch, "float64")
    told: dict[str, Any] = {}
    for dtype in ("float64", "float32"):
        theirs = _gradients(fresh(backend), name, batch, dtype, own[0])
        apart = {
            key: float(np.linalg.norm(theirs[1][key] - one) / (np.linalg.norm(one) or 1)) for key, one in own[1].items()
        }
        worst = max(apart, key=lambda key: apart[key])
        told[dtype] = {"worst": worst, "apart": apart[worst]}
    limit = nets.NETS[name].apart
    ok = told["float64"]["apart"] <= 1e-9 and told["float32"]["apart"] <= limit
    return {"ok": ok, "limits": {"float64": 1e-9, "float32": limit}, **told}


def not_numbers(backend: str, compute: str | None = None) -> dict[str, Any]:
    """Compare where a NaN goes through layers with a ReLU: where NVIDIA's libraries apply that, one may be lost."""
    x = Input((8, 8, 8), name="x", batch_size=4)
    maps: dict[str, Any] = {"n_filter": 8, "kernel": 3, "pad": 1}
    layers = [
        L.Convolution(**maps, neuron="ReLU", name="conv")(x),
        L.BatchNorm(neuron="ReLU", name="norm")(x),
        L.InnerProduct(output_dim=8, neuron="ReLU", name="ip")(x),
        L.ElementWise(neuron="ReLU", name="conv_sum")(L.Convolution(**maps)(x), x),
        L.ElementWise(neuron="ReLU", name="norm_sum")(L.BatchNorm()(x), x),
    ]
    names = ["conv", "norm", "ip", "conv_sum", "norm_sum"]
    images = np.random.default_rng(0).normal(size=(4, 8, 8, 8))
    images[1, 2, 3, 4] = np.nan
    found: list[dict[str, np.ndarray]] = []
    for here, kind in ((open_backend("numpy"), None), (fresh(backend), compute)):
        with Net("odd", layers, backend=here, compute=kind, keep=names) as net:
            net.write("x", images)
            net.forward()
            found.append({name: np.isnan(net.blob(name)) for name in names})
    own, theirs = found
    lost = {name: int((own[name] & ~theirs[name]).sum()) for name in names}
    new = {name: int((theirs[name] & ~own[name]).sum()) for name in names}
    return {"ok": not any((*lost.values(), *new.values())), "lost": lost, "new": new}


def _gradients(
    backend: Any, name: str, batch: int, dtype: str, values: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a net, and their gradients."""
    with nets.load(name, dropout=False, batch=batch).net("train", backend=backend, dtype=dtype) as net:
        for key, value in (values or {}).items():
            net.parameters[key].value = value
        for blob, array in Batches(net).batch(0).items():
            net.write(blob, array)
        net.forward()
        net.backward()
        learned = {one.name: one for one in net.parameters.values() if one.gradient is not None}
        return (
            {one.name: one.value for one in net.parameters.values()},
            {key: np.asarray(one.gradient, np.float64) for key, one in learned.items()},
        )


def command(*words: str, limit: int, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a command of Python's in the repository; return how it ended, and its last lines."""
    given = {**os.environ, **(env or {})}
    try:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, env=given, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        text = output.decode(errors="replace") if isinstance(output, bytes) else output
        return {"ok": False, "ended": f"cut after {limit} s", "lines": _told(text.splitlines(), 5)}
    lines = (done.stdout + done.stderr).splitlines()
    return {"ok": done.returncode == 0, "ended": done.returncode, "lines": _told(lines, 60 if done.returncode else 5)}


def _told(lines: list[str], last: int) -> list[str]:
    """Return the last lines, and of those before them the ones that name a test which has failed."""
    before, end = lines[: -last or None], lines[-last:]
    return [line for line in before if "FAILED" in line or "ERROR" in line][:MOST_NAMES] + end


MOST_NAMES = 200
"""Of tests that have failed, so many are told."""


def numerical(backend: str, name: str, limit: int) -> dict[str, Any]:
    """Compare a net's gradients with numerical ones, by `nacre gradcheck`."""
    return command("nacre", "gradcheck", nets.NETS[name].file, "--backend", backend, "--entries", "5", limit=limit)
