"""Writes interface.json: what the real CuPy has. It needs no GPU: pip install cupy-cuda13x, python record.py."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

import numpy as np

sys.path[:] = [
    one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent
]  # else it is the stand-in
import cupy  # noqa: E402

CLASSES = ("cuda.Device", "cuda.Event", "cuda.Graph", "cuda.MemoryPointer", "cuda.MemoryPool", "cuda.Stream")
MODULES = ("cuda", "cuda.memory", "cuda.runtime")


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


def thing(path: str):
    found = cupy
    for name in path.split("."):
        found = getattr(found, name)
    return found


def public(holder) -> list[str]:
    return sorted(name for name in dir(holder) if not name.startswith("_"))


def interface() -> dict:
    functions, ufuncs, numpys = {}, {}, []
    for name in public(cupy):
        value = getattr(cupy, name)
        if isinstance(value, cupy.ufunc):
            ufuncs[name] = [value.nin, value.nout, value.types]
        elif value is getattr(np, name, None) or isinstance(value, float | int):
            numpys.append(name)
        elif callable(value) and not isinstance(value, type) and (known := parameters(value)) is not None:
            functions[name] = known
    return {
        "version": cupy.__version__,
        "functions": functions,
        "ufuncs": ufuncs,
        "numpys": numpys,
        "ndarray": public(cupy.ndarray),
        "others": {"": public(cupy), **{name: public(thing(name)) for name in (*MODULES, *CLASSES)}},
    }


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


if __name__ == "__main__":
    Path(__file__).with_name("interface.json").write_text(text(interface()), encoding="utf-8")
