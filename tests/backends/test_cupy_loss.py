"""The cupy backend's SoftmaxLoss, on the processor, against the layer's own state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import KernelSide, check
from cuda_on_host import ShimBackend, missing
from nacre import DataError, Own
from nacre_cupy.kernels.launch import NUMBERS
from nacre_cupy.kernels.loss import SoftmaxLossKernel
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((7, 10), 1),
    ((130, 3), 1),
    ((3, 1000), 1),
    ((1, 1), 1),
    ((2, 5, 7, 9), 1),  # a label for each pixel
    ((2, 5, 3, 2, 4), 1),
    ((4, 6, 16), -1),  # and for each step
]


def test_labels_that_lie_otherwise_are_declined() -> None:
    """Floating labels of five axes have their channels last where the scores, of six, have not."""
    layer, scores, shape = loss(axis=2), Own((1, 2, 2, 1, 2, 1), "float64"), (1, 2, 1, 2, 1)
    assert SoftmaxLossKernel.supports(layer, [scores, Own(shape, "int64")]) is None
    assert "in C order" in str(SoftmaxLossKernel.supports(layer, [scores, Own(shape, "float64")]))
    assert "channels of images" in str(SoftmaxLossKernel.supports(layer, [Own((1, 2, 2, 1, 2), "float64")]))


def loss(count: int = 2, **fields: Any) -> SoftmaxLossLayer:
    return SoftmaxLossLayer(name="loss", bottoms=["x", "label", "weight"][:count], **fields)


def scores(shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    labels = random.integers(0, shape[axis], [length for n, length in enumerate(shape) if n != axis % len(shape)])
    return random.normal(size=shape) * 3, labels


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_loss(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    x, labels = scores(shape, axis)
    for normalize in ("valid", "full", "batch", "none"):
        for fields in ({}, {"ignore_label": 0, "weight": 0.5}, {"ignore_label": -7}, {"label_smoothing": 0.1}):
            for rows in (None, 1):
                layer = loss(axis=axis, normalize=normalize, **fields)
                check(layer, SoftmaxLossKernel, [x, labels], dtype, rows=rows, last=normalize == "full")


@pytest.mark.parametrize("dtype", KINDS)
def test_no_row_that_counts(dtype: str) -> None:
    x, labels = scores((7, 12), 1)
    for normalize in ("valid", "none"):
        fast, _ = check(loss(normalize=normalize), SoftmaxLossKernel, [x, labels], dtype, rows=0)
        assert float(fast.state.loss) == 0 and not fast.diffs[0].any()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_weights(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    x, labels = scores(shape, axis)
    random = np.random.default_rng(1)
    of_records = random.choice([0.0, 0.5, 1.0, 2.0], shape[0])
    for weights in (random.uniform(0.5, 2, shape[axis]), random.uniform(0.5, 2, shape[1:])):
        layer = loss(3, axis=axis, weights=weights.tolist(), ignore_label=1)
        check(layer, SoftmaxLossKernel, [x, labels, of_records], dtype, rows=shape[0] - 1 or 1, wanted=(0,))
        check(layer, SoftmaxLossKernel, [x, labels, of_records], dtype, last=True)
        layer = loss(3, axis=axis, weights=weights.tolist(), ignore_label=1, label_smoothing=0.2)
        check(layer, SoftmaxLossKernel, [x, labels, of_records], dtype, last=True, wanted=(0,))
    check(loss(3, axis=axis), SoftmaxLossKernel, [x, labels, of_records], dtype)


@pytest.mark.parametrize("kind", NUMBERS)
def test_types_of_labels(kind: str) -> None:
    if kind != "bf16":
        x, labels = scores((9, 12), 1)
        check(loss(), SoftmaxLossKernel, [x, labels.astype(kind)], "float32", wanted=(0,))


def test_labels_of_bf16() -> None:
    x, labels = scores((9, 12), 1)
    check(loss(), SoftmaxLossKernel, [x, labels.astype("float32")], "bf16", wanted=(0,))


@pytest.mark.parametrize("dtype", KINDS)
def test_scores_that_are_not_ordinary(dtype: str) -> None:
    largest = float(np.finfo("float64" if dtype == "float64" else "float32").max)
    for special in (largest, -largest, np.inf, -np.inf, np.nan):
        for fields in ({}, {"ignore_label": 1}):
            x, labels = scores((8, 4), 1)
            x[1, 2] = x[2, labels[2]] = special
            x[5] = special
            check(loss(**fields), SoftmaxLossKernel, [x, labels], dtype)


def alone(layer: SoftmaxLossLayer, x: np.ndarray, labels: np.ndarray) -> None:
    """Run the kernel without the layer's own state, which would tell the same."""
    side = KernelSide(ShimBackend(), "float32", "train", 0, None, 0)
    side.run(layer, SoftmaxLossKernel, [x.astype("float32"), labels], (), lambda shapes: [])


@pytest.mark.parametrize("bad", [-1, 4, 2**40])
def test_labels_that_are_none_are_told(bad: int) -> None:
    x, labels = scores((8, 4), 1)
    labels[5] = bad
    with pytest.raises(DataError, match=rf"loss: label {bad} of record 5 .* from 0 to 3"):
        alone(loss(), x, labels)
    check(loss(), SoftmaxLossKernel, [x, labels], "float32", rows=5)  # the row does not count
    check(loss(ignore_label=bad), SoftmaxLossKernel, [x, labels], "float32")
    for bad_number in (1.5, np.nan):
        fractions = labels.astype(np.float32)
        fractions[5] = bad_number
        with pytest.raises(DataError, match=rf"label {bad_number:g} of record 5"):
            alone(loss(), x, fractions)


def test_declines() -> None:
    blobs = [Own((3, 4), "float32"), Own((3,), "int64")]
    assert SoftmaxLossKernel.supports(loss(), blobs) is None
    assert SoftmaxLossKernel.supports(loss(), [blobs[0], Own((3,), "bool")])
    assert SoftmaxLossKernel.supports(loss(axis=2), [Own((3, 4, 5, 6), "float32"), Own((3, 4, 1, 6), "int64")])
