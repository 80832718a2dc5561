"""The kernels of direct.c and winograd.c: convolutions both ways against numpy, packed weights against oneDNN's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import exact
from helper_calls import assert_same_bits, run
from nacre import InputLayer, Layer, Net, Phase
from nacre.testing.close import assert_near
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.convolution.filters import FilterLayer
from nacre_layers.convolution.geometry import Geometry, Transposed
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.neurons import ReLU
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.library import library
from nacre_onednn.dnnl.primitives import BLOCKED, CHANNELS_LAST, describe, plain, reorder, tagged
from nacre_onednn.helper import direct, native, winograd
from nacre_onednn.helper.depthwise import DepthwiseConvolution
from nacre_onednn.helper.direct import TILES, DirectConvolution, packing
from nacre_onednn.helper.winograd import WinogradConvolution
from nacre_onednn.kernels.columns import ColumnsConvolution, PanelsConvolution, SplitConvolution
from nacre_onednn.kernels.convolution import (
    ANY,
    AS_IT_IS,
    AS_PRODUCT,
    BY_CHANNELS,
    BY_WINOGRAD,
    DIRECTLY,
    IN_LARGER_TILES,
    IN_PAIRS,
    WITH_ZEROS,
)
from nacre_onednn.kernels.products import PANELS, SPLIT
from nacre_onednn.record import aligned

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if not native.lanes():
    pytest.skip("no helper was compiled, or the processor has no AVX2", allow_module_level=True)
needs_avx512 = pytest.mark.skipif(not native.has_avx512(), reason="the processor has no AVX-512")

PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


def results(layer: FilterLayer, images: Any, **options: Any) -> dict[str, Any]:
    """Run a convolution and a loss behind it forwards and backwards; give the top, all gradients, and the plan."""
    top = (Geometry if isinstance(layer, ConvolutionLayer) else Transposed)(layer, images.shape).top
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=images.shape[1:], batch_size=len(images)),
        InputLayer(name="targets", tops="target", shape=top[1:], batch_size=len(images)),
        layer,
        SquareLossLayer(name="loss", bottoms=["y", "target"]),
    ]
    net = Net("net", layers, input_gradients=("x",), keep="all", seed=1, **options)
    net.write("x", images)
    net.write("target", np.cos(np.arange(np.prod(top), dtype=np.float32)).reshape(top) - 5)
    net.forward()
    net.backward()
    gradients = {name: one.gradient for name, one in net.parameters.items()}
    return {"y": net.blob("y"), "dx": net.gradient("x"), **gradients, "plan": net.plan}


def windows_of(axes: list[tuple[int, ...]]) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
    """Return the sizes of images, and the fields of windows, which see at least a pixel, from what is drawn by axis."""
    size, kernel, stride, pad, dilation = map(tuple, zip(*axes, strict=True))
    pad = tuple(min(one, cells - 1) for one, cells in zip(pad, kernel, strict=True))
    return size, {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}


def assert_alike(found: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-5) -> None:
    del expected["plan"]
    # a ReLU fed with 0 but for rounding lets pass or not
    assume(tolerance > 1e-5 or np.array_equal(found["y"] > 0, expected["y"] > 0))
    for name, one in expected.items():
        assert_near(found[name], one, name, tolerance)


@given(
    images=st.integers(1, 35),
    channels=st.sampled_from([1, 3, 5, 8, 16, 20]),
    filters=st.sampled_from([1, 2, 7, 8, 16, 23]),
    size=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    kernel=PAIRS,
    stride=PAIRS,
    pad=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    layout=st.sampled_from([CHANNELS_LAST, BLOCKED]),
    bias=st.booleans(),
    neuron=st.sampled_from(["Identity", "ReLU"]),
)
def test_convolutions_agree_with_numpy(
    images: int, channels: int, filters: int, size: tuple[int, int], layout: str, **fields: Any
) -> None:
    layer = ConvolutionLayer(name="conv", bottoms="x", tops="y", n_filter=filters, **fields)
    shape = (images, channels, *size)
    ours = DirectConvolution(Geometry(layer, shape), keeps=False)
    ways = {part: DIRECTLY for part in ("forward", "weights", "data") if ours.has(part)}
    assert {"forward", "weights"} <= set(ways)
    random = np.random.default_rng(0).normal(1, size=shape).astype(np.float32)  # sums of both signs would cancel out
    found = results(layer, random, backend="onednn", plan={"onednn": {"layout": layout, "ways": {"conv": ways}}})
    assert found.pop("plan")["onednn"]["ways"] == {"conv": ways}
    assert_alike(found, results(layer, random, backend="numpy"))


@given(
    images=st.integers(1, 20),
    channels=st.sampled_from([native.lanes(), 16, 32, 48, 64, 128]),
    filters=st.sampled_from([native.lanes(), 16, 32, 80]),
    n_group=st.integers(1, 3),
    windows=st.sampled_from([(2, 1), (3, 1), (5, 1), (4, 2), (6, 2)]),
    planes=st.none() | st.tuples(st.integers(3, 5), st.integers(1, 3), st.integers(0, 2)),
    size=st.tuples(st.integers(6, 12), st.integers(6, 12)),
    pad=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    layout=st.sampled_from([CHANNELS_LAST, BLOCKED]),
    bias=st.booleans(),
    neuron=st.sampled_from(["Identity", "ReLU"]),
    way=st.sampled_from([BY_WINOGRAD, IN_LARGER_TILES, IN_PAIRS]),
    narrow=st.booleans(),
)
def test_winograd_agrees_with_numpy(
    images: int,
    channels: int,
    filters: int,
    n_group: int,
    windows: tuple[int, int],
    planes: tuple[int, int, int] | None,
    size: tuple[int, ...],
    pad: tuple[int, ...],
    layout: str,
    way: str,
    narrow: bool,
    **fields: Any,
) -> None:
    large, paired = way == IN_LARGER_TILES, way == IN_PAIRS
    assume(not narrow or (library().narrow and fields["neuron"] == "Identity"))
    assume(way == BY_WINOGRAD or windows[0] != 5)
    assume((way == BY_WINOGRAD) == (windows[0] == 5) if narrow else not paired)
    kernel, stride = ((one, one) for one in windows)
    if planes is not None:
        deep, depth, before = planes
        images, size, kernel, stride, pad = (
            images % 5 + 1,
            (deep, *size),
            (depth, *kernel),
            (1, *stride),
            (before, *pad),
        )
    fields |= {"n_filter": n_group * filters, "n_group": n_group, "kernel": kernel, "stride": stride, "pad": pad}
    layer = ConvolutionLayer(name="conv", bottoms="x", tops="y", **fields)
    shape = (images, n_group * channels, *size)
    random = np.random.default_rng(0).normal(1, size=shape).astype(np.float32)
    stages = parts_of(fields, shape, WinogradConvolution, large=large, narrow=narrow, paired=paired)
    assert {"forward", "weights"} <= stages or (large and not narrow and kernel[-1] < 6)
    ways = dict.fromkeys(stages, way)
    options: dict[str, Any] = {"compute": "bf16"} if narrow else {}
    plan = {"onednn": {"layout": layout, "ways": {"conv": ways}}}
    found = results(layer, random, backend="onednn", plan=plan, **options)
    assert ways.items() <= found.pop("plan")["onednn"]["ways"]["conv"].items()
    assert_alike(found, results(layer, random, backend="numpy"), 1e-2 if narrow else 1e-5)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (3, 1), (4, 2), (6, 2)])
def test_pairs_round_little_more_than_bf16_does(kernel: int, stride: int) -> None:
    if not library().narrow:
        pytest.skip("this processor has no bf16")
    layer = ConvolutionLayer(name="conv", bottoms="x", tops="y", n_filter=64, kernel=kernel, stride=stride, pad=1)
    random = np.random.default_rng(0).normal(size=(16, 64, 12, 12)).astype(np.float32)
    expected = results(layer, random, backend="numpy")
    errors: dict[str, dict[str, float]] = {}
    for way in (ANY, IN_PAIRS):
        ways = dict.fromkeys(("forward", "weights", "data"), way)
        plan = {"onednn": {"layout": BLOCKED, "ways": {"conv": ways}}}
        found = results(layer, random, backend="onednn", plan=plan, compute="bf16")
        assert found["plan"]["onednn"]["ways"]["conv"].items() >= ways.items()
        errors[way] = {
            name: float(np.linalg.norm(found[name] - expected[name]) / np.linalg.norm(expected[name]))
            for name in ("y", "dx", "conv/weight")
        }
    for name, most in {"y": 2, "dx": 2, "conv/weight": 3.2}.items():
        assert errors[IN_PAIRS][name] < most * errors[ANY][name], (name, errors)


@given(
    images=st.integers(1, 35),
    channels=st.sampled_from([1, 5, 16, 32]),
    filters=st.sampled_from([3, 7, 16, 32]),
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    windows=st.one_of(st.tuples(PAIRS, PAIRS), st.sampled_from([((4, 4), (2, 2)), ((6, 6), (2, 2))])),
    pad=st.integers(0, 1),
    layout=st.sampled_from([CHANNELS_LAST, BLOCKED]),
    bias=st.booleans(),
    neuron=st.sampled_from(["Identity", "ReLU"]),
)
def test_deconvolutions_agree_with_numpy(
    images: int, channels: int, filters: int, size: tuple[int, int], windows: Any, pad: int, layout: str, **fields: Any
) -> None:
    kernel, stride = windows
    fields |= {"kernel": kernel, "stride": stride, "pad": pad if min(kernel) > 2 * pad else 0}
    layer = DeconvolutionLayer(name="conv", bottoms="x", tops="y", n_filter=filters, **fields)
    shape = (images, channels, *size)
    random = np.random.default_rng(0).normal(1, size=shape).astype(np.float32)
    expected = results(layer, random, backend="numpy")
    for way, kind in ((DIRECTLY, DirectConvolution), (BY_WINOGRAD, WinogradConvolution)):
        ours = kind(Transposed(layer, shape), keeps=False)
        stages = {"forward": "data", "weights": "weights", "data": "forward"}
        ways = {stage: way for stage, theirs in stages.items() if ours.has(theirs)}
        assert way == BY_WINOGRAD or {"weights", "data"} <= set(ways)
        plan = {"onednn": {"layout": layout, "ways": {"conv": ways}}}
        found = results(layer, random, backend="onednn", plan=plan)
        assert ways.items() <= found.pop("plan")["onednn"].get("ways", {}).get("conv", {}).items()
        assert_alike(found, {**expected})


@given(
    kind=st.sampled_from([ConvolutionLayer, DeconvolutionLayer]),
    images=st.integers(1, 3),
    channels=st.sampled_from([1, 3, 8, 16, 20]),
    n_filter=st.sampled_from([1, 3, 7, 16, 32]),
    axes=st.lists(st.tuples(*(st.integers(*ends) for ends in ((3, 6), (1, 3), (1, 3), (0, 2), (1, 2)))), min_size=1,
                  max_size=2),
    layout=st.sampled_from([CHANNELS_LAST, BLOCKED]),
    way=st.sampled_from([AS_PRODUCT, PANELS, *([SPLIT] if native.has_amx() else [])]),
    narrow=st.booleans(),
    bias=st.booleans(),
    neuron=st.sampled_from(["Identity", "ReLU"]),
)  # fmt: skip
def test_products_of_windows_agree_with_numpy(
    kind: type[Any],
    images: int,
    channels: int,
    axes: list[tuple[int, ...]],
    layout: str,
    way: str,
    narrow: bool,
    **fields: Any,
) -> None:
    assume(not narrow or (library().narrow and (way, fields["neuron"]) == (AS_PRODUCT, "Identity")))
    size, windows = windows_of(axes)
    fields |= windows
    size = tuple(one + 2 * cells for one, cells in zip(size, windows["kernel"], strict=True))
    layer, shape = kind(name="conv", bottoms="x", tops="y", **fields), (images, channels, *size)
    geometry = (Geometry if kind is ConvolutionLayer else Transposed)(layer, shape)
    turned = {"forward": "data", "weights": "weights", "data": "forward"}
    stages = {stage: stage for stage in turned} if kind is ConvolutionLayer else turned
    summed = {"forward": channels, "weights": 2, "data": fields["n_filter"]}
    product = {AS_PRODUCT: ColumnsConvolution, PANELS: PanelsConvolution, SPLIT: SplitConvolution}[way]
    ours = product(geometry, keeps=False)
    ways = {stage: way for stage, theirs in stages.items() if ours.has(theirs)}
    assert ours.windows > 256 or ways.keys() == stages.keys()
    ways = {stage: way for stage in ways if not narrow or summed[stage] % 2 == 0}
    random = np.random.default_rng(0).normal(1, size=shape).astype(np.float32)
    options: dict[str, Any] = {"compute": "bf16"} if narrow else {}
    plan = {"onednn": {"layout": layout, "ways": {"conv": ways}}}
    found = results(layer, random, backend="onednn", plan=plan, **options)
    assert ways.items() <= found.pop("plan")["onednn"].get("ways", {}).get("conv", {}).items()
    assert_alike(found, results(layer, random, backend="numpy"), 2e-2 if narrow else 1e-5)


@pytest.mark.skipif(not library().narrow, reason="this processor has no bf16")
@given(
    phase=st.sampled_from(["train", "predict"]),
    images=st.integers(1, 3),
    n_filter=st.sampled_from([1, 5, 16, 32]),
    axes=st.lists(st.tuples(*(st.integers(*ends) for ends in ((1, 6), (1, 4), (1, 3), (0, 3), (1, 2)))), min_size=1,
                  max_size=3),
    layout=st.sampled_from([CHANNELS_LAST, BLOCKED]),
    bias=st.booleans(),
    neuron=st.sampled_from(["Identity", "ReLU"]),
)  # fmt: skip
def test_a_channel_of_zeros_behind_three_changes_nothing(
    phase: Phase, images: int, axes: list[tuple[int, ...]], layout: str, **fields: Any
) -> None:
    size, windows = windows_of(axes)
    fields |= windows
    size = tuple(one + 2 * cells for one, cells in zip(size, windows["kernel"], strict=True))
    layers = [
        InputLayer(name="in", tops="x", shape=(3, *size), batch_size=images),
        ConvolutionLayer(name="conv", bottoms="x", tops="y", **fields),
    ]
    plan = {"onednn": {"layout": layout, "ways": {"conv": {"forward": WITH_ZEROS}}}}
    ours = Net("net", layers, phase=phase, backend="onednn", plan=plan, compute="bf16")
    theirs = Net("net", layers, phase=phase, backend="numpy")
    assert ours.plan == plan
    random = np.random.default_rng(0)
    x = random.integers(-8, 9, (images, 3, *size)).astype(np.float32)
    weight = random.integers(-8, 9, theirs.parameters["conv/weight"].value.shape)  # sums are exact
    for factor in (1, -1):  # copies of the weights that are kept are made anew when these have changed
        for net in (ours, theirs):
            net.parameters["conv/weight"].value = (factor * weight).astype(np.float32)
            net.write("x", x)
            net.forward()
        assert_near(ours.blob("y"), theirs.blob("y"), "y", 2**-8)


@given(
    kind=st.sampled_from([ConvolutionLayer, DeconvolutionLayer]),
    images=st.integers(1, 4),
    channels=st.sampled_from([2, 4, 16, 24, 32, 48, 80]),
    n_filter=st.sampled_from([2, 4, 16, 24, 48, 80]),
    n_group=st.integers(1, 2),
    axes=st.lists(st.tuples(*(st.integers(*ends) for ends in ((1, 8), (1, 5), (1, 6), (0, 4), (1, 2)))), min_size=1,
                  max_size=3),
    layout=st.sampled_from([CHANNELS_LAST, BLOCKED]),
    way=st.sampled_from([ANY, AS_IT_IS]),
    compute=st.sampled_from(["float32", *(["bf16"] if library().narrow else [])]),
)  # fmt: skip
@example(ConvolutionLayer, 2, 48, 24, 1, [(8, 3, 1, 0, 1), (20, 4, 2, 0, 1)], CHANNELS_LAST, AS_IT_IS, "bf16")
@example(ConvolutionLayer, 2, 16, 24, 1, [(8, 3, 1, 0, 1), (20, 4, 4, 0, 1)], CHANNELS_LAST, AS_IT_IS, "bf16")
@example(ConvolutionLayer, 4, 16, 16, 1, [(8, 1, 2, 0, 1), (8, 1, 2, 0, 1), (8, 3, 2, 0, 1)], BLOCKED, ANY, "bf16")
@example(ConvolutionLayer, 1, 4, 4, 1, [(1, 4, 2, 0, 1), (1, 1, 2, 0, 1), (1, 2, 3, 1, 1)], BLOCKED, AS_IT_IS, "bf16")
@example(ConvolutionLayer, 2, 64, 80, 1, [(11, 3, 6, 0, 1), (20, 3, 1, 0, 2)], BLOCKED, ANY, "bf16")
@example(ConvolutionLayer, 3, 16, 64, 1, [(2, 5, 3, 4, 1), (3, 1, 2, 0, 2), (6, 4, 5, 2, 2)], BLOCKED, ANY, "float32")
@example(DeconvolutionLayer, 2, 16, 32, 1, [(6, 1, 3, 0, 1), (7, 3, 1, 0, 2), (2, 2, 1, 1, 1)], BLOCKED, ANY, "bf16")
@example(DeconvolutionLayer, 3, 4, 2, 1, [(1, 2, 1, 1, 2), (3, 3, 1, 0, 2), (6, 1, 1, 0, 2)], BLOCKED, AS_IT_IS, "bf16")
@example(DeconvolutionLayer, 2, 32, 2, 1, [(1, 3, 3, 1, 1)], CHANNELS_LAST, ANY, "bf16")
@example(DeconvolutionLayer, 3, 128, 24, 1, [(11, 4, 4, 0, 1)], BLOCKED, ANY, "bf16")
@example(DeconvolutionLayer, 2, 64, 128, 1, [(20, 2, 5, 0, 1), (14, 1, 2, 0, 1)], BLOCKED, ANY, "bf16")
@example(DeconvolutionLayer, 2, 16, 64, 1, [(4, 5, 2, 3, 1), (3, 3, 1, 0, 1), (5, 2, 4, 1, 2)], BLOCKED, ANY, "float32")
def test_convolutions_multiply_the_numbers_that_numpy_does(
    kind: type[Any],
    images: int,
    channels: int,
    n_filter: int,
    n_group: int,
    axes: list[tuple[int, ...]],
    layout: str,
    way: str,
    compute: str,
) -> None:
    """oneDNN 3.2 takes others for some windows, and with AMX ends the process for some."""
    assume(compute == "float32" or library().narrow)
    size, windows = windows_of(axes)
    extents = [(count - 1) * dilation for count, dilation in zip(windows["kernel"], windows["dilation"], strict=True)]
    if kind is ConvolutionLayer:
        size = tuple(one + extent for one, extent in zip(size, extents, strict=True))
    else:
        cells = zip(size, extents, windows["stride"], windows["pad"], strict=True)
        assume(all((one - 1) * stride + extent >= 2 * pad for one, extent, stride, pad in cells))
    layer = kind(name="conv", bottoms="x", tops="y", n_filter=n_filter, n_group=n_group, **windows)
    x = np.random.default_rng(0).normal(1, size=(images, channels, *size)).astype(np.float32)
    plan = {"onednn": {"layout": layout, "ways": {"conv": dict.fromkeys(("forward", "weights", "data"), way)}}}
    found = results(layer, x, backend="onednn", plan=plan, compute=compute)
    assert_alike(found, results(layer, x, backend="numpy"), 3e-2 if compute == "bf16" else 1e-5)


@given(
    images=st.integers(1, 5),
    channels=st.integers(2, 3 * native.LANES + 1),
    axes=st.lists(st.tuples(*(st.integers(*ends) for ends in ((1, 9), (1, 5), (1, 3), (0, 4), (1, 2)))), min_size=1,
                  max_size=2),
    layout=st.sampled_from([CHANNELS_LAST, BLOCKED]),
    bias=st.booleans(),
    neuron=st.sampled_from(["Identity", "ReLU"]),
)  # fmt: skip
def test_filters_of_one_channel_agree_with_numpy(
    images: int, channels: int, axes: list[tuple[int, ...]], layout: str, **fields: Any
) -> None:
    size, windows = windows_of(axes)
    fields |= windows
    size = tuple(one + 2 * (cells - 1) for one, cells in zip(size, windows["kernel"], strict=True))
    layer = ConvolutionLayer(name="conv", bottoms="x", tops="y", n_filter=channels, n_group=channels, **fields)
    random = np.random.default_rng(0).normal(1, size=(images, channels, *size)).astype(np.float32)
    plan = {"onednn": {"layout": layout, "ways": {"conv": {"forward": BY_CHANNELS}}}}
    found = results(layer, random, backend="onednn", plan=plan)
    assert found.pop("plan")["onednn"]["ways"]["conv"]["forward"] == BY_CHANNELS
    assert_alike(found, results(layer, random, backend="numpy"))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("channels", "side"), [(100, 3), (16, 5), (48, 9)])
def test_threads_change_no_bit_of_filters_of_one_channel(channels: int, side: int, *, relu: bool) -> None:
    """They share rows of results, or blocks of channels where there are few rows."""
    fields: dict[str, Any] = {"n_filter": channels, "n_group": channels, "kernel": 3, "pad": 1}
    layer = ConvolutionLayer(name="conv", bottoms="x", tops="y", **fields)
    shape = (1, channels, side, side)
    ours = DepthwiseConvolution(Geometry(layer, shape), keeps=False)
    random = np.random.default_rng(0)
    sizes = {"x": shape[1] * side**2, "weight": 9 * channels, "bias": channels}
    given = {name: random.normal(1, size=size).astype(np.float32) for name, size in sizes.items()}
    image = describe(shape, CHANNELS_LAST)
    found: list[dict[str, Any]] = []
    for threads in (1, 2, 3, 4):
        y = np.full(sizes["x"], 7, np.float32)
        run(ours.forward(("x", image), ("y", image), "bias"), {**given, "y": y}, threads)
        found.append({"y": y})
    assert_same_bits(found)


@pytest.mark.parametrize(("images", "taken"), [(1, True), (40, False)])
def test_products_that_wait_for_weights_fetch_them_ahead(images: int, *, taken: bool) -> None:
    """A prediction takes the helper's product without a trial where the weights are more than the images."""
    layers = [
        InputLayer(name="in", tops="x", shape=(96, 3, 3), batch_size=images),
        ConvolutionLayer(name="conv", bottoms="x", tops="y", n_filter=200, kernel=1, neuron="ReLU"),
    ]
    plan = {"onednn": {"layout": CHANNELS_LAST, "ways": {"conv": {"forward": AS_IT_IS}}}}
    net = Net("net", layers, phase="predict", backend="onednn", plan=plan, seed=1)
    assert net.node_ops["conv"].state.ways["forward"] == (PANELS if taken else AS_IT_IS)
    theirs = Net("net", layers, phase="predict", backend="numpy", seed=1)
    x = np.random.default_rng(0).normal(size=(images, 96, 3, 3)).astype(np.float32)
    for one in (net, theirs):
        one.write("x", x)
        one.forward()
    assert_near(net.blob("y"), theirs.blob("y"), "y", 1e-5)


