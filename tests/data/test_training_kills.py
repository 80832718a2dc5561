"""A training that is killed and taken up again sees the records that it would have seen, however they are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from kill_trials import Trainings
from nacre import Field, Layer, Net, Solver
from nacre.snapshots.folder import SnapshotFolder
from nacre_data import (
    LMDB,
    HDF5DataLayer,
    HDF5Store,
    ImageDataLayer,
    LabelLayer,
    LMDBDataLayer,
    PrefetchLayer,
    RGBImageLayer,
    Shard,
    ShardDataLayer,
)
from nacre_layers import InnerProductLayer, SoftmaxLossLayer
from nacre_solvers import SGD, Snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")

COUNT = 11

FORMATS: dict[str, tuple[type[Layer], str, dict[str, Any]]] = {
    "HDF5": (HDF5DataLayer, "x.h5", {"cache_bytes": 0}),
    "LMDB": (LMDBDataLayer, "x.mdb", {"cache_bytes": 0}),
    "shard": (ShardDataLayer, "x.kvfile", {"cache_bytes": 0}),
    "folder": (ImageDataLayer, "pictures", {"short_side": 7, "crop_size": 6}),
}
WAYS: dict[str, dict[str, Any]] = {
    "shuffle": {},
    "augmentation": {"random": True},
    "Prefetch": {"random": True, "prefetch": 3},
    "processes": {"random": True, "processes": 2, "ahead": 2},
    "all": {"random": True, "prefetch": 2, "processes": 2, "ahead": 1},
}
FEW = {("HDF5", "processes"), ("LMDB", "Prefetch"), ("shard", "all"), ("folder", "augmentation")}
EACH = max(1, int(os.environ.get("NACRE_TRIALS", "1000")) // (len(FORMATS) * len(WAYS)))
TRIALS = [
    pytest.param(format, way, trials, marks=marks)
    for format in FORMATS
    for way in WAYS
    for trials, marks in ((EACH, pytest.mark.long), (1, ()))
    if marks or (format, way) in FEW
]


def write_records(folder: Path) -> None:
    """Write the same records in all formats."""
    random = np.random.default_rng(0)
    fields = {"image": Field((3, 7, 7), "uint8"), "label": Field((), "int64")}
    records = {"image": random.integers(0, 256, (COUNT, 3, 7, 7), np.uint8), "label": np.arange(COUNT) % 3}
    with h5py.File(folder / "x.h5", "w") as file:
        for name, values in records.items():
            file[name] = values
    for store, name in ((Shard(), "x.kvfile"), (LMDB(), "x.mdb")):
        with store.create(folder / name, fields) as writer:
            writer.append(records)
    image = pytest.importorskip("PIL.Image")
    for number, pixels in enumerate(records["image"].transpose(0, 2, 3, 1)):
        path = folder / "pictures" / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels).save(path)


def layers(
    data: Path, format: str, *, random: bool = False, prefetch: int = 0, processes: int = 0, ahead: int = 0
) -> list[Layer]:
    kind, name, fields = FORMATS[format]
    if random and format == "folder":
        fields = {**fields, "mirror": True}
    elif random:
        fields = {**fields, "transformers": [["image", {"type": "RandomShift", "pixels": 1}]]}
    how: dict[str, Any] = {"batch_size": 3, "shuffle": True, "processes": processes, "ahead": ahead}
    source = [
        kind(name="data", source=str(data / name), tops=["image", "class"], **how, **fields)
        if format == "folder"
        else kind(name="data", source=str(data / name), tops=["image", "label"], **how, **fields),
        RGBImageLayer(bottoms="image", tops="rgb", scale=1 / 256, **{"crop_size": 5, "mirror": True} if random else {}),
    ]
    if format == "folder":
        source.append(LabelLayer(bottoms="class", tops="label"))
    if prefetch:
        source = [PrefetchLayer(name="prefetch", layer=source, ahead=prefetch)]
    return [
        *source,
        InnerProductLayer(bottoms="rgb", tops="ip", output_dim=3),
        SoftmaxLossLayer(bottoms=["ip", "label"]),
    ]


def training(folder: Path, saved: Callable[[int], None]) -> bytes:
    """Train for 8 iterations, as the folder's name and that of its parent say: what `kill_child.py` wants."""

    def listen(event: str, data: dict[str, object]) -> None:
        if event == "snapshot":
            saved(int(str(data["iteration"])))
        elif event == "warning" and "nothing is left to train" not in str(data["message"]):
            sys.exit(str(data["message"]))

    format, way = folder.parent.name.split()
    options = {"random": WAYS[way].get("random", False)} if folder.name.startswith("plain") else WAYS[way]
    solver = Solver(SGD(), max_iter=8, lr_policy=0.1, callbacks=[Snapshot(folder=folder, every_n_iter=1, keep=2)])
    with Net("killed", layers(folder.parents[1], format, **options), backend="numpy") as net:
        resume = SnapshotFolder(folder, HDF5Store()).newest(warn=sys.exit)
        solver.solve(net, resume=resume, reports=[listen])
        return b"".join(handle.value.tobytes() for handle in net.parameters.values())


@pytest.fixture(name="trainings", scope="module")
def trainings_() -> Iterator[Trainings]:
    with Trainings(Path(__file__), "training") as trainings:
        yield trainings


@pytest.fixture(name="data", scope="module")
def data_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("lmdb")
    folder = tmp_path_factory.mktemp("records")
    write_records(folder)
    return folder


@pytest.mark.parametrize(("format", "way", "trials"), TRIALS)
def test_a_training_that_is_killed_sees_the_records_that_it_would_have_seen(
    format: str, way: str, trials: int, trainings: Trainings, data: Path
) -> None:
    here = data / f"{format} {way}"
    whole = trainings.train(here / f"plain-{trials}")  # neither ahead nor in processes
    assert whole["exit"] == 0
    for _ in trainings.killed_and_resumed(here / f"killed-{trials}", whole, trials):
        pass
