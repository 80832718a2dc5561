"""Offers: what a plugin says it has, whose it is, and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import RegistryError
from .guard import is_class, place_text, shown

API = "1"
"""What the core offers to plugins, "major.minor". A light module states what it needs as `nacre_api`."""

FIRST_PARTY = "nacre"
KIND_OF_HOOK = {
    "offer_layers": "layer",
    "offer_kernels": "kernel",
    "offer_backends": "backend",
    "offer_components": "",  # says its kinds itself
    "offer_commands": "command",
}

_NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
_NAMES = re.compile(_NAME)
_KERNELS = re.compile(rf"(?:[a-z_]+/)?(?:{_NAME}:)?{_NAME}@{_NAME}")
_KINDS = re.compile(r"[a-z_]+")
_TARGETS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Provenance:
    """Where an offer comes from. `file` is that of the light module; "" as long as it has not been imported."""

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
    """The class itself, where it was offered instead of a string."""

    @property
    def distribution(self) -> str:
        return self.provenance.distribution

    @property
    def qualified(self) -> str:
        """The name that is never ambiguous."""
        return f"{self.distribution}:{self.name}"


@dataclass(frozen=True)
class Problem:
    """Something of a plugin that did not work.

    `stage` is find, switch, import, api, hook or offer; `file` "" and `line` 0 mean unknown.
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
    """One entry point. `name` is its distribution's, with ":" and the entry point's where a distribution has several.

    `status` is "active", "disabled: <which rule>" or "failed": nothing of it can be used.
    """

    name: str
    entry: str
    provenance: Provenance
    status: str = "active"
    offers: list[Offer] = field(default_factory=list[Offer])
    libraries: tuple[str, ...] = ()
    """The distributions on which what it computes or reads depends: snapshots record their versions."""

    def problem(self, stage: str, reason: str, place: tuple[str, int] = ("", 0), remedy: str = "") -> Problem:
        """Describe what went wrong at a place, or somewhere in the light module, and what would do."""
        where = self.provenance
        advice = f"{remedy}, or {removal(where)}" if remedy else removal(where)
        return Problem(where.distribution, where.version, stage, reason, place[0] or where.file, place[1], advice)


def removal(provenance: Provenance) -> str:
    """Return how to get rid of a plugin."""
    if provenance.distribution == FIRST_PARTY:
        return f"set NACRE_DISABLE_PLUGINS={provenance.module}"
    if not provenance.version:  # a file, or registered by hand
        return f"mend or leave out {provenance.file or provenance.module}"
    return f"pip uninstall {provenance.distribution}, or set NACRE_DISABLE_PLUGINS={provenance.distribution}"


def normalised(name: str) -> str:
    """Return a distribution's name as the package index compares it: `Acme_Layers` is `acme-layers`."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def make_offer(kind: object, name: object, value: object, provenance: Provenance) -> Offer:
    """Check one offer and make it. Raises RegistryError with what is wrong with it."""
    # a text of a class of its own may compare and hash as it likes
    kind, name, value = (str.__str__(one) if isinstance(one, str) else one for one in (kind, name, value))
    if not isinstance(kind, str) or not _KINDS.fullmatch(kind):
        raise RegistryError(f"kind {shown(kind)}: must be lower-case letters and '_'")
    syntax = _KERNELS if kind == "kernel" else _NAMES
    if not isinstance(name, str) or not syntax.fullmatch(name):
        raise RegistryError(f"{kind} {shown(name)}: a name must be letters, digits and '_.-', and start with a letter")
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
