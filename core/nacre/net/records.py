"""The records of files, as nets take them: the store is found by the path, files are joined, bytes are decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..discovery.offers import FIRST_PARTY, Offer
from ..discovery.registry import registry
from ..errors import DataError, PluginError, nearest
from ..fields.component import make_component
from ..protocols.data_store import Codec, Field, Reader, Rows, Store, empty_rows, located

PACKED = 32
"""Records whose bytes are in memory at a time: they may be much larger than what is made of them."""

OLD = "stores of snapshots have become the kind 'snapshot_store'; the kind 'store' is for files of records"


def store_of(path: Path, wanted: Any = "", pins: Mapping[str, str] | None = None) -> Store:
    """Return the store for a file or folder: `wanted` (a store, its name, or a table), else the one that it fits.

    nacre's own come first, so that no other package changes what reads a file; for a name that `pins` gives to another
    distribution, that one's.

    Raises:
        DataError: no store fits, or several of other packages do; the message says how to name one.
        PluginError: the store cannot be used.
    """
    if wanted:
        return wanted if isinstance(wanted, Store) else make_component(Store, wanted)
    broken: list[PluginError] = []
    offers = registry().offers("store")
    first = [offer for offer in offers if offer.distribution == (pins or {}).get(f"store:{offer.name}", FIRST_PARTY)]
    for some in (first, [offer for offer in offers if offer not in first]):
        fitting = dict(_fitting(path, some, broken))
        if len(fitting) > 1:
            remedy = 'name one of them (store = "..."), or pin its distribution'
            raise DataError(f"{path}: several stores read such files: {' and '.join(sorted(fitting))}", remedy)
        if fitting:
            return next(iter(fitting.values()))()
    if broken:
        raise broken[0]
    raise _unknown(path)


def _fitting(path: Path, offers: Iterable[Offer], broken: list[PluginError]) -> Iterator[tuple[str, type[Store]]]:
    """Yield the stores that a file fits, and their names; what is wrong with one goes to `broken`."""
    for offer in offers:
        name = f"{offer.distribution}:{offer.name}"
        try:
            found = cast("type[Store]", _checked(registry().open_offer(offer), offer.name))
            fits = found.fits(path)
        except PluginError as error:
            broken.append(error)
        except Exception as error:  # whatever a plugin raises
            broken.append(PluginError(f"store {name} cannot say whether it reads {path}: {error!r}"))
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
    known: set[str] = set()
    for offer in registry().offers("store"):
        try:
            known.update(_checked(registry().open_offer(offer), offer.name).endings)
        except PluginError:
            continue  # named where it is needed
    return sorted(known)


def _unknown(path: Path) -> DataError:
    if path.is_dir():
        return DataError(f"{path}: no store is installed that reads this folder", "name its store, or give a file")
    ending, known = path.suffix.lower(), endings()
    listed = ", ".join(known) or "none"
    what = f"no store is installed for files that end in '{ending}'" if ending else "its name has no ending"
    remedy = "rename it, name its store, or install a plugin that offers one"
    return DataError(f"{path}: {what}{nearest(ending, known)}; known endings: {listed}", remedy)


def open_records(
    paths: Sequence[Path],
    fields: Sequence[str] = (),
    *,
    store: Any = "",
    codec: Any = "",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    threads: int = 1,
    pins: Mapping[str, str] | None = None,
) -> Reader:
    """Open files as if they were one, with numbers in every field.

    Args:
        paths: files or folders; their records follow each other.
        fields: those that are wanted; by default all.
        store: the store of all of them; by default each one's is found by its path.
        codec: for bytes; by default what the store says. None leaves the bytes as they are.
        shapes: of fields whose records have none in common, such as pictures.
        threads: to decode bytes with.

    Raises:
        DataError: a file cannot be read, or does not match the others.
    """
    with ExitStack() as stack:
        parts = [stack.enter_context(store_of(path, store, pins).open(path, fields)) for path in paths]
        joined = parts[0] if len(parts) == 1 else stack.enter_context(Joined([*map(str, paths)], parts))
        if codec is not None and any(field.codec for field in joined.fields.values()):
            where = f"{paths[0]}" if len(parts) == 1 else ""  # else a key begins with its file
            joined = stack.enter_context(Decoded(joined, where, codec, shapes or {}, threads))
        if missing := [name for name in fields if name not in joined.fields]:
            known = ", ".join(joined.fields)
            raise DataError(
                f"{paths[0]}: it has no field {missing[0]!r}{nearest(missing[0], joined.fields)}; it has: {known}"
            )
        stack.pop_all()
        return joined


class Decoded(Reader):
    """The records of another reader, whose bytes codecs turn into numbers.

    `codec` is used instead of those that the reader names; `shapes` are those that codecs scale to. Errors begin with
    `where` and the record's key.
    """

    def __init__(
        self, reader: Reader, where: str, codec: Any, shapes: Mapping[str, tuple[int, ...]], threads: int
    ) -> None:
        self.reader = reader
        self.where = where
        self.count = reader.count
        self.named = reader.named
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.packed: dict[str, _Packed] = {}
        fields: dict[str, Field] = {}
        first = next(iter(reader.rows()), None)
        for name, field in reader.fields.items():
            if not field.codec:
                fields[name] = field
                continue
            made = codec if isinstance(codec, Codec) else make_component(Codec, codec or field.codec)
            packed = self.packed[name] = _Packed(name, made, shapes)
            if first is not None:
                with self.naming(0, where):
                    fields |= packed.describe(first[name], field)
        self.fields: Mapping[str, Field] = fields

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        plain = {name: out[name] for name in out if name in self.reader.fields and name not in self.packed}
        if plain:
            self.reader.read(numbers, plain)
        if packed := [one for one in self.packed.values() if not out.keys().isdisjoint(one.names.values())]:
            for first in range(0, len(numbers), PACKED):
                self._decode(packed, numbers[first : first + PACKED], out, first)

    def _decode(self, packed: Sequence[_Packed], numbers: np.ndarray, out: Mapping[str, Any], first: int) -> None:
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

    def key(self, number: int) -> str:
        return self.reader.key(number)

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown()
        self.reader.close()


class _Packed:
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


class Joined(Reader):
    """Several readers, one after the other; classes are those of the first, and the others' numbers are changed."""

    def __init__(self, paths: Sequence[str], readers: Sequence[Reader]) -> None:
        self.paths = paths
        self.readers = readers
        self.fields = readers[0].fields
        self.changes: list[dict[str, np.ndarray]] = []
        for path, reader in zip(paths, readers, strict=True):
            self.changes.append({})
            for name, field in self.fields.items():
                self._check(path, name, reader.fields.get(name), field)
                if field.classes and reader.fields[name].classes != field.classes:
                    self.changes[-1][name] = class_numbers(path, name, reader.fields[name].classes, field.classes)
        self.named = any(reader.named for reader in readers)
        counts = [reader.count for reader in readers]
        self.count = None if None in counts else sum(cast("list[int]", counts))
        self.starts = np.array([*accumulate((count or 0 for count in counts), initial=0)])

    def _check(self, path: str, name: str, there: Field | None, here: Field) -> None:
        if there is None:
            raise DataError(f"{path}: it has no field '{name}', but {self.paths[0]} has it")
        if there.codec != here.codec:
            kinds = [field.codec or "numbers" for field in (there, here)]
            raise DataError(f"{path}: '{name}' is stored as {kinds[0]}, but in {self.paths[0]} as {kinds[1]}")
        if there.shape != here.shape or there.dtype != here.dtype or bool(there.classes) != bool(here.classes):
            raise DataError(
                f"{path}: '{name}' has records of shape {there.shape} and type {there.dtype}, but in {self.paths[0]} "
                f"they have shape {here.shape} and type {here.dtype}"
            )

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        places = np.searchsorted(self.starts, numbers, "right") - 1
        for place in cast("list[int]", np.unique(places).tolist()):
            rows, reader = np.flatnonzero(places == place), self.readers[place]
            part = empty_rows({name: reader.fields[name] for name in out}, len(rows))
            reader.read(numbers[rows] - self.starts[place], part)
            for name, values in part.items():
                change = self.changes[place].get(name)
                if not isinstance(values, list):
                    out[name][rows] = values if change is None else self._changed(place, name, values)
                    continue
                for row, value in zip(rows.tolist(), cast("list[Any]", values), strict=True):
                    out[name][row] = value

    def rows(self, start: int = 0) -> Iterator[Rows]:
        for place, (reader, changes) in enumerate(zip(self.readers, self.changes, strict=True)):
            if reader.count is None:  # how many of its records are skipped is known only when they are read
                rows = reader.rows()
                start -= sum(1 for _ in islice(rows, start))
            else:
                rows, start = reader.rows(start), max(0, start - reader.count)
            for row in rows:
                yield {
                    name: self._changed(place, name, value) if name in changes else value for name, value in row.items()
                }

    def _changed(self, place: int, name: str, values: Any) -> np.ndarray:
        known = len(self.fields[name].classes)
        return renumbered(values, self.changes[place][name], known, f"{self.paths[place]}: '{name}': ")

    def key(self, number: int) -> str:
        if self.count is None:
            return super().key(number)
        place = int(np.searchsorted(self.starts, number, "right")) - 1
        return located(self.paths[place], self.readers[place].key(number - int(self.starts[place])))

    def close(self) -> None:
        with ExitStack() as all_of_them:
            for reader in self.readers:
                all_of_them.callback(reader.close)


