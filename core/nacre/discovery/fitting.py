"""Whether a class is what it is offered as: of the right kind, and with every method that the kind needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from ..text import with_article
from .guard import is_class, shown
from .offers import Offer

Method = TypeVar("Method", bound=Callable[..., Any])

BASES = {
    "layer": "Layer",
    "backend": "Backend",
    "neuron": "Neuron",
    "initializer": "Initializer",
    "regularizer": "Regularizer",
    "constraint": "Constraint",
    "transformer": "Transformer",
    "solver": "Method",
    "lr_policy": "LrPolicy",
    "momentum_policy": "MomentumPolicy",
    "callback": "Callback",
    "algorithm": "Algorithm",
    "communicator": "Communicator",
    "framework": "Framework",
    "store": "Store",
    "codec": "Codec",
    "drawing": "Drawing",
}
"""The names of the base classes of nacre's kinds, for messages: a class of a kind has `nacre_kind` from its base."""

NEEDS = {"snapshot_store": ("suffix", "encode", "decode")}
"""What classes of kinds without a base class must have."""

_MARK = "nacre_required"


def required(*instead: str) -> Callable[[Method], Method]:
    """Mark a method of a base class that every offered class must define, or one of the methods `instead`."""

    def mark(method: Method) -> Method:
        setattr(method, _MARK, instead)
        return method

    return mark


def missing_methods(cls: type) -> list[str]:
    """Return the required methods that a class does not define."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base))
    return [name for name in found if _is_missing(cls, found, name)]


def _is_missing(cls: type, found: dict[str, object], name: str) -> bool:
    method = found[name]
    if not isinstance(method, FunctionType) or _MARK not in vars(method):
        return False
    home = next(base for base in cls.__mro__ if vars(base).get(name) is method)
    return all(found.get(other) is vars(home).get(other) for other in vars(method)[_MARK])


def misfit(offer: Offer, thing: Any) -> str:
    """Return why a thing is not what it is offered as, or ""; a class may know more, by `nacre_misfit`."""
    if offer.kind == "command":
        return _no_command(offer, thing)
    if not is_class(thing):
        return f"{offer.target} must be a class, but is {shown(thing)}"
    kind = {"layer_of": "layer", "number_of": offer.name}.get(offer.kind, offer.kind)
    found = str(getattr(thing, "nacre_kind", ""))
    if kind in BASES and not found:
        return f"{thing.__name__} is a plain class, but {with_article(_words(kind))} is a subclass of {_base(kind)}"
    if found and found != kind and kind not in ("kernel", "default_of"):
        base = f", and no subclass of {_base(kind)}" if kind in BASES else ""
        return f"{thing.__name__} is of the kind {_words(found)}{base}"
    missing = [name for name in NEEDS.get(kind, ()) if not hasattr(thing, name)] or missing_methods(thing)
    if missing:
        return f"{thing.__name__} does not define {' and '.join(missing)}, but {with_article(_words(kind))} must"
    more = getattr(thing, "nacre_misfit", None)
    return str(more(offer.name)) if more is not None and kind == offer.kind != "default_of" else ""


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _base(kind: str) -> str:
    return f"nacre.{BASES[kind]}"


def _no_command(offer: Offer, thing: Any) -> str:
    if is_class(thing) or not callable(thing):
        return f"{offer.target} must be a click command, but is {shown(thing)}"
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):  # of a function in C, which tells nothing about its arguments
        return f"{offer.target} must be a click command, but is {shown(thing)}"
    may_lack = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in may_lack]
    if needed:
        return f"{offer.target} needs arguments ({', '.join(needed)}), so it must be a click command"
    return ""
