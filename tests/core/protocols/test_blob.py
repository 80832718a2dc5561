from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import Blob, BlobError
from nacre.protocols.backend import HostMemory
from nacre.protocols.view import Scalars, View


def test_a_declared_blob_has_shape_and_type() -> None:
    blob = Blob((2, np.int64(3), 4), "float32")  # type: ignore[arg-type]
    assert (blob.shape, blob.ndim, blob.size, blob.dtype) == ((2, 3, 4), 3, 24, "float32")
    assert type(blob.shape[1]) is int
    assert repr(blob) == "Blob(2 x 3 x 4, float32)"
    assert bool(blob)
    assert Blob((), "int64").size == 1


@pytest.mark.parametrize("shape", [(0,), (2, 0), (2, -1)])
def test_an_axis_is_1_or_longer(shape: tuple[int, ...]) -> None:
    with pytest.raises(BlobError, match="is empty; every axis must be 1 or longer"):
        Blob(shape, "float32")


def test_an_alias_has_as_many_elements() -> None:
    blob = Blob((2, 6), "float32")
    alias = Blob((2, 2, 3), "float32", blob)
    assert alias.of is blob
    with pytest.raises(BlobError, match=r"\(2, 5\) .* 10 .*\(2, 6\) .*12"):
        Blob((2, 5), "float32", blob)


@pytest.mark.parametrize("name", ["reshape", "T", "sum", "nbytes", "flags"])
def test_what_memory_would_have(name: str) -> None:
    with pytest.raises(BlobError, match=f"'{name}'.* before ready"):
        getattr(Blob((2,), "float32"), name)


def view() -> View:
    return View(HostMemory(), phase="train", dtype="float64", seed=0, scalars=Scalars())


def test_a_view_declares_blobs_of_the_nets_type() -> None:
    assert view().blob([2, 3]).dtype == "float64"
    kinds: list[Any] = ["float32", np.float32, np.dtype("f4")]
    assert {view().blob((2,), kind).dtype for kind in kinds} == {"float32"}


def test_a_view_makes_aliases_of_inputs_only() -> None:
    blob = Blob((2, 3), "int64")
    same, other = view().alias(blob), view().alias(blob, (6,))
    assert (same.shape, same.dtype, same.of) == ((2, 3), "int64", blob)
    assert other.shape == (6,)
    array: Any = np.zeros(3)
    with pytest.raises(BlobError, match=r"alias\(\) .*ndarray"):
        view().alias(array)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (17, 3, 2)])
def test_host_memory_is_aligned_and_zero(shape: tuple[int, ...], dtype: str) -> None:
    array = HostMemory().empty(shape, dtype)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.ctypes.data % 64 == 0
    assert not array.any()
    assert array.flags.c_contiguous


def test_scalars_are_memory_with_names() -> None:
    scalars = Scalars()
    scalars.declare("scale", 2.0)
    scalars.declare("scale", 3.0)
    assert (scalars["scale"], scalars["step"]) == (2.0, 0.0)
    scalars["scale"] = 5
    assert scalars.values[scalars.place("scale")] == 5
    with pytest.raises(KeyError):
        scalars["rte"] = 1


def test_a_blob_has_no_more_axes_than_numpy_can_hold() -> None:
    assert Blob((1,) * 32, "float32").ndim == 32
    with pytest.raises(BlobError, match=r"a blob of 33 axes .* 32 at most"):
        Blob((1,) * 33, "float32")
