"""Files that survive a kill and a power failure, and locks by which one training owns a folder or a file."""

from __future__ import annotations

import errno
import os
import platform
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..errors import NacreError, SnapshotError, as_named, name_in_messages
from ..threads import after_fork

if sys.platform != "win32":
    import fcntl

CHUNK = 64 * 1024  # bytes a write call: a full disk and a Ctrl-C are noticed soon

FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
"""Error numbers that mean: the disk, or the quota of this user, is full."""

_os = os  # every call that changes the disk goes through this name, so that the kill trials can count and stop them


_can_flock = sys.platform != "win32"


_held: set[FolderLock] = set()


def atomic_write(path: str | Path, data: bytes | memoryview, error: type[NacreError] = NacreError) -> None:
    """Write a file so that it always holds the whole old content or the whole new content, whatever happens.

    The order is: write a temporary file in the same folder, fsync, rename, fsync the folder; on return the new content
    is durable. Raises `error`, naming path, reason and remedy, and leaves only the old file. Of several processes or
    threads that write to one path one waits for the other, where files can be locked (not on Windows).
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with _replacing(path, error):
        file = _create_alone(temporary)
        try:
            try:
                _fill(file, data)
            finally:
                if not _can_flock:  # Windows neither renames nor removes an open file
                    os.close(file)
            _os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                _os.unlink(temporary)
            raise
        finally:
            if _can_flock:
                os.close(file)
        _sync_folder(path.parent)


def hold(file: int, path: str | Path, error: type[NacreError] = NacreError, others: str = "another training") -> None:
    """Let only one training append to an open file, until it is closed; pipes and devices have no owner.

    Raises `error`, which calls them `others`, if another one does, in this process or another.
    """
    if sys.platform != "win32" and _can_flock and stat.S_ISREG(os.fstat(file).st_mode):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            remedy = "wait until it ends, stop it, or use another name"
            raise error(f"{path}: {others} writes to this file", remedy) from taken
        except OSError:
            pass  # a disk that knows no locks


class OutputLock:
    """A lock by which one training alone replaces a file; it lies beside that file, and is removed in the end.

    Nothing is locked where that cannot be done: on Windows, on a disk without locks, where no file can be made.
    """

    def __init__(self, output: Path, error: type[NacreError] = NacreError, others: str = "another training") -> None:
        """Take the lock. Raises `error` if another training has it, in this process or another."""
        self.path = output.with_name(f".{output.name}.nacre-lock")
        self._file: BinaryIO | None = None
        while self._file is None and _can_flock:
            try:
                file = os.fdopen(
                    _os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "rb"
                )
            except OSError:
                return  # the output cannot be written either, which says why
            try:
                hold(file.fileno(), output, error, others)
                self._file = file if os.fstat(file.fileno()).st_nlink else None  # else its owner removed it just now
            finally:
                if self._file is None:
                    file.close()

    def release(self) -> None:
        """Let others write the file; calling it twice is harmless."""
        if self._file is not None:
            with suppress(OSError):
                _os.unlink(self.path)  # before it is unlocked: afterwards it may be another training's
            self._file.close()
            self._file = None


class NewFile:
    """A file that is written beside its place, as `.NAME.tmp`, and gets its name when it is complete.

    `error` is what an OSError becomes. What a killed process left behind is replaced by the next one.
    """

    def __init__(self, path: str | Path, error: type[NacreError] = NacreError) -> None:
        self.path = Path(path)
        self.temporary = self.path.with_name(f".{self.path.name}.tmp")
        self.error = error
        with self.writing():
            self.file: int | None = _create(self.temporary)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Turn an OSError on writing the temporary file into `error`."""
        with _replacing(self.path, self.error):
            yield

    def commit(self) -> None:
        """Give the file its name, replacing a file there; durable on return."""
        if self.file is None:
            return
        with self.writing():
            mine = self._is_mine(self.file)
            self._release()
            if not mine:
                raise self.error(f"{self.path}: another process writes this file too", "use another name")
            put_in_place(self.temporary, self.path)

    def drop(self) -> None:
        """Leave no file behind, except the one that had the name before."""
        if self.file is not None:
            mine = self._is_mine(self.file)
            self._release()
            with suppress(OSError):
                if mine:
                    _os.unlink(self.temporary)

    def _is_mine(self, file: int) -> bool:
        """Return whether the temporary file is still this one: another process may have replaced it, or ended since."""
        try:
            return os.path.samestat(os.fstat(file), self.temporary.stat())
        except FileNotFoundError:
            return False

    def _release(self) -> None:
        if self.file is not None:
            os.close(self.file)
            self.file = None


