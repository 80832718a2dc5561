"""The kernels of the onednn backend that turn and multiply matrices: Transpose and MatMul."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import InputLayer, Layer, Net, open_backend
from nacre.testing.close import assert_near
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.linear.mat_mul import MatMulLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.shapes.transpose import TransposeLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.kernels.mat_mul import MatMulKernel
from nacre_onednn.kernels.transpose import TransposeKernel

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)

SIZES = st.integers(1, 20)


class TestTransposeKernel(KernelTests):
    layer = TransposeLayer
    kernel = TransposeKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({"axes": [2, 1]}, [(3, 5, 16)], label="tokens")
        yield Example({}, [(3, 16, 5, 4)], label="images, in reverse")
        yield Example({"axes": [2, 3, 1]}, [(3, 5, 16, 20)], label="images of odd channels")
        yield Example({"axes": [-1, 1, 2]}, [(2, 32, 3, 3)], label="into few channels")
        yield Example({"axes": [4, 1, 3, 2]}, [(2, 3, 2, 4, 5)], label="films")
        yield Example({"axes": [1]}, [(3, 5)], label="nothing to do")
        yield Example({"axes": [2, 1]}, [(3, 5, 16)] * 2, tops=2, label="two bottoms: declined")

    def strategy(self) -> Any:
        def example(shape: list[int], seed: int) -> Example:
            axes = np.random.default_rng(seed).permutation(len(shape) - 1) + 1
            return Example({"axes": axes.tolist()}, [tuple(shape)])

        return st.builds(example, st.lists(SIZES, min_size=2, max_size=5), st.integers(0, 99))


class TestMatMulKernel(KernelTests):
    layer = MatMulLayer
    kernel = MatMulKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        for one, other in ((False, False), (False, True), (True, False), (True, True)):
            shapes: list[Any] = [(3, 7, 5) if one else (3, 5, 7), (3, 4, 7) if other else (3, 7, 4)]
            yield Example({"transpose_a": one, "transpose_b": other}, shapes, tops=1, label=f"{one}, {other}")
        yield Example({"transpose_b": True}, [(2, 4, 10, 16), (2, 4, 12, 16)], tops=1, label="heads")
        yield Example({"transpose_a": True}, [(2, 3, 2, 6, 5), (2, 3, 2, 6, 4)], tops=1, label="five axes")
        yield Example({}, [(2, 2, 1, 2, 3, 5), (2, 2, 1, 2, 5, 1)], tops=1, label="six axes, a column")

    def strategy(self) -> Any:
        def example(count: int, rows: int, inner: int, columns: int, one: bool, other: bool) -> Example:
            shapes: list[Any] = [
                (count, inner, rows) if one else (count, rows, inner),
                (count, columns, inner) if other else (count, inner, columns),
            ]
            return Example({"transpose_a": one, "transpose_b": other}, shapes, tops=1)

        return st.builds(example, st.integers(1, 4), SIZES, SIZES, SIZES, st.booleans(), st.booleans())


def attention(axes: int) -> list[Layer]:
    """Products of tokens with themselves, through a Transpose, and behind them as images or as tokens."""
    inner: list[Layer] = [
        InputLayer(name="in", tops="data", shape=(6, 8), batch_size=3),
        InnerProductLayer(name="one", bottoms="data", tops="one", output_dim=6, axis=-1),
        TransposeLayer(name="turn", bottoms="one", tops="turned", axes=[2, 1]),
        MatMulLayer(name="times", bottoms=["one", "turned"], tops="times"),
    ]
    if axes == 4:
        from nacre_layers.shapes.reshape import ReshapeLayer

        inner += [
            ReshapeLayer(name="as_images", bottoms="times", tops="images", shape=[1, 6, 6]),
            ConvolutionLayer(name="conv", bottoms="images", tops="conv", n_filter=16, kernel=3, pad=1),
            TransposeLayer(name="last", bottoms="conv", tops="y", axes=[1, 3, 2]),
            MatMulLayer(name="square", bottoms=["y", "conv"], tops="z"),
        ]
    else:
        inner.append(InnerProductLayer(name="last", bottoms="times", tops="z", output_dim=4, axis=-1))
    target = (16, 6, 6) if axes == 4 else (6, 4)
    return [
        *inner,
        InputLayer(name="targets", tops="target", shape=target, batch_size=3),
        SquareLossLayer(name="loss", bottoms=["z", "target"]),
    ]


@pytest.mark.parametrize("compute", ["float32", *open_backend("onednn").computes])
@pytest.mark.parametrize("axes", [3, 4])
def test_nets_with_products_agree_with_numpy(axes: int, compute: str) -> None:
    found: list[dict[str, Any]] = []
    for options in ({"backend": "onednn", "compute": compute}, {"backend": "numpy"}):
        net = Net("net", attention(axes), input_gradients=("data",), insert_splits=True, seed=1, **options)
        random = np.random.default_rng(0)
        for blob in ("data", "target"):
            net.write(blob, random.normal(size=net.memory.final[blob].shape))
        net.forward()
        net.backward()
        gradients = {name: one.gradient for name, one in net.parameters.items()}
        found.append({"loss": np.float32(net.loss()), "data": net.gradient("data"), **gradients})
    for name, one in found[1].items():
        assert_near(found[0][name], one, name, 2e-5 if compute == "float32" else 0.15)
