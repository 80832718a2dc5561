"""The records of files for blobs of a net, read as its sources would read them: for `predict`, a batch at a time."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..discovery.blame import answered, blaming
from ..errors import DataError, NacreError, as_named, nearest
from ..protocols.data_store import BLOCK, Field, Reader, empty_rows, located
from ..protocols.layer import Layer
from .classes import renumbered
from .columns import Columns, as_table, check_columns, check_own_column, columns_in, columns_of
from .records import open_records

OPEN_FILES = 64  # at a time: a process may have only some hundreds


class Row(NamedTuple):
    """A record of a file: its key, the file, its number there, and its numbers, or why they cannot be read."""

    key: str
    path: Path
    number: int
    value: np.ndarray | DataError


@dataclass(frozen=True)
class Batch:
    """Records that follow each other in the files of some blobs, which have `rows` for each blob.

    `keys` are those of all records; `errors` says, by the place there, why one cannot be read, and `records` has for
    each blob the others (records, *shape).
    """

    rows: Mapping[str, Sequence[Row]]
    keys: Sequence[str]
    errors: Mapping[int, DataError]
    records: Mapping[str, np.ndarray]

    @property
    def good(self) -> list[int]:
        """The places of the records that could be read."""
        return [place for place in range(len(self.keys)) if place not in self.errors]


@dataclass(frozen=True)
class Needed:
    """The shape that records must have, None if it is not known, and how errors put it.

    `prepared` is true if that is their shape after the transformers of their source; `others` are the other blobs whose
    records are in the same files, and the columns that these had, `fields` the names of all that is wanted of these
    files; `columns` are the names of the columns of a table that training had. `ignored` are labels that need no name.
    """

    shape: tuple[int, ...] | None = None
    prepared: bool = True
    others: Collection[str] = ()
    fields: Sequence[str] = ()
    columns: Sequence[str] = ()
    ignored: Collection[int] = ()
    who: str = "the net needs"
    remedy: str = "scale or cut the records to this shape"
    unknown: str = "give records of one shape"


def reading_of(source: Layer) -> Mapping[str, Any]:
    """Return how a source reads files. Raises PluginError if it cannot say it."""
    with blaming(source):
        return answered(source, "reading", source.reading(), Mapping, "a mapping")


class FileRecords:
    """The records of files, one file after the other, for one blob of a net.

    `layer` is the source that feeds this blob in training; its store and codec read the files, where they fit. Of
    several files one that cannot be opened stands for a record that cannot be read; so does a bad record among others.

    Attributes:
        shape: of the records, before the source's transformers.
        count: their number, None if it is known only at the end.
        named: whether some have names.
        classes: names that the records count, if they have names, of all files together.
        columns: names of the columns of a table that make up a record, those of training if they are known.

    Raises:
        DataError: no file can be read, or records do not fit; the message names the file.
    """

    def __init__(
        self,
        layer: Layer | None,
        paths: Sequence[Path],
        blob: str,
        needed: Needed | None = None,
        *,
        divide: float = 1.0,
        pins: Mapping[str, str] | None = None,
    ) -> None:
        self.layer = layer
        self.paths = paths
        self.blob = blob
        self.needed = needed or Needed()
        self.divide = divide
        self.pins = pins
        self.stored_as = layer.stored_as(blob) if layer else blob
        self.reading = dict(reading_of(layer)) if layer else {}
        self.opened: dict[int, tuple[Reader, str]] = {}
        self.broken: dict[int, DataError] = {}
        self.problems: dict[Path, DataError] = {}
        self.by_size: dict[Path, str] = {}
        self.columns = tuple(self.needed.columns)
        try:
            self.shape, self.count = self._look_into_all()
        except BaseException:
            self.close()
            raise

    def _look_into_all(self) -> tuple[tuple[int, ...], int | None]:
        """Open all files, so that what is wrong with one is found before any work is done."""
        shapes: dict[Path, tuple[int, ...]] = {}
        self.named = False
        numbers: dict[str, int] = {}
        count: int | None = 0
        for number, path in enumerate(self.paths):
            try:
                reader, name = self.opened[number] = self._open(path)
            except DataError as error:
                self.broken[number] = error
                if len(self.broken) == len(self.paths):
                    raise self.broken[0] from None
                count = None if count is None else count + 1
                continue
            field = reader.fields[name]
            first = "in training" if self.needed.columns else f"in {self.paths[0]}"
            check_own_column(str(path), self.stored_as, field.columns, self.columns, first)
            check_columns(f"{path}: '{self.blob}'", field.columns, self.columns, first)
            self.columns = self.columns or columns_of(reader.fields, name)
            shapes[path] = self._shape(path, reader, field)
            self.named |= reader.named
            for one in reader.fields[name].classes:
                numbers.setdefault(one, len(numbers))
            count = None if count is None or reader.count is None else count + reader.count
            if len(self.opened) > OPEN_FILES:
                self.opened.pop(number)[0].close()
        self.classes = [*numbers]
        if len({*shapes.values()}) > 1:
            found = ", ".join(f"{path}: {shape}" for path, shape in shapes.items())
            raise DataError(f"the records have different shapes: {found}", "use files with records of one shape")
        return next(iter(shapes.values())), count

    def _open(self, path: Path) -> tuple[Reader, str]:
        """Return the open records of a file, and the name of the field in it."""
        options = self.reading
        if not (options.get("store") and options["store"].fits(path)):
            options = {name: value for name, value in options.items() if name != "store"}
        shape, name, fields = self.needed.shape, self.stored_as, [*self.needed.fields] or [self.stored_as]
        columns: Sequence[str] = ()
        if self.layer is not None and not self.layer.reads_files and shape is not None:
            name, fields, columns = self._found_in(path, shape)
        shapes = {name: shape} if shape else {}
        try:
            reader = open_records([path], fields, shapes=shapes, pins=self.pins, **options)
        except DataError as error:
            if not self._are_loose(path):
                raise self.problems.get(path, error) from None
            columns, reader = self.columns, open_records([path], pins=self.pins)
        if not columns:
            return reader, name
        try:
            return Columns(reader, str(path), name, columns), name
        except BaseException:
            reader.close()
            raise

    def _are_loose(self, path: Path) -> bool:
        """Return whether the columns that training had are fields of one number each, in a file of another format.

        Raises:
            DataError: some are, but not all.
        """
        if not self.columns:
            return False
        try:
            with open_records([path], codec=None, pins=self.pins) as reader:
                table = columns_in(reader.fields)
        except DataError:
            return False
        if self.stored_as in reader.fields or table.keys().isdisjoint(self.columns):
            return False
        self._refuse_others(path, [*table])
        return True

    def _found_in(self, path: Path, shape: tuple[int, ...]) -> tuple[str, list[str], Sequence[str]]:
        """Return the field with records for a blob that was not read from files, the fields to want, [] for all, and
        the columns that make up the field, if it is not in the file itself.

        It is the one with the columns that training had; else that of the blob's name, or the column of this name; else
        the only one of its size. The columns of other blobs do not count. A table whose columns of texts are fields of
        their own has other data than where the data alone are wanted.

        Raises:
            DataError: several have this size, or none.
        """
        try:
            with open_records([path], codec=None, pins=self.pins) as reader:
                fields = reader.fields
        except DataError as error:  # perhaps about labels, which are not wanted
            self.problems[path] = error
            return self.stored_as, [self.stored_as], ()
        if len(self.columns) == 1 and self.columns[0] in fields:
            return self.columns[0], [], ()
        own = () if self.stored_as in fields else (self.stored_as,)
        for columns in filter(None, (self.columns, own)):
            if {*columns} <= columns_in(fields).keys():
                return self.stored_as, [], columns
        size, others = prod(shape), self.needed.others
        every = as_table(fields, {self.stored_as}).values()
        fields = as_table(fields, {self.stored_as, *others})
        rest = {name: [one for one in field.columns if one not in others] for name, field in fields.items()}
        fitting = [
            name
            for name, field in fields.items()
            if name not in others and (field.shape is None or size == (len(rest[name]) or prod(field.shape)))
        ]
        fitting = [name for name in fitting if fields[name].shape is not None] or fitting
        if self.stored_as in fields or len(fitting) == 1:
            name = self.stored_as if self.stored_as in fields else fitting[0]
            if name != self.stored_as:
                self._refuse_others(path, rest[name])
                self.by_size[path] = name
            cut = len(rest[name]) == size and (name not in reader.fields or size < len(fields[name].columns))
            return (self.stored_as, [], rest[name]) if cut else (name, [], ())
        if len(fields) == 1 and not others:
            return next(iter(fields)), [], ()  # of another size, perhaps one that the source cuts
        if names := [one for field in every for one in field.columns]:
            self._refuse_others(path, [*names, *fields])
        known = " and ".join(
            f"'{name}' {'of texts' if field.classes else f'of shape {field.shape}'}" for name, field in fields.items()
        )
        message = f"{path}: it is not clear what in it is '{self.blob}', an Input of shape {shape}: it has {known}"
        remedy = f"name it as the Input is: {self._columns(shape)} of a table, or a dataset {self.blob} of an .h5 file"
        if size == 1:
            remedy += "; or give the Input the name of its column"
        raise DataError(message, remedy)

    def _refuse_others(self, path: Path, names: Sequence[str]) -> None:
        """Raise DataError if a table has other columns than training had."""
        if names and (missing := [one for one in self.columns if one not in names]):
            near = nearest(missing[0], names)
            raise DataError(
                f"{path}: '{self.blob}' has no column {missing[0]!r}{near}, but training had one", "add this column"
            )

    def _columns(self, shape: tuple[int, ...]) -> str:
        """Return the columns in which a table has records of this shape."""
        return f"columns {self.blob}.0, {self.blob}.1, ..." if prod(shape) > 1 else f"a column {self.blob}"

    def _shape(self, path: Path, reader: Reader, field: Field) -> tuple[int, ...]:
        """Return the shape of a file's records, which may have other axes than the net's, or be cut by its source."""
        if reader.count == 0:
            raise DataError(f"{path}: it has no records")
        needed = self.needed
        if np.dtype(field.dtype).kind not in "fiub":
            raise DataError(f"{path}: its records must be numbers, but they have the type {field.dtype}")
        if field.shape is None:
            raise DataError(f"the shape of '{self.blob}' is not known", needed.unknown)
        if needed.shape is None or field.shape == needed.shape:
            return field.shape
        if prod(field.shape) == prod(needed.shape):
            return needed.shape
        if needed.prepared and self._cut(path, field.shape) == needed.shape:
            return field.shape
        message = f"{path}: its records have the shape {field.shape}, but {needed.who} {needed.shape}"
        chosen = self.layer is not None and not self.layer.reads_files and len(needed.shape) < 2
        named = f"; of a table, {self._columns(needed.shape)} are chosen" if chosen else ""
        raise DataError(message, needed.remedy + named)

    def _cut(self, path: Path, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that the source's transformers give to records of a file."""
        try:
            return self.layer.prepared_shape(self.blob, shape) if self.layer else shape
        except NacreError as error:
            raise error.reworded(f"{path}: {error.args[0]}") from error

    def rows(self) -> Generator[Row]:
        """Yield each record with its key: its number among all, unless its file has names for records.

        Raises:
            DataError: a file cannot be read: it is not just one record among others.
        """
        count = 0
        known = {name: number for number, name in enumerate(self.classes)}
        for place, path in enumerate(self.paths):
            if place in self.broken:
                yield Row(as_named(str(path)), path, 0, self.broken[place])
                count += 1
                continue
            reader, name = self.opened.pop(place, None) or self._open(path)
            with reader:
                numbers = [known[one] for one in reader.fields[name].classes]
                where = as_named(str(path)) if len(self.paths) > 1 else ""
                for number, found in enumerate(_each(reader, name)):
                    value = found if isinstance(found, DataError) else self._numbered(found, numbers, path)
                    if isinstance(value, DataError) and self.count == 1:
                        raise value
                    key = located(where, reader.key(number)) if reader.named else str(count)
                    yield Row(key, path, number, value)
                    count += 1
        if not count:
            raise DataError(f"{self.paths[0]}: it has no records")

    def _numbered(self, record: Any, numbers: Sequence[int], path: Path) -> np.ndarray | DataError:
        """Return a record, whose file's classes have these numbers in `classes`, in the shape and unit of all."""
        if numbers:
            wrong = (record < 0) | (record >= len(numbers))
            if wrong.any():
                wrong &= ~np.isin(record, [one for one in self.needed.ignored if not 0 <= one < len(self.classes)])
            if wrong.any():
                known = f"only the classes 0 to {len(numbers) - 1} have names"
                return DataError(f"{path}: '{self.blob}' has the number {record[wrong].flat[0]}, but {known}")
            record = renumbered(record, np.array(numbers), len(self.classes))
        record = np.reshape(record, self.shape)
        if self.divide == 1:
            return record
        try:
            return divided(f"{path}: '{self.blob}'", record, self.divide)
        except DataError as error:
            return error

    def close(self) -> None:
        """Close the files; may be called twice."""
        while self.opened:
            self.opened.popitem()[1][0].close()

    def __enter__(self) -> FileRecords:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def divided(who: str, record: Any, divide: float) -> np.ndarray:
    """Return a record divided by --divide. Raises DataError, which begins with `who`, if a number gets too large."""
    given = np.asarray(record)
    with np.errstate(all="ignore"):
        found = given / divide
    if (np.isfinite(given) & ~np.isfinite(found)).any():
        raise DataError(f"{who} has a number that is too large when divided by {divide:g}", "correct --divide")
    return found


