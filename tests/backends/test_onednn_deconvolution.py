"""The Deconvolution kernel of the onednn backend, against the layer's own state and against numpy."""

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
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.shapes.reshape import ReshapeLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.library import Unimplemented, library
from nacre_onednn.dnnl.primitives import (
    BLOCKED,
    CHANNELS_LAST,
    PLAIN,
    Primitive,
    attributes,
    block,
    describe,
    dims,
    free,
    plain,
    reorder,
)
from nacre_onednn.kernels.base import ONE_BF16, OnednnKernel
from nacre_onednn.kernels.convolution import ANY, AS_IT_IS, AS_THE_BOTTOM, AS_THE_TOP
from nacre_onednn.kernels.deconvolution import DeconvolutionKernel
from nacre_onednn.kernels.products import sum_up

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)


def threes(least: int, most: int) -> Any:
    """Return a strategy for a number for each of three axes."""
    return st.tuples(*[st.integers(least, most)] * 3)


class TestDeconvolutionKernel(KernelTests):
    layer = DeconvolutionLayer
    kernel = DeconvolutionKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        twice = {"kernel": 4, "stride": 2, "pad": 1}
        yield Example({"n_filter": 4, "kernel": 3}, [(3, 2, 4, 5)], label="plain images")
        yield Example({"n_filter": 16, **twice, "neuron": ReLU()}, [(3, 32, 4, 3)], label="blocks, ReLU")
        yield Example({"n_filter": 21, **twice, "neuron": ReLU()}, [(3, 20, 4, 3)], label="odd channels, ReLU")
        yield Example(
            {"n_filter": 32, **twice, "bias": False, "neuron": ReLU()}, [(2, 16, 3, 3)], label="no bias, ReLU"
        )
        yield Example({"n_filter": 3, **twice, "neuron": "Tanh"}, [(2, 32, 5, 4)], label="into few channels")
        yield Example({"n_filter": 32, **twice}, [(2, 3, 5, 4)], label="from few channels")
        yield Example({"n_filter": 32, "kernel": (3, 4)}, [(4, 20, 1, 1)], label="from one pixel")
        yield Example({"n_filter": 12, **twice, "n_group": 2}, [(2, 6, 3, 4)], label="groups")
        yield Example({"n_filter": 16, **twice, "n_group": 16, "neuron": ReLU()}, [(2, 16, 4, 3)], label="depthwise")
        yield Example({"n_filter": 16, **twice, "n_group": 16, "bias": False, "neuron": ReLU()}, [(2, 16, 4, 3)])
        yield Example({"n_filter": 8, "kernel": (3, 2), "stride": (2, 3), "extra": (1, 2)}, [(2, 16, 3, 4)])
        yield Example({"n_filter": 8, "kernel": 2, "stride": 3, "extra": 1}, [(2, 16, 3, 4)], label="gaps")
        yield Example({"n_filter": 8, "kernel": 3, "dilation": (2, 3), "pad": 1}, [(2, 8, 4, 3)], label="dilation")
        yield Example({"n_filter": 3, "kernel": 2}, [(2, 2, 4)], label="plain images of one axis")
        yield Example({"n_filter": 32, **twice, "neuron": ReLU()}, [(3, 16, 5)], label="one axis, ReLU")
        yield Example({"n_filter": 20, "kernel": 3, "stride": 2, "extra": 1, "n_group": 2}, [(3, 10, 5)], label="lines")
        yield Example({"n_filter": 16, **twice, "neuron": ReLU()}, [(2, 32, 2, 3, 2)], label="three axes, ReLU")
        yield Example({"n_filter": 8, "kernel": (1, 2, 3), "n_group": 2}, [(2, 4, 3, 3, 2)], label="films in groups")
        yield Example({"n_filter": 3, "kernel": 2}, [(2, 2, 4, 4)] * 2, label="two bottoms: declined")

    def strategy(self) -> Any:
        def example(
            images: int, group: int, channels: int, filters: int, axes: int, length: tuple[int, ...],
            stride: tuple[int, ...], extra: tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, ...],
            **rest: Any,
        ) -> Example:  # fmt: skip
            extra = tuple(min(one, step - 1) for one, step in zip(extra, stride, strict=True))
            along = {"stride": stride, "extra": extra, "kernel": kernel, "dilation": dilation}
            fields = {name: numbers[:axes] for name, numbers in along.items()}
            fields = {"n_filter": group * filters, "n_group": group, **fields, **rest}
            return Example(fields, [(images, group * channels, *length[:axes])])

        return st.builds(
            example, st.integers(1, 4), st.sampled_from([1, 1, 2, 16]), st.sampled_from([1, 3, 8, 16, 20]),
            st.sampled_from([1, 3, 8, 16, 20]), st.sampled_from([1, 2, 2, 3]), threes(3, 6), threes(1, 3), threes(0, 2),
            threes(1, 3), threes(1, 3), pad=st.integers(0, 1), bias=st.booleans(),
            neuron=st.sampled_from(["Identity", "ReLU"]),
        )  # fmt: skip


