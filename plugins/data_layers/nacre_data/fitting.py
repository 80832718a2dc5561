"""What a source learns from the training data: the names of its classes, and what transformers are fitted to."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nacre import (
    Blocks,
    ConfigError,
    Converted,
    DataError,
    Transformer,
    check_columns,
    check_own_column,
    class_numbers,
    type_name,
)
from nacre.random import RecordRandom

from .pipeline import Change, applied, shape_after, told
from .records import Records
from .tables import Labels, Naming

CLASSES, COLUMNS = "classes", "columns"
AT_A_TIME = 1 << 22
"""Bytes of a block of records to which transformers are fitted, and at least one record."""
WHOLE = re.compile(r"[0-9]{1,18}\Z")


class ClassNames(Converted["Mapping[str, Sequence[str]] | None", "dict[str, list[str]]"]):
    """Names of the classes that the numbers of tops count."""

    wants = "a table of lists of names, such as {label = ['cat', 'dog']}"

    @staticmethod
    def convert(value: Any) -> dict[str, list[str]]:
        read: dict[str, list[str]] = {}
        for top, names in dict({} if value is None else value).items():
            read[top] = [name for name in names if isinstance(name, str)]
            if isinstance(names, str) or not names or len({*read[top]}) < len(names):
                raise ValueError
        return read


def fitting_complaints(layer: Any) -> Iterator[str]:
    """Yield what is wrong with the classes of a source, and with the order of its transformers."""
    for top in layer.classes:
        if top not in layer.tops:
            yield f"classes name the top '{top}', but it must be one of {', '.join(layer.tops)}"
    seen = set[str]()
    for top, transformer in layer.transformers:
        if isinstance(transformer, Naming) and top in seen:
            yield f"transformers: {type_name(type(transformer))} must be the first transformer of '{top}'"
        seen.add(top)


def with_prefixes(transformers: Sequence[tuple[str, Transformer]]) -> Iterator[tuple[str, Transformer, str]]:
    """Yield (top, transformer, prefix): the beginning of the keys of what it is fitted to; "" for names of classes."""
    counts = Counter[tuple[str, str]]()
    for top, transformer in transformers:
        kind = type_name(type(transformer))
        counts[top, kind] += 1
        number = f".{counts[top, kind]}" if counts[top, kind] > 1 else ""
        yield top, transformer, "" if isinstance(transformer, Naming) else f"{kind}{number}/"


def prepare(
    layer: Any,
    top: str,
    records: np.ndarray,
    random: Any,
    phase: str,
    fitted: Mapping[str, Any],
    classes: Sequence[str],
) -> np.ndarray:
    """Return records that stand for a source's own; see `Layer.prepare`."""
    mine = [(transformer, prefix) for name, transformer, prefix in with_prefixes(layer.conversion) if name == top]
    if classes and not (mine and isinstance(mine[0][0], Naming)):
        known = fitted.get(CLASSES)
        _numbers("the records", top, classes, classes if known is None else known).transform(records)
    for transformer, prefix in mine:
        if transformer.needs_fit:
            transformer = _ready(f"{layer.name}: '{top}'", transformer, prefix, fitted, classes, phase)
        with told(layer.name, f"transformers: {top}"):
            records = applied(transformer, records, random, phase)
    return records


