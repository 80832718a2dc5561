"""The onednn backend's SquareLoss, HuberLoss and SigmoidCrossEntropyLoss, against the layers' own states."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact import L, logistic
from forging import trials
from helper_calls import without_helper
from losses import NORMALIZE, WEIGHT
from nacre import ConfigError, InputLayer, Layer, Net, open_backend
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example, Trial, layer_of
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.huber_loss import HuberLossLayer
from nacre_layers.losses.sigmoid_cross_entropy_loss import SigmoidCrossEntropyLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.helper import native
from nacre_onednn.kernels.pair_loss import PairLossKernel

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if native.helper() is None:
    pytest.skip("no helper was compiled", allow_module_level=True)

LOSSES: list[Any] = [SquareLossLayer, HuberLossLayer, SigmoidCrossEntropyLossLayer]
every_loss = pytest.mark.parametrize("layer", LOSSES)
HERE = (PairLossKernel, "onednn")
INSTRUCTIONS = range(native.most_instructions() + 1)


@st.composite
def uses(draw: Any, layer: Any) -> tuple[Example, int]:
    """Draw a use of a loss, and how many of its rows count."""
    rows, numbers = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 17, 341, 1024, 1025, 9001]))
    images = draw(st.sampled_from([rows, rows, 700])) if numbers < 100 else rows
    forms = [(images, numbers), (images, 1, numbers), (images, numbers, 1, 1), *([(images,)] if numbers == 1 else [])]
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    a, b = random.normal(0, 2, draw(st.sampled_from(forms))), random.normal(0, 1, draw(st.sampled_from(forms)))
    fields: dict[str, Any] = {"weight": draw(WEIGHT)}
    if layer is SigmoidCrossEntropyLossLayer:
        b = np.where(random.random(b.shape) < 0.5, b > 0, random.random(b.shape))
        fields["normalize"] = draw(NORMALIZE)
    if layer is HuberLossLayer:
        fields["delta"] = draw(st.sampled_from([0.3, 1.0, 2.5]))
    weighs = layer.weighs and draw(st.booleans())
    weights = [random.uniform(0, 2, draw(st.sampled_from([(images,), (images, 1)])))] if weighs else []
    inputs = [one.astype("float32") for one in (a, b, *weights)]
    wanted = draw(st.lists(st.sampled_from(range(len(inputs))), min_size=1, unique=True).map(sorted))
    return Example(fields, inputs, wanted=wanted), draw(st.sampled_from([images, rows]))


def results(layer: Any, example: Example, rows: int, dtype: str, kernel: Any = None) -> dict[str, Any]:
    """Return the loss and the gradients on onednn: by the layer's own state, or by a kernel."""
    made = Trial(lambda one: layer_of(layer, one), example, backend="onednn", dtype=dtype, kernel=kernel)
    assert bool(made.op.kernel) == (kernel is not None)
    with np.errstate(invalid="ignore"):
        loss = made.forward([one[:rows] for one in made.arrays])
        found = {"loss": np.array(loss), **made.gradients()}
    made.shutdown()
    return found


@every_loss
@settings(max_examples=trials(25, 200), derandomize=True)
@given(data=st.data())
def test_it_computes_what_the_own_state_does(layer: Any, data: Any) -> None:
    example, rows = data.draw(uses(layer))
    found = results(layer, example, rows, "float32", HERE)
    exact, own = (results(layer, example, rows, dtype) for dtype in ("float64", "float32"))
    assert found.keys() == exact.keys()
    for name, right in exact.items():
        error, other = (np.linalg.norm(one[name] - right) for one in (found, own))
        least = 4e-7 * np.linalg.norm(right)  # of a few numbers the error may be larger by chance
        assert error <= max(1.5 * other, least), name
        if layer is not SigmoidCrossEntropyLossLayer and name != "loss":
            np.testing.assert_array_equal(found[name], own[name])


@every_loss
@pytest.mark.parametrize("spread", [0.3, 2, 10])
def test_of_many_numbers_the_error_is_no_larger_than_that_of_the_own_state(layer: Any, spread: float) -> None:
    random = np.random.default_rng(4)
    inputs = [random.normal(0, spread, (5, 40_000)), random.random((5, 40_000))]
    example = Example({}, [one.astype("float32") for one in inputs])
    found = results(layer, example, 5, "float32", HERE)
    exact, own = (results(layer, example, 5, dtype) for dtype in ("float64", "float32"))
    for name, right in exact.items():
        error, other = (np.linalg.norm(one[name] - right) for one in (found, own))
        assert error <= max(1.1 * other, 1e-9 * np.linalg.norm(right)), name


@every_loss
@pytest.mark.parametrize("weighed", [False, True])
def test_the_bits_are_the_same_on_every_processor_and_number_of_threads(
    layer: Any, weighed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper, random = native.helper(), np.random.default_rng(1)
    shapes: list[Any] = [(7, 9001), (7, 9001), *([(7,)] if weighed and layer.weighs else [])]
    example = Example({}, [random.normal(0, 3, shape).astype("float32") for shape in shapes])
    found: list[dict[str, Any]] = []
    try:
        for instructions, threads in itertools.product(INSTRUCTIONS, (1, 2, 3)):
            helper.nacre_use(ctypes.c_int64(instructions))
            monkeypatch.setattr(open_backend("onednn"), "threads", threads)
            found.append(results(layer, example, 6, "float32", HERE))
    finally:
        helper.nacre_use(ctypes.c_int64(native.most_instructions()))
    for other in found[1:]:
        for name, one in found[0].items():
            assert one.tobytes() == other[name].tobytes(), name


@every_loss
@pytest.mark.parametrize("index", [0, 1])
def test_nan_reaches_the_loss_and_its_own_gradients(layer: Any, index: int) -> None:
    inputs = [np.random.default_rng(2).normal(size=(3, 37)).astype("float32") for _ in range(2)]
    inputs[index][1, 5] = np.nan
    found = results(layer, Example({}, inputs), 3, "float32", HERE)
    own = results(layer, Example({}, inputs), 3, "float32")
    assert np.isnan(found["loss"])
    for name in ("input 0", "input 1"):
        np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(own[name]))
    assert any(np.isnan(found[name][1, 5]) for name in ("input 0", "input 1"))
    before = results(layer, Example({}, inputs), 1, "float32", HERE)
    assert np.isfinite(before["loss"]), "rows that do not count are not read"


