"""What the public modules export, as lines of text; `python tests/interface.py` writes them to released/interface.txt.

A function has its parameters, a class its bases, the parameters of its `__init__`, and its other members: methods with
their parameters, properties, attributes. `=` marks a parameter that may be left out.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from nacre.discovery.offers import API

DOORS = ("nacre", "nacre.config", "nacre.cli", "nacre.files", "nacre.testing", "nacre.hooks", "nacre.random")
MARKERS = ("hookimpl", "hookspec")  # pluggy's, in nacre.hooks
KEPT = Path(__file__).with_name("released") / "interface.txt"
HEAD = "nacre_api "
MARKS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def interface() -> list[str]:
    """Return a line for everything that is public."""
    doors = [importlib.import_module(name) for name in DOORS]
    exported = {name: value for door in doors for name, value in exports(door)}
    named = {id(value): name for name, value in reversed(exported.items())}
    return sorted(line for name, value in exported.items() for line in lines(name, value, named))


def exports(door: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module exports, by its whole name."""
    names = getattr(door, "__all__", None) or [
        name
        for name, value in vars(door).items()
        if not name.startswith("_") and (getattr(value, "__module__", "").startswith(door.__name__) or name in MARKERS)
    ]
    for name in names:
        yield f"{door.__name__}.{name}", getattr(door, name)


def lines(name: str, value: Any, named: dict[int, str]) -> Iterator[str]:
    """Yield the lines of one thing; a class has those of its members, and of its bases that are not exported."""
    if named.get(id(value), name) != name:
        yield f"{name} is {named[id(value)]}"
    elif inspect.isclass(value) and _is_ours(value):
        bases = [named[id(base)] for base in value.__mro__[1:] if id(base) in named]
        yield f"{name}{parameters(value)} of {', '.join(bases) or 'object'}"
        hidden = [base for base in value.__mro__ if base is value or id(base) not in named]
        members: dict[str, object] = {}
        for base in reversed([*filter(_is_ours, hidden)]):
            members |= dict.fromkeys(inspect.get_annotations(base))
            members |= vars(base)
        for member, what in members.items():
            if not member.startswith("_") or member == "__init_subclass__":
                yield f"{name}.{member}{member_text(member, what)}"
    else:
        yield f"{name}{parameters(value) if _is_ours(value) and inspect.isroutine(value) else ''}"


def _is_ours(value: Any) -> bool:
    return getattr(value, "__module__", "").partition(".")[0] == "nacre"


def member_text(name: str, what: object) -> str:
    """Return the parameters of a method; a check of the kit has fixtures instead, which are its own business."""
    function = what.__func__ if isinstance(what, classmethod | staticmethod) else what
    return parameters(function) if inspect.isroutine(function) and not name.startswith("test_") else ""


def parameters(function: Any) -> str:
    """Return the parameters of a function or a class, or "" if it does not tell them."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    texts: list[str] = []
    for one in found:
        if one.annotation == "Never":  # nobody can give it: it is there to be refused
            continue
        if one.kind is one.KEYWORD_ONLY and "*" not in "".join(text[:1] for text in texts):
            texts.append("*")
        texts.append(f"{MARKS.get(one.kind, '')}{one.name}{'' if one.default is one.empty else '='}")
    return f"({', '.join(texts)})"


def read_kept() -> tuple[str, list[str]]:
    """Return the interface's version and lines in the file."""
    head, *found = KEPT.read_text(encoding="utf-8").splitlines()
    return head.removeprefix(HEAD), found


def wrong_changes(kept: tuple[str, list[str]], now: list[str]) -> list[str]:
    """Return the lines of the file that are gone or changed, although the interface's version has not gone up."""
    version, before = kept
    return [] if version != API else sorted(set(before) - set(now))


def main() -> None:
    now = interface()
    if KEPT.exists() and (gone := wrong_changes(read_kept(), now)):
        raise SystemExit("\n".join(["gone or changed, so nacre_api has to go up, or they have to come back:", *gone]))
    KEPT.write_text("\n".join([HEAD + API, *now, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
