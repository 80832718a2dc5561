"""`ndarray`, and CuPy's universal functions with the types that their loops have."""

from __future__ import annotations

from math import prod

import numpy as np

from ._interface import INTERFACE
from ._machine import MemoryPointer, allocate, implicit, launch, transfer, wait

ATTRIBUTES = frozenset(INTERFACE["ndarray"])


class Flags:
    """The flags of an array."""

    def __init__(self, raw):
        self.c_contiguous, self.f_contiguous = raw.flags.c_contiguous, raw.flags.f_contiguous
        self.owndata = False


class ndarray:
    """An array on the device: `_raw` is the memory as NumPy sees it."""

    __array_ufunc__ = None
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        self.data = allocate(size) if memptr is None else memptr
        start = self.data.offset
        flat = self.data.mem.buffer[start : start + size]
        self._raw = flat.view(kind).reshape(shape) if size else np.empty(shape, kind)
        if order == "F" and memptr is None:
            self._raw = flat.view(kind).reshape(shape[::-1]).T

    @classmethod
    def _of(cls, raw, data):
        """Return a view of the same memory."""
        made = object.__new__(cls)
        made._raw = raw
        made.data = MemoryPointer(data.mem, raw.ctypes.data - data.mem.ptr if raw.size else 0)
        return made

    def _view(self, raw):
        return ndarray._of(raw, self.data)

    shape = property(lambda self: self._raw.shape)
    strides = property(lambda self: self._raw.strides)
    dtype = property(lambda self: self._raw.dtype)
    ndim = property(lambda self: self._raw.ndim)
    size = property(lambda self: self._raw.size)
    nbytes = property(lambda self: self._raw.nbytes)
    itemsize = property(lambda self: self._raw.itemsize)
    flags = property(lambda self: Flags(self._raw))
    T = property(lambda self: self._view(self._raw.T))

    def __getattr__(self, name):
        if name in ATTRIBUTES:
            raise NotImplementedError(f"the stand-in for CuPy has no ndarray.{name}: add it to tests/standin")
        raise AttributeError(f"'cupy.ndarray' object has no attribute '{name}'")

    def __array__(self, *_, **__):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        return (self[index] for index in range(len(self)))

    def __repr__(self):
        return f"<array of the stand-in for CuPy, {self.dtype}, {self.shape}>"

    # To the host

    def get(self, stream=None, order="C", out=None, blocking=True):
        wait()
        if out is not None:
            out[...] = self._raw
            return out
        return np.array(self._raw, order=order, copy=True)

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        wait("H2D")
        self._raw[...] = arr

    def item(self, *args):
        implicit("item()")
        return self._raw.item(*args)

    def tolist(self):
        implicit("tolist()")
        return self._raw.tolist()

    def __float__(self):
        implicit("float()")
        return float(self._raw.item())

    def __int__(self):
        implicit("int()")
        return int(self._raw.item())

    __index__ = __int__

    def __bool__(self):
        implicit("bool()")
        return bool(self._raw)

    # Views and copies

    def reshape(self, *shape, order="C"):
        made = self._raw.reshape(*shape)
        if made.size and not np.may_share_memory(made, self._raw):
            return self.copy().reshape(*shape)
        return self._view(made)

    def ravel(self, order="C"):
        return self.reshape(-1)

    def flatten(self, order="C"):
        return self.copy().reshape(-1)

    def transpose(self, *axes):
        return self._view(self._raw.transpose(*axes))

    def swapaxes(self, axis1, axis2):
        return self._view(self._raw.swapaxes(axis1, axis2))

    def squeeze(self, axis=None):
        return self._view(self._raw.squeeze(axis))

    def view(self, dtype=None):
        return self._view(self._raw.view(dtype) if dtype is not None else self._raw.view())

    def copy(self, order="C"):
        made = ndarray(self.shape, self.dtype)
        copy_raw(made._raw, self._raw)
        return made

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        kind = np.dtype(dtype)
        if not copy and kind == self.dtype:
            return self
        made = ndarray(self.shape, kind)
        copy_raw(made._raw, self._raw)
        return made

    def fill(self, value):
        raw = self._raw
        launch(lambda: raw.fill(value))

    # Indices

    def __getitem__(self, key):
        parts = key if isinstance(key, tuple) else (key,)
        if not any(isinstance(one, ndarray | list) for one in parts):
            _refuse_numpy(parts)
            found = self._raw[key if isinstance(key, tuple) else (key,)]
            # a number becomes an array of no axes, and stays a view
            return self._view(found if isinstance(found, np.ndarray) else self._raw[(*parts, ...)])
        _look_at(key)
        if _holds_truths(key):
            return _made(self._raw[_plain(self, key)])
        empty = np.broadcast_to(np.zeros((), self.dtype), self.shape)
        made = ndarray(empty[_zeros(key)].shape, self.dtype)
        raw, out, plain = self._raw, made._raw, _plain(self, key, late=True)
        launch(lambda: np.copyto(out, raw[plain()]))
        return made

    def __setitem__(self, key, value):
        value = operand(value, "__setitem__")
        _look_at(key)
        if _holds_places(key) and not isinstance(value, ndarray):
            transfer("H2D")
        raw, plain = self._raw, _plain(self, key, late=True)
        given = value._raw if isinstance(value, ndarray) else value
        if isinstance(value, ndarray) and not _holds_truths(key):
            shape = np.broadcast_to(np.int8(0), self.shape)[_zeros(key)].shape
            short = value.shape[value.ndim - len(shape) :] if value.ndim > len(shape) else value.shape
            if np.broadcast_shapes(short, shape) != shape:
                raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")

        def write():
            raw[plain()] = given

        launch(write)

    # Reductions and the rest are functions of the module, which adds them: see `_functions`


