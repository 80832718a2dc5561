"""Blob: what a state declares in `setup`, before the net has decided where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

from ..errors import BlobError
from .part import Box

MOST_AXES = 32
"""What every NumPy can hold; Caffe's limit too."""


class Blob:
    """A declared array: it has a shape and a type, and no memory before `ready`.

    `of` is the blob whose memory this one reads under another shape (`backend.alias`), or None. `fed_by` is the state
    of a source, if the rows of an input are its records; a state that keeps the rows hands it on: `blob.fed_by =
    inputs[0].fed_by`.

    Where a net is divided among ranks, `box` says which part of the whole net's blob an input is: random numbers are
    drawn for this part of the whole. Elsewhere it is None.
    """

    fed_by: Any = None  # a SourceState, or None
    box: Box | None = None

    def __init__(self, shape: Sequence[int], dtype: str, of: Blob | None = None) -> None:
        try:
            self.shape = tuple(index(length) for length in shape)
        except TypeError:
            raise BlobError(f"a blob cannot have the shape {shape!r}; it must be a tuple of whole numbers") from None
        self.dtype = dtype
        self.of = of
        if min(self.shape, default=1) < 1:
            raise BlobError(f"a blob of shape {self.shape} is empty; every axis must be 1 or longer")
        if len(self.shape) > MOST_AXES:
            raise BlobError(f"a blob of {len(self.shape)} axes cannot be made; it may have {MOST_AXES} at most")
        if of is not None and self.size != of.size:
            message = f"shape {self.shape} has {self.size} elements, but the blob of shape {of.shape} has {of.size}"
            raise BlobError(message)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array"):
            raise AttributeError(name)
        raise BlobError(f"a declared blob has no '{name}': it has no memory before ready(), only shape and dtype")

    def _untouchable(self, *_: Any) -> Any:
        raise BlobError(f"a declared blob of shape {self.shape} was used, but it has no memory before ready()")

    __array__ = __getitem__ = __setitem__ = __iter__ = __len__ = __float__ = __int__ = __neg__ = __abs__ = _untouchable
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __pow__ = __mod__ = __matmul__ = _untouchable
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rpow__ = __rmod__ = __rmatmul__ = _untouchable
    __lt__ = __le__ = __gt__ = __ge__ = _untouchable

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Blob({' x '.join(map(str, self.shape))}, {self.dtype})"
