"""nacre's communicators, by the kit's suite."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nacre.testing import CommunicatorTests
from nacre_parallel import LocalCommunicator, MpiCommunicator, ShmCommunicator

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}")


class TestLocal(CommunicatorTests):
    communicator = LocalCommunicator
    sizes = (1,)


class TestShm(CommunicatorTests):
    communicator = ShmCommunicator

    def launcher(self, size: int) -> Sequence[str]:
        return [sys.executable, "-m", "nacre_parallel", "-n", str(size)]


@pytest.mark.skipif(MPIEXEC is None, reason="no mpich beside this Python (nacre[mpi])")
class TestMpi(CommunicatorTests):
    communicator = MpiCommunicator
    sizes = (2, 1, 3)

    def launcher(self, size: int) -> Sequence[str]:
        return [MPIEXEC or "mpiexec", "-n", str(size)]


@pytest.mark.long
class TestShmOfEverySize(TestShm):
    sizes = (4, 5, 6, 7)


@pytest.mark.long
class TestMpiOfEverySize(TestMpi):
    sizes = (4, 5, 6, 7, 8)
