"""Snapshot: saves everything that a training needs to continue."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from nacre import (
    Callback,
    CallbackState,
    OutputPath,
    PerNet,
    SnapshotFolder,
    Training,
    default,
    open_snapshot_store,
    positive,
    registry,
    table_of,
)


class Snapshot(Callback):
    """Saves the training into a folder: every so many iterations, and at the end. The event is "snapshot".

    Only this training may use the folder while it runs. The folder holds the `keep` newest files, the best one if a
    callback finds one (`ValidationPerformance(best=...)`, run at the same iterations), and `run.json`, which describes
    the run. Snapshots of a training that this one does not continue are moved to `aside-1` or the next such folder,
    with a warning: those of later iterations, or all if the snapshot that is resumed lies in another folder. So nothing
    is lost, and none of them is resumed by mistake.

    It always runs after the callbacks whose memory it saves, whatever their order in the list. Of several ranks, the
    first one writes the files, which have the memory of all.
    """

    runs_last = True
    outputs = ("folder",)

    folder: Annotated[
        OutputPath, "the folder; relative to the working folder; in net.toml by default snapshots/net"
    ] = default(PerNet("snapshots", "snapshots/{net}"))
    keep: Annotated[int, positive, "how many of the newest snapshots to keep"] = 3
    store: Annotated[str, "file format, the name of a store"] = "HDF5"

    def start(self, training: Training) -> CallbackState:
        return SnapshotState(self, training)

    def snapshots(self) -> tuple[str, str]:
        return self.folder, self.store


class SnapshotState(CallbackState):
    """`Snapshot` in one training: holds the folder's lock, on the rank that writes.

    Raises:
        SnapshotError: another training saves its snapshots there, or the folder cannot be written.
    """

    def __init__(self, callback: Snapshot, training: Training) -> None:
        super().__init__(callback, training)
        store = open_snapshot_store(callback.store, training.net.pins)
        self.communicator = training.net.communicator
        self.writes = self.communicator is None or self.communicator.rank == 0
        self.folder = SnapshotFolder(callback.folder, store, callback.keep)
        if self.writes:
            self.folder.lock()
        self.best: float | None = None
        self.saved: int | None = None

    def begin(self) -> None:
        training = self.training
        if self.writes:
            self._begin()
        if self.communicator is not None:
            self.saved, training.snapshot_path, self.best = self.communicator.share(
                [self.saved, training.snapshot_path, self.best]
            )

    def _begin(self) -> None:
        training = self.training
        start = training.resumed_from
        self.folder.write_run(describe(training))  # before anything is moved: if it fails, nothing is moved
        moved = self.folder.put_aside(-1 if start is None or self._is_elsewhere(training.resumed_path) else start)
        if moved:
            several = f"snapshots of another training, {moved[0].name} to {moved[-1].name}, were"
            what = several if len(moved) > 1 else f"snapshot of another training, {moved[0].name}, was"
            where = f"{moved[-1].parent}: remove that folder if you do not need it"
            training.warn(f"the {what} moved to {where}")
        if start is not None:
            mine = [path for path in self.folder.files()[-1:] if _iteration(path) == start]
            self.saved, training.snapshot_path = (start, str(mine[0])) if mine else (None, "")
        if self.folder.best() is None:
            self.best = None

    def _is_elsewhere(self, path: str) -> bool:
        """Return whether a snapshot lies in another folder: those in this one are not of the training that it goes on.

        One that was not read from a file may be of any.
        """
        folder = Path(path).parent
        return bool(path) and not (folder.exists() and folder.samefile(self.folder.path))

    def run(self) -> None:
        training, score = self.training, self.training.score
        judged = score is not None and score.iteration == training.iteration
        best = score is not None and judged and score.beats(self.best)
        if score is not None and best:
            self.best = score.value
        snapshot, path = training.snapshot(), ""
        if self.writes:
            path = str(self.folder.save(snapshot, best=best, value=score.value if score and judged else None))
        if self.communicator is not None:
            path = self.communicator.share(path)
        self.saved, training.snapshot_path = training.iteration, path
        training.report("snapshot", path=path, best=best)

    def finish(self) -> None:
        if self.saved != self.training.iteration:
            self.run()

    def shutdown(self) -> None:
        if self.writes:
            self.folder.unlock()

    def memory(self) -> Mapping[str, Any]:
        return {} if self.best is None else {"best": self.best}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.best = float(memory["best"]) if "best" in memory else None


def describe(training: Training) -> dict[str, Any]:
    """Return how a training is run: what `run.json` holds."""
    net = training.net
    return {
        "command": training.info.get("command", sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed_from": training.resumed_from,
        "ranks": net.ranks,
        "net": {
            "name": net.name,
            "seed": net.seed,
            "dtype": net.dtype,
            "backend": net.backend.name,
            "layers": [table_of(layer.undivided) for layer in net.layers],
        },
        "solver": table_of(training.solver),
        **training.members().provenance(),
        "plugins": [
            {"name": plugin.name, "version": plugin.provenance.version, "status": plugin.status}
            for plugin in registry().plugins()
        ],
    }


def _iteration(path: Path) -> int:
    return int(path.name.removeprefix("snapshot-").partition(".")[0])
