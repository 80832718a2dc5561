"""What `predict` gives: the best classes on the screen, and blobs in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".npy", ".npz", ".h5", ".hdf5", ".csv")


def check_out(out: Path, blobs: Sequence[str]) -> None:
    """Check a file's name before any work is done. Raises ConfigError."""
    if out.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"--out {out}: it must end in {', '.join(SUFFIXES)}")
    if out.suffix.lower() in (".npy", ".csv") and len(blobs) > 1:
        raise ConfigError(f"--out {out}: it holds one blob, but {len(blobs)} are wanted", "take .npz or .h5")


def read_classes(path: Path) -> list[str]:
    """Read the names of the classes, one a line."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: it cannot be read: {error}") from error


def best(array: np.ndarray[Any, Any], top: int, names: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Give the highest numbers of every record: {class, name, value, percent}; percent if they are probabilities."""
    import numpy as np

    flat = array.reshape(len(array), -1)
    shares = bool((flat >= 0).all() and np.allclose(flat.sum(1), 1, atol=1e-3))
    rows: list[list[dict[str, Any]]] = []
    for values in flat:
        order = np.argsort(-values, kind="stable")[:top]
        rows.append(
            [
                {
                    "class": int(place),
                    "name": names[place] if place < len(names) else str(place),
                    "value": float(values[place]),
                    "percent": 100 * float(values[place]) if shares else None,
                }
                for place in order
            ]
        )
    return rows


def print_best(rows: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Print one line for each record."""
    width = len(str(len(rows) - 1))
    for number, row in enumerate(rows):
        told = [
            f"{one['name']} {one['percent']:.2f} %"
            if one["percent"] is not None
            else f"{one['name']} {one['value']:.5g}"
            for one in row
        ]
        click.echo(f"{number:{width}}: {', '.join(told)}")


def write(out: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write blobs to a file, whole or not at all; its name's ending says how."""
    import importlib
    import io

    import numpy as np

    from ..durable import atomic_write

    kind = out.suffix.lower()
    data = io.BytesIO()
    first = next(iter(arrays.values()))
    if kind in (".npy", ".csv") and len(arrays) > 1:
        raise ConfigError(
            f"--out {out}: it holds one blob, but the net ends in {', '.join(arrays)}", "choose one: --blob"
        )
    if kind == ".npy":
        np.save(data, first)
    elif kind == ".npz":
        np.savez(data, allow_pickle=False, **arrays)
    elif kind == ".csv":
        np.savetxt(data, first.reshape(len(first), -1), delimiter=",", fmt="%.9g")
    else:
        h5py: Any = importlib.import_module("h5py")  # which has no types
        with h5py.File(data, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
    atomic_write(out, data.getvalue(), DataError)
