"""How ranks are started, stopped and begun again, and how they end: always, and with one word about it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre
from mpiexec import MPIEXEC, NEEDS_MPI
from nacre.cli.ranks import resuming
from nacre_parallel import Ranks
from rank_trials import Commands

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = Path(__file__).with_name("rank_plugin.py")
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
LIMIT = 600.0  # seconds after which a command is taken to hang
LAST = 8
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
[[layer]]
type = "InnerProduct"
name = "score"
bottoms = ["data"]
tops = ["score"]
output_dim = 10
[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
[solver]
type = "SGD"
max_iter = 8
lr_policy = 0.05
momentum_policy = 0.9
[[callback]]
type = "TrainingSummary"
every_n_iter = 1
[[callback]]
type = "Snapshot"
every_n_iter = 2
folder = "snapshots"
"""
RANK = "from nacre_parallel import ShmCommunicator\nimport os, signal, sys\n"
NUMBER = "number = int(os.environ['NACRE_SHM'].split(':')[2])\n"
CONNECT = f"{RANK}ranks = ShmCommunicator.connect()\n"


@pytest.fixture(name="commands", scope="module")
def commands_() -> Iterator[Commands]:
    with Commands() as made:
        yield made


@pytest.fixture(name="folder")
def folder_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ROOT / "examples/digits/train.h5", tmp_path / "train.h5")
    (tmp_path / "tiny.toml").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_doom(folder: Path, doom: str) -> None:
    (folder / "doomed").unlink(missing_ok=True)
    (folder / "tiny.toml").write_text(f'{NET}[[callback]]\ntype = "Doom"\n{doom}\n' if doom else NET)


def train(
    commands: Commands, folder: Path, *options: str, doom: str = "", code: int = 0, workers: int = 2
) -> tuple[str, str]:
    """Train the net in a folder; return what is printed on both streams."""
    with_doom(folder, doom)
    words = ["train", "tiny.toml", "--plugin", PLUGIN, "--workers", workers, *options]
    found, told, errors = commands.run(folder, *words)
    assert found == code, f"exit code {found}\n{told}\n{errors}"
    return told, errors


def parameters(folder: Path, name: str = "snapshots") -> dict[str, np.ndarray]:
    found = nacre.load_snapshot(str(folder / name))
    assert found.iteration == LAST
    return found.parameters()


def check_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, value in wanted.items():
        assert (found[name] == value).all(), name


# One that ends before the others


@pytest.mark.parametrize("code", [0, 130, 143])
def test_a_rank_that_ends_without_a_word_ends_all(code: int) -> None:
    script = f"{CONNECT}ranks.rank and os._exit({code})\nranks.barrier()"
    with Ranks([sys.executable, "-c", script], 2) as ranks:
        assert ranks.run() == 1
    assert ranks.message == f"rank 1 of 2 has ended before the others, with exit code {code}"
    assert not ranks.killed


