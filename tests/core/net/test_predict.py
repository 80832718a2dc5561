from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import (
    DataError,
    Input,
    InputLayer,
    L,
    Layer,
    LayerState,
    Names,
    Net,
    Solver,
    TopologyError,
    Transformer,
)
from nacre_data import MemoryDataLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.neurons import Tanh
from nacre_layers.recurrent.gru import GRULayer
from nacre_layers.shapes.flatten import FlattenLayer
from nacre_layers.shapes.silence import SilenceLayer
from nacre_solvers import SGD
from small_layers import AddLayer, CountLayer, HalveLayer, SquareLossLayer, data


def ip(name: str, bottoms: Any = "data", **fields: Any) -> InnerProductLayer:
    return InnerProductLayer(name=name, bottoms=bottoms, tops=name, **{"output_dim": 3} | fields)


def classifier() -> list[Layer]:
    """A training net with what `predict` must leave out: labels, losses, statistics, dropout."""
    return [
        CountLayer(name="count", tops=["data", "label"], count=10, batch_size=4, width=5),
        ip("hidden", neuron=Tanh()),
        DropoutLayer(name="drop", bottoms="hidden"),
        ip("scores", "hidden"),
        SoftmaxLossLayer(name="loss", bottoms=["scores", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["scores", "label"]),
        SoftmaxLayer(name="prob", bottoms="scores", tops="prob", exclude="train"),
    ]


def made(layers: list[Layer] | None = None, **options: Any) -> Net:
    return Net("net", layers or classifier(), **{"backend": "numpy", "dtype": "float64"} | options)


def by_hand(net: Net, x: Any) -> tuple[Any, Any]:
    value = {name: handle.value for name, handle in net.parameters.items()}
    hidden = np.tanh(x @ value["hidden/weight"].T + value["hidden/bias"])
    scores = hidden @ value["scores/weight"].T + value["scores/bias"]
    exponential = np.exp(scores)
    return hidden, exponential / exponential.sum(axis=1, keepdims=True)


RECORDS = np.random.default_rng(0).normal(size=(23, 5))


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 23])
@pytest.mark.parametrize("batch_size", [0, 1, 7])
def test_any_number_of_rows(count: int, batch_size: int) -> None:
    net = made()
    found = net.predict(RECORDS[:count], "prob", batch_size=batch_size)
    np.testing.assert_allclose(found, by_hand(net, RECORDS[:count])[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("size", "counts", "batches"), [(1, [1, 3, 4, 23, 600], [1, 4, 32, 256]), (4, [1, 3, 23, 600], [4])]
)
def test_inputs_of_one_record_do_not_make_predict_slow(size: int, counts: list[int], batches: list[int]) -> None:
    """One record is what an Input has if nobody says a batch; there is a net for each batch, so there are few."""
    net = made([InputLayer(tops="data", shape=5, batch_size=size), ip("scores")])
    x = np.random.default_rng(0).normal(size=(max(counts), 5))
    wanted = x @ net.parameters["scores/weight"].value.T
    for count in counts:
        np.testing.assert_allclose(net.predict(x[:count]), wanted[:count], rtol=1e-12)
    assert [one.rows for one in net._predictors.values()] == batches


def test_several_outputs() -> None:
    net = made()
    found = net.predict(RECORDS, ["hidden", "prob"])
    assert list(found) == ["hidden", "prob"]
    for name, expected in zip(found, by_hand(net, RECORDS), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=1e-12)


def test_the_default_output_is_what_nobody_reads() -> None:
    net = made()
    np.testing.assert_array_equal(net.predict(RECORDS), net.predict(RECORDS, "prob"))
    two = made([data(5), ip("a"), ip("b"), SquareLossLayer(name="loss", bottoms="a")])
    assert sorted(two.predict(RECORDS)) == ["a", "b"]


def test_what_a_layer_only_drops_is_no_output() -> None:
    gru = GRULayer(name="gru", bottoms="data", tops=["y", "last"], output_dim=4)
    layers: list[Layer] = [
        InputLayer(tops="data", shape=(5, 2), batch_size=4),
        gru,
        SilenceLayer(bottoms="y"),
        ip("scores", "last"),
        SoftmaxLayer(name="prob", bottoms="scores", tops="prob"),
    ]
    x = np.random.default_rng(0).normal(size=(3, 5, 2))
    net = made(layers)
    np.testing.assert_array_equal(net.predict(x), net.predict(x, "prob"))
    assert net.predict(x, classes=True).shape == (3,)
    assert net.predict(x, "y").shape == (3, 5, 4)  # asked for by name


def test_a_sink_that_looks_at_a_blob_leaves_it_an_output() -> None:
    class LookLayer(Layer, is_sink=True):
        bottoms: Names

    class LookState(LayerState, of=LookLayer):
        def forward(self, inputs: Any) -> None: ...

        def backward(self, inputs: Any, diffs: Any) -> None: ...

    net = made([data(5), ip("a"), LookLayer(name="look", bottoms="a")])
    assert net.predict(RECORDS).shape == (23, 3)


def test_records_of_another_shape_are_predicted_by_a_net_of_their_own() -> None:
    pictures = InputLayer(name="pictures", tops="picture", shape=(1, 4, 4), exclude="train")
    net = made([*classifier(), pictures, FlattenLayer(bottoms="picture", tops="flat", exclude="train")])
    for size in (4, 6, 4):
        assert net.predict(np.ones((3, 1, size, size)), "flat").shape == (3, size**2)


def test_prediction_follows_training() -> None:
    net = made()
    before = net.predict(RECORDS, "prob")
    Solver(SGD(), max_iter=3, lr_policy=0.1).solve(net)
    after = net.predict(RECORDS, "prob")
    assert np.any(before != after)
    np.testing.assert_allclose(after, by_hand(net, RECORDS)[1], rtol=1e-12)


def test_a_training_net_is_left_as_it_was() -> None:
    nets = made(), made()
    nets[0].predict(RECORDS, "prob")
    assert nets[0].forward() == nets[1].forward()
    assert nets[0].statistics() == nets[1].statistics()
    assert nets[0].statistics()["accuracy"]["records"] == 4


def test_several_inputs_come_as_a_table() -> None:
    net = made([
        data(5), data(5, top="more"), AddLayer(name="sum", bottoms=["data", "more"], tops="sum"), ip("y", "sum"),
    ])  # fmt: skip
    given = {"data": RECORDS, "more": 2 * RECORDS, "unused": np.zeros(1)}
    np.testing.assert_allclose(net.predict(given, "sum"), 3 * RECORDS)
    with pytest.raises(DataError, match=r"blobs data, more\n.*\{name: array\}"):
        net.predict(RECORDS)
    with pytest.raises(DataError, match=r"blobs data, more, but more "):
        net.predict({"data": RECORDS})
    with pytest.raises(DataError, match="the arrays have different numbers of records: 22, 23"):
        net.predict({"data": RECORDS, "more": RECORDS[1:]})


def test_the_transformers_of_the_replaced_source_are_applied() -> None:
    class Twice(Transformer):
        """Doubles, and adds 1 in phase predict."""

        def transform(self, batch: Any, random: Any, phase: str) -> None:
            batch *= 2
            batch += phase == "predict"

    images = RECORDS.copy()
    source = MemoryDataLayer(
        name="source", tops=["data", "label"], data=[images, np.zeros(23, int)], batch_size=4,
        transformers=[["data", Twice()], ["data", Twice()]],
    )  # fmt: skip
    net = made([source, HalveLayer(name="half", bottoms="data"), ip("y")])
    np.testing.assert_allclose(net.predict(RECORDS, "data"), (2 * (2 * RECORDS + 1) + 1) / 2)
    np.testing.assert_array_equal(images, RECORDS)


def test_a_strangers_source_prepares_what_stands_for_its_own() -> None:
    class ShiftedLayer(CountLayer):
        def prepare(self, top: str, records: Any, random: Any, phase: str, fitted: Any, classes: Any = ()) -> Any:
            return records + (1 if (top, phase) == ("data", "predict") else 0)

    net = made([ShiftedLayer(name="count", tops=["data", "label"], count=10, batch_size=4, width=5), ip("y")])
    weight, bias = (net.parameters[name].value for name in ("y/weight", "y/bias"))
    np.testing.assert_allclose(net.predict(RECORDS, "y"), (RECORDS + 1) @ weight.T + bias, rtol=1e-12)


def test_sources_of_other_phases_are_replaced_too() -> None:
    sources = [
        CountLayer(name=name, tops=["data", "label"], count=10, batch_size=4, width=5, exclude=exclude)
        for name, exclude in (("train", ["validation", "test", "predict"]), ("test", ["train", "predict"]))
    ]
    for phase in ("train", "test"):
        net = made([*sources, *classifier()[1:]], phase=phase)
        np.testing.assert_allclose(net.predict(RECORDS, "prob"), by_hand(net, RECORDS)[1], rtol=1e-12)


def test_a_blob_of_whole_numbers_stays_one() -> None:
    source = InputLayer(name="in", tops="index", batch_size=4, dtype="int64")
    net = made([source, HalveLayer(name="half", bottoms="index", exclude="predict")], phase="test")
    found = net.predict(np.arange(6), "index")
    assert found.dtype == np.int64
    assert found.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((3, 4)), r"blob 'data' has records of shape \(5,\), .*\(4,\)"),
        (np.zeros((0, 5)), "'data': the data have no record"),
        (3.0, r"'data' is 3.0, but must be an array \(records, ...\)"),
        (np.full((3, 5), "x"), "blob 'data': .*numbers.* <U1"),
    ],
)
def test_data_that_do_not_fit(given: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        made().predict(given, "prob")


@pytest.mark.parametrize(("batch_size", "count"), [(1, 5), (2, 5), (8, 5), (8, 1)])
def test_numbers_too_large_for_the_type_of_the_net(batch_size: int, count: int) -> None:
    records = np.zeros((count, 5))
    records[-1, 2], records[0, 0] = -1e300, np.inf
    net = made([InputLayer(name="in", tops="data", shape=5), ip("y")], dtype="float32")
    record = f": record {count - 1}" if count > 1 else ""
    with pytest.raises(DataError) as error:
        net.predict(records, output="data", batch_size=batch_size)
    assert str(error.value) == (
        f"'data'{record} has a number too large for float32\n  scale the numbers, such as (x - x.mean(0)) / x.std(0)"
    )
    with pytest.raises(DataError, match="too large for float32"):
        net.predict(records.astype(">f8"), output="data")
    records[-1, 2] = 3  # the infinity stays one, without a warning
    assert np.array_equal(net.predict(records, output="data", batch_size=batch_size), records)


def test_outputs_that_are_not_there() -> None:
    with pytest.raises(TopologyError, match=r"no layer writes blob 'probe' in this phase \(did you mean 'prob'\?\)"):
        made().predict(RECORDS, "probe")
    net = made([data(5), SquareLossLayer(name="loss", bottoms="data")])
    with pytest.raises(DataError, match=r"no layer .* can be an output"):
        net.predict(RECORDS)


def test_derived_nets_are_made_once_and_end_with_the_net() -> None:
    net = made()
    for _ in range(2):
        net.predict(RECORDS, "prob")
    (team,) = net._predictors.values()
    net.shutdown()
    assert [one.closed for one in team.nets] == [True]


def test_a_blob_without_a_row_for_each_record_is_told_and_not_cut():
    layers = [InputLayer(tops="x", shape=2, batch_size=3), FlattenLayer(bottoms="x", tops="y", axis=0)]
    with (
        Net("flat", layers, backend="numpy", phase="predict") as net,
        pytest.raises(DataError, match=r"blob 'y' of shape \(6,\) .* each of the 3 records"),
    ):
        net.predict(np.ones((3, 2)), "y")


def test_what_was_learned_since_is_known() -> None:
    """Texts become the numbers that the last training gave them, not those of the first prediction."""

    x = Input(name="x", dtype="int64")
    net = Net("words", L.Embedding(output_dim=2, input_dim=4)(x), backend="numpy")
    net.predict(np.array([0, 1]))
    for words in (["a", "b", "c", "d"], ["d", "c", "b", "a"]):
        net.learned = {"x": {"classes": words}}
        np.testing.assert_array_equal(net.predict(np.array(words)), net.predict(np.arange(4)))
