"""Every test here runs in a folder with files of records, with stores of another distribution."""

from pathlib import Path

import h5py
import numpy as np
import pytest

import nacre
from foreign_stores import OFFERED
from nacre import Field
from nacre_data import HDF5
from registries import NewRegistry, install_plugin

CLASSES = ("dog", "cat", "cow")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> Path:
    """Work in a folder with `train.h5`: 60 records of shape (1, 2, 4), and labels of three classes."""
    monkeypatch.chdir(tmp_path)
    new_registry()
    install_plugin(nacre.registry(), "acme-lines", OFFERED)
    random = np.random.default_rng(0)
    fields = {"data": Field((1, 2, 4), "float32"), "label": Field((), "int64", CLASSES)}
    with HDF5().create(Path("train.h5"), fields) as writer:
        writer.append({"data": random.normal(0, 1, (60, 1, 2, 4)).astype(np.float32), "label": np.arange(60) % 3})
    return tmp_path


@pytest.fixture
def train(folder: Path) -> dict[str, np.ndarray]:
    """Return what is in `train.h5`."""
    with h5py.File(folder / "train.h5") as file:
        return {name: file[name][()] for name in ("data", "label")}
