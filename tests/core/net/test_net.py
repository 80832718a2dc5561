from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_backends import ForeignBackend
from nacre import (
    BlobError,
    ConfigError,
    DataError,
    HostMemory,
    InputLayer,
    Layer,
    LayerState,
    NacreError,
    Names,
    Net,
    Solver,
    TopologyError,
    load,
)
from nacre.testing.trial import without_kernels
from nacre_data import MemoryDataLayer
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.neurons import ReLU, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.shapes.split import SplitLayer
from registries import NewRegistry
from small_layers import (
    CountLayer,
    CountState,
    HalveLayer,
    MatrixLayer,
    PlainBackend,
    SquareLossLayer,
    State,
    check_gradients,
    data,
    fill,
)
from toy_training import weights


def ip(name: str, bottoms: Any = "data", **fields: Any) -> InnerProductLayer:
    return InnerProductLayer(name=name, bottoms=bottoms, tops=name, **{"output_dim": 3} | fields)


def loss(bottom: str, **fields: Any) -> SquareLossLayer:
    return SquareLossLayer(name=f"loss-{bottom}", bottoms=bottom, **fields)


def net_of(*layers: Layer, **options: Any) -> Net:
    net = Net("net", layers, **{"backend": "numpy", "dtype": "float64"} | options)
    fill(net)
    return net


def chain() -> list[Layer]:
    return [data(4), ip("a", neuron=Tanh()), ip("b", "a", neuron=ReLU()), ip("c", "b"), loss("c")]


# By hand


def test_forward_and_backward_by_hand() -> None:
    net = net_of(data(4), ip("y"), loss("y"), input_gradients=("data",))
    value = net.forward()
    W, b, x = net.parameters["y/weight"].value, net.parameters["y/bias"].value, net.blob("data")
    y = x @ W.T + b
    dy = y - np.cos(np.arange(9)).reshape(3, 3)
    assert value == pytest.approx(np.sum(dy**2) / 2)
    net.backward()
    np.testing.assert_allclose(net.blob("y"), y)
    np.testing.assert_allclose(net.gradient("y"), dy)
    np.testing.assert_allclose(net.gradient("data"), dy @ W)
    np.testing.assert_allclose(net.parameters["y/weight"].gradient, dy.T @ x)
    np.testing.assert_allclose(net.parameters["y/bias"].gradient, dy.sum(axis=0))


def test_gradients_of_a_chain() -> None:
    check_gradients(net_of(*chain(), input_gradients=("data",)), ("data",))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"phase": "training"}, "phase='training', but it must be one of train, validation, test, predict"),
        ({"dtype": "float16"}, "dtype='float16', but it must be float32 or float64"),
        ({"fallback": "maybe"}, 'fallback=\'maybe\', but it must be "warn" or "error"'),
        (
            {"phase": "training", "dtype": "float16"},
            "phase='training', but it must be one of train, validation, test, predict\n"
            "net 'net': dtype='float16', but it must be float32 or float64",
        ),
        ({"compute": "bfloat16"}, "compute='bfloat16', but backend 'numpy' computes in float64\n  leave compute out"),
    ],
)
def test_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        net_of(*chain(), **options)
    assert str(caught.value) == f"net 'net': {words}"


