"""Ranks that are killed: the training begins again from its last snapshot, and ends with the very same weights."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nacre
from mpiexec import NEEDS_MPI
from rank_trials import Commands

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = Path(__file__).with_name("rank_plugin.py")
N_ITER = 8
TRIALS = {"shm": 9, "mpi": 1}
"""Kills of each way; those of MPI, which starts slowly, are many in the long tests of test_train.py."""
NET = """
name = "tiny"
seed = 3
backend = "numpy"
[[layer]]
type = "HDF5Data"
name = "train"
tops = ["data", "label"]
source = ["train.h5"]
batch_size = 16
shuffle = true
partition_dim = {source}
[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["data"]
tops = ["ip"]
output_dim = 9
neuron = "ReLU"
partition_dim = {features}
[[layer]]
type = "Dropout"
name = "drop"
bottoms = ["ip"]
partition_dim = {features}
[[layer]]
type = "InnerProduct"
name = "score"
bottoms = ["ip"]
tops = ["score"]
output_dim = 10
partition_dim = {features}
[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
partition_dim = {source}
[solver]
type = "SGD"
max_iter = 8
lr_policy = 0.05
momentum_policy = 0.9
[[callback]]
type = "Snapshot"
every_n_iter = 2
folder = "snapshots"
"""
DOOM = """[[callback]]
type = "Doom"
"""
WAYS = {"data parallel": (0, 0), "divided": (-1, 1)}


@pytest.fixture(name="commands", scope="module")
def commands_() -> Iterator[Commands]:
    with Commands() as made:
        yield made


def train(
    commands: Commands, folder: Path, way: str, doom: str = "", workers: int = 2, by: str = "shm"
) -> dict[str, np.ndarray]:
    """Train in a folder; return the parameters at the end."""
    source, features = WAYS[way]
    (folder / "tiny.toml").write_text(NET.format(source=source, features=features) + (DOOM + doom if doom else ""))
    if not (folder / "train.h5").exists():
        shutil.copy(ROOT / "examples/digits/train.h5", folder / "train.h5")
    several = ["--workers", workers, "--communicator", by] if workers > 1 else []
    options = ["--plugin", PLUGIN, *several, *(["--restarts", 3] if doom else [])]
    code, told, errors = commands.run(folder, "train", "tiny.toml", *options)
    assert code == 0, f"{told}\n{errors}"
    assert ("was ended by SIGKILL" in errors) == bool(doom), errors
    found = nacre.load_snapshot(str(folder / "snapshots"))
    assert found.iteration == N_ITER
    shutil.rmtree(folder / "snapshots")
    return found.parameters()


@pytest.mark.parametrize("by", ["shm", pytest.param("mpi", marks=NEEDS_MPI)])
@pytest.mark.parametrize("way", WAYS)
def test_a_killed_rank_changes_no_weight(commands: Commands, tmp_path: Path, way: str, by: str) -> None:
    whole = train(commands, tmp_path, way)
    draw = random.Random(way + by)
    for _ in range(TRIALS[by]):
        doom = f"at = {draw.randrange(1, N_ITER)}\nrank = {draw.randrange(2)}"
        found = train(commands, tmp_path, way, doom, by=by)
        (tmp_path / "doomed").unlink()
        for name, value in whole.items():
            assert (found[name] == value).all(), f"{doom}: {name}"


def test_eight_ranks_on_few_processors_find_what_one_process_finds(commands: Commands, tmp_path: Path) -> None:
    one, eight = (train(commands, tmp_path, "data parallel", workers=workers) for workers in (1, 8))
    for name, value in one.items():
        np.testing.assert_allclose(eight[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
