"""Finds the installed plugins, disables those that must not run, and reads what the others offer."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Timer, get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ..errors import RegistryError, nearest
from .guard import ForeignError, described, guarded, place_of, place_of_function, prints_aside, shown
from .offers import API, FIRST_PARTY, KIND_OF_HOOK, Offer, Plugin, Problem, Provenance, make_offer, normalised

if TYPE_CHECKING:
    import pluggy
    from importlib_metadata import EntryPoint


GROUP = "nacre.plugins"
LOCK = "nacre.lock"
LOCKED, EDITABLE = "NACRE_LOCKED", "NACRE_ALLOW_EDITABLE"
PATIENCE = 5.0
"""Seconds that importing a light module may take; then it is told with the place where it is."""


def find_plugins(entry_points: Iterable[EntryPoint] | None) -> tuple[list[Plugin], list[Problem]]:
    """List the entry points, the first on `sys.path` of each, in an order that is the same on every machine."""
    problems: list[Problem] = []
    identities: dict[int, tuple[str, str, bool]] = {}
    found: dict[tuple[str, str], Plugin] = {}
    for entry in _installed(problems) if entry_points is None else entry_points:
        try:
            key = id(entry.dist)  # all entry points of a distribution share the object; its metadata is slow to read
            if key not in identities or entry.dist is None:
                identities[key] = _identity(entry)
            name, version, editable = identities[key]
            module = f"{entry.module}:{entry.attr}" if entry.attr else entry.module  # `load` refuses the former
            plugin = Plugin(name, entry.name, Provenance(name, version, "", editable, module))
            found.setdefault((name, entry.name), plugin)
        except Exception as error:  # in its metadata: none of its code has run
            problems.append(_unreadable(entry.dist, entry.name, f"its metadata cannot be read: {described(error)}"))
    plugins = [found[key] for key in sorted(found)]
    names = [plugin.name for plugin in plugins]
    for plugin in plugins:
        if names.count(plugin.provenance.distribution) > 1:
            plugin.name = f"{plugin.provenance.distribution}:{plugin.entry}"
    return plugins, problems


def _installed(problems: list[Problem]) -> list[EntryPoint]:
    import importlib_metadata

    metadata: Any = importlib_metadata  # its functions take untyped arguments
    try:
        return list(metadata.entry_points(group=GROUP))
    except Exception:  # one unreadable file hides all plugins: leave out only its own distribution
        found: list[EntryPoint] = []
        for distribution in metadata.distributions():
            try:
                found += distribution.entry_points.select(group=GROUP)
            except Exception as error:
                problems.append(_unreadable(distribution, "", f"entry points cannot be read: {described(error)}"))
        return found


def _unreadable(distribution: Any, entry: str, reason: str) -> Problem:
    """Return the problem of a distribution that cannot be read; its folder has its name."""
    folder = str(getattr(distribution, "_path", ""))
    name = normalised(Path(folder).name.partition("-")[0] or entry)
    remedy = f"pip install --ignore-installed {name}"  # pip cannot read it either, so it cannot uninstall it
    return Problem(name, "", "find", reason, folder, 0, remedy)


def _identity(entry: EntryPoint) -> tuple[str, str, bool]:
    if entry.dist is None:
        return normalised(entry.module.partition(".")[0]), "", False
    name, version = _name_and_version(entry.dist)
    distribution: Any = entry.dist  # its functions take untyped arguments
    origin: str = distribution.read_text("direct_url.json") or ""
    return normalised(name), version, re.search(r'"editable"\s*:\s*true', origin) is not None


def _name_and_version(distribution: Any) -> tuple[str, str]:
    """Return name and version from the head of a distribution's metadata.

    It is read here, because the library uses a parser for e-mail, which takes longer than all the rest of `nacre
    layers`.
    """
    text: str = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line:
            break
        key, _, value = line.partition(":")
        found.setdefault(key.lower(), value.strip())
    if "name" not in found or "version" not in found:
        return distribution.metadata["Name"], distribution.metadata["Version"]
    return found["name"], found["version"]


def is_on(environ: Mapping[str, str], variable: str) -> bool:
    """Return whether a switch is on: set, and neither empty nor 0."""
    return environ.get(variable, "").strip() not in ("", "0")


def switch_off(plugins: list[Plugin], environ: Mapping[str, str]) -> list[Problem]:
    """Apply NACRE_PLUGINS=a,b (only these), NACRE_DISABLE_PLUGINS=a,b and NACRE_NO_PLUGINS=1.

    A name is that of a distribution, else that of an entry point or its module. nacre's own plugins are disabled only
    by NACRE_DISABLE_PLUGINS.
    """
    problems: list[Problem] = []

    def named(variable: str) -> list[Plugin]:
        names = [name.strip() for name in environ.get(variable, "").split(",") if name.strip()]
        return [plugin for name in names for plugin in _called(name, plugins, variable, problems)]

    only, not_these = named("NACRE_PLUGINS"), named("NACRE_DISABLE_PLUGINS")
    locked = bool(environ.get("NACRE_PLUGINS", "").strip())
    for plugin in plugins:
        third_party = plugin.provenance.distribution != FIRST_PARTY
        if plugin in not_these:
            plugin.status = "disabled: NACRE_DISABLE_PLUGINS"
        elif third_party and is_on(environ, "NACRE_NO_PLUGINS"):
            plugin.status = "disabled: NACRE_NO_PLUGINS"
        elif third_party and locked and plugin not in only:
            plugin.status = "disabled: not in NACRE_PLUGINS"
    return problems


def _called(name: str, plugins: list[Plugin], variable: str, problems: list[Problem]) -> list[Plugin]:
    wanted = normalised(name)
    found = [plugin for plugin in plugins if plugin.provenance.distribution == wanted]
    found = found or [plugin for plugin in plugins if wanted in [normalised(alias) for alias in _aliases(plugin)]]
    if not found:
        known = {plugin.provenance.distribution for plugin in plugins} | {plugin.entry for plugin in plugins}
        reason = f"{variable} names '{name}', but no such plugin is installed{nearest(name, sorted(known))}"
        problems.append(Problem(name, "", "switch", reason, "", 0, f"correct the name, or remove it from {variable}"))
    return found


def _aliases(plugin: Plugin) -> tuple[str, str, str]:
    return plugin.name, plugin.entry, plugin.provenance.module


def new_manager() -> pluggy.PluginManager:
    """Make a plugin manager that knows nacre's hooks."""
    import pluggy

    from .. import hooks

    manager = pluggy.PluginManager("nacre")
    manager.add_hookspecs(hooks)
    return manager


