"""Threads that work on pieces of a batch, and the number of threads that NumPy's BLAS uses.

NumPy gives up the interpreter's lock inside every larger operation, so threads that run the same operations on
different images use all cores, also where NumPy itself never would: pooling, copies, activation functions.
"""

import _thread
import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nacre import NacreError, after_fork, process_lock
from nacre import number_of_threads as number_of_threads

BUFFER = 112
"""Elements in a buffer of NumPy's iterators: 896 bytes of float64. It must be a multiple of 16."""

Task = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments, usually a NumPy function and views made once."""


def run(tasks: Sequence[Task]) -> None:
    """Call every task, in order."""
    for function, arguments in tasks:
        function(*arguments)


class small_buffers:
    """Let NumPy's iterators use buffers below 1 KiB in this thread: `with small_buffers():`.

    They would take three of 32 KiB for many a strided operation, and be no faster. The pool's threads always do so, but
    where `size` is that of another thread, in elements: NumPy adds up what a buffer holds first.
    """

    def __init__(self, size: int = BUFFER) -> None:
        self._size = size

    def __enter__(self) -> None:
        self._before = np.setbufsize(self._size)

    def __exit__(self, *_: object) -> None:
        np.setbufsize(self._before)


def maximum(a: Any, b: Any, out: Any) -> None:
    """`np.maximum` as a task: NumPy wants its `out` by name."""
    np.maximum(a, b, out=out)


@cache
def split(n: int, parts: int) -> tuple[tuple[int, int], ...]:
    """Cut `range(n)` into at most `parts` pieces (start, stop), none empty, whose sizes differ by one at most."""
    parts = max(1, min(n, parts))
    return tuple((n * i // parts, n * (i + 1) // parts) for i in range(parts))


class _Worker:
    """One thread that sleeps until it is given a call. Raw locks wake it sooner than a condition or a queue would.

    Ctrl-C may come between any two lines of the caller, so `call` alone says whether there is work: the locks only
    wake, and one wake too many does no harm.
    """

    def __init__(self) -> None:
        self.call: tuple[Callable[[int, int, int], None], int, int, int] | None = None
        self.floats: Any = None  # what the caller wants to be told of numbers that are not finite: np.geterr()
        self.error: BaseException | None = None
        self.stopping = False
        self.begin, self.done = _thread.allocate_lock(), _thread.allocate_lock()
        self.begin.acquire()
        self.done.acquire()
        self.thread = threading.Thread(target=self.loop, name="nacre-worker", daemon=True)
        self.thread.start()

    def loop(self) -> None:
        np.setbufsize(BUFFER)
        floats = np.geterr()
        while not self.stopping:
            self.begin.acquire()
            if self.call is None:
                continue
            function, start, stop, worker = self.call
            try:
                if self.floats != floats:
                    np.seterr(**self.floats)
                    floats = self.floats
                function(start, stop, worker)
            except BaseException as error:
                self.error = error
            del function  # a sleeping thread keeps nothing alive
            self.call = None
            _wake(self.done)

    def wait(self, wake: bool) -> BaseException | None:
        """Wait for the end of the call, whatever interrupts (Ctrl-C), and return what it raised.

        `wake` says that an interrupt may have come before the worker was woken.
        """
        interrupt = None
        while self.call is not None:
            try:
                if wake:
                    _wake(self.begin)
                self.done.acquire()
            except BaseException as error:
                interrupt, wake = error, True
        error, self.error = interrupt or self.error, None
        return error


def _wake(lock: Any) -> None:
    """Release a lock that only one thread releases, unless it is released already."""
    if lock.locked():
        lock.release()


def _stop(workers: list[_Worker], process: int) -> None:
    if os.getpid() == process:  # threads do not survive a fork
        for worker in workers:
            worker.stopping = True
            _wake(worker.begin)
        for worker in workers:
            if worker.thread is not threading.current_thread():
                worker.thread.join()
    workers.clear()


class Pool:
    """`count` threads, the caller's being one of them, that share the work of one call.

    The threads start with the first call that has work for them. `close()` ends them; they also end with the pool's
    last reference and at exit. After a fork the child starts its own.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = number_of_threads() if count is None else count
        if self.count < 1:
            raise ValueError(f"count={self.count}, but a pool needs at least one thread")
        self._workers: list[_Worker] = []
        self._process = os.getpid()
        self._turn = _thread.allocate_lock()
        self._inside: set[int | None] = set()
        self._finalize: weakref.finalize[..., Any] | None = None
        self._reserving = process_lock()  # nets may be set up in several threads
        self._reserved: dict[str, int] = {}
        self._scratch: dict[tuple[str, int], Any] = {}

    def reserve(self, name: str, size: int) -> None:
        """Make `scratch(name, ...)` at least `size` bytes large; all who reserve before it is used share one piece."""
        with self._reserving:
            self._reserved[name] = max(size, self._reserved.get(name, 0))

    def scratch(self, name: str, worker: int) -> Any:
        """Return a worker's memory of that name, as bytes; every layer on the pool may use it, so it keeps nothing."""
        found = self._scratch.get((name, worker))
        if found is None or found.size < self._reserved[name]:
            found = self._scratch[name, worker] = np.empty(self._reserved[name], np.uint8)
        return found

    def pieces(self, n: int) -> tuple[tuple[int, int], ...]:
        """Return the pieces of `range(n)` that `parallel` calls its function with, in the order of the workers."""
        return split(n, self.count)

    def parallel(self, function: Callable[[int, int, int], None], n: int) -> None:
        """Call `function(start, stop, worker)` for every piece of `range(n)`, each on its own thread; wait for all.

        `worker` counts the pieces from 0; the caller runs piece 0. What a piece raises is raised here, the first
        piece's first. A call from inside a piece runs its pieces one by one; a call from another thread waits for its
        turn, because the workers' scratch memory is shared.
        """
        pieces = split(n, self.count)
        if self._process != os.getpid():
            self._reset()
        if _thread.get_ident() in self._inside:
            for worker, (start, stop) in enumerate(pieces):
                function(start, stop, worker)
            return
        with self._turn:
            if len(self._workers) < len(pieces) - 1:
                self._start(len(pieces) - 1)
            self._inside = {_thread.get_ident(), *(worker.thread.ident for worker in self._workers)}
            try:
                self._share(function, pieces)
            finally:
                self._inside = set()

    def _share(self, function: Callable[[int, int, int], None], pieces: Sequence[tuple[int, int]]) -> None:
        busy = self._workers[: len(pieces) - 1]
        errors: list[BaseException] = []
        for worker in busy:  # still at work only where an interrupt cut the last call short
            worker.wait(wake=True)
        try:
            floats = np.geterr()
            for index, worker in enumerate(busy, 1):
                worker.floats = floats
                worker.call = (function, *pieces[index], index)
                _wake(worker.begin)
            function(*pieces[0], 0)
        except BaseException as error:
            errors.append(error)
        for worker in busy:
            error = worker.wait(wake=bool(errors))
            if error is not None:
                errors.append(error)
        if errors:
            raise errors[0]

    def _start(self, count: int) -> None:
        if self._finalize is None:
            self._finalize = weakref.finalize(self, _stop, self._workers, self._process)
        try:
            while len(self._workers) < count:
                self._workers.append(_Worker())
        except RuntimeError as error:
            started = len(self._workers)
            message = f"{count} threads are wanted beside this one, but the system starts only {started}: {error}"
            remedy = "set NACRE_NUM_THREADS to a smaller number, or raise the limit (ulimit -u)"
            raise NacreError(message, remedy) from error

    def _reset(self) -> None:
        """Forget the parent's threads: this process is a fork and does not have them."""
        if self._finalize is not None:
            self._finalize.detach()
        self._workers, self._process, self._finalize = [], os.getpid(), None
        self._turn, self._inside = _thread.allocate_lock(), set()

    def close(self) -> None:
        """End the threads. The pool can be used again, and starts new ones then."""
        if self._finalize is not None:
            self._finalize()
            self._finalize = None


