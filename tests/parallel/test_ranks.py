"""What lies around communicators: the launcher, who is a rank of whom, processors, and what killed runs leave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from command_line import command, run
from mpiexec import MPIEXEC, NEEDS_MPI
from nacre import ConfigError, ContractError, RankError
from nacre.random import Random
from nacre_parallel import LocalCommunicator, MpiCommunicator, Ranks, ShmCommunicator
from nacre_parallel.leftovers import unused
from nacre_parallel.mpi import refuse_singletons
from nacre_parallel.processors import part_of
from rank_pool import Pool, pool
from registries import NewRegistry


def test_ranks_that_call_different_methods_are_told_so() -> None:
    ranks = Pool(2)
    with pytest.raises(RankError, match=r"ranks . and . talk about different things: .*(bcast|allreduce) of 40 bytes"):
        ranks.run("many_ranks:differ")
    ranks.close()


def test_named_arrays_of_any_shape_come_together() -> None:
    for found in pool(3).run("many_ranks:arrays"):
        for rank, one in enumerate(found):
            assert one["n"] == [rank, "<i8", []]
            assert one["grid"] == [np.full((rank, 2), rank).tolist(), "<i2", [rank, 2]]
            assert one["empty"][2] == [0, 3]


def test_large_messages_go_at_once_though_nobody_receives_them() -> None:
    ranks = Pool(2)
    sizes = [40_000, 100, 500_000, 39_999, 0]  # of 8 bytes: two share a size of blocks
    for counts, wrong, blocks in ranks.run("many_ranks:gone", sizes, 1 << 28, 3):
        assert counts == [5, 5, 5] and not wrong and blocks == 3
    for counts, wrong, _ in ranks.run("many_ranks:gone", sizes, 4_000_000, 3):
        assert counts == [2, 2, 2] and not wrong
    ranks.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds no processes")
def test_ranks_are_bound_to_their_share_of_the_processors() -> None:
    here = sorted(os.sched_getaffinity(0))
    assert pool(2).run("many_ranks:share") == [part_of(here, 0, 2), part_of(here, 1, 2)]


@NEEDS_MPI
@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="no two processors to bind to"
)
def test_ranks_take_their_share_although_the_launcher_looks_at_each_processor_meanwhile() -> None:
    here = sorted(os.sched_getaffinity(0))
    script = """
import os
from mpi4py import MPI
from nacre_parallel import MpiCommunicator
every, launcher, start = os.sched_getaffinity(0), os.getppid(), MPI.Init

def init():
    start()
    os.sched_setaffinity(launcher, every)

MPI.Init = init
os.sched_setaffinity(launcher, [min(every)])
ranks = MpiCommunicator.connect()
mine = sorted(os.sched_getaffinity(0))
os.write(1, f"{ranks.rank} {mine};".encode())
ranks.close()
"""
    command = [MPIEXEC, "-n", "2", sys.executable, "-c", f"import mpi4py; mpi4py.rc.initialize = False{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split(";")) == ["", *(f"{rank} {part_of(here, rank, 2)}" for rank in (0, 1))]


def test_shares_of_processors_are_disjoint_unless_there_are_too_few() -> None:
    assert [part_of(range(8), rank, 3) for rank in range(3)] == [[0, 1], [2, 3, 4], [5, 6, 7]]
    assert [part_of([4, 9], rank, 4) for rank in range(4)] == [[4], [4], [9], [9]]


def test_a_process_is_no_rank_unless_it_was_started_as_one() -> None:
    assert [one.ranks_here() for one in (LocalCommunicator, ShmCommunicator, MpiCommunicator)] == [0, 0, 0]
    with pytest.raises(ConfigError, match="not started as a rank"):
        ShmCommunicator.connect()


@pytest.mark.parametrize("text", ["", "yes", "3:4:0", "3:4:0:2:1", "3:4:zero:2"])
def test_a_variable_that_somebody_else_has_set_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NACRE_SHM", text)
    with pytest.raises(ConfigError, match=f"NACRE_SHM='{text}', but only nacre sets it"):
        ShmCommunicator.started_here()


def test_a_number_of_ranks_that_cannot_be_is_refused() -> None:
    for size in (0, 1000):
        with pytest.raises(ConfigError, match=f"{size} ranks"):
            Ranks([sys.executable, "-c", ""], size)


def test_ranks_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    script = f"""
import os, sys
from nacre_parallel import Ranks
ranks = Ranks([sys.executable, "-c", "import sys, os; from nacre_parallel import ShmCommunicator; "
    "c = ShmCommunicator.connect(); open({str(tmp_path / "pid")!r} + str(c.rank), 'w').write(str(os.getpid())); "
    "c.barrier(); c.rank == 0 and print('up', flush=True); c.recv(__import__('numpy').zeros(1), c.rank)"], 2)
os.kill(os.getpid(), 9) if sys.stdin.readline() else None
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.stdin.write("now\n")
    process.stdin.flush()
    assert process.wait() == -9
    assert process.stdout.read() == ""  # ends only when the last rank has closed it
    process.stdin.close()
    process.stdout.close()


