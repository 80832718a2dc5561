"""Kernels in CUDA C++: the text of a .cu file, compiled for the types that are asked for, and launched.

The texts are templates. A kernel is an expression such as `lrn_forward<float>` of the file `lrn`; NVRTC compiles
what is asked for, once, and CuPy keeps that on disk. All arguments have 8 bytes: arrays, ints and floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from nacre import Array, LayerState, Neuron, Own
from nacre_layers.neurons import is_relu

FOLDER = Path(__file__).parent
OPTIONS = ("-std=c++17",)
"""For NVRTC, besides those that CuPy always gives; up to CUDA 12.8 it takes none of them twice."""
THREADS = 256
"""Threads of a block, for every kernel."""
MOST_BLOCKS = 4096
"""Blocks of a grid; each thread goes on in steps of the grid. About 30 for each multiprocessor."""
MOST = 2**31
"""Kernels that divide indices count with 32 bits, so an array must have fewer numbers."""

TYPES = {"float32": "float", "float64": "double", "bf16": "bf16"}
"""Types of blobs, and what C++ calls them."""
LANES = {"float": 4, "double": 2, "bf16": 8}
"""How many numbers a thread works on at a time where the arrays allow it: 16 bytes."""

NUMBERS = ("float32", "float64", "bf16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""Types of labels, of words' numbers and of records' weights, as numbers.cuh counts them."""

_functions: WeakKeyDictionary[Any, dict[tuple[str, str], Callable[..., None]]] = WeakKeyDictionary()


@cache
def source(file: str) -> str:
    """Return the text of a .cu file, with those that it includes."""
    text = (FOLDER / f"{file}.cu").read_text("utf-8")
    return re.sub(r'#include "(\w+\.cuh)"', lambda found: (FOLDER / found[1]).read_text("utf-8"), text)


def function(view: Any, file: str, expression: str) -> Callable[..., None]:
    """Return a kernel of a file, which is called as `kernel((blocks,), (threads,), arguments)`.

    `view` is a net's, or the backend itself.
    """
    backend = getattr(view, "backend", view)
    known = _functions.setdefault(backend, {})
    if (file, expression) not in known:
        module = backend.xp.RawModule(code=source(file), options=OPTIONS, name_expressions=(expression,))
        known[file, expression] = module.get_function(expression)
    return known[file, expression]


def launch(view: Any, file: str, expression: str, items: int, *arguments: Any, threads: int = THREADS) -> None:
    """Enqueue a kernel with a thread for each of so many items, up to what a grid may have; nothing if there are none.

    Blocks have so many `threads`; few items are shared out over more multiprocessors in small ones.

    Arguments are arrays, ints and floats; None is a null pointer.
    """
    if items:
        blocks = min(-(-items // threads), MOST_BLOCKS)
        given = tuple(0 if one is None else one for one in arguments)
        function(view, file, expression)((blocks,), (threads,), given)


def scalars(view: Any) -> Array:
    """Return the net's scalars in the device's memory, as float64: the backend writes them before each pass.

    It has to be asked before the first one: states do so in `ready`.
    """
    return view.backend.scalars(view)


def divisor(number: int) -> tuple[int, int]:
    """Return the two arguments of a kernel that make a `Divisor` of common.cuh: a number below 2^31, and its inverse.

    For 0, the length of an empty array, there is that of 1.
    """
    by = max(number, 1)
    shift = (by - 1).bit_length()  # 2^shift is the number, or the next power of 2
    factor = 2**32 * (2**shift - by) // by + 1
    return number, factor | shift << 32


def memory(blob: Own | None) -> Array | None:
    """Return the array of a blob, or None."""
    return None if blob is None else blob.memory


def unknown_numbers(what: str, inputs: Sequence[Any]) -> str | None:
    """Return why no kernel serves bottoms with numbers of other types than `NUMBERS`, or None."""
    unknown = [one.dtype for one in inputs if one.dtype not in NUMBERS]
    return f"serves {what} of {', '.join(NUMBERS)}, not {unknown[0]}" if unknown else None


def not_floating(inputs: Sequence[Any]) -> str | None:
    """Return why no kernel serves bottoms of whole numbers, or None."""
    if any("float" not in one.dtype for one in inputs):
        return f"serves bottoms of a floating type, not {', '.join(one.dtype for one in inputs)}"
    return None


def is_image(shape: Sequence[int]) -> bool:
    """Return whether blobs of a shape may lie with their channels last: images with two axes, or with three."""
    return len(shape) in (4, 5)


def too_large(shapes: Sequence[Sequence[int]]) -> str | None:
    """Return why no kernel serves blobs of these shapes, or None."""
    return f"serves blobs of fewer than {MOST} numbers" if any(prod(shape) >= MOST for shape in shapes) else None


class CudaKernel(LayerState, capturable=True, dtypes=("float32", "float64")):
    """A kernel that only enqueues, on the arrays that it has from `ready` on.

    It reads all bottoms as numbers of the net's type; one that reads others says that it has not the `same_dtype`.
    """

    same_dtype = True

    in_bf16 = False
    """Whether its blobs are of bf16 in a net that computes in that; else they are plain arrays of float32."""
    as_below = False
    """Whether its blobs are plain arrays unless its first bottom was written as another one: it only copies."""
    relu = False
    """Whether it applies the layer's neuron itself, a ReLU: see `apply_relu`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.inputs, self.diffs = inputs, diffs

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return not_floating(inputs) or too_large([one.shape for one in inputs])

    def apply_relu(self, neuron: Neuron) -> None:
        """Let the kernel apply a layer's neuron itself if it is a ReLU, whose gradient is seen in the tops."""
        self.relu = is_relu(neuron)
        if self.relu:
            self.reads = "inputs blobs"

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return self.relu

    def sum_behind(self, neuron: Neuron) -> Callable[[list[Any], list[Any]], LayerState] | None:
        """Return what makes a kernel that adds another blob to the top and applies the neuron then, or None.

        It is called with the inputs and diffs of this kernel, and those of the other blob behind them.
        """
        return None

    def launch(self, file: str, expression: str, items: int, *arguments: Any) -> None:
        """Enqueue a kernel: see `launch`."""
        launch(self.backend, file, expression, items, *arguments)
