"""What the ranks of tests run: small nets that several ranks train as one process does."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import Communicator, InputLayer, Net, Solver, Training
from nacre.config import load
from nacre_data import MemoryDataLayer
from nacre_layers import (
    AccuracyLayer,
    BatchNormLayer,
    ConvolutionLayer,
    CropLayer,
    DropoutLayer,
    InnerProductLayer,
    PerplexityLayer,
    PoolingLayer,
    RBMHiddenLayer,
    RBMVisibleLayer,
    ROCAUCLayer,
    SoftmaxLossLayer,
    SquareLossLayer,
)
from nacre_parallel import AllReduce, mailbox

BATCH = 12
RECORDS = 40
CLASSES = 4


def records(shape: Sequence[int], phase: str) -> list[np.ndarray]:
    """Return records of a class each, which can be learned; one of eight labels is to be ignored."""
    random = np.random.default_rng([RECORDS, len(phase)])
    labels = random.integers(0, CLASSES, RECORDS)
    means = random.normal(size=(CLASSES, *shape))
    x = random.normal(size=(RECORDS, *shape)) + means[labels]
    return [x, np.where(np.arange(RECORDS) % 8 == 3, -1, labels)]


def sources(shape: Sequence[int], batch_size: int = BATCH) -> list[Any]:
    return [
        MemoryDataLayer(
            name=phase,
            data=records(shape, phase),
            batch_size=batch_size,
            shuffle=phase == "train",
            exclude=[other for other in ("train", "validation", "test", "predict") if other != phase],
        )
        for phase in ("train", "validation")
    ]


def mlp() -> list[Any]:
    """Two losses of which one ignores labels, dropout, and every kind of statistic."""
    both: dict[str, Any] = {"bottoms": ["score", "label"], "ignore_label": -1}
    return [
        *sources((9,)),
        InnerProductLayer(name="ip1", bottoms=["data"], tops=["ip1"], output_dim=16, neuron="ReLU"),
        DropoutLayer(name="drop", bottoms=["ip1"], ratio=0.3),
        InnerProductLayer(name="ip2", bottoms=["ip1"], tops=["score"], output_dim=CLASSES),
        SoftmaxLossLayer(name="loss", **both),
        InnerProductLayer(name="back", bottoms=["ip1"], tops=["back"], output_dim=9),
        SquareLossLayer(name="square", bottoms=["back", "data"], weight=0.1),
        AccuracyLayer(name="accuracy", **both),
        PerplexityLayer(name="perplexity", **both),
        ROCAUCLayer(name="auc", **both),
    ]


def autoencoder() -> list[Any]:
    """A loss of which every record is an equal part."""
    return [
        *sources((9,)),
        InnerProductLayer(name="code", bottoms=["data"], tops=["code"], output_dim=5, neuron="Tanh"),
        DropoutLayer(name="drop", bottoms=["code"], ratio=0.3),
        InnerProductLayer(name="back", bottoms=["code"], tops=["back"], output_dim=9),
        SquareLossLayer(name="square", bottoms=["back", "data"]),
    ]


def lenet() -> list[Any]:
    """Shifted and mirrored pictures, in batches that ranks divide unevenly."""
    return [
        *sources((2, 7, 7), 13),
        CropLayer(name="crop", bottoms=["data"], tops=["crop"], crop_size=6, random_crop=True, random_mirror=True),
        ConvolutionLayer(name="conv", bottoms=["crop"], tops=["conv"], n_filter=5, kernel=3, neuron="Tanh"),
        PoolingLayer(name="pool", bottoms=["conv"], tops=["pool"], kernel=2, stride=2),
        InnerProductLayer(name="ip", bottoms=["pool"], tops=["score"], output_dim=CLASSES),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], ignore_label=-1, normalize="batch"),
        AccuracyLayer(name="accuracy", bottoms=["score", "label"], ignore_label=-1),
    ]


def normal() -> list[Any]:
    """Batch norm, whose batches are those of each rank.

    Without the bias that its mean takes away: the gradient of that is rounding alone, below 1e-16, of which Adam makes
    steps.
    """
    return [
        *sources((9,)),
        InnerProductLayer(name="ip1", bottoms=["data"], tops=["ip1"], output_dim=8, bias=False),
        BatchNormLayer(name="norm", bottoms=["ip1"], tops=["norm"], neuron="ReLU"),
        InnerProductLayer(name="ip2", bottoms=["norm"], tops=["score"], output_dim=CLASSES),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], ignore_label=-1),
    ]


def synchronous() -> list[Any]:
    """Batch norm over the batch of all ranks, of which they have uneven parts."""
    layers = [
        dataclasses.replace(layer, sync=True) if isinstance(layer, BatchNormLayer) else layer for layer in normal()
    ]
    return [*sources((9,), 11), *layers[2:]]


def machine() -> list[Any]:
    """A restricted Boltzmann machine on data of zeros and ones, in batches that ranks divide unevenly."""
    return [
        *(
            dataclasses.replace(layer, tops=["data"], data=[(layer.data[0] > 0).astype("float32")])
            for layer in sources((9,), 11)
        ),
        RBMVisibleLayer(name="vis", bottoms=["data", "hid"], tops=["vis"]),
        RBMHiddenLayer(name="hid", bottoms=["vis"], tops=["hid"], output_dim=5),
    ]


NETS = {
    "autoencoder": autoencoder,
    "machine": machine,
    "mlp": mlp,
    "lenet": lenet,
    "normal": normal,
    "uneven normal": lambda: [*sources((9,), 11), *normal()[2:]],
    "synchronous": synchronous,
}


def training(communicator: Communicator | None, kind: str, solver: dict[str, Any], **options: Any) -> Training:
    """Return a training; the net is shut down with the process."""
    layers = NETS[kind]()
    if communicator is not None:
        layers = AllReduce().layers(layers, communicator)
    options = {"dtype": "float64", "backend": "numpy", "insert_splits": True, "seed": 5, **options}
    net = Net(kind, layers, communicator=communicator, **options)
    method = {"type": solver.pop("type", "SGD")} if isinstance(solver.get("type", ""), str) else solver.pop("type")
    return Solver(method, framework=AllReduce(), **solver).start(net)


def train(
    communicator: Communicator | None, kind: str, solver: dict[str, Any], n_iter: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Train, and validate; return losses, statistics and parameters."""
    with training(communicator, kind, dict(solver), **options) as one:
        losses: list[float] = []
        for _ in range(n_iter):
            one.step()
            losses.append(one.loss)
        found = {"losses": losses, "statistics": one.take_statistics()}
        with one.net.derive("validation") as validation:
            found["validation"] = [validation.forward_epoch(), validation.statistics(), validation.statistics()]
        parameters = {name: handle.value.tolist() for name, handle in one.net.parameters.items()}
        one.net.shutdown()
        return {**found, "parameters": parameters, "images": one.images, "epochs": one.epochs}