@pytest.mark.parametrize(
    ("layers", "options", "words"),
    [
        (["Conv"], {}, "layers holds 'Conv', but every entry must be a layer"),
        ("Conv", {}, "layers='Conv', but it must be a list of layers"),
        (None, {}, "layers=None, but it must be a list of layers"),
        ([], {"seed": "a"}, "seed='a', but it must be a whole number"),
        ([], {"seed": True}, "seed=True, but it must be a whole number"),
        ([], {"seed": 1 << 9999}, "seed=a whole number of 10,000 bits, too many to be written, but it must be a whole"),
        ([], {"algorithm": 5}, "algorithm=5, but it must be an algorithm: an object, a name, or a table with 'type'"),
        ([], {"rank": 2, "ranks": 2}, "rank=2 of ranks=2, but it must be a whole number from 0 to ranks - 1"),
        ([], {"rank": 0.0}, "rank=0.0 of ranks=1, but it must be a whole number from 0 to ranks - 1"),
        ([], {"backend": 3}, "backend=3, but it must be a Backend, the name of one, or None"),
        ([], {"share": 3}, "share=3, but it must be another Net"),
    ],
)
def test_arguments_of_another_type(layers: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Net("net", layers, **{"backend": "numpy"} | options)
    assert str(caught.value).startswith(f"net 'net': {words}")


def test_what_is_no_name_freezes_nothing() -> None:
    net = net_of(*chain())
    for names in (3, ["a", "b"]):
        with pytest.raises(TopologyError, match=r"must be a string, not .*\n  .*net.freeze\('conv1'"):
            net.freeze(names)  # type: ignore[arg-type]
    assert not net.frozen


def test_layers_are_absent_in_the_phases_that_they_exclude() -> None:
    layers = [
        data(4),
        ip("a"),
        DropoutLayer(name="drop", bottoms="a", exclude=["test", "predict"]),
        SquareLossLayer(name="loss", bottoms="a", exclude="predict"),
    ]
    names = {phase: list(net_of(*layers, phase=phase).node_ops) for phase in ("train", "validation", "test", "predict")}
    assert names["train"] == names["validation"] == ["in-data", "a", "drop", "loss"]
    assert names["test"] == ["in-data", "a", "loss"]
    assert names["predict"] == ["in-data", "a"]


def test_a_state_knows_the_phase_of_its_net() -> None:
    for phase in ("train", "validation"):
        net = net_of(*chain(), phase=phase)
        assert {op.state.phase for op in net.ops} == {phase}


# Reading and writing blobs


def test_blobs_that_are_not_kept() -> None:
    net = net_of(*chain())
    net.forward()
    net.backward()
    for call, what in ((net.blob, "blob 'a'"), (net.gradient, "the gradient of blob 'a'")):
        with pytest.raises(BlobError) as caught:
            call("a")
        assert str(caught.value).startswith(f"{what} is not kept")
        assert "keep=('a',)" in caught.value.remedy
    assert net.blob("c").shape == net.gradient("c").shape == (3, 3), "the bottoms of losses always are"


@pytest.mark.parametrize("keep", [("a",), "a", ["a", "b"], "all"])
def test_kept_blobs_are_what_they_were(keep: Any) -> None:
    expected, net = net_of(*chain(), keep="all"), net_of(*chain(), keep=keep)
    for one in (expected, net):
        for _ in range(2):
            one.forward()
            one.backward()
    np.testing.assert_array_equal(net.blob("a"), np.tanh(net.blob("data") @ net.parameters["a/weight"].value.T))
    np.testing.assert_array_equal(net.blob("a"), expected.blob("a"))
    np.testing.assert_array_equal(net.gradient("a"), expected.gradient("a"))


def test_tops_that_nobody_reads_are_kept() -> None:
    net = net_of(data(4), ip("a"), ip("end", "a"), phase="test")
    net.forward()
    assert np.any(net.blob("end"))


def test_unknown_blobs() -> None:
    net = net_of(*chain())
    for call in (net.blob, net.gradient, lambda name: net.write(name, 0)):
        with pytest.raises(BlobError, match=r"net 'net' has no blob 'date' \(did you mean 'data'\?\)"):
            call("date")
    for option in ("keep", "input_gradients"):
        with pytest.raises(TopologyError, match=r"net 'net' has no blob 'date' \(did you mean 'data'\?\)"):
            net_of(*chain(), **{option: ("date",)})


def test_a_gradient_that_nobody_wants() -> None:
    net = net_of(*chain())
    with pytest.raises(BlobError) as caught:
        net.gradient("data")
    assert "the gradient of blob 'data' is not needed" in str(caught.value)
    assert "input_gradients=('data',)" in caught.value.remedy


def test_what_is_read_is_a_copy_that_cannot_be_written() -> None:
    net = net_of(*chain())
    net.forward()
    net.backward()
    for array in (
        net.blob("c"),
        net.gradient("c"),
        net.parameters["a/weight"].value,
        net.parameters["a/weight"].gradient,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    before = net.parameters["a/weight"].value
    net.parameters["a/weight"].value = before + 1
    assert not np.any(before == net.parameters["a/weight"].value)


WHOLE = r"'index' .*\(int64\).* "
BYTE = r"'byte' .*\(uint8\).* "


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("data", np.zeros((3, 5)), r"'data' .*\(3, 4\).* \(3, 5\)"),
        ("data", np.zeros((4, 4)), r"'data' .*\(3, 4\).* \(4, 4\)"),
        ("data", np.zeros((0, 4)), r"'data' .*\(3, 4\).* \(0, 4\)"),
        ("data", 1.0, r"'data' .*\(3, 4\).* \(\)"),
        ("data", np.full((3, 4), "x"), "'data' needs numbers.* <U1"),
        ("data", np.array([[0.0] * 4, [0, np.inf, 1e39, 0]]), "'data': row 1 of the new array .* large for float32"),
        ("index", np.full(3, 0.5), WHOLE + "0.5 in row 0"),
        ("index", np.full(3, np.nan), WHOLE + "nan in row 0"),
        ("index", [0, np.inf, 0], WHOLE + "inf in row 1"),
        ("index", [0, 0, 1e30], WHOLE + r"1e\+30 in row 2"),
        ("index", [0.0, -(2.0**63), 2.0**63], WHOLE + r"9.22337e\+18 in row 2"),
        ("index", np.array([0, 2**63], np.uint64), WHOLE + "9223372036854775808 in row 1"),
        ("byte", [0, -1], BYTE + "-1 in row 1"),
        ("byte", np.array([0, 2.0**15], np.float16), BYTE + "32768 in row 1"),
    ],
)
def test_what_cannot_be_written(name: str, array: Any, words: str) -> None:
    index = InputLayer(name="index", tops="index", batch_size=3, dtype="int64")
    byte = InputLayer(name="byte", tops="byte", batch_size=3, dtype="uint8")
    net = Net("t", [*chain(), index, byte], backend="numpy", initialise=False)
    with pytest.raises(DataError, match=words):
        net.write(name, array)


