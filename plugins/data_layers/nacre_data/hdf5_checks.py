"""Checked reading of HDF5 files from anybody: nothing outside the file is read, nothing huge is allocated.

HDF5 can point to other files in four ways (external storage, virtual datasets, external links, soft links through
them), and a file of 1,400 bytes can declare 4 TiB. See CVE-2026-1669 (Keras), where a file of weights could read any
other file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import h5py
import numpy as np

from nacre import DataError, nearest
from nacre.files import Watched, check_file, os_errors

from .hdf5_chunks import DEFLATE, FLETCHER32, LZF, SHUFFLE
from .hdf5_texts import texts_of

MAX_BYTES = 1 << 20  # of numbers that were never written, and so are not stored
EXPANSION = {DEFLATE: 1032, LZF: 88, SHUFFLE: 1, FLETCHER32: 1}  # bytes that one byte can stand for, at most
HARD_LINK = 0  # HDF5's H5L_TYPE_HARD
DEEPEST = 32  # groups in groups
NUMBERS_AND_TEXT = "biufcS"  # kinds of fixed size: a string of variable length may have any
REMEDY = "copy it with h5repack, or write it again, so that the file contains its own numbers"
REPACK = "write it again: h5repack -f GZIP=4 OLD NEW"


class CheckedFile:
    """An open HDF5 file that gives only checked datasets."""

    def __init__(self, file: h5py.File, where: str, max_bytes: int, watched: Watched | None) -> None:
        self.file = file
        self.where = where
        self.max_bytes = max_bytes
        self.watched = watched

    def dataset(self, name: str) -> h5py.Dataset:
        """Return the dataset `name`; raise `DataError` if it is missing or `check_dataset` refuses it."""
        where = f"{self.where}: dataset {name!r}"
        with readable(where):
            found: Any = self.file
            for part in filter(None, name.split("/")):
                found = _follow(found, part, where)
            check_dataset(found, where, self.max_bytes)
        return found

    def attribute(self, name: str) -> bytes | None:
        """Return an attribute of the file if it is a short string; else None."""
        with readable(self.where):
            if name not in self.file.attrs:
                return None
            stored: Any = self.file.attrs.get_id(name)
            short = stored.dtype.kind == "S" and stored.dtype.itemsize <= 100 and stored.shape == ()
            value: Any = self.file.attrs[name] if short else None
            return value if value is None else bytes(value)

    def names(self) -> list[str]:
        """Return the names of the datasets in the file, such as "a", and "group/b" for one in a group.

        Only hard links are followed, and each group is looked into once.

        Raises:
            DataError: a group has two of one name, or groups are too deep in each other.
        """
        with readable(self.where):
            return self._names(self.file, "", {self.file.id}, DEEPEST)

    def _names(self, group: h5py.Group, prefix: str, seen: set[Any], deep: int) -> list[str]:
        every = [str(name) for name in group]
        if len(set(every)) < len(every):
            raise DataError(f"{self.where}: damaged: two of its names are the same: {', '.join(sorted(every)[:20])}")
        found: list[str] = []
        for name in every:
            if group.id.links.get_info(name.encode()).type != HARD_LINK:
                continue
            entry: Any = group[name]
            if isinstance(entry, h5py.Dataset):
                found.append(prefix + name)
            elif isinstance(entry, h5py.Group) and entry.id not in seen:
                if not deep:
                    raise DataError(f"{self.where}: more than {DEEPEST} groups are in each other", "name its datasets")
                seen.add(entry.id)
                found += self._names(entry, f"{prefix}{name}/", seen, deep - 1)
        return found

    def texts(self, dataset: h5py.Dataset, name: str) -> tuple[str, ...]:
        """Return an attribute of a dataset that is a list of texts; () if there is none."""
        where = f"{self.where}: attribute '{name}' of {dataset.name}"
        with readable(where):
            if name not in dataset.attrs:
                return ()
            stored: Any = dataset.attrs.get_id(name)
            plain = stored.dtype.kind == "S"
            if not plain and h5py.check_string_dtype(stored.dtype) is None:
                raise DataError(f"{where} must be a list of texts")
            declared = math.prod(map(int, stored.shape or ())) * max(1, stored.dtype.itemsize)
            if stored.shape is None or declared > dataset.file.id.get_filesize():
                raise DataError(f"{where}: damaged: it declares {declared:,} bytes", REMEDY)
            found: Any = dataset.attrs[name] if plain else texts_of(self.file.filename, str(dataset.name), name)
            texts = [one.decode() if isinstance(one, bytes) else one for one in np.atleast_1d(found).tolist()]
        return tuple(texts)

    @contextmanager
    def reading(self, where: str, what: str = "") -> Generator[None]:
        """Raise a DataError that begins with `where` if numbers cannot be read in the block.

        Also raise one that names `what` if the file was changed or cut meanwhile: HDF5 reads a part that was cut off as
        zeros.
        """
        with self.watched.reading(what) if self.watched else nullcontext(), readable(where):
            yield

    def close(self) -> None:
        """Close the file; calling it twice is harmless."""
        self.file.close()

    def __enter__(self) -> CheckedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_hdf5(source: str | Path | BinaryIO, max_bytes: int = MAX_BYTES, where: str = "") -> CheckedFile:
    """Open an HDF5 file for reading.

    `source` is a path, or a file object, which `where` then names. A dataset may declare `max_bytes`, or more if the
    file is large enough for it. Raises `DataError` if the file is missing, truncated or not HDF5.
    """
    where = where or str(source)
    named = isinstance(source, str | Path)
    if named:
        _check_file(Path(source))
    with readable(where):
        file = h5py.File(os.fspath(source) if named else source, "r")
    return CheckedFile(file, where, max_bytes, Watched(file.id.get_vfd_handle(), where) if named else None)


def check_dataset(dataset: Any, where: str, max_bytes: int = MAX_BYTES) -> None:
    """Refuse a dataset that is stored elsewhere, or that declares more than `max_bytes` and than the file can hold.

    Opening it by name may already have left the file: `CheckedFile.dataset` checks every link on the way.
    """
    if not isinstance(dataset, h5py.Dataset):
        raise DataError(f"{where}: this is not a dataset but a {type(dataset).__name__.lower()}")
    with readable(where):
        if dataset.external:
            raise DataError(f"{where}: its numbers are in another file ({dataset.external[0][0]!r})", REMEDY)
        if dataset.is_virtual:
            raise DataError(f"{where}: it is a virtual dataset: its numbers are in other datasets", REMEDY)
        if dataset.shape is None:
            raise DataError(f"{where}: it has no shape (a null dataspace)")
        if dataset.dtype.kind not in NUMBERS_AND_TEXT or dataset.dtype.hasobject:
            raise DataError(f"{where}: its type is {dataset.dtype}, but only plain numbers are read")
        # Python's own integers: the product may exceed 64 bits. A chunk is read whole, even for one element.
        elements = max(math.prod(map(int, dataset.shape)), math.prod(map(int, dataset.chunks or (0,))))
        declared = elements * int(dataset.dtype.itemsize)
        # Where there are chunks, HDF5 adds up as many as a damaged index says there are, which might be for ever.
        stored = dataset.file.id.get_filesize()
        if not dataset.chunks:
            stored = min(stored, dataset.id.get_storage_size())
        held = stored * _expansion(dataset, where)
    if declared > max(held, max_bytes):
        raise DataError(
            f"{where}: it declares {declared:,} bytes, but the file can hold at most {held:,} of them",
            "write all of its numbers, so that they are stored",
        )


@contextmanager
def readable(where: str) -> Generator[None]:
    """Turn any error of the HDF5 library into a `DataError` that begins with `where`."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(where):
            raise
        raise DataError(f"{where}: {error.args[0]}", error.remedy) from error
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error.args[-1] if error.args else error)
        if "truncated file" in reason:
            sizes = re.search(r"eof = (\d+).*stored_eof = (\d+)", reason)
            message = f"truncated: it has {int(sizes[1]):,} of {int(sizes[2]):,} bytes" if sizes else "truncated"
            raise DataError(f"{where}: {message}", "copy or convert it again") from error
        if isinstance(error, OSError) and error.errno:
            with os_errors(Path(where), "cannot be read", DataError):
                raise OSError(error.errno, os.strerror(error.errno)) from error
        inner = re.fullmatch(r"[^(]*\((.*)\)", reason)  # h5py: "Unable to synchronously open file (reason)"
        reason = inner[1] if inner else reason
        raise DataError(f"{where}: cannot be read as HDF5: {reason or type(error).__name__}") from error


