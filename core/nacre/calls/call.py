"""`layer(x)`: checks how many blobs a layer is called with, and returns the handles of its tops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..errors import ConfigError, TopologyError, brief
from ..fields.configured import Field
from ..fields.types import whole
from ..protocols.layer import Layer, is_container, is_wired, layer_type
from .handles import Call, Top, called


def call(layer: Layer, bottoms: Sequence[Any], tops: int | None, unknown: Mapping[str, Any]) -> Any:
    """Return the top of a call, or a tuple of several; for a layer without tops the call itself.

    Raises:
        TopologyError: the layer reads or writes another number of blobs, or is connected by names already.
        ConfigError: a field does not fit the number of blobs.
    """
    name = called(layer)
    for one in unknown:
        remedy = (
            "pass handles without names: layer(x)" if one == "bottoms" else "fields belong to the layer, not to a call"
        )
        raise ConfigError(f"{name}: a call has no '{one}'", remedy)
    if is_wired(layer):
        raise TopologyError(
            f"{name}: it is connected by names, bottoms={list(layer.bottoms)}, so it cannot be called",
            "make it without bottoms and tops to call it, or put it into a list of layers: Net(name, [...])",
        )
    for one in bottoms:
        if not isinstance(one, Top):
            raise TopologyError(f"{name}: it is called with {brief(one)}, but it reads tops of layers", _remedy(one))
    fields = {field.name: field for field in type(layer).fields()}
    _check_bottoms(name, layer, fields.get("bottoms"), len(bottoms))
    made = Call(layer, tuple(bottoms), *_tops(name, layer, fields.get("tops"), len(bottoms), tops))
    if not (made.names or is_container(layer)):  # the layers in it may name blobs, so it is checked with their names
        connected(layer, len(bottoms), made.count)
    handles = made.tops()
    return made if not handles or layer.is_sink else handles[0] if len(handles) == 1 else handles


def connected(layer: Layer, bottoms: int, tops: int | None = None) -> Layer:
    """Return a copy of a layer for so many blobs, which have any names.

    Raises:
        ConfigError: its fields do not fit their number.
    """
    field = next((field for field in type(layer).fields() if field.name == "tops"), None)
    if tops is None:
        tops = 0 if field is None else count_tops(field, bottoms)
    below, above = ([f"{word}{number}" for number in range(n)] for word, n in (("bottom", bottoms), ("top", tops)))
    return layer.connected(layer.given_name or layer_type(type(layer)), below, above)


def count_tops(field: Field, bottoms: int) -> int:
    """Return how many tops a layer has for so many bottoms; where any number will do, the least, but 1."""
    for check in field.checks:
        if check.like == "bottoms":
            return bottoms
    return max([1, *(check.least for check in field.checks)])


def _check_bottoms(name: str, layer: Layer, field: Field | None, count: int) -> None:
    if field is None:
        if count:
            message = f"{name}: it is called with {_blobs(count)}, but a source reads none"
            raise TopologyError(message, "call it with nothing")
        return
    for check in field.checks:
        if count < check.least or (check.most is not None and count > check.most):
            raise TopologyError(
                f"{name}: it is called with {_blobs(count)}, but it reads {check.words}: {field.doc}",
                f"call it with {check.words}",
            )


def _tops(name: str, layer: Layer, field: Field | None, bottoms: int, given: int | None) -> tuple[int, tuple[str, ...]]:
    """Return how many tops a call has, and their names if the layer gives them."""
    if given is not None:
        try:
            if whole(given) < 1:
                raise ValueError
        except ValueError:
            raise ConfigError(f"{name}: tops={brief(given)}, but it must be a number, 1 or more") from None
    if layer.is_inplace:
        own: tuple[str, ...] = ()
        count = bottoms
    elif field is None:
        own, count = (), 0
    else:
        own = layer.tops if layer.is_source else ()
        count = len(own) or given or count_tops(field, bottoms)
    if given not in (None, count):
        raise TopologyError(f"{name}: tops={given}, but it has {_tops_of(count)}", "leave tops out")
    return count, own


def _blobs(count: int) -> str:
    return "nothing" if not count else "1 blob" if count == 1 else f"{count} blobs"


def _tops_of(count: int) -> str:
    return "no tops" if not count else "1 top" if count == 1 else f"{count} tops"


def _remedy(given: Any) -> str:
    if isinstance(given, Call):
        return f"{layer_type(type(given.layer))} has no tops: read what it reads"
    if isinstance(given, list | tuple):
        return "pass tops one by one: layer(a, b), or layer(*tops)"
    if isinstance(given, Layer):
        return f"call that layer first: layer({layer_type(type(given))}(...)(x))"
    if isinstance(given, type) and issubclass(given, Layer):
        return f"make a layer of the class, and call it: {given.__name__}(...)(x)"
    if isinstance(given, str):
        return "names are for lists of layers; here pass what Input(shape), a source or another layer returned"
    if hasattr(cast("object", given), "shape"):
        return "numbers come from a source, or from Input(shape), into which net.write writes them"
    return "pass what Input(shape), a source or another layer returned when it was called"
