"""The records of files, as nets take them: the store is found by the path, files are joined, bytes are decoded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..arguments import how_to_call, path_of, paths_of, texts_of
from ..discovery.blame import answered
from ..discovery.offers import FIRST_PARTY, Offer
from ..discovery.pins import pin_line
from ..discovery.registry import registry
from ..errors import DataError, NacreError, PluginError, nearest, where_it_is
from ..fields.component import component_of
from ..fields.tables import type_name
from ..protocols.data_store import Codec, Field, Reader, ReaderWrapper, Rows, Store, empty_rows, located
from .joined import Joined

PACKED = 32
"""Records whose bytes are in memory at a time: they may be much larger than what is made of them."""

LONGEST_NAME = 255
"""Bytes of a file's name, on nearly every system."""

OLD = "stores of snapshots have become the kind 'snapshot_store'; the kind 'store' is for files of records"


@how_to_call("store_of(path, store)")
def store_of(path: str | os.PathLike[str], wanted: Any = "", pins: Mapping[str, str] | None = None) -> Store:
    """Return the store that reads a file or folder: `wanted` (a store, its name, or a table), else the one it fits.

    nacre's own come first, so that no other package changes what reads a file; for a name that a pin gives to another
    distribution, that one's. `pins` come before those of the net file that is being read, and of `nacre.toml`.

    Raises:
        DataError: there is no such file or folder; or no store fits, or several of other packages do, and the message
            says how to name one.
        PluginError: the store cannot be used.
    """
    path = path_of(path)
    if long := next((name for name in path.parts if len(os.fsencode(name)) > LONGEST_NAME), ""):  # stores would raise
        raise DataError(f"{long[:40]!r}...: no file has so long a name", "give the path of a file or a folder")
    if found := _store(path, wanted, pins):
        return found
    if not path.exists():
        raise DataError(f"{path}: no such file or folder", where_it_is(path))
    raise _unknown_folder(path) if path.is_dir() else _unknown_ending(path)


@how_to_call("store_to_write(path, store)")
def store_to_write(path: str | os.PathLike[str], wanted: Any = "", pins: Mapping[str, str] | None = None) -> Store:
    """Return the store for a new file or folder, which is found as `store_of` does.

    Raises:
        DataError: no store fits its name, or several of other packages do.
        PluginError: the store cannot be used.
    """
    path = path_of(path)
    if found := _store(path, wanted, pins):
        return found
    raise _unknown_ending(path)


def _store(path: Path, wanted: Any, pins: Mapping[str, str] | None) -> Store | None:
    """Return the store of `store_of`, or None if none fits."""
    if wanted:
        return component_of(Store, wanted, "store")
    broken: list[tuple[Offer, NacreError]] = []
    here = registry()
    offers = here.offers("store")
    first = [one for one in offers if one.distribution == (here.pinned([f"store:{one.name}"], pins) or FIRST_PARTY)]
    for some in (first, [offer for offer in offers if offer not in first]):
        fitting = dict(_fitting(path, some, broken))
        if len(fitting) > 1:
            distribution, _, name = min(fitting).partition(":")
            remedy = f'write store = "{min(fitting)}", or add a pin: {pin_line(f"store:{name}", distribution)}'
            raise DataError(f"{path}: several stores read such files: {' and '.join(sorted(fitting))}", remedy)
        if fitting:
            return next(iter(fitting.values()))()
        for offer, error in broken:  # nothing stands in for what is pinned
            if offer.distribution == here.pinned([f"store:{offer.name}"], pins):
                raise error
    if broken:
        raise broken[0][1]
    return None


def _fitting(
    path: Path, offers: Iterable[Offer], broken: list[tuple[Offer, NacreError]]
) -> Iterator[tuple[str, type[Store]]]:
    """Yield the stores that a file fits, and their names; what is wrong with one goes to `broken`."""
    for offer in offers:
        name = f"{offer.distribution}:{offer.name}"
        try:
            found = cast("type[Store]", _checked(registry().open_offer(offer), offer.name))
            fits = found.fits(path)
        except PluginError as error:
            broken.append((offer, error))
        except PermissionError as error:  # nobody may look into this folder
            inner = str(error.filename)  # it may be a file that is not there
            message = f"{inner if os.access(inner, os.F_OK) else path}: cannot be read: {error.strerror}"
            broken.append((offer, DataError(message, "check the folder and its permissions, or use another one")))
        except Exception as error:  # whatever a plugin raises
            broken.append((offer, PluginError(f"store {name} cannot say whether it reads {path}: {error!r}")))
        else:
            if fits:
                yield name, found


