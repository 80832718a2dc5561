"""What the tests of the command line share: a runner, and a small net with data in a folder of its own."""

from __future__ import annotations

import errno
import json
import os
import pty
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import nacre.discovery.registry
import nacre.files.durable
from nacre.cli.app import nacre as command
from registries import NewRegistry

SCRIPT = [sys.executable, "-c", "from nacre.cli import main; main()"]

NET = """
name = "small"

[[layer]]
type = "HDF5Data"
name = "train"
tops = ["data", "label"]
exclude = ["validation", "test", "predict"]
source = ["train.h5"]
batch_size = 10
shuffle = true
transformers = [["data", { type = "Scale", scale = 0.5 }]]

[[layer]]
type = "HDF5Data"
name = "test"
tops = ["data", "label"]
exclude = ["train", "predict"]
source = ["test.h5"]
batch_size = 10
transformers = [["data", { type = "Scale", scale = 0.5 }]]

[[layer]]
type = "InnerProduct"
name = "ip1"
bottoms = ["data"]
tops = ["ip1"]
output_dim = 12
neuron = "Tanh"

[[layer]]
type = "Dropout"
name = "drop1"
bottoms = ["ip1"]
ratio = 0.25

[[layer]]
type = "InnerProduct"
name = "ip2"
bottoms = ["ip1"]
tops = ["ip2"]
output_dim = 3

[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["ip2", "label"]
exclude = ["predict"]

[[layer]]
type = "Accuracy"
name = "accuracy"
bottoms = ["ip2", "label"]
exclude = ["train", "predict"]

[[layer]]
type = "Softmax"
name = "prob"
bottoms = ["ip2"]
tops = ["prob"]
exclude = ["train", "validation", "test"]

[solver]
type = "SGD"
max_iter = 60
lr_policy = 0.1
momentum_policy = 0.9

[[callback]]
type = "TrainingSummary"
every_n_iter = 20

[[callback]]
type = "ValidationPerformance"
every_n_iter = 30

[[callback]]
type = "Snapshot"
every_n_iter = 20
folder = "snapshots"
"""


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last thing printed, as JSON."""
        whole = self.out.strip()
        return json.loads(whole if whole.startswith(("[", "{\n")) else whole.splitlines()[-1])


def run(*arguments: object, code: int = 0) -> Done:
    """Run a command in this process, and check its exit code."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert result.exit_code == code, result.output
    return Done(result.exit_code, result.stdout, result.stderr)


def terminal(*arguments: str, **variables: str) -> str:
    """Return what a command shows on a terminal, which must end well."""
    outer, inner = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **variables}
    with subprocess.Popen([*SCRIPT, *arguments], stdout=inner, stderr=inner, stdin=inner, env=environment) as process:
        os.close(inner)
        shown = b""
        try:
            while part := os.read(outer, 65536):
                shown += part
        except OSError:  # the other side is closed: how Linux says that all is read
            pass
        os.close(outer)
    assert process.returncode == 0
    return shown.decode()


@contextmanager
def full_disk() -> Generator[None]:
    """Let every durable write fail as on a full disk, once a file is begun."""

    def write(_: int, __: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    full = SimpleNamespace(**{name: getattr(os, name) for name in ("open", "replace", "unlink", "fsync")}, write=write)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nacre.files.durable, "_os", full)
        yield


def write_data(path: Path, records: int, seed: int) -> None:
    """Write records of shape (2, 4) of three classes that can be told apart."""
    random = np.random.default_rng(seed)
    label = np.arange(records) % 3
    data = random.normal(0, 0.3, (records, 2, 4)) + label[:, np.newaxis, np.newaxis] * np.linspace(-1, 1, 4)
    with h5py.File(path, "w") as file:
        file["data"], file["label"] = data.astype(np.float32), label.astype(np.uint8)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> Path:
    """Run in a folder with the small net, on numpy without other settings, and with a registry that may be changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable in ("NACRE_PLUGINS", "NACRE_DISABLE_PLUGINS", "NACRE_NO_PLUGINS", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NACRE_BACKEND", "numpy")  # "auto" takes onednn where it is installed
    monkeypatch.setenv("COLUMNS", "200")  # so that no table is wrapped
    new_registry()
    Path("small.toml").write_text(NET, encoding="utf-8")
    write_data(Path("train.h5"), 60, 0)
    write_data(Path("test.h5"), 27, 1)
    return tmp_path


@pytest.fixture
def trained(folder: Path) -> Path:
    """Return the folder of the snapshots of the small net, trained."""
    run("train", "small.toml", "--json")
    return Path("snapshots")
