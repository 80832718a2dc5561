"""The cupy backend's Concat, Slice and Transpose, on the processor, against the layers' own states."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cupy_standin
import nacre
from cuda_bench import check
from cuda_on_host import ShimBackend, missing
from nacre import L, Net, Own
from nacre_cupy.kernels.moves import ConcatKernel, SliceKernel, TransposeKernel, turned
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.slice import SliceLayer
from nacre_layers.shapes.transpose import TransposeLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]
JOINED: list[tuple[int, list[tuple[int, ...]]]] = [
    (1, [(2, 8, 5, 6), (2, 16, 5, 6), (2, 8, 5, 6)]),
    (1, [(2, 3, 4, 5), (2, 1, 4, 5)]),  # one of which lies in C order
    (1, [(3, 4, 1, 1), (3, 5, 1, 1)]),
    (2, [(2, 3, 4, 5), (2, 3, 1, 5)]),
    (2, [(2, 3, 1, 1), (2, 3, 2, 1)]),
    (-1, [(2, 8, 4, 5), (2, 8, 4, 16)]),
    (1, [(2, 8, 2, 3, 4), (2, 24, 2, 3, 4)]),
    (-2, [(2, 3, 2, 3, 4), (2, 3, 2, 1, 4)]),
    (1, [(700, 8), (700, 3)]),
    (1, [(5, 12), (5, 20)]),  # packs of four numbers of bf16
    (1, [(5, 2), (5, 6)]),
    (-1, [(2, 5, 64), (2, 5, 8)]),
    (1, [(2, 5, 7), (2, 1, 7), (2, 2, 7)]),
    (1, [(2, 3)]),
]
last = pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@last
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("axis", "shapes"), JOINED)
def test_parts_are_joined_and_cut(axis: int, shapes: list[tuple[int, ...]], dtype: str, last: bool) -> None:
    names = [f"x{number}" for number in range(len(shapes))]
    arrays = [numbers(shape, seed) for seed, shape in enumerate(shapes)]
    joined: Any = ConcatLayer(name="both", bottoms=names, tops="y", axis=axis)
    check(joined, ConcatKernel, arrays, dtype, last=last, steps=0)
    check(joined, ConcatKernel, arrays, dtype, last=last, steps=0, wanted=[len(shapes) - 1])
    points = np.cumsum([shape[axis] for shape in shapes])[:-1].tolist()
    cut: Any = SliceLayer(name="parts", bottoms="y", tops=names, axis=axis, points=points)
    check(cut, SliceKernel, [np.concatenate(arrays, axis)], dtype, last=last, steps=0)


def test_batches_and_whole_numbers_are_left_to_the_layers() -> None:
    layer: Any = ConcatLayer(name="both", bottoms=["a", "b"], tops="y", axis=0)
    assert "axis=0" in str(ConcatKernel.supports(layer, [Own((2, 3), "float32")] * 2))
    layer = ConcatLayer(name="both", bottoms=["a", "b"], tops="y", axis=-2)
    assert "axis=0" in str(ConcatKernel.supports(layer, [Own((2, 3), "float32")] * 2))
    assert "floating" in str(ConcatKernel.supports(layer, [Own((2, 3, 4), "int64")] * 2))
    assert ConcatKernel.supports(layer, [Own((2, 3, 4), "float32")] * 2) is None


ORDERS = [(2, 3, 4), (1, 3, 1), (3, 1, 1), (1, 1, 2)]


@last
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(3, 40, 33), *((2, *one) for one in ORDERS), (2, 3, 1, 4, 2), (5, 6), (1, 1, 1)])
def test_axes_in_another_order(shape: tuple[int, ...], dtype: str, last: bool) -> None:
    for order in permutations(range(1, len(shape))):
        layer: Any = TransposeLayer(name="turned", bottoms="x", tops="y", axes=order)
        check(layer, TransposeKernel, [numbers(shape)], dtype, last=last, steps=0)


def test_labels_and_words_are_not_rounded() -> None:
    """In a net in bf16 what no kernel has written is copied as it is: labels and numbers of words, too."""
    x, both = nacre.Input((8,), name="x", batch_size=4), nacre.Input((2,), name="both", batch_size=4)
    words = nacre.Input((3, 2), name="words", batch_size=4)
    label, wanted = L.Slice(name="cut")(both, tops=2)
    hidden = L.InnerProduct(output_dim=1000)(x)
    losses = [
        L.SoftmaxLoss()(hidden, label),
        L.SquareLoss()(L.InnerProduct(output_dim=1)(x), wanted),
        L.SumLoss()(L.Embedding(input_dim=1000, output_dim=4)(L.Transpose(name="turned")(words))),
        L.SumLoss()(L.Concat(name="joined")(both, both)),
    ]
    with cupy_standin.installed():
        keep = ["cut_0", "cut_1", "turned", "joined"]
        with Net("odd", losses, backend=cupy_standin.watched()(), compute="bf16", keep=keep) as net:
            pairs = np.array([[257, 1001.5], [511, 3], [999, 513.25], [701, 100.3]], np.float32)
            numbers = np.arange(970, 994).reshape(4, 3, 2)
            for name, array in (("x", np.ones((4, 8))), ("both", pairs), ("words", numbers)):
                net.write(name, array)
            net.forward()
            np.testing.assert_array_equal(np.stack([net.blob("cut_0"), net.blob("cut_1")], 1).reshape(4, 2), pairs)
            np.testing.assert_array_equal(net.blob("turned"), numbers.transpose(0, 2, 1))
            np.testing.assert_array_equal(net.blob("joined"), np.concatenate([pairs, pairs], 1))


@pytest.mark.parametrize("compute", ["float32", "bf16"])
def test_what_lies_in_c_order_is_copied_in_it(compute: str) -> None:
    """Between layers without kernels nothing is put into another order and back."""
    x = nacre.Input((3, 8), name="x", batch_size=2)
    heads = L.Transpose(axes=[2, 1, 3], name="heads")(L.Reshape(shape=[3, 2, 4])(x))
    ends = [L.SumLoss()(L.MatMul(transpose_b=True)(heads, heads))]
    with cupy_standin.installed():
        where: Any = {"backend": cupy_standin.watched()(), "compute": compute, "insert_splits": True}
        with Net("heads", ends, input_gradients=["x"], **where) as net:
            names = [step.name for step in net.steps("forward")]  # a copy would be a step of the layer's name
            assert names == ["reshape1", "heads", "mat_mul1", "sum_loss1"]


def test_a_part_that_no_loss_reads_has_a_gradient_of_0() -> None:
    layer: Any = SliceLayer(name="cut", bottoms="x", tops=["a", "b"])
    kernel, backend = object.__new__(SliceKernel), ShimBackend()
    whole, one = Own((2, 6), "float32"), Own((2, 3), "float32")
    for blob in (whole, one):
        blob.layout, blob.memory = "plain", backend.empty(blob.shape, blob.dtype)
        blob.memory.fill(7)
    kernel.layer, kernel.backend, kernel.blobs, kernel.blobs_diff = layer, backend, [one, one], [None, one]
    kernel.backward([whole], [whole])
    np.testing.assert_array_equal(whole.memory, [[0, 0, 0, 7, 7, 7]] * 2)


@given(st.data())
def test_as_few_axes_describe_the_same_copy(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    order = data.draw(st.permutations(range(len(shape))))
    array = np.arange(np.prod(shape)).reshape(shape)
    sizes, places = turned(shape, order)
    assert len(sizes) <= max(3, sum(size > 1 for size in shape))
    np.testing.assert_array_equal(array.reshape(sizes).transpose(places).ravel(), array.transpose(order).ravel())
    back = [places.index(axis) for axis in range(len(places))]
    there = array.transpose(order).reshape([sizes[axis] for axis in places])
    np.testing.assert_array_equal(there.transpose(back).ravel(), array.ravel())
