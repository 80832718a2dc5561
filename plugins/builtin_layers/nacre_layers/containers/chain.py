"""Chain: layers of which each reads what the one before it wrote, unless it names blobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from nacre import ConfigError, Inner, Layer, NacreError, Phase, every, layer_maker, tops_of

from ..shapes.split import SplitLayer

MOST = 10_000
repetitions = every(lambda number: 0 < number <= MOST, f"from 1 to {MOST:,}")
"""How often a container may have its layers."""


class Chain:
    """The layers of container `name`, from the first, which reads its `bottoms`, to the last, which writes its `tops`.

    `entries` are layers, used as they are, or tables, in which name, bottoms and tops may be missing: the name is then
    the type and a number, and tops have the name of their layer. A layer without bottoms and tops is like a table.
    `layers` are the layers, complete; `inner` are they as they are connected, and what stands for one in place in the
    phases that it excludes, if it writes into blobs of its own: those at both ends.

    Raises:
        ConfigError: a table does not describe a layer; it has all mistakes, with the full names of the layers.
    """

    def __init__(
        self, name: str, entries: Sequence[Layer | Mapping[str, Any]], bottoms: Sequence[str], tops: Sequence[str]
    ) -> None:
        self.bottoms, self.tops = tuple(bottoms), tuple(tops)
        self.inner: list[Inner] = []
        self._layers: list[Layer] = []
        self._current = self.bottoms
        self._filled_in: dict[int, set[str]] = {}
        self._kinds = Counter[str]()
        problems: list[str] = []
        remedy = ""
        for number, entry in enumerate(entries, start=1):
            last = number == len(entries)
            if isinstance(entry, Layer) and not entry.unwired:
                self._add(entry, last=last)
                continue
            table = {"name": entry.given_name} if isinstance(entry, Layer) else entry
            called = _called(table) or f"layer {number}"
            try:
                cls, make = (type(entry), entry.connected) if isinstance(entry, Layer) else layer_maker(entry)
                kind = cls.__name__.removesuffix("Layer")
                self._kinds[kind] += 1
                called = _called(table) or f"{kind}{self._kinds[kind]}"
                self._add(self._make(table, cls, make, called, last=last), last=last)
            except NacreError as error:
                own = (f"{called}: ", f"{called}/")
                lines = str(error.args[0]).split("\n")
                problems += [f"{name}/{line if line.startswith(own) else f'{called}: {line}'}" for line in lines]
                remedy = remedy or error.remedy
        if problems:
            raise ConfigError("\n".join(problems), remedy)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, complete."""
        return tuple(self._layers)

    def implied(self, layer: Layer) -> set[str]:
        """Return the fields that a table of one of the layers need not have."""
        return self._filled_in.get(id(layer), set())

    def _make(
        self, table: Mapping[str, Any], cls: type[Layer], make: Callable[..., Layer], name: str, *, last: bool
    ) -> Layer:
        fields = {field.name: field for field in cls.fields()}
        given = {str(key): value for key, value in table.items() if key != "type" and value != ""}
        added: dict[str, Any] = {}
        if "name" not in given and "tops" not in given:
            added["name"] = name
        if "bottoms" in fields and "bottoms" not in given:
            added["bottoms"] = self._current
        if "tops" in fields and "tops" not in given:
            bottoms: Any = given.get("bottoms", self._current)
            one_each = any(check.like == "bottoms" for check in fields["tops"].checks)
            count = len(bottoms) if one_each and not isinstance(bottoms, str) else 1
            added["tops"] = self.tops if last else unused(name, {*self.bottoms, *self.tops}, count)
        layer = make(**given, **added)
        self._filled_in[id(layer)] = set(added)
        return layer

    def _add(self, layer: Layer, *, last: bool) -> None:
        tops = None
        if layer.is_inplace and tuple(layer.bottoms) == self._current:
            if last:
                tops = self.tops
            elif self._current == self.bottoms:  # these are not the container's to change
                tops = unused(layer.name, {*self.bottoms, *self.tops}, len(self.bottoms))
        self._layers.append(layer)
        self.inner.append(Inner(layer, tops=tops))
        if tops and layer.exclude:
            self.inner += _through(layer, tops)
        self._current = tops or tops_of(layer) or self._current


def _through(layer: Layer, tops: Sequence[str]) -> Iterator[Inner]:
    """Yield what hands the bottoms of a layer on, as its tops, in the phases that it excludes."""
    others = [phase for phase in get_args(Phase) if phase not in layer.exclude]
    for number, (bottom, top) in enumerate(zip(layer.bottoms, tops, strict=True), start=1):
        name = f"{layer.name}.through" + f".{number}" * (len(tops) > 1)
        yield Inner(SplitLayer(name=name, bottoms=[bottom], tops=[top], exclude=others))


def _called(table: Mapping[str, Any]) -> str:
    """Return the name that a table gives its layer, or ""."""
    tops: Any = table.get("tops", ())
    first = tops if isinstance(tops, str) else next(iter(tops), "") if isinstance(tops, Sequence) else ""
    return str(table.get("name") or first)


def unused(name: str, taken: set[str], count: int = 1) -> tuple[str, ...]:
    """Return names for blobs, made of one name, of which none is `taken`."""
    names = (name,) if count == 1 else tuple(f"{name}.{number}" for number in range(1, count + 1))
    while taken.intersection(names):
        names = tuple(f"{one}_" for one in names)
    return names
