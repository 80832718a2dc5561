"""What is not the same when a training is taken up from a snapshot: machine, code, plan, and fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..fields.configured import Configured
from ..fields.tables import plain, table_of
from ..fields.types import Paths, Place, change_paths
from .environment import environment_of, flat_environment
from .provenance import part_differences, parts_of

if TYPE_CHECKING:
    from ..training.training import Training


FREE = ("callbacks", "max_iter", "check_finite")
"""Fields of a solver that change no number of an iteration."""


def bit_differences(training: Training, state: Mapping[str, Any]) -> list[str]:
    """Say what was different when a snapshot was made, of all that decides the bits but is not chosen."""
    net = training.net
    chosen = {"backend": net.backend.name, "seed": net.seed, "dtype": net.dtype, "compute": net.compute_dtype}
    now = {**flat_environment(environment_of(net)), **chosen}
    then = {**flat_environment(state.get("environment", {})), **{key: state[key] for key in chosen if key in state}}
    different = [f"{key} was {then[key]}, is {now[key]}" for key in now if key in then and then[key] != now[key]]
    different += part_differences(state.get("parts", {}), parts_of(training))
    if _decided(plan := state.get("plan", net.plan)) != _decided(net.plan):
        if _decided(plan) == _decided(net.given_plan):
            different.append("the backend could not follow the plan of the snapshot, and made another")
        else:
            different.append("the plan is another: the net was not made with plan=snapshot.state['plan']")
    return list(dict.fromkeys(different))


def _decided(plan: Mapping[str, Any]) -> str:
    """Give what a plan decides; of many a run of steps it has nothing to say."""
    return _text({run: decisions for run, decisions in plan.items() if decisions})


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def field_differences(training: Training, state: Mapping[str, Any]) -> Iterator[str]:
    """Say which layers there were not the same, and which fields of them and of the solver."""
    net = training.net
    saved = {table["name"]: table for table in state.get("layers", ()) if net.phase not in table.get("exclude", ())}
    layers = {layer.name: layer for layer in net.layers if net.phase not in layer.exclude}
    for name, layer in layers.items():
        if name in saved:
            yield from _of_thing(f" of layer '{name}'", saved[name], layer)
        elif saved:
            yield f"layer '{name}' was not there"
    yield from (f"layer '{name}' is no longer there" for name in saved if name not in layers)
    if (then := state.get("freeze", (now := sorted(net.frozen)))) != now:
        yield f"trained with freeze={_short(then)}, now {_short(now)}"
    if "settings" in state:
        yield from _of_thing("", state["settings"], training.solver)


def _of_thing(where: str, then: Mapping[str, Any], thing: Configured) -> Iterator[str]:
    kind = table_of(thing)["type"]
    if then["type"] != kind:
        yield f"{where.removeprefix(' of ')} was of type {then['type']}, is of type {kind}"
        return
    for field in type(thing).fields():
        if field.name in FREE or field.name == "exclude":
            continue
        value = getattr(thing, field.name)
        if isinstance(value, Place):  # what is trained does not depend on where it is written
            continue
        was = then[field.name] if field.name in then else _default(field, value)
        # a folder that was moved holds the same files
        shorten = _file_names if field.takes(Paths) else _without_addresses
        if shorten(was) != shorten(plain(value)):
            yield f"trained with {field.name}={_short(was)}{where}, now {_short(plain(value))}"


def _default(field: Any, value: Any) -> Any:
    return plain(value) if field.required else plain(field.convert(field.default))


def _file_names(paths: Any) -> Any:
    return change_paths(paths, lambda path: Path(path).name)


def _without_addresses(value: Any) -> str:
    """Give a value's text without the addresses of objects, which no two processes share."""
    return re.sub(r" at 0x[0-9a-f]+", "", _text(value))


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
