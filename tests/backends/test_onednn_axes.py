"""Nets over images of one axis and of three on the onednn backend, and blobs of tokens beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from nacre import InputLayer, Layer, Net, Own, fresh, open_backend
from nacre.testing.close import assert_near
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.convolution.filters import FilterLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.neurons import ReLU, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import BLOCKED, CHANNELS_LAST, IN_ORDER
from nacre_onednn.helper import native
from nacre_onednn.kernels.base import OnednnKernel
from nacre_onednn.kernels.convolution import ConvolutionKernel

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)

needs_bf16 = pytest.mark.skipif("bf16" not in open_backend("onednn").computes, reason="this processor has no bf16")
LINE, FILM = (3, 24), (3, 4, 6, 6)


def conv(bottom: str, top: str, n_filter: int, **fields: Any) -> Layer:
    return ConvolutionLayer(name=top, bottoms=bottom, tops=top, n_filter=n_filter, kernel=3, pad=1, **fields)


def of_images(shape: tuple[int, ...]) -> list[Layer]:
    """A net with short cuts over images: all that kernels serve with one axis and with three."""
    return [
        InputLayer(tops="data", shape=shape, batch_size=4),
        conv("data", "conv1", 16, bias=False),
        BatchNormLayer(name="norm", bottoms="conv1", tops="norm", neuron=ReLU()),
        conv("norm", "conv2", 16, neuron=ReLU()),
        ElementWiseLayer(name="sum", bottoms=["conv2", "norm"], tops="sum", neuron=ReLU()),
        PoolingLayer(name="pool", bottoms="sum", tops="pool", kernel=2, stride=2),
        conv("pool", "conv3", 32, neuron=Tanh()),
        DeconvolutionLayer(name="up", bottoms="conv3", tops="up", n_filter=16, kernel=2, stride=2),
        ConcatLayer(name="both", bottoms=["up", "sum"], tops="both"),
        conv("both", "conv4", 20),
        PoolingLayer(name="mean", bottoms="conv4", tops="mean", whole=True, pooling="Mean"),
        InnerProductLayer(name="ip", bottoms="mean", tops="ip", output_dim=5),
        InputLayer(tops="label", batch_size=4),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]


def of_tokens() -> list[Layer]:
    """A net whose blobs of three axes are read by their channels, as tokens, or both."""
    return [
        InputLayer(tops="data", shape=(8, 24), batch_size=4),
        InnerProductLayer(name="token", bottoms="data", tops="token", output_dim=24, axis=-1),
        LayerNormLayer(name="normal", bottoms="token", tops="normal", axis=-1),
        conv("normal", "conv1", 8),
        ElementWiseLayer(name="sum", bottoms=["conv1", "token"], tops="sum", neuron=ReLU()),
        conv("sum", "conv2", 16, bias=False),
        BatchNormLayer(name="norm", bottoms="conv2", tops="norm", neuron=ReLU()),
        conv("norm", "conv3", 16),
        InnerProductLayer(name="last", bottoms="conv3", tops="last", output_dim=6, axis=-1),
        InnerProductLayer(name="ip", bottoms="last", tops="ip", output_dim=5),
        InputLayer(tops="label", batch_size=4),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]


def trained(layers: list[Layer], **options: Any) -> tuple[Net, dict[str, Any]]:
    """Run a net forwards and backwards; give it, and its loss and gradients."""
    net = Net("net", layers, input_gradients=("data",), insert_splits=True, seed=3, **options)
    random = np.random.default_rng(0)
    net.write("data", random.normal(size=net.memory.final["data"].shape))
    net.write("label", random.integers(0, 5, 4))
    net.forward()
    net.backward()
    gradients = {name: one.gradient for name, one in net.parameters.items() if one.gradient is not None}
    return net, {"loss": np.float32(net.loss()), "data": net.gradient("data"), **gradients}


@pytest.mark.parametrize(
    "make", [lambda: of_images(LINE), lambda: of_images(FILM), of_tokens], ids=["1", "3", "tokens"]
)
@pytest.mark.parametrize("layout", [CHANNELS_LAST, BLOCKED])
def test_nets_agree_with_numpy(make: Any, layout: str) -> None:
    net, found = trained(make(), backend="onednn", plan={"onednn": {"layout": layout}})
    if net.plan["onednn"]["layout"] != layout:
        assert (layout, native.most_instructions()) == (BLOCKED, native.CONSTANTS["ANY"])
        pytest.skip("without AVX2 oneDNN has no code for some of these layers in blocks of channels")
    missing = [op.name for op in net.ops if not op.kernel and not op.is_source]
    assert missing == [], "a layer has no kernel"
    _, expected = trained(make(), backend="numpy")
    for name, one in expected.items():
        assert_near(found[name], one, name, 5e-5)


@needs_bf16
@pytest.mark.parametrize(
    "make", [lambda: of_images(LINE), lambda: of_images(FILM), of_tokens], ids=["1", "3", "tokens"]
)
@pytest.mark.parametrize("layout", [CHANNELS_LAST, BLOCKED])
def test_nets_in_bf16_are_near_numpy(make: Any, layout: str) -> None:
    net, found = trained(make(), backend="onednn", compute="bf16", plan={"onednn": {"layout": layout}})
    assert net.plan["onednn"]["layout"] == layout
    _, expected = trained(make(), backend="numpy")
    assert found["loss"] == pytest.approx(expected["loss"], rel=2e-2)
    for name, one in expected.items():
        assert_near(found[name], one, name, 0.25)


@pytest.mark.parametrize("shape", [LINE, FILM], ids=["one axis", "three axes"])
def test_images_are_not_copied_between_kernels(shape: tuple[int, ...]) -> None:
    net, _ = trained(of_images(shape), backend="onednn")
    assert {name for name, _, _ in net.schedule.copies} == set()


def layouts(net: Net) -> dict[str, set[str | None]]:
    """Return the layouts in which the kernels of a net read and write each blob of three axes, without gradients."""
    found: dict[str, set[str | None]] = {}
    for op in net.ops:
        if isinstance(op.state, OnednnKernel):
            ends = [*zip(op.inputs, op.input_arrays, strict=True), *zip(op.outputs, op.state.blobs, strict=True)]
            for value, blob in ends:
                if isinstance(blob, Own) and len(blob.shape) == 3:
                    found.setdefault(value.name, set()).add(blob.layout)
    return found


@needs_bf16
def test_in_bf16_tokens_lie_in_order_and_images_by_their_channels() -> None:
    plan = {"onednn": {"layout": CHANNELS_LAST}}
    net = Net("net", of_tokens(), backend="onednn", compute="bf16", plan=plan, insert_splits=True)
    found = layouts(net)
    assert {name for name, each in found.items() if each == {CHANNELS_LAST}} >= {"conv2", "norm"}
    in_order = {"token", "normal", "conv1", "sum", "conv3", "last"}
    assert {name for name, each in found.items() if each == {IN_ORDER}} >= in_order


def test_in_float32_tokens_are_plain_and_images_lie_by_their_channels() -> None:
    found = layouts(Net("net", of_tokens(), backend="onednn", plan={"onednn": {"layout": CHANNELS_LAST}},
                        insert_splits=True))  # fmt: skip
    assert found["last"] == {"plain"}
    assert found["token"] == {CHANNELS_LAST, "plain"}, "the sum of it and of images is one of images"
    assert found["conv2"] == found["norm"] == {CHANNELS_LAST}
    assert found["conv3"] == {CHANNELS_LAST, "plain"}


CHANNELS = st.sampled_from([1, 3, 8, 16, 20, 32])


@st.composite
def filtered(draw: Any) -> tuple[FilterLayer, tuple[int, ...]]:
    """Draw a Convolution or a Deconvolution over one to three axes, and the shape of its bottom."""
    axes, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 16]))
    along = st.tuples(*[st.integers(1, 3)] * axes)
    kernel, stride, dilation = draw(along), draw(along), draw(st.sampled_from([(1,) * axes, draw(along)]))
    if axes == 2 and draw(st.sampled_from([False, False, True])):
        large, step = draw(st.sampled_from([(5, 1), (4, 2), (6, 2)]))
        kernel, stride, dilation = (large, large), (step, step), (1, 1)
    channels, filters = draw(CHANNELS), draw(CHANNELS)
    if groups == 16:
        channels, filters = 1, draw(st.integers(1, 2))
    fields: dict[str, Any] = {"kernel": kernel, "stride": stride, "dilation": dilation, "n_group": groups}
    fields |= {"n_filter": groups * filters, "bias": draw(st.booleans()), "pad": draw(st.integers(0, 1))}
    lengths = [draw(st.integers((size - 1) * step + 1, 9)) for size, step in zip(kernel, dilation, strict=True)]
    kind = draw(st.sampled_from([ConvolutionLayer, DeconvolutionLayer]))
    if kind is DeconvolutionLayer:
        fields["pad"] = 0
    images = draw(st.sampled_from([1, 3, 17]))
    return kind(name="it", bottoms="x", tops="y", **fields), (images, groups * channels, *lengths)


def passed(layer: FilterLayer, x: Any, target: Any, **options: Any) -> tuple[Net, dict[str, Any]]:
    """Run a layer and a loss forwards and backwards; give the net, and the top and all gradients."""
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=x.shape[1:], batch_size=len(x)),
        InputLayer(name="targets", tops="target", shape=target.shape[1:], batch_size=len(x)),
        fresh(layer),  # it shares its parameters with no other net
        SquareLossLayer(name="loss", bottoms=["y", "target"]),
    ]
    net = Net("net", layers, input_gradients=("x",), keep="all", seed=1, **options)
    net.write("x", x)
    net.write("target", target)
    net.forward()
    net.backward()
    gradients = {name: one.gradient for name, one in net.parameters.items()}
    return net, {"y": net.blob("y"), "dx": net.gradient("x"), **gradients}


def in_pytorch(torch: Any, layer: FilterLayer, x: Any, target: Any, own: Net) -> dict[str, Any]:
    """Return what PyTorch gives in float32."""
    values = {name: torch.tensor(np.float32(one.value), requires_grad=True) for name, one in own.parameters.items()}
    there = torch.tensor(x, requires_grad=True)
    kind = "conv_transpose" if isinstance(layer, DeconvolutionLayer) else "conv"
    function = getattr(torch.nn.functional, f"{kind}{x.ndim - 2}d")
    sizes = {"stride": layer.stride, "padding": layer.pad, "dilation": layer.dilation, "groups": layer.n_group}
    sizes = {
        name: size if name == "groups" else list(size) * ((x.ndim - 2) // len(size)) for name, size in sizes.items()
    }
    y = function(there, values["it/weight"], values.get("it/bias"), **sizes)
    (((y - torch.tensor(target)) ** 2).sum() / (2 * len(x))).backward()
    gradients = {name: one.grad for name, one in values.items()}
    return {name: one.detach().numpy() for name, one in {"y": y, "dx": there.grad, **gradients}.items()}


def in_every_way(layer: FilterLayer, x: Any, target: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each way in each layout gives, where there is code for it."""
    for layout in (CHANNELS_LAST, BLOCKED):
        net, _ = passed(layer, x, target, backend="onednn", plan={"onednn": {"layout": layout}})
        (kernel,) = (op.state for op in net.ops if isinstance(op.state, ConvolutionKernel))
        stages = kernel.stages()
        ways = {way for stage in stages for way in kernel.ways_of(stage, lambda blob: blob.layout or "plain")}
        for way in sorted(ways):
            taken = {
                stage: way for stage in stages if way in kernel.ways_of(stage, lambda blob: blob.layout or "plain")
            }
            plan = {"onednn": {"layout": layout, "ways": {"it": taken}}}
            net, found = passed(layer, x, target, backend="onednn", plan=plan)
            if net.plan == plan:
                yield f"{way} in {layout}", found


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.long)])
def test_every_way_is_as_exact_as_pytorch(count: int) -> None:
    torch = pytest.importorskip("torch")
    served = set[str]()

    @seed(3)
    @settings(max_examples=count, database=None)
    @given(filtered())
    def check(drawn: tuple[FilterLayer, tuple[int, ...]]) -> None:
        layer, shape = drawn
        random = np.random.default_rng(0)
        x = random.normal(size=shape).astype(np.float32)
        top = Net("top", [InputLayer(tops="x", shape=shape[1:], batch_size=shape[0]), fresh(layer)], phase="test",
                  backend="numpy", allocate=False).memory.final["y"].shape  # fmt: skip
        target = random.normal(size=top).astype(np.float32)
        own, exact = passed(layer, x, target, backend="numpy", dtype="float64")
        theirs = in_pytorch(torch, layer, x, target, own)
        # a bias has the sum of this, whose numbers may cancel each other: PyTorch's may be exact by luck
        rounding = {"it/bias": np.finfo(np.float32).eps * np.abs(own.gradient("y")).sum()}
        for way, found in in_every_way(layer, x, target):
            served.add(way)
            for name, one in exact.items():
                size = np.linalg.norm(one)
                limit = 2 * np.linalg.norm(theirs[name] - one) + 1e-6 * size + rounding.get(name, 0.0)
                assert np.linalg.norm(found[name] - one) <= limit, (way, name)

    check()
    assert len(served) >= 4


@needs_bf16
@pytest.mark.parametrize(("length", "kernel", "pad"), [(2, 3, 1), (1, 2, 1), (4, 5, 1), (3, 3, 1)])
def test_in_bf16_cells_of_filters_that_reach_over_films_have_gradients(length: int, kernel: int, pad: int) -> None:
    """In oneDNN 3.2 some keep what the memory held before, where a filter is longer than the image."""
    layer = ConvolutionLayer(name="it", bottoms="x", tops="y", n_filter=32, kernel=(kernel, 3, 3), pad=(pad, 1, 1))
    random = np.random.default_rng(0)
    x, target = (
        random.normal(size=(4, 16, length, 6, 6)),
        random.normal(size=(4, 32, length + 2 * pad - kernel + 1, 6, 6)),
    )
    _, expected = passed(layer, x, target, backend="numpy")
    for layout in (CHANNELS_LAST, BLOCKED):
        plan = {"onednn": {"layout": layout}}
        _, found = passed(layer, x, target, backend="onednn", compute="bf16", plan=plan)
        assert_near(found["it/weight"], expected["it/weight"], layout, 2e-2)
