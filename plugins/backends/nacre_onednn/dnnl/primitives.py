"""Primitives of oneDNN: descriptors of memory, and calls of primitives on named buffers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from math import prod
from typing import Any

from ..helper.native import Operation, helper, operation
from . import arguments as arg
from . import library as dnnl
from .library import Argument, Unimplemented, library

MOST_AXES = 12


class Handle:
    """An object of oneDNN, destroyed with its last reference."""

    kind = ""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle = handle
        self._destroy = getattr(library().functions, f"dnnl_{self.kind}_destroy")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._destroy(self.handle)


class Desc(Handle):
    """How a blob lies in memory. Equal descriptors describe the same layout of the same shape."""

    kind = "memory_desc"

    @property
    def bytes(self) -> int:
        return library().functions.dnnl_memory_desc_get_size(self.handle)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return self._numbers(dnnl.LENGTHS)

    @property
    def dtype(self) -> str:
        """The type of its numbers."""
        return next(name for name, number in TYPES.items() if number == self._number(dnnl.TYPE))

    @property
    def order(self) -> tuple[int, ...]:
        """Its axes, from the outermost in memory to the innermost, without those of one number.

        It is empty where numbers lie in blocks, or not side by side.
        """
        shape, item = self.shape, 2 if self.dtype == "bf16" else 4
        if self._number(dnnl.KIND) != dnnl.STRIDED or self._number(dnnl.BLOCKS) or self.bytes != item * prod(shape):
            return ()
        strides = self._numbers(dnnl.STRIDES)
        return tuple(sorted((axis for axis, length in enumerate(shape) if length > 1), key=lambda axis: -strides[axis]))

    def _number(self, what: int) -> int:
        found = ctypes.c_int()
        library().call("memory_desc_query", self.handle, what, ctypes.byref(found))
        return found.value

    def _numbers(self, what: int) -> tuple[int, ...]:
        """Return what it has for each axis."""
        found = ctypes.POINTER(ctypes.c_int64)()
        library().call("memory_desc_query", self.handle, what, ctypes.byref(found))
        return tuple(found[: self._number(dnnl.AXES)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Desc) and bool(library().functions.dnnl_memory_desc_equal(self.handle, other.handle))

    __hash__ = None  # type: ignore[assignment] # equal ones may be different objects


MOST = (1 << 31) - 1
"""The longest axis, and the most numbers of a blob: oneDNN counts many things in 32 bits, and crashes above."""


def too_large(*shapes: Sequence[int]) -> str | None:
    """Return why a blob of one of these shapes cannot be handed to oneDNN or to the helper, or None."""
    for shape in shapes:
        if min(shape, default=1) < 1:
            return f"serves no blobs without numbers, such as one of shape {tuple(shape)}"
        if prod(shape) > MOST:
            return f"serves blobs of up to {MOST} numbers, not of shape {tuple(shape)}"
    return None


def lengths(shape: Sequence[int]) -> Any:
    """Return the lengths of a blob's axes as `dnnl_dims_t`; all shapes that oneDNN gets are checked here.

    Raises:
        Unimplemented: a blob of this shape is too large for oneDNN.
    """
    if reason := too_large(shape):
        raise Unimplemented(reason)
    return dims(shape)


def dims(numbers: Sequence[int]) -> Any:
    """Return sizes, such as strides and padding, as `dnnl_dims_t`.

    Raises:
        Unimplemented: one of them is too large for oneDNN.
    """
    if not 0 <= min(numbers, default=0) <= max(numbers, default=0) <= MOST:
        raise Unimplemented(f"serves sizes from 0 to {MOST}, not {tuple(numbers)}")
    return (ctypes.c_int64 * MOST_AXES)(*numbers)


TYPES = {"bf16": dnnl.BFLOAT16, "float32": dnnl.FLOAT32}


@cache
def tagged(shape: tuple[int, ...], tag: int, dtype: str = "float32") -> Desc:
    """Describe numbers of a type and shape in the layout of a format tag."""
    handle = ctypes.c_void_p()
    library().call(
        "memory_desc_create_with_tag", ctypes.byref(handle), len(shape), lengths(shape), TYPES[dtype], ctypes.c_int(tag)
    )
    return Desc(handle)


def plain(*shape: int, dtype: str = "float32") -> Desc:
    """Describe numbers in C order."""
    return tagged(shape, dnnl.PLAIN[len(shape)], dtype)


def free(*shape: int, dtype: str = "float32") -> Desc:
    """Describe numbers of a shape whose layout oneDNN is to choose."""
    return tagged(shape, dnnl.ANY, dtype)


def strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str = "float32") -> Desc:
    """Describe numbers by strides, in elements."""
    handle = ctypes.c_void_p()
    library().call(
        "memory_desc_create_with_strides",
        ctypes.byref(handle),
        len(shape),
        lengths(shape),
        TYPES[dtype],
        dims(strides),
    )
    return Desc(handle)


PLAIN, CHANNELS_LAST, BLOCKED, IN_ORDER = "plain", "channels last", "blocked", "in order"
"""Layouts of blobs. PLAIN is a plain array; IN_ORDER is C order too, but of a type that NumPy does not have."""


def block() -> int:
    """Return the number of channels in a block, as wide as the processor's registers."""
    return 16 if library().wide else 8


