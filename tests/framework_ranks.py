"""What the ranks of tests run for frameworks: small nets, trained by any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from many_ranks import NETS, sources
from nacre import Communicator, ConfigError, Framework, Net, Solver, Training
from nacre.cli.training import train as train_file
from nacre.config import load
from nacre.fields.component import make_component
from nacre.testing.crew import crew, own_backend, together

OPTIONS: dict[str, Any] = {"dtype": "float64", "insert_splits": True, "seed": 5}


def in_threads(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return what a function of this module returns for each of so many ranks, which are threads."""
    ranks = crew(size)
    return together(ranks, lambda rank: function(ranks[rank], *arguments))


def start(communicator: Communicator | None, kind: str, given: Any, solver: dict[str, Any], **options: Any) -> Training:
    """Return a training by a framework; the net is shut down with the process."""
    layers, framework = NETS[kind](), make_component(Framework, given)
    options["algorithm"] = solver.get("algorithm")
    if communicator is not None:
        layers = framework.layers(layers, communicator)
        options["group"] = framework.group(communicator)
    net = Net(kind, layers, communicator=communicator, backend=own_backend("numpy"), **{**OPTIONS, **options})
    fields = {key: value for key, value in solver.items() if key != "type"}
    return Solver({"type": solver.get("type", "SGD")}, framework=framework, **fields).start(net)


def found_in(one: Training) -> dict[str, Any]:
    """Return what a training has learned, and how it was; all ranks come together for it."""
    snapshot = one.snapshot()
    found = {name: array.tolist() for name, array in snapshot.arrays.items() if not name.startswith("memory/layer")}
    return {"loss": one.loss, "epochs": one.epochs, "iteration": one.iteration, **found}


def train(
    communicator: Communicator | None, kind: str, framework: Any, solver: dict[str, Any], n_iter: int
) -> dict[str, Any]:
    """Train; return what was learned, a validation, and what the framework tells."""
    with start(communicator, kind, framework, solver) as one:
        for _ in range(n_iter):
            one.step()
        found = {"found": found_in(one), "statistics": one.take_statistics(), "told": one.told()}
        with one.net.derive("validation") as validation:
            found["validation"] = [validation.forward_epoch(), validation.statistics()]
        one.net.shutdown()
        return found


def resume(communicator: Communicator, kind: str, framework: Any, solver: dict[str, Any], at: int, more: int) -> Any:
    """Train to an iteration, take a snapshot, go on, and go on from it in a new training: what both have learned."""
    found: list[Any] = []
    with start(communicator, kind, framework, solver) as one:
        for _ in range(at):
            one.step()
        snapshot = one.snapshot()
        for _ in range(more):
            one.step()
        found.append(found_in(one))
        one.net.shutdown()
    with start(communicator, kind, framework, solver) as other:
        other.restore(snapshot)
        for _ in range(more):
            other.step()
        found.append(found_in(other))
        other.net.shutdown()
    return [*found, sorted(snapshot.arrays)]


def averaged(kind: str, solver: dict[str, Any], nodes: int, n_iter: int) -> dict[str, Any]:
    """Train so many nets, each on its part of the batches, and give all of them their mean after every iteration."""
    from nacre_parallel.frameworks.batches import divided

    nets: list[Net] = []
    for rank in range(nodes):  # with layers of its own, by which nets would share parameters
        layers = [divided(layer, rank, nodes) if layer.is_source else layer for layer in NETS[kind]()]
        nets.append(Net(kind, layers, rank=rank, ranks=nodes, backend="numpy", **OPTIONS))
    fields = {key: value for key, value in solver.items() if key != "type"}
    trainings = [Solver({"type": solver.get("type", "SGD")}, **fields).start(net) for net in nets]
    for _ in range(n_iter):
        for one in trainings:
            one.step()
        for name in nets[0].parameters:
            values = [net.parameters[name].value for net in nets]
            mean = sum(values[1:], values[0]) / nodes
            for net in nets:
                net.parameters[name].value = mean
    found = {name: np.array(handle.value).tolist() for name, handle in nets[0].parameters.items()}
    for one in trainings:
        one.shutdown()
    return found


def run_file(communicator: Communicator | None, path: str, sets: list[str]) -> dict[str, Any]:
    """Train a net file as `nacre train` does, but write nothing; return how that went, and the accuracy at the end."""
    file = load(path, sets)
    file.table["callback"] = [one for one in file.table["callback"] if one["type"] == "ValidationPerformance"]
    one = train_file(file, communicator=communicator, quiet=True)
    accuracy = one.statistics["validation"]["accuracy"]["accuracy"]
    return {"iteration": one.iteration, "accuracy": accuracy, "loss": one.loss, **one.told()}


def closed(communicator: Communicator, path: str, sets: list[str]) -> list[bool]:
    """Train a net file for some iterations; return of each communicator that was made for it whether it is closed."""
    made: list[Any] = []
    ranks: Any = type(communicator)
    plain = ranks.split

    def split(self: Any, *arguments: Any) -> Any:
        part = plain(self, *arguments)
        made.extend([] if part is None else [part])
        return part

    ranks.split = split
    try:
        file = load(path, ["solver.max_iter=3", *sets])
        file.table["callback"] = []
        train_file(file, communicator=communicator, quiet=True)
    finally:
        ranks.split = plain
    return [one._closed for one in made]


def validate_unevenly(communicator: Communicator | None, given: Any) -> dict[str, float]:
    """Validate on the source that feeds the training, in batches that workers may divide unevenly."""
    both = replace(sources((9,), 7)[0], name="both", exclude=[], shuffle=False)
    layers: list[Any] = [both, *NETS["mlp"]()[2:]]
    framework = make_component(Framework, given)
    options: dict[str, Any] = {}
    if communicator is not None:
        layers = framework.layers(layers, communicator)
        options = {"communicator": communicator, "group": framework.group(communicator)}
    net = Net("both", layers, backend=own_backend("numpy"), **OPTIONS, **options)
    with Solver("SGD", framework=framework).start(net), net.derive("validation") as validation:
        found = {"loss": validation.forward_epoch(), "records": validation.statistics()["accuracy"]["records"]}
    net.shutdown()
    return found


def poison(communicator: Communicator, framework: Any, rank: int) -> None:
    """Train with parameters that are not finite on a rank, from the second iteration on."""
    with start(communicator, "mlp", framework, {}) as one:
        one.step()
        if communicator.rank == rank:
            one.net.parameters["ip1/bias"].value = np.full(16, np.nan)
        for _ in range(3):
            one.step()


def without_group(communicator: Communicator, framework: Any) -> str:
    """Return how a net is refused that was not made for the groups of a framework."""
    net = Net("mlp", NETS["mlp"](), communicator=communicator, backend=own_backend("numpy"), **OPTIONS)
    try:
        Solver("SGD", framework=framework).start(net)
    except ConfigError as error:
        return str(error)
    finally:
        net.shutdown()
    return ""
