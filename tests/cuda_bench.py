"""A kernel of the cupy backend beside the layer's own state, both on the same numbers, without a net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_on_host import ShimBackend, from_bits, get, laid, on_gpu, put, steps_apart, to_bits
from nacre import HostMemory, Own
from nacre.protocols.view import Scalars, View
from nacre_cupy.kernels.launch import is_image

CLOSE = {"float32": 1e-6, "float64": 1e-14}
"""How far a number of a kernel may be from that of the layer's own state, relative to it and to the largest one."""


class Declared(Own):
    """A blob that is none of a source's, and whole; unlike a net's it may have no rows."""

    fed_by = box = None


class Side:
    """A state that is set up by hand: the layer's own, or a kernel's."""

    def __init__(
        self,
        backend: Any,
        dtype: str,
        phase: str,
        seed: int,
        rows: int | None,
        step: int,
        ranks: tuple[int, int] = (0, 1),
    ) -> None:
        self.backend = backend
        self.scalars = Scalars()
        plain = "float64" if dtype == "float64" else "float32"
        where = {"rank": ranks[0], "ranks": ranks[1]}
        self.view = View(backend, phase=phase, dtype=plain, compute=dtype, seed=seed, scalars=self.scalars, **where)
        self.scalars["step"] = step
        self.scalars["rows"] = 1e9 if rows is None else rows

    def prepare(self, state: Any) -> None:
        """Give the state's parameters memory and values, if it has any."""

    def between(self, state: Any) -> None:
        """Look at what forward has left."""


class OwnSide(Side):
    """The layer's own state, on NumPy's arrays."""

    def run(self, layer: Any, arrays: Sequence[Any], wanted: Sequence[int], gradients: Any) -> None:
        diffs = [np.full_like(one, np.nan) if index in wanted else None for index, one in enumerate(arrays)]
        declared = [Declared(one.shape, str(one.dtype)) for one in arrays]
        self.state = state = layer.setup(self.view, declared, diffs)
        state.blobs = [np.zeros(one.shape, one.dtype) for one in state.blobs]
        state.intermediates = [np.zeros(one.shape, one.dtype) for one in state.intermediates]
        state.blobs_diff = gradients([one.shape for one in state.blobs])
        self.prepare(state)
        state.ready()
        state.forward(list(arrays))
        self.between(state)
        for one in state.blobs:
            one[...] = rounded(one, self.view.compute)  # as a net keeps them
        self.tops, self.diffs = state.blobs, diffs
        if wanted:
            state.backward(list(arrays), diffs)


class KernelSide(Side):
    """A kernel, on the arrays of `ShimBackend`, whose floating ones of images may lie with the channels last."""

    def run(self, layer: Any, kernel: type, arrays: Sequence[Any], wanted: Sequence[int], gradients: Any) -> None:
        dtype = self.view.compute

        def own(shape: Sequence[int], kind: str, array: Any = None) -> Own:
            kind = dtype if "float" in kind else kind
            blob = Declared(tuple(shape), kind)
            last = self.backend.last and is_image(shape) and kind == dtype
            blob.layout = "channels last" if last else "plain"
            blob.memory = self.backend.empty(laid(blob, shape), "uint16" if kind == "bf16" else kind)
            if array is not None:
                put(array, blob)
            elif "int" not in kind:
                put(np.full(shape, np.nan, np.float32), blob)
            return blob

        declared = [Declared(one.shape, str(one.dtype)) for one in arrays]
        assert (reason := kernel.supports(layer, declared)) is None, reason  # type: ignore[attr-defined]
        inputs = [own(one.shape, str(one.dtype), one) for one in arrays]
        diffs = [own(one.shape, str(one.dtype)) if index in wanted else None for index, one in enumerate(arrays)]
        narrow = [one for one in (*inputs, *diffs) if one is not None and one.dtype == "bf16"]
        for one in narrow:
            one.dtype = "float32"  # as in a net, until it knows who reads it
        self.state = state = kernel(layer, self.view, inputs, diffs)
        for one in narrow:
            one.dtype = "bf16"
        state.blobs = [own(one.shape, one.dtype) for one in state.blobs]
        state.intermediates = [self.backend.empty(one.shape, one.dtype) for one in state.intermediates]
        state.blobs_diff = [
            None if one is None else own(one.shape, str(one.dtype), one)
            for one in gradients([one.shape for one in state.blobs])
        ]
        self.prepare(state)
        state.ready()
        state.forward(inputs)
        if wanted:
            state.backward(inputs, diffs)
        self.tops = [get(one) for one in state.blobs]
        self.diffs = [None if one is None else get(one) for one in diffs]
        self.backend.check_guards()