class Fitting:
    """The names of classes and the fitted transformers of one source; `fitted` is {top: {key: value}}, `labels` int64.

    Names are known at once, so that layers can count them; what other transformers are fitted to after `changes`.

    Raises:
        DataError: a class has no number in training, or the fields name classes of what is no label.
        ConfigError: the training data were changed by a transformer that this source does not have.
    """

    def __init__(self, layer: Any, view: Any, records: Records, labels: Sequence[str]) -> None:
        self.layer = layer
        self.view = view
        self.records = records
        self.fitted: dict[str, dict[str, Any]] = {}
        self.names = {top: tuple(records.classes.get(top) or layer.classes.get(top, ())) for top in layer.tops}
        self.labels: dict[int, Labels] = {}
        self._refuse_missing()
        naming = {top: transformer for top, transformer in layer.conversion if isinstance(transformer, Naming)}
        for index, top in enumerate(layer.tops):
            if top in layer.classes and top not in labels:
                raise DataError(f"{layer.name}: classes are given for '{top}', but its records are no whole numbers")
            if twice := [name for name, count in Counter(self.names[top]).items() if count > 1]:
                raise DataError(
                    f"{layer.name}: '{top}' has the class '{twice[0]}' twice", "give each class its own name"
                )
            self._learn_columns(top)
            if top in naming:
                self._name(index, top, naming[top])
            elif top in labels:
                self._number(index, top)
            if view.phase == "train":  # of texts that are divided into words, these are the classes, not the texts
                _warn_of_blanks(f"{layer.name}: '{top}'", self.fitted.get(top, {}).get(CLASSES, ()))

    def _number(self, index: int, top: str) -> None:
        """Find the names of a label's classes, and the numbers that they have in training."""
        names = self.names[top]
        known = self.view.fitted.get(top, {}).get(CLASSES)
        if known is None:
            known = self.layer.classes.get(top) or names
        if known or self.view.phase == "train":
            self.fitted[top] = self.fitted.get(top, {}) | {CLASSES: list(known)}
        if names:
            self.labels[index] = _numbers(self.layer.name, top, names, known)

    def _name(self, index: int, top: str, transformer: Naming) -> None:
        """Find the names of a top whose transformer gives them their numbers."""
        known = {key: value for key, value in self.view.fitted.get(top, {}).items() if "/" not in key}
        if CLASSES not in known and self.view.phase == "train":
            known = self._fit(index, top, transformer, ())
        self.fitted[top] = self.fitted.get(top, {}) | known

    def _fit(self, index: int, top: str, transformer: Transformer, before: Sequence[Change]) -> dict[str, Any]:
        """Return what a transformer is fitted to, behind those `before`."""
        if not self.records.count:
            kind = type(transformer).__name__
            raise DataError(
                f"{self.layer.name}: {kind} needs to know all records before the first, "
                "but these are read one after the other, and their number is not known",
                "convert them to a format whose records are numbered, such as .h5, first",
            )
        with told(self.layer.name, f"transformers: {top}"):
            found = transformer.checked_fit(self._blocks(index, before))
        return {key: _plain(value) for key, value in found.items()}

    def _learn_columns(self, top: str) -> None:
        """Note the names of a top's columns in training; in other phases they must be in the same order."""
        names, known = self.records.column_names.get(top, ()), self.view.fitted.get(top, {}).get(COLUMNS)
        if known:
            check_own_column(self.layer.name, top, names, known)
            check_columns(f"{self.layer.name}: '{top}'", names, known)
        elif self.view.phase == "train":
            known = names
        if known:
            self.fitted[top] = {COLUMNS: list(known)}

    def _refuse_missing(self) -> None:
        """Raise ConfigError if what is known of a top was fitted by a transformer that is not here."""
        prefixes = {(top, prefix) for top, _, prefix in with_prefixes(self.layer.conversion)}
        for top in self.layer.tops:
            for key in self.view.fitted.get(top, {}):
                kind = key.partition("/")[0]
                if "/" in key and (top, f"{kind}/") not in prefixes:
                    raise ConfigError(
                        f"{self.layer.name}: '{top}' was changed by the transformer {kind.partition('.')[0]} in "
                        "training, but this source has no such transformer",
                        "give the sources of all phases the same transformers",
                    )

    def changes(self, randoms: Sequence[RecordRandom]) -> list[list[Change]]:
        """Return for each top what changes its batches, in order; fit in training what is not known.

        `randoms` are the random numbers of each of the layer's transformers.
        """
        done: list[list[Change]] = [[] for _ in self.layer.tops]
        for index, numbers in self.labels.items():
            done[index].append((numbers, None))
        for place, (top, transformer, prefix) in enumerate(with_prefixes(self.layer.conversion)):
            index = self.layer.tops.index(top)
            if transformer.needs_fit:
                known = dict(self.view.fitted.get(top, {})) | self.fitted.get(top, {})
                if not _is_known(known, prefix) and self.view.phase == "train":
                    found = self._fit(index, top, transformer, done[index])
                    known = {f"{prefix}{key}": value for key, value in found.items()}
                where = f"{self.layer.name}: '{top}'"
                transformer = _ready(where, transformer, prefix, known, self.names[top], self.view.phase)
                mine = {key: value for key, value in known.items() if _is_known({key: value}, prefix)}
                self.fitted[top] = self.fitted.get(top, {}) | mine
            done[index].append((transformer, randoms[place]))
        return done

    def _blocks(self, index: int, before: Sequence[Change]) -> Blocks:
        before = tuple(before)  # those of now
        shape = shape_after([transformer for transformer, _ in before], self.records.shapes[index])
        read = partial(self._read, index, before)
        return Blocks(self.records.count, shape, self.names[self.layer.tops[index]], read)

    def _read(self, index: int, before: Sequence[Change]) -> Iterator[np.ndarray]:
        """Yield the records of a top in float64, block by block, as the transformers `before` change them."""
        records, shape = self.records, self.records.shapes[index]
        size = sum(prod(one) * kind.itemsize for one, kind in zip(records.shapes, records.dtypes, strict=True))
        memory = np.empty((min(records.count, max(1, AT_A_TIME // (size + 8 * prod(shape)))), *shape))
        for first in range(0, records.count, len(memory)):
            block = memory[: records.count - first]
            numbers = np.arange(first, first + len(block))
            records.read_top(index, numbers, block)
            for transformer, random in before:
                if random is not None:
                    random.at(numbers, np.zeros_like(numbers))
                block = applied(transformer, block, random, "test")  # nothing that is random, as in training
            yield block


def _warn_of_blanks(where: str, names: Sequence[str]) -> None:
    """Warn of names of classes that differ in blanks at their ends alone."""
    known: dict[str, str] = {}
    for name in names:
        if (other := known.setdefault(name.strip(), name)) != name:
            message = f"{where} has the classes {other!r} and {name!r}, which differ in blanks alone"
            warnings.warn(f"{message}: if they are one class, take the blanks out of the data", stacklevel=2)
            return


def _numbers(where: str, top: str, names: Sequence[str], known: Sequence[str]) -> Labels:
    """Return the numbers in training of the classes of a label.

    Raises:
        DataError: a class has none.
    """
    if known:
        return Labels(numbers=class_numbers(where, top, names, known), known=len(known))
    if odd := [name for name in names if not WHOLE.match(name)]:
        raise DataError(
            f"{where}: '{top}' has the class '{odd[0]}', but in training its numbers had no names",
            "name them in the field classes of the training's source",
        )
    return Labels(numbers=np.array([int(name) for name in names]), known=len(names))


def _plain(value: Any) -> Any:
    """Return a value as snapshots keep it: one of NumPy's numbers is an array."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _is_known(fitted: Mapping[str, Any], prefix: str) -> bool:
    return any(key.startswith(prefix) for key in fitted) if prefix else CLASSES in fitted


def _ready(
    where: str, transformer: Transformer, prefix: str, fitted: Mapping[str, Any], classes: Sequence[str], phase: str
) -> Transformer:
    """Return a transformer with what is known of the training data. Raises DataError if nothing is."""
    if not _is_known(fitted, prefix):
        raise DataError(
            f"{where}: {type(transformer).__name__} is fitted to the training data, of which nothing is known in phase "
            f"'{phase}'",
            "derive this net from the training net (net.derive), or give it fitted=snapshot.fitted(); the training's "
            "source must have the same transformers",
        )
    mine = {key[len(prefix) :]: value for key, value in fitted.items() if key.startswith(prefix)}
    return transformer.with_fitted(mine, classes)
