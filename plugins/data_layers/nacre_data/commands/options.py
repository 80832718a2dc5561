"""What the commands share: the options for sources and targets, opening both, and the progress."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from math import prod
from pathlib import Path
from typing import Any

import click
import numpy as np

from nacre import (
    ConfigError,
    DataError,
    Field,
    NacreError,
    Reader,
    Writer,
    blocks,
    nearest,
    number_of_threads,
    open_records,
    store_of,
    store_to_write,
    uploading,
)
from nacre.cli import InputFile, warn, working
from nacre.files import os_errors

from ..data import files_of
from ..stores.columns import part_names
from ..stores.errors import NeedsFields, NeedsShape
from ..stores.names import DATA, LABEL
from ..stores.pictures import Pictures

MOST_RECORDS, MOST_BYTES = 256, 1 << 24  # that are read at a time

shape_option = click.option(
    "--shape", metavar="3,32,32", help="Shape of a record of the first field, if records differ, as pictures do."
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace a file that is there.")


@dataclass(frozen=True)
class Sources:
    """Files of records as the arguments and options of a command name them."""

    paths: tuple[Path, ...]
    fields: tuple[str, ...]
    store: Any

    def open(self, shape: str | None, *, packed: bool = False) -> Reader:
        """Open the files as if they were one; `shape` is what --shape says, `packed` pictures stay bytes.

        Raises:
            ConfigError: the shape cannot be read.
            DataError: a file cannot be read or is empty, or the shape is for a field that has one.
        """
        shapes = {(self.fields or ("data",))[0]: _shape(shape)} if shape else {}
        threads = number_of_threads()
        options: dict[str, Any] = {"codec": None} if packed and not shape else {}
        reader = self._checked(
            self.paths,
            lambda: open_records(self.paths, self.fields, store=self.store, shapes=shapes, threads=threads, **options),
        )
        if not reader.fields:  # what bytes hold, their codec can tell only of a record
            reader.close()
            raise DataError(f"{self.paths[0]}: there are no records")
        for name, wanted in shapes.items():
            if name not in reader.fields or reader.fields[name].shape != wanted:
                reader.close()
                there = f"whose shape is {reader.fields[name].shape}" if name in reader.fields else "which is not there"
                message = f"{self.paths[0]}: --shape {shape} is for the field '{name}', {there}"
                raise DataError(message, "leave --shape out")
        return reader

    def open_one(self, path: Path) -> Reader:
        """Open one of the files, as its store reads it: what is in bytes stays there."""
        return self._checked([path], lambda: store_of(path, self.store).open(path, self.fields))

    def _checked(self, paths: Sequence[Path], opened: Callable[[], Reader]) -> Reader:
        """Return a reader of files; raise DataError if they do not have a field that is wanted."""
        try:
            reader = opened()
        except DataError:
            self._check_fields(paths)
            raise
        if any(name not in reader.fields or _is_renamed(name, reader.fields[name]) for name in self.fields):
            reader.close()
            self._check_fields(paths)
        return reader

    def _check_fields(self, paths: Sequence[Path]) -> None:
        """Raise DataError for a field that is wanted if the files, and columns of tables, have none of its name."""
        try:
            if not all(path.is_file() or path.is_dir() for path in paths):  # a pipe can be read only once
                return
            with open_records(paths, store=self.store) as reader:
                columns = (column for field in reader.fields.values() for column in field.columns)
                known = list(dict.fromkeys([*reader.fields, *columns]))
        except (NacreError, OSError):  # which is told for itself
            return
        if unknown := [name for name in self.fields if name not in known]:
            listed = f"{', '.join(known[:20])}{', ...' * (len(known) > 20)}"
            message = f"{paths[0]}: there is no field {unknown[0]!r}{nearest(unknown[0], known)}; it has: {listed}"
            raise DataError(message, "name others by --field A,B, or leave --field out")

    def remedy(self, error: Exception) -> str:
        """Return what would do against an error, with the option of the command by which it is said."""
        remedy = error.remedy if isinstance(error, NacreError) else ""
        if not isinstance(error, NeedsFields):
            return remedy
        kind = type(store_of(self.paths[0], self.store)).__name__
        needed = "".join(f", {name} = ..." for name in error.fields)
        return f"{remedy}\n  it is said by --store '{{type = \"{kind}\"{needed}}}'"


@dataclass(frozen=True)
class Targets:
    """How a command writes files of records."""

    store: Any
    overwrite: bool

    def of_part(self, target: Path | str, sources: Sources) -> Targets:
        """Return how a part of the sources is written: with their store and its options, if it has their format.

        So has a name without an ending, if they are in folders.
        """
        mine, path = store_of(sources.paths[0], sources.store), Path(target)
        folder = not path.suffix and (sources.paths[0].is_dir() or isinstance(mine, Pictures))
        return replace(self, store=mine) if not self.store and (folder or mine.fits(path)) else self

    def copies(self, target: Path | str, sources: Sources) -> bool:
        """Return whether pictures in files become such again, so that their bytes are copied."""
        stores = [store_to_write(Path(target), self.store), *(store_of(path, sources.store) for path in sources.paths)]
        return all(isinstance(store, Pictures) for store in stores)

    @contextmanager
    def place(self, target: Path | str) -> Generator[Path]:
        """Yield the path to write to, whose folder is made; what is at it afterwards is uploaded to a target's URL."""
        with uploading(target, replace=self.overwrite) as path, _folder_of(path):
            yield path

    def create(self, path: Path, fields: Mapping[str, Field], sources: Sources, new: Path) -> Noting:
        """Begin the file `new`, which is to get its place at `path` when it is complete and can be read.

        Raises:
            DataError: it is there already, is one of the sources, or its format has no room for the fields.
        """
        if any(source.exists() and path.exists() and source.samefile(path) for source in sources.paths):
            raise DataError(f"{path}: it is a source too", "use another name for the target")
        for source in sources.paths:
            if source.is_dir() and path.resolve().is_relative_to(source.resolve()):
                message = f"{path}: it is in the source {source}, whose records it would be the next time"
                raise DataError(message, "use a folder beside it")
        check_target(path, overwrite=self.overwrite)
        try:
            store = store_to_write(path, self.store)
            if path.exists():
                store.create(path, fields).close(commit=False)  # says what forbids to replace it
            return Noting(store.create(new, fields))
        except NeedsShape as error:
            name = next(name for name, field in fields.items() if field.shape is None or field.codec)
            error.remedy = f"--shape gives all records of '{name}' one shape, such as --shape 3,32,32"
            raise

    def written(
        self, target: Path | str, path: Path, fields: Mapping[str, Field], writer: Noting, *, is_part: bool = False
    ) -> Mapping[str, Field]:
        """Return the fields that a target has when it is read at `path`, or those written if its store is told how.

        Warn of what does not come back unless it is asked for: names of classes, of which a part may have no record,
        fields, and numbers that are NaN.

        Raises:
            DataError: it cannot be read.
        """
        try:
            with open_records([path], store=self.store) as made:
                found = made.fields
                _read_nan(made, writer.first_nan)
        except NeedsFields as error:
            _warn_needs(error)
            return fields
        except NacreError as error:
            raise error.reworded(f"what was written cannot be read back: {error.args[0]}") from error
        known = {name for field in found.values() for name in field.classes}
        for name, field in fields.items():
            lost = [one for one in field.classes if one not in known]
            if lost and not (is_part and len(lost) < len(field.classes)):
                warn(f"{target}: it does not keep the names of {len(lost)} classes of '{name}', such as '{lost[0]}'")
        apart = [name for name in fields if name not in found]
        if apart and any(field.columns for field in found.values()):
            named = ", ".join(map(repr, apart[:5])) + ", ..." * (len(apart) > 5)
            whole = ", ".join(map(repr, found))
            back = f"name {named} (--field, tops) to get {'it' if len(apart) == 1 else 'them'} back"
            warn(f"{target}: where no fields are named it is read as {whole}: {back}")
        return found


