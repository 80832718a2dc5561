"""NaN: every kernel of numpy's, and every way of every kernel of onednn's, lets it through where the own state does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nacre import InputLayer, Layer, Net, open_backend
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.convolution.filters import FilterLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer, Multiply
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.sum_loss import SumLossLayer
from nacre_layers.neurons import ReLU
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.normalisation.lrn import LRNLayer
from nacre_layers.normalisation.rms_norm import RMSNormLayer
from nacre_layers.pooling.functions import Max, Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.split import SplitLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.library import library
from nacre_onednn.dnnl.primitives import BLOCKED, CHANNELS_LAST, PLAIN
from nacre_onednn.kernels.base import OnednnKernel

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)

COMPUTES = ("float32", *open_backend("onednn").computes)
ENDS = {"name": "it", "bottoms": "x", "tops": "y"}
RELU = {**ENDS, "neuron": ReLU()}
IMAGES, MATRIX, STEPS = (3, 16, 8, 9), (3, 40), (3, 5, 24)
CASES: list[tuple[str, tuple[int, ...], list[Layer]]] = [
    ("ReLU", IMAGES, [ActivationLayer(**RELU)]),
    ("convolution of 3 x 3", IMAGES, [ConvolutionLayer(n_filter=32, kernel=3, **RELU)]),
    ("convolution of 5 x 5", IMAGES, [ConvolutionLayer(n_filter=16, kernel=5, pad=2, **RELU)]),
    ("convolution in groups", IMAGES, [ConvolutionLayer(n_filter=32, kernel=3, pad=1, n_group=2, **RELU)]),
    ("convolution of odd channels", (3, 5, 8, 9), [ConvolutionLayer(n_filter=20, kernel=3, stride=2, **RELU)]),
    ("convolution of three channels", (3, 3, 8, 9), [ConvolutionLayer(n_filter=20, kernel=3, pad=1, **RELU)]),
    ("convolution of two channels", (3, 2, 8, 9), [ConvolutionLayer(n_filter=20, kernel=3, pad=1, **RELU)]),
    ("convolution of four channels", (3, 4, 8, 9), [ConvolutionLayer(n_filter=16, kernel=3, pad=1, **ENDS)]),
    ("deconvolution to two channels", IMAGES, [DeconvolutionLayer(n_filter=2, kernel=3, stride=2, **ENDS)]),
    ("convolution of films of three channels", (2, 3, 4, 5, 6), [ConvolutionLayer(n_filter=16, kernel=2, **ENDS)]),
    ("convolution of a channel", (3, 1, 8, 9), [ConvolutionLayer(n_filter=20, kernel=5, pad=2, **RELU)]),
    ("convolution in odd groups", (3, 6, 8, 9), [ConvolutionLayer(n_filter=8, kernel=3, n_group=2, **RELU)]),
    ("deconvolution of odd channels", (3, 3, 4, 5), [DeconvolutionLayer(n_filter=16, kernel=3, stride=2, **RELU)]),
    ("convolution to odd channels", IMAGES, [ConvolutionLayer(n_filter=5, kernel=3, **ENDS)]),
    ("deconvolution to a channel", IMAGES, [DeconvolutionLayer(n_filter=1, kernel=3, stride=2, **ENDS)]),
    ("deconvolution", IMAGES, [DeconvolutionLayer(n_filter=16, kernel=3, stride=2, **RELU)]),
    ("convolution of lines", (3, 16, 17), [ConvolutionLayer(n_filter=32, kernel=3, pad=1, **RELU)]),
    ("convolution of lines of odd channels", (3, 5, 17), [ConvolutionLayer(n_filter=7, kernel=3, stride=2, **ENDS)]),
    ("convolution of films", (2, 16, 4, 5, 6), [ConvolutionLayer(n_filter=16, kernel=3, pad=1, **RELU)]),
    ("convolution of films of odd channels", (2, 5, 4, 5, 6), [ConvolutionLayer(n_filter=7, kernel=2, **ENDS)]),
    ("deconvolution of lines", (3, 16, 8), [DeconvolutionLayer(n_filter=16, kernel=4, stride=2, pad=1, **RELU)]),
    ("deconvolution of films", (2, 16, 3, 4, 3), [DeconvolutionLayer(n_filter=5, kernel=2, stride=2, **ENDS)]),
    ("max pooling of lines", (3, 16, 18), [PoolingLayer(kernel=3, stride=2, **RELU)]),
    ("max pooling of films", (2, 16, 5, 6, 6), [PoolingLayer(kernel=2, stride=2, **RELU)]),
    ("mean pooling of films", (2, 16, 4, 6, 6), [PoolingLayer(kernel=2, stride=2, pooling=Mean(), **ENDS)]),
    ("batch norm of lines", (3, 16, 9), [BatchNormLayer(**RELU)]),
    ("inner product", MATRIX, [InnerProductLayer(output_dim=10, **RELU)]),
    ("inner product of steps", STEPS, [InnerProductLayer(output_dim=10, axis=-1, **RELU)]),
    ("inner product of images", IMAGES, [InnerProductLayer(output_dim=10, **RELU)]),
    ("max pooling", IMAGES, [PoolingLayer(kernel=3, stride=2, pooling=Max(), **ENDS)]),
    ("max pooling with ReLU", IMAGES, [PoolingLayer(kernel=(2, 3), pad=1, pooling=Max(), **RELU)]),
    ("max pooling of odd channels", (3, 13, 7, 6), [PoolingLayer(kernel=3, stride=2, **RELU)]),
    ("max pooling of few channels", (3, 3, 8, 8), [PoolingLayer(kernel=2, stride=2, **RELU)]),
    ("max pooling of whole images", (2, 8, 17, 18), [PoolingLayer(whole=True, **ENDS)]),
    ("mean pooling with ReLU", IMAGES, [PoolingLayer(kernel=2, stride=2, pooling=Mean(), **RELU)]),
    ("LRN across", IMAGES, [LRNLayer(kernel=5, **ENDS)]),
    ("LRN within", IMAGES, [LRNLayer(kernel=3, mode="within", **ENDS)]),
    ("batch norm", IMAGES, [BatchNormLayer(**ENDS)]),
    ("batch norm with ReLU", IMAGES, [BatchNormLayer(**RELU)]),
    ("layer norm", STEPS, [LayerNormLayer(axis=-1, **ENDS)]),
    ("RMS norm", STEPS, [RMSNormLayer(axis=-1, **ENDS)]),
    ("softmax", MATRIX, [SoftmaxLayer(**ENDS)]),
    ("softmax of steps", STEPS, [SoftmaxLayer(axis=-1, **ENDS)]),
    (
        "sum with ReLU",
        IMAGES,
        [
            SplitLayer(name="two", bottoms="x", tops=("one", "other")),
            ElementWiseLayer(name="it", bottoms=("one", "other"), tops="y", neuron=ReLU()),
        ],
    ),
]


def make_net(shape: tuple[int, ...], layers: list[Layer], **options: Any) -> Net:
    """Make a net in which `it` stands between layers with kernels, so that its blobs have the layout of a net's."""
    if len(shape) == 4 or isinstance(layers[0], FilterLayer | PoolingLayer | BatchNormLayer):
        first: Layer = ConvolutionLayer(name="first", bottoms="data", tops="x", n_filter=shape[1])
    else:
        first = InnerProductLayer(name="first", bottoms="data", tops="x", output_dim=shape[-1], axis=-1)
    top = top_of(shape, layers)
    return Net(
        "net",
        [
            InputLayer(name="in", tops="data", shape=shape[1:], batch_size=shape[0]),
            InputLayer(name="factors", tops="factor", shape=top[1:], batch_size=shape[0]),
            first,
            *layers,
            ElementWiseLayer(name="times", bottoms=("y", "factor"), tops="z", operation=Multiply()),
            SumLossLayer(name="loss", bottoms="z"),
        ],
        keep="all",
        seed=2,
        deterministic=True,  # nothing is timed
        **options,
    )


