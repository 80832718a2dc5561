"""In phase predict, layers with filters compute the BatchNorm and the sum behind them, with copies of their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import Identity, InputLayer, Layer, Net, is_identity
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.element_wise import Add, ElementWiseLayer, Multiply
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.neurons import LReLU, ReLU, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.helper.native import helper
from nacre_onednn.kernels.batch_norm import BatchNormKernel
from nacre_onednn.kernels.convolution import ConvolutionKernel
from nacre_onednn.kernels.element_wise import ElementWiseKernel
from small_layers import HalveLayer

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if helper() is None:
    pytest.skip("the native helper was not compiled", allow_module_level=True)

WAYS = (
    *("as it is", "as the top", "as the bottom", "any", "in lanes", "by Winograd", "by Winograd, in larger tiles"),
    *("as a product", "in panels", "in split panels", "channel by channel"),
)


def fill(net: Net, random: np.random.Generator) -> None:
    for name, one in sorted(net.parameters.items()):
        positive = name.endswith("variance")
        one.value = random.uniform(0.3, 2, one.shape) if positive else random.normal(0, 0.5, one.shape)


def folded(net: Net) -> list[str]:
    return [op.name for op in net.ops if isinstance(op.state, BatchNormKernel) and op.state.filters]


def joined(net: Net) -> list[str]:
    return [op.name for op in net.ops if isinstance(op.state, ElementWiseKernel) and op.state.joined]


def some(random: np.random.Generator) -> tuple[tuple[int, ...], list[Layer]]:
    """Return the shape of a record, and two or three layers."""
    axes = int(random.integers(1, 4))
    transposed = random.random() < 0.4
    groups = int(random.choice([1, 1, 2, 16]))
    channels, filters = (groups * int(random.choice([1, 3, 8, 16, 32])) for _ in range(2))
    sizes = {"kernel": int(random.integers(1, 4)), "stride": int(random.integers(1, 3)), "pad": int(random.integers(2))}
    sizes["pad"] = min(sizes["pad"], sizes["kernel"] - 1)
    kind = DeconvolutionLayer if transposed else ConvolutionLayer
    bias, norm = bool(random.random() < 0.5), {name: bool(random.random() < 0.7) for name in ("scale", "bias")}
    neuron = [Identity(), ReLU(), LReLU()][int(random.integers(3))]
    layers: list[Layer] = [
        kind(bottoms="data", tops="conv", n_filter=filters, n_group=groups, bias=bias, **sizes),
        BatchNormLayer(bottoms="conv", tops="norm", neuron=neuron, epsilon=float(random.choice([1e-5, 0.1])), **norm),
    ]
    if random.random() < 0.6:
        bottoms = ["norm", "other"][:: 1 if random.random() < 0.5 else -1]
        neuron = [Identity(), ReLU(), LReLU()][int(random.integers(3))]
        layers.append(ElementWiseLayer(name="sum", bottoms=bottoms, tops="sum", neuron=neuron))
    return (channels, *(int(one) for one in random.integers(4, 9, axes))), layers


def compare(number: int) -> None:
    random = np.random.default_rng(number)
    shape, layers = some(random)
    batch_size = int(random.choice([1, 2, 17]))
    given: list[Layer] = [InputLayer(tops="data", shape=shape, batch_size=batch_size)]
    top = Net("net", [*given, *layers[:2]], backend="numpy", phase="predict").memory.final["norm"].shape[1:]
    if len(layers) > 2:
        given.append(InputLayer(tops="other", shape=top, batch_size=batch_size))
    last = layers[-1].tops[0]
    x, other = (random.normal(size=(batch_size, *one)) for one in (shape, top))
    nets: list[Net] = []
    plain = Net("net", [*given, *layers], backend="numpy", phase="predict")
    kernel = Net("net", [*given, *layers], backend="onednn", phase="predict").node_ops["conv"].state
    ways = WAYS if isinstance(kernel, ConvolutionKernel) else ()
    for layout in ("channels last", "blocked"):
        for way in ways:
            plan = {"onednn": {"layout": layout, "ways": {"conv": {"forward": way}}}}
            nets.append(Net("net", [*given, *layers], backend="onednn", phase="predict", plan=plan, share=None))
    for net in (plain, *nets):
        fill(net, np.random.default_rng(number))
        net.write("data", x)
        if len(layers) > 2:
            net.write("other", other)
        net.forward()
    if ways:
        filters = type(kernel) is ConvolutionKernel
        assert folded(nets[0]) == (["norm"] if kernel.layer.n_group == 1 or filters else [])
        adds = filters and len(layers) > 2 and is_identity(layers[1].neuron)
        assert joined(nets[0]) == (["sum"] if adds else [])
    expected = plain.blob(last)
    for net in nets:
        error = np.abs(net.blob(last) - expected).max()
        assert error <= 2e-5 * max(1, np.abs(expected).max()), (layers, shape, net.plan)


@pytest.mark.parametrize("number", range(12))
def test_it_is_what_the_layers_compute_in_turn(number: int) -> None:
    compare(number)


@pytest.mark.long
@pytest.mark.parametrize("number", range(12, 212))
def test_it_is_what_any_layers_compute_in_turn(number: int) -> None:
    compare(number)


CONV = ConvolutionLayer(bottoms="data", tops="conv", n_filter=16, kernel=3)
NORM = BatchNormLayer(bottoms="conv", tops="norm", neuron=ReLU())
DATA = InputLayer(tops="data", shape=(16, 6, 5), batch_size=2)


def test_what_training_changes_is_folded_anew() -> None:
    target = InputLayer(tops="target", shape=(16, 4, 3), batch_size=2)
    loss = SquareLossLayer(name="loss", bottoms=["norm", "target"], exclude=["predict"])
    outputs: dict[str, list[Any]] = {}
    for backend in ("onednn", "numpy"):
        random = np.random.default_rng(1)
        net = Net("net", [DATA, target, CONV, NORM, loss], backend=backend)
        fill(net, random)
        found = outputs.setdefault(backend, [])
        x = random.normal(size=(2, 16, 6, 5))
        for _ in range(2):
            found.append(net.predict(x, output="norm"))
            net.write("data", random.normal(1, 3, size=x.shape))
            net.write("target", random.normal(size=(2, 16, 4, 3)))
            net.forward()  # the running mean and variance follow, though no parameter is written
        found.append(net.predict(x, output="norm"))
        net.parameters["conv/weight"].value = random.normal(size=(16, 16, 3, 3))
        found.append(net.predict(x, output="norm"))
    for one, other in zip(outputs["onednn"], outputs["numpy"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert np.abs(outputs["numpy"][1] - outputs["numpy"][0]).max() > 0.1


def test_it_happens_in_residual_blocks_and_for_several_in_a_row() -> None:
    block = [
        CONV,
        NORM,
        ConvolutionLayer(bottoms="norm", tops="conv2", n_filter=16, kernel=3, pad=1),
        BatchNormLayer(bottoms="conv2", tops="norm2"),
        ElementWiseLayer(name="sum", bottoms=["norm2", "norm"], tops="sum", neuron=ReLU()),
    ]
    one, other = (Net("net", [DATA, *block], backend=name, phase="predict") for name in ("onednn", "numpy"))
    x = np.random.default_rng(0).normal(size=(2, 16, 6, 5))
    for net in (one, other):
        fill(net, np.random.default_rng(0))
        net.write("data", x)
        net.forward()
    assert (folded(one), joined(one)) == (["norm", "norm2"], ["sum"])
    np.testing.assert_allclose(one.blob("sum"), other.blob("sum"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("layers", "options"),
    [
        ([CONV, NORM], {"keep": ["conv"]}),
        ([CONV, NORM], {"keep": "all"}),
        ([CONV, NORM], {"phase": "test"}),
        ([CONV, NORM], {"phase": "train"}),
        ([ConvolutionLayer(bottoms="data", tops="conv", n_filter=16, kernel=3, neuron=ReLU()), NORM], {}),
        ([CONV, NORM, BatchNormLayer(bottoms="conv", tops="other")], {}),
        ([CONV, BatchNormLayer(bottoms="conv", tops="norm", axis=2)], {}),
    ],
    ids=["kept", "all kept", "test", "train", "a neuron between", "two readers", "another axis"],
)
def test_it_does_not_happen_where_the_filters_top_is_needed(layers: list[Layer], options: dict[str, Any]) -> None:
    assert folded(Net("net", [DATA, *layers], **{"backend": "onednn", "phase": "predict", **options})) == []


def filters(bottom: str, name: str) -> list[Layer]:
    """Return a convolution and a BatchNorm, whose top has this name."""
    conv = ConvolutionLayer(bottoms=bottom, tops=f"{name}_conv", n_filter=16, kernel=1)
    return [conv, BatchNormLayer(bottoms=conv.tops, tops=name)]


def add(one: str, other: str, name: str = "sum", **fields: Any) -> ElementWiseLayer:
    return ElementWiseLayer(name=name, bottoms=[one, other], tops=name, neuron=ReLU(), **fields)


ONE, TWO = filters("data", "one"), filters("data", "two")
ACTIVATION = ActivationLayer(bottoms="sum", tops="end", neuron=Tanh())


@pytest.mark.parametrize("bottoms", [["one", "data"], ["data", "one"]])
def test_what_is_added_may_lie_elsewhere(bottoms: list[str]) -> None:
    """Blobs of three axes are plain arrays for some layers, and images for others."""
    given = InputLayer(tops="data", shape=(16, 9), batch_size=2)
    one, other = (
        Net("net", [given, *filters("data", "one"), add(*bottoms), ACTIVATION], backend=name, phase="predict")
        for name in ("onednn", "numpy")
    )
    for net in (one, other):
        fill(net, np.random.default_rng(0))
        net.write("data", np.random.default_rng(0).normal(size=(2, 16, 9)))
        net.forward()
    assert joined(one) == ["sum"]
    np.testing.assert_allclose(one.blob("end"), other.blob("end"), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # an infinity less another one
@pytest.mark.parametrize(
    ("layers", "expected", "options"),
    [
        ([*ONE, add("one", "data")], ["sum"], {}),
        ([*ONE, *TWO, add("one", "two")], ["sum"], {}),
        ([*ONE, *TWO, add("two", "one")], ["sum"], {}),
        ([ONE[0], TWO[0], ONE[1], TWO[1], add("one", "two")], [], {}),
        ([*ONE, HalveLayer(name="halve", bottoms="data"), add("one", "data")], ["sum"], {}),
        ([*ONE, add("one", "one")], [], {}),
        ([*ONE, add("one", "data"), add("sum", "one", "more")], [], {}),
        ([*ONE, *TWO, add("one", "two"), *filters("sum", "three"), add("three", "sum", "more")], ["sum", "more"], {}),
        ([*ONE, add("one", "data")], [], {"keep": ["one"]}),
        ([*ONE, add("one", "data")], [], {"phase": "test"}),
        ([*ONE, add("one", "data", operation=Multiply())], [], {}),
        ([*ONE, add("one", "data", operation=Add(coefficients=[2.0, -1.0]))], [], {}),
    ],
    ids=["one", "two", "two turned", "a later one", "changed in place", "twice", "read again", "a chain", "kept",
         "test", "no sum", "coefficients"],
)  # fmt: skip
def test_sums_are_joined_to_filters_that_run_when_the_rest_is_there(
    layers: list[Layer], expected: list[str], options: dict[str, Any]
) -> None:
    """With the numbers of the layers in turn, a NaN and infinities of what is added among them."""
    one, other = (
        Net("net", [DATA, *layers], **{"backend": name, "phase": "predict", "insert_splits": True, **options})
        for name in ("onednn", "numpy")
    )
    x = np.random.default_rng(0).normal(size=(2, 16, 6, 5))
    x[0, 3, 1, 2], x[1, 4, 0, 0], x[1, 5, 5, 4] = np.nan, np.inf, -np.inf
    for net in (one, other):
        fill(net, np.random.default_rng(0))
        net.write("data", x)
        for _ in range(2):
            net.forward()
    assert joined(one) == expected
    last = layers[-1].tops[0]
    np.testing.assert_allclose(one.blob(last), other.blob(last), rtol=1e-4, atol=1e-4)
