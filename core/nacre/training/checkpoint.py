"""From a training to a snapshot, and from a snapshot to a training that goes on bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import NacreError, SnapshotError
from ..fields.tables import table_of
from ..net.parameters import check_parameters, load_parameters, names_of_parameters, sources_of
from ..protocols.array import Array
from ..protocols.parameter import fits
from ..snapshots.differences import bit_differences, field_differences
from ..snapshots.environment import environment_of
from ..snapshots.provenance import origins_of, parts_of
from ..snapshots.snapshot import HISTORY, MEMORY, PARAMETERS, below

if TYPE_CHECKING:
    import numpy as np

    from ..snapshots.snapshot import Snapshot
    from .training import Training


def make_snapshot(training: Training) -> Snapshot:
    """Give all that a restart needs, as of the last batch consumed.

    Raises:
        NotFiniteError: a number in it is not finite; the message names it.
    """
    import numpy as np

    from ..snapshots.snapshot import Snapshot

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
    _refuse_not_finite(training, arrays, memory)
    state = {
        "net": net.name,
        "layers": [table_of(layer) | {"name": layer.name} for layer in net.layers],
        "seed": net.seed,
        "dtype": net.dtype,
        "compute": net.compute_dtype,
        "backend": net.backend.name,
        "freeze": sorted(net.frozen),
        "solver": type(training.solver.method).__name__,
        "settings": table_of(training.solver),
        "epochs": training.epochs,
        "memory": memory,
        "aliases": {alias: name for name, names in names_of_parameters(net).items() for alias in names[1:]},
        "plan": net.plan,
        "parts": parts_of(training),
        "origins": origins_of([*net.layers, training.solver]),
        "environment": environment_of(net),
    }
    return Snapshot(training.iteration, arrays, state)


def _refuse_not_finite(
    training: Training, arrays: Mapping[str, np.ndarray[Any, Any]], memory: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise a NotFiniteError where a number that would be saved is not finite: going on from it would help nobody."""
    import numpy as np

    told = f"after {training.iteration} iterations: a number is not finite, so no snapshot is saved"
    for name, array in arrays.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise training.not_finite(told, f"what a snapshot would hold as '{name}'")
    for owner, values in memory.items():
        for key, value in values.items():
            if isinstance(value, float) and not isfinite(value):
                raise training.not_finite(told, f"what a snapshot would hold as '{MEMORY}{owner}/{key}'")


def restore(training: Training, snapshot: Snapshot, *, reset_solver: bool = False) -> None:
    """Put a training where a snapshot left it; all is checked before anything is changed, but what owners remember.

    With `reset_solver` method and policies stay as they are.

    Raises:
        SnapshotError: the snapshot belongs to another net or to another solver, or nothing can be resumed from it.
    """
    state, method = snapshot.state, type(training.solver.method).__name__
    if "solver" not in state:
        raise SnapshotError("the snapshot holds parameters, but no training that could be gone on with")
    if state["solver"] != method and not reset_solver:
        raise SnapshotError(
            f"the snapshot was made by the solver {state['solver']}, but this training uses {method}",
            f"train with {state['solver']}, or give the new one a fresh start: --reset-solver (reset_solver=True)",
        )
    if reset_solver:
        state = {key: value for key, value in state.items() if key != "settings"}  # that they are others is wanted
    try:
        different, fields = bit_differences(training, state), list(field_differences(training, state))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise SnapshotError(f"the snapshot describes its training in no form that is known here: {error!r}") from error
    check_parameters(training.net, snapshot)
    if not reset_solver:
        _load_history(training, snapshot)
    load_parameters(training.net, snapshot)
    passed_over = SOLVERS_OWN if reset_solver else ()
    different += [f"it remembers nothing of {name}" for name in _load_memory(training, snapshot, passed_over)]
    if different:
        training.warn(f"resuming may not be bit for bit the same: {'; '.join(different)}")
    if fields:
        training.warn(f"the training is not the one that was begun: {'; '.join(fields)}")


class _Piece(NamedTuple):
    """One parameter's part of a history; `host` is a copy of the whole span's `array`."""

    history: str
    parameter: str
    array: Array
    host: np.ndarray[Any, Any]
    start: int
    end: int
    shape: tuple[int, ...]

    @property
    def key(self) -> str:
        return f"{HISTORY}{self.history}/{self.parameter}"


def _history(training: Training) -> Iterator[_Piece]:
    net = training.net
    for name, arrays in training.method.histories.items():
        for span, array in zip(training.spans, arrays, strict=True):
            host = net.backend.to_host(array)
            for part, start, size in span.parts:
                yield _Piece(name, part, array, host, start, start + size, net.parameters[part].shape)


def _load_history(training: Training, snapshot: Snapshot) -> None:
    pieces = list(_history(training))
    sources = sources_of(training.net, snapshot, below(snapshot, PARAMETERS))
    keys = [f"{HISTORY}{piece.history}/{min(sources[piece.parameter])}" for piece in pieces]
    missing = [piece.key for piece, key in zip(pieces, keys, strict=True) if key not in snapshot.arrays]
    if missing:
        raise SnapshotError(
            f"the snapshot has no {', '.join(missing)}: was the parameter frozen then?",
            "freeze the same layers; or let the solver begin anew: --reset-solver (reset_solver=True); or begin a new "
            "training with the parameters: --weights (net.load)",
        )
    for piece, key in zip(pieces, keys, strict=True):
        if not fits(shape := snapshot.arrays[key].shape, piece.shape):
            raise SnapshotError(f"{piece.key} has the shape {shape} in the snapshot, but {piece.shape} here")
    for piece, key in zip(pieces, keys, strict=True):
        piece.host[piece.start : piece.end] = snapshot.arrays[key].reshape(-1)
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


SOLVERS_OWN = ("solver", "lr_policy", "momentum_policy")


def _load_memory(training: Training, snapshot: Snapshot, passed_over: Collection[str]) -> list[str]:
    """Let every owner remember; give those that have something to remember and find nothing."""
    forgotten: list[str] = []
    for name, owner in _owners(training):
        if name in passed_over:
            continue
        saved = {**snapshot.state.get("memory", {}).get(name, {}), **below(snapshot, f"{MEMORY}{name}/")}
        if saved:
            try:
                owner.remember(saved)
            except NacreError:
                raise
            except Exception as error:  # whatever a plugin's code does with what a file says
                raise SnapshotError(
                    f"{name} cannot take up what the snapshot remembers of it: {error!r}",
                    "was it of another type, or of another version?",
                ) from error
        elif owner.memory() and not name.startswith("callback."):
            forgotten.append(name)
    return forgotten
