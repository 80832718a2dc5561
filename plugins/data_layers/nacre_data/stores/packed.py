"""What stores of keys and values have in common: codecs of whole records fill the values."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np

from nacre import Codec, DataError, Field, Reader, make_component
from nacre.files import Watched

from ..checks import checked_rows
from ..codecs.packed import PackedCodec, data_and_label
from ..codecs.record import DESCRIPTION, MAGIC, Record, described, describing
from ..files import inside
from .continued import check_continued
from .entries import Entries
from .names import parts_of

AT_ONCE = 32  # values in memory at a time: they may be large pictures
EXPANSION = 20  # bytes of numbers that a stored byte may stand for
OWN, FOREIGN = "Record", ("Datum", "SingleLabelImageRecord")
REMEDY = "restore the file, or write it again"
DESCRIBING = "!fields"
"""The key of the record that describes the others; it sorts before digits, and so before their keys."""

CodecName = Annotated[str, "codec of the values; by default that of the first record, and Record in a new file"]


class PackedReader(Reader):
    """Records in the values of a file, by keys; a subclass reads the values.

    Args:
        where: begins errors.
        entries: keys and values.
        watched: the open file.
        codec: its name; "" is found out by the first record.
        wanted: fields that are wanted; by default all.
    """

    def __init__(self, where: str, entries: Entries, watched: Watched, codec: str, wanted: Sequence[str]) -> None:
        self.where = where
        self.entries = entries
        self.watched = watched
        self.before = 0  # entries before the first record
        fields = self._described()
        self.count: int | None = len(entries) - self.before
        if not self.count:
            raise DataError(f"{where}: it has no records")
        self.named = entries.have_names(self.before)
        (first,) = self._values(np.zeros(1, np.int64))
        with self.naming(0, self.where):
            made = make_component(Codec, codec or codec_of(first))
            self.codec = made if isinstance(made, PackedCodec) else None
            self.every: Mapping[str, Field] = {}
            if self.codec is None:  # of another package: whoever opens the records decodes them
                self.fields: Mapping[str, Field] = {(wanted or ("data",))[0]: Field(None, "uint8", codec=codec)}
                return
            inside = self.codec.describe(first)
            if isinstance(made, Record) and DESCRIPTION in inside:
                raise DataError(f"it describes the other records, but its key is not {DESCRIBING!r}", REMEDY)
            if fields and fields.keys() != inside.keys():
                raise DataError(f"it has the fields {', '.join(inside)}, but the file declares {', '.join(fields)}")
        self.every = fields or inside
        self.inside = self._names(inside, wanted)
        self.fields = {name: (fields or inside)[one] for name, one in self.inside.items()}
        self._check_sizes({name: inside[one] for name, one in self.inside.items()})

    def value(self, entry: int) -> bytes:
        """Return the bytes of an entry."""
        raise NotImplementedError

    def _described(self) -> Mapping[str, Field] | None:
        """Return the fields if the first entry describes them; it is no record then."""
        if not len(self.entries) or self.entries.key(0) != DESCRIBING.encode():
            return None
        with self.naming(0, self.where):
            (first,) = self._values(np.zeros(1, np.int64))
            fields = described(first)
        self.before = int(fields is not None)
        return fields

    def _values(self, numbers: np.ndarray) -> list[bytes]:
        with self.watched.reading(f"record {numbers[0]}"):
            return [self.value(number + self.before) for number in numbers.tolist()]

    def key(self, number: int) -> str:
        return self.entries.key(number + self.before).decode("utf-8", "backslashreplace") or f"record {number}"

    def _names(self, inside: Mapping[str, Field], wanted: Sequence[str]) -> dict[str, str]:
        """Return the name inside the records of each field."""
        assert self.codec is not None
        names = {name: name for name in wanted or inside} if self.codec.named or not wanted else parts_of(wanted)
        if missing := [name for name, one in names.items() if one not in inside]:
            raise DataError(f"{self.where}: its records have no field {missing[0]!r}; they have: {', '.join(inside)}")
        return names

    def _check_sizes(self, first: Mapping[str, Field]) -> None:
        """Refuse values that are much too small for records of this shape, before anybody makes room for them all."""
        for name, field in self.fields.items():
            found = first[name]
            if (field.dtype, field.codec) != (found.dtype, found.codec) or field.shape not in (None, found.shape):
                message = f"'{name}' has the shape {found.shape} and type {found.dtype}"
                raise DataError(f"{self.where}: {self.key(0)}: {message}, but the file declares others")
        fixed = sum(prod(field.shape or ()) * np.dtype(field.dtype).itemsize for field in self.fields.values())
        sizes = np.frombuffer(self.entries.sizes, np.int64)[self.before :]
        smallest = int(sizes.argmin())
        if fixed > EXPANSION * int(sizes[smallest]):
            message = f"it has {sizes[smallest]} bytes, but the others' numbers have {fixed:,}"
            raise DataError(f"{self.where}: {self.key(smallest)}: {message}")

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for first in range(0, len(numbers), AT_ONCE):
            values = self._values(numbers[first : first + AT_ONCE])
            if self.codec is None:
                for row, value in enumerate(values, first):
                    next(iter(out.values()))[row] = value
                continue
            row = first
            wanted = [
                (name, self.inside[name], self.fields[name], np.dtype(self.fields[name].dtype), places)
                for name, places in out.items()
            ]
            try:
                for row, value in enumerate(values, first):
                    record = self.codec.unpack(value)
                    for name, inside, field, dtype, places in wanted:
                        places[row] = _checked(record.get(inside), name, field, dtype)
            except DataError:
                with self.naming(int(numbers[row]), self.where):  # only here: to enter it takes as long as to read
                    raise


def _checked(value: Any, name: str, field: Field, dtype: np.dtype) -> Any:
    """Return a value of a record after checking that it is like those of the others."""
    if value is None:
        raise DataError(f"it has no '{name}', but the first record has one")
    if field.codec or isinstance(value, bytes):
        if not isinstance(value, bytes) or not field.codec:
            is_now = "an encoded picture" if isinstance(value, bytes) else "numbers"
            raise DataError(f"'{name}' is {is_now}, but in the first record it is not")
        return value
    if value.dtype != dtype or (value.shape != field.shape and field.shape is not None):
        message = f"'{name}' has the shape {value.shape} and type {value.dtype}"
        raise DataError(f"{message}, but others have {field.shape} and {field.dtype}")
    return value


def codec_of(data: bytes) -> str:
    """Return the name of the codec of a value.

    Raises:
        DataError: it is none of those that are known by their bytes.
    """
    if data.startswith(MAGIC):
        return OWN
    for name in FOREIGN:
        try:
            make_component(Codec, name).describe(data)
        except DataError:
            continue
        return name
    message = f"its value, {len(data):,} bytes, is in none of the formats {', '.join((OWN, *FOREIGN))}"
    raise DataError(message, 'name its codec, such as codec = "Datum", to learn what is wrong with it')


class Packing:
    """Turns rows of fields into values."""

    def __init__(self, where: str, fields: Mapping[str, Field], codec: str) -> None:
        self.where = where
        self.fields = fields
        self.name = codec or OWN
        self.codec = make_component(Codec, self.name)
        packed = [name for name, field in fields.items() if field.codec]
        if packed and not isinstance(self.codec, PackedCodec):
            raise DataError(f"{where}: '{packed[0]}' is encoded already, which codec {self.name} has no room for")
        if self.name == OWN and not fields:
            raise DataError(f"{where}: there are no fields to write")

    def describing(self) -> bytes | None:
        """Return the record that describes the others, if the codec has one."""
        return describing(self.fields) if self.name == OWN else None

    def values(self, rows: Mapping[str, Any], first: int) -> Generator[bytes]:
        """Yield the bytes of rows, the first of which is record number `first`."""
        checked = checked_rows(self.where, self.fields, rows)
        count = len(next(iter(checked.values())))
        columns = {name: self._column(field, checked[name]) for name, field in self.fields.items()}
        for row in range(count):
            record = {name: column[row] for name, column in columns.items()}
            try:
                if isinstance(self.codec, PackedCodec):
                    yield self.codec.pack(record, self.fields)
                else:
                    yield self.codec.encode(record)
            except DataError as error:
                raise DataError(f"{self.where}: record {first + row}: {error.args[0]}", error.remedy) from error

    @staticmethod
    def _column(field: Field, values: Any) -> Sequence[Any]:
        if field.codec:
            return values
        if field.shape is None:
            return [np.asarray(value, field.dtype) for value in values]
        return cast("Sequence[Any]", np.asarray(values, field.dtype))


def file_to_continue(path: Path, name: str, single: str | tuple[str, ...]) -> Path:
    """Return the file that is continued: `name` in a folder, or `path` itself if it is a file, or to be one."""
    is_file = path.is_file() or (not path.exists() and path.name.lower().endswith(single))
    return path if is_file else inside(path / name, path)


def check_same_records(before: PackedReader, packing: Packing) -> None:
    """Check that the records of a file that is continued have the same fields as those to come.

    Raises:
        DataError: they have others.
    """
    if before.codec is None:
        return  # nothing is known of it
    if type(before.codec) is not type(packing.codec):
        there = type(before.codec).__name__
        message = f"{packing.where}: its records are in the format {there}, but {packing.name} is to be appended"
        raise DataError(message, f'give codec = "{there}"')
    own = packing.name == OWN
    unnamed = {name: field for name, field in before.every.items() if name not in before.inside.values()}
    there, mine = (
        {name: _compared(field, own) for name, field in fields.items()}
        for fields in ({**before.fields, **unnamed}, packing.fields)
    )
    check_continued(packing.where, there, mine)


def wanted_of(packing: Packing) -> Sequence[str]:
    """Return the fields to open a file with, so that they have the names of those to come; none means all."""
    if packing.name not in FOREIGN:
        return ()
    return [name for name in data_and_label(packing.where, packing.fields) if name]


def _compared(field: Field, own: bool) -> Field:
    """Return what must be the same of a field; other formats than nacre's have one type of labels, and no classes."""
    if own:
        return field
    return Field(field.shape, "int64" if field.shape == () else field.dtype, codec=field.codec)
