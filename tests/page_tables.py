"""The tables of a page of docs/, and whether what they call nacre's is there."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import nacre
from nacre.cli import app
from nacre.config import netfile as config
from nacre.protocols.layer import PHASES

OBJECTS = {"net": nacre.Net, "layer": nacre.Layer, "solver": nacre.Solver, "training": nacre.Training}
PLAIN = {"backend", "kernel", "command", "snapshot_store", "communicator", "default_of"}  # they have no fields
KINDS = sorted(set(nacre.registry().kinds()) - PLAIN)


def rows(page: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (section, head, cells) of every row of a page's tables."""
    section, head = "", list[str]()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("|"):
            head = []
        elif not head:
            head = _cells(line)
        elif not line.startswith("|---"):
            yield section, head, _cells(line)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def code(cell: str) -> list[str]:
    """Return what a cell has between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def own_classes() -> list[Any]:
    """Return nacre's layers, components and solver."""
    offers = [offer for kind in KINDS for offer in nacre.registry().offers(kind) if offer.distribution == "nacre"]
    return [nacre.Solver, *(nacre.registry().open_offer(offer) for offer in offers)]


def fields_of(names: list[str]) -> list[Any]:
    """Return the fields of the layers and components of these names."""
    here = nacre.registry()
    found = [here.open(kind, name) for kind in KINDS for name in names if here.offers(kind, name)]
    return [field for cls in found for field in cls.fields()]


def offered(name: str) -> bool:
    """Return whether there is a layer or a component of this name."""
    return any(nacre.registry().offers(kind, name) for kind in nacre.registry().kinds())


def accepts(field: Any, value: Any) -> bool:
    """Return whether a field takes what a net file says."""
    try:
        read = field.convert(value)
    except (ValueError, TypeError, nacre.NacreError):
        return False
    return not any(check.complain(read, None) for check in field.checks)


def takes(fields: list[Any], text: str) -> bool:
    """Return whether a text is one of these fields, or `field = value` with a value that one of them takes."""
    name, equals, _ = text.partition(" = ")
    known = [field for field in fields if field.name == name]
    return bool(known) and (not equals or any(accepts(field, tomllib.loads(text)[name]) for field in known))


def is_ours(text: str) -> bool:
    """Return whether the name that a page uses exists: as a command, code, a component, a field or its value."""
    words = text.split()
    if words[0] == "nacre":
        return {word for word in words if word.startswith("--")} <= _options(words[1])
    if text.startswith("--"):
        return any(text in _options(name) for name in app.COMMANDS)
    if text.startswith("{"):  # a component: {type = "Uniform", low = 0}
        table = tomllib.loads(f"it = {text}")["it"]
        fields = fields_of([table.pop("type")])
        return all(any(field.name == name and accepts(field, one) for field in fields) for name, one in table.items())
    if found := re.match(r"(nacre\w*(?:\.[a-z]\w*)*)\.(\w+)", text):
        return hasattr(import_module(found[1]), found[2])
    if found := re.match(r"(\w+)\.(\w+)", text):
        cls = OBJECTS.get(found[1])
        return bool(cls) and (hasattr(cls, found[2]) or f"self.{found[2]}" in inspect.getsource(cls))
    if found := re.match(r"(\w+)=", text):
        takers = (nacre.Net, nacre.Net.load, nacre.Net.fit)
        return any(found[1] in inspect.signature(taker).parameters for taker in takers)
    if text.partition(" = ")[0] in config._TOP or text in (*PHASES, "type", "[[layer]]", "[solver]", "[[callback]]"):
        return True
    name = text.partition("(")[0]
    return (
        offered(name) or hasattr(nacre, name) or takes([field for cls in own_classes() for field in cls.fields()], text)
    )


def _options(command: str) -> set[str]:
    found = app.Nacre().get_command(click.Context(click.Group()), command)
    return {name for param in found.params for name in param.opts} if found else set()
