"""Settings for every net: `nacre.toml` in the working folder, which wins, and the user's own `nacre/nacre.toml`.

The user's own lies below `XDG_CONFIG_HOME`, or `~/.config`. Neither has to exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import ConfigError, brief

FILE = Path("nacre.toml")
_KNOWN: dict[str, tuple[type, str]] = {
    "backend": (str, "a text"),
    "allow_writes": (list, "a list of folders"),
    "plugins": (dict, "a table: [plugins]"),
}


@dataclass(frozen=True)
class Settings:
    """What holds for every net: `backend` (or ""), pins, where net files may write, and whose kernels are enabled."""

    backend: str = ""
    pins: dict[str, str] = field(default_factory=dict[str, str])
    allow_writes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()


_held: ContextVar[Settings | None] = ContextVar("_held", default=None)


@contextmanager
def held_settings() -> Generator[None]:
    """Let `settings` say the same as long as this lasts: a net asks for each of its layers, several times."""
    token = _held.set(settings())
    try:
        yield
    finally:
        _held.reset(token)


def settings() -> Settings:
    """Return what both files say together, as they stand now.

    Raises:
        ConfigError: one of them cannot be read, or says something unknown.
    """
    if (held := _held.get()) is not None:
        return held
    home = os.environ.get("XDG_CONFIG_HOME")
    user = (Path(home) if home else Path("~/.config").expanduser()) / "nacre" / "nacre.toml"
    together, own = Settings(), None
    for path in (user, FILE):
        try:
            status = path.stat()
        except OSError:  # it is not there, or not ours to read
            continue
        if not path.is_file() or (own is not None and os.path.samestat(own, status)):
            continue
        found = _read(path, path.absolute(), (status.st_ino, status.st_mtime_ns, status.st_size))
        if path == user:
            own = status
        elif found.allow_writes:  # it may have come with the net file
            told = f"{path.absolute()}: allow_writes must not stand in the nacre.toml of a working folder"
            raise ConfigError(told, f"write it into your own, {user}, or say --allow-writes DIR")
        together = Settings(
            found.backend or together.backend,
            together.pins | found.pins,
            together.allow_writes or found.allow_writes,
            tuple(dict.fromkeys(together.kernels + found.kernels)),
        )
    return together


@lru_cache(maxsize=16)
def _read(path: Path, _absolute: Path, _state: tuple[int, ...]) -> Settings:
    """Read one file; asked at every lookup of a name, so it is read again only when it has changed."""
    from ..files.table_check import KERNELS, Complaints, check_table
    from ..files.toml import read_toml
    from .pins import PIN, check_pins

    table = read_toml(path)
    complaints = Complaints(str(path))
    complaints.about(check_table(table, _KNOWN))
    complaints.end()
    plugins: dict[str, Any] = table.get("plugins", {})
    complaints.about(check_table(plugins, {"pin": PIN, "kernels": KERNELS}, "plugins."))
    complaints.about(check_pins(plugins))
    folders = [Path(folder).expanduser() for folder in table.get("allow_writes", [])]
    complaints.about(
        (f"allow_writes has {brief(str(folder))}, which is relative", "write it from / or ~ on")
        for folder in folders
        if not folder.is_absolute()
    )
    complaints.end()
    kernels = tuple(plugins.get("kernels", ()))
    return Settings(table.get("backend", ""), plugins.get("pin", {}), tuple(map(str, folders)), kernels)


def enable(distribution: str) -> bool:
    """Write into `nacre.toml` of the working folder that a distribution is enabled; all else in it stays as it is.

    Return False where it says so already.

    Raises:
        ConfigError: the file cannot be read or written, or has no place where the line could stand.
    """
    import tomllib

    from ..files.durable import atomic_write
    from ..files.toml import read_toml
    from .offers import normalised
    from .pins import enabling

    if distribution in map(normalised, settings().kernels):
        return False
    path = FILE.resolve()  # a link stays one
    table, text = (read_toml(path), path.read_bytes().decode()) if path.exists() else ({}, "")
    plugins: dict[str, Any] = table.get("plugins", {})
    wanted = {**table, "plugins": {**plugins, "kernels": [distribution, *plugins.get("kernels", [])]}}
    for written in _with_kernel(text, plugins, distribution):
        try:
            fits = tomllib.loads(written.removeprefix("\ufeff")) == wanted
        except ValueError:
            continue
        if fits:
            atomic_write(path, written.encode(), ConfigError)
            return True
    raise ConfigError(f"{path}: there is no place to write into", f"change it by hand: {enabling(distribution)}")


def _with_kernel(text: str, plugins: dict[str, Any], distribution: str) -> Iterator[str]:
    """Yield texts of a TOML file with one more enabled distribution; which of them says so, a parser has to tell."""
    end = "\r\n" if "\r\n" in text else "\n"
    entry, line = f'"{distribution}"', f'kernels = ["{distribution}"]'
    places = (
        (r"\bkernels\b[\"' \t]*=[ \t]*\[", f"{entry}, " if plugins.get("kernels") else entry),
        (r"^[ \t]*\[[ \t]*plugins[ \t]*\][^\r\n]*", f"{end}{line}"),
        (r"^[ \t]*plugins[ \t]*=[ \t]*\{", f" {line}, " if plugins else f" {line} "),
    )
    for pattern, added in places:
        for match in re.finditer(pattern, text, re.MULTILINE):
            yield text[: match.end()] + added + text[match.end() :]
    gap = "" if not text else end if text.endswith("\n") else 2 * end
    yield f"{text}{gap}[plugins]{end}{line}{end}"
    mark = text[:1] if text.startswith("\ufeff") else ""
    yield f"{mark}plugins.{line}{end}{text.removeprefix(mark)}"
