"""The files that a net file may write: in the working folder, and replacing only files of the same writer.

A net file may come from anybody. So a path in a field `OutputPath` of a net file must lie, links followed, in the
working folder or in one that the user allows; and an existing file is replaced or appended to only if it carries the
mark of the same writer, or if the user allows it. A path that the user gives, in Python or by `--set`, is free. Code
that writes uses `output_place`, `own_output`, `replace_output`, `open_to_append` or `claim_folder`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from ..errors import ConfigError, DataError, NacreError, name_in_messages
from ..files.durable import OutputLock, atomic_write, hold, make_folder, os_errors
from ..files.remote import file_name, is_at, is_there, is_url, shown, upload
from .configured import Configured
from .types import URL, Permission, Place

MARK = ".nacre"
"""A file that marks a folder as one of nacre's."""

Ours = Callable[[BinaryIO], bool]
"""Returns whether a file, open at its beginning, carries the mark of its writer."""


def output_place(place: str | Path, ours: Ours | None = None) -> Path:
    """Return the real path to write to, at once; an existing file must be `ours`, if that is given.

    Raises:
        ConfigError: the net file with this path may not write there.
    """
    permission = _permission(place)
    if isinstance(place, str) and is_url(place):
        may_reach(place)
        return Path(place)
    if permission is None:
        return Path(place)
    here, path = os.path.realpath("."), Path(os.path.realpath(place))
    if not any(path.is_relative_to(folder) for folder in (here, *permission.folders)):
        leads = "" if str(path) == str(place) else f", which leads to {path}"
        raise ConfigError(
            f"a net file may write only in the working folder, {here}, but this one names {str(place)!r}{leads}",
            f"if you trust the file, allow it with --allow-writes {path.parent} (in Python load(..., "
            "allow_writes=[...]), for every net allow_writes in your own nacre.toml), or use another path",
        )
    if ours is not None and not may_overwrite(place) and os.path.lexists(path) and not _is(ours, path):
        raise ConfigError(
            f"{place}: the file exists and carries no mark that this writer wrote it, so a net file may not change it",
            f"move it away, use another path, or allow it: --overwrite {place}",
        )
    return path


def may_reach(url: str) -> Callable[[str], bool]:
    """Return what says whether other URLs may be reached for this one, which a layer reads or writes.

    Raises:
        ConfigError: the net file that names this URL may not reach its host.
    """
    permission = url.permission if isinstance(url, URL | Place) else None
    if permission is None:
        return lambda other: True
    if not is_at(url, permission.hosts):
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme.lower() in ("http", "https") else f"{parts.scheme}://{parts.netloc}"
        raise ConfigError(
            f"a net file may reach only hosts that you allow, but this one names {shown(url)}",
            f"if you trust the file, allow it with --allow-remote {host} (in Python load(..., allow_remote=[...]), for "
            "every net allow_remote in your own nacre.toml)",
        )
    return lambda other: is_at(other, permission.hosts)


def real_path(place: str | os.PathLike[str]) -> str:
    """Return a path with all links followed, or the URL, as permissions name it."""
    return place if isinstance(place, str) and is_url(place) else os.path.realpath(place)


def may_overwrite(place: str | Path) -> bool:
    """Return whether the user allows a net file to replace what is at this path or URL: `--overwrite`."""
    permission = _permission(place)
    return permission is not None and real_path(place) in permission.overwrite


@contextmanager
def uploading(target: str | Path, *, replace: bool = True) -> Generator[Path]:
    """Yield where to write a file or folder: its path, or for a URL one from which it is uploaded after the block.

    Nothing is uploaded after an error, nor if nothing was written.

    Raises:
        ConfigError: the net file that names this URL may not reach its host.
        DataError: it cannot be written there, or without `replace` there is one already.
    """
    if isinstance(target, Path) or not is_url(target):
        yield Path(target)
        return
    reach, name = may_reach(target), file_name(target)
    if not replace and is_there(target, reach):
        raise DataError(f"{shown(target)}: it is there already", "use another name, or add --overwrite to replace it")
    import tempfile  # slow to import, and rarely needed

    with tempfile.TemporaryDirectory(prefix="nacre-upload-") as folder:
        path = Path(folder, name)
        name_in_messages(path, shown(target))
        yield path
        if path.exists():
            upload(path, target, reach)