@pytest.mark.parametrize(
    ("way", "fields"),
    [(PANELS, {"n_filter": 24, "kernel": 1}), (BY_CHANNELS, {"n_filter": 5, "n_group": 5, "kernel": 3, "pad": 1})],
)
@pytest.mark.parametrize("phase", ["train", "predict"])
def test_ways_with_relu_keep_a_nan_and_see_other_weights(phase: Phase, way: str, fields: dict[str, Any]) -> None:
    """Also with more windows than those that make a matrix small."""
    layers = [
        InputLayer(name="in", tops="x", shape=(5, 20, 31), batch_size=2),
        ConvolutionLayer(name="conv", bottoms="x", tops="y", neuron="ReLU", **fields),
    ]
    x = np.random.default_rng(0).normal(1, size=(2, 5, 20, 31)).astype(np.float32)
    x[1, 3, 4, 5] = np.nan
    plan = {"onednn": {"layout": CHANNELS_LAST, "ways": {"conv": {"forward": way}}}}
    ours = Net("net", layers, phase=phase, backend="onednn", plan=plan)
    theirs = Net("net", layers, phase=phase, backend="numpy")
    assert ours.plan == plan
    for factor in (1, -1):  # copies of the weights that are kept are made anew when these have changed
        found: list[Any] = []
        for net in (ours, theirs):
            net.parameters["conv/weight"].value = factor * theirs.parameters["conv/weight"].value
            net.write("x", x)
            net.forward()
            found.append(net.blob("y"))
        assert np.array_equal(np.isnan(found[0]), np.isnan(found[1]))
        assert np.isnan(found[0]).sum() == {PANELS: 24, BY_CHANNELS: 9}[way]
        assert_near(found[0], found[1], "y", 1e-5)


