"""Finds and loads the oneDNN library, checks that it can be used, and calls its C functions through ctypes.

Every constant here is the same in the headers of oneDNN 3.2 to 3.13.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from nacre import NacreError

PACKAGES = ("onednn-cpu-gomp", "onednn-cpu-iomp", "onednn-cpu-tbb")
SYSTEM = {"linux": "libdnnl.so.3", "darwin": "libdnnl.3.dylib", "win32": "dnnl.dll"}
SEQUENTIAL, OPENMP, TBB, SYCL = 1, 2, 4, 512
RUNTIMES = {SEQUENTIAL: "one thread", OPENMP: "OpenMP", TBB: "TBB"}

INSTRUCTIONS = {
    0xFEF: "AMX",
    0x1EF: "AVX-512 with fp16",
    0xE7: "AVX-512 with bf16",
    0x27: "AVX-512",
    0x7: "AVX2",
    0x3: "AVX",
}
"""Names of a processor's instructions by the bits that oneDNN must report, the newest first."""

SPINS = "4000"
SUCCESS, UNIMPLEMENTED = 0, 3
MEANINGS = {1: "there is not enough memory", 2: "its arguments make no sense together", 3: "it has no code for this"}
"""Plain words for a status."""

BFLOAT16, FLOAT32 = 2, 3
FORWARD_TRAINING, FORWARD_INFERENCE, BACKWARD = 64, 96, 128
CONVOLUTION_DIRECT, DECONVOLUTION_DIRECT = 1, 0xA
RELU_OF_RESULT = 0x100
BINARY_ADD, BINARY_MAX = 0x1FFF0, 0x1FFF2
POOLING_MAX, POOLING_ALL, POOLING_INSIDE = 0x1FF, 0x2FF, 0x3FF
SCRATCHPAD_OF_USER = 1
ANY = 1
PLAIN = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7}
CHANNELS_LAST = {3: 15, 4: 22, 5: 33}
BLOCKED_4, BLOCKED_8, BLOCKED_16 = {3: 60, 4: 84, 5: 128}, {3: 69, 4: 102, 5: 142}, {3: 56, 4: 78, 5: 121}
"""Format tags, by the number of axes: those of C order, of images with their channels last, and in blocks."""

INFO = 8
STRIDES, AXES, LENGTHS, TYPE, KIND, BLOCKS = 14, 256, 257, 258, 262, 263
SOURCE, DIFF_SOURCE, WEIGHTS, DIFF_WEIGHTS, RESULT, DIFF_RESULT, WORKSPACE, SCRATCHPAD = range(129, 137)
"""Numbers of queries: of a descriptor, and of a primitive for its name and for the descriptors of its memories."""

STRIDED = 2
"""The KIND of a descriptor that has strides, in blocks or not."""