def describe(shape: tuple[int, ...], layout: str, dtype: str = "float32") -> Desc:
    """Describe a blob in one of the layouts; only images (images, channels, ...) of one to three axes have several."""
    tags = {
        PLAIN: dnnl.PLAIN,
        IN_ORDER: dnnl.PLAIN,
        CHANNELS_LAST: dnnl.CHANNELS_LAST,
        BLOCKED: dnnl.BLOCKED_16 if library().wide else dnnl.BLOCKED_8,
    }
    return tagged(shape, tags[layout][len(shape)], dtype)


Buffer = tuple[str, Desc]
"""A buffer's name, and how it lies."""


class Attributes(Handle):
    """Options of a primitive: it takes scratch memory from us. It applies no ReLU, since oneDNN's loses a NaN."""

    kind = "primitive_attr"

    def __init__(self) -> None:
        here = library()
        handle = ctypes.c_void_p()
        here.call("primitive_attr_create", ctypes.byref(handle))
        super().__init__(handle)
        # oneDNN's own scratch memory belongs to the thread that made a primitive, not to the one that runs it
        here.call("primitive_attr_set_scratchpad_mode", handle, dnnl.SCRATCHPAD_OF_USER)


@cache
def attributes() -> Attributes:
    """Return the attributes of a primitive."""
    return Attributes()


class _PrimitiveDesc(Handle):
    kind = "primitive_desc"


class _Primitive(Handle):
    kind = "primitive"


class Primitive:
    """A primitive of oneDNN: `info` names its code.

    Args:
        function: the C function that makes it, such as "convolution_forward".
        arguments: what the function takes.
        wrong: code that must not run is named so, or part of it: it computes something else.

    Raises:
        Unimplemented: oneDNN has nothing, or only its reference code, which is a hundred times slower.
    """

    def __init__(self, function: str, *arguments: Any, wrong: str | None = None) -> None:
        here = library()
        handle = ctypes.c_void_p()
        here.call(f"{function}_primitive_desc_create", ctypes.byref(handle), *map(_passed, arguments))
        self._desc = _PrimitiveDesc(handle)
        self.info = self._name()
        while wrong is not None and wrong in self.info:
            if here.functions.dnnl_primitive_desc_next_impl(handle) != dnnl.SUCCESS:
                raise Unimplemented(f"oneDNN has no right code for this {function.replace('_', ' ')}")
            self.info = self._name()
        if "ref" in self.info.replace("+", ":").split(":"):  # such as conv:any+ref:any
            raise Unimplemented(f"oneDNN has only reference code for this {function.replace('_', ' ')}")
        self._made: _Primitive | None = None

    def _name(self) -> str:
        name = ctypes.c_char_p()
        library().call("primitive_desc_query", self._desc.handle, dnnl.INFO, 0, ctypes.byref(name))
        return (name.value or b"").decode()

    @property
    def desc(self) -> _PrimitiveDesc:
        """The descriptor, which a backward primitive takes as a hint."""
        return self._desc

    def memory(self, what: int, number: int = 0) -> Desc:
        """Describe one of its memories, such as `library.WEIGHTS`; `number` counts if there are several of a kind."""
        here = library()
        borrowed = here.functions.dnnl_primitive_desc_query_md(self._desc.handle, what, number)
        handle = ctypes.c_void_p()
        here.call("memory_desc_clone", ctypes.byref(handle), ctypes.c_void_p(borrowed))
        return Desc(handle)

    @property
    def made(self) -> ctypes.c_void_p:
        """The compiled primitive."""
        if self._made is None:
            handle = ctypes.c_void_p()
            library().call("primitive_create", ctypes.byref(handle), self._desc.handle)
            self._made = _Primitive(handle)
        return self._made.handle


def _passed(argument: Any) -> Any:
    """Return an argument as ctypes can pass it on."""
    if argument is None:
        return ctypes.c_void_p()
    return argument.handle if isinstance(argument, Handle) else argument