@contextmanager
def replaced_after(path: Path, error: type[NacreError] = NacreError) -> Generator[Path]:
    """Yield where to write a file or folder, whose files get their places at `path` after the block; durable then.

    After an error in the block the files that were there are unchanged. In messages it is called `path`. Raises
    `error` if another process does the same at this moment.
    """
    import shutil  # slow to import, and rarely needed

    # a link is replaced, and not what it leads to
    whole = path.resolve() if path.name in ("", "..") else path.parent.resolve() / path.name
    folder = whole.parent / f".{whole.name}.new"
    new = folder / whole.name
    name_in_messages(new, as_named(str(path)))  # which may be a name of a URL
    lock = OutputLock(whole, error, "another process")
    try:
        with _replacing(path, error):
            shutil.rmtree(folder, ignore_errors=True)  # a killed process left it
            folder.mkdir()
        yield new
        with os_errors(path, "cannot be written", error):
            files = [file for file in folder.rglob("*") if file.is_file()]
            if new.is_dir() and not os.path.lexists(whole):  # it gets its name at once, with folders that are empty
                for file in files:
                    _sync_file(file)
                _os.replace(new, whole)
                _sync_folder(whole.parent)
                files = [file for file in files if new not in file.parents]
            for file in sorted(files, key=new.__eq__):  # those beside it first, such as the labels of pictures
                place = whole.parent / file.relative_to(folder)
                make_folder(place.parent)
                put_in_place(file, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def make_empty(path: Path) -> None:
    """Make an empty file of this name. A file or link of this name is removed; the target of a link is not."""
    os.close(_create(path))


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a completely written file to `path`, replacing a file there; durable on return."""
    _sync_file(temporary)
    _os.replace(temporary, path)
    _sync_folder(path.parent)


def _sync_file(path: Path) -> None:
    """Wait until what was written into a file is on the disk."""
    file = _os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        _os.fsync(file)
    finally:
        os.close(file)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, each durable in its own parent."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    with os_errors(path, "cannot be removed"), suppress(FileNotFoundError):
        _os.unlink(path)


def move(path: Path, folder: Path) -> Path:
    """Move a file into another folder of the same disk, durable on return; return its new path."""
    with os_errors(path, "cannot be moved"):
        _os.replace(path, folder / path.name)
        _sync_folder(folder)
        _sync_folder(path.parent)
    return folder / path.name


class FolderLock:
    """A file in a folder by which one process owns the folder. The system releases it when the process ends."""

    def __init__(self, folder: Path) -> None:
        """Lock the folder. Raises `SnapshotError` naming the process that owns it, if there is one."""
        self.path = folder / ".lock"
        with os_errors(folder, "cannot be locked"):
            self._file: int | None = self._take()
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether this process owns the folder."""
        return self._file is not None

    def release(self) -> None:
        """Unlock the folder; calling it twice is harmless."""
        if self._file is not None:
            self.forget()
            if not _can_flock:
                remove(self.path)

    def forget(self) -> None:
        """Close the file without unlocking: for a forked child, whose parent keeps the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _held.discard(self)

    def _take(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | (getattr(os, "O_NOFOLLOW", 0) if _can_flock else os.O_EXCL)
        try:
            file = _os.open(self.path, flags, 0o666)
        except FileExistsError as error:
            remedy = f"wait until it ends, use another folder, or remove {self.path} if that process no longer runs"
            raise SnapshotError(self._taken(), remedy) from error
        try:
            if sys.platform != "win32" and _can_flock:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # it is written into
                raise SnapshotError(f"{self.path}: a link or a special file, so it cannot be the lock", "remove it")
            os.ftruncate(file, 0)
            _os.write(file, _process().encode())
        except BaseException as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise SnapshotError(self._taken(), "wait until it ends, stop it, or use another folder") from error
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
def os_errors(path: Path, what: str, error: type[NacreError] = SnapshotError) -> Generator[None]:
    """Turn an OSError into `error`, with path, reason and remedy."""
    try:
        yield
    except OSError as problem:
        raise error(*explained(path, what, problem)) from problem


@contextmanager
def _replacing(path: Path, error: type[NacreError]) -> Generator[None]:
    """Turn an OSError on writing a file beside its place into `error`, which also says that no other was changed.

    Raises `error` if a device or a pipe is there: it would be gone for every program.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise error(f"{path}: this is a device or a pipe, which a file may not replace", "use the name of a file")
        yield
    except OSError as problem:
        told = explained(path, "cannot be written", problem, "; the files that were there are unchanged")
        raise error(*told) from problem


PERMISSIONS = "check the folder and its permissions, or use another one"


def explained(path: Path, what: str, problem: OSError, unchanged: str = "") -> tuple[str, str]:
    """Return message and remedy; of a disk that is full or fails, the remedy ends with `unchanged`."""
    if problem.errno in (*FULL, errno.EFBIG):
        remedy = f"free some space, keep fewer files, or use another folder{unchanged}"
    elif problem.errno == errno.EIO:
        remedy = f"the disk is failing: use a folder on another disk{unchanged}"
    else:
        remedy = PERMISSIONS
    return f"{path}: {what}: {problem.strerror or problem}", remedy


def _create(path: Path) -> int:
    """Open a new file. A link of this name is removed first: it could lead anywhere."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return _os.open(path, flags, 0o666)
    except FileExistsError:
        _os.unlink(path)
        return _os.open(path, flags, 0o666)


def _fill(file: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[_os.write(file, rest[:CHUNK]) :]
    _os.fsync(file)


def _create_alone(path: Path) -> int:
    """Open a new file that is locked until it is closed; wait for others that have made one of this name."""
    if sys.platform == "win32" or not _can_flock:
        return _create(path)
    while True:
        try:
            file = _os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            _remove_left(path)
        else:
            if _locked(file, path):  # else somebody took it for one that was left behind
                return file


def _remove_left(path: Path) -> None:
    """Remove a file that a killed process left behind; if another process is writing it, wait until it has its name."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return
    except OSError:  # a link, or a file of somebody else
        with suppress(FileNotFoundError):
            _os.unlink(path)
        return
    if _locked(file, path):
        try:
            _os.unlink(path)
        finally:
            os.close(file)


def _locked(file: int, path: Path) -> bool:
    """Wait for the lock of an open file; if it has another name then, or none, close it and return False."""
    named = False
    try:
        if sys.platform != "win32":
            with suppress(OSError):  # a disk that knows no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            named = os.path.samestat(os.fstat(file), path.lstat())
    finally:
        if not named:
            os.close(file)
    return named


def _sync_folder(path: Path) -> None:
    if os.name != "posix":
        return  # Windows opens no folder
    folder = _os.open(path, os.O_RDONLY)
    try:
        _os.fsync(folder)
    finally:
        os.close(folder)


def _forget_locks() -> None:
    """Forget the locks in a forked child: else a data worker would own the folder after its training was killed."""
    for lock in list(_held):
        lock.forget()


after_fork(_forget_locks)