def _checked(found: Any, name: str) -> Any:
    if isinstance(found, type) and issubclass(found, Store):
        return found
    remedy = (
        "offer it as 'snapshot_store'" if hasattr(cast("Any", found), "encode") else "make it a subclass of nacre.Store"
    )
    raise PluginError(f"'{name}' is offered as a store, but it is none: {OLD}", remedy)


def endings() -> list[str]:
    """Return the endings of the names of files that installed stores read."""
    return sorted({ending for store in _stores() for ending in store.endings})


def _stores() -> Iterator[type[Store]]:
    """Yield the stores that can be used."""
    for offer in registry().offers("store"):
        try:
            yield _checked(registry().open_offer(offer), offer.name)
        except PluginError:
            continue  # named where it is needed


def _unknown_folder(path: Path) -> DataError:
    read = sorted(f"{store.folder} ({type_name(store)})" for store in _stores() if store.folder)
    message = f"{path}: there is nothing in this folder that an installed store reads"
    what = f"; a folder is read that has: {'; '.join(read)}" if read else ""
    return DataError(f"{message}{what}", "give another folder or a file, or name its store")


def _unknown_ending(path: Path) -> DataError:
    ending, known = path.suffix.lower(), endings()
    listed = ", ".join(known) or "none"
    what = f"no store is installed for files that end in '{ending}'" if ending else "its name has no ending"
    named = "rename it, name its store (field store; for nacre data --store or --to-store), or install a plugin for it"
    remedy = registry().how_to_get("ending", ending) or named
    return DataError(f"{path}: {what}{nearest(ending, known)}; known endings: {listed}", remedy)


@how_to_call("open_records(paths, fields, store=..., ...)")
def open_records(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    fields: str | Sequence[str] = (),
    *,
    store: Any = "",
    codec: Any = "",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    threads: int = 1,
    pins: Mapping[str, str] | None = None,
) -> Reader:
    """Open files as if they were one, with numbers in every field.

    Args:
        paths: a file or a folder, or several, whose records follow each other.
        fields: those that are wanted; by default all.
        store: the store of all of them; by default each one's is found by its path.
        codec: for bytes; by default what the store says. None leaves the bytes as they are.
        shapes: of fields whose records have none in common, such as pictures.
        threads: to decode bytes with.

    Raises:
        DataError: a file cannot be read, or does not match the others.
    """
    with ExitStack() as stack:
        places = [Path(one) for one in paths_of(paths, "paths", 1)]
        fields = texts_of(fields, "fields", '["data", "label"]')
        openers = [partial(_open, path, fields, store, pins) for path in places]
        joined: Reader = stack.enter_context(Joined([*map(str, places)], openers))
        where = f"{places[0]}" if len(places) == 1 else ""  # else a key begins with its file
        if codec is not None and any(field.codec for field in joined.fields.values()):
            joined = stack.enter_context(Decoded(joined, where, codec, shapes or {}, threads))
        if loose := {name: shape for name, shape in (shapes or {}).items() if _is_loose(joined.fields.get(name))}:
            joined = stack.enter_context(Shaped(joined, where, loose))
        if missing := [name for name in fields if name not in joined.fields]:
            known = ", ".join(joined.fields)
            raise DataError(
                f"{places[0]}: it has no field {missing[0]!r}{nearest(missing[0], joined.fields)}; it has: {known}"
            )
        stack.pop_all()
        return joined


def _open(path: Path, fields: Sequence[str], store: Any, pins: Mapping[str, str] | None) -> Reader:
    made = store_of(path, store, pins)
    return answered(made, "open", made.open(path, fields), Reader, "a Reader")


def _is_loose(field: Field | None) -> bool:
    return field is not None and field.shape is None and not field.codec


