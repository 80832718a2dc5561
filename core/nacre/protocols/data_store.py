"""Store: a container of records on disk. One class brings a format to sources, `predict`, outputs and converters.

An author writes three small classes: a `Store` that opens and creates, its `Reader`, and, unless the format is only
read, its `Writer`. `nacre.testing.StoreTests` checks them. Records whose fields are bytes in some other format, such as
pictures, name a `Codec`, which turns them into numbers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from ..discovery.fitting import required
from ..errors import DataError, NacreError
from ..fields.component import Component
from ..fields.types import file_names

if TYPE_CHECKING:
    import numpy as np

BLOCK = 256
"""Records that `Reader.rows` reads at a time."""

Rows = Mapping[str, Any]
"""For each field an array (records, *shape), or a sequence of bytes; of one record: an array (*shape), or bytes."""


@dataclass(frozen=True)
class Field:
    """What every record of a store has under one name.

    Args:
        shape: of one record; () is a single number, None means that it differs from record to record.
        dtype: NumPy's name of the numbers' type, such as "uint8"; of bytes, that of what their codec makes of them.
        classes: names of the classes, if the numbers count classes.
        codec: name of the codec for bytes; "" if the field holds numbers.
        columns: names of the columns of a table from which the numbers of a record are, in C order.
        places: where these columns stand in the table, by which another table has them in the same order.
    """

    shape: tuple[int, ...] | None
    dtype: str
    classes: tuple[str, ...] = ()
    codec: str = ""
    columns: tuple[str, ...] = field(default=(), compare=False)  # the records are the same under other names
    places: tuple[int, ...] = field(default=(), compare=False)


class Codec(Component, kind="codec"):
    """A format of bytes, such as PNG or Caffe's Datum, that holds one or several fields of one record."""

    @required()
    def describe(self, data: bytes) -> Mapping[str, Field]:
        """Return the fields in the bytes of one record; a single one gets the name of the store's field.

        Raises:
            DataError: the bytes are not in this format. The message does not say where they come from.
        """
        raise NotImplementedError

    @required()
    def decode(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, np.ndarray]:
        """Return the numbers of one record, by field.

        `shapes` has the shapes that are wanted. A codec may scale or convert to them; where it returns another shape,
        the caller reports it.

        Raises:
            DataError: as `describe`.
        """
        raise NotImplementedError

    def encode(self, record: Mapping[str, np.ndarray]) -> bytes:
        """Return the bytes of a record. Raises DataError if the format has no room for it.

        A codec may also take what other libraries have for the array of a field, such as a picture; `Net.predict` gives
        it the records that do not have the shape which the net needs, and lets it `decode` them.
        """
        raise DataError(f"codec {type(self).__name__} only reads")


class FileKey(str):
    """The key of a record that is a file of its own; `file` is the file's name as it is, also where it is not UTF-8."""

    file: str

    def __new__(cls, key: str, file: str = "") -> FileKey:
        made = super().__new__(cls, key)
        made.file = file
        return made


class Reader:
    """The open records of one file or folder; `Store.open` makes it. It is used by one thread at a time.

    Attributes:
        fields: what each record has, by name.
        count: the number of records; None if it is known only at the end, so that there is only `rows`.
        named: whether keys are names, such as those of files, and not only say where a record is.
        file_starts: of several files read as one, the number of the first record of each, and the number of all.
    """

    fields: Mapping[str, Field]
    count: int | None
    named: bool = False
    file_starts: Sequence[int] = ()

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        """Write the records of these numbers, int64, in any order and with repeats, into `out`.

        `out` has, for each field that is wanted, an array (records, *shape) of the field's type, or for bytes and for
        fields whose shape differs, a list with a place for each record.

        Raises:
            DataError: a record cannot be read; the message begins with the file and the record's key.
        """
        raise NotImplementedError

    def rows(self, start: int = 0) -> Iterator[Rows]:
        """Yield the records in the order of the file, from number `start` on, as arrays (*shape) or bytes."""
        encoded = any(field.codec for field in self.fields.values())
        for _, block in blocks(self, start, 1 if encoded else BLOCK):  # many large pictures would need much memory
            for row in range(len(next(iter(block.values())))):
                yield {name: values[row] for name, values in block.items()}

    def key(self, number: int) -> str:
        """Return what a person finds a record by: a line, a key, or as a `FileKey` the path of a file of its own."""
        return f"record {number}"

    @contextmanager
    def naming(self, number: int, where: str) -> Generator[None]:
        """Make errors in the block begin with `where`, such as the file, and the key of a record."""
        try:
            yield
        except NacreError as error:
            raise error.reworded(f"{located(where, self.key(number))}: {error.args[0]}") from error

    def pause(self) -> None:
        """Release files and memory until something is read again; by default nothing is."""

    def interrupt(self) -> None:
        """End a `read` or `rows` in another thread with a DataError, if it may wait for ever, as for a pipe.

        Nothing is read afterwards. It may be called at any time, also after `close`.
        """

    def close(self) -> None:
        """Release the file; may be called twice."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ReaderWrapper(Reader):
    """A reader of the records of another one; a subclass changes what is read, or how."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.fields = reader.fields
        self.count, self.file_starts, self.named = reader.count, reader.file_starts, reader.named

    def key(self, number: int) -> str:
        return self.reader.key(number)

    def pause(self) -> None:
        self.reader.pause()

    def interrupt(self) -> None:
        self.reader.interrupt()

    def close(self) -> None:
        self.reader.close()