def _read_nan(reader: Reader, number: int | None) -> None:
    """Read a record with a number that is NaN, if there is one, and warn if that needs an option of the store."""
    try:
        if number is not None:
            next(blocks(reader, number, 1))
    except NeedsFields as error:
        _warn_needs(error)


def _warn_needs(error: NeedsFields) -> None:
    warn(f"{error.args[0]}: whoever reads it has to say {', '.join(error.fields)} in the store")


class Noting(Writer):
    """Hands records on to another writer; `first_nan` is the first with a number that is NaN, None if there is none."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.count = 0
        self.first_nan: int | None = None

    def __enter__(self) -> Noting:
        return self

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        if self.first_nan is None:
            found = [place for values in rows.values() for place in _nans(values)]
            self.first_nan = self.count + min(found) if found else None
        self.writer.append(rows, keys)
        self.count += length(rows)

    def close(self, commit: bool) -> None:
        self.writer.close(commit)


def _nans(values: Any) -> list[int]:
    """Return which records of a field have a number that is NaN; records of different shapes, pictures, have none."""
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return []
    return np.flatnonzero(np.isnan(values).any(axis=tuple(range(1, values.ndim)))).tolist()


def _is_renamed(name: str, field: Field) -> bool:
    """Return whether a field of a table is called otherwise than its columns, as the data of a source may be."""
    parts = (name,), tuple(part_names(name, field.shape or ()))
    return bool(field.columns) and name not in (DATA, LABEL) and field.columns not in parts


@contextmanager
def _folder_of(path: Path) -> Generator[None]:
    """Make the folders in which a path is; after an error those that were made are gone."""
    made: list[Path] = []
    try:
        for folder in [one for one in path.parents if not one.exists()][::-1]:
            with os_errors(folder, "cannot be made", DataError):
                folder.mkdir()
            made.append(folder)
        yield
    except BaseException:
        with suppress(OSError):  # something else is in it now
            for folder in reversed(made):
                folder.rmdir()
        raise


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise DataError if there is such a file, and it is not to be replaced."""
    if path.exists() and not overwrite:
        raise DataError(f"{path}: it is there already", "use another name, or add --overwrite to replace it")


