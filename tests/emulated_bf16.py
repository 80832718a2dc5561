"""oneDNN's products and copies in bf16, computed by NumPy: for processors on which oneDNN has none."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nacre import open_backend
from nacre_onednn import record
from nacre_onednn.dnnl import arguments as arg
from nacre_onednn.dnnl import library as dnnl
from nacre_onednn.dnnl import primitives
from nacre_onednn.dnnl.library import Argument, library
from nacre_onednn.dnnl.primitives import Desc, plain
from nacre_onednn.helper.native import machine
from nacre_onednn.kernels import products

TYPE, STRIDES = 258, 14
"""Numbers of queries of a descriptor."""

made: list[Emulated] = []


class Emulated:
    """A primitive that NumPy computes."""

    info = "emulated"

    def __init__(self, function: str, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments
        made.append(self)
        self.made = ctypes.c_void_p(len(made))

    @property
    def desc(self) -> Any:
        """What a gradient's primitive takes as a hint."""
        return self

    def memory(self, what: int) -> Any:
        """Describe the weights, which oneDNN may lay out as it likes, as plain; there is no scratch memory."""
        if what == dnnl.SCRATCHPAD:
            return SimpleNamespace(bytes=0)
        weights = self.arguments[3 if self.function.endswith("forward") else 2]
        return plain(*weights.shape, dtype="bf16" if query(weights, TYPE) == dnnl.BFLOAT16 else "float32")


def query(desc: Any, what: int) -> int:
    """Return a number that describes a memory."""
    found = ctypes.c_int()
    handle = desc.handle if isinstance(desc, Desc) else desc
    library().call("memory_desc_query", handle, what, ctypes.byref(found))
    return found.value


def array_of(memory: int) -> Any:
    """Return the array that a memory of oneDNN is, with its strides."""
    desc, address = ctypes.c_void_p(), ctypes.c_void_p()
    library().call("memory_get_memory_desc", ctypes.c_void_p(memory), ctypes.byref(desc))
    library().call("memory_get_data_handle", ctypes.c_void_p(memory), ctypes.byref(address))
    axes = query(desc, dnnl.AXES)
    shape, strides = (ctypes.POINTER(ctypes.c_int64)() for _ in range(2))
    library().call("memory_desc_query", desc, dnnl.LENGTHS, ctypes.byref(shape))
    library().call("memory_desc_query", desc, STRIDES, ctypes.byref(strides))
    dtype = np.dtype(np.uint16 if query(desc, TYPE) == dnnl.BFLOAT16 else np.float32)
    lengths, apart = shape[:axes], strides[:axes]
    size = 1 + sum((length - 1) * step for length, step in zip(lengths, apart, strict=True))
    numbers: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(address.value or 0)
    flat = np.frombuffer(numbers, dtype)
    return np.lib.stride_tricks.as_strided(flat, lengths, [step * dtype.itemsize for step in apart])


def narrowed(values: Any) -> Any:
    """Return the bits of bf16, rounded to the nearest."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(bits: Any) -> Any:
    """Return numbers of float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def compute(one: Emulated, arrays: dict[int, Any]) -> None:
    """Compute what a primitive does."""
    wide = {place: widened(array) if array.dtype == np.uint16 else array for place, array in arrays.items()}
    bias = wide.get(arg.BIAS, 0)
    target, result = {
        "reorder": lambda: (arg.DST, wide[arg.SRC]),
        "matmul": lambda: (arg.DST, wide[arg.SRC] @ wide[arg.WEIGHT] + bias),
        "inner_product_forward": lambda: (arg.DST, wide[arg.SRC] @ wide[arg.WEIGHT].T + bias),
        "inner_product_backward_weights": lambda: (arg.DIFF_WEIGHT, wide[arg.DIFF_DST].T @ wide[arg.SRC]),
        "inner_product_backward_data": lambda: (arg.DIFF_SRC, wide[arg.DIFF_DST] @ wide[arg.WEIGHT]),
    }[one.function]()
    arrays[target][...] = narrowed(result) if arrays[target].dtype == np.uint16 else result


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def execute(primitive: int, stream: int, count: int, arguments: int) -> int:
    """Do what `dnnl_primitive_execute` does."""
    given = (Argument * count).from_address(arguments)
    compute(made[primitive - 1], {each.number: array_of(each.memory) for each in given})
    return 0


def emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the onednn backend compute in bf16."""

    def ours(threads: int) -> Any:
        found = machine(threads)
        found.execute = ctypes.cast(execute, ctypes.c_void_p).value
        return found

    backend = open_backend("onednn")
    monkeypatch.setattr(backend, "computes", ("bf16",))
    monkeypatch.setattr(backend, "lacks", {})
    for module in (primitives, products):
        monkeypatch.setattr(module, "Primitive", Emulated)
    monkeypatch.setattr(record, "machine", ours)
