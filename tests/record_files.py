"""Records of a file, as a net would get them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nacre import open_records
from nacre.net.files import FileRecords, Needed, batches


def read_records(path: Path, name: str = "data", shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return all records of a file, scaled to `shape` if they are pictures."""
    with open_records([path], [name], shapes={name: shape} if shape else {}) as reader:
        return np.stack([row[name] for row in reader.rows()])


def predict_input(path: Path, shape: tuple[int, ...] | None = None, name: str = "data") -> np.ndarray:
    """Return all records of a file, as `nacre predict` takes them."""
    with FileRecords(None, [path], name, Needed(shape)) as records:
        return np.concatenate([batch.records[name] for batch in batches({name: records}, 100)])
