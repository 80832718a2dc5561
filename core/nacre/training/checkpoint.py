"""Makes a snapshot of a training, and restores a training from one, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from ..discovery.blame import answered, foreign, wrong
from ..discovery.guard import described as described_error
from ..errors import NacreError, SnapshotError, brief
from ..fields.tables import table_of
from ..net.carried import remembered
from ..net.division import whole_arrays
from ..net.fitted import check_alike
from ..protocols.array import Array
from ..protocols.parameter import fits
from ..snapshots.differences import bit_differences, field_differences
from ..snapshots.snapshot import HISTORY, MEMORY, PARAMETERS, below, split_fitted

if TYPE_CHECKING:
    import numpy as np

    from ..snapshots.snapshot import Snapshot
    from .members import Members, Remembers
    from .spans import Piece


def make_snapshot(members: Members, iteration: int, epochs: int) -> Snapshot:
    """Return everything that a restart needs, as it is after the last batch."""
    from ..snapshots.snapshot import Snapshot

    net, communicator = members.net, members.net.communicator
    arrays: dict[str, Any] = {f"{PARAMETERS}{name}": handle.value for name, handle in net.parameters.items()}
    cuts = {name: handle.storage.cut for name, handle in net.parameters.items()}
    parts = {key: cuts[key.removeprefix(PARAMETERS)] for key in arrays}
    histories: dict[str, Any] = {}
    for entry in _history(members):
        histories[entry.key] = entry.piece.of(entry.host).reshape(entry.shape)
        parts[entry.key] = cuts[entry.piece.name]
    if members.updater is not None and communicator is not None:
        histories = whole_arrays(communicator, histories, dict.fromkeys(histories))
    arrays |= histories
    if net.division is not None and communicator is not None:
        arrays = whole_arrays(communicator, arrays, parts)
    memory, remembered_arrays = _memory(members.owners)
    # of whoever remembers nothing now: what it has later is forgotten when the training goes back
    memory = {name: {} for name in members.owners if name.startswith(MAY_FORGET)} | memory
    arrays |= remembered_arrays
    if members.updater is not None and communicator is not None:  # the others' method has not updated anything
        own, own_arrays = _memory({"solver": members.method})
        memory |= communicator.share(own, members.updater)
        updaters = communicator.each_array(own_arrays, wanted=lambda rank, _: rank == members.updater)
        arrays |= {name: array for _, name, array, _ in updaters}
    if communicator is not None:
        idle = net.group is not None and net.group.communicator is None  # it trains no batches, and reads no data
        own, own_arrays = _memory({} if idle else net.owners())
        for rank, values in enumerate(communicator.gather(own)):
            if rank:  # the memory of the first is already there
                memory |= {f"{rank_name(rank)}{name}": found for name, found in values.items()}
        for rank, key, array, _ in communicator.each_array(own_arrays, wanted=lambda rank, _: rank > 0):
            arrays[f"{MEMORY}{rank_name(rank)}{key[len(MEMORY) :]}"] = array
    fitted_arrays, fitted = split_fitted(net.fitted)
    arrays |= fitted_arrays
    state = {
        **described(members),
        "epochs": epochs,
        "memory": memory,
        "fitted": fitted,
        "aliases": {alias: name for name, names in net.parameters.sharers().items() for alias in names[1:]},
    }
    return Snapshot(iteration, arrays, state)


def _memory(owners: Mapping[str, Remembers]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the memory of owners: numbers and strings by owner and key, and arrays by their names in a snapshot."""
    import numpy as np

    memory: dict[str, dict[str, Any]] = {}
    arrays: dict[str, Any] = {}
    for name, owner in owners.items():
        for key, value in remembered(owner).items():
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise wrong(owner, f"memory returned the key {brief(key)}, but its keys must be strings")
            if isinstance(value, bool | int | float | str):
                memory.setdefault(name, {})[key] = value
                continue
            try:
                arrays[f"{MEMORY}{name}/{key}"] = array = np.asarray(value)
                if array.dtype.kind not in "biufc":  # what a snapshot can hold
                    raise TypeError(f"numbers of type {array.dtype}")
            except Exception as error:  # a plugin's object may raise anything when it is made an array
                what = "it must be an array of numbers, a number or a string"
                raise wrong(owner, f"memory returned {brief(value)} as '{key}', but {what}") from error
    return memory, arrays


