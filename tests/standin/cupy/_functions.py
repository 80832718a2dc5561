"""CuPy's functions: those that nacre needs inside of passes one by one, all others by NumPy's of the same name."""

from __future__ import annotations

import functools
import operator

import numpy as np

from ._arrays import ATTRIBUTES, UFUNCS, copy_raw, ndarray, operand
from ._interface import INTERFACE
from ._machine import implicit, launch, machine, no_library, wait

VIEWS = {
    *("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "diagonal", "expand_dims"),
    *("moveaxis", "ravel", "reshape", "rollaxis", "split", "squeeze", "swapaxes", "transpose"),
}
"""Functions that return views, if they can."""


def bound(name, function):
    """Return a function that takes the arguments that CuPy's of this name takes, and no others."""
    parameters = INTERFACE["functions"][name]
    names = [one.rstrip("=") for one in parameters if not one.startswith("*")]
    if "*" in parameters:
        names = names[: parameters.index("*")]
    known = {one.rstrip("=") for one in parameters if not one.startswith("*")}
    anything = any(one.startswith("**") for one in parameters)
    many = any(one.startswith("*") and not one.startswith("**") and one != "*" for one in parameters)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if len(args) > len(names) and not many:
            raise TypeError(f"{name}() takes {len(names)} positional arguments but {len(args)} were given")
        for key in kwargs:
            if key not in known and not anything:
                raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
        return function(*args, **kwargs)

    return call


def array_like(value, name):
    """Refuse what is no array of the device."""
    if not isinstance(value, ndarray):
        raise TypeError(f"Unsupported type {type(value)} for {name}")
    return value


# Arrays


def empty(shape, dtype=float, order="C"):
    return ndarray(shape, dtype, order=order)


def full(shape, fill_value, dtype=None, order="C"):
    made = ndarray(shape, np.dtype(dtype) if dtype is not None else np.array(fill_value).dtype, order=order)
    made.fill(fill_value)
    return made


def zeros(shape, dtype=float, order="C"):
    return full(shape, 0, dtype, order)


def ones(shape, dtype=float):
    return full(shape, 1, dtype)


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None):
    return ndarray(prototype.shape if shape is None else shape, dtype or prototype.dtype)


def zeros_like(a, dtype=None, order="K", subok=None, shape=None):
    return zeros(a.shape if shape is None else shape, dtype or a.dtype)


def ones_like(a, dtype=None, order="K", subok=None, shape=None):
    return ones(a.shape if shape is None else shape, dtype or a.dtype)


def full_like(a, fill_value, dtype=None, order="K", subok=None, shape=None):
    return full(a.shape if shape is None else shape, fill_value, dtype or a.dtype)


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    if isinstance(obj, ndarray):
        return obj.astype(dtype or obj.dtype, copy=bool(copy))
    host = np.array(obj, dtype=dtype, ndmin=ndmin)
    made = ndarray(host.shape, host.dtype)
    made.set(host)
    return made


def asarray(a, dtype=None, order=None, *, blocking=False):
    return array(a, dtype, copy=False)


def ascontiguousarray(a, dtype=None):
    same = isinstance(a, ndarray) and a.flags.c_contiguous and (dtype is None or a.dtype == dtype)
    return a if same else array(a, dtype)


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get() if isinstance(a, ndarray) else np.asarray(a)


def arange(start, stop=None, step=1, dtype=None):
    host = np.arange(start, dtype=dtype) if stop is None else np.arange(start, stop, step, dtype)
    made = ndarray(host.shape, host.dtype)
    copy_raw(made._raw, host)
    return made


def copyto(dst, src, casting="same_kind", where=None):
    array_like(dst, "copyto")
    if isinstance(src, ndarray):
        if not np.can_cast(src.dtype, dst.dtype, casting):
            raise TypeError(f"Cannot cast {src.dtype} to {dst.dtype} in {casting} casting mode")
        if np.broadcast_shapes(src.shape, dst.shape) != dst.shape:
            raise ValueError(f"could not broadcast input array from shape {src.shape} into shape {dst.shape}")
        given = src._raw
    elif isinstance(src, bool | int | float | complex):
        np.copyto(np.empty((), dst.dtype), src, casting=casting)
        given = src
    else:
        operand(src, "copyto")
        given = src.item()
    if where is not None and array_like(where, "where").dtype != bool:
        raise TypeError(
            f"Cannot cast array data from {where.dtype!r} to {np.dtype(bool)!r} according to the rule 'safe'"
        )
    copy_raw(dst._raw, given, True if where is None else where._raw)


