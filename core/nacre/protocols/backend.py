"""Backend: where arrays live, and what computes on them; Step: one call in the list that a backend runs."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from ..arguments import how_to_call
from ..discovery.blame import answered, blaming, wrong
from ..discovery.fitting import required
from ..errors import ConfigError, NacreError, PluginError, brief
from ..threads import process_lock
from .array import Array

if TYPE_CHECKING:
    import numpy as np

    from .layer import Layer
    from .parameter import Storage
    from .state import LayerState
    from .view import View

ALIGNMENT = 64
"""The address of an array in the machine's memory, and its place in an arena, is a multiple of so many bytes."""


class Own:
    """A blob in the backend's own memory, for kernels: a shape at setup, a layout and memory only after `arrange`.

    A backend may use a subclass. `layout` is None until decided; "plain" means C order in a plain array. `first` and
    `last` are the times of its first write and its last read; memory is shared by lifetime, unless it is `pinned`.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape = shape
        self.dtype = dtype
        self.layout: str | None = None
        self.memory: Array = None
        self.first = self.last = 0.0
        self.pinned = True

    @property
    def size(self) -> int:
        return prod(self.shape)


class Backend:
    """The protocol of a backend; the defaults are those of a backend whose own blobs are plain arrays.

    `name` is its name; `lineage` names it and the backends whose kernels it can run, nearest first; `xp` is a namespace
    of NumPy's functions over its plain arrays; `on_host` is whether its plain arrays are NumPy arrays.
    """

    nacre_kind = "backend"
    name: str = ""
    lineage: tuple[str, ...] = ()
    xp: Any = None
    on_host: bool = False
    computes: tuple[str, ...] = ()
    """Types narrower than float32 that its kernels can compute in on this machine.

    Own blobs then have the net's compute type; parameters stay float32.
    """
    lacks: Mapping[str, str] = {}
    """Narrower types that its kernels can compute in on other machines, each with what it needs."""
    auto: float = 0
    """Its rank where no backend is named: the highest is used; 0: only if it is named."""
    captures: bool = False
    """Whether `compile` records what states enqueue, also those written over `xp`, if they say `capturable`."""
    elementwise: bool = False
    """Whether own blobs of equal shape have equal layouts without padding, which `elements` gives as plain arrays."""

    def __init__(self) -> None:
        self.parameters: weakref.WeakKeyDictionary[Layer, dict[str, Storage]] = weakref.WeakKeyDictionary()

    @classmethod
    def nacre_misfit(cls, name: str) -> str:
        """Return why this class cannot be offered as a backend under a name, or ""."""
        if cls.name != name:
            return f"{cls.__name__} has name={cls.name!r}, but it is offered as '{name}'"
        if cls.lineage and cls.lineage[0] != name:
            return f"{cls.__name__} has lineage={cls.lineage!r}, but it must begin with its name, '{name}'"
        return ""

    @classmethod
    def unusable(cls) -> str | None:
        """Return the reason why this backend cannot be used on this machine, or None."""
        return None

    @classmethod
    def libraries(cls) -> Sequence[str]:
        """Return the libraries that it looks for, with their versions, or why one cannot be used and what to type.

        `nacre doctor` shows them, on machines where it cannot be used too; nothing is opened for it.
        """
        return ()

    @classmethod
    def on_device(cls, number: int) -> Backend:
        """Make this backend on one of several devices of a machine, counted from 0: that of "cupy:1" is number 1.

        Raises:
            ConfigError: there is no such device.
        """
        raise ConfigError(f"device={number}, but backend '{cls.name}' has no devices to choose from", "leave it out")

    def wait(self) -> None:
        """Wait until all is computed that was enqueued; nothing to do where calls return when they are done."""

    def beside(self) -> Sequence[Backend]:
        """Return new backends, each of which computes on a thread of its own: passes on them may run at once.

        They have this one's `parameters`, so that their nets share parameters with its nets, and read no memory that
        another one writes while it computes. () by default, and where there is only one thread to share out: then one
        pass runs at a time, on all threads.
        """
        return ()

    def may_run_beside(self, step: Step) -> bool:
        """Return whether a pass with this step, of the backend's own, may run at once with others; by default any."""
        return True

    def free_memory(self) -> tuple[int, int] | None:
        """Return how many bytes are free on its device, and how many that has; None if its memory is the machine's."""
        return None

    def held_memory(self) -> int:
        """Return how many bytes of its device recordings keep for what is temporary in them."""
        return 0

    def environment(self) -> dict[str, Any]:
        """Return what the bits of its results depend on, as JSON can hold it: threads, libraries and their versions.

        Snapshots keep it, and a training that is resumed in a different one warns.
        """
        return {}

    draws: bool = False
    """Whether `uniform` draws random numbers where the arrays lie, so that states that draw can be recorded."""

    def uniform(
        self,
        view: View,
        out: Array,
        keys: tuple[int, int],
        draw: int,
        whole: Sequence[int] | None,
        start: Sequence[int] | None,
    ) -> None:
        """Fill a plain array as `nacre.random.Random.uniform` does, with `keys` for its key, where `draws` is true.

        The iteration is `view.scalars["step"]`, read when the numbers are drawn.
        """
        raise NotImplementedError

    # Plain arrays

    @required()
    def empty(self, shape: Sequence[int], dtype: str) -> Array:
        """Make a plain array in C order, filled with zeros.

        Raises:
            MemoryError: there is too little memory; its `size`, if it has one, is how many bytes were asked for.
        """
        raise NotImplementedError

    def view(self, array: Array, shape: Sequence[int]) -> Array:
        """Read the first elements of a contiguous plain array under another shape, without a copy."""
        return array.reshape(-1)[: prod(shape)].reshape(shape)

    @required()
    def to_host(self, array: Array) -> np.ndarray:
        """Copy a plain array into a NumPy array."""
        raise NotImplementedError

    @required()
    def from_host(self, host: np.ndarray, array: Array) -> None:
        """Copy a NumPy array into a plain array of the same shape."""
        raise NotImplementedError

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy a NumPy array into a contiguous plain array, within a pass: the copy may still be on its way.

        `host` may be changed as soon as this returns.
        """
        self.from_host(host, array)

    def download(self, array: Array) -> Callable[[], np.ndarray]:
        """Copy a plain array to the host, after all that was enqueued; return what waits for the copy, and gives it."""
        host = self.to_host(array)
        return lambda: host

    # Own blobs, which only kernels see

    def own(self, shape: tuple[int, ...], dtype: str) -> Own:
        """Declare a blob of the backend's own; `arrange` gives it a layout, `place` gives it memory."""
        return Own(shape, dtype)

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        """Return whether own blobs of this shape are plain arrays; a kernel then gets an `Own` around the plain one."""
        return True

    def gives_own(self, kernel: LayerState, shape: tuple[int, ...], dtype: str, *, below: bool) -> bool:
        """Return whether a kernel gets a blob of this shape as an own one that is no plain array.

        `below` is whether its first bottom was written as such a blob. By default all kernels get what
        `layout_is_plain` says; a backend may let some of them read blobs in its own layout that others read as plain.
        """
        return not self.layout_is_plain(shape, dtype)

    def elements(self, blob: Own) -> Array | None:
        """Return a plain array over all of a blob's elements, in any order; None if there is none (padding)."""
        return None

    def pack(self, array: Array, blob: Own) -> None:
        """Copy a plain array into a blob."""
        self.xp.copyto(blob.memory, array)

    def unpack(self, blob: Own, array: Array) -> None:
        """Copy a blob into a plain array."""
        self.xp.copyto(array, blob.memory)

    def add(self, part: Own, total: Own, *, first: bool) -> None:
        """Add a blob to another of its shape, or copy it there where it is the first; only if `elementwise`."""
        if first:
            self.xp.copyto(total.memory, part.memory)
        else:
            self.xp.add(total.memory, part.memory, out=total.memory)

    # Nets

    def rewrite(self, graph: Any) -> Any:
        """Return an equivalent graph, before setup; blobs in `graph.keep` stay what they are."""
        return graph

    def arrange(self, kernels: Sequence[LayerState], blobs: Sequence[Own], plan: dict[str, Any]) -> None:
        """Decide the layouts of all own blobs of a net, and what its kernels leave open; called once for each net.

        The kernels have their blobs, which have no memory yet. Whatever is decided goes into `plan` (JSON-able data),
        and a plan that has an answer already is followed. Must not run sources, sinks or foreign code, nor change a
        parameter, a statistic or a random number.
        """
        for blob in blobs:
            blob.layout = "plain"

    def storage(self, blob: Own) -> tuple[int, str]:
        """Return the length and type of the plain array that an own blob needs for its memory."""
        return blob.size, blob.dtype

    def place(self, blob: Own, array: Array) -> None:
        """Put an own blob into a plain array of the length and type that `storage` returned, or longer."""
        blob.memory = self.view(array, blob.shape)

    def compile(self, steps: Sequence[Step]) -> Callable[[], None]:
        """Return one function that runs several of this backend's own steps in order."""
        return loop(steps)

    def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return a pass with what it needs around it (a lock, a number of threads). Called once for each pass."""
        return run

    def wrap_own(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return what `wrap` does for a pass of the backend's own steps, between which no other code computes."""
        return self.wrap(run)


