"""View: what a state may know of its net and backend: phase, types, step, rows and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, cast

from ..errors import BlobError, DataError, NacreError, put_full_name
from ..random import Random, name_key
from ..text import with_article
from .array import Array
from .backend import HostMemory
from .blob import Blob
from .part import BATCH, Micro, Part

if TYPE_CHECKING:
    import numpy as np

    from .backend import Backend
    from .communicator import Communicator


FLAGS = 64
"""How many truths lie in one array, which is copied to the host at once."""

Fitted = Mapping[str, Mapping[str, Any]]
"""What sources have learned from the training data: {top: {key: array, or what JSON can hold}}.

"classes" is the list of names that the numbers of a top count.
"""


class Scalars:
    """What differs between iterations, in memory that steps read: step, rows, rate, momentum, ...

    A backend that records its steps keeps a copy of `values` where they can read it.
    """

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}
        self.values: list[float] = []
        for name in ("step", "rows", "rate", "momentum"):
            self.declare(name)

    def declare(self, name: str, value: float = 0.0) -> None:
        """Add a scalar; nothing happens if it is there."""
        if name not in self._indices:
            self._indices[name] = len(self.values)
            self.values.append(value)

    def __getitem__(self, name: str) -> float:
        return self.values[self._indices[name]]

    def __setitem__(self, name: str, value: float) -> None:
        self.values[self._indices[name]] = value

    def place(self, name: str) -> int:
        """Return the index of a scalar in `values`."""
        return self._indices[name]


class PartScalars(Scalars):
    """The scalars of a net, in which "rows" are those of a part of the batch: the scalar `rows`."""

    def __init__(self, whole: Scalars, rows: str) -> None:
        self._whole, self._rows = whole, rows
        self.values = whole.values

    def declare(self, name: str, value: float = 0.0) -> None:
        self._whole.declare(name, value)

    def place(self, name: str) -> int:
        return self._whole.place(self._rows if name == "rows" else name)

    def __getitem__(self, name: str) -> float:
        return self.values[self.place(name)]

    def __setitem__(self, name: str, value: float) -> None:
        self.values[self.place(name)] = value


EVERY = 2.0**31
ROWS_OF_PART, EVERY_ROW = "rows of the part", "every row"
"""Scalars of a net that is divided among ranks: real rows among those of this rank, and more than any batch has."""


class View:
    """The net's own view of its backend: what a state may know of the outside world, and nothing else.

    `part` is this rank's of the batch of all ranks, where its rows are not as many as every other rank's. `fitted` is
    what is known of the training data when a state is set up; `asked` collects the names of layers that ask `joined`;
    `communicator` connects the `ranks` that train a batch together, or is None. `between` connects the ranks that a net
    is divided among; else it is None.
    """

    between: Any = None  # a Communicator, if the net can run
    micro: Micro | None = None

    def __init__(
        self,
        backend: Backend,
        *,
        phase: str,
        dtype: str,
        seed: int,
        scalars: Scalars,
        compute: str = "",
        deterministic: bool = False,
        fitted: Fitted | None = None,
        rank: int = 0,
        ranks: int = 1,
        part: Part | None = None,
        asked: set[str] | None = None,
        communicator: Communicator | None = None,
        find_kernel: Callable[[Any, Sequence[Any]], Any] | None = None,
    ) -> None:
        self.backend = backend  # for its own kernels
        self.name = backend.name
        self.xp = backend.xp
        self.phase = phase
        self.dtype = dtype
        self.compute = compute or dtype
        self.deterministic = deterministic
        self.seed = seed
        self.scalars = scalars
        self.fitted = fitted or {}
        self.rank = rank
        self.ranks = ranks
        self._part = part
        self._asked: set[str] = set() if asked is None else asked
        self.communicator = communicator
        self._own_name = self._full_name = ""  # those of a layer in a container
        self._scratch: dict[tuple[Any, ...], Array] = {}
        self._outgrown: list[Array] = []
        self._find_kernel = find_kernel
        self._made = self._growing = 0
        self._required: dict[tuple[str, Hashable], tuple[Array, Callable[[], Exception]]] = {}
        self._flags: list[Array] = []

    def full_name(self, name: str) -> str:
        """Return a name with the layer's full name in it: "block1/conv1" for the layer "conv1" of a container."""
        first, slash, rest = name.partition("/")
        return self._full_name + slash + rest if self._full_name and first == self._own_name else name

    @property
    def step(self) -> int:
        """The iteration, counted from 0."""
        return int(self.scalars["step"])

    @property
    def rows(self) -> int:
        """How many rows of this batch are real; a layer of a smaller batch counts no more than it has."""
        return int(self.scalars["rows"])

    def joined(self, rows: int) -> tuple[int, int]:
        """Return where so many rows of this rank begin in the batch of all ranks, and how many rows that has.

        Where the ranks' parts of a batch are not equally long, a source that does not ask this is refused.
        """
        self._asked.add(self._full_name)
        return joined_rows(self, rows)

    def together(self, rows: int) -> int:
        """Return how many rows those ranks have whose arrays `add_up` adds, where this one has so many."""
        return rows if self.communicator is None else joined_rows(self, rows)[1] * self.communicator.size // self.ranks

    def random(self, name: str, iteration: Callable[[], int] | None = None) -> Random:
        """Return the random numbers of a layer: a function of (seed, full name, step) and nothing else.

        What `iteration` returns takes the place of the step, such as the pass for which a source shuffles its records:
        `backend.random(layer.name, lambda: self.epoch).generator().permutation(count)`.
        """
        full = self.full_name(name)
        if self.micro is not None:  # the numbers of a batch do not depend on how it is cut
            full = self.micro.name + full.removeprefix(self._full_name)
        return ViewRandom(self, full, iteration)

    def kernel(self, component: Any, inputs: Sequence[Any] = ()) -> Any:
        """Return what computes a component of a layer: its kernel for this backend, or the component itself.

        A kernel is offered for ("similarity/Gauss", backend), made as `Kernel(component, backend)`, and has the methods
        of the component: a `ComponentKernel`, whose `supports` gets `inputs`. States call this in their constructor, so
        that `nacre explain` shows the choice.
        """
        return component if self._find_kernel is None else self._find_kernel(component, inputs)

    def from_host(self, host: np.ndarray, array: Array) -> None:
        """Copy a NumPy array into a plain array of the backend, of the same shape."""
        self.backend.from_host(host, array)

    def to_host(self, array: Array) -> np.ndarray:
        """Copy a plain array of the backend into a NumPy array."""
        return self.backend.to_host(array)

    def add_up(self, array: Array) -> None:
        """Replace a contiguous plain array by the sum of those of all ranks that train a batch together with this one.

        They have the same shape and type.
        """
        if self.communicator is None:
            return
        if self.backend.on_host or self.communicator.on_device:
            self.communicator.allreduce(array, ordered=self.deterministic)
        else:
            host = self.backend.to_host(array)
            self.communicator.allreduce(host, ordered=self.deterministic)
            self.backend.from_host(host, array)

    def number(self, array: Array) -> Any:
        """Return the number in an array of one: on a device the array itself, for which the pass need not wait."""
        return array.item() if self.backend.on_host and hasattr(array, "item") else array

    def require(self, key: Hashable, right: Array, wrong: Callable[[], Exception]) -> None:
        """Raise what `wrong` returns unless all of `right` is true.

        Where arrays are NumPy's, at once. On a device, whose numbers have to be waited for, after the pass: then
        `wrong` may only read what is still there, such as the bottoms from a source. `key` is the name of the layer, or
        begins with it; it tells the requirements of a net from each other, and the next call with it replaces this one.
        """
        if self.backend.on_host:
            if not self.xp.all(right):
                raise wrong()
            return
        named = self._full_name, key
        known = self._required.get(named)
        flag = self._flag() if known is None else known[0]
        self.xp.all(right, out=flag)
        self._required[named] = flag, partial(_told, wrong, self._own_name, self._full_name)

    def _flag(self) -> Array:
        """Return an array for one truth, beside others in memory."""
        used = len(self._required) % FLAGS
        if not used:
            self._flags.append(self.backend.empty((FLAGS,), "bool"))
        return self.backend.view(self._flags[-1][used:], ())

    def check_required(self) -> None:
        """Raise the error of a requirement that is not met; on a device it waits for the numbers.

        The net calls it after each pass, a state before it relies on what it has required.
        """
        required = list(self._required.values())
        for number, block in enumerate(self._flags):
            first = number * FLAGS
            for right, (flag, wrong) in zip(self.backend.to_host(block), required[first : first + FLAGS], strict=False):
                if not right:
                    self.xp.copyto(flag, True)  # it is told once
                    raise wrong()

    def blob(self, shape: Sequence[int], dtype: str | None = None) -> Blob:
        """Declare a top; by default of the net's floating type."""
        if dtype is not None:
            import numpy as np

            try:
                kind = np.dtype(dtype)  # which may be given as np.float32
            except TypeError:
                raise BlobError(f"a blob cannot have the type {dtype!r}", "give a name such as 'float32'") from None
            if kind.kind not in "biuf":
                raise BlobError(f"a blob cannot hold {kind.name}", "it has numbers: floating, whole, or booleans")
            dtype = kind.name
        return Blob(shape, dtype or self.dtype)

    def alias(self, blob: Blob, shape: Sequence[int] | None = None) -> Blob:
        """Declare a top that is an input under another shape or name: no memory of its own, no copy."""
        if not isinstance(blob, Blob):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BlobError(f"alias() takes an entry of inputs, not {with_article(type(blob).__name__)}")
        return Blob(blob.shape if shape is None else shape, blob.dtype, blob)

    def empty(self, shape: Sequence[int], dtype: str | None = None) -> Array:
        """Make a plain array of the backend, filled with zeros: scratch that a state keeps."""
        self._made += bytes_of(shape, dtype or self.dtype)
        return self.backend.empty(tuple(shape), dtype or self.dtype)

    def constant(self, host: np.ndarray, dtype: str | None = None) -> Array:
        """Make a plain array that holds the numbers of a NumPy array; by default of the net's floating type."""
        dtype = dtype or self.dtype
        array = self.empty(host.shape, dtype)
        self.from_host(host.astype(dtype, copy=False), array)
        return array

    def scratch(self, shape: Sequence[int], dtype: str | None = None, slot: int = 0) -> Array:
        """Return a plain array with any content, for use until the end of the call: states share it.

        Several arrays at once need different `slot`s.
        """
        key = (slot, dtype or self.dtype, *shape)
        array = self._scratch.get(key)
        if array is None:
            kind = (*key[:2], "all")
            base = self._scratch.get(kind)
            if base is None or base.shape[0] < prod(shape):
                self._growing = bytes_of(shape, key[1])
                base = self.backend.empty((prod(shape),), key[1])
                self._growing = 0
                if self.backend.captures and kind in self._scratch:
                    self._outgrown.append(self._scratch[kind])  # a recording may still write into it
                for old in [old for old in self._scratch if old[:2] == key[:2]]:
                    del self._scratch[old]
                self._scratch[kind] = base
            array = self._scratch[key] = self.backend.view(base, shape)
        return array