def test_only_blobs_of_sources_can_be_written() -> None:
    with pytest.raises(BlobError, match="blob 'a' is computed by layer 'a'; only blobs of sources can be written"):
        net_of(*chain()).write("a", np.zeros((3, 3)))


def test_a_parameter_is_written_by_assignment() -> None:
    handle = net_of(*chain()).parameters["a/weight"]
    version = handle.storage.version
    handle.value = [[1, 2, 3, 4]] * 3
    assert handle.value[0].tolist() == [1, 2, 3, 4]
    assert handle.storage.version > version, "so that packed copies are made anew"
    with pytest.raises(DataError, match=r"'a/weight' .*\(3, 4\).* \(4,\)"):
        handle.value = np.zeros(4)
    with pytest.raises(DataError, match=r"'a/weight' needs numbers .*\(3, 4\), not 'a'"):
        handle.value = "a"
    with pytest.raises(DataError, match=r"'a/weight' needs numbers .*\(3, 4\), not \[\[1000"):
        handle.value = [[10**400] * 4] * 3


def test_an_unknown_parameter_is_a_key_error_with_the_nearest_name() -> None:
    parameters = net_of(*chain()).parameters
    with pytest.raises(KeyError, match=r"no parameter 'a/wieght' \(did you mean 'a/weight'"):
        parameters["a/wieght"]
    assert "zz" not in parameters and parameters.get("zz") is None


def test_fewer_rows_are_filled_up_with_the_last() -> None:
    net = net_of(*chain())
    net.forward()
    assert net.scalars["rows"] == 3, "nothing was written"
    net.write("data", np.arange(8).reshape(2, 4))
    for _ in range(2):  # what was written stays
        net.forward()
        assert net.blob("data")[:, 0].tolist() == [0, 4, 4]
        assert net.scalars["rows"] == 2
    net.write("data", np.zeros((3, 4)))
    net.forward()
    assert net.scalars["rows"] == 3


def test_a_source_is_written_over_for_one_pass() -> None:
    source = CountLayer(name="count", tops=["data", "label"], count=6, batch_size=3, width=4)
    net = Net("net", [source, ip("a"), loss("a")], backend="numpy", keep="data", dtype="float64")
    net.write("data", np.full((3, 4), 9.0))
    net.forward()
    assert net.blob("data")[0, 0] == 9
    net.forward()
    assert net.blob("data")[:, 0].tolist() == [3, 4, 5]


def test_what_is_written_reaches_every_memory_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies that a source's blob has elsewhere are made after the source ran, and again after the writing."""

    class ImageLayer(CountLayer):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> CountState:
            state = CountState(self, backend, inputs, diffs)
            state.blobs[0] = backend.blob((3, 2, 4, 4))
            monkeypatch.setattr(state, "forward", lambda inputs: state.blobs[0].fill(0))
            return state

    source = ImageLayer(name="count", tops=["data", "label"], count=6, batch_size=3)
    convolution = ConvolutionLayer(name="conv", bottoms="data", tops="conv", n_filter=2, kernel=3)
    images = np.random.default_rng(0).normal(size=(3, 2, 4, 4))
    found = []
    for backend in ("numpy", PlainBackend()):
        net = Net("net", [source, convolution], backend=backend, dtype="float64", phase="test")
        for _ in range(2):
            net.write("data", images)
            net.forward()
        found.append(net.blob("conv"))
    assert np.any(found[0])
    np.testing.assert_allclose(*found)