def resume(communicator: Communicator | None, kind: str, solver: dict[str, Any], at: int, n_iter: int) -> Any:
    """Train to an iteration, take a snapshot, and go on from it in a new training; return the parameters of both."""
    found: list[Any] = []
    with training(communicator, kind, dict(solver)) as one:
        for _ in range(at):
            one.step()
        snapshot = one.snapshot()
        for _ in range(n_iter):
            one.step()
        found.append({name: handle.value.tolist() for name, handle in one.net.parameters.items()})
        one.net.shutdown()
    with training(communicator, kind, dict(solver)) as other:
        other.restore(snapshot)
        for _ in range(n_iter):
            other.step()
        found.append({name: handle.value.tolist() for name, handle in other.net.parameters.items()})
        other.net.shutdown()
    return [*found, sorted(snapshot.state["memory"])]


def poison(communicator: Communicator) -> None:
    """Train with numbers that are not finite on the last rank."""
    with training(communicator, "mlp", {}) as one:
        if communicator.rank == communicator.size - 1:
            one.net.parameters["ip1/bias"].value = np.full(16, np.nan)
        one.step()


def disagree(communicator: Communicator, what: str) -> None:
    """Train with something else on the last rank."""
    other = communicator.rank == communicator.size - 1
    options = {"seed": 6} if other and what == "seed" else {}
    solver = {"lr_policy": 0.2 if other and what == "solver" else 0.1}
    with training(communicator, "mlp", solver, **options) as one:
        if other and what == "parameters":
            one.net.parameters["ip1/weight"].value = one.net.parameters["ip1/weight"].value * 2
        one.run()