def _each(reader: Reader, name: str) -> Iterator[np.ndarray | DataError]:
    """Yield a field of each record, or why it cannot be read.

    Raises:
        DataError: no record of a whole block can be read, or one of those that are only read in order.
    """
    if reader.count is None:
        yield from (row[name] for row in reader.rows())
        return
    for start in range(0, reader.count, BLOCK):
        numbers = np.arange(start, min(start + BLOCK, reader.count))
        try:
            found: Sequence[np.ndarray | DataError] = _read(reader, name, numbers)
        except DataError:
            found = [_alone(reader, name, numbers[place : place + 1]) for place in range(len(numbers))]
            if len(found) == BLOCK and all(isinstance(one, DataError) for one in found):
                raise  # the file is damaged
        yield from found


def _read(reader: Reader, name: str, numbers: np.ndarray) -> Any:
    out = empty_rows({name: reader.fields[name]}, len(numbers))
    reader.read(numbers, out)
    return out[name]


def _alone(reader: Reader, name: str, number: np.ndarray) -> np.ndarray | DataError:
    try:
        return _read(reader, name, number)[0]
    except DataError as error:
        return error


def beside(paths: Mapping[str, Sequence[Path]], blob: str) -> set[str]:
    """Return the other blobs that read one of a blob's files."""
    return {other for other, some in paths.items() if other != blob and {*some} & {*paths[blob]}}


