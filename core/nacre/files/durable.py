"""Files that survive a kill and a power failure, and a folder that one process has for itself."""

from __future__ import annotations

import errno
import os
import platform
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import NacreError, SnapshotError

if sys.platform != "win32":
    import fcntl

CHUNK = 64 * 1024  # bytes a write call: a full disk and a Ctrl-C are noticed soon

FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
"""Errors that say that there is no room, on the disk or for this user."""

_os = os  # every call that changes the disk goes through this name, so that the kill trials can count and stop them


_can_flock = sys.platform != "win32"


_held: set[FolderLock] = set()


def atomic_write(path: str | Path, data: bytes | memoryview, error: type[NacreError] = NacreError) -> None:
    """Write a file so that, whatever happens, its name stands for the old content or the new one, never for a mixture.

    The order is: write beside it, fsync, rename, fsync the folder; on return the new content is durable. Raises
    `error`, naming path, reason and remedy, and leaves the old file and no other. Two writers of one path at one time
    are the caller's to prevent.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with told(path, "cannot be written", error):
        try:
            _write(temporary, data)
            _os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                _os.unlink(temporary)
            raise
        _sync_folder(path.parent)


def make_empty(path: Path) -> None:
    """Make an empty file of this name; what had the name, a link too, is there no more, but what it led to is."""
    os.close(_create(path))


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a file that is written to its end, in place of what had the name; durable on return."""
    file = _os.open(temporary, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        _os.fsync(file)
    finally:
        os.close(file)
    _os.replace(temporary, path)
    _sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, each durable in the one above."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file; that there is none is no error."""
    with told(path, "cannot be removed"), suppress(FileNotFoundError):
        _os.unlink(path)


def move(path: Path, folder: Path) -> Path:
    """Move a file into another folder of the same disk, durable on return; give where it is now."""
    with told(path, "cannot be moved"):
        _os.replace(path, folder / path.name)
        _sync_folder(folder)
        _sync_folder(path.parent)
    return folder / path.name


class FolderLock:
    """One process's claim to a folder, by a file in it. The system ends it with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        """Raise `SnapshotError` naming the process that has the folder."""
        self.path = folder / ".lock"
        with told(folder, "cannot be locked"):
            self._file: int | None = self._take()
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether the folder is this process's."""
        return self._file is not None

    def release(self) -> None:
        """Unlock the folder; twice does no harm."""
        if self._file is not None:
            self.forget()
            if not _can_flock:
                remove(self.path)

    def forget(self) -> None:
        """Close the file only: in a forked child, where the lock stays the parent's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _held.discard(self)

    def _take(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | (getattr(os, "O_NOFOLLOW", 0) if _can_flock else os.O_EXCL)
        try:
            file = _os.open(self.path, flags, 0o666)
        except FileExistsError as error:
            remedy = f"wait for it, take another folder, or remove {self.path} if that process is gone"
            raise SnapshotError(self._taken(), remedy) from error
        try:
            if sys.platform != "win32" and _can_flock:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # it is written into
                raise SnapshotError(f"{self.path}: not a file of its own, so it is no lock", "remove it")
            os.ftruncate(file, 0)
            _os.write(file, _process().encode())
        except BaseException as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise SnapshotError(self._taken(), "wait for it, stop it, or take another folder") from error
            raise
        return file

    def _taken(self) -> str:
        try:
            owner = self.path.read_bytes()[:200].decode(errors="replace")
        except OSError:
            owner = ""
        mine = " in this process" if owner == _process() else ""
        return f"{self.path.parent}: another training{mine} saves its snapshots here ({owner or 'an unknown process'})"


def _process() -> str:
    return f"process {os.getpid()} on {platform.node()}"


@contextmanager
def told(path: Path, what: str, error: type[NacreError] = SnapshotError) -> Generator[None]:
    """Turn the system's errors into a sentence that names path, reason and remedy."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (*FULL, errno.EFBIG):
            remedy = "make room, keep fewer files, or take another folder; what was there is untouched"
        elif problem.errno == errno.EIO:
            remedy = "the disk fails: take a folder on another disk; what was there is untouched"
        else:
            remedy = "look at the folder and its permissions, or take another one"
        raise error(f"{path}: {what}: {problem.strerror or problem}", remedy) from problem


def _create(path: Path) -> int:
    """Open a new file: a link of this name would lead to a file that somebody chose."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return _os.open(path, flags, 0o666)
    except FileExistsError:
        _os.unlink(path)
        return _os.open(path, flags, 0o666)


def _write(path: Path, data: bytes | memoryview) -> None:
    file = _create(path)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[_os.write(file, rest[:CHUNK]) :]
        _os.fsync(file)
    finally:
        os.close(file)


def _sync_folder(path: Path) -> None:
    if os.name != "posix":
        return  # Windows opens no folder
    folder = _os.open(path, os.O_RDONLY)
    try:
        _os.fsync(folder)
    finally:
        os.close(folder)


def _forget_locks() -> None:
    """Else a forked data worker would hold the folder after its training was killed."""
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
