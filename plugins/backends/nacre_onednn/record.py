"""A run of a net as a list of operations: recorded once, then replayed."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nacre import Array, HostMemory, NacreError, Scalars, Storage

from .dnnl.library import library
from .dnnl.primitives import Call
from .helper.native import CONSTANTS, PRIMITIVE, Operation, helper, machine, operation

ALIGNMENT = CONSTANTS["ALIGNMENT"]
SHARED = CONSTANTS["SHARED"]
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
MOST_SCALARS = 64


class Record:
    """The operations of one run, and the objects that must live as long as they do."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.names: list[str] = []
        self.refusals: dict[int, Callable[[], None]] = {}
        self.scalars: dict[int, tuple[Scalars, Array]] = {}
        self.packings: list[Packing] = []
        self.written: list[Narrow] = []
        self.alive: list[Any] = []

    def add_call(self, call: Call, addresses: Mapping[str, int], alive: Sequence[Any]) -> None:
        """Add a call on buffers at these addresses."""
        made, more = call.bound(addresses)
        self.operations.append(made)
        self.names.append(call.info)
        self.alive += [more, *alive]

    def add(
        self,
        kind: str,
        arrays: Mapping[str, Array],
        numbers: Mapping[str, float],
        refusal: Callable[[], None] | None = None,
    ) -> None:
        """Add an operation of the helper on operands by name; `refusal` raises where the operation fails."""
        made = operation(kind, {**{name: array.ctypes.data for name, array in arrays.items()}, **numbers})
        if refusal is not None:
            self.refusals[len(self.operations)] = refusal
        self.operations.append(made)
        self.names.append(f"helper: {kind}")
        self.alive += arrays.values()

    def add_shared(self, function: Any, arguments: ctypes.Structure, size: int, unit: int, keep: Any) -> None:
        """Add a function of another package, which works on pieces: see `OnednnBackend.share`."""
        addresses = {"function": ctypes.cast(function, ctypes.c_void_p).value, "arguments": ctypes.addressof(arguments)}
        self.operations.append(operation("shared", {**addresses, "size": size, "unit": unit}))
        self.names.append(f"shared: {getattr(function, '__name__', function)}")
        self.alive += [function, arguments, keep]

    def read(self, scalars: Scalars) -> Array:
        """Return a copy of a net's scalars, which every replay renews."""
        if id(scalars) not in self.scalars:
            self.scalars[id(scalars)] = (scalars, np.zeros(MOST_SCALARS))
        return self.scalars[id(scalars)][1]

    def replay(self, threads: int) -> Callable[[], None]:
        """Return the function that runs all operations, after the packings of parameters that have changed.

        It copies the scalars to where the operations read them.
        """
        run, packed = self._replay(threads), -1
        packings = [(packing, packing.record.replay(threads)) for packing in self.packings]
        scalars = self.scalars.values()

        def pack_and_run() -> None:
            nonlocal packed
            if packed != (now := Storage.changes):
                for packing, pack in packings:
                    if packing.copies.old:
                        pack()
                        packing.copies.remember()
                packed = now
            for given, copy in scalars:
                copy[: len(given.values)] = given.values
            if failed := run():
                self._refuse(failed - 1)
            for narrow in self.written:
                narrow.remember(updated=True)

        return pack_and_run

    def _replay(self, threads: int) -> Callable[[], int]:
        """Return the function that runs all operations: by the helper, or one by one through ctypes.

        It returns which one failed, counted from 1, or 0. The calling thread's parallel regions have as many threads as
        before when it returns.
        """
        native = helper()
        if native is not None:
            functions, operations = machine(threads), (Operation * len(self.operations))(*self.operations)
            arguments = (ctypes.byref(functions), operations, ctypes.c_int64(len(operations)))
            native.nacre_prepare(*arguments)
            return partial(native.nacre_run, *arguments)
        calls = [_call_of(one) for one in self.operations]

        def run_each() -> int:
            with library().on_threads(threads):
                return next((number for number, call in enumerate(calls, 1) if call()), 0)

        return run_each

    def _refuse(self, index: int) -> None:
        if index in self.refusals:
            self.refusals[index]()
        raise NacreError(f"{self.names[index]} failed")


def _call_of(one: Operation) -> Callable[[], Any]:
    """Return the function that runs an operation without the helper; it returns what is false where all went well."""
    assert one.kind in (PRIMITIVE, SHARED), "the helper's operations need the helper"
    if one.kind == SHARED:
        shared = one.operands.shared
        return partial(FUNCTION(shared.function), shared.arguments, 0, shared.size, 0)
    here, primitive = library(), one.operands.primitive
    return partial(here.execute, primitive.primitive, here.stream, primitive.count, primitive.arguments)


class Copies:
    """Copies of parameters, and the versions of the parameters that were copied."""

    def __init__(self, storages: Sequence[Storage]) -> None:
        self.storages = storages
        self.versions: list[int] = []

    @property
    def old(self) -> bool:
        """Whether a parameter has changed since it was copied."""
        return self.versions != [storage.version for storage in self.storages]

    def remember(self, *, updated: bool = False) -> None:
        """Note that the copies are up to date; `updated`: with the version that an update makes, which wrote them."""
        self.versions = [storage.version + updated for storage in self.storages]


class Narrow(Copies):
    """A copy of a parameter in bf16, which all kernels share."""

    def __init__(self, storage: Storage) -> None:
        super().__init__([storage])
        self.array = aligned(_padded(2 * storage.size))


class Packing:
    """Operations that make copies of parameters."""

    def __init__(self, copies: Copies) -> None:
        self.record = Record()
        self.copies = copies


def recorder(view: Any) -> Any:
    """Return the backend of a net's view, which records the calls of kernels."""
    return view.backend


class Scratch:
    """Scratch memory that all kernels of the process share: one pass of one kernel runs at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a net may be set up while another one runs
        self._size = 0
        self._memory: Array = None

    def reserve(self, sizes: Mapping[str, int]) -> None:
        """Make room for the buffers of a pass; runs that are recorded already keep the memory that they have."""
        with self._lock:
            self._size = max(self._size, sum(map(_padded, sizes.values())))

    def arrays(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Return the buffers of a pass, as arrays of bytes that lie one behind the other."""
        with self._lock:
            self.reserve(sizes)
            if self._memory is None or self._memory.size < self._size:
                self._memory = aligned(self._size)
            memory = self._memory
        found: dict[str, Array] = {}
        start = 0
        for name, size in sizes.items():
            found[name] = memory[start : start + size]
            start += _padded(size)
        return found


def rounded_up(number: int, unit: int) -> int:
    """Return the next multiple of a unit."""
    return -(-number // unit) * unit


def _padded(size: int) -> int:
    return rounded_up(size, ALIGNMENT)


def sizes_of(calls: Iterable[Call], besides: Collection[str] = ()) -> dict[str, int]:
    """Return the bytes of the buffers of calls, except those named in `besides`."""
    sizes: dict[str, int] = {}
    for one in calls:
        for name, size in one.sizes().items():
            if name not in besides:
                sizes[name] = max(size, sizes.get(name, 0))
    return sizes


def aligned(size: int) -> Array:
    """Return new bytes that begin at a multiple of ALIGNMENT, filled with zeros."""
    return HostMemory.shared().empty((size,), "uint8")