def advice() -> str:
    """Return a remedy: how to get a library that can be used."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return "pip install 'nacre[onednn]', or set NACRE_DNNL to the path of libdnnl 3"
    return "set NACRE_DNNL to the path of a libdnnl 3; there is a package for Linux on x86-64 only"


class Version(ctypes.Structure):
    """`dnnl_version_t`."""

    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


class Argument(ctypes.Structure):
    """`dnnl_exec_arg_t`: which argument of a primitive, and its memory."""

    _fields_ = (("number", ctypes.c_int), ("memory", ctypes.c_void_p))


class Library:
    """A loaded oneDNN, with one engine and one stream on the processor.

    `call(name, ...)` calls `dnnl_<name>` and raises where it fails; `execute` is `dnnl_primitive_execute`.

    Raises:
        NacreError: this library cannot be used; the message says why.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.functions = _load(path)
        try:
            self.functions.dnnl_version.restype = ctypes.POINTER(Version)
            version = self.functions.dnnl_version().contents
        except AttributeError:
            raise NacreError(f"{path} is not oneDNN") from None
        self.version = f"{version.major}.{version.minor}.{version.patch}"
        self.runtime = int(version.cpu_runtime)
        if version.major != 3:
            raise NacreError(f"{path} is oneDNN {self.version}, but version 3 is needed")
        if self.runtime not in RUNTIMES:
            kind = "SYCL" if self.runtime == SYCL else f"number {self.runtime}"
            raise NacreError(
                f"{path} is oneDNN {self.version} with the runtime {kind}, but one with {', '.join(RUNTIMES.values())} "
                f"is needed, such as that of the package {PACKAGES[0]}"
            )
        self.functions.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self.functions.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("engine_create", ctypes.byref(self.engine), 1, ctypes.c_size_t(0))
        self.call("stream_create", ctypes.byref(self.stream), self.engine, 1)
        self.execute = self.functions.dnnl_primitive_execute
        self.execute.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        instructions = self.functions.dnnl_get_effective_cpu_isa()
        self.instructions = next((name for bits, name in INSTRUCTIONS.items() if instructions & bits == bits), "SSE4.1")
        self.wide = bool(instructions & 0x20)
        """Whether the processor has AVX-512, whose blocks are of 16 channels."""
        self.narrow = instructions & 0xE7 == 0xE7
        """Whether it has avx512_bf16, as every processor with AMX."""
        self.amx = self.instructions == "AMX"
        """Whether it multiplies matrices of bf16 at once."""

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status.

        Raises:
            Unimplemented: oneDNN has no code for this case.
            NacreError: it failed.
        """
        status = getattr(self.functions, f"dnnl_{name}")(*arguments)
        if status == SUCCESS:
            return
        message = f"oneDNN {self.version} refused '{name}': {MEANINGS.get(status, 'something went wrong in it')}"
        raise (Unimplemented if status == UNIMPLEMENTED else NacreError)(message)

    def set_threads(self, count: int) -> int:
        """Set the number of threads of the calling thread's parallel regions; return how many they had."""
        if self.runtime != OPENMP:
            return count
        before = self.functions.omp_get_max_threads()
        if before != count:
            self.functions.omp_set_num_threads(count)
        return before

    @contextmanager
    def on_threads(self, count: int) -> Iterator[None]:
        """Give the calling thread's parallel regions a number of threads, and restore what it was.

        Primitives are made for this number. PyTorch, if the process has it, takes its threads from the same OpenMP.
        """
        before = self.set_threads(count)
        try:
            yield
        finally:
            self.set_threads(before)

    def address(self, name: str) -> int:
        """Return the address of a function of the library, or of one it is linked with; 0 if there is none."""
        function = getattr(self.functions, name, None)
        return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


class Unimplemented(NacreError):
    """OneDNN has no code for a case."""


def _load(path: str) -> ctypes.PyDLL:
    """Load a library, and make libgomp's threads give up their processor soon when they wait.

    Its threads would spin for long where another process wants the processor: a step of LeNet took 210 ms instead of 6.
    With 2000 turns or fewer they fall asleep inside a step, which takes twice as long then on a quiet machine; with
    10000 it takes twice as long on a busy one.
    The library keeps the interpreter's lock, because taking it back from a busy thread costs more than a primitive.
    """
    name = "GOMP_SPINCOUNT"
    spins = name not in os.environ and "OMP_WAIT_POLICY" not in os.environ
    if spins:
        os.environ[name] = SPINS
    try:
        return ctypes.PyDLL(path)
    except OSError as error:
        text = str(error)
        if "libgomp" in text:
            text += " (Debian and Ubuntu have it in the package libgomp1)"
        raise NacreError(f"{path} cannot be loaded: {text}") from None
    finally:
        if spins:
            del os.environ[name]


def candidates() -> Iterator[str]:
    """Yield the paths where oneDNN may be: NACRE_DNNL if it is set; else those of known packages, then the system's."""
    if given := os.environ.get("NACRE_DNNL"):
        yield given
        return
    yield from _packaged()
    yield SYSTEM.get(sys.platform, SYSTEM["linux"])


def _packaged() -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, files

    for package in PACKAGES:
        try:
            found = files(package) or ()
        except PackageNotFoundError:
            continue
        # three names of one file come in a wheel
        names = sorted(
            str(one.locate()) for one in found if one.name.startswith(("libdnnl.so", "libdnnl.3", "dnnl.dll"))
        )
        yield from names[:1]


@cache
def find() -> tuple[Library | None, str]:
    """Return the first library that can be used, or None; and why the others could not.

    A process looks for it once: a loaded library stays loaded.
    """
    if platform.python_implementation() != "CPython":
        return None, "it needs CPython"
    reasons: list[str] = []
    for path in candidates():
        try:
            return Library(path), ""
        except NacreError as error:
            missing = path in SYSTEM.values() and ("No such file" in str(error) or "cannot open" in str(error))
            reasons.append("oneDNN is not installed" if missing else str(error.args[0]))
    return None, "; ".join(reasons)


def library() -> Library:
    """Return the library.

    Raises:
        NacreError: none can be used; the message says why, and what helps.
    """
    found, reason = find()
    if found is None:
        raise NacreError(f"{reason}: {advice()}")
    return found
