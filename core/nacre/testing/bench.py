"""Bench: arrays of a backend and a state's view of it, to try components without a net; and spoilt memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..protocols.array import Array
from ..protocols.backend import Backend, HostMemory, Own, Step, open_backend
from ..protocols.view import Scalars, View, scratches


class Bench:
    """Arrays of a backend in a type, and a `view` of it in phase `train`, as a net gives it to states."""

    def __init__(self, backend: str | Backend, dtype: str) -> None:
        self.backend = open_backend(backend)
        self.dtype = dtype
        self.view = View(self.backend, phase="train", dtype=dtype, seed=0, scalars=Scalars())

    def put(self, host: np.ndarray) -> Array:
        """Return an array of the backend with these numbers, in the bench's type."""
        array = self.backend.empty(host.shape, self.dtype)
        self.backend.from_host(np.ascontiguousarray(host, self.dtype), array)
        return array

    def get(self, array: Array) -> np.ndarray:
        """Return the numbers of an array."""
        return np.array(self.backend.to_host(array))

    def spoiled(self, shape: Sequence[int]) -> Array:
        """Return an array of NaN, for what has to be written."""
        return self.put(spoiled(shape, self.dtype))

    def spoil_scratch(self) -> None:
        """Overwrite all scratch memory, whose content is for one call only."""
        spoil(self.backend, scratches(self.view))

    def run(self, call: Callable[[], object], worker: Any) -> None:
        """Call a kernel's method as a step of the backend, which may record it first."""

        def silent() -> None:
            call()

        step = Step("test", "tested", silent, self.backend, worker)
        self.backend.wrap(self.backend.compile([step]))()


def spoiled(shape: Sequence[int], dtype: str, number: float = np.nan) -> np.ndarray:
    """Return what memory may hold before it is written: NaN or another number, or for whole numbers 77."""
    return np.full(tuple(shape), number if dtype.startswith("float") else 77, dtype)


def spoil(backend: Backend, arrays: Iterable[Any], number: float = np.nan) -> None:
    """Fill arrays of a backend, plain or its own, with what `spoiled` gives; None is left out."""
    for array in arrays:
        if isinstance(array, Own) and not _is_plain(array):
            plain = backend.empty(array.shape, _dtype_of(array))
            spoil(backend, [plain], number)
            pack = Step("copy", "tested", partial(backend.pack, plain, array), backend, None, "pack")
            backend.compile([pack])()  # a backend may record the step and run it later
        elif isinstance(array, Own):
            spoil(backend, [array.memory], number)
        elif array is not None:
            host = spoiled(array.shape, str(array.dtype), number)
            owner: Backend = HostMemory.shared() if isinstance(array, np.ndarray) else backend
            owner.from_host(host, array)


def _is_plain(blob: Own) -> bool:
    """Return whether a blob's memory is a plain array of its numbers, not of bits that no array's type has."""
    return blob.layout == "plain" and str(blob.memory.dtype) == blob.dtype


def _dtype_of(blob: Own) -> str:
    """Return the type in which a blob's numbers come out of it: float32 of those that no array's type has."""
    try:
        return str(np.dtype(blob.dtype))
    except TypeError:
        return "float32"


def plain_copy(backend: Backend, array: Any) -> np.ndarray:
    """Return what an array of a backend holds, plain or its own, as an array of its shape."""
    if not isinstance(array, Own):
        return np.array(backend.to_host(array))
    if _is_plain(array):
        return plain_copy(backend, array.memory)
    plain = backend.empty(array.shape, _dtype_of(array))
    backend.compile([Step("copy", "tested", partial(backend.unpack, array, plain), backend, None, "unpack")])()
    return plain_copy(backend, plain)