def rank_name(rank: int) -> str:
    """Return how the names of a rank's owners begin in snapshots; those of the first are as if it were alone."""
    return f"rank{rank}/" if rank else ""


def described(members: Members) -> dict[str, Any]:
    """Return the part of a snapshot's state that does not change from iteration to iteration."""
    net = members.net
    return {
        "net": net.name,
        "layers": [table_of(layer.undivided) | {"name": layer.name} for layer in net.layers],
        "seed": net.seed,
        "dtype": net.dtype,
        "compute": net.compute_dtype,
        "backend": net.backend.name,
        "freeze": sorted(net.frozen),
        "solver": members.solver,
        "settings": table_of(members.settings),
        "plan": net.plan,
        **({"ranks": net.ranks} if net.ranks > 1 else {}),
        **members.provenance(),
    }


def first_not_finite(snapshot: Snapshot) -> str:
    """Return where a snapshot holds a number that is not finite, or "": such a snapshot is of no use."""
    import numpy as np

    for name, array in snapshot.arrays.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            return f"the snapshot's entry '{name}'"
    for owner, values in snapshot.state["memory"].items():
        for key, value in values.items():
            if isinstance(value, float) and not isfinite(value):
                return f"the snapshot's entry '{MEMORY}{owner}/{key}'"
    return ""


def restore(members: Members, snapshot: Snapshot, *, reset_solver: bool = False, goes_back: bool = False) -> list[str]:
    """Restore a training from a snapshot. All but the memory of owners is checked before anything is changed.

    With `reset_solver` method and policies stay as they are. A training that `goes_back` has trained already, so that
    owners forget what they have remembered since then. Returns warnings about what has changed since then, and
    what owners say.

    Raises:
        SnapshotError: the snapshot belongs to another net or to another solver, or nothing can be resumed from it.
    """
    state, net, method = snapshot.state, members.net, members.solver
    if "solver" not in state:
        raise SnapshotError(
            "the snapshot holds parameters, but no training to resume",
            "begin a new training with its parameters: --weights (net.load)",
        )
    if state["solver"] != method and not reset_solver:
        raise SnapshotError(
            f"the snapshot was made by the solver {state['solver']}, but this training uses {method}",
            f"train with {state['solver']}, or let the new solver begin anew: --reset-solver (reset_solver=True)",
        )
    if reset_solver:
        state = {key: value for key, value in state.items() if key != "settings"}  # they are meant to be different
    try:
        whole = [layer.undivided for layer in net.layers]
        different = bit_differences(state, described(members), net.given_plan)
        fields = list(field_differences(state, whole, net.frozen, members.settings, net.phase))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise SnapshotError(f"the snapshot's description of its training cannot be read: {error!r}") from error
    net.parameters.check(snapshot)
    check_alike(net.fitted, snapshot.fitted())
    if not reset_solver:
        _load_history(members, snapshot)
    net.parameters.load(snapshot)
    passed_over = SOLVERS_OWN if reset_solver else ()
    forgotten, said = _load_memory(members, snapshot, passed_over, goes_back=goes_back)
    different += [f"the snapshot has no memory of {name}" for name in forgotten]
    if (then := state.get("ranks", 1)) != (now := net.ranks):
        different.append(f"it was made by {then} rank{'s' * (then > 1)}, now there {'are' if now > 1 else 'is'} {now}")
    warnings = {
        "the resumed training may not be the same bit for bit": different,
        "the training has changed since the snapshot": fields,
    }
    return [*(f"{warning}: {'; '.join(reasons)}" for warning, reasons in warnings.items() if reasons), *said]


class _Entry(NamedTuple):
    """One parameter's history: a `piece` of a span's `array`; `host` is a copy of the whole array."""

    history: str
    piece: Piece
    array: Array
    host: np.ndarray[Any, Any]
    shape: tuple[int, ...]

    @property
    def key(self) -> str:
        return f"{HISTORY}{self.history}/{self.piece.name}"