def parts_of(
    fields: dict[str, Any], shape: tuple[int, ...], kind: type[DirectConvolution] = DirectConvolution, **options: Any
) -> set[str]:
    geometry = Geometry(ConvolutionLayer(bottoms="x", tops="y", **fields), shape)
    ours = kind(geometry, keeps=False, **options)
    return {part for part in ("forward", "weights", "data") if ours.has(part)}


def test_what_is_left_to_onednn() -> None:
    usual: dict[str, Any] = {"n_filter": 4, "kernel": 3}
    assert parts_of(usual, (2, 4, 8, 8)) == {"forward", "weights", "data"}
    assert parts_of({**usual, "stride": 2}, (2, 4, 8, 8)) == {"forward", "weights"}
    assert parts_of({**usual, "pad": 3}, (2, 4, 8, 8)) == {"forward", "weights"}, "more padding than filter"
    assert not parts_of({**usual, "dilation": 2}, (2, 4, 8, 8))
    assert not parts_of({**usual, "n_group": 2}, (2, 4, 8, 8))
    assert not parts_of(usual, (2, 4, 150, 150)), "more than a core's cache holds"
    usual = {"n_filter": 32, "kernel": 3}
    assert parts_of(usual, (2, 16, 8, 8), WinogradConvolution) == {"forward", "weights", "data"}
    assert parts_of({**usual, "pad": 3}, (2, 16, 8, 8), WinogradConvolution) == {"forward", "weights"}
    assert parts_of({**usual, "kernel": 4, "stride": 2, "pad": 1}, (2, 16, 8, 8), WinogradConvolution) == {
        "forward",
        "weights",
        "data",
    }
    odd = {**usual, "kernel": 4, "stride": 2}
    assert parts_of(odd, (2, 16, 9, 8), WinogradConvolution) == {"forward", "weights"}, "a row that nothing reads"
    changes = {"n_filter": 20}, {"kernel": 7}, {"kernel": (3, 5)}, {"stride": 2}, {"dilation": 2}, {"n_group": 4}
    for change in changes:  # the last to groups of 4 channels
        assert not parts_of({**usual, **change}, (2, 16, 8, 8), WinogradConvolution)
    assert not parts_of(usual, (2, 20, 8, 8), WinogradConvolution)
    assert parts_of(usual, (2, 16, 8, 8), WinogradConvolution, large=True) == {"forward", "weights", "data"}
    usual["kernel"] = 2
    assert parts_of(usual, (2, 64, 8, 8), WinogradConvolution, large=True) == {"forward"}, "few filters and results"
    assert parts_of(usual, (64, 32, 8, 8), WinogradConvolution, large=True) == {"weights"}, "few channels and filters"
    for narrow in ({"large": True}, {"paired": True}):
        every = parts_of(usual, (2, 32, 8, 8), WinogradConvolution, narrow=True, **narrow)
        assert every == ({"forward", "weights", "data"} if native.has_avx512() else set())
        assert not parts_of({**usual, "kernel": 5}, (2, 64, 8, 8), WinogradConvolution, narrow=True, **narrow)
    assert not parts_of({**usual, "kernel": 5}, (2, 64, 8, 8), WinogradConvolution, large=True)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "number_of_threads", lambda: 3)
    layer = ConvolutionLayer(bottoms="x", tops="y", n_filter=23, kernel=3, pad=1, neuron=ReLU())
    ours = DirectConvolution(Geometry(layer, (70, 5, 6, 7)), keeps=False)
    x, y = describe((70, 5, 6, 7), CHANNELS_LAST), describe((70, 23, 6, 7), CHANNELS_LAST)
    random = np.random.default_rng(0)
    given = {name: random.normal(size=size).astype(np.float32) for name, size in
             {"x": 70 * 5 * 42, "dy": 70 * 23 * 42, "weight": 23 * 45, "bias": 23}.items()}  # fmt: skip
    results: list[dict[str, Any]] = []
    for threads in (1, 2, 3, 5):  # for the last of which there is no memory: they stay away
        found = {"y": np.zeros_like(given["dy"]), "dx": np.zeros_like(given["x"]),
                 "dweight": np.zeros_like(given["weight"]), "dbias": np.zeros_like(given["bias"])}  # fmt: skip
        calls = [
            *ours.forward(("x", x), ("y", y), "bias"),
            *ours.data(("dx", x), ("dy", y)),
            *ours.weights(("x", x), ("dy", y), "dbias"),
        ]
        run(calls, {**given, **found}, threads)
        results.append(found)
    assert_same_bits(results)


