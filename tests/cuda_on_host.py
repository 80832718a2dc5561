"""The kernels of the cupy backend on the processor: what CuPy would compile for a GPU, a C++ compiler compiles here.

`HostModule` takes the place of `cupy.RawModule`; `ShimBackend` has arrays of NumPy's that stand for a GPU's, each
between two guards, and runs the kernels on them. See cuda_on_host.h. Where tests are to run on a GPU (see
cupy_standin.py) its arrays lie in memory that both processors see, and `DeviceModule` runs CuPy's own kernels there.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cuda_expressions import EXPRESSIONS
from nacre import HostMemory, Own
from nacre_cupy.kernels.launch import OPTIONS, is_image, source

HEADER = Path(__file__).with_name("cuda_on_host.h")
KEPT = Path(__file__).parents[1] / "build" / "cuda_on_host"
"""Where compiled texts are kept; a text that changes has another name."""
GUARD = 64
"""Bytes before and behind each array, which nothing may change."""
FILL = 0xA5
WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas")


def on_gpu() -> bool:
    """Return whether tests are to run on a GPU, or as on one."""
    return os.environ.get("NACRE_TEST_GPU") in ("1", "simulated")


@cache
def missing() -> str:
    """Return why no kernel can be compiled here, or "". For a GPU no compiler of C++ is needed."""
    if os.environ.get("NACRE_TEST_GPU") == "1":
        return ""
    if shutil.which(_compiler()) is None:
        return f"there is no C++ compiler '{_compiler()}'; CXX names another"
    probe = "#include <ucontext.h>\nint main() { ucontext_t one; return getcontext(&one) + !(__int128)1; }"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "probe.cpp").write_text(probe)
        done = subprocess.run([_compiler(), "-std=c++17", "-c", "probe.cpp"], cwd=folder, capture_output=True)
    return "the C++ compiler here has no fibers, or no numbers of 128 bits" if done.returncode else ""


def _compiler() -> str:
    return os.environ.get("CXX", "c++")


@cache
def compiled(code: str, expressions: tuple[str, ...]) -> list[Callable[..., None]]:
    """Return kernels of a text: each is called with a grid, a block, arguments and no shared memory.

    Arguments are arrays of NumPy's, ints and floats. What a GPU would stop at is an AssertionError.
    """
    launchers = [
        f'extern "C" const char *launch_{number}(int64_t blocks, int64_t threads, int64_t count, void **arguments) '
        f"{{ return host::launch(&{expression}, blocks, threads, count, arguments); }}"
        for number, expression in enumerate(expressions)
    ]
    library = ctypes.CDLL(str(_library("\n".join([HEADER.read_text(), code, *launchers]))))
    return [_kernel(getattr(library, f"launch_{number}"), expression) for number, expression in enumerate(expressions)]


def _library(text: str) -> Path:
    """Return the library of a text: as another process or run has left it, or compiled."""
    command = [_compiler(), OPTIONS[0], "-O0", "-fPIC", "-shared", "-ffp-contract=off", *WARNINGS]
    place = KEPT / f"{hashlib.sha256('|'.join([*command, text]).encode()).hexdigest()}.so"
    if not place.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            (Path(folder) / "kernels.cpp").write_text(text)
            done = subprocess.run(
                [*command, "kernels.cpp", "-o", "kernels.so"], cwd=folder, capture_output=True, text=True
            )
            assert done.returncode == 0 and not done.stderr, done.stderr
            (Path(folder) / "kernels.so").replace(place)
    return place


def _kernel(launch: Any, expression: str) -> Callable[..., None]:
    launch.restype = ctypes.c_char_p

    def kernel(grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], shared_memory: int = 0) -> None:
        held = [_argument(one) for one in arguments]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(one) for one in held))
        (blocks,), (threads,), count = grid, block, len(held)
        assert shared_memory == 0
        fault = launch(ctypes.c_int64(blocks), ctypes.c_int64(threads), ctypes.c_int64(count), pointers)
        assert fault is None, f"{expression}: {fault.decode()}"

    return kernel


def _argument(given: Any) -> Any:
    if isinstance(given, int):
        return ctypes.c_int64(given)
    return ctypes.c_double(given) if isinstance(given, float) else ctypes.c_int64(given.ctypes.data)


class Kernels:
    """The kernels of a .cu file, by their expressions. The stand-in for CuPy has its texts compiled so."""

    def __init__(self, code: str, options: Sequence[str]) -> None:
        assert tuple(options) == OPTIONS
        self.file = next(file for file in EXPRESSIONS if source(file) == code)

    def __getitem__(self, name: str) -> Callable[..., None]:
        every = EXPRESSIONS[self.file]
        if self.file == "chain" and name not in every:  # whatever a net has
            return compiled(source(self.file), (name,))[0]
        assert name in every, f"'{name}' of {self.file} must stand in cuda_expressions.py"
        return compiled(source(self.file), tuple(every))[every.index(name)]


class HostModule:
    """What `cupy.RawModule` is on a GPU."""

    def __init__(self, *, code: str, options: Sequence[str], name_expressions: Sequence[str]) -> None:
        self.kernels, self.names = Kernels(code, options), tuple(name_expressions)

    def get_function(self, name: str) -> Callable[..., None]:
        assert name in self.names
        return self.kernels[name]


class DeviceModule:
    """CuPy's kernels, run on arrays that both processors see: each call waits until it is done."""

    def __init__(self, **how: Any) -> None:
        self.cupy = importlib.import_module("cupy")
        self.module = self.cupy.RawModule(**how)

    def get_function(self, name: str) -> Callable[..., None]:
        kernel, device = self.module.get_function(name), self.cupy.cuda.Device()

        def call(grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]) -> None:
            kernel(grid, block, tuple(_address(one) if isinstance(one, np.ndarray) else one for one in arguments))
            device.synchronize()

        return call