def sources_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCE..., --field and --store; the command gets them as `sources`."""

    @click.argument("paths", metavar="SOURCE...", nargs=-1, required=True, type=InputFile())
    @click.option("--field", "names", metavar="A,B", help="Fields that are wanted; by default all.")
    @click.option(
        "--store", metavar="NAME", help='Format of the sources, such as CSV or \'{type = "CSV", separator = ";"}\'.'
    )
    @wraps(command)
    def with_sources(paths: tuple[Path, ...], names: str | None, store: str | None, **options: Any) -> Any:
        fields = tuple(name.strip() for name in names.split(",")) if names is not None else ()
        if not all(fields):
            raise ConfigError(f"--field {names!r}: a name is missing", "write --field A,B, or leave it out")
        files = tuple(file for path in paths for file in files_of(path))
        sources = Sources(files, fields, _store("--store", store))
        try:
            return command(sources=sources, **options)
        except NeedsFields as error:
            error.remedy = sources.remedy(error)
            raise

    return with_sources


def targets_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --to-store and --overwrite; the command gets them as `targets`."""

    @click.option("--to-store", metavar="NAME", help="Format of what is written; by default that of its name.")
    @overwrite_option
    @wraps(command)
    def with_targets(to_store: str | None, overwrite: bool, **options: Any) -> Any:
        return command(targets=Targets(_store("--to-store", to_store), overwrite), **options)

    return with_targets


def _store(option: str, text: str | None) -> Any:
    """Return a store as an option gives it: a name, or a TOML table such as {type = "CSV", separator = ";"}."""
    if not text or not text.lstrip().startswith("{"):
        return text or ""
    remedy = f"write {option} '{{type = \"NAME\", option = value}}'"
    try:
        table = tomllib.loads(f"store = {text}")["store"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{option} {text}: {error}", remedy) from error
    if "type" not in table:
        raise ConfigError(f"{option} {text}: it names no type", remedy)
    return table


def _shape(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.strip().isdecimal() and int(size) for size in sizes):
        raise ConfigError(f"--shape {text}: it must be whole numbers above 0", "write, for example, --shape 3,32,32")
    return tuple(map(int, sizes))


def some_at_a_time(reader: Reader) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield all records in blocks that need little memory, each with the number of its first record."""
    yield from blocks(reader, size=block_size(reader.fields))


def block_size(fields: Mapping[str, Field]) -> int:
    """Return how many records are read at a time: one, if nobody knows how large they are."""
    if any(field.shape is None for field in fields.values()):
        return 1
    size = sum(prod(field.shape or ()) * np.dtype(field.dtype).itemsize for field in fields.values())
    return max(1, min(MOST_RECORDS, MOST_BYTES // size))


def length(rows: Mapping[str, Any]) -> int:
    """Return the number of records in a block."""
    return len(next(iter(rows.values())))


def keys(reader: Reader, numbers: range) -> list[str]:
    """Return the names of records; none if they have only places, which are others in another file."""
    return [reader.key(number) for number in numbers] if reader.named else []


@contextmanager
def progress(total: int | None) -> Generator[Callable[[int], object]]:
    """Yield a function that shows how many records are done; it does so only on a terminal."""
    of = "" if total is None else f" of {total:,}"
    with working() as show:
        yield lambda done: show(f"{done:,}{of} records")


def described(fields: Mapping[str, Field]) -> dict[str, Any]:
    """Return fields as data for JSON."""
    return {
        name: {"shape": field.shape, "type": field.dtype, "classes": list(field.classes)}
        for name, field in fields.items()
    }


def shape_text(field: Field) -> str:
    """Return the shape of a field's records as text."""
    return "differs" if field.shape is None else str(field.shape)


def count_text(count: int) -> str:
    """Return a number of records as text."""
    return f"{count:,} {'record' if count == 1 else 'records'}"
