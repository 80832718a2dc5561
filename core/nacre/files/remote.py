"""Files at a URL, copied whole into a cache on this machine; `fsspec` does the transfer.

The cache is `nacre/remote` below XDG_CACHE_HOME, or ~/.cache; NACRE_CACHE names another folder than `nacre`. A copy is
never changed: a file that has changed on its server gets another place. A process holds a lock on what it uses, until
it ends; of the others the oldest are removed where room is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..errors import ConfigError, DataError, NacreError, name_in_messages
from ..threads import process_lock
from .durable import NewFile, os_errors

if sys.platform != "win32":
    import fcntl

EXTRA = 'pip install "nacre[remote]"'
VERSIONS = ("ETag", "etag", "Content-MD5", "Last-Modified", "LastModified", "mtime", "created")
"""What servers call the mark of a file's version."""

Allowed = Callable[[str], bool]
"""Returns whether something may be read from a URL."""


def is_url(text: str) -> bool:
    """Return whether this is a URL; a single letter before the colon is a disk of Windows."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s\\]", text) is not None


def shown(url: str) -> str:
    """Return a URL without what may be secret: passwords and signatures."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def file_name(url: str) -> str:
    """Return the name of the file at a URL. Raises DataError if it names none."""
    name = PurePosixPath(urlsplit(url).path).name
    if name in ("", "..") or any(char in name for char in '<>:"|?*'):
        raise DataError(f"{shown(url)}: this URL names no file", "give one that ends in a file's name")
    return name


def is_at(url: str, hosts: Sequence[str]) -> bool:
    """Return whether a URL belongs to one of these hosts: "HOST" or "HOST:PORT" of HTTP, else "s3://BUCKET"."""
    parts = urlsplit(url)
    if parts.scheme.lower() in ("http", "https"):
        return parts.hostname in hosts or parts.netloc.rpartition("@")[2].lower() in hosts
    return f"{parts.scheme.lower()}://{parts.netloc}" in hosts


def timeout() -> float:
    """Return after how many seconds without an answer a server is given up."""
    return _setting("NACRE_REMOTE_TIMEOUT", 60)


def most_bytes() -> int:
    """Return how many bytes the cache may have."""
    return int(_setting("NACRE_REMOTE_BYTES", 20 << 30))


def _setting(name: str, usual: float) -> float:
    text = os.environ.get(name, "")
    try:
        number = float(text or usual)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ConfigError(f"{name}={text!r}: it must be a number above 0", f"the usual one is {usual:,}")
    return number