def _check_apart(records: Mapping[str, FileRecords]) -> None:
    """Raise DataError if two blobs take one field of a file for theirs, although it has neither's name."""
    for blob, one in records.items():
        for path, name in one.by_size.items():
            for other in one.needed.others:
                if other in records and records[other].by_size.get(path) == name:
                    message = f"{path}: '{blob}' and '{other}' are not both in it: it has '{name}'"
                    raise DataError(message, "give a file for each, or one with fields of these names")


def batches(records: Mapping[str, FileRecords], size: int) -> Iterator[Batch]:
    """Yield the records of some blobs side by side, `size` at a time.

    Raises:
        DataError: a file cannot be read, or one blob has more records than another.
    """
    _check_apart(records)
    with ExitStack() as stack:
        every = {blob: stack.enter_context(closing(one.rows())) for blob, one in records.items()}
        while True:
            rows = {blob: list(islice(some, size)) for blob, some in every.items()}
            counts = {blob: len(some) for blob, some in rows.items()}
            if len({*counts.values()}) > 1:
                fewest, most = min(counts, key=lambda one: counts[one]), max(counts, key=lambda one: counts[one])
                raise DataError(
                    f"there are fewer records for '{fewest}' than for '{most}'", "give as many records for every blob"
                )
            if not any(counts.values()):
                return
            yield _batch(records, rows)


def _batch(records: Mapping[str, FileRecords], rows: Mapping[str, Sequence[Row]]) -> Batch:
    keys = [row.key for row in next(iter(rows.values()))]
    errors: dict[int, DataError] = {}
    for some in rows.values():
        for place, row in enumerate(some):
            if isinstance(row.value, DataError):
                errors.setdefault(place, row.value)
    arrays: dict[str, np.ndarray] = {}
    for blob, some in rows.items():
        good: list[Any] = [row.value for place, row in enumerate(some) if place not in errors]
        arrays[blob] = np.stack(good) if good else np.empty((0, *records[blob].shape))
    return Batch(rows, keys, errors, arrays)