def _history(members: Members) -> Iterator[_Entry]:
    net = members.net
    for name, arrays in members.method.histories.items():
        for span, array in zip(members.spans, arrays, strict=True):
            host = net.backend.to_host(array)
            for piece in span.pieces:
                yield _Entry(name, piece, array, host, net.parameters[piece.name].shape)


def _load_history(members: Members, snapshot: Snapshot) -> None:
    entries = list(_history(members))
    sources = members.net.parameters.names_in(snapshot)
    keys = [f"{HISTORY}{entry.history}/{min(sources[entry.piece.name])}" for entry in entries]
    missing = [entry.key for entry, key in zip(entries, keys, strict=True) if key not in snapshot.arrays]
    if missing:
        raise SnapshotError(
            f"the snapshot has no {', '.join(missing)}: was the parameter frozen then?",
            "freeze the same layers; or let the solver begin anew: --reset-solver (reset_solver=True); or begin a new "
            "training with the parameters: --weights (net.load)",
        )
    found: list[np.ndarray[Any, Any]] = []
    for entry, key in zip(entries, keys, strict=True):
        handle, array = members.net.parameters[entry.piece.name], snapshot.arrays[key]
        if not fits(array.shape, handle.whole_shape):
            raise SnapshotError(
                f"{entry.key} has the shape {array.shape} in the snapshot, but {handle.whole_shape} here"
            )
        found.append(array if (cut := handle.storage.cut) is None else cut.of(array))
    for entry, array in zip(entries, found, strict=True):
        entry.piece.of(entry.host)[:] = array.reshape(-1)
    for array, host in {id(entry.array): (entry.array, entry.host) for entry in entries}.values():
        members.net.backend.from_host(host, array)


_OF_RANK = re.compile(r"rank\d+/(layer\..*)", re.DOTALL)
REPORTING = ("callback.", "history")  # what a training does not need to be the same
MAY_FORGET = ("lr_policy", *REPORTING)  # the others would be told what another class had in its place
SOLVERS_OWN = ("solver", "lr_policy", "momentum_policy")


def _load_memory(
    members: Members, snapshot: Snapshot, passed_over: Collection[str], *, goes_back: bool
) -> tuple[list[str], list[str]]:
    """Restore the memory of every owner.

    Returns the names of those that have a memory but none in the snapshot, and the sentences of the others.
    """
    arrays: dict[str, dict[str, np.ndarray[Any, Any]]] = {}  # by owner, whose name may have a "/" in it
    for key, array in below(snapshot, MEMORY).items():
        for slash in (place for place, letter in enumerate(key) if letter == "/"):
            arrays.setdefault(key[:slash], {})[key[slash + 1 :]] = array
    forgotten: list[str] = []
    said: list[str] = []
    values: dict[str, dict[str, Any]] = snapshot.state.get("memory", {})
    own = rank_name(members.net.rank) if snapshot.state.get("ranks", 1) == members.net.ranks else ""
    layers = members.net.owners()  # of which every rank that has them, and reads data, has saved its own memory
    of_ranks: dict[str, list[str]] = {}
    there = {*(name for name, some in values.items() if some), *arrays}
    for place in sorted(there):
        if match := _OF_RANK.fullmatch(place):
            of_ranks.setdefault(match[1], []).append(place)
    for name, owner in members.owners.items():
        if name in passed_over:
            continue
        places = [f"{own}{name}", name, *of_ranks.get(name, ())] if name in layers else [name]
        place = next((one for one in places if one in there), name)
        saved = {**values.get(place, {}), **arrays.get(place, {})}
        if saved or (goes_back and name in values and remembered(owner)):
            try:
                sentence: Any = owner.remember(saved)
                if sentence is not None:
                    said.append(answered(owner, "remember", sentence, str, "None, or a sentence"))
            except NacreError:
                raise
            except Exception as error:  # a plugin's code may raise anything for a file's values
                raise SnapshotError(
                    f"{foreign(owner) or name} cannot restore its memory from the snapshot: {described_error(error)}",
                    "use the type and version that made the snapshot",
                ) from error
        elif remembered(owner) and not name.startswith(REPORTING):
            forgotten.append(name)
    return forgotten, said