class Limit:
    """What `Blas.limit` returns. A class, because passes of small nets take no longer than `contextmanager`."""

    open: ClassVar[list["Limit"]] = []
    """Those whose block a thread is in, the outermost first."""

    def __init__(self, blas: Any, count: int) -> None:
        self._blas, self._count = blas, count

    def __enter__(self) -> None:
        self._thread, self._before = _thread.get_ident(), self._blas.set_threads(self._count)
        self.open.append(self)

    def __exit__(self, *_: object) -> None:
        self.open.pop()
        self._blas.set_threads(self._before)

    @classmethod
    def lift(cls) -> None:
        """End what another thread has begun: a forked child does not have that thread, which would end it."""
        if cls.open and cls.open[0]._thread != _thread.get_ident():
            cls.open[0]._blas.set_threads(cls.open[0]._before)
            cls.open.clear()


after_fork(Limit.lift)


class Blas:
    """Reads and sets how many threads NumPy's bundled OpenBLAS uses; does nothing where there is no such library.

    OpenBLAS's own threads must not run beside a pool's: both want every core, and OpenBLAS's wait by spinning.
    """

    def __init__(self) -> None:
        self._set, self._get, self._config = _openblas_functions()

    @property
    def description(self) -> str:
        """The name, the version and the processor that it has kernels for: "OpenBLAS 0.3.31 ... Haswell ...".

        The bits of a product of matrices depend on all of these; of another library, NumPy knows name and version.
        """
        if self._config:
            return " ".join(self._config().decode(errors="replace").split())
        found: Any = np.show_config(mode="dicts")
        blas = found.get("Build Dependencies", {}).get("blas", {})
        return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()

    def threads(self) -> int:
        """Return how many threads a product of matrices uses now; 1 if unknown."""
        return self._get() if self._get else 1

    def set_threads(self, count: int) -> int:
        """Set the number of threads and return what it was."""
        before = self.threads()
        if self._set and count != before:
            self._set(count)
        return before

    def limit(self, count: int) -> Limit:
        """`with blas.limit(1):` sets the number of threads, and puts back what it was."""
        return Limit(self, count)


@cache
def _openblas_functions() -> tuple[Any, Any, Any]:
    """Return OpenBLAS's functions (set, get, config), or None for each.

    Names differ by vendor's prefix and by width of integers.
    """
    for path in _loaded_openblas():
        try:
            library = ctypes.CDLL(str(path))  # loaded already: this only makes a handle
        except OSError:
            continue
        for prefix in ("scipy_openblas", "openblas"):
            for suffix in ("64_", "_64_", "", "64"):
                setter = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                getter = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                if setter and getter:
                    setter.argtypes, setter.restype = [ctypes.c_int], None
                    getter.argtypes, getter.restype = [], ctypes.c_int
                    config = getattr(library, f"{prefix}_get_config{suffix}", None)
                    if config:
                        config.argtypes, config.restype = [], ctypes.c_char_p
                    return setter, getter, config
    return None, None, None


def _loaded_openblas() -> Iterator[Path]:
    """Yield files that may be the OpenBLAS of this NumPy: those in its wheel, then what the process has loaded."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".libs", package / ".dylibs"):
        yield from sorted(folder.glob("*openblas*"))
    if sys.platform == "linux":
        try:
            maps = Path("/proc/self/maps").read_text()
        except OSError:
            return
        yield from sorted({Path(line.split(maxsplit=5)[5]) for line in maps.splitlines() if "openblas" in line})