def check_replaceable(url: str) -> None:
    """Raise ConfigError if a net file would replace what is at a URL, whatever that is."""
    if _permission(url) is not None and not may_overwrite(url):
        message = f"{shown(url)}: it exists, and a net file may not replace what is at a URL"
        raise ConfigError(message, f"use another one, or allow it: --overwrite {shown(url)}")


def own_output(place: str | Path, ours: Ours | None = None, error: type[NacreError] = NacreError) -> OutputLock:
    """Let only one training write what `replace_output` replaces, until the lock that is returned is released.

    Raises `error` if another training does, and as `output_place`.
    """
    return OutputLock(output_place(place, ours), error)


def replace_output(place: str, data: bytes, ours: Ours, error: type[NacreError] = NacreError) -> None:
    """Write a whole file as `atomic_write` does, where `output_place` allows it."""
    atomic_write(output_place(place, ours), data, error)


def open_to_append(place: str, ours: Ours, error: type[NacreError] = NacreError) -> BinaryIO:
    """Open a file to append to it, where `output_place` allows it, and if it has no second name (hard link).

    Raises `error` also if another training has it open.
    """
    path, permission = output_place(place, ours), _permission(place)
    free = permission is None or may_overwrite(place)
    with os_errors(Path(place), "cannot be written", error):
        if free:
            file = path.open("ab")
        else:
            file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _AS_IT_IS, 0o666), "ab")
    try:
        if not free and os.fstat(file.fileno()).st_nlink > 1:
            raise ConfigError(
                f"{place}: this file has a second name (hard link), so a net file may not append to it",
                f"use another path, or allow it: --overwrite {place}",
            )
        hold(file.fileno(), place, error)
    except NacreError:
        file.close()
        raise
    return file


def claim_folder(place: str | Path, ours: Callable[[Path], bool], error: type[NacreError] = NacreError) -> Path:
    """Return a folder to write in, where `output_place` allows it, made and marked as nacre's own.

    An existing one must be empty, carry the mark, or be `ours`.
    """
    path, permission = output_place(place), _permission(place)
    mark = path / MARK
    foreign = path.is_dir() and any(path.iterdir()) and not ((mark.is_file() and not mark.is_symlink()) or ours(path))
    if permission is not None and foreign and not may_overwrite(place):
        raise ConfigError(
            f"{place}: the folder exists and something else wrote files in it, so a net file may not use it",
            f"use another folder, or allow it: --overwrite {place}",
        )
    make_folder(path)
    if not os.path.lexists(mark):
        atomic_write(mark, b"This folder is nacre's: it adds files here, replaces and removes them.\n", error)
    return path


def check_places(thing: Configured) -> None:
    """Check every path that a layer or a solver writes, before any work is done; raises as `output_place` does."""
    for place in places_of(thing):
        output_place(place)


def places_of(value: Any) -> Iterator[Place]:
    """Yield the paths that a layer or a component writes, and all components in its fields."""
    if isinstance(value, str | int | float):  # most are, and the other questions take longer
        if isinstance(value, Place):
            yield value
    elif isinstance(value, Configured):
        for field in type(value).fields():
            yield from places_of(getattr(value, field.name))
    elif isinstance(value, list | tuple):
        for entry in cast("Sequence[Any]", value):
            yield from places_of(entry)
    elif isinstance(value, Mapping):
        for entry in cast("Mapping[Any, Any]", value).values():
            yield from places_of(entry)


_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Do not follow a link, and do not wait for a pipe."""


def _permission(place: str | Path) -> Permission | None:
    return place.permission if isinstance(place, Place) else None


def _is(ours: Ours, path: Path) -> bool:
    """Return whether there is a file that is empty or `ours`."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | _AS_IT_IS), "rb") as file:
            status = os.fstat(file.fileno())
            return stat.S_ISREG(status.st_mode) and (not status.st_size or ours(file))
    except OSError:
        return False
