"""How a package's interface is written down: the parameters of its functions, as JSON that people can compare."""

from __future__ import annotations

import inspect
import json


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