# Losses, rows and statistics


def test_weighted_losses_add_up() -> None:
    one = loss("a", weight=0.5)
    two = SquareLossLayer(name="second", bottoms="b", weight=2.0)
    net = net_of(data(4), data(4, top="more"), ip("a"), ip("b", "more"), one, two)
    total = net.forward()
    losses = net.losses()
    assert list(losses) == ["loss-a", "second"]
    assert total == sum(losses.values()) == net.loss()
    distance = net.blob("a") - np.cos(np.arange(9)).reshape(3, 3)
    assert losses["loss-a"] == pytest.approx(0.25 * np.sum(distance**2))
    check_gradients(net)


def classifier(batch_size: int, count: int = 10) -> list[Layer]:
    return [
        CountLayer(name="count", tops=["data", "label"], count=count, batch_size=batch_size, width=4),
        ip("a"),
        SoftmaxLossLayer(name="loss", bottoms=["a", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["a", "label"]),
    ]


@pytest.mark.parametrize("batch_size", [1, 3, 4, 7, 10])
def test_a_pass_counts_every_record_once(batch_size: int) -> None:
    whole = Net("whole", classifier(10), backend="numpy", dtype="float64", phase="validation")
    net = Net("net", classifier(batch_size), backend="numpy", dtype="float64", phase="validation", share=whole)
    found = [(one.forward_epoch(), one.statistics()["accuracy"]) for one in (whole, net)]
    assert found[0][1] == found[1][1]
    assert found[1][1]["records"] == 10
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    net.forward()
    net.forward_epoch()
    assert net.statistics()["accuracy"]["records"] == 20 + min(batch_size, 10)
    net.reset_statistics()
    with pytest.raises(NacreError, match="'net' has not run forward since its statistics were reset") as caught:
        net.statistics()
    assert "net.forward_epoch()" in caught.value.remedy
    net.forward()
    assert net.statistics()["accuracy"]["records"] == min(batch_size, 10)


def test_a_bad_record_with_which_the_last_batch_is_filled_up_is_counted_once() -> None:
    x = np.ones((5, 4))
    x[4, 2] = np.nan
    source = MemoryDataLayer(name="in", tops=["data", "label"], data=[x, np.arange(5) % 3], batch_size=3)
    told: list[str] = []
    Net("net", [source, *classifier(3)[1:]], backend="numpy", phase="validation").forward_epoch(told.append)
    assert len(told) == 1
    assert "blob 'data' of layer 'in': 1 of 5 records have numbers that are not finite" in told[0]


def test_a_training_has_taken_the_statistics_of_its_net() -> None:
    net = net_of(*classifier(4))
    training = Solver("SGD", max_iter=5).solve(net, quiet=True)
    with pytest.raises(NacreError, match="has not run forward since") as caught:
        net.statistics()
    assert 'training.statistics["train"]' in caught.value.remedy
    assert training.statistics["train"]["accuracy"]["records"] == 4  # since the last summary
    assert net.loss() == training.loss  # of the last batch, which nobody has reset


def test_before_a_pass_there_are_no_numbers_but_names() -> None:
    net = net_of(*classifier(4))
    read = [net.loss, net.losses, net.statistics, partial(net.blob, "a"), partial(net.gradient, "a")]

    def refused() -> list[bool]:
        return ["has not run" in _said_by(call) for call in read]

    assert refused() == [True] * 5
    assert net.statistic_names() == {"accuracy": ["accuracy", "records"]}
    net.feed()
    assert net.blob("data").any()
    assert refused() == [True] * 5
    net.compile(net.steps("forward"))()
    assert refused() == [False] * 4 + [True]
    net.backward()
    assert refused() == [False] * 5
    net.reallocate()
    assert refused() == [True] * 5


def _said_by(call: Callable[[], object]) -> str:
    try:
        call()
    except NacreError as error:
        return str(error)
    return ""


def test_passes_and_epochs() -> None:
    net = Net("net", classifier(4), backend="numpy", phase="test")
    assert net.epoch == 0
    for _ in range(3):
        net.forward()
    assert net.epoch == 1
    with pytest.raises(DataError, match="net 'net' has no source "):
        net_of(*chain(), phase="test").forward_epoch()
    with pytest.raises(DataError, match="net 'net' is in phase 'train'"):
        Net("net", classifier(4), backend="numpy").forward_epoch()


def test_records_that_are_not_finite_are_a_warning_where_the_pass_begins() -> None:
    source = MemoryDataLayer(name="source", tops="data", data=[[[1.0, 2.0], [np.nan, 3.0]]], batch_size=2)
    net = net_of(source, ip("a"), loss("a"), phase="test")
    with pytest.warns(UserWarning, match="blob 'data' of layer 'source': 1 of 2 records") as caught:
        net.forward_epoch()
    assert [one.filename for one in caught] == [__file__]


# Ending, and failing


def test_a_shutdown_that_fails_leaves_nothing_else_open(monkeypatch: pytest.MonkeyPatch) -> None:
    net = net_of(*chain())
    closed: list[str] = []

    def fail() -> None:
        raise OSError("the disk is full")

    for name, op in net.node_ops.items():
        monkeypatch.setattr(op.state, "shutdown", fail if name == "b" else partial(closed.append, name))
    with pytest.raises(OSError, match="the disk is full"):
        net.shutdown()
    assert sorted(closed) == sorted(set(net.node_ops) - {"b"})


def test_shutdown_twice_and_use_after_it() -> None:
    with net_of(*chain()) as net:
        net.forward()
        weight = net.parameters["a/weight"].value
    net.shutdown()
    calls: list[Any] = [
        net.forward,
        net.backward,
        net.forward_epoch,
        lambda: net.blob("c"),
        lambda: net.gradient("c"),
        lambda: net.write("data", np.zeros((3, 4))),
        lambda: net.predict(np.zeros((3, 4))),
    ]
    for call in calls:
        with pytest.raises(BlobError, match="net 'net' is shut down"):
            call()
    np.testing.assert_array_equal(net.parameters["a/weight"].value, weight)


def test_a_net_that_cannot_be_made_shuts_down_what_was_set_up() -> None:
    source = CountLayer(name="count", tops=["data", "label"], count=6, batch_size=3)
    closed = CountState.closed
    with pytest.raises(ConfigError):
        Net("net", [source, SoftmaxLossLayer(name="loss", bottoms=["data", "data"])], backend="numpy")
    assert CountState.closed == closed + 1


def test_a_net_that_only_plans_allocates_nothing() -> None:
    layers = [
        data(3, 64, 64, batch=32),
        ConvolutionLayer(name="conv1", bottoms="data", tops="conv1", n_filter=64, kernel=3, neuron=ReLU()),
        ConvolutionLayer(name="conv2", bottoms="conv1", tops="conv2", n_filter=64, kernel=3, neuron=ReLU()),
        ip("ip", "conv2", output_dim=100),
        loss("ip"),
    ]
    Net("warm", chain(), backend="numpy", allocate=False)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        net = Net("plan", layers, backend="numpy", allocate=False)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert net.memory.final["conv2"].shape == (32, 64, 60, 60)
    assert net.parameters["ip/weight"].shape == (100, 64 * 60 * 60)
    plan = net.memory.planned_bytes()
    assert 100e6 < plan["planned"] <= plan["blobs"]
    for call in (net.forward, net.backward, lambda: net.blob("ip"), lambda: net.parameters["ip/weight"].value):
        with pytest.raises(BlobError, match="allocate=False"):
            call()
    with pytest.raises(BlobError, match="allocate=False"):
        net.parameters["ip/weight"].value = 0
    with pytest.raises(BlobError, match="allocate=False"):
        net.predict(np.zeros((1, 3, 64, 64)))
    assert net.parameters["ip/weight"].gradient is None
    net.shutdown()


class TouchLayer(Layer):
    """Calls a function on its input during setup."""

    bottoms: Names
    tops: Names
    touch: Any

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> State:
        self.touch(inputs[0])
        raise AssertionError("the touch was not noticed")


@pytest.mark.parametrize(
    "touch",
    [
        lambda x: x[0],
        lambda x: x.__setitem__(0, 1),
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: x @ x,
        lambda x: -x,
        lambda x: x > 0,
        lambda x: len(x),
        lambda x: list(x),
        lambda x: np.asarray(x),
        lambda x: np.add(x, 1),
        lambda x: x.reshape(-1),
        lambda x: x.T,
    ],
)
def test_a_declared_blob_says_so_when_touched(touch: Any) -> None:
    with pytest.raises(BlobError, match=r"before ready\(\)"):
        Net("net", [data(2), TouchLayer(bottoms="data", tops="y", touch=touch)], backend="numpy")


def test_an_empty_blob() -> None:
    with pytest.raises(BlobError, match=r"a blob of shape \(3, 0\) is empty"):
        net_of(data(2), MatrixLayer(name="m", bottoms="data", tops="m", width=0))


# Random numbers


def test_random_numbers_belong_to_a_name() -> None:
    """Another order of layers, or one more, changes nobody else's numbers."""

    def layers(*more: Layer) -> list[Layer]:
        return [data(4), ip("a"), DropoutLayer(name="drop", bottoms="a"), ip("b", "a"), *more]

    extra = [ip("extra"), DropoutLayer(name="another", bottoms="extra")]
    nets = [
        net_of(*layers(), keep="all"),
        net_of(*layers()[::-1], keep="all"),
        net_of(*extra, *layers(), keep="all"),
        net_of(*layers(), keep="all", backend=PlainBackend()),
    ]
    for net in nets:
        net.forward()
        np.testing.assert_array_equal(net.parameters["b/weight"].value, nets[0].parameters["b/weight"].value)
        np.testing.assert_array_equal(net.blob("a"), nets[0].blob("a"))
    assert np.any(nets[0].blob("a") == 0)
    assert np.any(nets[0].blob("a") != 0)
    other = net_of(*layers(), keep="all", seed=1)
    other.forward()
    assert np.any(other.parameters["b/weight"].value != nets[0].parameters["b/weight"].value)
    assert np.any((other.blob("a") == 0) != (nets[0].blob("a") == 0))


def test_a_mask_is_a_function_of_the_step() -> None:
    net = net_of(data(64), DropoutLayer(name="drop", bottoms="data"), keep="all")
    masks = []
    for step in (0, 1, 0):
        net.scalars["step"] = step
        net.forward()
        masks.append(net.blob("data") == 0)
    np.testing.assert_array_equal(masks[0], masks[2])
    assert np.any(masks[0] != masks[1])


@pytest.mark.parametrize("seed", [-1, 2**64 - 1, 2**70])
def test_any_whole_number_is_a_seed(seed: int) -> None:
    assert np.isfinite(net_of(*chain(), seed=seed).forward())


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.uint8])
def test_whole_numbers_of_numpy_are_those_of_python(kind: Any, tmp_path: Path) -> None:
    layers = [InputLayer(name="in", tops="data", shape=4), ip("a")]
    net = Net("net", layers, backend="numpy", seed=kind(3), rank=kind(0), ranks=kind(1))
    same = Net("net", layers, backend="numpy", seed=3)
    assert weights(net) == weights(same)
    net.reset(kind(5))
    same.reset(5)
    assert weights(net) == weights(same)
    net.save(tmp_path / "net.nacre")
    assert load(tmp_path / "net.nacre").seed == 3