def load(plugin: Plugin, manager: pluggy.PluginManager) -> list[Problem]:
    """Import a plugin's light module and read its offers."""
    module_name, _, attribute = plugin.provenance.module.partition(":")
    if attribute:
        plugin.status = "failed"
        right = f'{plugin.entry} = "{module_name}"'
        reason = f"its entry point names '{attribute}' in {module_name}, but must name the module alone: {right}"
        return [plugin.problem("find", reason)]
    with prints_aside():
        try:
            module = guarded(importlib.import_module, module_name)
        except ForeignError as failure:
            plugin.status = "failed"
            return [plugin.problem("import", described(failure.error), place_of(failure.error, module_name))]
        return read_module(plugin, module, manager)


@contextmanager
def watched(whose: Provenance) -> Generator[None]:
    """Print Python's stack if importing a plugin in the block crashes Python, or takes longer than `PATIENCE`.

    The timer is a thread and not that of `faulthandler`: Python has only one of these, and the program may have set it.
    """
    late = Timer(PATIENCE, _print_place, [whose, get_ident()])
    late.daemon = True
    with suppress(RuntimeError):  # there can be no more threads: then nothing is told
        late.start()
    try:
        with _crashes_shown():
            yield
    finally:
        late.cancel()
        if late.ident is not None:
            late.join()  # a program that forks next has no more threads than before


@contextmanager
def _crashes_shown() -> Generator[None]:
    """Let Python print its stack if the block crashes it, unless the program has seen to that."""
    import faulthandler

    try:
        output = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or no file
        yield
        return
    was_on = faulthandler.is_enabled()
    if not was_on:
        faulthandler.enable(output)
    try:
        yield
    finally:
        if not was_on:
            faulthandler.disable()


def _print_place(whose: Provenance, thread: int) -> None:
    """Say that a plugin's import takes long, and where it is now, in the thread that imports it."""
    import traceback

    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]  it is public, by its docs
    stack = "".join(traceback.format_stack(frame))
    with suppress(AttributeError, OSError, ValueError):  # closed, or no file
        sys.stderr.write(
            f"nacre: importing {whose} ({whose.module}) takes longer than {PATIENCE:g} s; it is here:\n{stack}"
        )
        sys.stderr.flush()


def read_module(plugin: Plugin, module: ModuleType, manager: pluggy.PluginManager) -> list[Problem]:
    """Read the offers of an imported light module, one hook and one item at a time."""
    try:
        problems = guarded(_read_module, plugin, module, manager)
    except ForeignError as failure:
        problems = [plugin.problem("hook", described(failure.error), place_of(failure.error, plugin.provenance.module))]
    if problems and not plugin.offers:
        plugin.status = "failed"
    return problems