def class_numbers(where: str, field: str, there: Sequence[str], here: Sequence[str]) -> np.ndarray:
    """Return for the number of each class there its number here, found by name.

    Raises:
        DataError: a class has no number here.
    """
    known = {name: number for number, name in enumerate(here)}
    if unknown := [name for name in there if name not in known]:
        listed = ", ".join(here[:10]) + (", ..." if len(here) > 10 else "")
        raise DataError(
            f"{where}: '{field}' has the class '{unknown[0]}'{nearest(unknown[0], here)}, which is not one of the "
            f"{len(here)} known classes: {listed}"
        )
    return np.array([known[name] for name in there], np.int64)


def renumbered(values: Any, numbers: np.ndarray, known: int, where: str = "") -> np.ndarray:
    """Return numbers of classes there as numbers here; what is the number of no class, as of ignored labels, stays.

    `numbers` are those of `class_numbers`, `known` is how many classes there are here.

    Raises:
        DataError: a number has no name there, but is that of a class here.
    """
    given = np.asarray(values)
    none = (given < 0) | (given >= max(len(numbers), known))
    nameless = given[~none & (given >= len(numbers))]
    if nameless.size:
        last = len(numbers) - 1
        raise DataError(f"{where}the number {nameless[0]:g} has no name: only those from 0 to {last} have one")
    return np.where(none, given, numbers[np.where(none, 0, given).astype(np.intp)])
