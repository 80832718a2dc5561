"""The parameters of a net by name, as they are read and written from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import BlobError, nearest
from ..protocols.array import Array

if TYPE_CHECKING:
    import numpy as np

    from ..engine.parameters import Slot


class Parameters(Mapping[str, "ParameterHandle"]):
    """The parameters of a net by name, in its order; one that several layers share is found by the name in each.

    `names` gives the first sharer's name for every name.
    """

    def __init__(self, handles: Iterable[ParameterHandle], names: Mapping[str, str]) -> None:
        self._handles = {handle.name: handle for handle in handles}
        self.names = dict(names)

    def __getitem__(self, name: str) -> ParameterHandle:
        found = self._handles.get(self.names.get(name, name))
        if found is None:
            raise KeyError(f"the net has no parameter {name!r}{nearest(str(name), {*self.names, *self._handles})}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)


class ParameterHandle:
    """A parameter of a net as seen from outside: `value` and `gradient` are NumPy arrays, written by assignment."""

    def __init__(self, slot: Slot, read: Callable[[Array], np.ndarray], write: Any) -> None:
        self.name = slot.name
        self.parameter = slot.parameters[0]
        self.storage = slot.storage
        self._slot = slot
        self._read = read
        self._write = write

    @property
    def shape(self) -> tuple[int, ...]:
        return self.storage.shape

    @property
    def value(self) -> np.ndarray:
        """A read-only copy of the value."""
        return self._read(self._array())

    @value.setter
    def value(self, value: Any) -> None:
        self._write(value, self._array(), f"parameter '{self.name}'")
        self.storage.version += 1

    def _array(self) -> Array:
        if self.storage.array is None:
            raise BlobError(f"parameter '{self.name}' has no memory: its net was made with allocate=False")
        return self.storage.array

    @property
    def gradient(self) -> np.ndarray | None:
        """A read-only copy of the gradient, summed over all that share the parameter; None where there is none."""
        gradient = None if self._slot.frozen else self._slot.gradient
        return None if gradient is None else self._read(gradient)

    def __repr__(self) -> str:
        kind = "parameter" if self.parameter.trainable else "buffer"
        return f"<{kind} {self.name} {' x '.join(map(str, self.shape))}>"
