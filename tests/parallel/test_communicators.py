"""nacre's communicators, by the kit's suite."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mpiexec import MPIEXEC, NEEDS_MPI
from nacre.testing import CommunicatorTests
from nacre_parallel import LocalCommunicator, MpiCommunicator, NcclCommunicator, ShmCommunicator
from rank_pool import pool

SPLITS = """
from nacre_parallel import MpiCommunicator
with MpiCommunicator.connect() as ranks:
    for _ in range(2100):  # MPICH has 2,048 communicators
        part = ranks.split(0)
        part.shared_array((3,))
        part.close()
"""


LARGE = """
import numpy as np
from nacre_parallel import MpiCommunicator
with MpiCommunicator.connect() as ranks:
    array = np.zeros(2**31 + 8, np.uint8)  # 4 GiB on both ranks together
    if ranks.rank == 0:
        array[::2**28] = np.arange(1, 10)
        ranks.send(array, 1)
    else:
        ranks.recv(array, 0)
        assert array[::2**28].tolist() == [*range(1, 10)]
        array[-1] = 11
    ranks.bcast(array, 1)
    assert array[0] == 1 and array[-1] == 11
"""


@pytest.fixture(autouse=True, scope="module")
def remove_what_was_left() -> None:
    """Remove the shared memory that MPI's ranks have left which were killed here before."""
    for path in MpiCommunicator.leftovers():
        path.unlink(missing_ok=True)


class TestLocal(CommunicatorTests):
    communicator = LocalCommunicator
    sizes = (1,)


PIECES = """
import numpy as np
from nacre_parallel import MpiCommunicator, mpi

with MpiCommunicator.connect() as ranks:
    plain, calls, mpi.TOGETHER = ranks._comm, [], 200
    class Counted:
        def __getattr__(self, name):
            def call(*arguments):
                given = next(one for one in arguments if one is not ranks._mpi.IN_PLACE)
                calls.append(len(given[0] if isinstance(given, list) else given))
                return getattr(plain, name)(*arguments)
            return call
    ranks._comm, ranks._most = Counted(), lambda: 30
    for dtype in ("float64", "float16", "int32", "bool"):
        for size in (0, 1, 3, 29, 30, 31, 60, 95):
            numbers = np.arange(size) % 5
            every = [(numbers + rank).astype(dtype) for rank in range(ranks.size)]
            for op in ("max",) if dtype == "bool" else ("sum", "min"):
                wanted = {"sum": np.sum, "min": np.min, "max": np.max}[op](every, axis=0).astype(dtype)
                for ordered in (False, True):
                    mine = every[ranks.rank].copy()
                    ranks.allreduce(mine, op, ordered=ordered)
                    assert np.array_equal(mine, wanted), (dtype, size, op)
                    part = np.empty_like(wanted[ranks.part(size)])
                    ranks.reduce_scatter(every[ranks.rank].copy(), part, op, ordered=ordered)
                    assert np.array_equal(part, wanted[ranks.part(size)]), (dtype, size, op)
            for root in range(ranks.size):
                mine = every[ranks.rank].copy()
                ranks.bcast(mine, root)
                assert np.array_equal(mine, every[root]), (dtype, size, root)
            out = np.empty(size, dtype)
            ranks.allgather(every[0][ranks.part(size)].copy(), out)
            assert np.array_equal(out, every[0]), (dtype, size)
    assert max(calls) == 30, max(calls)
    ranks._comm = plain
"""


class TestShm(CommunicatorTests):
    communicator = ShmCommunicator
    sizes = (2, 1, 3)

    def launcher(self, size: int) -> Sequence[str]:
        return [sys.executable, "-m", "nacre_parallel", "-n", str(size)]


@NEEDS_MPI
class TestMpi(CommunicatorTests):
    communicator = MpiCommunicator
    sizes = (2, 3)

    def launcher(self, size: int) -> Sequence[str]:
        return [MPIEXEC, "-n", str(size)]


@NEEDS_MPI
def test_splits_of_mpi_that_are_closed_can_be_made_without_end() -> None:
    done = subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, "-c", SPLITS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@NEEDS_MPI
def test_an_mpi_that_cannot_count_so_far_does_what_all_do_together_in_pieces() -> None:
    done = subprocess.run(
        [MPIEXEC, "-n", "3", sys.executable, "-c", PIECES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@NEEDS_MPI
def test_messages_of_mpi_may_be_larger_than_2_gib() -> None:
    done = subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, "-c", LARGE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_splits_on_one_machine_leave_no_memory_behind() -> None:
    assert pool(2).run("many_ranks:memory_of_splits", 5) == [0, 0]


class TestNccl(CommunicatorTests):
    """On the stand-in for CuPy, brought together by shm."""

    communicator = NcclCommunicator
    sizes = (2,)

    def launcher(self, size: int) -> Sequence[str]:
        path = os.pathsep.join([str(Path(__file__).parents[1] / "standin"), *filter(None, sys.path)])
        ranks = [sys.executable, "-m", "nacre_parallel", "-n", str(size)]
        return ["env", f"PYTHONPATH={path}", "NACRE_NCCL=1", *ranks]


@pytest.mark.long
class TestShmOfEverySize(TestShm):
    sizes = (1, 4, 5, 6, 7, 8)


@pytest.mark.long
class TestMpiOfEverySize(TestMpi):
    sizes = (1, 4, 5, 6, 7, 8)


@pytest.mark.long
class TestNcclOfEverySize(TestNccl):
    sizes = (1, 3, 4, 8)
