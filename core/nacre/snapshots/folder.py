"""The folder of a training's snapshots: SnapshotFolder, which never loses one; reading and opening stores.

A file is written under a temporary name, made durable, renamed, and the folder made durable, in this order. So at any
moment, even if the process is killed or the power fails, the newest snapshot in the folder is complete. The bytes come
from a `store`, whose digest shows whether a file is damaged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from ..arguments import how_to_call, path_of
from ..discovery.offers import FIRST_PARTY
from ..errors import ConfigError, ContractError, PluginError, SnapshotError, brief
from ..fields.outputs import MARK, claim_folder, output_place
from ..files.durable import FULL, FolderLock, atomic_write, explained, make_folder, move, os_errors, remove
from ..files.reading import check_file
from .snapshot import SAVED, Snapshot, check_state

if TYPE_CHECKING:
    from .snapshot import SnapshotStore


BEST, RUN = "best.json", "run.json"
WORDS = ("best", "latest")
"""What may stand for a snapshot in the folder of a training."""


class SnapshotFolder:
    """The snapshots of one training: the `keep` newest, the best, and `run.json`, which describes the run.

    Reading needs no lock. Writing is for `with folder:` (or between `lock` and `unlock`), one process at a time.
    """

    def __init__(self, path: str | Path, store: SnapshotStore, keep: int = 3) -> None:
        if keep < 1:
            raise ConfigError(f"snapshot folder {path}: keep={keep}, but at least 1 must be kept")
        self.path = path_of(path)
        self.place = path
        self.store = store
        self.keep = keep
        self._lock: FolderLock | None = None

    @property
    def locked(self) -> bool:
        """Whether this process may write here; a fork of it may not."""
        return self._lock is not None and self._lock.held

    def lock(self) -> SnapshotFolder:
        """Make the folder if needed, lock it for this process, and remove half-written files of a killed one.

        The system releases the lock when the process ends. Raises `SnapshotError` naming the process that has it.
        """
        if not self.locked:
            with os_errors(self.path, "cannot be used for snapshots"):
                claim_folder(self.place, self._is_ours, SnapshotError)
            self._lock = FolderLock(self.path)
            try:
                self._settle_best()
                self._remove_litter()
            except BaseException:
                self.unlock()
                raise
        return self

    def unlock(self) -> None:
        """Unlock the folder; calling it twice is harmless."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> SnapshotFolder:
        return self.lock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unlock()

    def save(
        self, snapshot: Snapshot, best: bool = False, value: float | None = None, run: dict[str, Any] | None = None
    ) -> Path:
        """Write a snapshot, durable on return, then remove those no longer kept.

        Nothing is removed before, unless the disk is full: then those no longer kept are removed first, the oldest
        first and only as many as needed, once the `keep` newest before this one were found to be complete. `best` marks
        it as the one to keep until a better one comes; `value` is the value of its statistic. `run` is for `write_run`.
        Snapshots of later iterations, of a training that was resumed before them, stay.
        """
        self._demand_lock()
        path = self.path / f"snapshot-{snapshot.iteration:06d}{self.store.suffix}"
        data = self.store.encode(snapshot)
        if best:  # before the snapshot: else a training killed in between would resume from it and never mark it
            previous = self._best()
            if previous is not None:
                previous["previous"] = None  # two are enough: the file of this one exists
            marker = {"file": path.name, "iteration": snapshot.iteration, "value": value, "previous": previous}
            self._write(self.path / BEST, _json(BEST, marker), snapshot.iteration)
        self._write(path, data, snapshot.iteration)
        if run is not None:
            self.write_run(run)
        self._remove_old(snapshot.iteration)
        return path

    def put_aside(self, after: int) -> list[Path]:
        """Move the snapshots of iterations above `after` into another folder; return their new paths.

        For a training that begins or is resumed at `after`: later snapshots are those of an earlier training; they must
        neither be resumed nor count as the best of this one.
        """
        self._demand_lock()
        late = [path for path in self.files() if (self._number(path.name) or 0) > after]
        if not late:
            return []
        aside = next(path for number in count(1) if not (path := self.path / f"aside-{number}").exists())
        with os_errors(aside, "cannot be made"):
            make_folder(aside)
        moved = [move(path, aside) for path in reversed(late)]  # newest first: a kill in between leaves no gap
        self._settle_best()
        return moved[::-1]

    def write_run(self, run: dict[str, Any]) -> None:
        """Write into `run.json` how this training runs (command, net, plugins and kernels, versions, processor)."""
        self._demand_lock()
        self._write_json(RUN, run)

    def best(self) -> Path | None:
        """Return the file of the best snapshot, or None if none was marked."""
        marker = self._best()
        return self.path / marker["file"] if marker else None

    def files(self) -> list[Path]:
        """Return the snapshot files, by iteration, oldest first."""
        with os_errors(self.path, "cannot be read"):
            names = [path.name for path in self.path.iterdir()] if self.path.exists() else []
        numbered = [(number, name) for name in names if (number := self._number(name)) is not None]
        return [self.path / name for _, name in sorted(numbered)]

    def newest(self, warn: Callable[[str], object]) -> Snapshot | None:
        """Return the newest snapshot that is not damaged, or None if there is no file.

        `warn` gets a message for each damaged one before it. Raises `SnapshotError` if all files are damaged.
        """
        files = self.files()
        for path in reversed(files):
            try:
                return self.load(path)
            except SnapshotError as error:
                warn(f"{error}\n  it is skipped; the snapshot before it is used")
        if files:
            raise SnapshotError(
                f"{self.path}: none of the {len(files)} snapshots can be read",
                "begin anew in another folder, or restore an undamaged snapshot",
            )
        return None

    def load(self, path: str | Path) -> Snapshot:
        """Read one snapshot file, or raise `SnapshotError` naming file and reason."""
        return _load_file(Path(path), self.store)

    def _is_ours(self, path: Path) -> bool:
        """Return whether a folder has snapshots in it, or only other files of a training."""
        names = [one.name for one in path.iterdir()]
        own = re.compile(r"aside-[0-9]+|\.lock|(best|run)\.json|\..*\.tmp")
        return any(self._number(name) is not None for name in names) or all(map(own.fullmatch, names))

    def _demand_lock(self) -> None:
        if not self.locked:
            raise ContractError(f"{self.path}: a snapshot folder must be locked for writing: `with folder:`")
        output_place(self.place)

    def _best(self) -> dict[str, Any] | None:
        """Return the marker of the best snapshot, or the one before if that snapshot was never written."""
        marker: Any = _read_json(self.path / BEST)
        while isinstance(marker, dict):
            table = cast("dict[str, Any]", marker)
            name = table.get("file")
            if not isinstance(name, str) or self._number(name) is None:
                raise SnapshotError(f"{self.path / BEST}: damaged: it names no snapshot", "remove this file")
            if (self.path / name).exists():
                return table
            marker = table.get("previous")
        return None

    def _settle_best(self) -> None:
        """Remove the mark of a snapshot that was never written: another training may write one of this name."""
        best = self._best()
        if best is None:
            remove(self.path / BEST)
        elif best != _read_json(self.path / BEST):
            self._write_json(BEST, best)

    def _number(self, name: str) -> int | None:
        match = re.fullmatch(rf"snapshot-([0-9]{{6,18}}){re.escape(self.store.suffix)}", name)
        return int(match[1]) if match else None

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        atomic_write(self.path / name, _json(name, content), SnapshotError)

    def _write(self, path: Path, data: bytes, iteration: int) -> None:
        surplus: list[Path] | None = None
        while True:
            try:
                return atomic_write(path, data, SnapshotError)
            except SnapshotError as error:
                if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in FULL:
                    raise
                surplus = self._surplus(iteration, whole=True) if surplus is None else surplus
                if not surplus:
                    raise
            remove(surplus.pop(0))

    def _remove_old(self, iteration: int) -> None:
        for path in self._surplus(iteration):
            remove(path)

    def _surplus(self, iteration: int, *, whole: bool = False) -> list[Path]:
        """Return the files that are no longer kept; with `whole`, none if one of those that are kept is damaged."""
        best = self.best()
        past = [path for path in self.files() if (self._number(path.name) or 0) <= iteration]
        surplus = [path for path in past[: -self.keep] if path != best]
        if whole and surplus:
            try:
                for path in past[-self.keep :]:
                    self.load(path)
            except SnapshotError:
                return []
        return surplus

    def _remove_litter(self) -> None:
        for path in self.path.glob(".*.tmp"):
            name = path.name[1:-4]
            if name in (BEST, RUN, MARK) or self._number(name) is not None:
                remove(path)


