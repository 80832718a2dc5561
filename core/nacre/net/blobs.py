"""The blobs of a net, read and written from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.memory import Memory
from ..engine.ops import HOST, Op, Value, plain_space
from ..errors import BlobError, DataError, brief, nearest
from ..fields.whole import copy_numbers, misfit, number_text, too_large
from ..protocols.array import Array
from ..protocols.backend import Backend, HostMemory
from ..protocols.parameter import fits
from .input import InputLayer

if TYPE_CHECKING:
    import numpy as np


class Blobs:
    """The blobs of a net as NumPy arrays; the methods are described in `Net`, where they have the same names.

    `written` has the names of all blobs that were ever written by hand; `fresh` is whether one was since the last pass.
    `pending` has those of sources that will write over them when they run, each with the number of its real rows.
    """

    def __init__(self, net: str, memory: Memory, *, trains: bool) -> None:
        self.net = net
        self.memory = memory
        self.trains = trains
        self._firsts = {value.name: (op, value) for op in reversed(memory.ops) for value in reversed(op.outputs)}
        self.written: set[str] = set()
        self.fresh = False
        self.pending: dict[str, tuple[np.ndarray, int]] = {}

    def blob(self, name: str) -> np.ndarray:
        if name not in self.memory.readable:
            self._known(name)
            raise BlobError(
                f"blob '{name}' is not kept after a step: its memory may now hold something else",
                f"make the net with keep=('{name}',), or keep='all'",
            )
        return read_array(self.memory.main, self.memory.readable[name])

    def gradient(self, name: str) -> np.ndarray:
        op, first = self._first(name)
        value = first if op.is_source else self.memory.final[name]
        if value.gradient is None:
            hint = f"make the net with input_gradients=('{name}',)" if self.trains else ""
            raise BlobError(f"the gradient of blob '{name}' is not needed in this net, so it is not computed", hint)
        if not value.gradient.pinned:
            raise BlobError(
                f"the gradient of blob '{name}' is not kept after a step: its memory may now hold something else",
                f"make the net with keep=('{name}',), or keep='all'",
            )
        main = self.memory.main
        return read_array(main, self.memory.array(value.gradient, plain_space(main)))

    def write(self, name: str, array: Any) -> None:
        import numpy as np

        op, value = self._first(name)
        if not op.is_source:
            raise BlobError(f"blob '{name}' is computed by layer '{op.name}'; only blobs of sources can be written")
        given = array_of_numbers(f"blob '{name}'", array)
        rows = given.shape[0] if given.ndim else 0
        if given.shape[1:] != value.shape[1:] or not 0 < rows <= value.shape[0]:
            raise DataError(f"blob '{name}' has the shape {value.shape}, but the new array has {given.shape}")
        dtype = np.dtype(value.dtype)
        if (index := misfit(given, dtype)) is not None:
            message = f"blob '{name}' needs whole numbers ({value.dtype}), but the new array has"
            raise DataError(f"{message} {number_text(given.reshape(-1)[index])} in row {index // (given.size // rows)}")
        stays = isinstance(op.layer, InputLayer)
        if stays and given.shape == value.shape and given.dtype == dtype:
            full = np.ascontiguousarray(given)
        else:
            full = np.empty(value.shape, dtype)
            if (index := copy_numbers(given, full[:rows])) is not None:
                raise too_large(f"blob '{name}': row {index // (given.size // rows)} of the new array", dtype)
            full[rows:] = given[-1]
        if stays:
            op.state.rows = rows  # pyright: ignore[reportAttributeAccessIssue] (an InputLayer has a SourceState)
        else:
            self.pending[name] = (full, rows)
        self.fresh = True
        self.written.add(name)
        self._put(name, full)

    def is_fed(self, name: str) -> bool:
        """Return whether a source writes a blob."""
        return self._first(name)[0].is_source

    def put_pending(self) -> int:
        """Replace blobs of the sources by the pending ones; return the rows of the shortest, or 0 if all are full."""
        for name, (array, _) in self.pending.items():
            self._put(name, array)
        short = [rows for array, rows in self.pending.values() if rows < len(array)]
        self.pending.clear()
        return min(short, default=0)

    def _put(self, name: str, full: np.ndarray) -> None:
        """Write a blob where its source writes it."""
        value = self._first(name)[1]
        owner = HostMemory.shared() if value.space == HOST else self.memory.main
        owner.from_host(full, self.memory.array(value, value.space))

    def _first(self, name: str) -> tuple[Op, Value]:
        """Return a blob's first version and its writer; in-place layers and neurons make later versions."""
        self._known(name)
        return self._firsts[name]

    def _known(self, name: str) -> Value:
        final = self.memory.final
        if name in self.memory.within:
            raise BlobError(
                f"blob '{name}' is not written: one kernel computes it together with the layer that reads it",
                f"make the net with keep=('{name}',), or keep='all'",
            )
        if name not in final:
            raise BlobError(f"net '{self.net}' has no blob '{name}'{nearest(name, final)}")
        return final[name]


def array_of_numbers(what: str, given: Any) -> np.ndarray:
    """Return what is given for a blob as an array.

    Raises:
        DataError: it is ragged, or holds texts, complex numbers or other things; `what` is in the message.
    """
    import numpy as np

    try:
        array = np.asarray(given)
    except ValueError as error:
        message = f"{what}: this {type(given).__name__} cannot be made an array of numbers: {error}"
        raise DataError(message, "give an array, or lists of one length") from error
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what} needs numbers, but the new array has the type {array.dtype}")
    return array


def read_array(backend: Backend, array: Array) -> np.ndarray:
    """Return a read-only copy of a backend's plain array."""
    host = backend.to_host(array)
    host.setflags(write=False)
    return host


def write_array(backend: Backend, value: Any, array: Array, where: str) -> None:
    """Write numbers into a backend's plain array; `where` names it in errors.

    Raises:
        DataError: the value is not an array of numbers of this shape.
    """
    import numpy as np

    try:
        if (given := np.asarray(value)).dtype.kind == "O" and any(one is None for one in given.reshape(-1).tolist()):
            raise TypeError  # NumPy makes NaN of it
        host = np.asarray(value, dtype=str(array.dtype))
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(f"{where} needs numbers of shape {tuple(array.shape)}, not {brief(value):.60}") from error
    if not fits(host.shape, tuple(array.shape)):
        raise DataError(f"{where} has the shape {tuple(array.shape)}, but the new array has {host.shape}")
    backend.from_host(np.ascontiguousarray(host.reshape(array.shape)), array)