def generator() -> list[Layer]:
    """A small net that makes images of vectors, and judges their pixels."""
    grow: dict[str, Any] = {"kernel": 4, "stride": 2, "pad": 1}
    layers: list[Layer] = [
        InputLayer(tops="data", shape=(12,), batch_size=4),
        ReshapeLayer(bottoms="data", tops="point", shape=(12, 1, 1)),
        DeconvolutionLayer(name="up1", bottoms="point", tops="up1", n_filter=32, kernel=3, neuron=ReLU()),
        DeconvolutionLayer(name="up2", bottoms="up1", tops="up2", n_filter=16, bias=False, **grow),
        BatchNormLayer(name="bn", bottoms="up2", tops="bn", neuron=ReLU()),
        ConvolutionLayer(name="conv", bottoms="bn", tops="conv", n_filter=16, kernel=3, pad=1, neuron=ReLU()),
        DeconvolutionLayer(name="deep", bottoms="conv", tops="deep", n_filter=16, n_group=16, neuron=ReLU(), **grow),
        DeconvolutionLayer(name="image", bottoms="deep", tops="image", n_filter=3, neuron=Tanh(), **grow),
        InnerProductLayer(name="ip", bottoms="image", tops="ip", output_dim=5),
        InputLayer(tops="label", batch_size=4),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]
    return layers


def results(**options: Any) -> dict[str, np.ndarray]:
    """Train the generator forwards and backwards; give its loss, an image and all gradients."""
    random = np.random.default_rng(0)
    net = Net("net", generator(), keep=("image",), input_gradients=("data",), **options)
    for _ in range(2):
        net.write("data", random.normal(size=(4, 12)))
        net.write("label", random.integers(0, 5, 4))
        net.forward()
        net.backward()
    gradients = {name: one.gradient for name, one in net.parameters.items() if one.gradient is not None}
    found = {"loss": np.float32(net.loss()), "image": net.blob("image"), "data": net.gradient("data"), **gradients}
    kernels = [op for op in net.ops if isinstance(op.state, DeconvolutionKernel)]
    assert len(kernels) == (4 if options["backend"] == "onednn" else 0)
    return found


def test_a_net_agrees_with_numpy() -> None:
    found, expected = results(backend="onednn"), results(backend="numpy")
    for name, one in expected.items():
        assert_near(found[name], one, name, 2e-5)


@pytest.mark.skipif("bf16" not in open_backend("onednn").computes, reason="this processor has no bf16")
def test_a_net_in_bf16_is_near_numpy() -> None:
    found, expected = results(backend="onednn", compute="bf16"), results(backend="numpy")
    assert found["loss"] == pytest.approx(expected["loss"], rel=2e-2)
    for name, one in expected.items():
        assert_near(found[name], one, name, 0.15)


def test_a_frozen_layer_passes_its_gradient_on() -> None:
    layers: list[Layer] = [
        InputLayer(tops="data", shape=(16, 4, 4), batch_size=2),
        DeconvolutionLayer(name="up", bottoms="data", tops="y", n_filter=16, kernel=2, stride=2),
        InnerProductLayer(name="ip", bottoms="y", tops="ip", output_dim=3),
        InputLayer(tops="label", batch_size=2),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]
    net = Net("net", layers, backend="onednn", input_gradients=("data",))
    net.write("data", np.random.default_rng(0).normal(size=(2, 16, 4, 4)))
    net.forward()
    net.backward()
    before = net.gradient("data")
    assert net.parameters["up/bias"].gradient is not None
    net.freeze("up")
    net.forward()
    net.backward()
    assert net.parameters["up/bias"].gradient is None
    np.testing.assert_array_equal(net.gradient("data"), before)