def meant(path: str | Path, place: tuple[str, str] | None) -> str | Path:
    """Return the path of a snapshot: "best" and "latest" are those of a `place`, a folder and the name of its store.

    A file or folder in the working folder that has this name is meant itself.

    Raises:
        SnapshotError: there is no such snapshot, or no folder.
    """
    if str(path) not in WORDS or Path(path).exists():
        return path
    if place is None:
        raise SnapshotError(
            f"'{path}' is a snapshot in the folder of a callback, but there is no callback that saves snapshots",
            "add one to the net file or the solver, or give the path of a snapshot",
        )
    folder, store = place
    if str(path) == "latest":
        return folder
    best = SnapshotFolder(folder, open_snapshot_store(store)).best()
    if best is None:
        raise SnapshotError(
            f"{folder}: no snapshot in this folder is marked as the best",
            "a callback marks it: ValidationPerformance with the field `best`; the newest is 'latest'",
        )
    return best


def snapshot_of(given: object) -> Snapshot:
    """Return a snapshot, or the one that a path names. Raises ConfigError if it is neither, else as `load_snapshot`."""
    if isinstance(given, Snapshot):
        return given
    if isinstance(given, str | os.PathLike):
        return load_snapshot(cast("str | os.PathLike[str]", given))
    raise ConfigError(f"snapshot={brief(given)}, but it must be a snapshot, or the path of one")


