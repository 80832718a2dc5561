"""The parameters of a net by name, as they are read and written from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import BlobError, SnapshotError, nearest
from ..protocols.array import Array
from ..protocols.parameter import fits
from ..snapshots.snapshot import PARAMETERS, below

if TYPE_CHECKING:
    import numpy as np

    from ..engine.parameters import Slot
    from ..snapshots.snapshot import Snapshot
    from .net import Net


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


def load_parameters(net: Net, snapshot: Snapshot, *, strict: bool = True) -> None:
    """Put a snapshot's parameters and buffers into a net, also one of another phase.

    With `strict=False` those that the net lacks are passed over: layers may exclude its phase.

    Raises:
        SnapshotError: names the parameters that are missing, left over (if `strict`), or of another shape.
    """
    for name, value in check_parameters(net, snapshot, strict=strict).items():
        net.parameters[name].value = value


def names_of_parameters(net: Net) -> dict[str, list[str]]:
    """Give every parameter's name, and behind it those that it has in the other layers that share it."""
    return {
        slot.name: [slot.name, *(name for name in names if name != slot.name)]
        for slot in net.slots
        for names in [[f"{net.ops[one.order].name}/{one.name}" for one in slot.parameters if not one.tied]]
    }


def sources_of(net: Net, snapshot: Snapshot, saved: Mapping[str, Any]) -> dict[str, set[str]]:
    """Give for each parameter of a net the names under which the snapshot has it: several if it was not shared then."""
    aliases: dict[str, str] = snapshot.state.get("aliases", {})
    return {
        name: {found for one in names for found in (one, aliases.get(one, one)) if found in saved}
        for name, names in names_of_parameters(net).items()
    }


def check_parameters(net: Net, snapshot: Snapshot, *, strict: bool = True) -> dict[str, np.ndarray[Any, Any]]:
    """Give the value of each parameter of a net, by its name there."""
    saved = below(snapshot, PARAMETERS)
    sources = sources_of(net, snapshot, saved)
    complaints: list[str] = []
    for name, handle in net.parameters.items():
        if not sources[name]:
            complaints.append(f"'{name}' is missing in it")
        elif len(sources[name]) > 1:
            complaints.append(f"'{name}' is shared here, but was not there: {', '.join(sorted(sources[name]))}")
        elif not fits(shape := saved[min(sources[name])].shape, handle.shape):
            complaints.append(f"'{name}' has the shape {shape} there, but {handle.shape} here")
    used = {name for names in sources.values() for name in names}
    complaints += [f"'{name}' is not in the net" for name in saved if strict and name not in used]
    if complaints:
        theirs = snapshot.state.get("net")
        what = f"belongs to another net ('{theirs}') than '{net.name}'" if theirs else "belongs to another net"
        what = f"does not fit net '{net.name}'" if theirs == net.name else what
        raise SnapshotError(
            f"the snapshot {what}: parameter {'; '.join(complaints)}",
            "take the net file that it was trained with",
        )
    return {name: saved[min(names)] for name, names in sources.items()}
