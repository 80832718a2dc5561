"""The cupy backend over the stand-in for CuPy (tests/standin), watched: in a pass nobody looks at numbers of arrays.

With NACRE_TEST_GPU=1 in the environment it is CuPy itself, on a GPU: benchmarks.gpu runs tests so. With
NACRE_TEST_GPU=simulated the tests do what they do there, but with the stand-in, without what CuPy has not.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import cuda_on_host
from nacre_cupy import library
from nacre_cupy.dnn import Dnn

STANDIN = Path(__file__).parent / "standin"
_loaded: dict[str, Any] = {}
real_without_cudnn, real_seconds = library.without_cudnn, Dnn._seconds
"""What `installed` replaces."""


def _ours() -> dict[str, Any]:
    return {
        name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cublaslt", "dnn")
    }


@contextmanager
def installed() -> Generator[Any]:
    """Let `import cupy` find the stand-in in the block; give the module. Kernels in CUDA C++ run on the processor.

    A test is skipped where they cannot be compiled.
    """
    if on_gpu():
        yield importlib.import_module("cupy")
        return
    if reason := cuda_on_host.missing():
        pytest.skip(reason)
    with _found_by_import() as cupy:
        yield cupy


@contextmanager
def _found_by_import() -> Generator[Any]:
    before = _ours()
    for name in before:
        del sys.modules[name]
    sys.modules.update(_loaded)
    sys.path.insert(0, str(STANDIN))
    try:
        cupy = importlib.import_module("cupy")
        cupy.shared.kernels = cuda_on_host.Kernels
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(library, "cublaslt", lambda: importlib.import_module("cublaslt").Library(cupy))
            frontend = importlib.import_module("dnn").Frontend(cupy)
            patch.setattr(library, "cudnn", lambda: frontend)
            patch.setattr(library, "without_cudnn", lambda: None)
            patch.setattr(Dnn, "_seconds", lambda _, run: run() or 1.0)  # of two plans the first is the faster one
            yield cupy
    finally:
        sys.path.remove(str(STANDIN))
        _loaded.update(_ours())
        for name in _loaded:
            del sys.modules[name]
        sys.modules.update(before)


on_gpu = cuda_on_host.on_gpu
only_standin = pytest.mark.skipif(on_gpu(), reason="only the stand-in lets itself be changed, or tells this")
"""For a test that a GPU cannot run."""


class OfCublasLt:
    """The stand-in's functions of cuBLASLt, and nothing that the library has not."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cublasLt"):
            raise AttributeError(f"cuBLASLt has no '{name}'")
        return getattr(self._library, name)


def simulate() -> None:
    """Let the process find the stand-in from now on, if tests are to run as on a GPU where there is none."""
    if os.environ.get("NACRE_TEST_GPU") == "simulated":
        whole_process = ExitStack()
        cupy = whole_process.enter_context(_found_by_import())
        atexit.register(whole_process.close)
        cupy.shared.devices = ["Simulated"]
        made = library.cublaslt
        library.cublaslt = lambda: OfCublasLt(made())
        for name in ("shared", "machine"):
            delattr(cupy, name)


def watched() -> type[Any]:
    """Return the class of the backend, whose passes are steps for the stand-in; to be used while that is installed."""
    from nacre_cupy import CupyBackend

    if on_gpu():
        return CupyBackend

    class WatchedBackend(CupyBackend):
        """The cupy backend; `float()` of an array inside a pass is refused."""

        def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
            inner, machine = super().wrap(run), self.cupy.machine

            def step() -> None:
                with machine.step():
                    inner()

            return step

    return WatchedBackend


def losses_of(training: Any, turns: int, backend: Any = None) -> list[float]:
    """Return the losses of some iterations; from the middle on, no memory of the backend may grow."""
    losses: list[float] = []
    pools: list[Any] = []
    before: list[int] = []
    for turn in range(turns):
        training.step()
        losses.append(training.loss)
        if backend is not None and turn == turns // 2:
            pools = [one.pool for one in backend.recordings] + [backend.cupy.get_default_memory_pool()]
            before = [pool.total_bytes() for pool in pools]
    assert [pool.total_bytes() for pool in pools] == before, "replays allocate nothing"
    return losses


def left_in_graphs(net: Any, backend: Any) -> set[str]:
    """Return which attributes of states are arrays that were made in a step, in the memory of a graph.

    Another graph would read those of the pass in which it was captured. What the net reads itself may be such.
    """
    pools = [recording.pool for recording in backend.recordings]
    owners = [owner for op in net.ops for owner in (op.state, *vars(op.state).values()) if hasattr(owner, "__dict__")]
    return {
        f"{type(owner).__name__}.{name}"
        for owner in owners
        for name, value in vars(owner).items()
        if isinstance(value, backend.cupy.ndarray)
        and name not in ("loss", "n_counted")
        and value.data.mem.pool in pools
    }


@contextmanager
def lazily(cupy: Any, late: bool = True) -> Generator[None]:
    """Let the device run only when somebody waits for it, in the block; a GPU does so anyhow."""
    if on_gpu():
        yield
        return
    cupy.shared.lazy = late
    try:
        yield
    finally:
        cupy.shared.lazy = False
        cupy.shared.settle()