def differ(communicator: Communicator) -> None:
    """Call another method on the last rank."""
    if communicator.rank:
        communicator.bcast(np.zeros(5))
    communicator.allreduce(np.zeros(5))


def arrays(communicator: Communicator) -> list[Any]:
    """Return what `gather_arrays` gives for arrays of other shapes and types on each rank."""
    rank = communicator.rank
    given = {"n": rank, "grid": np.full((rank, 2), rank, np.int16), "empty": np.zeros((0, 3))}
    return [
        {name: [array.tolist(), array.dtype.str, list(array.shape)] for name, array in one.items()}
        for one in communicator.gather_arrays(given)
    ]


def gone(communicator: Communicator, sizes: Sequence[int], limit: int, rounds: int) -> list[Any]:
    """Send messages to the next rank, which receives them later; return how many had gone before, and the wrong ones.

    Of large ones `limit` bytes may be on their way. The last element counts the blocks of shared memory for them.
    """
    ranks: Any = communicator
    after, before = (ranks.rank + 1) % ranks.size, (ranks.rank - 1) % ranks.size
    wrong: list[int] = []
    counts: list[int] = []
    usual, mailbox.ON_THEIR_WAY = mailbox.ON_THEIR_WAY, limit
    for number in range(rounds):
        sent = [ranks.isend(np.full(size, size + number), after, 3) for size in sizes]
        counts.append(sum(one.done() for one in sent))
        ranks.barrier()
        for size in sizes:
            out = np.zeros(size, int)
            ranks.recv(out, before, 3)
            wrong += [] if (out == size + number).all() else [size]
        for one in sent:
            one.wait()
        ranks.barrier()
    mailbox.ON_THEIR_WAY = usual
    return [counts, wrong, len(ranks.mailbox.out[after].blocks.known)]


def memory_of_splits(communicator: Communicator, rounds: int) -> int:
    """Return by how many bytes the memory grows in which ranks work together: by splits that are closed."""
    ranks: Any = communicator
    used: list[int] = []
    for _ in range(rounds):
        part = ranks.split(0)
        array = part.shared_array((1000, 1000))
        array[...] = 1
        part.allreduce(np.zeros(1_000_000))
        part.barrier()
        del array
        part.close()
        ranks.barrier()
        used.append(os.fstat(ranks.segment.descriptor).st_blocks)
        ranks.barrier()
    return used[-1] - used[1]


def share(communicator: Communicator) -> list[int]:
    return sorted(os.sched_getaffinity(0))


def small(layer: Any) -> Any:
    """Return a layer of an example with small batches; an Input becomes a source of random records."""
    if not layer.is_source:
        return layer
    if not isinstance(layer, InputLayer):
        return dataclasses.replace(layer, batch_size=8)
    random = np.random.default_rng(len(layer.shape))
    found = random.normal(size=(24, *layer.shape)) if layer.shape else random.integers(0, 10, 24)
    return MemoryDataLayer(name=layer.name, tops=layer.tops, data=[found], batch_size=8)


def example(communicator: Communicator | None, path: str, n_iter: int) -> list[float]:
    """Train the net of an example; return its losses."""
    file = load(path)
    layers = [small(layer) for layer in file.layers if "train" not in layer.exclude]
    if communicator is not None:
        layers = AllReduce().layers(layers, communicator)
    options: dict[str, Any] = {"dtype": "float64", "backend": "numpy", "insert_splits": True}
    net = Net(file.name, layers, algorithm=file.algorithm, communicator=communicator, **options)
    with net, file.solver(callbacks=()).start(net) as one:
        losses: list[float] = []
        for _ in range(n_iter):
            one.step()
            losses.append(one.loss)
        return losses