def _layer_of(key: Hashable) -> str:
    """Return the name of the layer with which the key of a requirement begins."""
    parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    return str(parts[0])


def _not_so(layer: str) -> DataError:
    """Return the error of a requirement that was not met some time ago."""
    remedy = (
        "train with check_finite=true, which looks at every batch in its turn: then the message says which number it is"
    )
    return DataError(f"{layer}: a bottom had a number that it does not take", remedy)


def _told(wrong: Callable[[], Exception], own: str, full: str) -> Exception:
    """Return an error that has the full name of a layer in a container."""
    error = wrong()
    if full and isinstance(error, NacreError):
        put_full_name(error, own, full)
    return error


def joined_rows(view: View, rows: int) -> tuple[int, int]:
    """Return what `View.joined` returns, without noting that it was asked."""
    part = view._part  # pyright: ignore[reportPrivateUsage]
    if part is None:
        return view.rank * rows, view.ranks * rows
    own = max(part.stop - part.start, 1)  # a blob has a row, even where the part has none
    return rows * part.start // own, rows * part.length // own


def unasked_part(view: View) -> Part | None:
    """Return a source's part of each batch, if the ranks' parts are not equally long and it did not ask `View.joined`.

    Such a source cannot know which rows are its own: `rank` and `ranks` do not say it there.
    """
    part, asked = view._part, view._full_name in view._asked  # pyright: ignore[reportPrivateUsage]
    return part if part is not None and part.length % part.count and not asked else None


