"""From a training to a snapshot, and from a snapshot to a training that goes on bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .component import Array
from .errors import SnapshotError

if TYPE_CHECKING:
    import numpy as np

    from .net import Net
    from .snapshot import Snapshot
    from .solver import Training

PARAMETERS, HISTORY, MEMORY = "parameters/", "history/", "memory/"


def make_snapshot(training: Training) -> Snapshot:
    """Give all that a restart needs, as of the last batch consumed."""
    import numpy as np

    from .config import table_of
    from .snapshot import Snapshot, environment

    net = training.net
    arrays: dict[str, Any] = {f"{PARAMETERS}{name}": handle.value for name, handle in net.parameters.items()}
    for piece in _history(training):
        arrays[piece.key] = piece.host[piece.start : piece.end].reshape(piece.shape)
    memory: dict[str, dict[str, Any]] = {}
    for name, owner in _owners(training):
        for key, value in owner.memory().items():
            if isinstance(value, bool | int | float | str):
                memory.setdefault(name, {})[key] = value
            else:
                arrays[f"{MEMORY}{name}/{key}"] = np.asarray(value)
    state = {
        "net": net.name,
        "layers": [table_of(layer) for layer in net.layers],
        "seed": net.seed,
        "dtype": net.dtype,
        "backend": net.backend.name,
        "solver": type(training.solver.method).__name__,
        "epochs": training.epochs,
        "memory": memory,
        "plan": net.plan,
        "parts": parts_of(training),
        "environment": environment(),
    }
    return Snapshot(training.iteration, arrays, state)


def parts_of(training: Training) -> dict[str, dict[str, str]]:
    """Say of each layer, and of the "solver", its type and where that is from, and so of its kernel if it has one."""
    from .registry import registry
    from .tables import type_name

    things: list[tuple[str, Any, Any]] = [
        *((op.name, op.layer, op.choice) for op in training.net.ops if op.neuron is None),
        ("solver", training.solver.method, training.choice),
    ]
    parts: dict[str, dict[str, str]] = {}
    for name, thing, choice in things:
        cls: Any = thing.__class__
        parts[name] = {"type": type_name(cls), "from": str(registry().owner(cls) or cls.__module__)}
        if choice.kernel is not None:
            parts[name] |= {"kernel": choice.offer.target, "kernel_from": str(choice.offer.provenance)}
    return parts


def restore(training: Training, snapshot: Snapshot) -> None:
    """Put a training where a snapshot left it; all is checked before anything is changed, but what owners remember.

    Raises:
        SnapshotError: the snapshot belongs to another net or to another solver, or nothing can be resumed from it.
    """
    state, method = snapshot.state, type(training.solver.method).__name__
    if "solver" not in state:
        raise SnapshotError("the snapshot holds parameters, but no training that could be gone on with")
    if state["solver"] != method:
        raise SnapshotError(
            f"the snapshot was made by the solver {state['solver']}, but this training uses {method}",
            f"train with {state['solver']}, or load only the parameters and begin anew",
        )
    _check_parameters(training.net, snapshot)
    _load_history(training, snapshot)
    load_parameters(training.net, snapshot)
    forgotten = _load_memory(training, snapshot)
    different = [*_differences(training.net, state), *(f"it remembers nothing of {name}" for name in forgotten)]
    if different:
        training.report("warning", message=f"resuming will not be bit for bit the same: {'; '.join(different)}")


def load_parameters(net: Net, snapshot: Snapshot) -> None:
    """Put a snapshot's parameters and buffers into a net.

    Raises:
        SnapshotError: names the parameters that are missing, left over, or of another shape.
    """
    saved = _check_parameters(net, snapshot)
    for name, handle in net.parameters.items():
        handle.value = saved[name]


def _check_parameters(net: Net, snapshot: Snapshot) -> dict[str, np.ndarray[Any, Any]]:
    saved = _below(snapshot, PARAMETERS)
    complaints = [f"'{name}' is missing in it" for name in net.parameters if name not in saved]
    complaints += [f"'{name}' is not in the net" for name in saved if name not in net.parameters]
    complaints += [
        f"'{name}' has the shape {saved[name].shape} there, but {handle.shape} here"
        for name, handle in net.parameters.items()
        if name in saved and saved[name].shape != handle.shape
    ]
    if complaints:
        of = f" ('{snapshot.state['net']}')" if snapshot.state.get("net") else ""
        raise SnapshotError(
            f"the snapshot belongs to another net{of} than '{net.name}': parameter {'; '.join(complaints)}",
            "take the net file that it was trained with",
        )
    return saved


def _below(snapshot: Snapshot, start: str) -> dict[str, np.ndarray[Any, Any]]:
    return {key[len(start) :]: value for key, value in snapshot.arrays.items() if key.startswith(start)}


class _Piece(NamedTuple):
    """One parameter's part of a history; `host` is a copy of the whole span's `array`."""

    key: str
    array: Array
    host: np.ndarray[Any, Any]
    start: int
    end: int
    shape: tuple[int, ...]


def _history(training: Training) -> Iterator[_Piece]:
    net = training.net
    for name, arrays in training.method.histories.items():
        for span, array in zip(training.spans, arrays, strict=True):
            host = net.backend.to_host(array)
            for part, start, size in span.parts:
                shape = net.parameters[part].shape
                yield _Piece(f"{HISTORY}{name}/{part}", array, host, start, start + size, shape)


def _load_history(training: Training, snapshot: Snapshot) -> None:
    pieces = list(_history(training))
    missing = [piece.key for piece in pieces if piece.key not in snapshot.arrays]
    if missing:
        raise SnapshotError(
            f"the snapshot has no {', '.join(missing)}: was the parameter frozen then?",
            "freeze the same layers, or load only the parameters and begin anew",
        )
    for piece in pieces:
        piece.host[piece.start : piece.end] = snapshot.arrays[piece.key].reshape(-1)
    for array, host in {id(piece.array): (piece.array, piece.host) for piece in pieces}.values():
        training.net.backend.from_host(host, array)


def _owners(training: Training) -> Iterator[tuple[str, Any]]:
    """Give whatever has a `memory`, by a name that a restart gives it again."""
    for op in training.net.ops:
        if op.neuron is None:
            yield f"layer.{op.name}", op.state
    yield "solver", training.method
    yield "algorithm", training.solver.algorithm
    yield "lr_policy", training.lr
    yield "momentum_policy", training.momentum
    seen: dict[str, int] = {}
    for state in training.callbacks:
        kind = type(state.callback).__name__
        seen[kind] = seen.get(kind, 0) + 1
        yield f"callback.{kind}" if seen[kind] == 1 else f"callback.{kind}.{seen[kind]}", state


def _load_memory(training: Training, snapshot: Snapshot) -> list[str]:
    """Let every owner remember; give those that have something to remember and find nothing."""
    forgotten: list[str] = []
    for name, owner in _owners(training):
        saved = {**snapshot.state.get("memory", {}).get(name, {}), **_below(snapshot, f"{MEMORY}{name}/")}
        if saved:
            try:
                owner.remember(saved)
            except (LookupError, TypeError, ValueError) as error:
                raise SnapshotError(
                    f"{name} cannot take up what the snapshot remembers of it: {error!r}",
                    "was it of another type, or of another version?",
                ) from error
        elif owner.memory() and not name.startswith("callback."):
            forgotten.append(name)
    return forgotten


def _differences(net: Net, state: Mapping[str, Any]) -> list[str]:
    """Say what was different when a snapshot was made, of all that decides the bits."""
    from .snapshot import environment

    now = {**environment(), "backend": net.backend.name, "seed": net.seed, "dtype": net.dtype}
    then = {**state.get("environment", {}), **{key: state.get(key, now[key]) for key in ("backend", "seed", "dtype")}}
    different = [f"{key} was {then[key]}, is {now[key]}" for key in now if key in then and then[key] != now[key]]
    if json.dumps(state.get("plan", net.plan), sort_keys=True) != json.dumps(net.plan, sort_keys=True):
        different.append("the plan is another; make the net with plan=snapshot.state['plan']")
    return different
