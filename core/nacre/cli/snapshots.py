"""Reading the snapshots of a command line, and remedies for missing plugins from what snapshots record."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .options import read_net
from .screen import warn

if TYPE_CHECKING:
    from ..config.netfile import NetFile
    from ..snapshots.snapshot import Snapshot
    from ..training.solver import Solver


def read_trained(
    net: Path,
    sets: tuple[str, ...],
    seed: int | None,
    path: str | Path,
    writes: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[NetFile, Snapshot]:
    """Return a net file and a snapshot of it: a file, the newest complete one of a folder, or "best" or "latest".

    A saved net is its own snapshot.

    The nets of the file know of the training data what the snapshot knows.

    Raises:
        ConfigError: the net file cannot be read; if a plugin for it is missing, and the snapshot records its name, the
            remedy has this name.
        SnapshotError: the snapshot cannot be read.
    """
    with advised(net, sets, path):
        file = read_net(net, sets, seed, writes, to_train=False)
    snapshot = file.saved if file.saved is not None and path == net else load_snapshot(path, file)
    return replace(file, fitted=snapshot.fitted()), snapshot


def load_snapshot(path: str | Path, file: NetFile | None = None) -> Snapshot:
    """Return a snapshot from a file, or the newest complete one of a folder; net file or ending determine the store.

    Raises:
        SnapshotError: it cannot be read.
    """
    from ..discovery.registry import following
    from ..errors import SnapshotError
    from ..snapshots.folder import load_snapshot, meant

    place = file.snapshot_place() if file is not None else None
    try:
        with following(file.pins if file is not None else {}):
            return load_snapshot(meant(path, place), place[1] if place else "", warn)
    except SnapshotError as error:
        unmade = file.unmade() if file is not None else []
        error.remedy = "\n  ".join(filter(None, [error.remedy, *(f"perhaps it needs this: {one}" for one in unmade)]))
        raise


@contextmanager
def advised(net: Path, sets: Sequence[str], *snapshots: str | Path) -> Generator[None]:
    """If a net file cannot be read, add to the remedy which plugins offered the missing names, from snapshots.

    Each is a file or a folder, or "auto", "latest" or "best" of the net file's own callback; "" is none.
    """
    from ..errors import NacreError

    try:
        yield
    except NacreError as error:
        remedies = [remedy for one in snapshots if one for remedy in _remedies(net, sets, one)]
        error.remedy = "\n  ".join(filter(None, [error.remedy, *dict.fromkeys(remedies)]))
        raise


def _remedies(net: Path, sets: Sequence[str], path: str | Path) -> list[str]:
    from ..config.netfile import named_after
    from ..config.overrides import apply_override
    from ..errors import NacreError
    from ..fields.component import make_component
    from ..files.toml import read_toml
    from ..snapshots.folder import load_snapshot, meant
    from ..snapshots.provenance import remedies
    from ..training.callback import Callback, snapshot_place

    places: list[tuple[str, str]] = []
    with suppress(NacreError), named_after(net):  # the net file may have any error: then there is no remedy
        table = read_toml(net)
        for change in sets:
            apply_override(table, change)
        given = table.get("callback")
        for entry in cast("list[Any]", given) if isinstance(given, list) else []:
            with suppress(NacreError, ValueError):
                place = snapshot_place(make_component(Callback, entry))
                places += [place] if place else []
        place = places[0] if places else None
        path = meant("latest" if str(path) == "auto" else path, place)
        snapshot = load_snapshot(path, place[1] if place else "", lambda _: None)
        return remedies(snapshot.state.get("origins"), set(_texts(table)))
    return []


def _texts(value: Any) -> Iterator[str]:
    """Yield every string in a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inside = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for entry in inside:
            yield from _texts(entry)


def resumed(file: NetFile, solver: Solver, resume: str) -> Snapshot | None:
    """Return the snapshot from which a training continues, or None if it begins anew; see `training.train`."""
    if resume != "auto":
        return load_snapshot(resume, file) if resume else None
    from ..errors import ConfigError
    from ..snapshots.folder import SnapshotFolder, open_snapshot_store, where_aside

    place = solver.snapshot_place()
    if place is None:
        raise ConfigError(
            f"{file.path} has no callback that saves snapshots, so there is no folder to resume from",
            "add one to the net file, or use --resume PATH",
        )
    folder, store = place
    newest = SnapshotFolder(folder, open_snapshot_store(store, file.pins)).newest(warn)
    if newest is None:
        aside = where_aside(folder)
        warn(f"there is no snapshot in {folder} yet, so the training begins anew{aside and f'; {aside}'}")
    return newest
