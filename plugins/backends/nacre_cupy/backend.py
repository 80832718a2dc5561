"""CupyBackend: arrays in the memory of a GPU; what states enqueue is captured as CUDA graphs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import prod
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from nacre import Array, Backend, ConfigError, LayerState, Own, Scalars, Step, View

from . import library
from .dnn import Dnn
from .functions import Functions
from .graphs import MOST_SCALARS, DeviceScalars, Recording, in_order, scalars_of
from .kernels import blobs as of_blobs
from .kernels.dot import dot
from .kernels.launch import is_image
from .kernels.random import fill_uniform
from .memory import Downloads, TooLarge, Uploads, bytes_of
from .products import WORKSPACE, Products
from .streams import Here


class CupyBackend(Backend):
    """A GPU of NVIDIA, by CuPy. Own blobs of four and five axes lie with the channels last.

    In a net that computes in bf16, a kernel that says `in_bf16` has blobs of bf16, in arrays of uint16; all others have
    plain arrays of float32.

    For kernels: `cupy` is the module, `stream` the stream on which every pass runs, `scalars` the numbers of an
    iteration on the device. A kernel that says `capturable` is called twice, the second time while the stream is
    captured: it only enqueues on `stream`, waits for nothing, reads no `scalars` in Python, and multiplies matrices by
    `xp`, not by CuPy itself, whose cuBLAS cannot be captured. `dnn` is cuDNN, or None without it: `dnn.computation`
    returns anybody's graph of its frontend with a plan, chosen once, which is enqueued on arrays. `here` is the context
    in which plans are made and arrays on the device, outside of passes.
    """

    name = "cupy"
    lineage = ("cupy",)
    elementwise = True
    captures = True
    draws = True

    @classmethod
    def unusable(cls) -> str | None:
        return library.unusable()

    @classmethod
    def libraries(cls) -> list[str]:
        return library.libraries()

    @classmethod
    def on_device(cls, number: int) -> CupyBackend:
        names = library.devices()
        if not 0 <= number < len(names):
            listed = ", ".join(f"{index}: {name}" for index, name in enumerate(names))
            raise ConfigError(f"device={number}, but the GPUs here are {listed}")
        return cls(number)

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.cupy = library.cupy()
        cuda = self.cupy.cuda
        self.device = cuda.Device(number)
        self.device.use()
        self.stream = cuda.Stream(non_blocking=True)
        self.here = Here(self.cupy, self.device, self.stream)
        with self.here:
            self._workspace = self.cupy.empty((WORKSPACE,), "uint8")
        self.products = self._products(tf32=os.environ.get("CUPY_TF32") == "1")
        self.xp = self._functions(self.products)
        self.without_cudnn = library.without_cudnn()
        where = library.devices()[number], self.cupy.cuda.runtime.driverGetVersion()
        total = self.device.mem_info[1]
        self.dnn = None if self.without_cudnn else Dnn(library.cudnn(), self.stream, total, where)
        able = int(self.device.compute_capability) >= 80
        self.computes = ("bf16",) if able else ()
        self.lacks = {} if able else {"bf16": "bf16 needs a GPU of compute capability 8.0 or above"}
        self._uploads = Uploads(self.cupy, self.stream)
        self._downloads = Downloads(self.cupy, self.stream)
        self._scalars: WeakKeyDictionary[Scalars, DeviceScalars] = WeakKeyDictionary()
        self.recordings: WeakSet[Recording] = WeakSet()

    @cached_property
    def in_tf32(self) -> Functions:
        """The functions of `xp` with products in TF32: for what stays in float32 in nets that compute in bf16."""
        return self._functions(self._products(tf32=True))

    def _functions(self, products: Products) -> Functions:
        return Functions(self.cupy, products, partial(dot, self))

    def _products(self, *, tf32: bool) -> Products:
        return Products(self.cupy, library.cublaslt(), self._workspace, tf32=tf32)

    def environment(self) -> dict[str, Any]:
        runtime = self.cupy.cuda.runtime
        name = library.devices()[self.device.id]
        return {
            "device": f"{self.device.id}: {name}",
            "library": f"CuPy {self.cupy.__version__}",
            "cuda": runtime.runtimeGetVersion(),
            "driver": runtime.driverGetVersion(),
            "products": "TF32" if self.products.tf32 else "float32",
            "convolutions": f"cuDNN {self.dnn.version}" if self.dnn else f"cuBLASLt ({self.without_cudnn})",
        }

    def wait(self) -> None:
        self.stream.synchronize()

    def held_memory(self) -> int:
        return sum(one.pool.total_bytes() for one in self.recordings)

    def free_memory(self) -> tuple[int, int]:
        """Return how many bytes are free on the device, those that CuPy keeps too, and how many it has."""
        with self.here:
            free, total = self.device.mem_info
            return free + self.cupy.get_default_memory_pool().free_bytes(), total

    @property
    def put_off(self) -> int:
        """How many times a call has put off to the next one what cannot be done in a capture: cuDNN's plans."""
        return 0 if self.dnn is None else self.dnn.put_off

    # Arrays

    def empty(self, shape: Sequence[int], dtype: str) -> Array:
        with self.here:
            try:
                return self.cupy.zeros(tuple(shape), dtype)
            except self.cupy.cuda.memory.OutOfMemoryError as error:
                raise self._too_large(bytes_of(shape, dtype)) from error

    def _too_large(self, size: int) -> TooLarge:
        free, total = self.free_memory()
        name = library.devices()[self.device.id]
        here = f"{free} of {total} are free on device {self.device.id} ({name})"
        return TooLarge(f"{size} bytes were asked for at once, and {here}", size)

    def to_host(self, array: Array) -> np.ndarray:
        with self.here:
            return array.get()

    def from_host(self, host: np.ndarray, array: Array) -> None:
        with self.here:
            if array.flags.c_contiguous:
                array.set(np.ascontiguousarray(host, array.dtype).reshape(array.shape))
            else:
                self.xp.copyto(array, self.cupy.asarray(host))
            self.stream.synchronize()

    def upload(self, host: np.ndarray, array: Array) -> None:
        with self.here:
            self._uploads.upload(host, array)

    def download(self, array: Array) -> Callable[[], np.ndarray]:
        with self.here:
            return self._downloads.download(array)

    # Own blobs: images with the channels last, where cuDNN and vectorised loads want them, and all that is of bf16

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return dtype != "bf16" and ("float" not in dtype or _is_in_order(shape))

    def gives_own(self, kernel: LayerState, shape: tuple[int, ...], dtype: str, *, below: bool) -> bool:
        if getattr(kernel, "as_below", False) and not below:
            return False
        if dtype == "bf16":
            return bool(getattr(kernel, "in_bf16", False))
        return super().gives_own(kernel, shape, dtype, below=below)

    def elements(self, blob: Own) -> Array | None:
        return None if blob.dtype == "bf16" else blob.memory

    def pack(self, array: Array, blob: Own) -> None:
        last = blob.layout != "plain"
        if blob.dtype == "bf16":
            rows, columns = (blob.shape[1], prod(blob.shape[2:])) if last else (1, blob.size)
            of_blobs.transpose(self, array, blob.memory, rows, columns)
        else:
            self.xp.copyto(blob.memory, self.xp.moveaxis(array, 1, -1) if last else array)

    def unpack(self, blob: Own, array: Array) -> None:
        last = blob.layout != "plain"
        if blob.dtype == "bf16":
            rows, columns = (prod(blob.shape[2:]), blob.shape[1]) if last else (1, blob.size)
            of_blobs.transpose(self, blob.memory, array, rows, columns)
        else:
            self.xp.copyto(array, self.xp.moveaxis(blob.memory, -1, 1) if last else blob.memory)

    def add(self, part: Own, total: Own, *, first: bool) -> None:
        if total.dtype == "bf16" and not first:
            of_blobs.add(self, part.memory, total.memory)
        else:
            super().add(part, total, first=first)

    def arrange(self, kernels: Sequence[LayerState], blobs: Sequence[Own], plan: dict[str, Any]) -> None:
        for blob in blobs:
            blob.layout = "plain" if _is_in_order(blob.shape) else "channels last"

    def storage(self, blob: Own) -> tuple[int, str]:
        return blob.size, "uint16" if blob.dtype == "bf16" else blob.dtype

    def place(self, blob: Own, array: Array) -> None:
        shape = blob.shape if blob.layout == "plain" else (blob.shape[0], *blob.shape[2:], blob.shape[1])
        blob.memory = self.view(array, shape)

    # Passes

    def scalars(self, view: View) -> Array:
        """Return the numbers of an iteration on the device, float64: number `view.scalars.place("rate")` is the rate.

        They are sent before each run of steps, and when they are asked for while nothing is captured.
        """
        known = self._scalars.get(view.scalars)
        if known is None:
            known = self._scalars[view.scalars] = DeviceScalars(self.empty((MOST_SCALARS,), "float64"))
        if not self.stream.is_capturing():
            with self.here:
                known.send(view.scalars, self._uploads)
        return known.array

    def uniform(
        self,
        view: View,
        out: Array,
        keys: tuple[int, int],
        draw: int,
        whole: Sequence[int] | None,
        start: Sequence[int] | None,
    ) -> None:
        with self.here:
            fill_uniform(view, out, keys, draw, whole, start)

    def compile(self, steps: Sequence[Step]) -> Callable[[], None]:
        calls: list[Callable[[], None]] = []
        for recorded, some in itertools.groupby(steps, key=lambda step: self.captures and step.capturable):
            members = list(some)
            calls += [self._recording(members)] if recorded else [step.call for step in members]
        scalars = scalars_of(steps)

        def send() -> None:
            for one in scalars:
                if (known := self._scalars.get(one)) is not None:
                    known.send(one, self._uploads)

        return self.wrap(in_order(calls, send))

    def _recording(self, steps: Sequence[Step]) -> Recording:
        made = Recording(self, steps)
        self.recordings.add(made)
        return made

    def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run a pass alone, on the backend's stream."""
        lacks_memory = self.cupy.cuda.memory.OutOfMemoryError

        def alone() -> None:
            with self.here:
                try:
                    run()
                except lacks_memory as error:  # of what is temporary in the pass
                    raise self._too_large(error._size) from error

        return alone

    def drop_capture(self) -> None:
        """End a capture whose steps have failed, so that the stream can be used again."""
        try:
            captures = self.stream.is_capturing()
        except RuntimeError:  # what has failed has spoiled the capture, which goes on until it is ended
            captures = True
        if captures:
            with suppress(RuntimeError):  # a spoiled one has no graph
                self.stream.end_capture()


def _is_in_order(shape: tuple[int, ...]) -> bool:
    """Return whether blobs of a shape lie in C order: no images, or such that it is the same with the channels last."""
    return not is_image(shape) or shape[1] == 1 or prod(shape[2:]) == 1