@dataclass
class Call:
    """One call of a primitive of oneDNN or of an operation of the helper, on buffers by name.

    The buffers of a kernel are what its net gives it ("x", "y", "dy", "dx", "weight", "bias", "dweight", "dbias"),
    those that it keeps (names with a capital letter), and scratch memory that all kernels share (all other names).
    A call with `once` reads only parameters, and is repeated only when one of them has changed.
    """

    buffers: Mapping[Any, Any]
    once: bool = field(default=False, kw_only=True)

    @property
    def info(self) -> str:
        """The name of the code that runs."""
        raise NotImplementedError

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each buffer."""
        raise NotImplementedError

    def bound(self, addresses: Mapping[str, int]) -> tuple[Operation, Any]:
        """Return the operation on buffers at these addresses, and the objects that must live as long as it."""
        raise NotImplementedError


@dataclass
class PrimitiveCall(Call):
    """A primitive on `buffers`, {argument: (buffer, its layout)}."""

    buffers: Mapping[int, tuple[str, Desc]]
    primitive: Primitive

    @property
    def info(self) -> str:
        return self.primitive.info

    def sizes(self) -> dict[str, int]:
        return {name: desc.bytes for name, desc in self.buffers.values()}

    def bound(self, addresses: Mapping[str, int]) -> tuple[Operation, Any]:
        memories = [Memory(desc, addresses[name]) for name, desc in self.buffers.values()]
        arguments = (Argument * len(memories))()
        for argument, number, memory in zip(arguments, self.buffers, memories, strict=True):
            argument.number, argument.memory = number, memory.handle.value
        operands = {"primitive": self.primitive.made.value, "arguments": ctypes.addressof(arguments)}
        return operation("primitive", {**operands, "count": len(arguments)}), (self, arguments, memories)


@dataclass
class HelperCall(Call):
    """An operation of the helper on `buffers`, {operand: (buffer, bytes)}; an operand whose buffer has no name is NULL.

    Kinds and operands have the names of operations.h; `numbers` are those that are no buffers. `workers` is the number
    of threads that there is scratch memory for, where each needs its own.
    """

    buffers: Mapping[str, tuple[str, int]]
    kind: str
    numbers: Mapping[str, float]
    workers: int = 0

    @property
    def info(self) -> str:
        return f"helper: {self.kind} {dict(self.numbers)}"

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name, size in self.buffers.values():
            if name:
                sizes[name] = max(size, sizes.get(name, 0))
        return sizes

    def bound(self, addresses: Mapping[str, int]) -> tuple[Operation, Any]:
        pointers = {operand: addresses[name] for operand, (name, _) in self.buffers.items() if name}
        return operation(self.kind, {**pointers, **self.numbers}, self.workers), self


def pass_over(kind: str, buffers: Mapping[str, str], desc: Desc, **numbers: float) -> Call:
    """Return an operation of the helper on all elements of blobs that lie alike; `buffers` are {operand: buffer}."""
    size = prod(desc.shape)
    sizes = {operand: (name, desc.bytes) for operand, name in buffers.items()}
    return HelperCall(sizes, kind, {"size": size, "narrow": desc.bytes < 4 * size, **numbers})


def call(primitive: Primitive, buffers: Mapping[int, tuple[str, Desc]]) -> Call:
    """Return the call of a primitive, with the scratch memory that it needs."""
    scratch = primitive.memory(dnnl.SCRATCHPAD)
    more = {arg.SCRATCHPAD: ("scratchpad", scratch)} if scratch.bytes else {}
    return PrimitiveCall({**buffers, **more}, primitive)


def reorder(source: str, before: Desc, target: str, after: Desc) -> list[Call]:
    """Return the calls that copy a buffer into another layout."""
    if turned := _turned(before, after):
        return [HelperCall({"x": (source, before.bytes), "y": (target, after.bytes)}, "turn", turned)]
    engine = library().engine
    primitive = Primitive("reorder", before, engine, after, engine, attributes())
    return [call(primitive, {arg.SRC: (source, before), arg.DST: (target, after)})]


def _turned(before: Desc, after: Desc) -> Mapping[str, int]:
    """Return the sizes of the helper's copy if it turns matrices: two groups of axes change places. Else {}."""
    shape, old, new = before.shape, before.order, after.order
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    old, new = old[same:], new[same:]
    cut = old.index(new[0]) if old and new else 0
    if helper() is None or before.dtype != after.dtype or not cut or new != old[cut:] + old[:cut]:
        return {}
    rows, columns = (prod(shape[axis] for axis in some) for some in (old[:cut], old[cut:]))
    sizes = {"matrices": prod(shape) // (rows * columns), "rows": rows, "columns": columns}
    return {**sizes, "narrow": before.dtype == "bf16"}


def into(name: str, outer: Desc, inner: Desc, copy: str = "") -> tuple[list[Call], Buffer]:
    """Return the calls that copy a buffer into a primitive's layout, if needed, and the buffer to read then."""
    if outer == inner:
        return [], (name, outer)
    copy = copy or f"inner {name}"
    return reorder(name, outer, copy, inner), (copy, inner)


def out_of(name: str, outer: Desc, inner: Desc) -> tuple[Buffer, list[Call]]:
    """Return the buffer that a primitive writes, and the calls that copy it into the layout of `name`, if needed."""
    if outer == inner:
        return (name, outer), []
    return (f"inner {name}", inner), reorder(f"inner {name}", inner, name, outer)


class Memory(Handle):
    """A descriptor and an address."""

    kind = "memory"

    def __init__(self, desc: Desc, address: int) -> None:
        handle = ctypes.c_void_p()
        here = library()
        here.call("memory_create", ctypes.byref(handle), desc.handle, here.engine, ctypes.c_void_p(address))
        super().__init__(handle)