def test_a_cross_entropy_is_exact_along_the_whole_line() -> None:
    for x in (*np.linspace(-30, 30, 25), -104.0, -90.0, 90.0, 1e30):
        inputs = [np.array([[x]], "float32"), np.array([[0]], "float32")]
        found = results(SigmoidCrossEntropyLossLayer, Example({}, inputs), 1, "float32", HERE)
        score = inputs[0].astype(L)
        right = np.maximum(score, 0) + np.log1p(np.exp(-np.abs(score)))
        np.testing.assert_allclose(found["loss"], float(right.item()), rtol=2e-7, atol=1e-45)
        np.testing.assert_allclose(found["input 0"], logistic(score).astype(float), rtol=3e-7, atol=1e-45)


def test_what_is_declined_has_a_reason() -> None:
    def reason(layer: Any, *types: str, dtype: Any = "float32") -> str:
        layers: list[Layer] = [
            *(InputLayer(name=f"in{n}", tops=f"x{n}", shape=3, dtype=one) for n, one in enumerate(types)),
            layer,
        ]
        op = Net("net", layers, backend="onednn", dtype=dtype).ops[-1]
        assert not op.kernel
        return "; ".join(why for _, why in op.choice.declined)

    ends = {"bottoms": ["x0", "x1"]}
    assert "serves a bottom of float32, not int64" in reason(SquareLossLayer(**ends), "", "int64")
    assert "serves losses without ignore_label" in reason(SigmoidCrossEntropyLossLayer(**ends, ignore_label=2), "", "")
    assert "float64" in reason(HuberLossLayer(**ends), "", "", dtype="float64")


def net_of(layer: Any, width: int = 3, **options: Any) -> Net:
    layers: list[Layer] = [
        InputLayer(name="in", tops="data", shape=5, batch_size=4),
        InputLayer(name="targets", tops="target", shape=width, batch_size=4),
        InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=3),
        layer(name="loss", bottoms=["ip", "target"]),
    ]
    return Net("net", layers, backend="onednn", seed=1, **options)


@every_loss
def test_bottoms_of_other_shapes(layer: Any) -> None:
    with pytest.raises(ConfigError, match=r"loss: bottom 'target' .* differs from 'ip' of shape"):
        net_of(layer, 2)


@every_loss
def test_without_the_helper_it_is_the_layers_own(layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(net_of(layer).node_ops["loss"].state, PairLossKernel)
    without_helper(monkeypatch)
    op = net_of(layer).node_ops["loss"]
    assert not op.kernel
    assert native.MISSING in [why for _, why in op.choice.declined]


@pytest.mark.skipif("bf16" not in open_backend("onednn").computes, reason="the processor has no bf16")
@every_loss
def test_in_bf16_no_target_is_rounded(layer: Any) -> None:
    random = np.random.default_rng(3)
    data, target = random.normal(size=(4, 5)), random.random((4, 3)).astype("float32")
    net = net_of(layer, compute="bf16", keep=["ip"])
    net.write("data", data)
    net.write("target", target)
    loss = net.forward()
    expected = results(layer, Example({}, [net.blob("ip"), target]), 4, "float64")["loss"]
    assert loss == pytest.approx(expected.item(), rel=1e-6)


class Pairs:
    """What the tests of the kernel have in common, for each of its layers."""

    layer: Any
    kernel = PairLossKernel
    backend_name = "onednn"
    dtypes = ("float32",)

    def examples(self):
        yield Example({}, [(4, 3), (4, 3)])
        yield Example({"weight": 0.3}, [(4, 1), (4,)], label="targets without an axis")
        yield Example({}, [(3, 2, 1, 600), (3, 2, 600)], label="several pieces")
        yield Example({}, [(4, 1), np.array([1, 0, 1, 1])], label="whole numbers: declined")

    def strategy(self):
        return uses(self.layer).map(lambda drawn: drawn[0])


class TestPairLossKernelOfSquareLoss(Pairs, KernelTests):
    layer = SquareLossLayer

    def examples(self):
        yield from super().examples()
        yield Example({}, [(4, 3), (4, 3), np.array([0.5, 0, 1, 2], "float32")], label="weights of records")


class TestPairLossKernelOfHuberLoss(Pairs, KernelTests):
    layer = HuberLossLayer

    def examples(self):
        yield from super().examples()
        yield Example({"delta": 0.4}, [(4, 3), (4, 3)], label="delta")


class TestPairLossKernelOfSigmoidCrossEntropyLoss(Pairs, KernelTests):
    layer = SigmoidCrossEntropyLossLayer

    def examples(self):
        yield from super().examples()
        for normalize in ("batch", "full", "valid", "none"):
            yield Example({"normalize": normalize}, [(4, 3), (4, 3)], label=normalize)
        yield Example({}, [(4, 3), (4, 3), np.array([0.5, 0, 1, 2], "float32")], label="weights of records")
        yield Example({"ignore_label": 1}, [(4, 3), (4, 3)], label="ignored targets: declined")