def _address(array: np.ndarray) -> int:
    """Return where an array lies, which has to be in memory of `seen_by_both`."""
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    assert hasattr(getattr(whole.base, "obj", whole.base), "memory"), "an array in memory that a GPU does not see"
    return array.ctypes.data


def seen_by_both(size: int) -> np.ndarray:
    """Return so many bytes of memory that a GPU and the processor see."""
    memory = importlib.import_module("cupy").cuda.malloc_managed(size)
    held = (ctypes.c_uint8 * size).from_address(memory.ptr)
    held.memory = memory  # type: ignore[attr-defined]  # which is given back with the last array
    made = np.frombuffer(held, np.uint8)
    made[...] = 0
    return made


class Pointer:
    """What `data` of an array of CuPy's has."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


class DeviceArray(np.ndarray):
    """An array that stands for one of CuPy's."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return Pointer(self.ctypes.data)


class Functions:
    """NumPy's functions, and what CuPy has besides."""

    RawModule = DeviceModule if on_gpu() else HostModule

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class ShimBackend(HostMemory):
    """A backend whose kernels are those of the cupy backend; own blobs of four axes lie with the channels last.

    With `last=False` they lie in C order. In a net that computes in bf16 they are `uint16`. Each array begins so many
    numbers (`shift`) behind an address for which packs are made.
    """

    name = "shim"
    lineage = ("shim",)
    computes = ("bf16",)
    dnn = None

    def __init__(self, last: bool = True, shift: int = 0) -> None:
        super().__init__()
        self.xp = Functions()
        self.last, self.shift = last, shift
        self.guarded: list[np.ndarray] = []
        self._scalars: WeakKeyDictionary[Any, np.ndarray] = WeakKeyDictionary()

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        kind = np.dtype(dtype)
        size, start = prod(shape) * kind.itemsize, GUARD + self.shift * kind.itemsize
        raw = seen_by_both(start + size + GUARD) if on_gpu() else super().empty((start + size + GUARD,), "uint8")
        raw[:start] = raw[start + size :] = FILL
        self.guarded.append(raw)
        return raw[start : start + size].view(kind).reshape(shape).view(DeviceArray)

    def check_guards(self) -> None:
        """Check that nothing was written before or behind an array."""
        for raw in self.guarded:
            assert (raw[:GUARD] == FILL).all() and (raw[-GUARD:] == FILL).all(), "a kernel wrote outside an array"

    def scalars(self, view: Any) -> Any:
        """Return the array with the scalars of a net, with what they are now."""
        values = view.scalars.values
        if view.scalars not in self._scalars:
            self._scalars[view.scalars] = self.empty((32,), "float64")
        array = self._scalars[view.scalars]
        array[: len(values)] = values
        return array

    # Own blobs

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return dtype not in ("bf16", "float32", "float64") or (dtype != "bf16" and not (self.last and is_image(shape)))

    def arrange(self, kernels: Any, blobs: Sequence[Own], plan: dict[str, Any]) -> None:
        for blob in blobs:
            blob.layout = "channels last" if self.last and is_image(blob.shape) else "plain"

    def storage(self, blob: Own) -> tuple[int, str]:
        return blob.size, "uint16" if blob.dtype == "bf16" else blob.dtype

    def place(self, blob: Own, array: Any) -> None:
        blob.memory = self.view(array, laid(blob, blob.shape))

    def pack(self, array: Any, blob: Own) -> None:
        put(array, blob)

    def unpack(self, blob: Own, array: Any) -> None:
        array[...] = get(blob)


def laid(blob: Own, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a blob of it lies."""
    first, *rest = shape
    return tuple(shape) if blob.layout == "plain" else (first, *rest[1:], rest[0])


def put(array: Any, blob: Own) -> None:
    """Write a plain array into a blob."""
    there = array if blob.layout == "plain" else np.moveaxis(array, 1, -1)
    blob.memory[...] = to_bits(there) if blob.dtype == "bf16" else there


def get(blob: Own) -> Any:
    """Return what a blob holds as a plain array."""
    here = from_bits(blob.memory) if blob.dtype == "bf16" else blob.memory
    return here if blob.layout == "plain" else np.moveaxis(here, -1, 1)


def to_bits(array: Any) -> np.ndarray:
    """Return numbers in bf16 as `uint16`: to the nearest one, of two equally near ones the even one."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(array), 0x7FFF, rounded).astype(np.uint16)


def from_bits(bits: Any) -> np.ndarray:
    """Return as float32 what `to_bits` returned."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def steps_apart(one: Any, other: Any) -> np.ndarray:
    """Return how many numbers of bf16 two arrays of float32 with such numbers are apart; 0 for two NaNs."""
    ranks = [np.where(bits & 0x8000, 0x8000 - bits.astype(np.int64), bits) for bits in map(to_bits, (one, other))]
    both = np.isnan(one) & np.isnan(other)
    return np.where(both, 0, np.abs(ranks[0] - ranks[1]))