def folder() -> Path:
    """Return the folder of the cache."""
    given, home = os.environ.get("NACRE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(given) if given else (Path(home) if home else Path("~/.cache").expanduser()) / "nacre"
    except RuntimeError as error:  # a user without a home, as in a container
        message = "there is no folder for copies of remote files, because the home folder is not known"
        raise ConfigError(message, "set NACRE_CACHE to a folder") from error
    return base / "remote"


def fetch(url: str, allowed: Allowed = lambda url: True) -> Path:
    """Return the copy of a file at a URL, as it is there now; it stays until this process ends.

    Messages name the URL, not the copy. `allowed` is asked about where the server leads to.

    Raises:
        DataError: it cannot be read, breaks off, changes meanwhile, or has no room in the cache.
    """
    name = file_name(url)
    with _transfer(url, "cannot be read"):
        system = _system(url, allowed)
        size, version = _state(system, url)
    key = hashlib.sha256(repr((url, size, version)).encode()).hexdigest()[:32]
    host = re.sub(r"[^A-Za-z0-9.-]", "_", urlsplit(url).netloc.rpartition("@")[2]) or "_"
    copy = folder() / f"{host}-{key}" / name
    with _one_thread, os_errors(copy, "cannot be written", DataError):
        while not _locks.hold(copy, size):
            with _locks.alone(copy.parent):
                if not _is_whole(copy, size):  # another process may have been faster
                    _make_room(size, url)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    _copy(system, url, copy, size, version)
        os.utime(copy.parent)
    name_in_messages(copy, shown(url))
    return copy


def is_there(url: str, allowed: Allowed) -> bool:
    """Return whether there is a file or folder at a URL. Raises DataError if nobody can tell."""
    with _transfer(url, "cannot be read"):
        return bool(_system(url, allowed).exists(url))


def upload(path: Path, url: str, allowed: Allowed) -> None:
    """Copy a file, or all files of a folder, to a URL.

    Raises:
        DataError: it cannot be written there.
    """
    with _transfer(url, "cannot be written"):
        system = _system(url, allowed)
        if path.is_file():
            system.put_file(str(path), url)
            return
        system.makedirs(url, exist_ok=True)
        for file in sorted(one for one in path.rglob("*") if one.is_file()):
            system.put_file(str(file), f"{url.rstrip('/')}/{file.relative_to(path).as_posix()}")


def _system(url: str, allowed: Allowed) -> Any:
    """Return what reads such URLs."""
    scheme, seconds = urlsplit(url).scheme.lower(), timeout()
    try:
        fsspec = import_module("fsspec")
        options: dict[str, Any] = {}
        if scheme in ("http", "https"):
            aiohttp = import_module("aiohttp")

            async def look(_: Any, __: Any, redirect: Any) -> None:
                headers = redirect.response.headers
                target = urljoin(str(redirect.url), headers.get("Location") or headers.get("URI") or "")
                if not allowed(target):
                    host = urlsplit(target).netloc
                    message = f"{shown(url)}: the server leads to {shown(target)}, whose host is not allowed"
                    raise ConfigError(message, f"if you trust it, allow it with --allow-remote {host}")

            trace = aiohttp.TraceConfig()
            trace.on_request_redirect.append(look)
            limits = aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds)
            options["client_kwargs"] = {"timeout": limits, "trace_configs": [trace], "trust_env": True}
            options["headers"] = {"Accept-Encoding": "identity"}  # else the length would be another
        elif scheme == "s3":
            options["config_kwargs"] = {"connect_timeout": seconds, "read_timeout": seconds}
        return fsspec.filesystem(scheme, skip_instance_cache=True, **options)
    except ImportError as error:
        raise DataError(f"{shown(url)}: reading from the network needs a library: {error}", EXTRA) from error


def _state(system: Any, url: str) -> tuple[int, list[str]]:
    """Return the length of a file on its server, and what marks its version."""
    info = system.info(url)
    if info.get("size") is None:
        message = f"{shown(url)}: the server does not say its length, so nobody would see that a part is missing"
        raise DataError(message, "copy it by hand")
    return int(info["size"]), [str(info[name]) for name in VERSIONS if info.get(name)]


def _copy(system: Any, url: str, copy: Path, size: int, version: Sequence[str]) -> None:
    """Copy a file beside its place, and rename it if it is whole and did not change."""
    new = NewFile(copy, DataError)
    try:
        with _transfer(url, "was not read to its end"):
            limit = _limited(size, url)
            try:
                system.get_file(url, str(new.temporary), callback=limit)
            finally:
                limit.stopped = True  # after Ctrl-C the transfer goes on in its thread
            found = new.temporary.stat().st_size
            if found != size:
                raise DataError(f"{shown(url)}: it breaks off after {found:,} of {size:,} bytes", "try again")
            if _state(system, url) != (size, version):
                raise DataError(f"{shown(url)}: it changed while it was read", "try again")
        new.commit()
    finally:
        new.drop()


def _limited(size: int, url: str) -> Any:
    """Return what watches a transfer, and ends it when there are more bytes than were told."""

    class Limit(import_module("fsspec.callbacks").Callback):
        done = 0
        stopped = False

        def relative_update(self, inc: int = 1) -> None:
            self.done += inc
            if self.done > size or self.stopped:
                raise DataError(f"{shown(url)}: it has more than the {size:,} bytes that the server told", "try again")

    return Limit()


