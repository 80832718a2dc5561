"""The parameters of a net by name, for reading and writing from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from ..arguments import how_to_call
from ..engine.parameters import Slot, names_of
from ..errors import BlobError, ConfigError, SnapshotError, TopologyError, brief, nearest
from ..protocols.array import Array
from ..protocols.parameter import fits
from ..protocols.view import Fitted
from ..snapshots.snapshot import PARAMETERS, below
from ..text import align
from .division import whole_arrays
from .fitted import check_alike

if TYPE_CHECKING:
    import numpy as np

    from ..protocols.communicator import Communicator
    from ..snapshots.snapshot import Snapshot


Read = Callable[[Array], "np.ndarray"]
Write = Callable[[Any, Array, str], None]
"""Its arguments: the value, the array to write it into, and the name of this array in errors."""


STATISTICS = ("mean", "deviation", "least", "largest")
"""What is shown of the numbers of a parameter."""


COPY = "keep its values, such as {name: one.value for name, one in net.parameters.items()}, or the net"
"""The remedy for who copies or pickles parameters."""


class NoParameterError(TopologyError, KeyError):
    """A net has no parameter of this name; mappings raise a KeyError."""


class Parameters(Mapping[str, "ParameterHandle"]):
    """The parameters of a net by name, in its order; a shared one is found by its name in each of its layers.

    One that its layer has renamed is found by the former name too.

    `net` is the net's name; `names` maps every name to the one in the first sharer; `read` and `write` copy arrays.
    `elsewhere` has the shapes of parameters that only other ranks of a divided net have, and `between` connects these
    ranks. `iterations` is how many the training that made the values has done; a saved net keeps it.
    """

    def __init__(
        self,
        net: str,
        slots: Iterable[Slot],
        read: Read,
        write: Write,
        elsewhere: Mapping[str, tuple[int, ...]] | None = None,
        between: Communicator | None = None,
    ) -> None:
        slots = sorted(slots, key=lambda slot: slot.order)
        self._handles = {slot.name: ParameterHandle(slot, read, write) for slot in slots}
        self.names = {name: slot.name for name, slot in names_of(slots).items()}
        self.former = {slot.name: slot.former_names() for slot in slots}
        self._renamed = {old: name for name, former in self.former.items() for old in former}
        self.net = net
        self.iterations = 0
        self._elsewhere = dict(elsewhere or {})
        self._between = between
        self.former |= {name: [] for name in self._elsewhere}

    def __getitem__(self, name: str) -> ParameterHandle:
        found = self._handles.get(self.names.get(name) or self._renamed.get(name, name))
        if found is None:
            known = {*self.names, *self._handles}
            raise NoParameterError(
                f"the net has no parameter {name!r}{nearest(str(name), known)}",
                "print(list(net.parameters)) shows all names",
            )
        return found

    if not TYPE_CHECKING:

        def __setitem__(self, name: str, value: object) -> None:
            raise NoParameterError(
                f"parameter {name!r} cannot be replaced", f"write its value: net.parameters[{name!r}].value = ..."
            )

    def __reduce__(self) -> NoReturn:
        raise ConfigError("the parameters of a net cannot be copied or pickled: they are the net's own memory", COPY)

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def __repr__(self) -> str:
        """Return a table: a line for each parameter and buffer."""
        if not self:
            return f"net '{self.net}' has no parameters"
        shown = [[f"{value:.3g}" for value in one.spread()] for one in self.values()]
        width = max(map(len, shown))
        rows = [
            (name, one.shape_text(), f"{one.storage.size:,}", one.note(), *numbers, *[""] * (width - len(numbers)))
            for (name, one), numbers in zip(self.items(), shown, strict=True)
        ]
        head = ("parameter", "shape", "numbers", "", *STATISTICS[:width])
        return "\n".join(align(head, rows, right=(2, *range(4, 4 + width))))

    def sharers(self) -> dict[str, list[str]]:
        """Return for every parameter the list of its names: the first, then those in the other layers that share it."""
        found = {name: [name] for name in (*self._handles, *self._elsewhere)}
        for name, first in self.names.items():
            if name != first:
                found[first].append(name)
        return found

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every parameter; in a divided net, those of the whole, and of what other ranks have."""
        return {**{name: handle.whole_shape for name, handle in self._handles.items()}, **self._elsewhere}

    def whole(self) -> dict[str, np.ndarray]:
        """Return the values of all parameters, those of the whole net if it is divided; then it is collective."""
        values = {name: handle.value for name, handle in self.items()}
        if self._between is None:
            return values
        return whole_arrays(self._between, values, {name: handle.storage.cut for name, handle in self.items()})

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Write values of some parameters, those of the whole net if it is divided; leave out what other ranks have."""
        for name, value in values.items():
            if name not in self._elsewhere:
                self[name].value = value

    @how_to_call("parameters.load(snapshot, strict=...)")
    def load(self, snapshot: Snapshot | str | os.PathLike[str], *, strict: bool = True) -> None:
        """Load parameters and buffers from a snapshot, or from the path of one, even if its net had another phase.

        With `strict=False` those that the net does not have are skipped, because layers may exclude its phase.

        Raises:
            SnapshotError: names the parameters that are missing, unused (if `strict`), or of another shape.
        """
        from ..snapshots.folder import snapshot_of

        snapshot = snapshot_of(snapshot)
        self.write(self.check(snapshot, strict=strict))
        self.iterations = snapshot.iteration

    def names_in(self, snapshot: Snapshot) -> dict[str, set[str]]:
        """Return for each parameter its names in a snapshot: several if it was not shared then."""
        saved, aliases = below(snapshot, PARAMETERS), snapshot.state.get("aliases", {})

        def there(names: Iterable[str]) -> set[str]:
            return {found for one in names for found in (one, aliases.get(one, one)) if found in saved}

        return {name: there(names) or there(self.former[name]) for name, names in self.sharers().items()}

    def check(self, snapshot: Snapshot, *, strict: bool = True) -> dict[str, np.ndarray[Any, Any]]:
        """Return a snapshot's value of each parameter. Raises SnapshotError as `load` does."""
        saved, sources = below(snapshot, PARAMETERS), self.names_in(snapshot)
        complaints: list[str] = []
        for name, handle in self.items():
            if not sources[name]:
                complaints.append(f"'{name}' is missing")
            elif len(sources[name]) > 1:
                several = ", ".join(sorted(sources[name]))
                complaints.append(f"'{name}' is shared in this net, but in the snapshot it is not: {several}")
            elif not fits(shape := saved[min(sources[name])].shape, handle.whole_shape):
                complaints.append(
                    f"'{name}' has the shape {shape} in the snapshot, but {handle.whole_shape} in this net"
                )
        used = {name for names in sources.values() for name in names}
        complaints += [f"'{name}' is not in the net" for name in saved if strict and name not in used]
        if complaints:
            theirs = snapshot.state.get("net")
            what = f"belongs to net '{theirs}', not to '{self.net}'" if theirs else "belongs to another net"
            what = f"does not fit net '{self.net}'" if theirs == self.net else what
            raise SnapshotError(
                f"the snapshot {what}: parameter {'; '.join(complaints)}",
                "use the net file with which the snapshot was trained",
            )
        return {name: saved[min(sources[name])] for name in self}