@pytest.mark.parametrize("layout", [PLAIN, CHANNELS_LAST, BLOCKED])
@pytest.mark.parametrize("dtype", ["float32", *open_backend("onednn").computes])
def test_sums_over_pixels_and_images_read_every_layout(layout: str, dtype: str) -> None:
    shape = (3, 2 * block(), 5, 4)
    blob = np.random.default_rng(0).integers(-8, 9, shape).astype(np.float32)  # exact in bf16
    lying, result = np.zeros(blob.size, np.float32), np.zeros(shape[1], np.float32)
    given = {
        "array": blob,
        "dy": lying,
        "dbias": result,
        "ones of pixels": np.full(20, ONE_BF16, np.uint16) if dtype == "bf16" else np.ones(20, np.float32),
        "ones of images": np.ones(3, np.float32),
    }
    calls = [
        *reorder("array", plain(*shape), "dy", describe(shape, layout, dtype)),
        *sum_up("dy", shape, layout, dtype),
    ]
    backend = open_backend("onednn")
    assert isinstance(backend, OnednnBackend)
    with backend.on_threads():
        backend.enqueue(calls, given)
    np.testing.assert_array_equal(result, blob.sum(axis=(0, 2, 3)))


@pytest.mark.parametrize("layout", [CHANNELS_LAST, BLOCKED])
@pytest.mark.parametrize("way", [AS_IT_IS, AS_THE_TOP, AS_THE_BOTTOM, ANY])
@pytest.mark.parametrize(("channels", "filters"), [(32, 16), (32, 3), (3, 32), (20, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_every_way_in_every_layout(layout: str, way: str, channels: int, filters: int, bias: bool) -> None:
    """Plans that oneDNN cannot follow are decided anew, so that results are right in any case."""
    random = np.random.default_rng(0)
    data, label = random.normal(size=(3, channels, 4, 5)), random.integers(0, 5, 3)
    plan = {"onednn": {"layout": layout, "ways": {"up": dict.fromkeys(["forward", "weights", "data"], way)}}}
    grow: dict[str, Any] = {"kernel": 3, "stride": 2, "pad": 1, "extra": 1, "neuron": ReLU(), "bias": bias}
    nets: list[Net] = []
    both: list[dict[str, Any]] = [{"backend": "onednn", "plan": plan}, {"backend": "numpy"}]
    for options in both:
        layers: list[Layer] = [
            InputLayer(tops="data", shape=data.shape[1:], batch_size=3),
            DeconvolutionLayer(name="up", bottoms="data", tops="y", n_filter=filters, **grow),
            InnerProductLayer(name="ip", bottoms="y", tops="ip", output_dim=5),
            InputLayer(tops="label", batch_size=3),
            SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
        ]
        net = Net("net", layers, keep=("y",), input_gradients=("data",), **options)
        net.write("data", data)
        net.write("label", label)
        net.forward()
        net.backward()
        nets.append(net)
    found, exact = nets
    assert_near(found.blob("y"), exact.blob("y"), "top")
    assert_near(found.gradient("data"), exact.gradient("data"), "gradient of data")
    for name, handle in exact.parameters.items():
        assert_near(found.parameters[name].gradient, handle.gradient, name)


def test_reference_code_within_a_deconvolution_is_declined() -> None:
    """A deconvolution between two layouts is a reference convolution, which oneDNN's name tells behind a plus."""
    x, y, weight = describe((2, 16, 4, 4), PLAIN), describe((2, 16, 4, 4), CHANNELS_LAST), free(16, 16, 1, 1)
    one, none = dims((1, 1)), dims((0, 0))
    with pytest.raises(Unimplemented, match="only reference code for this deconvolution forward"):
        Primitive("deconvolution_forward", library().engine, 64, 0xA, x, weight, None, y, one, none, none, none,
                  attributes())  # fmt: skip


def test_no_reference_code_is_accepted() -> None:
    states = [op.state for op in Net("net", generator(), backend="onednn").ops]
    calls = [
        one for state in states if isinstance(state, OnednnKernel) for each in state.calls.values() for one in each
    ]
    assert len(calls) > 20
    assert [one.info for one in calls if "ref" in one.info] == []
