"""`nacre train --workers`: ends with what one process finds, shows one progress, and never hangs when a rank fails."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import nacre
from mpiexec import MPIEXEC, NEEDS_MPI
from slurm import MISSING, slurm

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = Path(__file__).with_name("rank_plugin.py")
NEEDS_SLURM = pytest.mark.skipif(bool(MISSING), reason=f"no Slurm here (Debian's packages): {', '.join(MISSING)}")
SRUN = "srun", "--ntasks=2", "--mpi=pmi2", "--kill-on-bad-exit"
LIMIT = 120.0  # seconds after which a training is taken to hang
N_ITER = 14
NET = """
name = "small"
seed = 3
dtype = "float64"
backend = "numpy"
[[layer]]
type = "HDF5Data"
name = "train"
tops = ["data", "label"]
exclude = ["validation", "test", "predict"]
source = ["train.h5"]
batch_size = 32
shuffle = true
transformers = [["data", { type = "Scale", scale = 0.0625 }], ["data", { type = "RandomShift", pixels = 1 }]]
[[layer]]
type = "HDF5Data"
name = "test"
tops = ["data", "label"]
exclude = ["train", "predict"]
source = ["test.h5"]
batch_size = 101
transformers = [["data", { type = "Scale", scale = 0.0625 }]]
[[layer]]
type = "Convolution"
name = "conv"
bottoms = ["data"]
tops = ["conv"]
n_filter = 4
kernel = 3
neuron = "ReLU"
[[layer]]
type = "Dropout"
name = "drop"
bottoms = ["conv"]
[[layer]]
type = "InnerProduct"
name = "score"
bottoms = ["conv"]
tops = ["score"]
output_dim = 10
[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
exclude = ["predict"]
[[layer]]
type = "Accuracy"
name = "accuracy"
bottoms = ["score", "label"]
exclude = ["predict"]
[solver]
type = "SGD"
max_iter = 14
lr_policy = 0.05
momentum_policy = 0.9
[[callback]]
type = "TrainingSummary"
every_n_iter = 5
[[callback]]
type = "ValidationPerformance"
every_n_iter = 7
[[callback]]
type = "Snapshot"
every_n_iter = 2
folder = "snapshots"
"""
DOOM = """[[callback]]
type = "Doom"
"""


@pytest.fixture(name="folder")
def folder_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("train.h5", "test.h5"):
        shutil.copy(ROOT / "examples/digits" / name, tmp_path / name)
    (tmp_path / "small.toml").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*options: str, doom: str = "", ranks: int = 2, before: Sequence[str] = (), code: int = 0) -> tuple[str, str]:
    """Train the net in this folder; return what it prints on both streams."""
    Path("small.toml").write_text(NET + (DOOM + doom if doom else ""))
    workers = [] if before or ranks == 1 else ["--workers", str(ranks)]
    words = ["-m", "nacre", "train", "small.toml", "--plugin", str(PLUGIN), *workers, *options]
    command = [*before, sys.executable, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def parameters(path: str = "snapshots") -> dict[str, np.ndarray]:
    found = nacre.load_snapshot(path)
    assert found.iteration == N_ITER
    return found.parameters()


def without_speed(text: str) -> str:
    return (
        re.sub(r"[\d,.]+ records/s|: [\d.]+ s|, waited for data .*", "", text)
        .replace(" on 2 ranks", "")
        .replace(", 2 ranks", "")
    )


@dataclass(frozen=True)
class Done:
    """What a training that nothing has happened to prints, and the parameters that it ends with."""

    told: str
    parameters: dict[str, np.ndarray]

    def equals(self) -> None:
        """Check that the training in this folder has ended with the same bits."""
        for name, value in parameters().items():
            assert (value == self.parameters[name]).all(), name


@pytest.fixture(name="done", scope="module")
def done_(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Done]:
    """Return the trainings of one process and of two."""
    found: dict[int, Done] = {}
    for ranks in (1, 2):
        folder = tmp_path_factory.mktemp(f"ranks{ranks}")
        for name in ("train.h5", "test.h5"):
            shutil.copy(ROOT / "examples/digits" / name, folder / name)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            told, errors = train(ranks=ranks)
            assert errors == ""
            found[ranks] = Done(told, parameters())
    return found


def check_close(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, value in found.items():
        assert np.abs(value - wanted[name]).max() < 1e-10, name


def test_two_ranks_end_with_what_one_process_finds(done: dict[int, Done]) -> None:
    assert without_speed(done[2].told) == without_speed(done[1].told)
    check_close(done[2].parameters, done[1].parameters)


@pytest.mark.long
def test_a_training_goes_on_with_another_number_of_ranks(folder: Path) -> None:
    train("--set", "solver.max_iter=6")
    told, errors = train("--resume", "auto", ranks=1)
    assert "continuing from iteration 6" in told
    assert "it was made by 2 ranks, now there is 1" in errors
    assert parameters()


@pytest.mark.long
def test_a_rank_that_is_killed_ends_all_with_a_word_about_it(folder: Path) -> None:
    _, errors = train(doom="at = 5", code=1)
    assert "error: rank 1 of 2 was ended by SIGKILL" in errors


@pytest.mark.long
def test_an_error_of_one_rank_is_that_of_all(folder: Path) -> None:
    _, errors = train(doom='at = 5\nhow = "raise"', code=2)
    assert errors == "error: rank 1 of 2: the well has run dry\n  dig deeper\n"


@pytest.mark.long
def test_a_bug_in_one_rank_ends_all(folder: Path) -> None:
    _, errors = train(doom='at = 5\nhow = "bug"', code=1)
    assert "rank 1 of 2" in errors and "a mistake" in errors


@pytest.mark.long
def test_what_stops_one_rank_stops_all(folder: Path) -> None:
    told, _ = train(doom='at = 5\nhow = "stop"')
    assert "stopped by Doom after 5 iterations" in told


def test_a_signal_ends_all_ranks_at_one_iteration(done: dict[int, Done], folder: Path) -> None:
    told, _ = train(doom='at = 4\nhow = "signal"', code=143)
    assert "stopped by SIGTERM after" in told
    train("--resume", "auto")
    done[2].equals()


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
def test_ranks_begin_again_from_the_last_snapshot(done: dict[int, Done], folder: Path, rank: int) -> None:
    _, errors = train("--restarts", "2", doom=f"at = 7\nrank = {rank}")
    assert f"rank {rank} of 2 was ended by SIGKILL" in errors and "restart 1 of 2" in errors
    done[2].equals()


@pytest.mark.long
@pytest.mark.parametrize("communicator", ["shm", pytest.param("mpi", marks=NEEDS_MPI)])
@pytest.mark.parametrize("number", range(200))
def test_a_rank_may_be_killed_at_any_moment(
    number: int, communicator: str, done: dict[int, Done], folder: Path
) -> None:
    options = ["--restarts", "3", "--communicator", communicator]
    train(*options, doom=f'at = {number}\nrank = {number % 2}\nhow = "whenever"')
    done[2].equals()


@pytest.mark.long
def test_options_are_refused_where_they_mean_nothing(folder: Path) -> None:
    _, errors = train("--restarts", "2", ranks=1, code=2)
    assert "--restarts is only for --workers" in errors
    _, errors = train("--communicator", "mpi", ranks=1, code=2)
    assert "--communicator is only for --workers" in errors
    _, errors = train("--set", "solver.max_itr=3", code=2)
    assert errors.startswith("error: small.toml: [solver]: unknown field 'max_itr'")
    _, errors = train("--set", "layer.train.batch_size=1", code=2)
    assert "train: batch_size=1 cannot be divided among 2 ranks" in errors


@NEEDS_MPI
def test_mpiexec_starts_ranks_too(done: dict[int, Done], folder: Path) -> None:
    told, errors = train(before=[MPIEXEC, "-n", "2"])
    assert errors == ""
    assert without_speed(told) == without_speed(done[1].told)
    check_close(parameters(), done[1].parameters)


@pytest.mark.long
@NEEDS_MPI
def test_an_error_of_one_rank_of_mpi_is_that_of_all(folder: Path) -> None:
    _, errors = train(doom='at = 5\nhow = "raise"', before=[MPIEXEC, "-n", "2"], code=2)
    assert "error: rank 1 of 2: the well has run dry" in errors


@pytest.fixture(name="in_slurm", scope="module")
def in_slurm_(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with slurm(tmp_path_factory.mktemp("slurm")) as config, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(config))
        yield


@pytest.mark.long
@NEEDS_MPI
@NEEDS_SLURM
def test_slurm_starts_ranks_too(in_slurm: None, done: dict[int, Done], folder: Path) -> None:
    for before in (SRUN, ("salloc", "--quiet", "--ntasks=2", MPIEXEC, "-n", "2")):
        told, _ = train(before=before)
        assert without_speed(told) == without_speed(done[1].told)
        check_close(parameters(), done[1].parameters)
        shutil.rmtree("snapshots")


@pytest.mark.long
@NEEDS_MPI
@NEEDS_SLURM
def test_processes_that_slurm_starts_apart_are_refused(in_slurm: None, folder: Path) -> None:
    _, errors = train(before=["srun", "--ntasks=2", "--mpi=none"], code=2)
    assert "srun has started 2 processes (SLURM_STEP_NUM_TASKS=2), but MPICH" in errors
    assert "use the launcher of this MPI (its mpiexec), or one that it understands: srun --mpi=pmi2" in errors
    assert not Path("snapshots").exists()


@pytest.mark.long
@NEEDS_SLURM
def test_a_job_of_several_tasks_may_train_with_one_process(in_slurm: None, done: dict[int, Done], folder: Path) -> None:
    train(before=["salloc", "--quiet", "--ntasks=2"])
    done[1].equals()


@pytest.mark.long
@NEEDS_MPI
@NEEDS_SLURM
def test_a_rank_that_is_killed_ends_all_of_a_step_of_slurm(in_slurm: None, done: dict[int, Done], folder: Path) -> None:
    _, errors = train(before=SRUN, doom="at = 5", code=137)
    assert "task 1: Killed" in errors
    train("--resume", "auto", before=SRUN)
    check_close(parameters(), done[1].parameters)
