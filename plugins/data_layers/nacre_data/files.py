"""Files that a source names: lists of them, and the source's name in errors."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nacre import URL, DataError, local_file
from nacre.files import check_file, is_url, unchanged

LIST_BYTES = 1 << 24  # of a list of files
LONGEST_NAME = 255  # bytes, on nearly every system


@contextmanager
def named(where: str) -> Generator[None]:
    """Make errors in the block begin with the layer's name."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error.args[0]}", error.remedy) from error
    except OSError as error:
        raise DataError(f"{where}: {error}") from error


def may_be_list(path: Path) -> bool:
    """Return whether a file is a list of files, by its name."""
    return path.suffix.lower() == ".txt"


def listed(given: str | Path) -> list[Path]:
    """Return the files listed in a `.txt` file, one per line, relative to its folder; another file is its own list.

    Files at URLs, which a list at a URL names, are copied to this machine.
    """
    path = local_file(given)
    if not may_be_list(path):
        return [path]
    check_file(path, "a file with records, or of a .txt list of them")
    if path.stat().st_size > LIST_BYTES:
        raise DataError(f"{path}: a list of files must not be larger than {LIST_BYTES:,} bytes")
    try:
        with unchanged(path):
            lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: this is not a list of files: {error}") from error
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise DataError(f"{path}: this list of files is empty")
    if wrong := next((name for name in names if not _can_be_name(name)), ""):
        remedy = "a .txt file names one file on each line; CharText and WordText read texts"
        raise DataError(f"{path}: this is not a list of files, but has the line {wrong[:40]!r}...", remedy)
    if isinstance(given, URL):
        return [local_file(given.beside(name)) for name in names]
    if urls := [name for name in names if is_url(name)]:
        raise DataError(f"{path}: it names the URL {urls[0]}", "name URLs in the source itself")
    return [path.parent / name for name in names]


def _can_be_name(name: str) -> bool:
    return "\0" not in name and max(map(len, name.encode().split(b"/"))) <= LONGEST_NAME


def inside(path: Path, folder: Path) -> Path:
    """Return a path that a store has found in a folder, after checking that it does not lead out of it.

    Raises:
        DataError: it is a link to elsewhere. Whoever made the folder could lead nacre to any file by it.
    """
    target = Path(os.path.realpath(path))
    if path.is_symlink() and not target.is_relative_to(os.path.realpath(folder)):
        raise DataError(
            f"{path}: this is a link out of the folder, to {target}", "give that file itself, or copy it here"
        )
    return path


class Modest:
    """An open file that is asked for no more bytes than it has.

    For so many bytes as a caller wants, Python makes room before it reads; a damaged file may make a library want any.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.end = os.fstat(file.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, or those that are left."""
        return self.file.read(min(size, max(0, self.end - self.file.tell())))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)
