"""Layers and other objects made from the tables of a net file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from ..arguments import how_to_call
from ..discovery.registry import registry
from ..errors import ConfigError, brief, nearest
from ..fields.types import Converted
from .layer import Layer, layer_type, refuse_unwired

Table = dict[str, Any]


class Layers(Converted["Sequence[Layer | Mapping[str, Any] | str]", "tuple[Layer, ...]"]):
    """The layers of a container, from objects, tables with `type`, or names of layers without other fields.

    The container makes layers of the tables, when its other fields are known.
    """

    wants = "a list of layers, each with a type: [[layer.layer]]"

    @staticmethod
    def convert(value: Any) -> tuple[Layer | Mapping[str, Any], ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise ValueError
        entries = [{"type": one} if isinstance(one, str) else one for one in cast("Sequence[Any]", value)]
        if not all(isinstance(one, Layer | Mapping) for one in entries):
            raise ValueError
        return tuple(entries)


def type_of(table: Mapping[str, Any], kind: str) -> str:
    """Return the entry `type` of a table that describes an object of a kind. Raises ConfigError if it has none."""
    if isinstance(given := table.get("type"), str):
        return given
    if "type" in table:
        raise ConfigError(f"type={brief(given)}, but it must be a string", f"write the name of a {kind} in quotes")
    names = registry().names(kind)
    for key, value in table.items():
        if isinstance(value, str) and value in names:
            raise ConfigError("type is missing", f'write type = "{value}" instead of {key} = "{value}"')
    raise ConfigError("type is missing", f'add type = "...", the name of a {kind}; {registry().lists(kind)}')


def layer_maker(table: Mapping[str, Any]) -> tuple[type[Layer], Callable[..., Layer]]:
    """Return the class of the layer that a table describes, and the function that makes it from the other entries.

    The name of a component of a kind that has a layer (`layer_of`) means that layer with it.
    """
    here = registry()
    offer = here.find("layer", type_of(table, "layer"), others=here.also_named("layer"))
    found = here.open_offer(offer)
    if offer.kind == "layer":
        return found, found
    layer: type[Layer] = here.open("layer_of", offer.kind)
    return layer, LayerWith(layer, offer.kind, found)


class LayerWith:
    """Makes a layer with a component in its field `kind`, such as `L.ReLU(epsilon=0.1)`: fields of both are given."""

    def __init__(self, layer: type[Layer], kind: str, component: Any) -> None:
        self.layer = layer
        self.kind = kind
        self.component = component
        self.own = {known.name for known in layer.fields()} - {kind}
        self.__doc__ = component.__doc__

    def __repr__(self) -> str:
        component = self.component.__name__
        return f"<L.{component}: makes a layer {layer_type(self.layer)} with {self.kind}={component}(...)>"

    @property
    def __signature__(self) -> inspect.Signature:
        own, parts = (inspect.signature(cls).parameters.values() for cls in (self.layer, self.component))
        mine = [one for one in own if one.name in self.own]
        return inspect.Signature([*(one for one in parts if one.name not in self.own), *mine])

    def __call__(self, *values: Any, **fields: Any) -> Layer:
        fields |= self.component.with_names(values, fields)
        own, parts = divided(fields, self.own, self.component)
        return cast("Any", self.layer)(**own, **{self.kind: self.component(**parts)})


def make_layer(table: Mapping[str, Any]) -> Layer:
    """Make the layer that a table describes, connected to blobs."""
    layer = layer_maker(table)[1](**{str(key): value for key, value in table.items() if key != "type"})
    refuse_unwired(layer, layer.given_name or layer_type(type(layer)))
    return layer


def divided(
    fields: Table, own: set[str], cls: Any, elsewhere: Mapping[str, str] = MappingProxyType({})
) -> tuple[Table, Table]:
    """Divide the fields of a table into those in `own` and those of `cls`. Raises ConfigError for any other.

    `elsewhere` are names that other libraries have for fields in `own`: {theirs: ours}.
    """
    known = {known.name for known in cls.fields()} - own
    fields = cls.newly_named(fields)
    for key in fields:
        if key not in own | known:
            names = sorted(own | known)
            meant = nearest({**cls.elsewhere, **elsewhere}.get(key, key), names)
            raise ConfigError(f"unknown field '{key}'{meant}", f"the fields are {', '.join(names)}")
    return {key: fields[key] for key in fields if key in own}, {key: fields[key] for key in fields if key in known}


@how_to_call("fresh(layer, ...)")
def fresh(layer: Layer, **fields: Any) -> Layer:
    """Return a copy of a layer, with copies of the layers in its fields, which shares no parameters with it."""
    if not isinstance(layer, Layer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"fresh: layer={brief(layer)}, but it must be a layer", "such as L.InnerProduct(output_dim=3)"
        )
    inner = {
        field.name: [fresh(one) for one in getattr(layer, field.name)]
        for field in type(layer).fields()
        if field.takes(Layers)
    }
    return replace(layer, **{**inner, **fields})