# What a state may know


def test_a_view_knows_what_a_state_may_know() -> None:
    net = net_of(*chain(), rank=1, ranks=4)
    view: Any = net.node_ops["a"].state.backend
    net.scalars["step"] = 3
    net.forward()
    assert (view.phase, view.dtype, view.step, view.rows, view.rank, view.ranks) == ("train", "float64", 3, 3, 1, 4)


def test_scratch() -> None:
    view: Any = net_of(*chain()).node_ops["a"].state.backend
    scalar = view.scratch((), slot=9)
    assert scalar.shape == ()
    assert view.scratch((4,), slot=9).shape == (4,)
    assert view.scratch((), slot=9).shape == ()
    assert view.scratch((2, 2), slot=9) is view.scratch((2, 2), slot=9)
    assert not np.shares_memory(view.scratch((4,), slot=9), view.scratch((4,), slot=8))
    assert view.scratch((4,), "int64", slot=9).dtype == np.int64
    assert view.blob((2,), np.float32).dtype == "float32"


def test_a_source_in_memory_that_numpy_cannot_read(new_registry: NewRegistry) -> None:
    new_registry()

    class HostState(CountState, host_only=True):
        """Writes NumPy arrays."""

    class HostLayer(CountLayer):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> CountState:
            return HostState(self, backend, inputs, diffs)

    source = HostLayer(name="count", tops=["data", "label"], count=6, batch_size=3, width=4)
    net = Net("net", [source, ip("a")], backend=ForeignBackend(), phase="test")
    net.write("data", np.full((3, 4), 0.5))
    net.forward()
    expected = net.parameters["a/weight"].value.sum(axis=1) / 2
    np.testing.assert_allclose(net.blob("a")[0], expected, rtol=1e-6)
    net.forward()
    assert net.blob("data")[:, 0].tolist() == [3, 4, 5]


