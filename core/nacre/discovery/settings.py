"""Settings for every net: `nacre.toml` in the working folder, and before it the user's own `nacre/nacre.toml`.

Where both have a value, that of the working folder is used. The user's own file is in `XDG_CONFIG_HOME`, or in
`~/.config`. Neither has to exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
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
    """Read the settings once for the whole block: nets and net files ask for them several times for each layer."""
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
    user = _users_own()
    together, own = Settings(), None
    for path in (user, FILE) if user else (FILE,):
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
            own_file = f"your own settings file, {user}," if user else "your own settings file"
            raise ConfigError(message, f"remove it there: write it into {own_file} or train with --allow-{option}")
        together = Settings(
            found.backend or together.backend,
            together.pins | found.pins,
            together.allow_writes or found.allow_writes,
            tuple(dict.fromkeys(together.kernels + found.kernels)),
            together.allow_remote or found.allow_remote,
        )
    return together


def _users_own() -> Path | None:
    """Return the place of the user's own file, or None if it has none because the home folder is not known."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or _expanded("~/.config"))
    return None if folder.parts[:1] == ("~",) else folder / "nacre" / "nacre.toml"


def _expanded(path: str) -> Path:
    """Return a path whose ~ is replaced by the home folder; where there is none, as in a container, it stays."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


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
    folders = [_expanded(folder) for folder in table.get("allow_writes", [])]
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
    from .offers import normalised
    from .pins import enabling

    if distribution in map(normalised, settings().kernels):
        return False

    def wanted(plugins: dict[str, Any]) -> dict[str, Any]:
        return {**plugins, "kernels": [distribution, *plugins.get("kernels", [])]}

    def versions(text: str, plugins: dict[str, Any]) -> Iterator[str]:
        entry = f'"{distribution}"'
        inside = r"\bkernels\b[\"' \t]*=[ \t]*\[", "kernels"
        return _with_line(text, plugins, inside, entry, f"kernels = [{entry}]")

    _write(wanted, versions, f"add it by hand: {enabling(distribution)}")
    return True


def disable(distribution: str) -> bool:
    """Take back what `enable` wrote into the `nacre.toml` of the working folder; everything else in it stays as it is.

    Return False if it was not enabled there.

    Raises:
        ConfigError: the file cannot be read or written, or the name cannot be taken out.
    """
    from ..files.toml import read_toml
    from .offers import normalised

    if not FILE.exists():
        return False
    kernels: list[str] = read_toml(FILE).get("plugins", {}).get("kernels", [])
    out = {name for name in kernels if normalised(name) == distribution}

    def wanted(plugins: dict[str, Any]) -> dict[str, Any]:
        return {**plugins, "kernels": [name for name in kernels if name not in out]}

    def versions(text: str, _: dict[str, Any]) -> Iterator[str]:
        name = rf"""(["'])(?:{"|".join(map(re.escape, out))})\1"""
        for pattern in (rf"{name}, ?", rf",\s*{name}", name):
            for match in re.finditer(pattern, text):
                yield text[: match.start()] + text[match.end() :]

    if out:
        _write(wanted, versions, f"take it out of kernels, under [plugins], by hand: {distribution}")
    return bool(out)


def pin(key: str, distribution: str) -> None:
    """Pin a name to a distribution in the `nacre.toml` of the working folder; everything else in it stays as it is.

    Raises:
        ConfigError: the file cannot be read or written, or the line cannot be inserted.
    """
    from .pins import pin_line

    def wanted(plugins: dict[str, Any]) -> dict[str, Any]:
        return {**plugins, "pin": {**plugins.get("pin", {}), key: distribution}}

    def versions(text: str, plugins: dict[str, Any]) -> Iterator[str]:
        entry = f'"{key}" = "{distribution}"'
        return _with_line(text, plugins, (r"\bpin\b[\"' \t]*=[ \t]*\{", "pin"), entry, f"pin = {{ {entry} }}")

    _write(wanted, versions, f"add it by hand: {pin_line(key, distribution)}")


Plugins = dict[str, Any]
"""The table [plugins] of a file."""


def _write(
    wanted: Callable[[Plugins], Plugins], versions: Callable[[str, Plugins], Iterator[str]], remedy: str
) -> None:
    """Write the `nacre.toml` of the working folder anew, so that its table [plugins] is what `wanted` makes of it.

    `versions` gives texts that may be right; a parser finds the one that is.
    """
    import tomllib

    from ..files.durable import atomic_write
    from ..files.toml import read_toml

    path = FILE.resolve()  # a link stays one
    table, text = (read_toml(path), path.read_bytes().decode()) if path.exists() else ({}, "")
    plugins: dict[str, Any] = table.get("plugins", {})
    whole = {**table, "plugins": wanted(plugins)}
    for written in versions(text, plugins):
        try:
            fits = tomllib.loads(written.removeprefix("\ufeff")) == whole
        except ValueError:
            continue
        if fits:
            atomic_write(path, written.encode(), ConfigError)
            return
    raise ConfigError(f"{path}: the line cannot be changed automatically", remedy)


def _with_line(text: str, plugins: dict[str, Any], inside: tuple[str, str], entry: str, line: str) -> Iterator[str]:
    """Yield versions of a TOML text with one more entry in [plugins].

    `inside` has the pattern behind which an entry stands if its list or table is there, and the name of that.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    pattern, name = inside
    places = (
        (pattern, f"{entry}, " if plugins.get(name) else entry),
        (rf"^[ \t]*\[[ \t]*plugins[ \t]*\.[ \t]*{name}[ \t]*\][^\r\n]*", f"{end}{entry}"),
        (r"^[ \t]*\[[ \t]*plugins[ \t]*\][^\r\n]*", f"{end}{line}"),
        (r"^[ \t]*\[[ \t]*plugins[ \t]*\][^\r\n]*", f"{end}{name}.{entry}"),
        (r"^[ \t]*plugins[ \t]*=[ \t]*\{", f" {line}, " if plugins else f" {line} "),
    )
    for pattern, added in places:
        for match in re.finditer(pattern, text, re.MULTILINE):
            yield text[: match.end()] + added + text[match.end() :]
    gap = "" if not text else end if text.endswith("\n") else 2 * end
    yield f"{text}{gap}[plugins]{end}{line}{end}"
    mark = text[:1] if text.startswith("\ufeff") else ""
    yield f"{mark}plugins.{line}{end}{text.removeprefix(mark)}"
    yield f"{mark}plugins.{name}.{entry}{end}{text.removeprefix(mark)}"
