"""nacre.lock: the distributions that may be used as plugins, with their versions and what is in their files.

With NACRE_LOCKED=1 everything else stays unimported, and each module of a locked distribution is compared with the hash
that pip noted in RECORD before it runs. A lock keeps out what was installed by mistake or has changed since; it does
not make code harmless that is in it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import FileLoader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ..errors import RegistryError
from .discovery import EDITABLE, LOCK, LOCKED, is_on
from .offers import FIRST_PARTY, Plugin, Problem, normalised

VERSION = 1
HEAD = f"""# The plugins that may be used with --locked, or where {LOCKED}=1; `nacre plugins lock` writes it anew.
version = {VERSION}
"""
REMEDY = "`nacre plugins lock` writes the lock anew, if what is installed now is right"
_NOT_MODULES = re.compile(r"(^|/)[^/]+\.dist-info/|^(\.\./)*(bin|Scripts)/|\.pyc$")


@dataclass(frozen=True)
class Entry:
    """A distribution in a lock. `sha256` is of the lines in its RECORD; "" for an editable install, which has none."""

    version: str
    sha256: str


def entries_of(plugins: Iterable[Plugin], *, allow_editable: bool = False) -> dict[str, Entry]:
    """Return the entries of the distributions of plugins, in the order of their names.

    Raises:
        RegistryError: one is editable, has no RECORD, or has a module that is not the one in it, and so would not run.
    """
    provenances = {plugin.provenance.distribution: plugin.provenance for plugin in plugins}
    found: dict[str, Entry] = {}
    for name, provenance in sorted(provenances.items()):
        if provenance.editable and not allow_editable:
            message = f"{provenance} is installed editable: its files may change, so that a lock says nothing of them"
            raise RegistryError(message, "install it from a wheel, or add --allow-editable")
        record = None if provenance.editable else _record(name)
        if record is not None and (reason := _changed(record)):
            raise RegistryError(reason, f"pip install --force-reinstall {name}")
        found[name] = Entry(provenance.version, "" if record is None else record.sha256)
    return found


def lock_text(entries: Mapping[str, Entry]) -> str:
    """Return the text of a lock."""
    tables = (
        f'\n[[distribution]]\nname = "{name}"\nversion = "{entry.version}"\n'
        + (f'sha256 = "{entry.sha256}"\n' if entry.sha256 else "editable = true\n")
        for name, entry in entries.items()
    )
    return HEAD + "".join(tables)


def read_lock(path: Path) -> dict[str, Entry]:
    """Return the entries of a lock.

    Raises:
        RegistryError: there is none, or it is damaged or of a later version.
    """
    from ..files.toml import read_toml

    if not path.exists():
        message = f"{path}: there is no lock of plugins"
        raise RegistryError(message, f"`nacre plugins lock` writes it; without {LOCKED} and --locked none is needed")
    table = read_toml(path)
    tables: Any = table.get("distribution", [])
    if table.get("version") != VERSION:
        raise RegistryError(f"{path}: its version is {table.get('version')}, but this nacre reads {VERSION}", REMEDY)
    try:
        return {normalised(one["name"]): Entry(one["version"], _hash(one)) for one in tables}
    except (AttributeError, KeyError, TypeError) as error:
        message = f"{path}: damaged: each [[distribution]] needs name, version and sha256, or editable = true"
        raise RegistryError(message, REMEDY) from error


def _hash(table: Mapping[str, Any]) -> str:
    return "" if table.get("editable") is True else str.lower(table["sha256"])


def lock_out(plugins: Sequence[Plugin], environ: Mapping[str, str]) -> list[Problem]:
    """Disable the plugins that are not as the lock of `NACRE_LOCKED` has them; compare the others' modules.

    Raises:
        RegistryError: the lock cannot be read, or nacre itself is not the one in it.
    """
    given = environ[LOCKED].strip()
    path = Path(LOCK if given == "1" else given)
    entries, problems = read_lock(path), list[Problem]()
    records: dict[str, Record] = {}
    for plugin in plugins:
        name = plugin.provenance.distribution
        if plugin.status != "active":
            continue
        if name not in entries:
            plugin.status = f"disabled: not in {path}"
        elif reason := _differs(plugin, entries[name], allow_editable=is_on(environ, EDITABLE), records=records):
            plugin.status = f"disabled: not as in {path}"
            problems.append(plugin.problem("lock", f"{path}: {reason}", remedy=REMEDY))
        if name == FIRST_PARTY and plugin.status != "active":
            reason = problems[-1].reason if name in entries else f"{path}: it has no entry for nacre itself"
            raise RegistryError(reason, REMEDY)
    installed = {plugin.provenance.distribution for plugin in plugins}
    problems += [
        Problem(name, entry.version, "lock", f"{path} has it, but it is not installed", "", 0, f"pip install {name}")
        for name, entry in entries.items()
        if name not in installed
    ]
    if records and _compared not in sys.meta_path:
        sys.meta_path.insert(0, _compared)
    for record in records.values():
        _compared.add(record)
    return problems


def _differs(plugin: Plugin, entry: Entry, *, allow_editable: bool, records: dict[str, Record]) -> str:
    """Return how a plugin differs from its entry, or ""; its record goes to `records`."""
    whose = plugin.provenance
    if whose.version != entry.version:
        return f"{whose} is installed, but it has version {entry.version}"
    if whose.editable:
        allowed = f"{whose} is installed editable; --allow-editable, or {EDITABLE}=1, allows that"
        return "" if allow_editable else allowed
    if whose.distribution not in records:
        records[whose.distribution] = _record(whose.distribution)
    return "" if records[whose.distribution].sha256 == entry.sha256 else f"the files of {whose} are not those in it"


@dataclass(frozen=True)
class Record:
    """The files of a distribution below the folder `root`, without those that every installation makes anew.

    `files` has, for each path, the hash in the form of RECORD: `sha256=` and base64.
    """

    root: Path
    files: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """The hash of all paths and hashes."""
        lines = sorted(f"{path},{digest}" for path, digest in self.files.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _record(name: str) -> Record:
    """Return what pip noted of an installed distribution.

    Raises:
        RegistryError: it has no RECORD.
    """
    import csv

    import importlib_metadata

    metadata: Any = importlib_metadata  # its functions take untyped arguments
    distribution = metadata.distribution(name)
    lines = csv.reader((distribution.read_text("RECORD") or "").splitlines())
    files = {line[0]: line[1] for line in lines if len(line) == 3 and not _NOT_MODULES.search(line[0])}
    if not files:
        raise RegistryError(f"{name}: pip has no list of its files (RECORD)", f"pip install --force-reinstall {name}")
    return Record(Path(distribution.locate_file("")), files)


# Modules


def _changed(record: Record) -> str:
    """Return why the first module that is not the one in a record would not run, or ""."""
    compared = Compared()
    compared.files = {os.path.realpath(record.root / path): digest for path, digest in record.files.items()}
    modules = [path for path in record.files if path.endswith((".py", *EXTENSION_SUFFIXES))]
    return next(filter(None, (compared.wrong(path, str(record.root / path)) for path in sorted(modules))), "")


class Compared(MetaPathFinder):
    """Finds the modules of some distributions, and compares the file of each with its hash before it runs."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.folders: set[str] = set()
        self.packages: set[str] = set()
        self.owned: set[str] = set()  # packages of one distribution alone

    def add(self, record: Record) -> None:
        """Compare the modules of a distribution from now on, and those that were imported before at once.

        Raises:
            RegistryError: one of these has changed.
        """
        for path, digest in record.files.items():
            file = record.root / path
            self.files[os.path.realpath(file)] = digest
            if file.parent != record.root:
                self.folders.add(os.path.realpath(file.parent))
            top = path.partition("/")[0].partition(".")[0]
            self.packages.add(top)
            if path in (f"{top}/__init__.py", f"{top}.py"):
                self.owned.add(top)
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and name.partition(".")[0] in self.packages and (reason := self.wrong(name, file)):
                raise RegistryError(reason, REMEDY)

    def wrong(self, name: str, file: str, data: bytes | None = None) -> str:
        """Return why the file of a module, or its bytes, are not those that were installed, or ""."""
        real = os.path.realpath(file)
        if real not in self.files:
            if str(Path(real).parent) in self.folders:
                return f"{file}: it was added after its distribution was installed"
            top = name.partition(".")[0]
            return f"{file}: it hides the package {top} that was installed" if top in self.owned else ""
        if data is None and not Path(real).exists():
            return f"{file}: it has been removed since its distribution was installed"
        algorithm, _, digest = self.files[real].partition("=")
        if algorithm not in hashlib.algorithms_available:
            return f"{file}: pip has no hash of it"
        hashed = hashlib.new(algorithm, Path(real).read_bytes() if data is None else data).digest()
        same = urlsafe_b64encode(hashed).decode().rstrip("=") == digest
        return "" if same else f"{file}: it has changed since its distribution was installed"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as Python does."""
        if fullname.partition(".")[0] not in self.packages:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return spec
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FromSource(spec.loader.name, spec.loader.path)
        elif isinstance(spec.loader, FileLoader):
            _check(fullname, spec.origin)
        return spec


class _FromSource(SourceFileLoader):
    """Runs the source after comparing it, never a compiled file beside it, of which pip knows nothing."""

    def get_code(self, fullname: str) -> CodeType:
        data = self.get_data(self.path)
        _check(fullname, self.path, data)
        return self.source_to_code(data, self.path)


def _check(name: str, file: str, data: bytes | None = None) -> None:
    if reason := _compared.wrong(name, file, data):
        raise ImportError(reason, name=name, path=file)


_compared = Compared()