# Reductions


def reduction(name, result):
    """Return a reduction; `result` returns the type of its result for that of its operand."""
    of_numpy = getattr(np, name)
    takes = INTERFACE["functions"][name]

    def reduce(a, axis=None, dtype=None, out=None, keepdims=False):
        array_like(a, name)
        if out is not None and name in ("max", "min", "amax", "amin"):
            raise TypeError(f"{name}: 14.2 takes `out` for the dtype where CUB computes")
        kind = np.dtype(dtype) if dtype is not None else result(a.dtype)
        shape = of_numpy(np.broadcast_to(np.ones((), a.dtype), a.shape), axis=axis, keepdims=keepdims).shape
        made = ndarray(shape, kind) if out is None else array_like(out, name)
        if made.shape != shape:
            raise ValueError(f"Out shape is mismatched: {made.shape}, but the result has {shape}")
        if out is not None and np.may_share_memory(out._raw, a._raw):
            raise ValueError(f"{name}: out shares memory with what is read")
        raw, into = a._raw, made._raw
        named = {"axis": axis, "keepdims": keepdims, **({"dtype": kind} if name in ("sum", "prod", "mean") else {})}
        launch(lambda: np.copyto(into, of_numpy(raw, **named), casting="unsafe"))
        return made

    def without_dtype(a, axis=None, out=None, keepdims=False):
        return reduce(a, axis, None, out, keepdims)

    return reduce if "dtype=" in takes and name not in ("argmax", "argmin") else without_dtype


def summed(kind):
    return np.sum(np.zeros(1, kind)).dtype


def averaged(kind):
    return np.mean(np.zeros(1, kind)).dtype


REDUCTIONS = {
    "sum": summed,
    "prod": summed,
    "mean": averaged,
    "max": np.dtype,
    "min": np.dtype,
    "amax": np.dtype,
    "amin": np.dtype,
    "all": lambda _: np.dtype(bool),
    "any": lambda _: np.dtype(bool),
    "argmax": lambda _: np.dtype(np.int64),
    "argmin": lambda _: np.dtype(np.int64),
}


def count_nonzero(a, axis=None):
    array_like(a, "count_nonzero")
    return REDUCED["sum"](a != 0, axis=axis)


# Products: CuPy gives them to cuBLAS


def product(name):
    of_numpy = getattr(np, name)

    def multiply(a, b, out=None, **kwargs):
        kwargs.pop("casting", None)
        if kwargs:
            raise TypeError(f"{name}() got unexpected keyword arguments {sorted(kwargs)}")
        array_like(a, name), array_like(b, name)
        no_library("cuBLAS")
        dummies = (np.broadcast_to(np.ones((), one.dtype), one.shape) for one in (a, b))
        like = (
            of_numpy(*dummies) if a.size and b.size else of_numpy(*(np.zeros(one.shape, one.dtype) for one in (a, b)))
        )
        like = np.asarray(like)
        made = ndarray(like.shape, like.dtype) if out is None else array_like(out, name)
        if made.shape != like.shape:
            raise ValueError(f"Output array has an invalid shape {made.shape}, but the result has {like.shape}")
        if not np.can_cast(like.dtype, made.dtype, "same_kind"):
            raise TypeError(f"{name}: {like.dtype} cannot be cast to {made.dtype}")
        first, second, into = a._raw, b._raw, made._raw
        launch(lambda: np.copyto(into, of_numpy(first, second)))
        return made

    return multiply


# Choices


def take(a, indices, axis=None, out=None):
    array_like(a, "take")
    if not isinstance(indices, int):
        array_like(indices, "take")
    places = indices._raw if isinstance(indices, ndarray) else np.asarray(indices)
    shape = places.shape if axis is None else (*a.shape[:axis], *places.shape, *a.shape[axis % a.ndim + 1 :])
    made = ndarray(shape, a.dtype) if out is None else array_like(out, "take")
    if made.dtype != a.dtype:
        raise TypeError("Output dtype mismatch")
    if made.shape != shape:
        raise ValueError("Output shape mismatch")
    raw, into = a._raw, made._raw
    launch(lambda: np.copyto(into, np.take(raw, places, axis=axis, mode="wrap")))
    return made