def _refuse_numpy(values):
    for one in values:
        if isinstance(one, np.ndarray):
            raise TypeError(f"Unsupported type {type(one)}")


def _holds_truths(key):
    return any(isinstance(one, ndarray) and one.dtype == bool for one in (key if isinstance(key, tuple) else (key,)))


def _holds_places(key):
    return any(isinstance(one, ndarray | list) for one in (key if isinstance(key, tuple) else (key,)))


def _look_at(key):
    """Do what CuPy does with an index before it enqueues: it counts truths, and copies lists to the device."""
    if _holds_truths(key):
        implicit("an index of truths, which are counted, and thus bool()")
    if any(isinstance(one, list) for one in (key if isinstance(key, tuple) else (key,))):
        transfer("H2D")


def _zeros(key):
    """Return an index that gives the same shape, whatever numbers it will have."""
    if isinstance(key, tuple):
        return tuple(map(_zeros, key))
    return (
        np.zeros(np.shape(key) if isinstance(key, list) else key.shape, int) if isinstance(key, ndarray | list) else key
    )


def _plain(array, key, late=False):
    """Return an index for NumPy, or with `late` a function that returns it; what is out of range is counted round."""
    parts = key if isinstance(key, tuple) else (key,)
    _refuse_numpy(parts)
    positions = [] if any(one is Ellipsis or one is None for one in parts) else range(len(parts))
    lengths = dict(zip(positions, array.shape, strict=False))
    raws = [one._raw if isinstance(one, ndarray) else one for one in parts]

    def now():
        return tuple(
            one % lengths[number] if isinstance(one, np.ndarray) and one.dtype != bool and number in lengths else one
            for number, one in enumerate(raws)
        )

    return now if late else now()


def _made(raw):
    """Return a new array with the numbers of one of NumPy's."""
    raw = np.asarray(raw)
    made = ndarray(raw.shape, raw.dtype)
    copy_raw(made._raw, raw)
    return made


def copy_raw(out, raw, where=True):
    """Enqueue a copy."""
    launch(lambda: np.copyto(out, raw, casting="unsafe", where=where))


def operand(value, name):
    """Return what may be an operand: an array, or a number; refuse NumPy's arrays."""
    if isinstance(value, ndarray | bool | int | float | complex | np.generic):
        return value
    raise TypeError(f"Unsupported type {type(value)}" + f" for {name}" * bool(name))