class Writer:
    """Records on the way to a file; `Store.create` makes it. Without `close(commit=True)` there is no file."""

    def append(self, rows: Rows, keys: Sequence[str] = ()) -> None:
        """Append records: for each field an array (records, *shape), or as many bytes.

        `keys` are names that the records have elsewhere; formats without names ignore them. The arrays may change
        afterwards: a writer that keeps them copies them.

        Raises:
            DataError: the file cannot be written, or its format has no room for this.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """Make sure that what was appended survives a crash, in formats that can be continued; else do nothing."""

    def close(self, commit: bool) -> None:
        """Complete the file, so that it has its name; or with commit=False leave no file behind. May be called twice.

        With commit=False, or if the file cannot be completed, one that was to be continued is again what it was before;
        formats of transactions, such as LMDB, may keep what was flushed.

        Raises:
            DataError: the file cannot be written.
        """
        raise NotImplementedError

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(commit=error is None)


class Store(Component, kind="store"):
    """A format of files, or of folders, with records: `offer_components` gives it as `{"store": {"CSV": "..."}}`.

    Its fields are the format's options, such as a separator.
    """

    endings: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of its files, in lower case, such as ".csv"."""

    folder: ClassVar[str] = ""
    """What must be in a folder that it reads, such as "pictures", for the error about one that no store reads."""

    def without_files(self, field: str, paths: Any) -> Any:
        """Return the names of the files: they have the data of a training, which a saved net does not need."""
        return file_names(paths)

    def missing_number(self) -> float | None:
        """Return the number that stands for a missing one in records; None, the default: they are errors."""
        return None

    @classmethod
    def fits(cls, path: Path) -> bool:
        """Return whether a file or folder looks like this format, by its name or by what a folder contains."""
        return path.name.lower().endswith(cls.endings) if cls.endings else False

    @required("create")
    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        """Open a file for reading. `fields` are those that are wanted; by default all.

        Raises:
            DataError: the file cannot be read, is not in this format, or lacks a field; the message begins with its
                path. No more memory is used than the size of the file justifies.
        """
        raise DataError(f"{path}: files of this format are only written", "convert it to another format, such as .h5")

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        """Begin a file with these fields; with `append`, continue one that this store has written.

        Raises:
            DataError: the file cannot be written, or the format has no room for such fields.
        """
        raise DataError(f"{path}: files of this format are only read", "use another ending, such as .h5")


def located(path: str, key: str) -> str:
    """Return where a record is; a file that is a single record, such as a picture, is its key too."""
    text = f"{path}: {key}" if path and Path(path).name != key else path or key
    return FileKey(text, key.file) if isinstance(key, FileKey) else text


def blocks(reader: Reader, start: int = 0, size: int = BLOCK) -> Iterator[tuple[int, Rows]]:
    """Yield the records of a reader, `size` at a time, each with the number of the first of them."""
    import numpy as np

    if reader.count is not None:
        for first in range(start, reader.count, size):
            numbers = np.arange(first, min(first + size, reader.count))
            block = empty_rows(reader.fields, len(numbers))
            reader.read(numbers, block)
            yield first, block
        return
    rows = reader.rows(start)
    while some := list(islice(rows, size)):
        yield start, {name: _stacked(reader.fields[name], [row[name] for row in some]) for name in some[0]}
        start += len(some)


def _stacked(field: Field, values: list[Any]) -> Any:
    import numpy as np

    return values if field.codec or field.shape is None else np.stack(values)


def empty_rows(fields: Mapping[str, Field], count: int) -> dict[str, Any]:
    """Return places for records, as `Reader.read` fills them: 0 where it writes nothing."""
    import numpy as np

    return {
        name: [None] * count if field.codec or field.shape is None else np.zeros((count, *field.shape), field.dtype)
        for name, field in fields.items()
    }
