"""The mpiexec beside this Python, which the extra `mpi` brings."""

import shutil
import sys
from pathlib import Path

import pytest

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}") or ""
NEEDS_MPI = pytest.mark.skipif(not MPIEXEC, reason="no mpich beside this Python (nacre[mpi])")
