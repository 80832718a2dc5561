"""nacre's communicators, by the kit's suite."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nacre.testing import CommunicatorTests
from nacre_parallel import LocalCommunicator, MpiCommunicator, NcclCommunicator, ShmCommunicator

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}")


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
