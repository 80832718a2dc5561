"""Kernels against what they stand for: a kernel must be a state, and declare what the layer's own state declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..discovery.fitting import missing_methods
from ..discovery.guard import is_class
from ..discovery.kernels import Choice
from ..discovery.offers import FIRST_PARTY, removal
from ..errors import ContractError
from ..protocols.components import Neuron
from ..protocols.layer import Layer
from ..protocols.state import LayerState

METHODS = {"regularizer": ("add_gradient",), "constraint": ("constrain",), "solver": ("update",)}
"""What a kernel for a component needs, besides what a choice asks it: `dtypes` and `supports`."""

SETTINGS = ("init", "regu", "cons", "lr", "tied", "transposed", "blocks")
"""What a parameter has besides its name, shape and kind: training and snapshots depend on it."""

Difference = tuple[str, str, str]
"""What is compared, how the kernel declares it, and how the layer's own state does."""


def misfit(thing: Any, kernel: Any) -> str:
    """Return why a class cannot be the kernel of a layer or component, or ""."""
    if not is_class(kernel):
        return f"{kernel!r} is no class"
    name = kernel.__name__
    if isinstance(thing, Layer | Neuron):
        if not issubclass(kernel, LayerState):
            return f"{name} is no LayerState, but a kernel of a {thing.nacre_kind} must be one"
        missing = missing_methods(kernel)
    else:
        needed = ("dtypes", "supports", *METHODS.get(thing.nacre_kind, ()))
        missing = [one for one in needed if not hasattr(kernel, one)] or missing_methods(kernel)
    return f"{name} does not define {' and '.join(missing)}" if missing else ""


def is_foreign(choice: Choice) -> bool:
    """Return whether a kernel of another distribution than nacre was chosen: nacre's tests compare its own ones."""
    return choice.offer is not None and choice.offer.distribution != FIRST_PARTY


def check_state_alike(name: str, choice: Choice, kernel: LayerState, own: LayerState) -> None:
    """Check that the kernel of a layer declares the blobs, parameters and memory of the layer's own state.

    Of parameters all is compared: also first values, rates, regularisers and constraints.

    Raises:
        ContractError: names the layer, the kernel and its distribution, and both declarations.
    """
    _check(name, choice, "the layer's own state", _state_differences(kernel, own))


def check_method_alike(name: str, choice: Choice, kernel: Any, own: Any) -> None:
    """Check that the kernel of a method keeps the method's histories and memory: snapshots have them.

    Raises:
        ContractError: names the method, the kernel and its distribution, and both declarations.
    """
    _check(name, choice, "the method itself", _method_differences(kernel, own))


def _check(name: str, choice: Choice, other: str, differences: Iterable[Difference]) -> None:
    offer = choice.offer
    assert offer is not None
    for what, here, there in differences:
        who = f"its kernel {offer.target} of {offer.provenance}"
        raise ContractError(
            f"{name}: {who} declares {what} {here}, but {other} {there}",
            f"tell its authors, and do without it: {removal(offer.provenance)}",
        )


def _state_differences(kernel: LayerState, own: LayerState) -> Iterator[Difference]:
    yield from _lists("blob", map(_blob, kernel.blobs), map(_blob, own.blobs))
    yield from _lists("parameter", map(_parameter, kernel.parameters), map(_parameter, own.parameters))
    for one, other in zip(kernel.parameters, own.parameters, strict=True):
        for field in SETTINGS:
            here, there = getattr(one, field), getattr(other, field)
            if here != there and repr(here) != repr(there):  # components are equal if they say the same
                yield f"parameter '{one.name}' with {field} =", repr(here), f"has {there!r}"
    if type(own).memory is not LayerState.memory and type(kernel).memory is LayerState.memory:
        yield "memory:", "none", "has some, which snapshots keep"


def _method_differences(kernel: Any, own: Any) -> Iterator[Difference]:
    yield from _lists("history", map(_history, _sorted(kernel.histories)), map(_history, _sorted(own.histories)))
    yield from _lists("memory", map(repr, sorted(kernel.memory())), map(repr, sorted(own.memory())))


def _sorted(histories: Any) -> list[tuple[str, Any]]:
    return sorted(histories.items())


def _lists(what: str, here: Iterable[str], there: Iterable[str]) -> Iterator[Difference]:
    ours, theirs = list(here), list(there)
    for index in range(max(len(ours), len(theirs))):
        one, other = (texts[index] if index < len(texts) else "none" for texts in (ours, theirs))
        if one != other:
            yield f"{what} {index}:", one, f"declares {other}"


def _blob(blob: Any) -> str:
    return f"{' x '.join(map(str, blob.shape)) or 'one number'}, {blob.dtype}"


def _parameter(parameter: Any) -> str:
    kind = "" if parameter.trainable else ", a buffer"
    return f"'{parameter.name}', {' x '.join(map(str, parameter.shape))}{kind}"


def _history(entry: tuple[str, Any]) -> str:
    name, arrays = entry
    return f"'{name}', {', '.join(' x '.join(map(str, array.shape)) for array in arrays)}"
