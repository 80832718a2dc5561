"""LMDB: a database of keys and values, as Caffe and SINGA write it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from nacre import DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, check_file, make_folder, os_errors

from ..files import inside
from .lmdb_pages import Pages
from .packed import DESCRIBING, CodecName, PackedReader, Packing, check_same_records, file_to_continue, wanted_of
from .places import open_alone

DATA = "data.mdb"
SINGLE = ".mdb"
"""The end of the name of a database that is one file; others are folders with a file `data.mdb`."""
DIGITS = 10  # of the keys' numbers, by which the records stay in order
LONGEST_KEY = 511
PENDING = 1 << 24  # bytes that are kept in memory before they are written
SMALLEST_MAP = 1 << 20


class LMDB(Store):
    """Records in an LMDB database: a folder with `data.mdb`, as Caffe and SINGA have it, or a single `.mdb` file.

    Values are Caffe's Datum, SINGA's Record or nacre's own, which is found out by the first. Records are in the order
    of their keys. Reading needs no library, and changes nothing in the folder: there is no lock, so nobody may write
    meanwhile. Writing needs lmdb: pip install "nacre[lmdb]".
    """

    endings = (".lmdb", SINGLE)
    folder = DATA
    codec: CodecName = ""

    @classmethod
    def fits(cls, path: Path) -> bool:
        """Return whether it is a folder with a database, or a file by its name."""
        return (path / DATA).is_file() if path.is_dir() else super().fits(path)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        file = inside(path / DATA, path) if path.is_dir() else path
        check_file(file, "an LMDB database")
        with os_errors(file, "cannot be read", DataError):
            pages = Pages(file)
        try:
            return LMDBReader(str(path), pages, self.codec, fields)
        except BaseException:
            pages.close()
            raise

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        packing = Packing(str(path), fields, self.codec)
        return LMDBAppender(self, path, packing) if append else LMDBWriter(path, packing)


class LMDBReader(PackedReader):
    """Records of one database, in the order of its keys."""

    def __init__(self, where: str, pages: Pages, codec: str, wanted: Sequence[str]) -> None:
        self.pages = pages
        super().__init__(where, pages.entries, pages.watched, codec, wanted)

    def value(self, entry: int) -> bytes:
        return self.pages.value(entry)

    def close(self) -> None:
        self.pages.close()


class LMDBWriter(Writer):
    """A database beside its place, which gets its name when it is complete.

    Keys are numbers of ten digits, followed by the name of the record if it has one: "0000000007_cat/7.jpg".
    """

    def __init__(self, path: Path, packing: Packing) -> None:
        self.new: NewFile | None = NewFile(path, DataError)
        self.single = path.name.lower().endswith(SINGLE)
        try:
            self._begin(path, packing, self.new.temporary, 0, subdir=False, lock=False, sync=False)
            if (head := packing.describing()) is not None:
                self.pending.append((DESCRIBING.encode(), head))
        except BaseException:
            self.close(commit=False)
            raise

    def _begin(self, path: Path, packing: Packing, place: Path, size: int, **options: Any) -> None:
        self.path = path
        self.packing = packing
        self.pending: list[tuple[bytes, bytes]] = []
        self.waiting = 0  # bytes of these
        self.digits, self.count = DIGITS, 0
        self.environment: Any = None
        lmdb = self.lmdb = _library()
        try:
            self.environment = lmdb.open(str(place), map_size=max(SMALLEST_MAP, 2 * size), **options)
        except lmdb.Error as error:
            raise DataError(f"{path}: cannot be written: {error}", "use another name") from error

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        for row, value in enumerate(self.packing.values(rows, self.count)):
            key = self._key(keys[row] if keys else "")
            self.pending.append((key, value))
            self.count += 1
            self.waiting += len(value)
            if self.waiting >= PENDING:
                self.flush()

    def _key(self, name: str) -> bytes:
        number = f"{self.count:0{self.digits}d}"
        if len(number) > self.digits:
            raise DataError(f"{self.path}: its keys have {self.digits} digits, and all are used", "write a new file")
        # what came from such a database has its number already
        key = (name if name.startswith(number) else f"{number}_{name}" if name else number).encode()
        if len(key) > LONGEST_KEY:
            message = f"{self.path}: the key {name[:40]!r}... has {len(key)} bytes, but {LONGEST_KEY} are possible"
            raise DataError(message, "give the records shorter names")
        return key

    def flush(self) -> None:
        """Write what is pending in one transaction, in a larger map if it does not fit."""
        while self.pending:
            try:
                with self.environment.begin(write=True) as transaction:
                    for key, value in self.pending:
                        if not transaction.put(key, value, overwrite=key == DESCRIBING.encode()):
                            message = f"{self.path}: the key {key.decode()!r} is there already"
                            raise DataError(message, "let only one program write into a database")
            except self.lmdb.MapFullError:
                self.environment.set_mapsize(2 * self.environment.info()["map_size"] + self.waiting)
                continue
            except self.lmdb.Error as error:
                raise DataError(f"{self.path}: cannot be written: {error}", "is the disk full?") from error
            self.pending.clear()
            self.waiting = 0

    def close(self, commit: bool) -> None:
        if self.new is None:
            return
        new, self.new = self.new, None
        try:
            if self.environment is not None:
                self._finish(commit)
            if commit:
                if not self.single:
                    with os_errors(self.path, "cannot be written", DataError):
                        make_folder(self.path)
                    new.path = self.path / DATA
                new.commit()
        finally:
            new.drop()

    def _finish(self, commit: bool) -> None:
        try:
            if commit:
                self.flush()
        finally:
            self.environment.close()
            self.environment = None


class LMDBAppender(LMDBWriter):
    """A database that is continued, or begun, in its place, by one writer at a time: what was flushed survives a crash.

    `close(commit=False)` leaves out what was not flushed.
    """

    def __init__(self, store: LMDB, path: Path, packing: Packing) -> None:
        self.new, self.environment = None, None
        _library()
        file = file_to_continue(path, DATA, SINGLE)
        with os_errors(path, "cannot be written", DataError):
            if file != path:
                make_folder(path)
            self.held: int | None
            self.held, was_there = open_alone(file, path)
        try:
            self._continue(store, path, packing, file)
        except BaseException:
            self.close(commit=False)
            if not was_there:
                file.unlink(missing_ok=True)
            raise

    def _continue(self, store: LMDB, path: Path, packing: Packing, file: Path) -> None:
        size = file.stat().st_size
        last = _last_key(store, path, packing, file) if size else ""
        self._begin(path, packing, path, size, subdir=file != path)
        if last:
            found = re.match(r"\d+", last)
            if not found:
                message = f"{path}: its last key is {last!r}, which is no number, so the place of more is not known"
                raise DataError(message, "write a new file")
            self.digits, self.count = len(found[0]), int(found[0]) + 1
        elif (head := packing.describing()) is not None:
            self.pending.append((DESCRIBING.encode(), head))

    def close(self, commit: bool) -> None:
        try:
            if self.environment is not None:
                self._finish(commit)
        finally:
            held, self.held = self.held, None
            if held is not None:
                os.close(held)


def _last_key(store: LMDB, path: Path, packing: Packing, file: Path) -> str:
    """Return the last key of a database whose records have the fields of those to come; "" if there is none."""
    with closing(Pages(file)) as pages:
        keys = {pages.entries.key(number) for number in range(min(2, len(pages.entries)))}
    if keys <= {DESCRIBING.encode()}:
        return ""
    with store.open(path, wanted_of(packing)) as before:
        assert isinstance(before, PackedReader)
        check_same_records(before, packing)
        return before.key((before.count or 0) - 1)


def _library() -> Any:
    try:
        import lmdb
    except ImportError as error:
        raise DataError("writing an LMDB database needs the library lmdb", 'pip install "nacre[lmdb]"') from error
    return lmdb