def test_a_rank_that_ends_before_it_is_connected_ends_all() -> None:
    script = f"{RANK}{NUMBER}number and sys.exit(130)\nShmCommunicator.connect().barrier()"
    with Ranks([sys.executable, "-c", script], 2) as ranks:
        assert ranks.run() == 1
    assert ranks.message == "rank 1 of 2 has ended before the others, with exit code 130"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-n", "0", "train.py"], "error: 0 ranks, but there must be 1 to 256 of them\n"),
        (["-n", "2", "./no-such-command"], "error: [Errno 2] No such file or directory: './no-such-command'\n"),
        (["2", "train.py"], "usage: python -m nacre_parallel -n RANKS COMMAND ...\n"),
    ],
)
def test_what_cannot_be_started_is_told_in_a_line(words: list[str], told: str) -> None:
    command = [sys.executable, "-m", "nacre_parallel", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_programs_that_know_nothing_of_ranks_may_end() -> None:
    with Ranks([sys.executable, "-c", ""], 2) as ranks:
        assert (ranks.run(), ranks.message) == (0, "")


def test_a_message_may_have_any_letters() -> None:
    script = f"{CONNECT}ranks.rank and ranks.abort('odd \\udc80 ' + 'x' * 9000, 2)\nranks.barrier()"
    with Ranks([sys.executable, "-c", script], 2) as ranks:
        assert ranks.run() == 2
    assert ranks.message.startswith("rank 1 of 2: odd \\udc80 xxx")


def test_a_rank_that_leaves_a_training_ends_all(commands: Commands, folder: Path) -> None:
    _, errors = train(commands, folder, doom='at = 3\nhow = "exit"', code=1)
    assert errors == "error: rank 1 of 2 has ended before the others, with exit code 0\n"


def test_an_error_at_the_end_is_told_once(commands: Commands, folder: Path) -> None:
    _, errors = train(commands, folder, doom='when = "finish"\nhow = "raise"', code=2)
    assert errors == "error: rank 1 of 2: the well has run dry\n  dig deeper\n"


def test_debug_shows_the_traceback_of_a_rank(commands: Commands, folder: Path) -> None:
    _, errors = train(commands, folder, "--debug", doom='at = 3\nhow = "bug"', code=1)
    assert errors.startswith("Traceback (most recent call last)")
    assert errors.count('raise ValueError("a mistake")') == 1
    assert errors.splitlines()[-2].startswith("error: rank 1 of 2: callback 'Doom': run raised ValueError")


def test_ranks_that_cannot_be_connected_say_so_once(folder: Path) -> None:
    fakes = folder / "fakes"
    fakes.mkdir()
    (fakes / "cupy.py").write_text("raise ImportError('there is none')")
    words = [sys.executable, "-m", "nacre", "train", "tiny.toml", "--workers", "2", "--communicator", "nccl"]
    path = os.pathsep.join([str(fakes), *filter(None, sys.path)])
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1, done.stderr
    assert "the communicator nccl needs CuPy with NCCL: there is none" in done.stderr


# Signals


@NEEDS_PROC
@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_ranks_that_are_still_starting(number: signal.Signals, code: int) -> None:
    script = (
        f"{RANK}{NUMBER}sys.path.append({str(PLUGIN.parent)!r})\nfrom rank_plugin import stop_launcher\n"
        f"if number: ShmCommunicator.connect().barrier()\nstop_launcher({int(number)})\nwhile True: signal.pause()"
    )
    words = [sys.executable, "-m", "nacre_parallel", "-n", "2", sys.executable, "-c", script]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@NEEDS_PROC
def test_a_hang_up_that_is_ignored_ends_no_ranks() -> None:
    script = (
        f"{RANK}sys.path.append({str(PLUGIN.parent)!r})\nfrom rank_plugin import stop_launcher\n"
        f"stop_launcher({int(signal.SIGTERM)}, {int(signal.SIGHUP)})\nwhile True: signal.pause()"
    )
    launcher = "import runpy, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    launcher += "runpy.run_module('nacre_parallel', run_name='__main__')"
    words = [sys.executable, "-c", launcher, "-n", "1", sys.executable, "-c", script]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")


@NEEDS_PROC
@pytest.mark.parametrize(("name", "code"), [("SIGHUP", 129), ("SIGINT", 130), ("SIGTERM", 143)])
def test_a_training_that_is_stopped_does_not_begin_again(
    commands: Commands, folder: Path, name: str, code: int
) -> None:
    doom = f'when = "start"\nhow = "{name}"\nrank = 0'
    told, errors = train(commands, folder, "--restarts", "3", doom=doom, code=code)
    assert errors == ""
    assert "done after" not in told


@NEEDS_PROC
def test_a_framework_for_one_process_is_told_of(commands: Commands, folder: Path) -> None:
    _, errors = train(commands, folder, "--set", "solver.framework=Hogwild", workers=1)
    assert errors.startswith("warning: Hogwild is a framework for several ranks, but this is one process")


def test_the_next_command_starts_the_same_ranks(commands: Commands, folder: Path) -> None:
    told, _ = train(commands, folder, "--restarts", "1", doom='at = 3\nhow = "signal"', code=143)
    assert "train tiny.toml --resume auto --workers 2 --restarts 1" in told
    run = json.loads((folder / "snapshots/run.json").read_text())
    assert run["command"][-4:] == ["--workers", "2", "--restarts", "1"]
    assert (run["ranks"], run["net"]["layers"][0]["batch_size"]) == (2, 16)


def test_a_system_may_send_a_signal_to_all_processes(commands: Commands, folder: Path) -> None:
    options = ["--restarts", "3", "--set", "solver.max_iter=50000"]
    _, errors = train(commands, folder, *options, doom='at = 3\nhow = "all"', code=143)
    assert errors == ""
    assert nacre.load_snapshot(str(folder / "snapshots")).iteration >= 3


# Streams


COMMUNICATORS = ["shm", pytest.param("mpi", marks=NEEDS_MPI)]


def workers(communicator: str, *options: str) -> list[str]:
    several = ["--workers", "2", "--communicator", communicator]
    return [sys.executable, "-m", "nacre", "train", "tiny.toml", *several, *options]


@pytest.mark.parametrize("communicator", COMMUNICATORS)
def test_a_training_goes_on_when_nobody_reads_what_it_prints(folder: Path, communicator: str) -> None:
    read, write = os.pipe()
    os.close(read)
    words = workers(communicator)
    done = subprocess.run(words, check=False, stdout=write, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    os.close(write)
    told = "warning: nothing more can be printed: Broken pipe; the work continues\n"
    assert (done.returncode, done.stderr) == (0, told)
    parameters(folder)


@pytest.mark.parametrize("communicator", COMMUNICATORS)
def test_the_result_of_ranks_is_printed_as_json_to_stdout(folder: Path, communicator: str) -> None:
    words = workers(communicator, "--json")
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["iterations"] == LAST


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_ranks_are_connected_where_streams_are_closed(tmp_path: Path, closed: str) -> None:
    script = tmp_path / "meet.py"
    script.write_text(f"{CONNECT}ranks.barrier()\nsys.stderr.write('met\\n')\nranks.close()\n")
    shell = f"{shlex.join([sys.executable, '-m', 'nacre_parallel', '-n', '2', str(script)])} {closed}"
    done = subprocess.run(["bash", "-c", shell], check=False, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, "met\nmet\n")


def test_the_exit_code_tells_where_nothing_else_can(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(f"{CONNECT}ranks.rank and ranks.abort('it is over', 3)\nranks.barrier()")
    shell = f"{shlex.join([sys.executable, '-m', 'nacre_parallel', '-n', '2', str(script)])} 2>&-"
    assert subprocess.run(["bash", "-c", shell], check=False, timeout=LIMIT).returncode == 3


# To begin again


def test_a_command_that_goes_on_has_no_other_beginning() -> None:
    words = ["train", "net.toml", "--resume=there", "--reset-solver", "--set", "seed=1"]
    assert resuming(words) == ["train", "net.toml", "--set", "seed=1", "--resume", "auto"]
    assert resuming(resuming(words)) == resuming(words)


def test_ranks_begin_again_where_they_began(commands: Commands, folder: Path) -> None:
    """Killed before they have saved anything, they go on from what was given, and not from what lies in the folder."""
    train(commands, folder, "--set", "solver.max_iter=4", "--set", "solver.lr_policy=0.5")
    (folder / "snapshots").rename(folder / "base")
    resume = ["--resume", "base", "--set", "solver.lr_policy=0.05"]
    train(commands, folder, *resume)
    wanted = parameters(folder)  # they stay in the folder, as those of an earlier training
    _, errors = train(commands, folder, *resume, "--restarts", "3", doom='when = "start"')
    assert "the ranks begin again as before, with no snapshot yet (restart 1 of 3)" in errors
    check_same(parameters(folder), wanted)


def test_a_new_training_does_not_go_on_with_an_earlier_one(commands: Commands, folder: Path) -> None:
    train(commands, folder)
    wanted = parameters(folder)
    shutil.rmtree(folder / "snapshots")
    train(commands, folder, "--set", "solver.lr_policy=0.5")
    train(commands, folder, "--restarts", "3", doom='when = "start"')
    check_same(parameters(folder), wanted)


def test_a_new_solver_is_new_once(commands: Commands, folder: Path) -> None:
    train(commands, folder, "--set", "solver.max_iter=3")
    (folder / "snapshots").rename(folder / "base")
    resume = ["--resume", "base", "--reset-solver"]
    train(commands, folder, *resume)
    wanted = parameters(folder)
    shutil.rmtree(folder / "snapshots")
    _, errors = train(commands, folder, *resume, "--restarts", "3", doom="at = 7")
    assert "the ranks begin again from the last snapshot (restart 1 of 3)" in errors
    check_same(parameters(folder), wanted)


# MPI


def mpi(*options: str, launcher: Sequence[str] = ()) -> list[str]:
    several = [] if launcher else ["--workers", "2", "--communicator", "mpi"]
    return [*launcher, sys.executable, "-m", "nacre", "train", "tiny.toml", "--plugin", str(PLUGIN), *several, *options]


@NEEDS_MPI
def test_ctrl_c_in_a_terminal_reaches_the_ranks_of_mpi_once(folder: Path) -> None:
    words = mpi("--restarts", "3", "--set", "solver.max_iter=50000")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, text=True, start_new_session=True, **pipes) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "iteration 5:" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        told, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, errors
    assert "stopped by SIGINT after" in told and "error" not in errors
    assert list((folder / "snapshots").glob("snapshot-*.h5"))


@NEEDS_MPI
def test_ranks_of_mpi_end_with_the_process_that_started_them(folder: Path) -> None:
    import fcntl

    words = mpi("--set", "solver.max_iter=50000", "--log", "log.jsonl")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "iteration 5:" in line:
                break
        process.kill()
        assert process.wait() == -signal.SIGKILL
    with (folder / "log.jsonl").open() as log:
        fcntl.flock(log, fcntl.LOCK_EX)  # waits until the rank that writes it has ended


@NEEDS_MPI
def test_an_error_of_all_ranks_of_mpi_is_told_once(folder: Path) -> None:
    launcher = [MPIEXEC, "-n", "3"]
    words = mpi("--set", "layer.train.batch_size=1", "--json", launcher=launcher)
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2
    assert done.stderr.count("error: rank") == 1, done.stderr
    assert done.stdout.count('{"error": "train: batch_size=1 cannot be divided among 3 ranks"') == 1, done.stdout


@NEEDS_MPI
@pytest.mark.parametrize("other", ['[cluster]\ntype = "Hogwild"', '[cluster]\ntype = "Sandblaster"'])
def test_ranks_that_disagree_on_the_framework_are_told_so(folder: Path, other: str) -> None:
    (folder / "other.toml").write_text(f"{NET}{other}\n")
    one = [sys.executable, "-m", "nacre", "train"]
    words = [MPIEXEC, "-n", "1", *one, "tiny.toml", ":", "-n", "1", *one, "other.toml"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2
    assert "the ranks do not train the same: framework: type is 'AllReduce' on rank 0, but" in done.stderr
