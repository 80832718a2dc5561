"""What a net knows of its training data: who learns it, who gets it, and which blobs have names of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pytest

from nacre import Layer, Names, Net, Snapshot, SnapshotError, SourceState, Transformer, default
from nacre.net.fitted import check_alike, class_names
from nacre_data import MemoryDataLayer
from nacre_layers.containers.sequential import SequentialLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer

LABEL: dict[str, dict[str, Any]] = {"label": {"classes": ["cat", "dog"]}}


def score(name: str, bottom: str = "data") -> Layer:
    return InnerProductLayer(name=name, bottoms=bottom, tops=name, output_dim=2)


def names(layers: list[Layer], counts: Mapping[str, int], fitted: Any = LABEL) -> dict[str, tuple[str, ...]]:
    return class_names(layers, fitted, counts.get)


def test_names_go_to_outputs_that_share_a_loss_or_a_statistic() -> None:
    layers: list[Layer] = [
        SoftmaxLossLayer(name="loss", bottoms=["one", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["two", "label"]),
        SquareLossLayer(name="other", bottoms=["three", "four"]),
    ]
    found = names(layers, {"one": 2, "two": 2, "three": 2, "four": 2})
    assert found == dict.fromkeys(("label", "one", "two"), ("cat", "dog"))
    assert names(layers, {"one": 3, "two": 2}) == dict.fromkeys(("label", "two"), ("cat", "dog"))
    assert names(layers, {"one": 2}, {"label": {"classes": []}}) == {}
    assert names(layers, {"one": 2}, {"label": {"Standardize/mean": np.zeros(())}}) == {}


def test_layers_without_parameters_hand_names_on() -> None:
    layers: list[Layer] = [
        SoftmaxLossLayer(name="loss", bottoms=["a", "label"]),
        SoftmaxLayer(bottoms="a", tops="b"),
        SoftmaxLayer(bottoms="b", tops="c"),
        score("d", "c"),
        SoftmaxLayer(bottoms="d", tops="e"),
    ]
    assert set(names(layers, dict.fromkeys("abcde", 2))) == {"label", "a", "b", "c"}
    assert set(names(layers[::-1], dict.fromkeys("abcde", 2))) == {"label", "a", "b", "c"}


def test_containers_hand_names_on_as_their_layers_do() -> None:
    def box(name: str, layer: Any, bottoms: Any = "a", tops: Any = ()) -> Layer:
        return SequentialLayer(name=name, bottoms=bottoms, tops=tops, layer=[layer])

    product = {"type": "InnerProduct", "output_dim": 2}
    layers = [
        box("body", product, "data", "a"),
        box("head", "SoftmaxLoss", ["a", "label"]),
        box("other", product, "a", "b"),
        box("prob", "Softmax", "a", "c"),
    ]
    assert set(names(layers, dict.fromkeys("abc", 2))) == {"label", "a", "c"}


def test_two_lists_for_one_blob_are_none() -> None:
    layers: list[Layer] = [
        SoftmaxLossLayer(name="one", bottoms=["a", "label"]),
        SoftmaxLossLayer(name="two", bottoms=["a", "kind"]),
        SoftmaxLayer(bottoms="a", tops="b"),
    ]
    both = {**LABEL, "kind": {"classes": ["yes", "no"]}}
    assert set(names(layers, {"a": 2, "b": 2}, both)) == {"label", "kind"}


class WordsLayer(Layer, is_source=True):
    """A stranger's source, which learns a list of words."""

    tops: Annotated[Names, ""] = default("data")


class WordsState(SourceState, of=WordsLayer):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        known = backend.fitted.get("data", {}).get("words")
        self.fitted = {"data": {"words": known or [f"learned in {self.phase}"]}}
        self.blobs = [backend.blob((1, 2))]
        self.rows = 1

    def forward(self, inputs: list[Any]) -> None:
        self.epoch += 1

    def rewind(self) -> None: ...


def test_a_strangers_source_learns_in_training_and_is_told_elsewhere() -> None:
    with Net("t", [WordsLayer(), score("y")], backend="numpy") as net, net.derive("test") as tested:
        wanted = {"data": {"words": ["learned in train"]}}
        assert net.fitted == tested.fitted == wanted
        with Net("t", [WordsLayer(), score("y")], backend="numpy", phase="test") as alone:
            assert alone.fitted == {"data": {"words": ["learned in test"]}}


def test_what_is_given_stays_though_no_source_uses_it() -> None:
    with Net("t", [WordsLayer(), score("y")], backend="numpy", fitted=LABEL) as net:
        assert net.fitted == {**LABEL, "data": {"words": ["learned in train"]}}
        assert net.derive("predict").fitted == net.fitted


def test_a_strangers_transformer_is_fitted() -> None:
    class Ranged(Transformer):
        def fit(self, blocks: Any) -> Mapping[str, Any]:
            return {"largest": np.max([block.max() for block in blocks]), "note": "as JSON"}

        def transform(self, batch: Any, random: Any, phase: str) -> None:
            batch /= self.fitted_array("largest", ())

    layer = MemoryDataLayer(
        name="d", tops="data", data=[np.arange(8.0)], batch_size=8, transformers=[["data", Ranged()]]
    )
    with Net("t", [layer], backend="numpy") as net:
        net.feed()
        assert net.blob("data").max() == 1
        assert net.fitted["data"]["Ranged/note"] == "as JSON"
        assert isinstance(net.fitted["data"]["Ranged/largest"], np.ndarray)
        assert net.predict(np.full((2,), 14.0), "data").tolist() == [2, 2]


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ({"a": {"x": 1}}, {"a": {"x": 2}}, "found another 'x' of 'a' in their data than the snapshot has: 2 in the"),
        ({"a": {"x": [1]}}, {"a": {"x": np.ones(1)}}, "found another 'x' of 'a' in their data than the snapshot has\n"),
        ({"a": {"x": np.ones(1)}}, {"a": {"x": [1]}}, "has: [1] in the snapshot, here array([1.])"),
        ({"a": {"x": np.ones(1)}}, {"a": {"x": np.ones(2)}}, "found another 'x' of 'a'"),
    ],
)
def test_a_snapshot_that_knows_something_else(here: Any, there: Any, said: str) -> None:
    with pytest.raises(SnapshotError) as error:
        check_alike(here, there)
    assert said in str(error.value)
    check_alike(here, here)
    check_alike({}, there)
    check_alike(here, {})


def test_what_a_snapshot_knows_is_real_and_of_the_right_form() -> None:
    arrays = {"fitted/data/Standardize/mean": np.zeros(2)}
    state = {"fitted": {"label": {"classes": ["cat", "dog"]}}}
    assert Snapshot(1, arrays, state).fitted() == {**LABEL, "data": {"Standardize/mean": arrays.popitem()[1]}}
    with pytest.raises(SnapshotError, match="'fitted/data/x' is of type complex128, but its numbers must be real"):
        Snapshot(1, {"fitted/data/x": np.zeros(2, complex)}, {})
    for wrong in (3, [], {"label": []}):
        with pytest.raises(SnapshotError, match="state/fitted"):
            Snapshot(1, {}, {"fitted": wrong})
