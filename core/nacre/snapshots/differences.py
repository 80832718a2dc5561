"""What has changed since a snapshot when a training is resumed: machine, code, plan and fields."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ..fields.checks import same_numbers
from ..fields.configured import Configured
from ..fields.tables import plain, table_of, without_addresses
from ..fields.types import Paths, Place, change_paths
from ..protocols.layer import Layer
from .environment import flat_environment
from .provenance import part_differences

CHOSEN = ("backend", "seed", "dtype", "compute")


def bit_differences(then: Mapping[str, Any], now: Mapping[str, Any], given_plan: Mapping[str, Any]) -> list[str]:
    """Return sentences on everything that decides the bits and has changed between two states of snapshots.

    `given_plan` is the plan that today's net was made with.
    """
    was = {**flat_environment(then.get("environment", {})), **{key: then[key] for key in CHOSEN if key in then}}
    here = {**flat_environment(now["environment"]), **{key: now[key] for key in CHOSEN}}
    different = [f"{key} was {was[key]}, is {here[key]}" for key in here if key in was and was[key] != here[key]]
    different += part_differences(then.get("parts", {}), now["parts"])
    if _decided(plan := then.get("plan", now["plan"])) != _decided(now["plan"]):
        if _decided(plan) == _decided(given_plan):
            different.append("the backend could not follow the plan of the snapshot, and made a new one")
        else:
            different.append("the plan is different: the net was not made with plan=snapshot.state['plan']")
    return list(dict.fromkeys(different))


def _decided(plan: Mapping[str, Any]) -> str:
    """Return the decisions in a plan; for many runs of steps there is none."""
    return _text({run: decisions for run, decisions in plan.items() if decisions})


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def field_differences(
    state: Mapping[str, Any], layers: Iterable[Layer], frozen: Collection[str], solver: Configured, phase: str
) -> Iterator[str]:
    """Yield sentences on the layers, their fields and the solver's fields that have changed since a snapshot."""
    saved = {table["name"]: table for table in state.get("layers", ()) if phase not in table.get("exclude", ())}
    here = {layer.name: layer for layer in layers if phase not in layer.exclude}
    for name, layer in here.items():
        if name in saved:
            yield from _of_thing(f" of layer '{name}'", saved[name], layer)
        elif saved:
            yield f"layer '{name}' is new"
    yield from (f"layer '{name}' is no longer there" for name in saved if name not in here)
    if (then := state.get("freeze", (now := sorted(frozen)))) != now:
        yield f"trained with freeze={_short(then)}, now {_short(now)}"
    if "settings" in state:
        yield from _of_thing("", state["settings"], solver)


def _of_thing(where: str, then: Mapping[str, Any], thing: Configured) -> Iterator[str]:
    kind = table_of(thing)["type"]
    if then["type"] != kind:
        yield f"{where.removeprefix(' of ')} was of type {then['type']}, is of type {kind}"
        return
    then = type(thing).newly_named(then)
    for field in type(thing).fields():
        if field.name == "exclude" or same_numbers in field.checks:
            continue
        value = getattr(thing, field.name)
        if isinstance(value, Place):  # where files are written does not change the training
            continue
        was = then[field.name] if field.name in then else _default(field, value)
        if isinstance(value, Configured) and isinstance(was, Mapping):
            was = type(value).newly_named(cast("Mapping[str, Any]", was))
        # a folder that was moved holds the same files
        shorten = _file_names if field.takes(Paths) else _without_addresses
        if shorten(was) != shorten(plain(value, thing)):
            yield f"trained with {field.name}={_short(was)}{where}, now {_short(plain(value, thing))}"


def _default(field: Any, value: Any) -> Any:
    return plain(value) if field.required else plain(field.convert(field.default))


def _file_names(paths: Any) -> Any:
    return change_paths(paths, lambda path: Path(path).name)


def _without_addresses(value: Any) -> str:
    return without_addresses(_text(value))  # snapshots of nacre 0.1 have them


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