@pytest.mark.parametrize(
    ("kernel", "form"), [(3, ""), (5, ""), (2, "large"), (3, "large"), (2, "narrow paired"), (3, "narrow paired")]
)
@pytest.mark.parametrize("alone", [0, 1 << 20])
def test_workers_share_the_gradient_of_filters(
    kernel: int, form: str, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = "narrow" in form
    if narrow and not library().narrow:
        pytest.skip("this processor has no bf16")
    options, dtype = dict.fromkeys(form.split(), True), "bf16" if narrow else "float32"
    monkeypatch.setattr(direct, "number_of_threads", lambda: 3)
    for name, value in {"ALONE": alone, "MOST_TILES": 12, "MOST_OF_ALL": 24}.items():
        monkeypatch.setattr(winograd, name, value)  # many steps, and workers without tiles where there is one image
    layer = ConvolutionLayer(bottoms="x", tops="y", n_filter=32, kernel=kernel, pad=1)
    random = np.random.default_rng(0)
    for images, size in ((1, kernel), (7, 11)):
        geometry = Geometry(layer, (images, 16, size, size))
        x, dy = (random.normal(size=shape).astype(np.float32) for shape in ((images, 16, size, size), geometry.top))
        if narrow:
            x, dy = (exact.widen(exact.narrow(one)) for one in (x, dy))
        windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), geometry.top[2:], (2, 3))
        expected = np.einsum("ncijyx,nfyx->fcij", windows.astype(np.float64), dy, optimize=True)
        calls = WinogradConvolution(geometry, keeps=False, **options).weights(
            ("x", describe(x.shape, CHANNELS_LAST, dtype)), ("dy", describe(dy.shape, CHANNELS_LAST, dtype)), "dbias"
        )
        last = {name: np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for name, one in {"x": x, "dy": dy}.items()}
        if narrow:
            last = {name: exact.narrow(one) for name, one in last.items()}
        for threads in (1, 2, 3, 5):
            found = {"dweight": np.empty_like(expected, np.float32), "dbias": np.empty(32, np.float32)}
            run(calls, {**last, **found}, threads)
            assert_near(found["dweight"], expected, "dweight", 1e-2 if narrow else 4e-6)
            assert_near(found["dbias"], dy.sum((0, 2, 3)), "dbias", 1e-6)


