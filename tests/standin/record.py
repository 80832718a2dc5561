"""Writes interface.json: what the real CuPy has. It needs no GPU, but CuPy with NCCL.

pip install cupy-cuda13x nvidia-nccl-cu13, python record.py.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
from recorded import parameters, signature, text

sys.path[:] = [
    one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent
]  # else it is the stand-in


class WithoutBfloat16:
    """Hides ml_dtypes: with it CuPy has loops of bfloat16, which nacre does not use."""

    def find_spec(self, name, path=None, target=None):
        if name == "ml_dtypes":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, WithoutBfloat16())
import cupy  # noqa: E402

import_module("cupy.cuda.nccl")

CLASSES = (
    *("cuda.Device", "cuda.Event", "cuda.Graph", "cuda.MemoryPointer", "cuda.MemoryPool", "cuda.Stream"),
    *("cuda.nccl.NcclCommunicator", "RawKernel", "RawModule"),
)
MODULES = ("cuda", "cuda.memory", "cuda.nccl", "cuda.runtime")


def thing(path: str):
    found = cupy
    for name in path.split("."):
        found = getattr(found, name)
    return found


def public(holder) -> list[str]:
    return sorted(name for name in dir(holder) if not name.startswith("_"))


def signatures() -> dict[str, list[str]]:
    """Return the parameters of functions and methods that are compiled, with their types, and of those classes."""
    found = {}
    for module in MODULES:
        for name in public(thing(module)):
            value = getattr(thing(module), name)
            if not isinstance(value, type) and callable(value) and (known := signature(value)) is not None:
                found[f"{module}.{name}"] = known
    for path in CLASSES:
        if (known := signature(thing(path))) is not None:
            found[path] = known
        for name in public(thing(path)):
            if (known := signature(getattr(thing(path), name))) is not None:
                found[f"{path}.{name}"] = known
    return found


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
        "signatures": signatures(),
    }


if __name__ == "__main__":
    Path(__file__).with_name("interface.json").write_text(text(interface()), encoding="utf-8")
