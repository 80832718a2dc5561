"""Records of a file, as a net would get them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nacre import open_records
from nacre.cli.inputs import Inputs
from nacre.config import NetFile


def read_records(path: Path, name: str = "data", shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return all records of a file, scaled to `shape` if they are pictures."""
    with open_records([path], [name], shapes={name: shape} if shape else {}) as reader:
        return np.stack([row[name] for row in reader.rows()])


def predict_input(path: Path, shape: tuple[int, ...] | None = None, name: str = "data") -> np.ndarray:
    """Return all records of a file, as `nacre predict` takes them."""
    with Inputs(NetFile(path, {}, ()), [path], name, shape) as inputs:
        return np.concatenate([batch.records for batch in inputs.batches(100)])