@needs_avx512
@pytest.mark.parametrize("dtype", ["float32", "bf16"])
@given(shape=st.tuples(st.integers(1, 150), st.integers(1, 70)), seed=st.integers(0, 99))
def test_weights_are_packed_as_onednn_does_it(dtype: str, shape: tuple[int, int], seed: int) -> None:
    if dtype == "bf16" and not library().narrow:
        pytest.skip("this processor has no bf16")
    weight = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    weight.flat[::7] *= 1e30
    weight.flat[::11] = [np.inf, -np.inf, np.nan, 0][seed % 4]
    for tag, block in TILES[dtype].items():
        inner = tagged(shape, tag, dtype)
        call = packing("weight", plain(*shape), inner, "copy")
        assert call is not None
        expected, found = aligned(inner.bytes), aligned(inner.bytes)
        found[...] = 7  # what is padded must be written too
        run(reorder("weight", plain(*shape), "copy", inner), {"weight": weight, "copy": expected}, 1)
        run([call], {"weight": weight, "copy": found}, 2)
        assert found.tobytes() == expected.tobytes(), block


@needs_avx512
def test_other_copies_are_left_to_onednn() -> None:
    assert packing("weight", plain(20, 30), plain(20, 30), "copy") is None
    assert packing("weight", plain(20, 30, dtype="bf16"), tagged((20, 30), 237), "copy") is None
    assert packing("weight", plain(20, 3, 2, 2), tagged((20, 30), 237), "copy") is None