@pytest.mark.parametrize(
    ("name", "told", "size"), [("PMI_SIZE", 4, 1), ("OMPI_COMM_WORLD_SIZE", 4, 2), ("SLURM_STEP_NUM_TASKS", 2, 1)]
)
def test_processes_that_do_not_find_each_other_are_refused(
    name: str, told: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(told))
    with pytest.raises(RankError, match=rf"started {told} processes \({name}={told}\), but MPICH Version: 5.0.2 finds"):
        refuse_singletons(size, "MPICH Version:      5.0.2\nMPICH Release date: some")
    assert MpiCommunicator.ranks_here() == told
    refuse_singletons(told, "MPICH")


@pytest.mark.parametrize("version", [(3, 1), (4, 0)])
def test_an_mpi_that_cannot_count_so_far_is_told_of(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    class Comm:
        def Get_rank(self) -> int:
            return 0

        def Get_size(self) -> int:
            return 1

        def __getattr__(self, name: str) -> Any:
            raise InterruptedError(name)  # as far as to the MPI

    mpi = SimpleNamespace(Get_version=lambda: version, Get_library_version=lambda: "Open MPI v5.0.1, package", BYTE=1)
    mpi.SUM = mpi.IN_PLACE = None
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    monkeypatch.setattr("nacre_parallel.mpi.COUNTED", 30)
    ranks = MpiCommunicator(Comm())
    for call in (ranks.isend, ranks.irecv):
        with pytest.raises(InterruptedError):
            call(np.zeros(3), 0)
        with pytest.raises((ContractError, InterruptedError)) as told:
            call(np.zeros(4), 0)
        refused = re.match(r"a message of 32 bytes, but Open MPI v5.0.1 counts to 30", str(told.value))
        assert bool(refused) == (version < (4, 0))


def test_helpers_that_mpiexec_starts_by_srun_are_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    monkeypatch.setenv("PMI_SIZE", "8")
    refuse_singletons(8, "MPICH")


def test_one_process_in_a_job_of_several_tasks_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "2")  # as in a script for sbatch, outside of srun
    assert MpiCommunicator.ranks_here() == 0
    refuse_singletons(1, "MPICH")


@pytest.mark.parametrize("words", [["test"], ["predict", "x.csv"]])
def test_commands_that_ranks_do_not_share_are_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for file in (names := [tmp_path / name for name in ("net.toml", "snapshot.h5", *words[1:])]):
        file.touch()
    monkeypatch.setenv("PMI_SIZE", "4")
    told = run(words[0], *names, code=2).err
    assert f"error: nacre {words[0]} runs as one process, but this one was started as one of 4 ranks of mpi" in told
    monkeypatch.delenv("PMI_SIZE")
    assert "ranks of mpi" not in run(words[0], *names, code=2).err  # which is of the empty files


def test_files_that_no_process_uses_are_found(tmp_path: Path) -> None:
    for name in ("sm_segment.a", "sm_segment.b", "other"):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "sm_segment.new").write_bytes(b"x")
    with (tmp_path / "sm_segment.b").open():
        assert unused(tmp_path, ["sm_segment.*"]) == [tmp_path / "sm_segment.a"]
    assert unused(tmp_path / "none", ["*"]) == []


def test_doctor_names_and_removes_what_was_left(tmp_path: Path, new_registry: NewRegistry) -> None:
    left = tmp_path / "left"
    left.write_bytes(b"x" * 5000)
    plugin = tmp_path / "leaving.py"
    plugin.write_text(
        "from pathlib import Path\nimport nacre\nfrom nacre_parallel import LocalCommunicator\n"
        "@nacre.hookimpl\ndef offer_components():\n    return {'communicator': {'leaving': Leaving}}\n"
        "class Leaving(LocalCommunicator):\n    name = 'leaving'\n    @classmethod\n    def leftovers(cls):\n"
        f"        return [path for path in [Path({str(left)!r})] if path.exists()]\n"
    )
    found = json.loads(run("doctor", "--plugin", plugin, "--json", code=1).out)
    (mine,) = [one for one in found if one["about"] == str(left)]
    assert "left by a run that was killed" in mine["problem"]
    assert f"{left}: removed" in CliRunner().invoke(command, ["doctor", "--remove"]).stdout
    assert not left.exists()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_boxes_of_random_numbers_are_those_of_the_whole(dtype: Any) -> None:
    random, shape = Random(3, "layer", lambda: 7), (5, 3, 7)
    whole = np.empty(shape, dtype)
    random.uniform(whole, 2)
    for start, size in (((0, 0, 0), (5, 3, 7)), ((1, 0, 0), (3, 3, 7)), ((2, 1, 3), (2, 2, 4)), ((4, 2, 6), (1, 1, 1))):
        box = np.empty(size, dtype)
        random.uniform(box, 2, whole=shape, start=start)
        cut = tuple(slice(begin, begin + length) for begin, length in zip(start, size, strict=True))
        assert (box == whole[cut]).all(), (start, size)
    again = np.empty(shape, dtype)
    random.uniform(again, 2)
    assert (again == whole).all()