class HostMemory(Backend):
    """NumPy arrays in the machine's own memory, aligned (`ALIGNMENT`); arrays of every backend pass through them."""

    name = "host"
    lineage = ("host",)
    on_host = True
    _one: HostMemory | None = None

    def __init__(self) -> None:
        from .functions import functions

        super().__init__()
        self.xp = functions

    @classmethod
    def shared(cls) -> HostMemory:
        """Return the only object of this process."""
        if HostMemory._one is None:
            HostMemory._one = HostMemory()
        return HostMemory._one

    def empty(self, shape: Sequence[int], dtype: str) -> Array:
        kind = self.xp.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if size > sys.maxsize - ALIGNMENT:
            raise MemoryError(f"an array of shape {brief(tuple(shape))} needs more memory than a machine can address")
        raw = self.xp.zeros(size + ALIGNMENT, self.xp.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + size].view(kind).reshape(shape)

    def to_host(self, array: Array) -> np.ndarray:
        return array.copy()

    def from_host(self, host: np.ndarray, array: Array) -> None:
        array[...] = host


def wrapped(backend: Backend, run: Callable[[], None], *, own: bool = False) -> Callable[[], None]:
    """Return what a backend's `wrap`, or `wrap_own`, returns. Raises PluginError if it cannot be called."""
    made = backend.wrap_own(run) if own else backend.wrap(run)
    what = "a function: the pass that it got, or one that calls it"
    return answered(backend, "wrap_own" if own else "wrap", made, Callable, what)


