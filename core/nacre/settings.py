"""Settings for every net: `nacre.toml` in the working folder, which wins, and the user's own `nacre/nacre.toml`.

The user's own lies below `XDG_CONFIG_HOME`, or `~/.config`. Neither has to exist.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from .errors import ConfigError, brief

_KNOWN: dict[str, tuple[type, str]] = {
    "backend": (str, "a text"),
    "allow_writes": (list, "a list of folders"),
    "plugins": (dict, "a table: [plugins]"),
}


@dataclass(frozen=True)
class Settings:
    """What holds for every net: `backend`, or "" where none is chosen, pins, and where net files may write."""

    backend: str = ""
    pins: dict[str, str] = field(default_factory=dict[str, str])
    allow_writes: tuple[str, ...] = ()


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
    """Give what both files say together, as they stand now.

    Raises:
        ConfigError: one of them cannot be read, or says something unknown.
    """
    if (held := _held.get()) is not None:
        return held
    home = os.environ.get("XDG_CONFIG_HOME")
    user = (Path(home) if home else Path("~/.config").expanduser()) / "nacre" / "nacre.toml"
    together, own = Settings(), None
    for path in (user, Path("nacre.toml")):
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
            found.backend or together.backend, together.pins | found.pins, together.allow_writes or found.allow_writes
        )
    return together


@lru_cache(maxsize=16)
def _read(path: Path, _absolute: Path, _state: tuple[int, ...]) -> Settings:
    """Read one file; asked at every lookup of a name, so it is read again only when it has changed."""
    from .complaints import PIN, Complaints, check_pins, check_table
    from .toml import read_toml

    table = read_toml(path)
    complaints = Complaints(str(path))
    complaints.about(check_table(table, _KNOWN))
    complaints.end()
    plugins: dict[str, Any] = table.get("plugins", {})
    complaints.about(check_table(plugins, {"pin": PIN}, "plugins."))
    complaints.about(check_pins(plugins))
    folders = [Path(folder).expanduser() for folder in table.get("allow_writes", [])]
    complaints.about(
        (f"allow_writes has {brief(str(folder))}, which is relative", "write it from / or ~ on")
        for folder in folders
        if not folder.is_absolute()
    )
    complaints.end()
    return Settings(table.get("backend", ""), plugins.get("pin", {}), tuple(map(str, folders)))
