"""The choice of a kernel for one layer or component on one backend."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import PluginError, RegistryError
from .offers import Offer
from .pins import enabling, pin_line

Accept = Callable[[Any, Offer], str | None]
"""Returns the reason why a kernel class cannot be used here, or None; raises PluginError if it is no kernel at all."""

Reasons = list[tuple[Offer, str]]


class Offers(Protocol):
    """The methods of the registry that the choice of a kernel uses."""

    def kernels_for(self, kind: str, name: str, backend: str) -> Sequence[tuple[Offer, str]]: ...
    def offers_of(self, cls: type, kind: str) -> list[Offer]: ...
    def meant(self, kind: str, name: str, pins: Mapping[str, str] | None = None, *, first: str = "") -> list[Offer]: ...
    def name_of(self, offer: Offer, pins: Mapping[str, str] | None = None) -> str: ...
    def pinned(self, keys: Iterable[str], pins: Mapping[str, str] | None = None) -> str: ...
    def is_enabled(self, offer: Offer, kernels: Collection[str] = ()) -> bool: ...
    def open_offer(self, offer: Offer) -> Any: ...


@dataclass
class Choice:
    """The kernel that was chosen for a layer or component on a backend, and why.

    `kernel` is None where the layer's own state (for a component: the component itself) is used; `ancestor` is the
    backend of the lineage whose kernel it is. The `declined` kernels cannot be used here, of which `broken` ones could
    not even be asked; the `lost` ones can be chosen by a pin; the `not_enabled` ones belong to other distributions,
    each with the line that enables it.
    """

    thing: str
    ancestor: str
    why: str
    kernel: Any = None
    offer: Offer | None = None
    lost: Reasons = field(default_factory=list[tuple[Offer, str]])
    declined: Reasons = field(default_factory=list[tuple[Offer, str]])
    not_enabled: Reasons = field(default_factory=list[tuple[Offer, str]])
    broken: list[Offer] = field(default_factory=list[Offer])

    def as_dict(self) -> dict[str, Any]:
        """Return the choice as a dict that JSON can hold."""

        def tables(reasons: Reasons) -> list[dict[str, str]]:
            return [{"kernel": one.target, "from": str(one.provenance), "reason": why} for one, why in reasons]

        return {
            "thing": self.thing,
            "backend": self.ancestor,
            "kernel": self.offer.target if self.offer else None,
            "from": str(self.offer.provenance) if self.offer else None,
            "why": self.why,
            "lost": tables(self.lost),
            "declined": tables(self.declined),
            "not_enabled": tables(self.not_enabled),
        }

    def __str__(self) -> str:
        chosen = f"{self.offer.target} ({self.offer.provenance})" if self.offer else "its own code"
        lines = [f"{self.thing} on {self.ancestor}: {chosen}, because {self.why}"]
        groups = (("lost", self.lost), ("declined", self.declined), ("not enabled", self.not_enabled))
        for word, reasons in groups:
            lines += [f"  {word}: {offer.target} ({offer.provenance}): {why}" for offer, why in reasons]
        return "\n".join(lines)


def choose(
    registry: Offers,
    cls: type,
    kind: str,
    lineage: Sequence[str],
    accept: Accept | None,
    pins: Mapping[str, str],
    kernels: Collection[str],
    backend: type | None,
    adds_copies: Accept | None,
) -> Choice:
    """Choose among the kernels for exactly `cls`: backend by backend of the lineage, and there rank by rank.

    The ranks are: the pinned one; the backend's owner; the owner of `cls`; enabled strangers. Ranks below the first
    that serves are not opened, nor are strangers that are not enabled: a package that merely got installed is not even
    imported. `kernels` are enabled distributions, and `backend` is the class of the lineage's first. An enabled
    stranger's kernel for an ancestor is also declined for the reason that `adds_copies` returns. Raises RegistryError
    where two kernels of one rank accept, or where a pin names a distribution that offers none.
    """
    things = registry.offers_of(cls, kind)
    prefix = "" if kind == "layer" else f"{kind}/"
    if not things:
        why = "no plugin offers it, so no kernel can be offered for it"
        return Choice(f"{prefix}{cls.__qualname__}", lineage[0], why)
    label = f"{prefix}{registry.name_of(things[0], pins)}"
    choice = Choice(label, lineage[0], f"no kernel serves it on {', '.join(lineage)}")
    for ancestor in lineage:
        own = registry.offers_of(backend, "backend") if backend is not None and ancestor == lineage[0] else []
        hosts = own or registry.meant("backend", ancestor, pins)
        candidates = _candidates(registry, things, ancestor, hosts, pins, choice)
        keys = [f"kernel:{prefix}{things[0].qualified}@{ancestor}", f"kernel:{label}@{ancestor}"]
        pinned = registry.pinned(keys, pins)
        if pinned and not any(offer.distribution == pinned for offer in candidates):
            raise RegistryError(f"'{keys[-1]}' is pinned to '{pinned}', which offers no such kernel", "remove the pin")
        *ranks, (_, strangers) = _ranks(registry, things, ancestor, hosts, candidates, pinned, kernels)
        while ranks:
            why, offers = ranks.pop(0)
            willing = _willing(registry, offers, accept, choice)
            if adds_copies and not ranks and ancestor != lineage[0]:
                willing = _without_copies(willing, adds_copies, keys[-1], choice)
            if len(willing) > 1:
                raise _clash(label, keys[-1], [offer for offer, _ in willing])
            if willing:
                choice.offer, choice.kernel = willing[0]
                choice.ancestor, choice.why = ancestor, why.format(choice.offer.distribution)
                losers = [*(offer for _, rank in ranks for offer in rank), *strangers]
                choice.lost = [(offer, f"to choose it: {pin_line(keys[-1], offer.distribution)}") for offer in losers]
                return choice
        choice.not_enabled += [(offer, f"to enable it: {enabling(offer.distribution)}") for offer in strangers]
    return choice


def _candidates(
    registry: Offers,
    things: list[Offer],
    ancestor: str,
    hosts: list[Offer],
    pins: Mapping[str, str],
    choice: Choice,
) -> list[Offer]:
    candidates: list[Offer] = []
    kind = things[0].kind
    for short in dict.fromkeys(offer.name for offer in things):
        for offer, name in registry.kernels_for(kind, short, ancestor):
            meant = registry.meant(kind, name, pins, first=offer.distribution)
            places = registry.meant("backend", ancestor, pins, first=offer.distribution)
            if hosts and not any(one in hosts for one in places):
                continue  # it is for another backend of that name
            if len(meant) == 1 and meant[0] in things:
                candidates.append(offer)
            elif any(one in things for one in meant):
                forms = " or ".join(f"'{one.qualified}'" for one in meant)
                choice.declined.append((offer, f"'{name}' is ambiguous ({forms}): offer the kernel for one of these"))
    return candidates


def named(offer: Offer) -> tuple[tuple[str, str, str], str]:
    """Return for which (kind, short name, backend) a kernel is offered, and the name as the offer has it."""
    thing, _, backend = offer.name.rpartition("@")
    kind, slash, name = thing.rpartition("/")
    return (kind if slash else "layer", name.rpartition(":")[2], backend), name


def _ranks(
    registry: Offers,
    things: list[Offer],
    ancestor: str,
    hosts: list[Offer],
    candidates: list[Offer],
    pinned: str,
    kernels: Collection[str],
) -> list[tuple[str, list[Offer]]]:
    """Sort kernels into ranks, each with the reason for a choice from it; those in the last are not enabled."""
    backends = {offer.distribution for offer in hosts}
    owners = {offer.distribution for offer in things}
    ranks: list[tuple[str, list[Offer]]] = [
        ("{} is pinned", []),
        (f"{{}} owns the backend {ancestor}", []),
        (f"{{}} owns the {things[0].kind}", []),
        ("{} is enabled, and no owner's kernel serves", []),
        ("", []),
    ]
    for offer in candidates:
        whose, asked = offer.distribution, registry.is_enabled(offer, kernels)
        rank = 0 if whose == pinned else 1 if whose in backends else 2 if whose in owners else 3 if asked else 4
        ranks[rank][1].append(offer)
    return ranks


def _willing(registry: Offers, offers: list[Offer], accept: Accept | None, choice: Choice) -> list[tuple[Offer, Any]]:
    willing: list[tuple[Offer, Any]] = []
    for offer in offers:
        try:
            kernel = registry.open_offer(offer)
            reason = accept(kernel, offer) if accept else None
        except PluginError as error:
            choice.declined.append((offer, str(error.args[0])))
            choice.broken.append(offer)
            continue
        if reason:
            choice.declined.append((offer, reason))
        else:
            willing.append((offer, kernel))
    return willing


def _without_copies(
    willing: list[tuple[Offer, Any]], adds_copies: Accept, key: str, choice: Choice
) -> list[tuple[Offer, Any]]:
    """Decline the kernels that need copies between memories which the net does not need without them."""
    found: list[tuple[Offer, Any]] = []
    for offer, kernel in willing:
        if reason := adds_copies(kernel, offer):
            choice.declined.append((offer, f"{reason}; to choose it: {pin_line(key, offer.distribution)}"))
        else:
            found.append((offer, kernel))
    return found


def _clash(label: str, key: str, offers: list[Offer]) -> RegistryError:
    whose = " and ".join(f"{offer.target} ({offer.provenance})" for offer in offers)
    lines = "\n  or ".join(pin_line(key, offer.distribution) for offer in offers)
    return RegistryError(f"{label}: two kernels have the same rank: {whose}", f"choose one: {lines}")
