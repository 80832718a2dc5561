"""A run of a net as a list of operations: recorded once, replayed for ever after."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nacre import Array, NacreError
from nacre.backend import Scalars

from .library import Argument, library
from .primitives import Call, Memory

PRIMITIVE = 0
MOST_SCALARS = 64


class Operation(ctypes.Structure):
    """What the helper is told of one operation; see helper.c."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("pointers", ctypes.c_void_p * 8),
        ("numbers", ctypes.c_int64 * 8),
        ("values", ctypes.c_double * 4),
    )


class Record:
    """The operations of one run, and all that must live as long as they do."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.names: list[str] = []
        self.refusals: dict[int, Callable[[], None]] = {}
        self.scalars: dict[int, tuple[Scalars, Any]] = {}
        self.alive: list[Any] = []

    def add_call(self, call: Call, addresses: Mapping[str, int], alive: Sequence[Any]) -> None:
        """Add a call of a primitive on buffers at these addresses."""
        arguments = (Argument * len(call.buffers))()
        memories = [Memory(desc, addresses[name]) for name, desc in call.buffers.values()]
        for argument, number, memory in zip(arguments, call.buffers, memories, strict=True):
            argument.number, argument.memory = number, memory.handle.value
        operation = Operation(PRIMITIVE)
        operation.pointers[0], operation.pointers[1] = call.primitive.made.value, ctypes.addressof(arguments)
        operation.numbers[0] = len(arguments)
        self.operations.append(operation)
        self.names.append(call.primitive.info)
        self.alive += [call, arguments, memories, *alive]

    def read(self, scalars: Scalars) -> int:
        """Give the address of a copy of a net's scalars, which every replay renews."""
        if id(scalars) not in self.scalars:
            self.scalars[id(scalars)] = (scalars, (ctypes.c_double * MOST_SCALARS)())
        return ctypes.addressof(self.scalars[id(scalars)][1])

    def replay(self) -> Callable[[], None]:
        """Make the call that runs all operations, one by one through ctypes."""
        here = library()
        execute, stream = here.execute, here.stream
        calls = [(one.pointers[0], stream, one.numbers[0], one.pointers[1]) for one in self.operations]

        def run() -> None:
            for number, arguments in enumerate(calls):
                if status := execute(*arguments):
                    raise NacreError(f"oneDNN's {self.names[number]} gave status {status}")

        return run

    def renew(self) -> None:
        """Copy the scalars to where the operations read them."""
        for scalars, copy in self.scalars.values():
            copy[: len(scalars.values)] = scalars.values


class Scratch:
    """Memory that holds anything, shared by name among all kernels of the process: a pass of one net runs at a time."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._arrays: dict[str, Array] = {}

    def reserve(self, sizes: Mapping[str, int]) -> None:
        """Make buffers at least so large; what was recorded before keeps the buffer that it has."""
        for name, size in sizes.items():
            self._sizes[name] = max(size, self._sizes.get(name, 0))

    def array(self, name: str) -> Array:
        """Give a buffer of bytes."""
        array = self._arrays.get(name)
        if array is None or array.size < self._sizes[name]:
            array = self._arrays[name] = aligned(self._sizes[name])
        return array


def aligned(size: int) -> Array:
    """Make bytes that begin at a multiple of 64, filled with zeros."""
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]