WEAK = {bool: "?", int: "l", float: "d", complex: "D"}
KINDS = {"?": 0, "b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


class ufunc:
    """A universal function, with the loops that CuPy's has."""

    def __init__(self, name, nin, nout, types):
        self.name = self.__name__ = name
        self.nin, self.nout, self.nargs, self.types = nin, nout, nin + nout, types
        self._loops = [tuple(one.split("->")) for one in types]
        self._known = {}
        self._numpy = getattr(np, name)

    def __repr__(self):
        return f"<ufunc 'cupy_{self.name}'>"

    def __call__(self, *args, out=None, dtype=None, casting="same_kind", **wrong):
        if wrong:
            raise TypeError(f"Wrong arguments {wrong}")
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(f"Wrong number of arguments for {self.name!r}: {len(args)}")
        outs = args[self.nin :]
        if out is not None:
            if outs:
                raise ValueError("Cannot specify 'out' as both a positional and keyword argument")
            outs = out if isinstance(out, tuple) else (out,)
        for one in outs:
            if one is not None and not isinstance(one, ndarray):
                raise TypeError(f"Unsupported type {type(one)} for out")
        ins = [operand(one, self.name) for one in args[: self.nin]]
        inner, results = self._loop(ins, dtype)
        given = [one for one in outs if one is not None]
        shape = np.broadcast_shapes(
            *(one.shape for one in ins if isinstance(one, ndarray)), *(one.shape for one in given)
        )
        for one, kind in zip(given, results, strict=False):
            if one.shape != shape:
                raise ValueError(f"Out shape is mismatched: {one.shape}, but the result has {shape}")
            if not np.can_cast(np.dtype(kind), one.dtype, casting):
                raise TypeError(
                    f"output (typecode '{kind}') could not be coerced to provided output parameter "
                    f"(typecode '{one.dtype.char}') according to the casting rule \"{casting}\""
                )
        made = given or [ndarray(shape, kind) for kind in results]
        raws = [
            one._raw if isinstance(one, ndarray) else np.dtype(kind).type(one)
            for one, kind in zip(ins, inner, strict=True)
        ]
        function, into = self._numpy, tuple(one._raw for one in made)

        def compute():
            some = [one if one.dtype.char == kind else one.astype(kind) for one, kind in zip(raws, inner, strict=True)]
            function(*some, out=into, casting="unsafe")

        launch(compute)
        return made[0] if self.nout == 1 else tuple(made)

    def _loop(self, ins, dtype):
        """Return the types of a loop: of what goes in, and of what comes out; by CuPy's rules."""
        if dtype is not None:
            kind = np.dtype(dtype).char
            for inner, results in self._loops:
                if set(results) == {kind}:
                    return inner, results
            raise TypeError(f"Wrong type ({kind}) of arguments for cupy_{self.name}")
        weak = [type(one) in WEAK for one in ins]
        kinds = tuple(WEAK[type(one)] if soft else one.dtype.char for one, soft in zip(ins, weak, strict=True))
        key = kinds, tuple(weak)
        if key not in self._known:
            self._known[key] = self._found(kinds, weak)
        return self._known[key]

    def _found(self, kinds, weak):
        ranks = [KINDS[np.dtype(kind).kind] for kind in kinds]
        arrays = [rank for rank, soft in zip(ranks, weak, strict=True) if not soft]
        numbers = [rank for rank, soft in zip(ranks, weak, strict=True) if soft]
        if not arrays or not numbers or max(arrays) < max(numbers):
            weak = [False] * len(kinds)
        for inner, results in self._loops:
            if all(_fits(kind, to, soft) for kind, to, soft in zip(kinds, inner, weak, strict=True)):
                return inner, results
        raise TypeError(f"Wrong type ({kinds}) of arguments for cupy_{self.name}")

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        if self.name in ("add", "multiply"):
            return getattr(array, {"add": "sum", "multiply": "prod"}[self.name])(axis, dtype, out, keepdims)
        raise NotImplementedError(f"`cupy_{self.name}.reduce` is not supported yet")

    def at(self, a, indices, b=None):
        raise NotImplementedError(f"the stand-in for CuPy has no {self.name}.at: add it to tests/standin")


def _fits(kind, to, soft):
    if np.can_cast(kind, to):
        return True
    return soft and KINDS[np.dtype(kind).kind] <= KINDS[np.dtype(to).kind] and to != "?"


UFUNCS = {
    name: ufunc(name, *given)
    for name, given in INTERFACE["ufuncs"].items()
    if isinstance(getattr(np, name, None), np.ufunc)
}

_FORMS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}


def _binary(function):
    def forward(self, other):
        return NotImplemented if isinstance(other, np.ndarray) else function(self, other)

    def backward(self, other):
        return NotImplemented if isinstance(other, np.ndarray) else function(other, self)

    def in_place(self, other):
        return function(self, other, out=self)

    return forward, backward, in_place


for _form, _name in _FORMS.items():
    _three = _binary(UFUNCS[_name])
    for _prefix, _method in zip(("", "r", "i"), _three, strict=True):
        setattr(ndarray, f"__{_prefix}{_form}__", _method)
for _form, _name in _COMPARISONS.items():
    setattr(ndarray, f"__{_form}__", _binary(UFUNCS[_name])[0])
for _form, _name in {"neg": "negative", "abs": "absolute", "invert": "invert", "pos": "positive"}.items():
    if _name in UFUNCS:
        setattr(ndarray, f"__{_form}__", lambda self, _function=UFUNCS[_name]: _function(self))