class Shaped(ReaderWrapper):
    """Records whose arrays may differ in shape in another reader, but must have these `shapes` here.

    Errors begin with `where` and the record's key.
    """

    def __init__(self, reader: Reader, where: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__(reader)
        self.where = where
        self.shapes = shapes
        self.fields: Mapping[str, Field] = {
            name: replace(field, shape=shapes.get(name, field.shape)) for name, field in reader.fields.items()
        }

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        loose = {name: [None] * len(numbers) for name in self.shapes if name in out}
        self.reader.read(numbers, {**out, **loose})
        for name, arrays in loose.items():
            for row, array in enumerate(arrays):
                out[name][row] = self._checked(name, array, int(numbers[row]))

    def _checked(self, name: str, array: Any, number: int) -> Any:
        if np.shape(array) != self.shapes[name]:
            found = f"'{name}' has the shape {np.shape(array)}, but {self.shapes[name]} is wanted"
            raise DataError(f"{located(self.where, self.key(number))}: {found}", "give all records one shape")
        return array

    def rows(self, start: int = 0) -> Iterator[Rows]:
        for number, row in enumerate(self.reader.rows(start), start):
            for name in self.shapes:
                self._checked(name, row[name], number)
            yield row


class Decoded(ReaderWrapper):
    """The records of another reader, whose bytes codecs turn into numbers.

    `codec` is used instead of those that the reader names; `shapes` are those that codecs scale to. Errors begin with
    `where` and the record's key.
    """

    def __init__(
        self, reader: Reader, where: str, codec: Any, shapes: Mapping[str, tuple[int, ...]], threads: int
    ) -> None:
        super().__init__(reader)
        self.where = where
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.packed: dict[str, Packed] = {}
        fields: dict[str, Field] = {}
        for name, field in reader.fields.items():
            if not field.codec:
                fields[name] = field
                continue
            packed = self.packed[name] = Packed(name, codec_of(codec or field.codec), shapes)
            fields |= self._described(packed, field)
        self.fields: Mapping[str, Field] = fields

    def _described(self, packed: Packed, field: Field) -> Mapping[str, Field]:
        """Return the fields in the bytes of the first record that can be read; {} if there is no record.

        Raises:
            DataError: none of the first records can be read.
        """
        problem: DataError | None = None
        for number in range(1 if self.count is None else min(self.count, PACKED)):
            try:
                row = next(self.reader.rows(number), None)
                with self.naming(number, self.where):
                    return {} if row is None else packed.describe(row[packed.name], field)
            except DataError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return {}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        plain = {name: out[name] for name in out if name in self.reader.fields and name not in self.packed}
        if plain:
            self.reader.read(numbers, plain)
        if packed := [one for one in self.packed.values() if not out.keys().isdisjoint(one.names.values())]:
            for first in range(0, len(numbers), PACKED):
                self._decode(packed, numbers[first : first + PACKED], out, first)

    def _decode(self, packed: Sequence[Packed], numbers: np.ndarray, out: Mapping[str, Any], first: int) -> None:
        """Decode the bytes of records into the rows of `out` from `first` on."""
        raw: dict[str, list[bytes]] = {one.name: [b""] * len(numbers) for one in packed}
        self.reader.read(numbers, raw)

        def decode(row: int) -> None:
            for one in packed:
                one.decode(raw[one.name][row], out, first + row)

        waiting = [self.pool.submit(decode, row) for row in range(len(numbers))] if self.pool else []
        try:
            for row, number in enumerate(numbers.tolist()):
                with self.naming(number, self.where):
                    waiting[row].result() if waiting else decode(row)
        finally:
            wait(waiting)  # after an error too: `out` is used again

    def rows(self, start: int = 0) -> Iterator[Rows]:
        if self.count is not None:
            yield from super().rows(start)
            return
        for number, row in enumerate(self.reader.rows(start), start):
            out = empty_rows(self.fields, 1)
            with self.naming(number, self.where):
                for name, packed in self.packed.items():
                    packed.decode(row[name], out, 0)
            plain = {name: value for name, value in row.items() if name not in self.packed}
            yield {**{name: values[0] for name, values in out.items()}, **plain}

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown()
        super().close()


def codec_of(given: Any) -> Codec:
    """Return a codec that is given as one, by its name, or as a table."""
    return component_of(Codec, given, "codec")


class Packed:
    """A field of bytes, its codec, and the names that the codec's fields have outside."""

    def __init__(self, name: str, codec: Codec, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.name = name
        self.codec = codec
        self.given = shapes
        self.names: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def describe(self, data: bytes, field: Field) -> dict[str, Field]:
        """Return the fields in the bytes of the first record."""
        inner = self.codec.describe(data)
        self.names = {one: self.name if len(inner) == 1 else one for one in inner}
        self.shapes = {one: self.given[outside] for one, outside in self.names.items() if outside in self.given}
        return {
            outside: Field(self.shapes.get(one, field.shape), inner[one].dtype, inner[one].classes or field.classes)
            for one, outside in self.names.items()
        }

    def decode(self, data: bytes, out: Mapping[str, Any], row: int) -> None:
        """Write the numbers of one record into a row of `out`."""
        found = self.codec.decode(data, self.shapes)
        for one, outside in self.names.items():
            if outside not in out:
                continue
            place, array = out[outside], found[one]
            if not isinstance(place, list) and array.shape != place.shape[1:]:
                raise DataError(f"'{outside}' has the shape {array.shape}, but {place.shape[1:]} is wanted")
            place[row] = array
