"""The registry: which plugin offers which name, and the class that a name stands for.

Nothing is read before the first question, and nothing heavy is imported before something is opened. A name that nacre
offers always means nacre's. If two other distributions offer the same name, using it is an error; `distribution:Name`
is never ambiguous, and a pin settles it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..errors import NacreError, PluginError, RegistryError, brief, nearest
from ..threads import process_lock
from .discovery import LOCKED, find_plugins, is_on, load, new_manager, read_module, switch_off, watched
from .guard import ForeignError, described, guarded, is_class, place_of, place_of_thing, place_text, shown
from .kernels import Accept, Choice, named
from .kernels import choose as choose_kernel
from .loading import import_file, import_offer, unusable
from .offers import FIRST_PARTY, Offer, Plugin, Problem, Provenance, make_offer, normalised
from .pins import pin_line
from .settings import settings

if TYPE_CHECKING:
    import pluggy
    from importlib_metadata import EntryPoint


class Registry:
    """All that the installed plugins offer.

    `entry_points` and `environ` are by default the installed ones and the environment of the process; `pins` and
    `kernels` are by default empty. A registry of the process's own environment follows the pins and the enabled kernels
    of `nacre.toml` too. `Registry(discover=False)` starts empty, for tests.
    """

    def __init__(
        self,
        discover: bool = True,
        entry_points: Iterable[EntryPoint] | None = None,
        environ: Mapping[str, str] | None = None,
        pins: Mapping[str, str] | None = None,
        kernels: Collection[str] = (),
    ) -> None:
        self.pins = dict(pins or {})
        self.kernels = tuple(kernels)
        self._to_discover = discover
        self._follows_settings = discover and environ is None
        self._entry_points, self._environ = entry_points, environ
        self._lock = threading.RLock()  # the same thread may come back: a light module may call `register`
        self._manager: pluggy.PluginManager | None = None
        self._plugins: list[Plugin] = []
        self._problems: list[Problem] = []
        self._offers: dict[str, dict[str, list[Offer]]] = {}
        self._opened: dict[Offer, Any] = {}
        # What `offers_of` found, until something else is offered or opened.
        self._offers_of: WeakKeyDictionary[type, dict[str, list[Offer]]] = WeakKeyDictionary()
        # The kernels by what they are for, until something else is offered.
        self._kernels: dict[tuple[str, str, str], list[tuple[Offer, str]]] | None = None
        self._loading: Plugin | None = None
        self._by_hand: set[str] = set()

    # What there is

    def plugins(self) -> list[Plugin]:
        """Return every plugin, also the disabled and the failed ones."""
        self._discover()
        return list(self._plugins)

    @property
    def problems(self) -> list[Problem]:
        """Everything in any plugin that did not work."""
        self._discover()
        return list(self._problems)

    def kinds(self) -> list[str]:
        """Return the kinds of which something is offered."""
        self._discover()
        return sorted(kind for kind, names in self._offers.items() if names)

    def names(self, kind: str) -> list[str]:
        """Return the names of a kind; `distribution:Name` where the short one means another distribution's."""
        return sorted(self.name_of(offer) for offer in self.offers(kind))

    def offers(self, kind: str, name: str | None = None) -> list[Offer]:
        """Return the offers of a kind, or those of one name, short or `distribution:Name`."""
        self._discover()
        by_name = self._offers.get(kind, {})
        if name is None:
            return [offer for key in sorted(by_name) for offer in by_name[key]]
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistryError(f"the name of a {kind} must be a string, not {brief(name)}")
        distribution, _, short = name.partition(":")
        own = [offer for offer in by_name.get(short, []) if offer.distribution == normalised(distribution)]
        return own or list(by_name.get(name, []))

    def meant(self, kind: str, name: str, pins: Mapping[str, str] | None = None, *, first: str = "") -> list[Offer]:
        """Return the offers that a name may mean: those of `first`, else the pinned distribution's, nacre's, or all."""
        found = self.offers(kind, name)
        for distribution in (first, self.pinned([f"{kind}:{name}"], pins), FIRST_PARTY):
            if preferred := [offer for offer in found if offer.distribution == distribution]:
                return preferred
        return found

    def find(self, kind: str, name: str, pins: Mapping[str, str] | None = None, others: Sequence[str] = ()) -> Offer:
        """Return the one offer that a name means: the pinned, else nacre's, else the only one there is.

        The name may also be of one of the kinds `others`, whose pins come after that of `kind`. Raises RegistryError if
        no offer or several fit.
        """
        found: list[Offer] = []
        pinned: list[Offer] = []
        for one in (kind, *others):
            offers = self.offers(one, name)
            if pin := self.pinned([f"{one}:{name}"], pins):
                offers = [offer for offer in offers if offer.distribution == pin]
                if not offers:
                    message = f"'{one}:{name}' is pinned to '{pin}', which offers no such {one}"
                    raise RegistryError(message, self.absent(f"pip install {pin}, or remove the pin"))
                pinned = pinned or offers
            found += offers
        own = [offer for offer in found if offer.distribution == FIRST_PARTY]
        chosen = pinned or own or found
        if not chosen:
            raise self._unknown(kind, name, others)
        if len({offer.distribution for offer in chosen}) > 1:
            whose = " and ".join(str(offer.provenance) for offer in chosen)
            forms = " or ".join(f"'{offer.qualified}'" for offer in chosen)
            line = pin_line(f"{chosen[0].kind}:{name}", chosen[0].distribution)
            raise RegistryError(f"{kind} '{name}' is offered by {whose}", f"write {forms}, or add a pin: {line}")
        return chosen[0]

    def name_of(self, offer: Offer, pins: Mapping[str, str] | None = None) -> str:
        """Return the shortest name that means an offer: `distribution:Name` where the short one may mean another."""
        kinds = (offer.kind, *self.also_named(offer.kind))
        if {other.distribution for kind in kinds for other in self.offers(kind, offer.name)} == {offer.distribution}:
            return offer.name
        pinned = {self.pinned([f"{kind}:{offer.name}"], pins) for kind in kinds}
        return offer.name if offer.distribution == FIRST_PARTY and pinned <= {"", FIRST_PARTY} else offer.qualified

    def also_named(self, kind: str) -> list[str]:
        """Return the kinds whose names do where one of `kind` is named: for a layer, those that a layer wraps."""
        return [one.name for one in self.offers("layer_of")] if kind == "layer" else []

    def pinned(self, keys: Iterable[str], pins: Mapping[str, str] | None = None) -> str:
        """Return the distribution to which the first pinned key of `keys` is pinned, or "".

        `pins` come before `followed_pins`, and these before those of `nacre.toml`.
        """
        settled = settings().pins if self._follows_settings else {}
        merged = {**settled, **self.followed_pins, **(pins or {})}
        return normalised(next((merged[key] for key in keys if key in merged), ""))

    @property
    def followed_pins(self) -> dict[str, str]:
        """`self.pins`, and those of a `following` block, which come before them."""
        return {**self.pins, **_followed.get()[0]}

    def is_enabled(self, offer: Offer, kernels: Collection[str] = ()) -> bool:
        """Return whether an offer may be used although nobody named it.

        It may if it is nacre's own, if it was registered or loaded from a file in this process, or if its distribution
        is among `kernels`, `self.kernels`, those of a `following` block, or those of `nacre.toml`.
        """
        settled = settings().kernels if self._follows_settings else ()
        enabled = {normalised(name) for name in (*settled, *self.kernels, *_followed.get()[1], *kernels)}
        return offer.distribution in {FIRST_PARTY, *self._by_hand, *enabled}

    def open(self, kind: str, name: str, pins: Mapping[str, str] | None = None) -> Any:
        """Return the class that a name means (for a command, the command). Raises RegistryError or PluginError."""
        return self.open_offer(self.find(kind, name, pins))

    def open_offer(self, offer: Offer) -> Any:
        """Import what is offered. Raises PluginError naming distribution, file, reason and remedy."""
        if offer not in self._opened:
            from .fitting import misfit  # listing names opens nothing

            thing = offer.thing if offer.thing is not None else self._imported(offer)
            try:
                reason = guarded(misfit, offer, thing)
            except ForeignError as failure:
                reason = f"looking at it raised {described(failure.error)}"
            if reason:
                raise unusable(offer, reason, place_of_thing(thing))
            self._opened[offer] = thing
            self._offers_of.clear()
        return self._opened[offer]

    def _imported(self, offer: Offer) -> Any:
        """Import what is offered; what its module registers is its distribution's, and enabled only if that is."""
        before = _opening.set(offer.distribution)
        try:
            return import_offer(offer)
        finally:
            _opening.reset(before)

    def make(self, offer: Offer) -> Any:
        """Open an offer, and make an object of its class without arguments. Raises PluginError."""
        cls = self.open_offer(offer)
        try:
            return guarded(cls)
        except ForeignError as failure:
            where = place_of(failure.error, cls.__module__)
            raise unusable(offer, f"making an object of it raised {described(failure.error)}", where) from failure.error

    def opens_to(self, offer: Offer, cls: type) -> bool:
        """Return whether an offer opens to exactly this class; imports nothing for an offer that cannot."""
        if offer.thing is not None:
            return offer.thing is cls
        if offer not in self._opened:
            module, _, attribute = offer.target.partition(":")
            same_package = module.partition(".")[0] == cls.__module__.partition(".")[0]
            if not (same_package and attribute == cls.__qualname__):
                return False
        try:
            return self.open_offer(offer) is cls
        except PluginError:
            return False

    def offers_of(self, cls: type, kind: str) -> list[Offer]:
        """Return the offers of a kind that open to a class.

        If several distributions offer it, only nacre's, else those of the package that defines the class, if there are
        any: offering a class of another distribution does not make it one's own.
        """
        self._discover()
        if (known := self._offers_of.get(cls, {}).get(kind)) is not None:
            return list(known)
        found = [offer for offer in self.offers(kind) if self.opens_to(offer, cls)]
        package = cls.__module__.partition(".")[0]
        own = [offer for offer in found if offer.distribution == FIRST_PARTY]
        near = [offer for offer in found if offer.provenance.module.partition(".")[0] == package]
        self._offers_of.setdefault(cls, {})[kind] = own or near or found
        return list(own or near or found)

    def owner(self, cls: type) -> Provenance | None:
        """Return who offers a class, or None."""
        kind = str(getattr(cls, "nacre_kind", ""))
        found = self.offers_of(cls, kind) or [offer for one in self.kinds() for offer in self.offers_of(cls, one)]
        return found[0].provenance if found else None

    # Kernels

    def kernels_for(self, kind: str, name: str, backend: str) -> Sequence[tuple[Offer, str]]:
        """Return the offers of kernels for a thing of this short name on a backend, and how each names the thing."""
        self._discover()
        with self._lock:
            if self._kernels is None:
                self._kernels = {}
                for offer in self.offers("kernel"):
                    key, written = named(offer)
                    self._kernels.setdefault(key, []).append((offer, written))
            return self._kernels.get((kind, name, backend), ())

    def choose(
        self,
        cls: type,
        kind: str,
        lineage: Sequence[str],
        accept: Accept | None = None,
        pins: Mapping[str, str] | None = None,
        kernels: Collection[str] = (),
        backend: type | None = None,
        adds_copies: Accept | None = None,
    ) -> Choice:
        """Choose the kernel for a class on a backend of this lineage; `accept` returns why a kernel cannot be used.

        `kernels` are distributions whose kernels may be used though they own neither the class nor the backend, and
        `backend` is the class of the first backend of the lineage. `adds_copies` returns why a kernel for one of the
        others would need copies that the class's own code does not need: without a pin, only owners' kernels may.
        Raises RegistryError naming two kernels of the same rank that could both be used, and the pin that decides.
        """
        return choose_kernel(self, cls, kind, lineage, accept, pins or {}, kernels, backend, adds_copies)

    def explain(self, thing: str | type, backend: str, pins: Mapping[str, str] | None = None) -> Choice:
        """Return which kernel a layer ("Pooling") or a component ("neuron/GELU") gets on a backend if none declines."""
        if isinstance(thing, str):
            kind, slash, name = thing.rpartition("/")
            kind = kind if slash else "layer"
            cls = self.open(kind, name, pins)
        else:
            kind, cls = str(getattr(thing, "nacre_kind", "layer")), thing
        offer = self.find("backend", backend, pins)
        try:
            opened = self.open_offer(offer)
        except PluginError:  # not usable here, but its kernels can be listed
            opened = None
        lineage = tuple(getattr(opened, "lineage", ())) or (offer.name,)
        return self.choose(cls, kind, lineage, None, pins, (), opened)

    # Without a distribution

    def register(self, thing: Any, name: str | None = None, kind: str | None = None, distribution: str = "") -> Any:
        """Offer a class at once, as an installed plugin does, and return it.

        `name` is by default the class's without "Layer" or "Backend" at its end. A name registered again is replaced.
        The offer belongs to the plugin of which something is being imported, else to `local`, which is enabled.
        """
        try:
            return guarded(self._register, thing, name, kind, distribution)
        except ForeignError as failure:
            if isinstance(failure.error, NacreError):
                raise failure.error from None
            raise RegistryError(f"{shown(thing)} cannot be registered: {described(failure.error)}") from failure.error

    def _register(self, thing: Any, name: str | None, kind: str | None, distribution: str) -> Any:
        kind = kind or getattr(thing, "nacre_kind", "")
        if not kind:
            raise RegistryError(f"{thing!r} is not a layer, a component or a backend", "pass its kind: kind=...")
        if name is None:
            name = str(getattr(thing, "__name__", "")).removesuffix(
                {"layer": "Layer", "backend": "Backend"}.get(kind, "")
            )
        module = str(getattr(thing, "__module__", ""))
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        with self._lock:
            if self._loading is not None and not distribution:
                self._loading.offers.append(make_offer(kind, name, thing, self._loading.provenance))
                return thing
            distribution = distribution or _opening.get()
            if not distribution:
                self._by_hand.add("local")
            provenance = Provenance(normalised(distribution or "local"), "", file, True, module)
            offer = make_offer(kind, name, thing, provenance)
            same = [plugin for plugin in self._plugins if plugin.provenance.distribution == offer.distribution]
            plugin = same[0] if same else Plugin(offer.distribution, offer.distribution, provenance)
            if not same:
                self._plugins.append(plugin)
            self._withdraw(plugin, [old for old in plugin.offers if (old.kind, old.name) == (kind, name)])
            self._add(plugin, offer)
        return thing

    def register_kernel(self, kernel: type, thing: str, backend: str, distribution: str = "") -> Any:
        """Offer a kernel at once for a layer ("Pooling") or a component ("neuron/GELU") on a backend."""
        return self.register(kernel, f"{thing}@{backend}", "kernel", distribution)

    def load_file(self, path: str | os.PathLike[str]) -> Plugin:
        """Use a Python file as a plugin of the file's name: its hooks if it has any, else every class of a kind in it.

        A target in its hooks may name the module by the file's name. The file is not imported if the environment
        disables a plugin of its name. Raises PluginError with file and line.
        """
        from ..files.reading import check_file

        check_file(Path(path), "a Python file", PluginError)
        file = Path(path).resolve()
        name = normalised(file.stem)
        same = [plugin for plugin in self.plugins() if plugin.provenance.distribution == name]
        if any(plugin.provenance.file != str(file) for plugin in same):
            raise RegistryError(f"{path}: there is already a plugin '{name}'", "rename the file")
        plugin = Plugin(name, name, Provenance(name, "", str(file), True, file.stem))
        self._switch_off(plugin)
        module = import_file(file) if plugin.status == "active" else None
        with self._lock:
            for old in same:  # the file is loaded again
                self._withdraw(old, old.offers)
                self._plugins.remove(old)
                self._unhook(name)
            if module is not None:
                self._read_file(plugin, module, file)
            else:
                self._plugins.append(plugin)
        return plugin

    def _switch_off(self, plugin: Plugin) -> None:
        """Apply NACRE_DISABLE_PLUGINS and the like to a file, and drop the problem that they name an unknown plugin."""
        switch_off([plugin], self._variables)
        name = plugin.provenance.distribution
        self._problems = [
            one for one in self._problems if (one.stage, normalised(one.distribution)) != ("switch", name)
        ]

    def _read_file(self, plugin: Plugin, module: ModuleType, file: Path) -> None:
        plugin.provenance = replace(plugin.provenance, module=module.__name__)
        if _has_hooks(module):
            problems = read_module(plugin, module, self._hooks())
            if problems:
                self._unhook(plugin.name)
                raise PluginError(f"{place_text(problems[0].file, problems[0].line)}: {problems[0].reason}")
        try:
            classes = [] if plugin.offers else guarded(_classes_of, module)
        except ForeignError as failure:
            place, line = place_of(failure.error, module.__name__)
            message = f"its classes cannot be read: {described(failure.error)}"
            raise PluginError(f"{place_text(place or file, line)}: {message}") from failure.error
        self._plugins.append(plugin)
        self._by_hand.add(plugin.name)
        self._add_all(plugin, [_in_module(offer, file.stem, module) for offer in plugin.offers])
        for cls in classes:
            if self.owner(cls) is None:  # else the file registered it by itself
                self.register(cls, distribution=plugin.name)

    # Inside

    @property
    def _variables(self) -> Mapping[str, str]:
        return os.environ if self._environ is None else self._environ

    def _hooks(self) -> pluggy.PluginManager:
        if self._manager is None:
            self._manager = new_manager()
        return self._manager

    def _unhook(self, name: str) -> None:
        if self._hooks().has_plugin(name):
            self._hooks().unregister(name=name)

    def _discover(self) -> None:
        """Find all plugins, disable some, import the others and call their hooks; only once."""
        with self._lock:
            if not self._to_discover:
                return
            self._to_discover = False
            try:
                plugins, problems = find_plugins(self._entry_points)
                problems += switch_off(plugins, self._variables)
                if is_on(self._variables, LOCKED):
                    from .lock import lock_out  # rarely needed

                    problems += lock_out(plugins, self._variables)
                for plugin in plugins:
                    if plugin.status == "active":
                        self._loading = plugin
                        with watched(plugin.provenance):
                            problems += load(plugin, self._hooks())
            except BaseException:  # Ctrl-C: the next question begins anew
                self._to_discover, self._manager = True, None
                raise
            finally:
                self._loading = None
            self._plugins += plugins
            self._problems += problems
            for plugin in plugins:
                self._add_all(plugin, plugin.offers)

    def _add_all(self, plugin: Plugin, offers: list[Offer]) -> None:
        plugin.offers = []
        for offer in offers:
            self._add(plugin, offer)

    def _add(self, plugin: Plugin, offer: Offer) -> None:
        others = self._offers.setdefault(offer.kind, {}).setdefault(offer.name, [])
        if any(offer.distribution == other.distribution for other in others):
            self._problems.append(plugin.problem("offer", f"{offer.kind} '{offer.name}' is offered twice"))
            return
        self._forget()
        others.append(offer)
        others.sort(key=lambda other: other.distribution)
        plugin.offers.append(offer)

    def _forget(self) -> None:
        """Look again for what was found in the offers."""
        self._offers_of.clear()
        self._kernels = None

    def _withdraw(self, plugin: Plugin, offers: list[Offer]) -> None:
        for offer in list(offers):
            plugin.offers.remove(offer)
            self._opened.pop(offer, None)
            self._forget()
            others = self._offers[offer.kind][offer.name]
            others.remove(offer)
            if not others:
                del self._offers[offer.kind][offer.name]

    def _unknown(self, kind: str, name: str, others: Sequence[str]) -> RegistryError:
        names, known = self.names(kind), self.how_to_get(kind, name)
        if not names:
            nothing = f"nothing of this kind is installed{nearest(kind, self.kinds())}"
            remedy = self.absent(known or "install a plugin that offers it")
            return RegistryError(f"no {kind} '{name}': {nothing}", remedy)
        some = ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"
        lists = f"; {self.lists(kind)}" if kind in ("layer", "backend") or len(names) > 12 else ""
        remedy = self.absent(known or f"use one of these, or install a plugin that offers it{lists}")
        near = self.suggested(name, (kind, *others))
        return RegistryError(f"no {kind} '{name}'{near}; installed: {some}", remedy)

    def how_to_get(self, kind: str, name: str) -> str:
        """Return how to get what offers an unknown name: "" if neither it nor the list of known ones tells."""
        from .known import known_distribution

        whose, known = normalised(name.rpartition(":")[0]), known_distribution(kind, name)
        statuses = [plugin.status for plugin in self.plugins() if plugin.provenance.distribution == (known or whose)]
        if statuses:
            return "" if "active" in statuses else f"{known or whose} is installed, but not used"
        if known:
            return f"{known} offers it: pip install {known}"
        if not re.fullmatch("[a-z0-9][a-z0-9-]*", whose) or whose == "local":  # whatever a file says is no command
            return ""
        return f"{whose} is not installed: pip install {whose}, or name its file with --plugin"

    def suggested(self, name: str, kinds: Sequence[str], known: Collection[str] | None = None) -> str:
        """Return ` (did you mean 'x'?)` for what a name of another library, or a misspelt one, means, or "".

        x is of one of the kinds, and one of the `known` names, by default of all.
        """
        if known is None:
            known = [one for kind in kinds for one in self.names(kind)]
        for plugin in sorted(self.plugins(), key=lambda one: one.provenance.distribution != FIRST_PARTY):
            for offer in plugin.offers:
                others = plugin.elsewhere.get(f"{offer.kind}/{offer.name}", "") if offer.kind in kinds else ""
                if name.casefold() in others.casefold().split() and (here := self.name_of(offer)) in known:
                    return f" (did you mean '{here}'?)"
        return nearest(name, known)

    def lists(self, kind: str) -> str:
        """Return which command lists the names of a kind, for a remedy."""
        return f"`nacre {f'{kind}s' if kind in ('layer', 'backend') else 'layers --all'}` lists them all"

    def absent(self, remedy: str) -> str:
        """Return a remedy, followed by the plugins that failed or are disabled: the name may be one of theirs."""
        lines = [remedy, *(f"failed: {problem}; {problem.remedy}" for problem in self._problems[:5])]
        if len(self._problems) > 5:
            lines.append(f"and {len(self._problems) - 5} more: nacre plugins")
        lines += [
            f"{plugin.name} is {plugin.status}" for plugin in self._plugins if plugin.status.startswith("disabled")
        ]
        return "\n  ".join(lines)


