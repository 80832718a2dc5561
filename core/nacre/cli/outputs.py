"""The output of `predict`: the best classes of each record, or its numbers, as data and as lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, where_it_is
from ..files.reading import unchanged
from ..protocols.layer import Layer, bottoms_of

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile


MOST = 10  # numbers of a regression on one line


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


def names_for(
    file: NetFile, counts: Mapping[str, int], given: Sequence[str] | None, where: str
) -> dict[str, Sequence[str]]:
    """Return the names of the classes of blobs, of which each has so many: those that were given, or the snapshot's.

    Of several blobs those have the given names that have as many classes.

    Raises:
        DataError: the names of `where` are more or fewer than the classes.
    """
    from ..net.fitted import class_names

    if given is None:
        known = class_names(file.layers, file.fitted, counts.get)
        return {blob: known.get(blob, ()) for blob in counts}
    found = {blob: given if count == len(given) else () for blob, count in counts.items()}
    if not any(found.values()):
        has = " and ".join(f"blob '{blob}' has {count} numbers per record" for blob, count in counts.items())
        raise DataError(
            f"{where}: it has {len(given)} names of classes, but {has}",
            "write one name on each line, in the order of the classes",
        )
    return found


def names_of_two(file: NetFile, blob: str) -> Sequence[str] | None:
    """Return the names of two classes, () if unknown, if each number is the probability of the second; else None."""
    from ..net.fitted import CLASSES, two_classes

    if (pair := two_classes(file.layers, blob)) is None:
        return None
    judged, boundary, label = pair
    if boundary != 0.5 and judged == blob:
        return None  # scores
    names = file.fitted.get(label, {}).get(CLASSES, ())
    return names if len(names) == 2 else ()


def best(
    array: np.ndarray[Any, Any], top: int, names: Sequence[str], whole: np.ndarray[Any, Any], *, alone: bool = False
) -> list[list[dict[str, Any]]]:
    """Return the highest numbers of every record: {class, name, value, percent}; percent if they are probabilities.

    These add up to 1, unless each stands `alone`, as where a record may be of several classes. The list of a record is
    empty if some of its results are not finite, or if some of its inputs were NaN (`whole` is false): layers of some
    backends hide NaN, and a class would be a guess. A single number, the result of a regression, is not a class: it has
    no name if `names` has none.
    """
    import numpy as np

    flat: Any = array.reshape(len(array), -1)
    finite = whole & np.isfinite(flat).all(axis=1)
    several = flat.shape[1] > 1
    shares = several and are_probabilities(flat[finite], alone=alone)
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


def are_probabilities(rows: np.ndarray[Any, Any], *, alone: bool = False) -> bool:
    """Return whether every row is of probabilities, which add up to 1 or stand `alone`, and not of other scores."""
    import numpy as np

    if alone:
        return not ((rows < 0) | (rows > 1)).any()
    return bool((rows >= 0).all() and np.allclose(rows.sum(axis=1), 1, atol=1e-3))


class Answer:
    """What is told of each record from one blob: its best classes, or its numbers.

    `names` are those of the classes; `numbers` is true if the output is not of classes, but numbers, in `unit`. `two`
    is what `names_of_two` returns.
    """

    def __init__(
        self, names: Sequence[str], top: int, *, numbers: bool, unit: str, two: Sequence[str] | None = None
    ) -> None:
        self.names, self.top, self.numbers, self.unit, self.two = names, top, numbers, unit, two

    def of(self, array: np.ndarray[Any, Any], whole: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
        """Return for each record {classes: [...]} or {values: [...], unit}, as data for JSON; see `best`."""
        import numpy as np

        alone = self.two is not None
        if self.two and not self.names and array[0].size == 1:
            second = array.reshape(-1, 1)
            if are_probabilities(second, alone=True):
                pairs = np.concatenate([1 - second, second], axis=1)
                return [{"classes": row} for row in best(pairs, self.top, self.two, whole)]
        if not self.numbers:
            return [{"classes": row} for row in best(array, self.top, self.names, whole, alone=alone)]
        rows = array.reshape(len(array), -1).astype(np.float64)
        unit = {"unit": self.unit} if self.unit else {}
        return [
            {"values": row.tolist() if known else [float("nan")] * len(row), **unit}
            for row, known in zip(rows, whole, strict=True)
        ]

    def text(self, told: Mapping[str, Any]) -> str:
        """Return what is told of a record as text: its best classes, or its numbers."""
        unit = f" {self.unit}" if self.unit else ""
        if "values" in told:
            values: Sequence[float] = told["values"]
            more = f" and {len(values) - MOST} more" if len(values) > MOST else ""
            return f"{', '.join(map(figure, values[:MOST]))}{more}{unit}"
        parts = [
            f"{one['name']} {one['percent']:.1f} %"
            if one["percent"] is not None
            else f"{one['name']} {figure(one['value'])}{unit}".lstrip()
            for one in told["classes"]
        ]
        return "  ".join(parts) or "not finite"


class Answers:
    """What is told of each record, from all wanted blobs."""

    def __init__(
        self, file: NetFile, blobs: Sequence[str], names: Sequence[str] | None, where: str, top: int, unit: str
    ) -> None:
        self.file, self.given, self.where = file, names, where
        self.each = {
            blob: Answer(
                names or (),
                top,
                numbers=compares_numbers(file.layers, blob),
                unit=unit,
                two=names_of_two(file, blob),
            )
            for blob in blobs
        }

    def count(self, sizes: Mapping[str, int]) -> None:
        """Find the names of the classes, of which each blob has so many. Raises DataError as `names_for`."""
        for blob, names in names_for(self.file, sizes, self.given, self.where).items():
            self.each[blob].names = names

    def of(self, found: Mapping[str, np.ndarray[Any, Any]], whole: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
        """Return for each record what is told of it, as data for JSON.

        From one blob {classes: [...]} or {values: [...], unit}; from several {outputs: {blob: the same}}.
        """
        told = {blob: answer.of(found[blob], whole) for blob, answer in self.each.items()}
        if len(told) == 1:
            return next(iter(told.values()))
        return [{"outputs": {blob: rows[number] for blob, rows in told.items()}} for number in range(len(whole))]

    def lines(self, key: str, told: Mapping[str, Any], width: int = 0) -> list[str]:
        """Return the lines of a record, one for each blob: its key, and what is told. Numbers get `width` places."""
        if "error" in told:
            return [begin(key, width) + error_text(key, told["error"], told["remedy"])]
        outputs: Mapping[str, Any] = told.get("outputs", {})
        if not outputs:
            return [begin(key, width) + next(iter(self.each.values())).text(told)]
        return [f"{begin(key, width)}{blob}: {self.each[blob].text(one)}" for blob, one in outputs.items()]


def begin(key: str, width: int = 0) -> str:
    """Return what the line of a record begins with."""
    return f"{key:>{width}}: " if key.isdecimal() else f"{key}  "


def error_text(key: str, error: str, remedy: str) -> str:
    """Return what is wrong with a record on one line that begins with its key."""
    at = error.find(f"{key}: ")
    told = error[at + len(key) + 2 :] if at >= 0 and not key.isdecimal() else error
    return "; ".join(f"error: {told}\n{remedy}".strip().splitlines())


def figure(value: float) -> str:
    """Return a number with five digits, and with all before the point if they are at most nine."""
    text = f"{value:.5g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e9 else text


def compares_numbers(layers: Iterable[Layer], output: str) -> bool:
    """Return whether a loss or a statistic compares an output with numbers, so that it is not one of classes."""
    return any(layer.compares_numbers and output in bottoms_of(layer) for layer in layers)