def top_of(shape: tuple[int, ...], layers: list[Layer]) -> tuple[int, ...]:
    """Return the shape of the top."""
    bottom = InputLayer(name="in", tops="x", shape=shape[1:], batch_size=shape[0])
    return Net("top", [bottom, *layers], backend="numpy", phase="test", allocate=False).memory.final["y"].shape


def some_nan(shape: tuple[int, ...], seed: int, count: int = 3) -> Any:
    """Return numbers of which some are NaN."""
    generator = np.random.default_rng(seed)
    numbers = generator.normal(size=shape).astype(np.float32)
    numbers.flat[generator.choice(numbers.size, count, replace=False)] = np.nan
    return numbers


def passed(net: Net, data: Any, factor: Any, own: Net) -> tuple[Any, Any]:
    """Return the top, and the gradient of the bottom, with another net's parameters."""
    for name, handle in net.parameters.items():
        handle.value = own.parameters[name].value
    net.write("data", data)
    net.write("factor", factor)
    net.forward()
    net.backward()
    return net.blob("y"), net.gradient("x")


class OwnReLU(ReLU):
    """A ReLU that no kernel knows."""


def own_code(layer: Layer) -> Layer:
    """Return a layer that no kernel serves, since it is of a class of its own."""
    kind = type(f"Own{type(layer).__name__}", (type(layer),), {"__doc__": "A layer that no kernel knows."})
    fields = {name: getattr(layer, name) for name in layer.given()}
    return kind(**fields | ({"neuron": OwnReLU()} if "neuron" in fields else {}))


def oracle(shape: tuple[int, ...], layers: list[Layer]) -> Net:
    net = make_net(shape, [own_code(layer) for layer in layers], backend="numpy")
    assert not any(op.kernel for op in net.ops if op.name.startswith("it")), "a kernel serves it"
    return net


