"""Nets that are divided among rank processes learn what one process learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divided_ranks import trained
from mpiexec import MPIEXEC, NEEDS_MPI
from nacre_onednn import OnednnBackend
from rank_pool import pool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BY = {
    "data for convolutions, features for inner products": {"ip1": 1, "drop1": 1, "ip2": 1, "loss": -1},
    "features": {"conv1": 1, "conv2": 1, "pool2": 1, "ip1": 1, "drop1": 1, "ip2": 1, "loss": -1, "train": -1},
}


SCRIPT = """
import json
from divided_ranks import trained
from nacre_parallel import MpiCommunicator
with MpiCommunicator.connect() as ranks:
    found = trained(ranks, {path!r}, {steps})
    if ranks.rank == 0:
        print(json.dumps(found))
"""


def net_file(folder: Path, way: str, dtype: str = "float64") -> str:
    """Write the net file of LeNet, divided in a way; return its path."""
    text = (EXAMPLES / "digits/lenet.toml").read_text().replace("seed = 0", f'seed = 0\ndtype = "{dtype}"')
    for data in ("train.h5", "test.h5"):
        text = text.replace(data, str(EXAMPLES / "digits" / data))
    text = text.replace("batch_size = 64", "batch_size = 63")  # which two ranks divide unevenly
    for name, dim in BY[way].items():
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\npartition_dim = {dim}\n')
    file = folder / "lenet.toml"
    file.write_text(text)
    return str(file)


def check_parameters(found: dict[str, Any], alone: dict[str, Any], close: float = 1e-10) -> None:
    np.testing.assert_allclose(found["losses"], alone["losses"], rtol=close)
    for name, value in alone["parameters"].items():
        np.testing.assert_allclose(found["parameters"][name], value, rtol=close, atol=close, err_msg=name)


@pytest.mark.parametrize("way", BY)
def test_lenet_on_two_rank_processes(tmp_path: Path, way: str) -> None:
    file = net_file(tmp_path, way)
    first, second = pool(2).run("divided_ranks:trained", file, 4)
    check_parameters(first, trained(None, file, 4))
    assert second["losses"] == first["losses"]


@pytest.mark.long
@pytest.mark.skipif(OnednnBackend.unusable() is not None, reason="no oneDNN here")
@pytest.mark.parametrize("way", BY)
def test_lenet_on_two_rank_processes_with_onednn(tmp_path: Path, way: str) -> None:
    file = net_file(tmp_path, way, "float32")
    first, _ = pool(2).run("divided_ranks:trained", file, 4, "onednn")
    check_parameters(first, trained(None, file, 4, "onednn"), 1e-3)


@pytest.mark.long
@NEEDS_MPI
@pytest.mark.parametrize("way", BY)
def test_lenet_on_two_processes_of_mpi(tmp_path: Path, way: str) -> None:
    file = net_file(tmp_path, way)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    command = [MPIEXEC, "-n", "2", sys.executable, "-c", SCRIPT.format(path=file, steps=4)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    check_parameters(json.loads(done.stdout), trained(None, file, 4))