def has_no_rows(view: View) -> bool:
    """Return whether this rank's part of every batch is empty, as there are fewer records in it than ranks."""
    part = view._part  # pyright: ignore[reportPrivateUsage]
    return part is not None and part.start == part.stop


def bytes_made(view: View) -> int:
    """Return the bytes of all arrays that states have made by a view's `empty`."""
    return view._made  # pyright: ignore[reportPrivateUsage]


def send_required(view: View) -> Callable[[], DataError | None]:
    """Send what a device has found of the requirements to the host; return what waits for it, and gives an error.

    By then other numbers may be where those were that the device has looked at, so the error does not name one.
    """
    names = [full or _layer_of(key) for full, key in view._required]  # pyright: ignore[reportPrivateUsage]
    sent = [view.backend.download(block) for block in view._flags]  # pyright: ignore[reportPrivateUsage]

    def found() -> DataError | None:
        right: list[Any] = [one for block in sent for one in block()]
        return next((_not_so(name) for name, fine in zip(names, right, strict=False) if not fine), None)

    return found


def bytes_wanted(view: View) -> int:
    """Return the bytes of all arrays that states have made by a view, or just ask for."""
    made, growing = view._made, view._growing  # pyright: ignore[reportPrivateUsage]
    return made + growing + sum(bytes_of(one.shape, str(one.dtype)) for one in scratches(view))


