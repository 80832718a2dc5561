"""Pins, enabled distributions and keys of kernels that can have no effect, because nobody offers what they name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from ..errors import nearest
from .offers import FIRST_PARTY, Offer, Plugin, normalised


class Offers(Protocol):
    """The methods of the registry that are needed here."""

    def plugins(self) -> list[Plugin]: ...
    def kinds(self) -> list[str]: ...
    def offers(self, kind: str, name: str | None = None) -> list[Offer]: ...
    def is_enabled(self, offer: Offer, kernels: Collection[str] = ()) -> bool: ...


def typos(here: Offers, pins: Mapping[str, str], kernels: Collection[str]) -> Iterator[str]:
    """Yield those of `without_effect` for which there is a similar name: others are for what may come or has gone."""
    return (sentence for sentence in without_effect(here, pins, kernels) if "did you mean" in sentence)


def without_effect(here: Offers, pins: Mapping[str, str], kernels: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each pin, and each enabled distribution, that has no effect with what is installed."""
    active = {one.provenance.distribution: one.status == "active" for one in here.plugins()}
    for name in kernels:
        known = normalised(name)
        if known not in active:
            others = (one for one in active if one != FIRST_PARTY)
            yield f"kernels has '{name}', but no such plugin is installed{nearest(known, others)}"
        elif active[known] and not any(one.distribution == known for one in _helpers(here)):
            yield f"kernels has '{name}', but it offers no kernel and no backend"
    for key, distribution in pins.items():
        known = normalised(distribution)
        if known not in active:
            yield f"pin '{key}' names '{distribution}', but no such plugin is installed{nearest(known, active)}"
        elif active[known] and (reason := _pin_without_effect(here, key, known)):
            yield f"pin '{key}' = '{distribution}' has no effect: {reason}"
    enabled = (one for one in here.offers("kernel") if here.is_enabled(one, kernels))
    yield from (reason for one in enabled if "did you mean" in (reason := kernel_without_thing(here, one)))


def kernel_without_thing(here: Offers, kernel: Offer) -> str:
    """Return a sentence if nobody offers the layer, the component or the backend that a kernel is for, or ""."""
    reason = _unknown_key(here, kernel.name)
    return f"the kernel '{kernel.name}' of {kernel.provenance} is never used: {reason}" if reason else ""


def clashes(here: Offers, pins: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the key of the pin, and the distributions, for each name that several others than nacre offer."""
    for kind in here.kinds():
        for name in dict.fromkeys(offer.name for offer in here.offers(kind)) if kind != "kernel" else ():
            whose = sorted({offer.distribution for offer in here.offers(kind, name)})
            if len(whose) > 1 and FIRST_PARTY not in whose and f"{kind}:{name}" not in pins:
                yield f"{kind}:{name}", whose


def _helpers(here: Offers) -> list[Offer]:
    return [*here.offers("kernel"), *here.offers("backend")]


def _pin_without_effect(here: Offers, key: str, distribution: str) -> str:
    kind, _, name = key.partition(":")
    if kind == "kernel":
        if reason := _unknown_key(here, name):
            return reason
        thing, _, backend = name.rpartition("@")
        short = _short(thing)
        found = [one for one in here.offers("kernel") if one.name.rpartition("@")[2] == backend]
        offered = [one for one in found if _short(one.name.rpartition("@")[0]) == short]
    elif kind not in here.kinds():
        return f"nobody offers anything of the kind '{kind}'{nearest(kind, here.kinds())}"
    elif not (offered := here.offers(kind, name)):
        return f"nobody offers a {kind} '{name}'{_near(here, kind, name)}"
    return "" if any(one.distribution == distribution for one in offered) else f"it offers no such {kind}"


def _unknown_key(here: Offers, key: str) -> str:
    """Return what nobody offers of the layer or component and the backend in a kernel's key, or ""."""
    thing, _, backend = key.rpartition("@")
    kind, slash, name = thing.rpartition("/")
    for one, called in ((kind if slash else "layer", name), ("backend", backend)):
        if not here.offers(one, called):
            return f"nobody offers a {one} '{called}'{_near(here, one, called)}"
    return ""


def _near(here: Offers, kind: str, name: str) -> str:
    return nearest(name, (offer.name for offer in here.offers(kind)))


def _short(thing: str) -> str:
    """Return "kind/Name" or "Name", without the distribution that the name may have."""
    kind, slash, name = thing.rpartition("/")
    return kind + slash + name.rpartition(":")[2]
