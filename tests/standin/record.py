"""Writes interface.json: what the real CuPy has. It needs no GPU: pip install cupy-cuda13x, python record.py."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from recorded import parameters, text

sys.path[:] = [
    one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent
]  # else it is the stand-in
import cupy  # noqa: E402

CLASSES = ("cuda.Device", "cuda.Event", "cuda.Graph", "cuda.MemoryPointer", "cuda.MemoryPool", "cuda.Stream")
MODULES = ("cuda", "cuda.memory", "cuda.runtime")


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


if __name__ == "__main__":
    Path(__file__).with_name("interface.json").write_text(text(interface()), encoding="utf-8")
