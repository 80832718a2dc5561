"""Who offers what: names, opening, and the choice of a kernel.

Nothing is read before the first question, and nothing heavy is imported before something is opened. Two distributions
that offer one name are an error wherever it is used; `distribution:Name` is never ambiguous, and a pin settles it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from .choice import Accept as Accept
from .choice import Choice as Choice
from .choice import choose as choose_kernel
from .choice import pin_line
from .discovery import Offer as Offer
from .discovery import Plugin as Plugin
from .discovery import Problem as Problem
from .discovery import Provenance as Provenance
from .discovery import (
    discover,
    import_file,
    make_offer,
    new_manager,
    normalised,
    place_text,
    read_module,
    switch_off,
)
from .errors import PluginError, RegistryError, nearest, where_it_is
from .opening import import_offer, unusable
from .requirements import parse_requirements as parse_requirements
from .settings import settings

if TYPE_CHECKING:
    import pluggy
    from importlib_metadata import EntryPoint


class Registry:
    """All that the installed plugins offer.

    `entry_points`, `environ` and `pins` stand in for the installed ones, the environment of the process, and none. A
    registry of the process's own environment follows the pins of `nacre.toml` too. `Registry(discover=False)` starts
    empty, for tests.
    """

    def __init__(
        self,
        discover: bool = True,
        entry_points: Iterable[EntryPoint] | None = None,
        environ: Mapping[str, str] | None = None,
        pins: Mapping[str, str] | None = None,
    ) -> None:
        self.pins = dict(pins or {})
        self._to_discover = discover
        self._follows_settings = discover and environ is None
        self._entry_points, self._environ = entry_points, environ
        self._lock = threading.RLock()  # the same thread may come back: a light module may call `register`
        self._manager: pluggy.PluginManager | None = None
        self._plugins: list[Plugin] = []
        self._problems: list[Problem] = []
        self._offers: dict[str, dict[str, list[Offer]]] = {}
        self._opened: dict[Offer, Any] = {}

    # What there is

    def plugins(self) -> list[Plugin]:
        """List every plugin, the disabled and the failed ones too."""
        self._discover()
        return list(self._plugins)

    @property
    def problems(self) -> list[Problem]:
        """Everything of any plugin that did not work."""
        self._discover()
        return list(self._problems)

    def kinds(self) -> list[str]:
        """List the kinds of which anything is offered."""
        self._discover()
        return sorted(kind for kind, names in self._offers.items() if names)

    def names(self, kind: str) -> list[str]:
        """List the names of a kind as they open: one that several distributions offer stands as `distribution:Name`."""
        self._discover()
        names: list[str] = []
        for name, offers in self._offers.get(kind, {}).items():
            names += [name] if len(offers) == 1 else [offer.qualified for offer in offers]
        return sorted(names)

    def offers(self, kind: str, name: str | None = None) -> list[Offer]:
        """List the offers of a kind, or those of one name of it, short or `distribution:Name`."""
        self._discover()
        by_name = self._offers.get(kind, {})
        if name is None:
            return [offer for key in sorted(by_name) for offer in by_name[key]]
        distribution, _, short = name.partition(":")
        own = [offer for offer in by_name.get(short, []) if offer.distribution == normalised(distribution)]
        return own or list(by_name.get(name, []))

    def find(self, kind: str, name: str, pins: Mapping[str, str] | None = None) -> Offer:
        """Give the one offer that a name means. Raises RegistryError where none or several do."""
        offers = self.offers(kind, name)
        pin = self.pinned([f"{kind}:{name}"], pins)
        if pin:
            offers = [offer for offer in offers if offer.distribution == pin]
            if not offers:
                told = f"'{kind}:{name}' is pinned to '{pin}', which offers no such {kind}"
                raise RegistryError(told, self._absent(f"pip install {pin}, or take the pin out"))
        if not offers:
            raise self._unknown(kind, name)
        if len(offers) > 1:
            whose = " and ".join(str(offer.provenance) for offer in offers)
            forms = " or ".join(f"'{offer.qualified}'" for offer in offers)
            line = pin_line(f"{kind}:{name}", offers[0].distribution)
            raise RegistryError(f"{kind} '{name}' is offered by {whose}", f"write {forms}, or settle it: {line}")
        return offers[0]

    def pinned(self, keys: Iterable[str], pins: Mapping[str, str] | None = None) -> str:
        """Give the distribution to which the first pinned key is pinned, or "".

        `pins` win over `self.pins`, and these over those of `nacre.toml`.
        """
        settled = settings().pins if self._follows_settings else {}
        merged = {**settled, **self.pins, **(pins or {})}
        return normalised(next((merged[key] for key in keys if key in merged), ""))

    def open(self, kind: str, name: str, pins: Mapping[str, str] | None = None) -> Any:
        """Give the class that a name means (for a command, the command). Raises RegistryError or PluginError."""
        return self.open_offer(self.find(kind, name, pins))

    def open_offer(self, offer: Offer) -> Any:
        """Import what is offered. Raises PluginError naming distribution, file, reason and what would do."""
        if offer not in self._opened:
            thing = offer.thing if offer.thing is not None else import_offer(offer)
            if offer.kind != "command" and not isinstance(thing, type):
                raise unusable(offer, f"{offer.target} must be a class, but is {thing!r}")
            self._opened[offer] = thing
        return self._opened[offer]

    def opens_to(self, offer: Offer, cls: type) -> bool:
        """Say whether an offer opens to exactly this class; imports nothing for an offer that cannot."""
        if offer not in self._opened:
            module, _, attribute = offer.target.partition(":")
            same_package = module.partition(".")[0] == cls.__module__.partition(".")[0]
            if not (same_package and attribute == cls.__qualname__):
                return False
        try:
            return self.open_offer(offer) is cls
        except PluginError:
            return False

    def owner(self, cls: type) -> Provenance | None:
        """Tell who offers a class, or None."""
        every = (offer for kind in self.kinds() for offer in self.offers(kind))
        return next((offer.provenance for offer in every if self.opens_to(offer, cls)), None)

    # Kernels

    def choose(
        self,
        cls: type,
        kind: str,
        lineage: Sequence[str],
        accept: Accept | None = None,
        pins: Mapping[str, str] | None = None,
    ) -> Choice:
        """Choose the kernel for a class on a backend of this lineage; `accept` gives a kernel's reason to decline.

        Raises RegistryError where kernels of equal rank would serve, naming both and the pin.
        """
        return choose_kernel(self, cls, kind, lineage, accept, pins or {})

    def explain(self, thing: str | type, backend: str, pins: Mapping[str, str] | None = None) -> Choice:
        """Tell which kernel a layer ("Pooling") or a component ("neuron/GELU") gets on a backend if none declines."""
        if isinstance(thing, str):
            kind, slash, name = thing.rpartition("/")
            kind = kind if slash else "layer"
            cls = self.open(kind, name, pins)
        else:
            kind, cls = str(getattr(thing, "nacre_kind", "layer")), thing
        offer = self.find("backend", backend, pins)
        try:
            lineage = tuple(getattr(self.open_offer(offer), "lineage", ()))
        except PluginError:  # not usable here, but its kernels can be told
            lineage = ()
        return self.choose(cls, kind, lineage or (offer.name,), None, pins)

    # Without a distribution

    def register(
        self, thing: Any, name: str | None = None, kind: str | None = None, distribution: str = "local"
    ) -> Any:
        """Offer a class at once, as an installed plugin would, and give it back.

        `name` is the class's unless given, less "Layer" or "Backend" at its end. A name registered again is replaced.
        """
        kind = kind or getattr(thing, "nacre_kind", "")
        if not kind:
            raise RegistryError(f"{thing!r} is no layer, component or backend", "say which kind it is: kind=...")
        if name is None:
            name = str(getattr(thing, "__name__", "")).removesuffix(
                {"layer": "Layer", "backend": "Backend"}.get(kind, "")
            )
        module = str(getattr(thing, "__module__", ""))
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        provenance = Provenance(normalised(distribution), "", file, True, module)
        offer = make_offer(kind, name, thing, provenance)
        with self._lock:
            same = [plugin for plugin in self._plugins if plugin.provenance.distribution == offer.distribution]
            plugin = same[0] if same else Plugin(offer.distribution, offer.distribution, provenance)
            if not same:
                self._plugins.append(plugin)
            self._withdraw(plugin, [old for old in plugin.offers if (old.kind, old.name) == (kind, name)])
            self._add(plugin, offer)
        return thing

    def register_kernel(self, kernel: type, thing: str, backend: str, distribution: str = "local") -> Any:
        """Offer a kernel at once for a layer ("Pooling") or a component ("neuron/GELU") on a backend."""
        return self.register(kernel, f"{thing}@{backend}", "kernel", distribution)

    def load_file(self, path: str | os.PathLike[str]) -> Plugin:
        """Use a Python file as a plugin of the file's name: its hooks if it has any, else every class of a kind in it.

        A target in its hooks may name the module as the file is called. It is not imported where the environment
        switches off a plugin of its name. Raises PluginError with file and line.
        """
        file = Path(path).resolve()
        if not file.is_file():
            if file.exists():
                raise PluginError(f"{path}: not a file", "name a Python file")
            raise PluginError(f"{path}: no such file", where_it_is(Path(path)))
        name = normalised(file.stem)
        same = [plugin for plugin in self.plugins() if plugin.provenance.distribution == name]
        if any(plugin.provenance.file != str(file) for plugin in same):
            raise RegistryError(f"{path}: a plugin '{name}' is there already", "give the file another name")
        plugin = Plugin(name, name, Provenance(name, "", str(file), True, file.stem))
        self._switch_off(plugin)
        module = import_file(file) if plugin.status == "active" else None
        with self._lock:
            for old in same:  # the file is loaded again
                self._withdraw(old, old.offers)
                self._plugins.remove(old)
                if self._hooks().has_plugin(name):
                    self._hooks().unregister(name=name)
            if module is not None:
                self._read_file(plugin, module, file)
            else:
                self._plugins.append(plugin)
        return plugin

    def _switch_off(self, plugin: Plugin) -> None:
        """Apply to a file what NACRE_DISABLE_PLUGINS and the like say; they named it before it was known."""
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
                self._hooks().unregister(name=plugin.name)
                raise PluginError(f"{place_text(problems[0].file, problems[0].line)}: {problems[0].reason}")
        self._plugins.append(plugin)
        self._add_all(plugin, [_in_module(offer, file.stem, module) for offer in plugin.offers])
        for cls in [] if plugin.offers else _classes_of(module):
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

    def _discover(self) -> None:
        with self._lock:
            if self._to_discover:
                self._to_discover = False
                plugins, problems = discover(self._entry_points, self._variables, self._hooks())
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
        others.append(offer)
        others.sort(key=lambda other: other.distribution)
        plugin.offers.append(offer)

    def _withdraw(self, plugin: Plugin, offers: list[Offer]) -> None:
        for offer in list(offers):
            plugin.offers.remove(offer)
            self._opened.pop(offer, None)
            others = self._offers[offer.kind][offer.name]
            others.remove(offer)
            if not others:
                del self._offers[offer.kind][offer.name]

    def _unknown(self, kind: str, name: str) -> RegistryError:
        names = self.names(kind)
        if not names:
            nothing = f"nothing of this kind is installed{nearest(kind, self.kinds())}"
            return RegistryError(f"no {kind} '{name}': {nothing}", self._absent("install a plugin that offers it"))
        some = ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"
        lists = f"; `nacre {kind}s` lists them all" if kind in ("layer", "backend") else ""
        lists = lists or ("; `nacre layers --all` lists them all" if len(names) > 12 else "")
        remedy = self._absent(f"take one of these, or install a plugin that offers it{lists}")
        return RegistryError(f"no {kind} '{name}'{nearest(name, names)}; installed: {some}", remedy)

    def _absent(self, remedy: str) -> str:
        """Add to a remedy the plugins that failed, and those switched off: what was looked for may be theirs."""
        lines = [remedy, *(f"failed: {problem}; {problem.remedy}" for problem in self._problems[:5])]
        if len(self._problems) > 5:
            lines.append(f"and {len(self._problems) - 5} more: nacre plugins")
        lines += [
            f"{plugin.name} is {plugin.status}" for plugin in self._plugins if plugin.status.startswith("disabled")
        ]
        return "\n  ".join(lines)


def _has_hooks(module: ModuleType) -> bool:
    return any(isinstance(value, FunctionType) and hasattr(value, "nacre_impl") for value in vars(module).values())


def _classes_of(module: ModuleType) -> list[type]:
    classes = [
        value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return [cls for cls in classes if getattr(cls, "nacre_kind", "") and not cls.__name__.startswith("_")]


def _in_module(offer: Offer, called: str, module: ModuleType) -> Offer:
    own = f"{called}:"
    target = offer.target
    return replace(offer, target=f"{module.__name__}:{target[len(own) :]}") if target.startswith(own) else offer


_registry: Registry | None = None
_making = threading.Lock()


def registry() -> Registry:
    """Give the registry of this process. Made at the first call; it looks for plugins at the first question."""
    global _registry
    with _making:
        if _registry is None:
            _registry = Registry()
        return _registry


def register(thing: Any, name: str | None = None, kind: str | None = None) -> Any:
    """Offer a class in this process, and give it back: `nacre.register(MyLayer)`, or as a decorator."""
    return registry().register(thing, name, kind)


def register_kernel(kernel: type, thing: str, backend: str) -> Any:
    """Offer a kernel in this process for a layer ("Pooling") or a component ("neuron/GELU") on a backend."""
    return registry().register_kernel(kernel, thing, backend)


class _Callable(ModuleType):
    """Lets `nacre.registry` be both this module and its function, whichever was looked up first."""

    def __call__(self) -> Registry:
        return registry()


sys.modules[__name__].__class__ = _Callable