def _read_module(plugin: Plugin, module: object, manager: pluggy.PluginManager) -> list[Problem]:
    if not isinstance(module, ModuleType):  # it may put what it likes into sys.modules
        return [plugin.problem("import", f"importing it must give a module, but gave {shown(module)}")]
    plugin.provenance = replace(plugin.provenance, file=vars(module).get("__file__") or "")
    if refused := _refused(module):
        return [plugin.problem("api", f"{plugin.provenance} {refused}")]
    if unfit := _unfit(plugin.provenance, str(getattr(module, "nacre_api", "1"))):
        reason, remedy = unfit
        return [plugin.problem("api", f"{plugin.provenance} {reason}", remedy=remedy)]
    plugin.libraries = vars(module).get("nacre_libraries", ())
    manager.register(module, name=plugin.name)
    callers = manager.get_hookcallers(module) or []
    problems = [
        plugin.problem("hook", f"{name} is not marked @hookimpl", place_of_function(vars(module)[name]))
        for name in KIND_OF_HOOK
        if callable(vars(module).get(name)) and name not in [caller.name for caller in callers]
    ]
    for caller in callers:
        for impl in caller.get_hookimpls():
            if impl.plugin is module and not (impl.optionalhook and caller.name not in KIND_OF_HOOK):
                problems += _ask(plugin, caller.name, impl.function)
    offered = {f"{offer.kind}/{offer.name}" for offer in plugin.offers}
    problems += [
        plugin.problem("offer", f"offer_names_elsewhere: it offers no {key}{nearest(key, offered)}")
        for key in plugin.elsewhere
        if key not in offered
    ]
    if not callers and not problems:
        problems = [plugin.problem("hook", f"{module.__name__} has no function marked @hookimpl")]
    return problems


def _refused(module: ModuleType) -> str:
    needed: object = getattr(module, "nacre_api", "1")
    if type(needed) is not str or not all(number.isdecimal() for number in needed.split(".")):
        return f'has nacre_api = {shown(needed)}, but it must be like "1" or "1.2"'
    libraries: object = vars(module).get("nacre_libraries", ())  # a lazy module may import anything for a name
    if not _are_names(libraries):
        return f"says nacre_libraries = {shown(libraries)}, but it must be a tuple of names of distributions"
    return ""


def _unfit(whose: Provenance, needed: str) -> tuple[str, str] | None:
    """Return why a plugin for an interface cannot be used by this nacre, and the remedy; None if it can be.

    It can if the interface has the same first number and is not newer.
    """
    wanted, here = _version(needed.split(".")), _version(API.split("."))
    if wanted[0] == here[0] and wanted <= here:
        return None
    from .._version import __version__
    from .requirements import bound_of

    if wanted < here:
        reason = f'is for an older nacre: it says nacre_api = "{needed}", but nacre {__version__} has {API}'
        return reason, f"pip install --upgrade {whose.distribution}" if whose.version else ""
    bound = bound_of(whose.distribution, FIRST_PARTY)
    nacre = f"nacre {bound.replace('>=', '≥ ')}" if bound else "a newer nacre"
    reason = f'needs {nacre}: it says nacre_api = "{needed}", but nacre {__version__} has {API}'
    return reason, f'pip install --upgrade "nacre{bound}"' if bound else "pip install --upgrade nacre"


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, str) for one in cast("tuple[object, ...]", value))


def _version(numbers: Sequence[str]) -> tuple[int, int]:
    return int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0


def _ask(plugin: Plugin, hook: str, function: Callable[[], object]) -> list[Problem]:
    place = place_of_function(function)
    if hook not in KIND_OF_HOOK:
        return [plugin.problem("hook", f"there is no hook {hook}{nearest(hook, KIND_OF_HOOK)}", place)]
    try:
        read = guarded(lambda: list(read_offers(hook, function(), plugin.provenance)))
    except ForeignError as failure:
        raised_at = place_of(failure.error, plugin.provenance.module)
        reason = f"{hook} raised {described(failure.error)}"
        return [plugin.problem("hook", reason, raised_at if raised_at[0] else place)]
    plugin.offers += [offer for offer in read if isinstance(offer, Offer)]
    plugin.elsewhere.update(names for names in read if isinstance(names, tuple))
    return [plugin.problem("offer", f"{hook}: {reason}", place) for reason in read if isinstance(reason, str)]


def read_offers(hook: str, given: object, provenance: Provenance) -> Iterator[Offer | tuple[str, str] | str]:
    """Yield an offer, or names elsewhere, for each item that a hook returned, or a message if the item is not valid."""
    if not isinstance(given, Mapping):
        yield f"it returned {type(given).__name__}, but must return a dict"
        return
    for key, value in cast("Mapping[object, object]", given).items():
        if hook == "offer_names_elsewhere":
            if isinstance(key, str) and isinstance(value, str):
                yield str.__str__(key), str.__str__(value)
            else:
                yield f'{shown(key)}: {shown(value)}, but it must be like "layer/InnerProduct": "Linear Dense"'
        elif hook != "offer_components":
            yield _offer_or_reason(KIND_OF_HOOK[hook], key, value, provenance)
        elif not isinstance(value, Mapping):
            yield f"{shown(key)} has the value {shown(value)}, but it must be a dict from names to classes"
        else:
            for name, target in cast("Mapping[object, object]", value).items():
                yield _offer_or_reason(key, name, target, provenance)


def _offer_or_reason(kind: object, key: object, value: object, provenance: Provenance) -> Offer | str:
    try:
        if kind == "kernel":
            if not (isinstance(key, tuple) and [type(part) for part in cast("tuple[object, ...]", key)] == [str, str]):
                return f"{shown(cast('object', key))}: a kernel's key must be two strings, (layer, backend)"
            key = "@".join(cast("tuple[str, str]", key))
        return make_offer(kind, key, value, provenance)
    except RegistryError as error:
        return str(error)