def loop(steps: Sequence[Step]) -> Callable[[], None]:
    """Return a function that calls one step after the other."""
    calls = [step.call for step in steps]
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run


_opened: dict[str, Backend] = {}
"""By name, with the device if one was given."""


_opening = process_lock()
"""Reentrant, because a backend may open another one."""


@how_to_call()
def open_backend(name: str | Backend | None = None) -> Backend:
    """Return the process's one backend of a name; "cupy:1" is that on device 1, ":1" device 1 of the default backend.

    None is NACRE_BACKEND, else that of `nacre.toml`, else "auto": of nacre's own and the enabled ones that can be used
    here, the one that most wants to be it (`Backend.auto`).

    Raises:
        RegistryError: no plugin offers the name.
        ConfigError: it has no such device.
        NacreError: the backend cannot be used on this machine; the message has the reason.
    """
    if isinstance(name, Backend):
        return name
    if not isinstance(name, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"backend={brief(name)}, but it must be a Backend, the name of one, or None")
    with _opening:
        return _open(name)


def _open(name: str | None) -> Backend:
    import os

    from ..discovery.registry import registry
    from ..discovery.settings import settings

    name, device = with_device(name or "", os.environ.get("NACRE_BACKEND") or settings().backend or "auto")
    if name == "auto":
        name = _first_usable()
    key = f"{name}:{device}" if device else name
    if key not in _opened:
        found: type[Backend] = registry().open("backend", name)
        with blaming(found):
            if reason := found.unusable():
                raise NacreError(f"backend '{name}' cannot be used here: {reason}")
            made = found.on_device(int(device)) if device else found()
            _check_zeros(made)
        _opened[key] = made
    return _opened[key]


def with_device(given: str, default: str) -> tuple[str, str]:
    """Return the name of a backend and the number of its device, or "", as text; what is not given is the default's."""
    name, device = _parts(given)
    if not name:
        name, usual = _parts(default)
        device = device or usual
    return name, device


def _parts(text: str) -> tuple[str, str]:
    name, colon, device = text.rpartition(":")
    return (name, device) if colon and device.isascii() and device.isdigit() and len(device) < 10 else (text, "")


def _check_zeros(backend: Backend) -> None:
    """Check that new arrays are of the shape that was asked for, and filled with zeros, whatever memory held before.

    Raises:
        PluginError: they are not.
    """
    import numpy as np

    for _ in range(3):
        array = backend.empty((7, 5), "float32")
        host = backend.to_host(array)
        if host.shape != (7, 5) or host.any():
            what = f"of shape {host.shape}" if host.shape != (7, 5) else "with other numbers than 0"
            reason = f"empty((7, 5), 'float32') returned an array {what}"
            raise wrong(backend, f"{reason}, but it must return arrays in C order, filled with zeros")
        backend.from_host(np.full((7, 5), np.nan, np.float32), array)


def _first_usable() -> str:
    """Return the usable backend with the highest `auto`, among nacre's own and those of enabled distributions."""
    from ..discovery.registry import registry

    here, wanted = registry(), list[tuple[float, str]]()
    for offer in here.offers("backend"):
        if here.is_enabled(offer):
            with suppress(PluginError):  # one that cannot be opened cannot be used: `nacre backends` shows why
                found: type[Backend] = here.open_offer(offer)
                wanted += [(-found.auto, here.name_of(offer))] if found.auto > 0 else []
    for _, name in sorted(wanted):
        if not here.open("backend", name).unusable():
            return name
    raise NacreError(f"no usable backend; installed: {', '.join(here.names('backend')) or 'none'}")


@dataclass
class Step:
    """One call of an iteration: what is done, for which layer, and by whose code.

    `own` is the backend whose compiled run may contain the step; None means plain Python, which splits a run.
    """

    kind: str
    name: str
    call: Callable[[], None]
    own: Backend | None = None
    state: Any = None
    method: str = ""

    @property
    def worker(self) -> Any:
        """The object whose code runs: a state, a component, or a method; None if that is not known."""
        call: Any = self.call
        while isinstance(call, partial):
            call = call.func
        return self.state if self.state is not None else getattr(call, "__self__", None)

    @property
    def capturable(self) -> bool:
        """Whether its backend may record what it enqueues, and replay that: its worker says so, or is the backend."""
        return self.own is not None and (self.worker is None or bool(getattr(self.worker, "capturable", False)))