def test_a_layer_changed_in_place_below_a_kept_blob() -> None:
    net = net_of(data(4), ip("a"), HalveLayer(name="half", bottoms="a"), loss("a"), keep="a")
    net.forward()
    np.testing.assert_allclose(net.blob("a"), net.blob("data") @ net.parameters["a/weight"].value.T / 2)


def test_sources_of_different_batch_sizes_count_their_own_rows() -> None:
    layers = [
        InputLayer(name="noise", tops=["noise"], shape=3, batch_size=2),
        InputLayer(name="in", tops=["data"], shape=3, batch_size=4),
        InputLayer(name="labels", tops=["label"], batch_size=4),
        AccuracyLayer(name="accuracy", bottoms=["data", "label"]),
    ]
    net = Net("net", layers, phase="test", backend="numpy")
    net.write("data", np.eye(4, 3))
    net.write("label", [0, 1, 2, 1])
    net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": 0.75, "records": 4.0}


# Freezing


def test_a_frozen_layer_computes_no_gradient_of_its_parameters_but_passes_the_others_on() -> None:
    def made() -> Net:
        layers = [
            data(2, 5, 5, top="data"),
            ConvolutionLayer(name="conv", bottoms="data", tops="conv", n_filter=3, kernel=3),
            BatchNormLayer(name="norm", bottoms="conv", tops="norm", use_running=True),  # as a frozen one does
            ip("ip", "norm"),
            SquareLossLayer(name="loss", bottoms="ip"),
        ]
        net = net_of(*layers, input_gradients=("data",))
        fill(net)
        return net

    for plain in (False, True):
        with without_kernels() if plain else nullcontext():
            learning, frozen = made(), made()
        frozen.freeze("conv", "norm", "ip")
        for net in (learning, frozen):
            net.forward()
            net.backward()
        np.testing.assert_allclose(frozen.gradient("data"), learning.gradient("data"), rtol=1e-12)
        assert {name: handle.gradient for name, handle in frozen.parameters.items()} == dict.fromkeys(frozen.parameters)
        frozen.unfreeze("conv")
        frozen.forward()
        frozen.backward()
        for name in ("conv/weight", "conv/bias"):
            expected = learning.parameters[name].gradient
            np.testing.assert_allclose(frozen.parameters[name].gradient, expected, rtol=1e-12, err_msg=name)


