"""The output of `predict` on the screen: the best classes of each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DataError, where_it_is
from ..files.reading import unchanged

if TYPE_CHECKING:
    import numpy as np


def read_classes(path: Path) -> list[str]:
    """Return the names of the classes from a file with one on each line. Raises DataError."""
    try:
        with unchanged(path):
            return [line.strip() for line in path.read_text(encoding="utf-8-sig").rstrip().splitlines()]
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file", where_it_is(path)) from error
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error.strerror}", "use a text file with one class on each line"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text file (UTF-8): {error.reason} at byte {error.start}") from error


def check_classes(names: Sequence[str], array: np.ndarray[Any, Any], file: str, blob: str) -> None:
    """Check that each class has a name. Raises DataError."""
    count = array[0].size
    if len(names) != count:
        raise DataError(
            f"{file}: it has {len(names)} names of classes, but blob '{blob}' has {count} numbers per record",
            "write one name on each line, in the order of the classes",
        )


def best(
    array: np.ndarray[Any, Any], top: int, names: Sequence[str], whole: np.ndarray[Any, Any]
) -> list[list[dict[str, Any]]]:
    """Return the highest numbers of every record: {class, name, value, percent}; percent if they are probabilities.

    The list of a record is empty if some of its results are not finite, or if some of its inputs were NaN (`whole` is
    false): layers of some backends hide NaN, and a class would be a guess. A single number, the result of a regression,
    is not a class: it has no name if `names` has none.
    """
    import numpy as np

    flat: Any = array.reshape(len(array), -1)
    finite = whole & np.isfinite(flat).all(axis=1)
    several = flat.shape[1] > 1
    shares = several and bool((flat[finite] >= 0).all() and np.allclose(flat[finite].sum(1), 1, atol=1e-3))
    rows: list[list[dict[str, Any]]] = []
    for values, known in zip(flat, finite, strict=True):
        order = np.argsort(-values, kind="stable")[: top if known else 0]
        rows.append(
            [
                {
                    "class": int(index),
                    "name": names[index] if index < len(names) else str(index) * several,
                    "value": float(values[index]),
                    "percent": 100 * float(values[index]) if shares else None,
                }
                for index in order
            ]
        )
    return rows


def print_best(keys: Sequence[str], rows: Sequence[Sequence[Mapping[str, Any]]], width: int) -> None:
    """Print one line for each record: its key, and its best classes. Numbers get `width` places."""
    for key, row in zip(keys, rows, strict=True):
        parts = [
            f"{one['name']} {one['percent']:.1f} %"
            if one["percent"] is not None
            else f"{one['name']} {one['value']:.5g}".lstrip()
            for one in row
        ]
        name = f"{key:>{width}}:" if key.isdecimal() else key
        click.echo(f"{name} {', '.join(parts) or 'not finite'}")