def bytes_of(shape: Sequence[int], dtype: str) -> int:
    """Return the bytes of an array."""
    import numpy as np

    return prod(shape) * np.dtype(dtype).itemsize


def scratches(view: View) -> list[Array]:
    """Return the arrays in which all that a view's `scratch` has returned lies."""
    made = view._scratch  # pyright: ignore[reportPrivateUsage]
    return [array for key, array in made.items() if key[2:] == ("all",)]


def named_view(view: View, own: str, full: str, micro: Micro | None = None) -> View:
    """Return a view for a layer in a container: it knows the full name, and which part of each batch is the layer's."""
    named = copy(view)
    named._own_name, named._full_name = own, full  # pyright: ignore[reportPrivateUsage]
    named.micro = micro
    return named


def part_view(view: View, part: Part, between: Any) -> View:
    """Return a view for a part of a layer: it knows which rows are its own.

    Only parts along the batch have a rank: what is cut along its features, or is not cut, sees all rows.
    """
    named = copy(view)
    named.between = between
    if part.dim == BATCH:
        named.rank, named.ranks, named._part = part.number, part.count, part  # pyright: ignore[reportPrivateUsage]
    else:
        named.rank, named.ranks, named.communicator = 0, 1, None
    if part.inserted or part.dim == BATCH:
        rows = EVERY_ROW if part.inserted else ROWS_OF_PART
        view.scalars.declare(rows, EVERY)
        named.scalars = PartScalars(view.scalars, rows)
    return named


class ViewRandom(Random):
    """Random numbers that may also fill plain arrays of a net's backend."""

    def __init__(self, view: View, name: str, iteration: Callable[[], int] | None = None) -> None:
        super().__init__(view.seed, name, iteration or (lambda: int(view.scalars["step"])))
        self._backend, self._view = view.backend, view
        self._drawn_there = view.backend.draws and iteration is None
        self._keys = view.seed, name_key(name)
        self._staging: dict[tuple[tuple[int, ...], str], np.ndarray] = {}

    def joined(self, rows: int) -> tuple[int, int]:
        """Return where so many rows begin in the whole batch, for which numbers are drawn, and how many that has."""
        first, every = joined_rows(self._view, rows)
        return (first, every) if self._view.micro is None else self._view.micro.of_batch(first, every)

    def uniform(
        self, out: Array, draw: int = 0, *, whole: Sequence[int] | None = None, start: Sequence[int] | None = None
    ) -> None:
        """Fill an array with uniform numbers, as `Random.uniform`.

        Of several ranks, each has its rows of the batch of all of them: axis 0 is the batch, unless `whole` is given.
        """
        if whole is None and (self._view.ranks > 1 or self._view.micro is not None):
            first, rows = self.joined(out.shape[0])
            whole, start = (rows, *out.shape[1:]), (first, *(0 for _ in out.shape[1:]))
        if self._backend.on_host:
            super().uniform(out, draw, whole=whole, start=start)
            return
        if self._drawn_there:
            self._backend.uniform(self._view, out, self._keys, draw, whole, start)
            return
        key = (tuple(out.shape), str(out.dtype))
        if key not in self._staging:
            self._staging[key] = HostMemory.shared().empty(*key)
        super().uniform(self._staging[key], draw, whole=whole, start=start)
        self._backend.upload(self._staging[key], out)