def test_layers_cannot_be_frozen_under_a_training() -> None:
    net = net_of(*chain())
    with Solver("SGD").start(net), pytest.raises(NacreError, match="net 'net' is being trained"):
        net.freeze("a")
    net.freeze("a")


# By hand


def test_by_hand_the_step_says_which_mask_is_drawn() -> None:
    net = net_of(data(50), DropoutLayer(name="drop", bottoms="data"), keep="all")
    net.write("data", np.ones((3, 50)))
    masks = []
    for step in (0, 0, 1):
        net.step = step
        net.forward()
        masks.append(net.blob("data"))
    np.testing.assert_array_equal(masks[0], masks[1])
    assert np.any(masks[0] != masks[2])
    assert net.step == 1


def test_rows_written_into_a_source_count_for_one_pass() -> None:
    layers = [
        MemoryDataLayer(name="in", tops=["data", "label"], data=[np.eye(4), np.arange(4)], batch_size=4),
        AccuracyLayer(name="accuracy", bottoms=["data", "label"]),
    ]
    net = Net("net", layers, phase="test", backend="numpy")
    net.write("data", np.eye(4)[:2])
    net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": 1.0, "records": 2.0}
    net.forward()
    assert net.statistics()["accuracy"]["records"] == 6.0


class PhaseLayer(Layer):
    """Notes the phases in which it ran."""

    bottoms: Names
    tops: Names


