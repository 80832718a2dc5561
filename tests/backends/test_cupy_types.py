"""Bottoms of other types than the net's, over the stand-in for CuPy: a kernel that would misread them is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cuda_on_host
from nacre import InputLayer, Layer, Net
from nacre_layers import (
    AbsValLayer,
    ActivationLayer,
    BatchNormLayer,
    ConvolutionLayer,
    ElementWiseLayer,
    InnerProductLayer,
    LRNLayer,
    PoolingLayer,
    RNNLayer,
)

if reason := cuda_on_host.missing():
    pytest.skip(reason, allow_module_level=True)

PRODUCT = InnerProductLayer(bottoms="a", tops="y", output_dim=3)
LAYERS: list[tuple[Layer, tuple[int, ...]]] = [
    (AbsValLayer(bottoms="a", tops="y"), (8,)),
    (ActivationLayer(bottoms="a", tops="y", neuron="Tanh"), (8,)),
    (BatchNormLayer(bottoms="a", tops="y"), (8, 4, 4)),
    (ConvolutionLayer(bottoms="a", tops="y", n_filter=8, kernel=3), (8, 4, 4)),
    (ElementWiseLayer(bottoms=("a", "b"), tops="y"), (8,)),
    (PRODUCT, (8,)),
    (LRNLayer(bottoms="a", tops="y"), (8, 4, 4)),
    (PoolingLayer(bottoms="a", tops="y", kernel=2, stride=2), (8, 4, 4)),
    (RNNLayer(bottoms="a", tops="y", output_dim=4), (5, 8)),
]


def top(backend: Any, layer: Layer, shape: tuple[int, ...], types: tuple[str, Any], **options: Any) -> np.ndarray:
    """Return the top of a layer in the third pass: steps are called, captured and replayed."""
    inputs = [InputLayer(tops=name, shape=shape, batch_size=4, dtype=types[0]) for name in layer.bottoms]
    numbers = np.random.default_rng(0).normal(size=(4, *shape)) * 9
    with Net(
        "types", [*inputs, replace(layer)], backend=backend, seed=1, dtype=types[1], phase="train", **options
    ) as net:
        for _ in range(3):
            for name in layer.bottoms:
                net.write(name, numbers if "float" in types[0] else abs(np.rint(numbers)))
            net.forward()
        return np.array(net.blob("y"))


@pytest.mark.parametrize("types", [("float64", "float32"), ("float32", "float64")])
@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=[type(one).__name__ for one, _ in LAYERS])
def test_bottoms_of_another_floating_type(
    backend: Any, layer: Layer, shape: tuple[int, ...], types: tuple[str, Any]
) -> None:
    np.testing.assert_allclose(top(backend, layer, shape, types), top("numpy", layer, shape, types), 1e-5, 1e-5)


@pytest.mark.parametrize("time_major", [False, True])
def test_sequences_of_another_floating_type_are_rounded_to_bf16(backend: Any, *, time_major: bool) -> None:
    layer = RNNLayer(bottoms="a", tops="y", output_dim=4, time_major=time_major)
    found, wanted = (
        top(here, layer, (5, 8), ("float64", "float32"), **options)
        for here, options in ((backend, {"compute": "bf16"}), ("numpy", {}))
    )
    assert 0 < np.linalg.norm(found - wanted) < 2e-2 * np.linalg.norm(wanted)


@pytest.mark.parametrize("compute", [None, "bf16"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "uint16"])
def test_whole_numbers_in_an_inner_product(backend: Any, dtype: str, compute: str | None) -> None:
    found = top(backend, PRODUCT, (8,), (dtype, "float32"), compute=compute)
    np.testing.assert_allclose(found, top("numpy", PRODUCT, (8,), (dtype, "float32")), 1e-5, 1e-5)
