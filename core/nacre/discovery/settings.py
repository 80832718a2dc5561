"""Settings for every net: `nacre.toml` in the working folder, and before it the user's own `nacre/nacre.toml`.

Where both have a value, that of the working folder is used. The user's own file is in `XDG_CONFIG_HOME`, or in
`~/.config`. Neither has to exist.
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
    "backend": (str, "a string"),
    "allow_writes": (list, "a list of folders"),
    "allow_remote": (list, "a list of hosts"),
    "plugins": (dict, "a table: [plugins]"),
}


@dataclass(frozen=True)
class Settings:
    """Settings for every net: `backend` (or ""), pins, where net files may write, whose kernels are enabled.

    `allow_remote` are the hosts from which they may fetch.
    """

    backend: str = ""
    pins: dict[str, str] = field(default_factory=dict[str, str])
    allow_writes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    allow_remote: tuple[str, ...] = ()


_held: ContextVar[Settings | None] = ContextVar("_held", default=None)


@contextmanager
def held_settings() -> Generator[None]:
    """Read the settings once for the whole block: a net asks for them several times for each of its layers."""
    token = _held.set(settings())
    try:
        yield
    finally:
        _held.reset(token)


def settings() -> Settings:
    """Return the settings of both files together, as they are now.

    Raises:
        ConfigError: one of them cannot be read, or has an unknown key.
    """
    if (held := _held.get()) is not None:
        return held
    home = os.environ.get("XDG_CONFIG_HOME")
    user = (Path(home) if home else Path("~/.config").expanduser()) / "nacre" / "nacre.toml"
    together, own = Settings(), None
    for path in (user, FILE):
        try:
            status = path.stat()
        except OSError:  # it does not exist, or may not be read
            continue
        if not path.is_file() or (own is not None and os.path.samestat(own, status)):
            continue
        found = _read(path, path.absolute(), (status.st_ino, status.st_mtime_ns, status.st_size))
        if path == user:
            own = status
        elif found.allow_writes or found.allow_remote:  # it may have come with the net file
            key, option = ("writes", "writes DIR") if found.allow_writes else ("remote", "remote HOST")
            message = f"{path.absolute()}: allow_{key} is not allowed in the nacre.toml of a working folder"
            raise ConfigError(message, f"write it into your own settings file, {user}, or use --allow-{option}")
        together = Settings(
            found.backend or together.backend,
            together.pins | found.pins,
            together.allow_writes or found.allow_writes,
            tuple(dict.fromkeys(together.kernels + found.kernels)),
            together.allow_remote or found.allow_remote,
        )
    return together


@lru_cache(maxsize=16)
def _read(path: Path, _absolute: Path, _state: tuple[int, ...]) -> Settings:
    """Read one file, again only if it has changed: settings are needed at every lookup of a name."""
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
        (f"allow_writes has {brief(str(folder))}, which is relative", "write a path that begins with / or ~")
        for folder in folders
        if not folder.is_absolute()
    )
    complaints.end()
    kernels = tuple(plugins.get("kernels", ()))
    hosts = tuple(map(str, table.get("allow_remote", [])))
    return Settings(table.get("backend", ""), plugins.get("pin", {}), tuple(map(str, folders)), kernels, hosts)


def enable(distribution: str) -> bool:
    """Enable a distribution in the `nacre.toml` of the working folder; everything else in the file stays as it is.

    Return False if it was already enabled.

    Raises:
        ConfigError: the file cannot be read or written, or the line cannot be inserted.
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
    raise ConfigError(f"{path}: the line cannot be inserted automatically", f"add it by hand: {enabling(distribution)}")


def _with_kernel(text: str, plugins: dict[str, Any], distribution: str) -> Iterator[str]:
    """Yield versions of a TOML text with one more enabled distribution; a parser has to find the one that is right."""
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