def _check_file(path: Path) -> None:
    check_file(path, "an HDF5 file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: this file is empty")
    with readable(str(path)):
        if not h5py.is_hdf5(os.fspath(path)):
            with path.open("rb"):  # raises the reason if it cannot be read at all
                raise DataError(f"{path}: this is not an HDF5 file")


def _follow(group: Any, part: str, where: str) -> Any:
    """Open one entry of a group, only by a hard link: opening another kind of link could leave the file."""
    if not isinstance(group, h5py.Group):
        raise DataError(f"{where}: it does not exist: {group.name!r} is not a group")
    name = part.encode()
    if not group.id.links.exists(name):
        known = [str(entry) for entry in group]
        listed = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        message = f"{where}: it does not exist in {group.name!r}{nearest(part, known)}; that has: {listed or 'nothing'}"
        raise DataError(message, "give the top the name of a dataset, or use another file")
    if group.id.links.get_info(name).type != HARD_LINK:
        raise DataError(f"{where}: {part!r} is a soft or external link, which may lead out of the file", REMEDY)
    return group[part]


def _expansion(dataset: h5py.Dataset, where: str) -> int:
    """Return the most bytes that one stored byte can expand to; refuse unknown filters."""
    plan = dataset.id.get_create_plist()
    filters = [plan.get_filter(position)[0] for position in range(plan.get_nfilters())]
    for number in filters:
        if number not in EXPANSION:
            readable = "only gzip, lzf, shuffle and fletcher32 can be read"
            raise DataError(f"{where}: it needs HDF5 filter {number}, but {readable}", REPACK)
    packed = [number for number in filters if EXPANSION[number] > 1]
    if len(packed) > 1:
        raise DataError(f"{where}: it is compressed {len(packed)} times over", REPACK)
    return EXPANSION[packed[0]] if packed else 1