class ParameterHandle:
    """A parameter of a net, seen from outside: `value`, which can be assigned, and `gradient` are NumPy arrays."""

    def __init__(self, slot: Slot, read: Read, write: Write) -> None:
        self.name = slot.name
        self.parameter = slot.parameters[0]
        self.storage = slot.storage
        self._slot = slot
        self._read = read
        self._write = write

    def __reduce__(self) -> NoReturn:
        message = f"parameter '{self.name}' cannot be copied or pickled: it is the net's own memory"
        raise ConfigError(message, COPY)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.storage.shape

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The shape in the whole net, of which a rank may hold a part."""
        return self.shape if self.storage.cut is None else self.storage.cut.whole

    @property
    def value(self) -> np.ndarray:
        """A read-only copy of the value. Where it is a part of the whole net's, all of that can be assigned, too."""
        return self._read(self._array())

    @value.setter
    def value(self, value: Any) -> None:
        cut = self.storage.cut
        if cut is not None and getattr(value, "shape", None) == cut.whole:
            value = cut.of(value)
        self._write(value, self._array(), f"parameter '{self.name}'")
        self.storage.version += 1

    def _array(self) -> Array:
        if self.storage.array is None:
            raise BlobError(
                f"parameter '{self.name}' has no memory, because its net was made with allocate=False",
                "make the net without it",
            )
        return self.storage.array

    @property
    def gradient(self) -> np.ndarray | None:
        """A read-only copy of the gradient, summed over all layers that share the parameter; None if there is none."""
        gradient = None if self._slot.frozen else self._slot.gradient
        return None if gradient is None else self._read(gradient)

    def shape_text(self) -> str:
        return " x ".join(map(str, self.shape)) or "1 number"

    def note(self) -> str:
        """Return what the solver does not change it for, or ""."""
        return "buffer" if not self.parameter.trainable else "frozen" if self._slot.frozen else ""

    def spread(self) -> tuple[float, ...]:
        """Return the mean, the standard deviation, the least and the largest of its numbers; () without memory."""
        if self.storage.array is None or not self.storage.size:
            return ()
        import numpy as np

        value = self.value.astype("float64")
        with np.errstate(all="ignore"):  # what is not finite is shown as that
            return float(value.mean()), float(value.std()), float(value.min()), float(value.max())

    def __repr__(self) -> str:
        numbers = ", ".join(f"{word} {value:.3g}" for word, value in zip(STATISTICS, self.spread(), strict=False))
        about = ", ".join(filter(None, [f"{self.name} {self.shape_text()} {self.storage.dtype}", self.note(), numbers]))
        return f"<parameter {about}>"


class _HasParameters(Protocol):
    @property
    def parameters(self) -> Parameters: ...
    @property
    def fitted(self) -> Fitted: ...


@how_to_call()
def load_parameters(net: _HasParameters, snapshot: Snapshot | str | os.PathLike[str], *, strict: bool = True) -> None:
    """Load parameters and buffers of a snapshot, or of the path of one, into a net: `net.parameters.load`.

    Raises:
        SnapshotError: also if the net's sources found other classes in their data, so that numbers would mean others.
    """
    from ..snapshots.folder import snapshot_of

    if not isinstance(getattr(net, "parameters", None), Parameters):
        raise ConfigError(f"net={brief(net)}, but it must be a Net", "write load_parameters(net, snapshot)")
    snapshot = snapshot_of(snapshot)
    check_alike(net.fitted, snapshot.fitted())
    net.parameters.load(snapshot, strict=strict)