def _has_hooks(module: ModuleType) -> bool:
    return any(type(value) is FunctionType and hasattr(value, "nacre_impl") for value in vars(module).values())


def _classes_of(module: ModuleType) -> list[type]:
    classes = [value for value in vars(module).values() if is_class(value) and value.__module__ == module.__name__]
    return [cls for cls in classes if getattr(cls, "nacre_kind", "") and not cls.__name__.startswith("_")]


def _in_module(offer: Offer, called: str, module: ModuleType) -> Offer:
    own = f"{called}:"
    target = offer.target
    return replace(offer, target=f"{module.__name__}:{target[len(own) :]}") if target.startswith(own) else offer


_followed: ContextVar[tuple[Mapping[str, str], tuple[str, ...]]] = ContextVar("_followed", default=({}, ()))


@contextmanager
def following(pins: Mapping[str, str], kernels: Sequence[str] = ()) -> Generator[None]:
    """Follow these pins, and use these distributions' kernels, in the block: those of a net file.

    Components in fields and backends are opened without arguments for pins.
    """
    before = _followed.get()
    token = _followed.set(({**before[0], **pins}, (*before[1], *kernels)))
    try:
        yield
    finally:
        _followed.reset(token)


_registry: Registry | None = None
_opening: ContextVar[str] = ContextVar("_opening", default="")
"""The distribution of what is being imported because it is used."""


_making = process_lock()


def registry() -> Registry:
    """Return the registry of this process. It looks for plugins when it is first asked for something."""
    global _registry
    with _making:
        if _registry is None:
            _registry = Registry()
        return _registry


def register(thing: Any, name: str | None = None, kind: str | None = None) -> Any:
    """Offer a class in this process, and return it: `nacre.register(MyLayer)`, or as a decorator."""
    return registry().register(thing, name, kind)


def register_kernel(kernel: type, thing: str, backend: str) -> Any:
    """Offer a kernel in this process for a layer ("Pooling") or a component ("neuron/GELU") on a backend."""
    return registry().register_kernel(kernel, thing, backend)
