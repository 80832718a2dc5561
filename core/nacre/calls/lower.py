"""From handles to layers: names, blobs, and splits where a layer would change in place what others read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from ..discovery.registry import registry
from ..errors import ConfigError, TopologyError, brief
from ..protocols.layer import Layer, is_container, layer_type, tops_of
from .handles import Call, Handle, Top, reached


@dataclass(frozen=True)
class Lowered:
    """The layers that handles stand for, in the order of their calls.

    `blobs` has the names of the blobs, `keep` those of the blobs that were asked for. `insert_splits` says whether
    gradients of one blob come from several layers.
    """

    layers: tuple[Layer, ...]
    blobs: Mapping[Top, str]
    keep: tuple[str, ...]
    insert_splits: bool


def handles_in(net: str, outputs: Any) -> list[Handle] | None:
    """Return the handles that are given to a net, or None if these are layers; a single one needs no list.

    Raises:
        ConfigError: there are layers, or other things, among them.
    """
    if isinstance(outputs, Handle):
        return [outputs]
    given = cast("Sequence[Any]", outputs) if isinstance(outputs, list | tuple) else ()
    if not any(isinstance(one, Handle) for one in given):
        return None
    for one in given:
        if not isinstance(one, Handle):
            remedy = "call it, and give what that returns" if isinstance(one, Layer) else "give each handle by itself"
            raise ConfigError(f"{net}: outputs hold {brief(one)} beside handles, but all must be handles", remedy)
    return list(given)


def lower(net: str, outputs: Sequence[Handle], phase: str) -> Lowered:
    """Return the layers that these handles, and all that they need, stand for.

    Raises:
        TopologyError: in this phase a layer reads a top that is absent.
        ConfigError: a layer cannot be connected so.
    """
    asked = [one for one in outputs if isinstance(one, Top)]
    plan = Plan(reached(outputs), asked)
    plan.check(net, phase)
    layers = tuple(plan.layers())
    here = {top for layer in layers if phase not in layer.exclude for top in tops_of(layer)}
    blobs = {top: plan.blob(top) for top in dict.fromkeys([*plan.readers, *asked])}
    keep = tuple(dict.fromkeys(blobs[top] for top in asked if blobs[top] in here))
    return Lowered(layers, blobs, keep, plan.shares_gradients())


class Plan:
    """The calls of a net, in order, with splits and names; `readers` has for each top the calls that read it."""

    def __init__(self, calls: Sequence[Call], asked: Sequence[Top]) -> None:
        self.calls = list(calls)
        self.readers: dict[Top, list[tuple[Call, int]]] = {}
        self.instead: dict[tuple[Call, int], Top] = {}
        for call in calls:
            for index, top in enumerate(call.bottoms):
                self.readers.setdefault(top, []).append((call, index))
        # the last first, because each split is put right behind the call
        for top, uses in sorted(self.readers.items(), key=lambda item: _place(item[0]), reverse=True):
            if any(call.layer.is_inplace for call, _ in uses) and (len(uses) > 1 or top in asked):
                self._split(top, uses)
        self.names = dict(_named(self.calls))

    def _split(self, top: Top, uses: Sequence[tuple[Call, int]]) -> None:
        """Let whoever changes a blob in place, or sends a gradient back to it, read a copy of its own."""
        copied = [use for use in uses if use[0].layer.is_inplace or _sends_back(use[0])]
        split = Call(registry().open("layer_of", "copies")(), (top,), len(copied))
        self.calls.insert(1 + max(map(self.calls.index, top.calls)), split)
        self.readers[top] = [(split, 0), *(use for use in uses if use not in copied)]
        for use, copy in zip(copied, split.tops(), strict=True):
            self.instead[use] = copy
            self.readers[copy] = [use]

    def bottoms(self, call: Call) -> list[Top]:
        """Return what a call reads."""
        return [self.instead.get((call, index), top) for index, top in enumerate(call.bottoms)]

    def blob(self, top: Top) -> str:
        """Return the name of the blob that a handle stands for: of a layer in place it is the bottom's."""
        call = top.calls[0]
        while call.layer.is_inplace:
            top = self.bottoms(call)[top.index]
            call = top.calls[0]
        return top.given or _tops(call, self.names[call])[top.index]

    def check(self, net: str, phase: str) -> None:
        """Raise a TopologyError if a layer reads a top that is absent in a phase."""
        absent = {call for call in self.calls if phase in call.layer.exclude and not call.layer.is_inplace}
        for call in self.calls:
            for top in self.bottoms(call) if phase not in call.layer.exclude else ():
                if all(one in absent for one in top.calls):
                    name, writers = self.names[call], [self.names[one] for one in top.calls]
                    several = "s" * (len(writers) > 1)
                    sources = all(one.layer.is_source for one in top.calls)
                    given = f"feed({phase}=...) gives a source for this phase"
                    raise TopologyError(
                        f"{net}: layer '{name}' reads '{self.blob(top)}' of layer{several} {_list(writers)}, "
                        f"absent in phase '{phase}'",
                        given if sources else f"exclude '{name}' from this phase too: exclude=['{phase}']",
                    )

    def layers(self) -> Iterator[Layer]:
        """Yield the layers; the copies of one that is called several times have one `param_key`."""
        times = Counter(call.layer for call in self.calls)
        first: dict[Layer, str] = {}
        for call in self.calls:
            layer, name = call.layer, self.names[call]
            key = first.setdefault(layer, name)
            shared = times[layer] > 1 and any(field.name == "param_key" for field in type(layer).fields())
            fields = {"param_key": layer.param_key or key} if shared else {}
            yield layer.connected(name, [self.blob(top) for top in self.bottoms(call)], _tops(call, name), **fields)

    def shares_gradients(self) -> bool:
        """Return whether several layers send gradients back to one blob that no source writes."""
        return any(
            sum(map(_sends_back, (call for call, _ in uses))) > 1 and not all(one.layer.is_source for one in top.calls)
            for top, uses in self.readers.items()
        )