def ways(shape: tuple[int, ...], layers: list[Layer], compute: str) -> Iterator[Net]:
    """Yield nets in which each stage of `it` takes each of its ways, in each layout; and numpy's."""

    def made(layout: str, ways: dict[str, dict[str, str]]) -> Net:
        return make_net(shape, layers, backend="onednn", compute=compute, plan=plan_of(layout, ways))

    if compute == "float32":
        yield make_net(shape, layers, backend="numpy")
    for layout in (CHANNELS_LAST, BLOCKED):
        usual = made(layout, {})
        yield usual
        kernels = [op.state for op in usual.ops if op.name.startswith("it") and isinstance(op.state, OnednnKernel)]
        assert kernels, "no kernel serves it"
        for kernel in kernels:
            for stage in kernel.stages():
                several = kernel.ways_of(stage, lambda blob: blob.layout or PLAIN)
                for way in several if len(several) > 1 else ():
                    taken = {kernel.layer_name: {stage: way}}
                    net = made(layout, taken)
                    if net.plan == plan_of(layout, taken):  # else there is no good code for it
                        yield net


def plan_of(layout: str, ways: dict[str, dict[str, str]]) -> dict[str, Any]:
    return {"onednn": {"layout": layout, "ways": ways}}


OFTEN = re.compile("films|in groups|of a channel|to a channel|odd channels")
"""Cases whose ways others have, too."""

AS_WITH_AMX = re.compile("(de)?convolution( (of|to) (two|three|four) channels)?|convolution of 3 x 3")
"""Cases with stages that take other ways where a processor has AMX."""


@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize(
    ("shape", "layers"),
    [pytest.param(*case[1:], id=case[0], marks=pytest.mark.long if OFTEN.search(case[0]) else ()) for case in CASES],
)
def test_nan_goes_where_the_own_state_lets_it(shape: tuple[int, ...], layers: list[Layer], compute: str) -> None:
    clean = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    own = oracle(shape, layers)
    top = top_of(shape, layers)
    ones, torn = np.ones(top, np.float32), some_nan(top, 5, 12)
    data = some_nan(shape, 4)
    expected, _ = passed(own, data, ones, own)
    _, gradient = passed(own, clean, torn, own)
    assert np.isnan(expected).any() and np.isnan(gradient).any()
    count = 0
    for net in ways(shape, layers, compute):
        y, _ = passed(net, data, ones, own)
        _, dx = passed(net, clean, torn, own)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(expected), err_msg=str(net.plan))
        assert np.isnan(dx)[np.isnan(gradient)].all(), net.plan
        if compute == "bf16" and isinstance(layers[0], FilterLayer):
            assert (np.isnan(dx) == np.isnan(gradient)).all(), net.plan
        count += 1
    assert count > (compute == "float32")


@pytest.mark.skipif("bf16" not in COMPUTES, reason="this processor has no bf16")
@pytest.mark.parametrize(
    ("shape", "layers"), [pytest.param(*case[1:], id=case[0]) for case in CASES if AS_WITH_AMX.fullmatch(case[0])]
)
def test_nan_goes_there_by_the_ways_with_amx(
    shape: tuple[int, ...], layers: list[Layer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library(), "amx", True)
    test_nan_goes_where_the_own_state_lets_it(shape, layers, "bf16")


@pytest.mark.parametrize(
    ("shape", "layers"),
    [pytest.param(*case[1:], id=case[0], marks=() if "odd" in case[0] else pytest.mark.long) for case in CASES],
)
def test_numbers_are_those_of_the_own_state(shape: tuple[int, ...], layers: list[Layer]) -> None:
    clean = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    own = oracle(shape, layers)
    factor = np.random.default_rng(6).normal(size=top_of(shape, layers)).astype(np.float32)
    expected = passed(own, clean, factor, own)
    for net in ways(shape, layers, "float32"):
        for found, one in zip(passed(net, clean, factor, own), expected, strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-4, atol=1e-4 * np.abs(one).max(), err_msg=str(net.plan))


@pytest.mark.parametrize("relu", [False, True])
def test_infinities_pass_max_pooling_and_relu(relu: bool) -> None:
    numbers = np.random.default_rng(7).choice([-np.inf, np.inf, 0.0, -1.0, np.nan], size=(2, 12, 6, 6))
    neuron = {"neuron": ReLU()} if relu else {}
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(12, 6, 6), batch_size=2),
        PoolingLayer(kernel=2, stride=1, **ENDS, **neuron),
    ]
    tops = []
    for backend in ("numpy", "onednn"):
        net = Net("net", layers, backend=backend, keep="all", phase="test")
        net.write("x", numbers)
        net.forward()
        tops.append(net.blob("y"))
    np.testing.assert_array_equal(*tops)