class PhaseState(LayerState, of=PhaseLayer):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0])]
        self.seen: list[str] = []

    def forward(self, inputs: list[Any]) -> None:
        self.seen.append(self.phase)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Nothing flows down."""


def test_an_algorithm_runs_passes_in_phases_of_its_own() -> None:
    net = net_of(data(2), PhaseLayer(name="seen", bottoms="data", tops="same"))
    passes = [*net.steps("feed"), *net.in_phase("positive", net.steps("forward")), *net.steps("forward")]
    net.compile([*passes, *net.in_phase("negative", net.steps("forward"))])()
    assert net.node_ops["seen"].state.seen == ["positive", "train", "negative"]
    assert net.view(net.backend).phase == "train"


def test_a_deterministic_net_passes_kernels_over_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from nacre_numpy.kernels import InnerProductKernel

    assert net_of(*chain(), deterministic=True).node_ops["a"].kernel
    monkeypatch.setattr(InnerProductKernel, "deterministic", False)
    op = net_of(*chain(), deterministic=True).node_ops["a"]
    ((_, reason),) = op.choice.declined
    assert "the net is deterministic" in reason
    assert net_of(*chain()).node_ops["a"].kernel


def test_a_parameter_is_found_by_the_name_in_each_layer_that_shares_it() -> None:
    net = net_of(data(4), ip("a", "data", param_key="k"), ip("b", "data", param_key="k"))
    assert list(net.parameters) == ["a/weight", "a/bias"]
    assert net.parameters["b/weight"] is net.parameters["a/weight"]
    assert "b/bias" in net.parameters
    assert net.parameters.names["b/weight"] == "a/weight"
    with pytest.raises(KeyError):
        net.parameters["c/weight"]


def test_a_state_sees_this_of_the_world_and_nothing_else() -> None:
    view = net_of(data(2)).view(HostMemory.shared())
    known = {name for name in dir(view) if not name.startswith("_")}
    numbers = {
        "phase",
        "dtype",
        "compute",
        "deterministic",
        "step",
        "rows",
        "rank",
        "ranks",
        "seed",
        "random",
        "kernel",
        "full_name",
        "scalars",
        "fitted",
        "communicator",
        "between",
        "add_up",
        "joined",
        "together",
        "micro",
    }
    memory = {"xp", "blob", "alias", "empty", "constant", "scratch", "from_host", "to_host"}
    waiting = {"number", "require", "check_required"}
    assert known == numbers | memory | waiting | {"name", "backend"}


def test_own_blobs_between_states_that_work_on_their_elements_have_memory() -> None:
    layers = [
        data(2, 5, 5, top="data"),
        ConvolutionLayer(name="conv", bottoms="data", tops="conv", n_filter=3, kernel=1),
        SplitLayer(name="split", bottoms="conv", tops=["one", "other"]),
        SplitLayer(name="again", bottoms="other", tops=["two", "three"]),
        *(ip(f"ip-{name}", name) for name in ("one", "two", "three")),
        *(SquareLossLayer(name=f"loss-{name}", bottoms=f"ip-{name}") for name in ("one", "two", "three")),
    ]
    check_gradients(net_of(*layers, input_gradients=("data",)), ("data",))


def test_a_net_that_is_too_large_says_so() -> None:
    with pytest.raises(NacreError, match=r"net 'net' needs more memory .*\n  "):
        net_of(data(4), ip("a", output_dim=10**14))


def test_a_net_that_cannot_go_backward_keeps_nothing_of_who_made_it() -> None:
    """The reason is kept; with its traceback it would hold the callers' frames, and all that is in them."""

    class Held:
        pass

    def make() -> tuple[Net, weakref.ref[Held]]:
        held = Held()
        return Net("n", [InputLayer(shape=(2,))], backend="numpy"), weakref.ref(held)

    def try_it(net: Net) -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(TopologyError, match="no loss layer"):
            net.backward()
        return weakref.ref(held)

    net, held = make()
    gc.collect()
    assert held() is None
    held = try_it(net)
    gc.collect()
    assert held() is None


def test_a_planned_net_without_parameters_can_be_given_its_memory() -> None:
    with Net(
        "n", [InputLayer(shape=(2,)), ActivationLayer(bottoms="data", tops="y", neuron=ReLU())], allocate=False
    ) as net:
        net.allocate()
        net.write("data", [[1, -2]])
        net.forward()
        assert net.blob("y").tolist() == [[1, 0]]
        with pytest.raises(ConfigError, match="net 'n' has its memory already"):
            net.allocate()
    net = Net("n", [InputLayer(shape=(2,)), InnerProductLayer(bottoms="data", tops="y", output_dim=1)], allocate=False)
    with pytest.raises(ConfigError, match="net 'n' has parameters"):
        net.allocate()


def test_what_a_net_has_not_is_an_attribute_error() -> None:
    with Net("net", [InputLayer(tops="x", shape=3)], backend="numpy") as net:
        assert not hasattr(net, "state_dict") and not hasattr(net, "lossess")
        with pytest.raises(AttributeError, match="'Net' object has no attribute 'lossess'") as caught:
            _ = net.lossess  # type: ignore[attr-defined]
        assert (caught.value.name, caught.value.obj) == ("lossess", net)
