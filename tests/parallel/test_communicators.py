"""nacre's communicators, by the kit's suite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nacre.testing import CommunicatorTests
from nacre_parallel import LocalCommunicator, MpiCommunicator, NcclCommunicator, ShmCommunicator
from rank_pool import pool

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}")


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


class TestShm(CommunicatorTests):
    communicator = ShmCommunicator
    sizes = (2, 1, 3)

    def launcher(self, size: int) -> Sequence[str]:
        return [sys.executable, "-m", "nacre_parallel", "-n", str(size)]


@pytest.mark.skipif(MPIEXEC is None, reason="no mpich beside this Python (nacre[mpi])")
class TestMpi(CommunicatorTests):
    communicator = MpiCommunicator
    sizes = (2, 3)

    def launcher(self, size: int) -> Sequence[str]:
        return [MPIEXEC or "mpiexec", "-n", str(size)]


@pytest.mark.skipif(MPIEXEC is None, reason="no mpich beside this Python (nacre[mpi])")
def test_splits_of_mpi_that_are_closed_can_be_made_without_end() -> None:
    done = subprocess.run(
        [MPIEXEC or "mpiexec", "-n", "2", sys.executable, "-c", SPLITS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.skipif(MPIEXEC is None, reason="no mpich beside this Python (nacre[mpi])")
def test_messages_of_mpi_may_be_larger_than_2_gib() -> None:
    done = subprocess.run(
        [MPIEXEC or "mpiexec", "-n", "2", sys.executable, "-c", LARGE], capture_output=True, text=True, check=False
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
