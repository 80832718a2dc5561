"""Offers and plugins as data: what is offered, by which distribution, and what did not work."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import RegistryError
from .guard import is_class, place_text, shown

API = "1.1"
"""Version of the plugin interface, "major.minor". A light module states the version it needs as `nacre_api`.

1.1: `version` and `renamed` on the class lines of layers, components and kernels; `offer_names_elsewhere`.
"""

FIRST_PARTY = "nacre"
KIND_OF_HOOK = {
    "offer_layers": "layer",
    "offer_kernels": "kernel",
    "offer_backends": "backend",
    "offer_components": "",  # its result names the kinds
    "offer_commands": "command",
    "offer_names_elsewhere": "",  # it offers nothing
}

ABOUT_OTHERS = ("layer_of", "number_of", "default_of")
"""Kinds of offers about others: which layer a name of a kind stands for, which component a number, or none at all."""

_NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
_NAMES = re.compile(_NAME)
_KERNELS = re.compile(rf"(?:[a-z_]+/)?(?:{_NAME}:)?{_NAME}@{_NAME}")
_KINDS = re.compile(r"[a-z_]+")
_TARGETS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Provenance:
    """Where an offer comes from. `file` is the light module's; "" until it has been imported."""

    distribution: str
    version: str
    file: str
    editable: bool
    module: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()


@dataclass(frozen=True)
class Offer:
    """One thing that one distribution offers. A kernel's name is `thing@backend`."""

    kind: str
    name: str
    target: str
    provenance: Provenance
    thing: object = field(default=None, compare=False, repr=False)
    """The class itself, if the class was offered instead of a string."""

    @property
    def distribution(self) -> str:
        return self.provenance.distribution

    @property
    def qualified(self) -> str:
        """The name with its distribution, which is never ambiguous."""
        return f"{self.distribution}:{self.name}"


@dataclass(frozen=True)
class Problem:
    """Something in a plugin that did not work.

    `stage` is find, switch, lock, import, api, hook or offer; `file` "" and `line` 0 mean unknown.
    """

    distribution: str
    version: str
    stage: str
    reason: str
    file: str
    line: int
    remedy: str

    def __str__(self) -> str:
        place = f" [{place_text(self.file, self.line)}]" if self.file else ""
        return f"{self.distribution} {self.version}".rstrip() + f" ({self.stage}): {self.reason}{place}"


@dataclass
class Plugin:
    """One entry point. `name` is its distribution's, followed by ":" and the entry point's if there are several.

    `status` is "active", "disabled: <which rule>" or "failed": nothing of it can be used.
    """

    name: str
    entry: str
    provenance: Provenance
    status: str = "active"
    offers: list[Offer] = field(default_factory=list[Offer])
    libraries: tuple[str, ...] = ()
    """The distributions on which what it computes or reads depends: snapshots record their versions."""
    elsewhere: dict[str, str] = field(default_factory=dict[str, str])
    """The names that other libraries have for its offers: "kind/Name" -> names."""

    def problem(self, stage: str, reason: str, place: tuple[str, int] = ("", 0), remedy: str = "") -> Problem:
        """Return a problem of this plugin at a place, or somewhere in its light module, with a remedy."""
        where = self.provenance
        advice = f"{remedy}, or {removal(where)}" if remedy else removal(where)
        return Problem(where.distribution, where.version, stage, reason, place[0] or where.file, place[1], advice)


def removal(provenance: Provenance) -> str:
    """Return how to remove or disable a plugin."""
    if provenance.distribution == FIRST_PARTY:
        return f"set NACRE_DISABLE_PLUGINS={provenance.module}"
    if not provenance.version:  # a file, or registered by hand
        return f"correct {provenance.file or provenance.module}, or do not load it"
    return f"pip uninstall {provenance.distribution}, or set NACRE_DISABLE_PLUGINS={provenance.distribution}"


def normalised(name: str) -> str:
    """Return a distribution's name as the package index compares it: `Acme_Layers` is `acme-layers`."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def make_offer(kind: object, name: object, value: object, provenance: Provenance) -> Offer:
    """Check one offer and return it. Raises RegistryError if it is not valid."""
    # a subclass of str may compare and hash in any way
    kind, name, value = (str.__str__(one) if isinstance(one, str) else one for one in (kind, name, value))
    if not isinstance(kind, str) or not _KINDS.fullmatch(kind):
        raise RegistryError(f"kind {shown(kind)}: it must consist of lower-case letters and '_'")
    syntax = _KERNELS if kind == "kernel" else _NAMES
    if not isinstance(name, str) or not syntax.fullmatch(name):
        raise RegistryError(
            f"{kind} {shown(name)}: a name must consist of letters, digits and '_.-', and start with a letter"
        )
    if isinstance(value, str):
        if not _TARGETS.fullmatch(value):
            raise RegistryError(f"{kind} {name}: {shown(value)}, but it must be like 'package.module:Class'")
        return Offer(kind, name, value, provenance)
    if not is_class(value) and not (kind == "command" and callable(value)):
        raise RegistryError(
            f"{kind} {name}: {shown(value)}, but it must be a class, or a string like 'package.module:Class'"
        )
    attribute = getattr(value, "__qualname__", type(value).__qualname__)
    return Offer(kind, name, f"{value.__module__}:{attribute}", provenance, value)
