"""How a package's interface is written down: the parameters of its functions, as JSON that people can compare."""

from __future__ import annotations

import inspect
import json
import re


def parameters(function) -> list[str] | None:
    """Return the names of a function's parameters, with = if it has a default, and what stands for several with *."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    names, bare = [], True
    for one in found:
        if one.kind == one.KEYWORD_ONLY and bare:
            names.append("*")
            bare = False
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        bare = bare and stars != "*"
        names.append(f"{stars}{one.name}" + "=" * (not stars and one.default is not one.empty))
    return names


def signature(thing) -> list[str] | None:
    """Return the parameters of a function, or of a class that makes something, as Cython has written them down.

    A type stands before a name, as in "bytes commId" or "size_t size"; they are the first line of what `help` shows.
    """
    line = (inspect.getdoc(thing) or "").partition("\n")[0]
    name = getattr(thing, "__name__", "")
    if (found := re.fullmatch(rf"(?:\w+\.)*{name}\((.*)\)(?: -> .*)?", line)) is None or not name:
        return parameters(thing)
    parts = re.findall(r"(?:[^,(\[{]|\([^)]*\)|\[[^]]*\]|\{[^}]*\})+", found[1])
    given = (one.strip().partition("=") for one in parts)
    return [f"{name}{sign}" for name, sign, _ in given if name and name.split()[-1] != "self"]


def text(found: dict) -> str:
    """Return JSON with a line for each function, so that a new version of CuPy shows what has changed."""
    parts = []
    for key, value in sorted(found.items()):
        if isinstance(value, dict):
            entries = (f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in sorted(value.items()))
            value = "{\n" + ",\n".join(entries) + "\n }"
        else:
            value = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {value}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
