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

_KNOWN: dict[str, tuple[type, str]] = {"backend": (str, "a text"), "plugins": (dict, "a table: [plugins]")}


@dataclass(frozen=True)
class Settings:
    """What holds for every net: `backend`, or "" where none is chosen, and pins."""

    backend: str = ""
    pins: dict[str, str] = field(default_factory=dict[str, str])


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
    backend, pins = "", dict[str, str]()
    for path in (user, Path("nacre.toml")):
        try:
            status = path.stat()
        except OSError:  # it is not there, or not ours to read
            continue
        if path.is_file():
            found = _read(path, path.absolute(), (status.st_ino, status.st_mtime_ns, status.st_size))
            backend, pins = found.backend or backend, pins | found.pins
    return Settings(backend, pins)


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
    complaints.end()
    return Settings(table.get("backend", ""), plugins.get("pin", {}))