def rounded(array: Any, dtype: str) -> Any:
    """Return an array as a net of this type has it; numbers of bf16 as float32."""
    if array.dtype.kind != "f":
        return array
    return from_bits(to_bits(array)) if dtype == "bf16" else array.astype(dtype)


def check(
    layer: Any,
    kernel: type,
    arrays: Sequence[Any],
    dtype: str,
    *,
    last: bool = False,
    phase: str = "train",
    wanted: Sequence[int] | None = None,
    rows: int | None = None,
    steps: int = 1,
    close: float | None = None,
    each: bool = False,
    step: int = 3,
    ranks: tuple[int, int] = (0, 1),
) -> tuple[KernelSide, OwnSide]:
    """Check tops, loss and gradients of a kernel against the layer's own state; return both.

    Floating numbers may differ by `CLOSE` (or `close`), those of bf16 by so many `steps` from number to number; all
    others must be equal, and those that are not finite at the same places. With `each`, the largest number does not
    count, but only the one that is compared. `ranks` are the rank and the number of them.
    """
    given = [rounded(one, dtype) for one in arrays]
    wanted = [index for index, one in enumerate(given) if one.dtype.kind == "f"] if wanted is None else wanted

    def gradients(shapes: Sequence[Any]) -> list[Any]:
        random = np.random.default_rng(5)
        return [rounded(random.normal(size=shape).astype(np.float64), dtype) for shape in shapes]

    options = (dtype, phase, 7, rows, step, ranks)
    fast, own = KernelSide(ShimBackend(last), *options), OwnSide(HostMemory.shared(), *options)
    with np.errstate(all="ignore"):
        own.run(layer, given, wanted, gradients)
    fast.run(layer, kernel, given, wanted, gradients)
    if layer.has_loss:
        near(np.array(fast.state.loss), np.array(float(own.state.loss)), "float32", "loss", 0, close)
    for what, ours, theirs in (("top", fast.tops, own.tops), ("gradient", fast.diffs, own.diffs)):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if other is not None:
                near(one, other, dtype, f"{what} {index}", steps, close, each)
    return fast, own


def without_denormals(array: Any) -> Any:
    """Return an array with 0 for what is tiny: CuPy lets a GPU take the numbers that lack digits of float32 for 0."""
    array = np.asarray(array)
    return np.where(np.abs(array) < TINY, np.zeros_like(array), array) if array.dtype == np.float32 else array


TINY = 1e-30
"""Beside which what is lost of float32's smallest numbers, between or at the end, is nothing."""


def near(
    one: Any, other: Any, dtype: str, what: str, steps: int = 1, close: float | None = None, each: bool = False
) -> None:
    """Check that two arrays are as near as `check` says."""
    assert one.shape == other.shape
    if on_gpu() and other.dtype.kind == "f":
        one, other = without_denormals(one), without_denormals(other)
    if other.dtype.kind != "f":
        assert (one == other).all(), f"{what}: {int((one != other).sum())} of {one.size} numbers differ"
    elif dtype == "bf16":
        apart = steps_apart(one, rounded(other, "bf16"))
        if close:  # beside the largest number the last digits of small ones are roundings
            with np.errstate(all="ignore"):
                apart[np.abs(one - other) <= close * np.abs(other).max(initial=0, where=np.isfinite(other))] = 0
        assert not one.size or apart.max() <= steps, f"{what}: {int(apart.max())} numbers of bf16 apart"
    else:
        ours, theirs = (np.asarray(array, np.float64) for array in (one, other))
        tolerance, size = close or CLOSE[dtype], np.abs(np.where(np.isfinite(theirs), theirs, 0))
        allowed = tolerance * size + (0 if each else tolerance * size.max(initial=0))
        with np.errstate(all="ignore"):
            fits = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)) | (np.abs(ours - theirs) <= allowed)
        if not fits.all():
            first = int(np.argmin(fits))
            numbers = f"such as {ours.flat[first]:.9g} instead of {theirs.flat[first]:.9g}"
            raise AssertionError(f"{what}: {int((~fits).sum())} of {fits.size} numbers differ, {numbers}")