def clip(a, a_min, a_max, out=None):
    array_like(a, "clip")
    kind = np.result_type(a.dtype, *(one.dtype for one in (a_min, a_max) if isinstance(one, ndarray | np.generic)))
    made = ndarray(a.shape, kind) if out is None else array_like(out, "clip")
    low, high = (operand(one, "clip") if one is not None else None for one in (a_min, a_max))
    low, high = (one._raw if isinstance(one, ndarray) else one for one in (low, high))
    raw, into = a._raw, made._raw
    launch(lambda: np.copyto(into, np.clip(raw, low, high), casting="same_kind"))
    return made


def where(condition, x=None, y=None):
    array_like(condition, "where")
    if x is None:
        implicit("where() of one argument, which counts")
        return tuple(map(array, np.where(condition._raw)))
    some = [operand(one, "where") for one in (x, y)]
    shape = np.broadcast_shapes(condition.shape, *(one.shape for one in some if isinstance(one, ndarray)))
    kind = np.result_type(*(one.dtype if isinstance(one, ndarray) else one for one in some))
    made, truths = ndarray(shape, kind), condition._raw
    first, second = (one._raw if isinstance(one, ndarray) else one for one in some)
    into = made._raw
    launch(lambda: np.copyto(into, np.where(truths, first, second), casting="unsafe"))
    return made


# All others


def by_numpy(name):
    """Return CuPy's function of a name, computed by NumPy's."""
    of_numpy = getattr(np, name, None)

    def call(*args, **kwargs):
        if of_numpy is None:
            raise NotImplementedError(f"the stand-in for CuPy has no {name}: add it to tests/standin")
        if name not in VIEWS:
            if machine.capturing:
                raise NotImplementedError(f"the stand-in for CuPy computes {name}() at once, which no capture can have")
            wait()
        arrays = []
        given, named = _inside(args, arrays), _inside(kwargs, arrays)
        found = of_numpy(*given, **named)
        return _outside(found, arrays)

    call.__name__ = name
    return call


def _inside(value, arrays):
    if isinstance(value, ndarray):
        arrays.append(value)
        return value._raw
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, tuple | list):
        return type(value)(_inside(one, arrays) for one in value)
    if isinstance(value, dict):
        return {key: _inside(one, arrays) for key, one in value.items()}
    return value


def _outside(value, arrays):
    if isinstance(value, tuple | list):
        return type(value)(_outside(one, arrays) for one in value)
    if not isinstance(value, np.ndarray | np.generic | int | float | bool):
        return value
    for one in arrays:
        if isinstance(value, np.ndarray) and value.size and np.may_share_memory(value, one._raw):
            return one._view(value)
    return array(value)


OWN = {
    one.__name__: one
    for one in (
        *(empty, full, zeros, ones, empty_like, zeros_like, ones_like, full_like, array, asarray, ascontiguousarray),
        *(asnumpy, arange, copyto, take, clip, where, count_nonzero),
    )
}
REDUCED = {name: reduction(name, result) for name, result in REDUCTIONS.items()}
PRODUCTS = {name: product(name) for name in ("dot", "matmul")}


def find(name):
    """Return a function of CuPy's by its name, or None."""
    if name in UFUNCS:
        return UFUNCS[name]
    if name == "matmul":
        return PRODUCTS[name]
    if name not in INTERFACE["functions"]:
        return None
    return bound(name, OWN.get(name) or REDUCED.get(name) or PRODUCTS.get(name) or by_numpy(name))


for _name in (*REDUCED, "take", "clip", "dot"):
    if _name in ATTRIBUTES:
        setattr(ndarray, _name, find(_name))
for _name in ("argsort", "cumsum", "cumprod", "nonzero", "repeat", "round", "trace", "std", "var"):
    if _name in ATTRIBUTES:
        setattr(ndarray, _name, by_numpy(_name))
ndarray.__matmul__ = lambda self, other: PRODUCTS["matmul"](self, other)
ndarray.__divmod__ = lambda self, other: (operator.floordiv(self, other), operator.mod(self, other))