@contextmanager
def _transfer(url: str, what: str) -> Generator[None]:
    """Turn whatever a library for the network raises into a DataError."""
    try:
        yield
    except NacreError:
        raise
    except Exception as error:
        reason: BaseException = error
        while reason.__cause__ is not None:  # fsspec says "file not found" for all
            reason = reason.__cause__
        if isinstance(reason, NacreError):
            raise reason from error
        why, remedy = " ".join(str(reason).split()) or type(reason).__name__, "check the URL, and try again"
        if isinstance(reason, TimeoutError):
            why = f"no answer within {timeout():g} s"
            remedy = "try again, or give a slow server more time: NACRE_REMOTE_TIMEOUT=300"
        elif isinstance(reason, FileNotFoundError):
            why, remedy = "no such file", "check the URL"
        elif status := getattr(reason, "status", None):
            why, remedy = f"the server answers {status} {getattr(reason, 'message', '')}", "check the URL"
        raise DataError(f"{shown(url)}: {what}: {why}", remedy) from error


# The cache


def _is_whole(copy: Path, size: int) -> bool:
    return copy.is_file() and copy.stat().st_size == size


class Locks:
    """The locks of this process on entries of caches, each of which is a byte of the cache's file `lock`.

    `held` are those on what is used until the process ends. Closing one of the `files` would end all its locks.
    """

    def __init__(self) -> None:
        self.files: dict[Path, int] = {}
        self.held: set[Path] = set()

    def hold(self, copy: Path, size: int) -> bool:
        """Keep a whole copy from being removed until this process ends; return whether there is one."""
        entry = copy.parent
        if entry not in self.held:
            self._lock(entry, exclusive=False)
            self.held.add(entry)
        whole = _is_whole(copy, size)
        if not whole:
            self.held.discard(entry)
            self._unlock(entry)
        return whole

    @contextmanager
    def alone(self, entry: Path, *, wait: bool = True) -> Generator[None]:
        """Let no other process use an entry. Raises OSError if one does, and `wait` is false."""
        self._lock(entry, exclusive=True, wait=wait)
        try:
            yield
        finally:
            self._unlock(entry)

    def close(self) -> None:
        """End all locks."""
        for file in self.files.values():
            os.close(file)
        self.files.clear()
        self.held.clear()

    if sys.platform == "win32":  # it removes no file that is in use

        def _lock(self, entry: Path, *, exclusive: bool, wait: bool = True) -> None:
            """Do nothing."""

        def _unlock(self, entry: Path) -> None:
            """Do nothing."""

    else:

        def _lock(self, entry: Path, *, exclusive: bool, wait: bool = True) -> None:
            if entry.parent not in self.files:
                entry.parent.mkdir(parents=True, exist_ok=True)
                self.files[entry.parent] = os.open(entry.parent / "lock", os.O_RDWR | os.O_CREAT, 0o666)
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            fcntl.lockf(self.files[entry.parent], kind if wait else kind | fcntl.LOCK_NB, 1, _byte(entry))

        def _unlock(self, entry: Path) -> None:
            fcntl.lockf(self.files[entry.parent], fcntl.LOCK_UN, 1, _byte(entry))


def _byte(entry: Path) -> int:
    """Return which byte is the lock of an entry, by the hash at the end of its name; it is no other's."""
    return int(entry.name[-15:], 16)


_locks = Locks()
_one_thread = process_lock()  # these locks are between processes


def _make_room(size: int, url: str) -> None:
    """Remove the oldest copies that nobody uses, until so many bytes fit.

    Raises:
        DataError: they never do.
    """
    bound = most_bytes()
    import shutil  # slow to import, and rarely needed

    entries = [path for path in folder().glob("*-*") if path.is_dir()]
    sizes = {path: sum(file.stat().st_size for file in path.iterdir()) for path in entries}
    total = sum(sizes.values())
    for path in sorted(entries, key=lambda path: path.stat().st_mtime):
        if total + size <= bound:
            return
        if path in _locks.held:
            continue
        with suppress(OSError), _locks.alone(path, wait=False):  # another process may use it
            shutil.rmtree(path)
            total -= sizes[path]
    if total + size > bound:
        used = f", of which {total:,} are in use" if total else ""
        message = f"{shown(url)}: it has {size:,} bytes, but the cache {folder()} may have {bound:,}{used}"
        raise DataError(message, f"let it have more: NACRE_REMOTE_BYTES={total + size}")