def _place(top: Top) -> tuple[int, int]:
    return top.calls[-1].order, top.index


def _sends_back(call: Call) -> bool:
    layer = call.layer
    return (layer.can_do_bp or is_container(layer)) and "train" not in layer.exclude


def _tops(call: Call, name: str) -> tuple[str, ...]:
    """Return the names of a call's tops: those of a source, else the layer's, with a number if there are several."""
    if call.names or call.count == 1:
        return call.names or (name,)
    return tuple(f"{name}_{index}" for index in range(call.count))


def _named(calls: Sequence[Call]) -> Iterator[tuple[Call, str]]:
    """Yield the names of layers: given, or type and number; those of an object's further calls end with a number."""
    taken = {name for call in calls for name in _given(call)}
    kinds, first, times = Counter[str](), dict[Layer, str](), Counter[Layer]()
    for call in calls:
        layer = call.layer
        times[layer] += 1
        if layer in first:
            stem, number = f"{first[layer]}_", times[layer]
        else:
            stem = snake(layer_type(type(layer)))
            kinds[stem] += 1
            number = kinds[stem]
        if not layer.given_name or layer in first:
            name = next(name for one in count(number) if taken.isdisjoint(_own(call, name := f"{stem}{one}")))
        else:
            name = layer.given_name
        taken |= _own(call, name)
        first.setdefault(layer, name)
        yield call, name


def _given(call: Call) -> Iterator[str]:
    yield from call.names
    if call.layer.given_name:
        yield from _own(call, call.layer.given_name)


def _own(call: Call, name: str) -> set[str]:
    """Return the names that a call takes if its layer has this one."""
    return {name} if call.names else {name, *_tops(call, name)}


def snake(kind: str) -> str:
    """Return a type as it begins names: "InnerProduct" is inner_product, "HDF5Data" hdf5_data, "ReLU" relu."""
    return re.sub(r"(?<=[a-z]{2})(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])|(?<=[0-9])(?=[A-Z])", "_", kind).lower()


def _list(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
