"""The cupy backend's activation functions and its kernel of ElementWise, on the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import check, near
from cuda_on_host import ShimBackend, missing
from nacre import HostMemory, LayerState, Neuron, Regularizer
from nacre.engine.setup import NeuronState
from nacre.protocols.view import Scalars, View
from nacre_cupy.kernels.elementwise import NEURONS, ElementWiseKernel, L1Kernel, L2Kernel, NeuronKernel
from nacre_layers import neurons
from nacre_layers.elementwise.element_wise import (
    Add,
    Average,
    Divide,
    ElementWiseFunction,
    ElementWiseLayer,
    Maximum,
    Multiply,
    Subtract,
)
from nacre_layers.regularizers import L1, L2

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]
EVERY: list[Neuron] = [
    *(made() for made in NEURONS),
    neurons.ReLU(epsilon=0.25),
    neurons.LReLU(slope=1.5),
    neurons.ELU(alpha=0.3),
    neurons.STanh(outer=2.0, inner=0.5),
    neurons.Softplus(beta=3.0),
    neurons.SiLU(beta=-1.5),
    neurons.SiLU(beta=0.0),
    neurons.GELU(approximate="tanh"),
]


class OfNeuron:
    """A neuron, as the bench wants a layer."""

    has_loss = False

    def __init__(self, neuron: Neuron) -> None:
        self.neuron = neuron

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> LayerState:
        return NeuronState(self.neuron, backend, inputs, diffs)


class OneNeuron(NeuronKernel):
    """The kernel of a neuron that the bench takes for a layer."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return super().supports(layer.neuron, inputs)

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer.neuron, backend, inputs, diffs)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("neuron", EVERY, ids=repr)
def test_neuron(neuron: Neuron, dtype: str) -> None:
    for shape, scale in (((3, 5), 1.0), ((2, 8, 10, 13), 1.0), ((1100,), 8.0), ((40,), 40.0)):
        x = np.random.default_rng(0).normal(size=shape) * scale
        check(OfNeuron(neuron), OneNeuron, [x], dtype, last=True)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("neuron", EVERY, ids=repr)
def test_neuron_of_numbers_that_are_not_ordinary(neuron: Neuron, dtype: str) -> None:
    largest = np.finfo("float64" if dtype == "float64" else "float32").max
    x = np.array([0.0, -0.0, largest, -largest, np.inf, -np.inf, np.nan, 1.0, 3.0, -3.0, 1e-30])
    check(OfNeuron(neuron), OneNeuron, [x], dtype, wanted=(), each=True, close=5e-7 if dtype == "float32" else 5e-15)


def layer_of(operation: ElementWiseFunction, count: int, **more: Any) -> ElementWiseLayer:
    return ElementWiseLayer(name="all", bottoms=[f"x{n}" for n in range(count)], tops="y", operation=operation, **more)


OPERATIONS = [
    (Add(), 2),
    (Add(), 5),
    (Add(coefficients=[0.5, -2.0, 3.0]), 3),
    (Average(), 3),
    (Multiply(), 2),
    (Multiply(), 4),
    (Maximum(), 3),
    (Subtract(), 2),
    (Divide(), 2),
]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("operation", "count"), OPERATIONS, ids=repr)
def test_element_wise(operation: ElementWiseFunction, count: int, dtype: str) -> None:
    for shape in ((1, 1), (2, 9, 7, 11), (3, 1001)):
        arrays = [np.random.default_rng(n).normal(size=shape) + 3 * (n % 2) for n in range(count)]
        arrays[1].reshape(-1)[::3] = arrays[0].reshape(-1)[::3]  # equal maxima
        layer = layer_of(operation, count)
        for wanted in (range(count), (1,), (count - 1,)):
            check(layer, ElementWiseKernel, arrays, dtype, wanted=list(wanted), last=True)
    every = np.array([0.0, 1.0, np.inf, -np.inf, np.nan, np.finfo("float64" if dtype == "float64" else "float32").max])
    arrays = [np.roll(np.tile(every, 6), n) for n in range(count)]
    check(layer_of(operation, count), ElementWiseKernel, arrays, dtype, wanted=(), each=True)


@pytest.mark.parametrize("dtype", KINDS[:2])
@pytest.mark.parametrize(("penalty", "kernel"), [(L1(), L1Kernel), (L2(), L2Kernel)], ids=repr)
def test_penalty(penalty: Regularizer, kernel: Any, dtype: str) -> None:
    random, backend = np.random.default_rng(0), ShimBackend()
    view = View(backend, phase="train", dtype=dtype, seed=0, scalars=Scalars())
    largest = float(np.finfo(dtype).max)
    for size in (0, 1, 64, 3001):
        value, gradient = backend.empty((size,), dtype), backend.empty((size,), dtype)
        value[...], gradient[...] = (
            random.choice([-2.0, -0.0, 0.0, 0.3, np.nan, np.inf, largest, -largest], size),
            random.choice([-1.5, 0.25, 1e-30, largest, np.inf], size),
        )
        expected = np.array(gradient)
        host = View(HostMemory.shared(), phase="train", dtype=dtype, seed=0, scalars=Scalars())
        with np.errstate(all="ignore"):
            penalty.add_gradient(host, np.array(value), expected, 0.25)
        kernel(penalty, view).add_gradient(view, value, gradient, 0.25)
        near(gradient, expected, dtype, "gradient", each=True)
    backend.check_guards()
