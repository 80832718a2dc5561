"""Parquet: files of columns, through pyarrow."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from nacre import DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, Watched, check_file, os_errors

KEY = b"nacre"
"""Under it a column's metadata have what Parquet has no words for, as JSON: shape and classes."""
LEAST, EXPANSION = 1 << 26, 20  # bytes that a row group may have: so many, or so many times those of the file
REMEDY = "write it again, or restore it"


class Parquet(Store):
    """Columns of a Parquet file, by name: numbers, lists of them, texts as classes, pictures as bytes."""

    endings = (".parquet",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        check_file(path, "a Parquet file")
        with os_errors(path, "cannot be read", DataError):
            return ParquetReader(path, fields)

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        if append:
            raise DataError(
                f"{path}: nothing can be appended to a Parquet file", "write another one: several are joined"
            )
        return ParquetWriter(path, fields)


class ParquetReader(Reader):
    """Records of one file; the last row group that was read stays in memory."""

    def __init__(self, path: Path, wanted: Sequence[str]) -> None:
        self.path = path
        self.file = path.open("rb")
        try:
            self.watched = Watched(self.file.fileno(), str(path))
            with self._reading("its columns"):
                self._begin(wanted)
        except BaseException:
            self.close()
            raise

    def _begin(self, wanted: Sequence[str]) -> None:
        from pyarrow import parquet

        self.table = parquet.ParquetFile(self.file, page_checksum_verification=True)
        groups = [self.table.metadata.row_group(group) for group in range(self.table.num_row_groups)]
        self.starts = np.cumsum([0, *(group.num_rows for group in groups)])
        self.count: int | None = int(self.starts[-1])
        limit = max(LEAST, EXPANSION * self.path.stat().st_size)
        for number, group in enumerate(groups):
            if group.total_byte_size > limit or group.num_rows * 8 > limit:
                message = (
                    f"declares {group.num_rows:,} records of {group.total_byte_size:,} bytes, too many for its size"
                )
                raise DataError(f"{self.path}: row group {number} {message}", "write smaller row groups")
        schema = self.table.schema_arrow
        if missing := [name for name in wanted if name not in schema.names]:
            raise DataError(f"{self.path}: it has no column '{missing[0]}'; it has: {', '.join(schema.names)}")
        if not schema.names or len(set(schema.names)) < len(schema.names):
            raise DataError(f"{self.path}: it has no columns, or two of one name: {', '.join(schema.names)}")
        self.group, self.columns = -1, dict[str, Any]()
        self.fields: Mapping[str, Field] = {name: self._field(schema.field(name)) for name in wanted or schema.names}
        self.classes = {
            name: {text: number for number, text in enumerate(field.classes)}
            for name, field in self.fields.items()
            if is_text(schema.field(name).type)
        }

    def _field(self, column: Any) -> Field:
        from pyarrow import types

        about = json.loads((column.metadata or {}).get(KEY, b"{}"))
        kind = column.type
        if is_text(kind):
            return Field((), "int64", classes=self._texts(column.name))
        if types.is_binary(kind) or types.is_large_binary(kind) or (types.is_struct(kind) and "bytes" in kind.names):
            return Field(None, "uint8", codec="Picture")
        if types.is_fixed_size_list(kind):
            shape = tuple(about.get("shape", [kind.list_size]))
            if prod(shape) != kind.list_size or min(shape, default=0) <= 0:
                raise DataError(
                    f"{self.path}: '{column.name}' declares the shape {shape}, but has {kind.list_size} numbers"
                )
            return Field(shape, self._dtype(column.name, kind.value_type))
        if types.is_list(kind) or types.is_large_list(kind):
            return Field(None, self._dtype(column.name, kind.value_type))
        return Field((), self._dtype(column.name, kind), tuple(about.get("classes", ())))

    def _dtype(self, name: str, kind: Any) -> str:
        from pyarrow import types

        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise DataError(f"{self.path}: '{name}' is of type {kind}, which is no number", "leave this column away")
        return str(np.dtype(kind.to_pandas_dtype()).name)

    def _texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a column, in order."""
        found: set[str] = set()
        for group in range(self.table.num_row_groups):
            column = self.table.read_row_group(group, columns=[name], use_threads=False).column(name)
            found.update(text for text in column.unique().to_pylist() if text is not None)
        whole = all(re.fullmatch("-?[0-9]+", text) for text in found)
        return tuple(sorted(found, key=lambda text: (int(text) if whole else 0, text)))

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        groups = np.searchsorted(self.starts, numbers, "right") - 1
        for group in np.unique(groups).tolist():
            rows = np.flatnonzero(groups == group)
            places = numbers[rows] - self.starts[group]
            with self._reading(f"records {self.starts[group]} to {self.starts[group + 1] - 1}"):
                columns = self._columns(group)
                for name, values in out.items():
                    found = self._values(name, columns[name], places)
                    if isinstance(values, np.ndarray):
                        values[rows] = found
                    else:
                        for row, value in zip(rows.tolist(), found, strict=True):
                            values[row] = value

    def _columns(self, group: int) -> dict[str, Any]:
        if group != self.group:
            names = [*self.fields]
            table = self.table.read_row_group(group, columns=names, use_threads=False)
            self.columns = {name: table.column(name).combine_chunks() for name in names}
            for name, column in self.columns.items():
                if column.null_count:
                    row = int(self.starts[group]) + column.is_null().to_pylist().index(True)
                    raise DataError(
                        f"{self.path}: record {row}: '{name}' is missing", "fill it, or leave the record away"
                    )
            self.group = group
        return self.columns

    def _values(self, name: str, column: Any, places: np.ndarray) -> Any:
        """Return the values of a column at some places."""
        from pyarrow import types

        field, chosen = self.fields[name], column.take(places)
        if name in self.classes:
            return [self.classes[name][text] for text in chosen.to_pylist()]
        if field.codec:
            inside = [one["bytes"] if isinstance(one, dict) else one for one in chosen.to_pylist()]
            if not all(isinstance(one, bytes) for one in inside):
                raise DataError(f"{self.path}: '{name}' has records without bytes", "store the pictures in the file")
            return inside
        if field.shape is None:
            return [np.array(one, field.dtype) for one in chosen.to_pylist()]
        flat = chosen.flatten() if types.is_fixed_size_list(chosen.type) else chosen
        if flat.null_count:
            raise DataError(f"{self.path}: a list in '{name}' has missing numbers", "fill them")
        return flat.to_numpy(zero_copy_only=False).reshape(len(places), *field.shape)

    @contextmanager
    def _reading(self, what: str) -> Generator[None]:
        """Make errors of pyarrow ours, and notice changes of the file."""
        import pyarrow

        with self.watched.reading(what):
            try:
                yield
            except DataError:
                raise
            except (pyarrow.ArrowException, ValueError, TypeError, KeyError, OSError, OverflowError) as error:
                raise DataError(f"{self.path}: {what} cannot be read, it is damaged: {error}", REMEDY) from error

    def close(self) -> None:
        self.columns = {}
        self.file.close()


def is_text(kind: Any) -> bool:
    """Return whether a column has texts."""
    from pyarrow import types

    inside = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(inside) or types.is_large_string(inside))


class ParquetWriter(Writer):
    """A file that gets its name when it is complete; each `append` makes a row group."""

    def __init__(self, path: Path, fields: Mapping[str, Field]) -> None:
        import pyarrow
        from pyarrow import parquet

        self.path = path
        self.fields = fields
        self.schema = pyarrow.schema([self._column(name, field) for name, field in fields.items()])
        self.new = NewFile(path, DataError)
        try:
            self.writer = parquet.ParquetWriter(str(self.new.temporary), self.schema, write_page_checksum=True)
        except BaseException:
            self.new.drop()
            raise

    def _column(self, name: str, field: Field) -> Any:
        import pyarrow

        if field.codec:
            return pyarrow.field(name, pyarrow.binary(), nullable=False)
        if field.shape is None:
            message = f"{self.path}: '{name}' differs in shape from record to record, which is not written"
            raise DataError(message, "give all records one shape")
        kind = pyarrow.from_numpy_dtype(np.dtype(field.dtype))
        if field.shape:
            kind = pyarrow.list_(kind, prod(field.shape))
        about = json.dumps({"shape": field.shape, "classes": field.classes}).encode()
        return pyarrow.field(name, kind, nullable=False, metadata={KEY: about})

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        import pyarrow

        columns: list[Any] = []
        for name, field in self.fields.items():
            if field.codec:
                columns.append(pyarrow.array(list(rows[name]), pyarrow.binary()))
                continue
            flat = pyarrow.array(np.asarray(rows[name], field.dtype).reshape(-1))
            size = prod(field.shape or ())
            columns.append(pyarrow.FixedSizeListArray.from_arrays(flat, size) if field.shape else flat)
        with os_errors(self.path, "cannot be written", DataError):
            self.writer.write_table(pyarrow.table(columns, schema=self.schema))

    def close(self, commit: bool) -> None:
        if not self.writer.is_open:
            return
        try:
            with os_errors(self.path, "cannot be written", DataError):
                self.writer.close()
            if commit:
                self.new.commit()
        finally:
            self.new.drop()
