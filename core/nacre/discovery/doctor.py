"""What is odd about the installed plugins and their settings: `nacre plugins doctor`.

Each plugin is tried in a process of its own first, so that one that crashes or hangs only becomes a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, NacreError
from .discovery import GROUP, LOCK, LOCKED, find_plugins, switch_off
from .isolate import Trial, tried
from .lock import REMEDY, entries_of, read_lock
from .offers import FIRST_PARTY, Plugin, normalised, removal
from .pins import pin_line
from .registry import Registry
from .settings import Settings, settings
from .typos import clashes, kernel_without_thing, without_effect


@dataclass(frozen=True)
class Finding:
    """Something odd: about which distribution or file, in a sentence, and what to do about it."""

    about: str
    problem: str
    remedy: str


def findings(environ: Mapping[str, str], limit: float, show: Callable[[str], object]) -> list[Finding]:
    """Return all that is odd; `limit` are the seconds for each plugin, whose name is shown before it is tried."""
    plugins, problems = find_plugins(None)
    problems += switch_off(plugins, environ)
    found = [Finding(one.distribution, str(one), one.remedy) for one in problems]
    trials: list[Trial] = []
    for plugin in plugins:
        if plugin.status == "active" and plugin.provenance.distribution != FIRST_PARTY:
            show(plugin.name)
            trials.append(tried(plugin, limit))
    found += _of_trials(trials)
    found += _shadowed()
    off = {one.plugin.provenance.distribution for one in trials if one.problem}
    variables = {name: value for name, value in environ.items() if name != LOCKED}
    variables["NACRE_DISABLE_PLUGINS"] = ",".join([*sorted(off), environ.get("NACRE_DISABLE_PLUGINS", "")]).strip(",")
    settled = Settings()
    try:
        settled = settings()
    except ConfigError as error:
        found.append(Finding("settings", str(error.args[0]), error.remedy))
    known = replace(settled, kernels=tuple(one for one in settled.kernels if normalised(one) not in off))
    here = Registry(environ=variables, pins=known.pins, kernels=known.kernels)
    return [*found, *_of_names(here, known, off), *_of_lock(plugins)]


def _of_trials(trials: list[Trial]) -> Iterator[Finding]:
    for one in trials:
        whose = str(one.plugin.provenance)
        if one.problem:
            yield Finding(whose, one.problem, one.remedy)
        elif one.libraries:
            names = ", ".join(one.libraries)
            message = f"its light module imports {names}, so that every command of nacre takes longer"
            yield Finding(whose, message, "its authors should import this only in the modules that it offers")
        elif not one.offers:
            yield Finding(whose, "it offers nothing", removal(one.plugin.provenance))


def _shadowed() -> Iterator[Finding]:
    """Yield distributions with plugins that are on the path twice: only the first is used."""
    import importlib_metadata

    metadata: Any = importlib_metadata  # its functions take untyped arguments
    first: dict[str, tuple[str, str]] = {}
    for distribution in metadata.distributions():
        try:
            name, version = normalised(distribution.metadata["Name"]), str(distribution.version)
            is_plugin = bool(distribution.entry_points.select(group=GROUP))
        except Exception:  # `find_plugins` has told it
            continue
        place = str(Path(distribution.locate_file("")).resolve())
        if is_plugin and first.setdefault(name, (version, place)) != (version, place):
            used, where = first[name]
            message = f"it is installed twice: {used} in {where} hides {version} in {place}"
            yield Finding(name, message, f"pip uninstall {name}, until it is gone, and install it again")


def _of_names(here: Registry, settled: Settings, off: set[str]) -> Iterator[Finding]:
    pins = {key: value for key, value in settled.pins.items() if normalised(value) not in off}
    for sentence in without_effect(here, pins, settled.kernels):
        yield Finding("settings", sentence, "correct it in nacre.toml, or remove it")
    for key, (first, *others) in clashes(here, settled.pins):
        message = f"'{key}' is offered by {first} and {' and '.join(others)}: using this name is an error"
        yield Finding(key, message, f"{pin_line(key, first)} (nacre plugins lock)")
    for offer in here.offers("kernel"):
        if reason := kernel_without_thing(here, offer):
            yield Finding(
                str(offer.provenance), reason, "install what it is for, or correct the key that it is offered for"
            )


def _of_lock(plugins: list[Plugin]) -> Iterator[Finding]:
    """Yield how the lock of the working folder differs from what is installed."""
    if not Path(LOCK).exists():
        return
    try:
        locked = read_lock(Path(LOCK))
        used = [one for one in plugins if one.status == "active"]
        installed = entries_of(used, allow_editable=True)
    except NacreError as error:
        yield Finding(LOCK, str(error.args[0]), error.remedy)
        return
    for name in sorted({*locked, *installed}):
        if name not in installed:
            yield Finding(LOCK, f"it has {name} {locked[name].version}, which is not installed", REMEDY)
        elif name not in locked:
            yield Finding(LOCK, f"{name} {installed[name].version} is installed, but not in it", REMEDY)
        elif locked[name] != installed[name]:
            yield Finding(LOCK, f"{name} {installed[name].version} is not what was locked", REMEDY)