@how_to_call("load_snapshot(path, store=...)")
def load_snapshot(
    path: str | os.PathLike[str], store: SnapshotStore | str = "", warn: Callable[[str], object] | None = None
) -> Snapshot:
    """Read one snapshot file, or the newest one in a folder that is not damaged.

    `store` reads it. If it is a name or "", any installed store for this ending may read it, the named one first.
    `warn` gets a message for each damaged file that is skipped; by default there is a Python warning.

    Raises:
        SnapshotError: naming file and reason.
        RegistryError, PluginError: the named store cannot be opened.
    """
    path, warn = path_of(path), warn or _python_warning
    if str(path) in WORDS and not path.exists():
        raise SnapshotError(
            f"'{path}' is a snapshot in the folder of a net file's callback, but here is no net file",
            f"give the path of a snapshot or of its folder; nacre.config.load('net.toml').snapshot('{path}') reads it",
        )
    with os_errors(path, "cannot be read", SnapshotError):
        is_folder, is_file = path.is_dir(), path.is_file()
    if path.suffix == SAVED and not is_folder:
        store = default_snapshot_store()
    stores = open_snapshot_stores(store) if isinstance(store, str) else [store]
    if is_folder:
        return _load_folder(path, stores, warn)
    fitting = [one for one in stores if path.name.endswith(one.suffix)] if isinstance(store, str) else stores
    if is_file and not fitting:
        known = ", ".join(dict.fromkeys(one.suffix for one in stores)) or "none"
        raise SnapshotError(f"{path}: no installed store reads files with this ending; known endings: {known}")
    problems: list[SnapshotError] = []
    for one in fitting or stores[:1]:
        try:
            return _load_file(path, one)
        except SnapshotError as error:
            problems.append(error)
    raise problems[0] if problems else SnapshotError(f"{path}: no store is installed, so it cannot be read")


def _load_folder(path: Path, stores: Iterable[SnapshotStore], warn: Callable[[str], object]) -> Snapshot:
    suffixes: dict[str, None] = {}
    for store in stores:
        snapshot = SnapshotFolder(path, store).newest(warn)
        if snapshot is not None:
            return snapshot
        suffixes[store.suffix] = None
    names = " or ".join(f"snapshot-*{suffix}" for suffix in suffixes)
    raise SnapshotError(f"{path}: no {names} in this folder", where_aside(path))


def where_aside(folder: str | Path) -> str:
    """Return a hint where `put_aside` moved the snapshots of a folder, or "" if there are none."""
    found = [path for path in Path(folder).glob("aside-*") if re.fullmatch(r"aside-[0-9]+", path.name)]
    found.sort(key=lambda path: int(path.name.removeprefix("aside-")))
    return f"those of earlier trainings were moved to {', '.join(map(str, found))}" if found else ""


def _python_warning(message: str) -> None:
    import warnings

    warnings.warn(message, stacklevel=4)


def open_snapshot_store(name: str, pins: Mapping[str, str] | None = None) -> SnapshotStore:
    """Open a store of snapshots by name. Raises RegistryError or PluginError."""
    from ..discovery.registry import registry

    if not registry().offers("snapshot_store", name) and registry().offers("store", name):
        message = f"'{name}' is offered as a 'store', which is now the kind of files of records"
        raise PluginError(message, "a plugin offers a format of snapshots as a 'snapshot_store'")
    return registry().open("snapshot_store", name, pins)()


def default_snapshot_store() -> SnapshotStore:
    """Open the store that saved nets are written by, whatever the callbacks of their trainings use."""
    from ..discovery.registry import registry

    return registry().open("default_of", "snapshot_store")()


def open_snapshot_stores(first: str = "") -> list[SnapshotStore]:
    """Open every installed store that can be used here, the store named `first` before all others.

    Raises:
        RegistryError, PluginError: `first` cannot be opened.
    """
    from ..discovery.registry import registry

    stores: list[SnapshotStore] = [open_snapshot_store(first)] if first else []
    # nacre's come before others, so that no installed package reads a file that nacre can read
    for offer in sorted(registry().offers("snapshot_store"), key=lambda offer: offer.distribution != FIRST_PARTY):
        with suppress(PluginError):
            stores.append(registry().make(offer))
    return stores


def _load_file(path: Path, store: SnapshotStore) -> Snapshot:
    try:
        check_file(path, "a snapshot, or of its folder", SnapshotError)
        data = path.read_bytes()
    except OSError as error:
        raise SnapshotError(*explained(path, "cannot be read", error)) from error
    except MemoryError as error:
        raise SnapshotError(f"{path}: does not fit into memory") from error
    return replace(store.decode(data, str(path)), path=str(path))


def _json(name: str, content: dict[str, Any]) -> bytes:
    check_state(content, name)
    return json.dumps(content, indent=2).encode() + b"\n"


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        if path.exists() and not path.is_file():  # reading a pipe might never end
            raise SnapshotError(f"{path}: not a file", "remove it")
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{path}: cannot be read: {error}", "remove this file") from error
    if not isinstance(content, dict):
        raise SnapshotError(f"{path}: damaged: it is not a JSON object", "remove this file")
    return cast("dict[str, Any]", content)
