"""Numbers of classes for which a field names a blob: states get the number, everything else keeps the name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from nacre import ClassCount, ConfigError, Layer, Names, Net, default, positive
from nacre.config import dumps, load
from nacre_data import CharTextLayer, MemoryDataLayer, PrefetchLayer
from nacre_layers import (
    ClassSoftmaxLossLayer,
    EmbeddingLayer,
    Index2OnehotLayer,
    InnerProductLayer,
    OneHotLayer,
    SequentialLayer,
    SoftmaxLossLayer,
)

NAMES = ("cat", "dog", "cow")


def animals(**fields: Any) -> Layer:
    data = [np.arange(24, dtype="float32").reshape(6, 4), np.array([0, 1, 2, 0, 1, 2])]
    known = {"classes": {"label": NAMES}, "tops": ["data", "label"], "data": data}
    return MemoryDataLayer(name="animals", **{**known, "batch_size": 3, **fields})


def scores(**fields: Any) -> InnerProductLayer:
    return InnerProductLayer(name="score", **{"bottoms": "data", "tops": "score", "output_dim": "label", **fields})


LOSS = SoftmaxLossLayer(name="loss", bottoms=["score", "label"])


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_a_layer_has_as_many_outputs_as_a_blob_has_classes(backend: str) -> None:
    layers = [animals(), scores(), LOSS]
    with Net("n", layers, backend=backend) as net:
        assert net.memory.final["score"].shape == (3, 3) and net.parameters["score/weight"].shape == (3, 4)
        assert net.classes["score"] == NAMES
        assert layers[1].given()["output_dim"] == "label"
        net.forward()
        net.backward()
        with net.derive("test") as test:  # with the same parameters
            assert test.parameters["score/weight"].value.tolist() == net.parameters["score/weight"].value.tolist()
        assert net.predict(np.zeros((2, 4)), "score").shape == (2, 3)


def test_every_layer_that_counts_classes() -> None:
    layers = [
        animals(),
        OneHotLayer(bottoms="label", tops="onehot", n_class="label"),
        Index2OnehotLayer(bottoms="label", tops="index", n_class="label"),
        EmbeddingLayer(bottoms="label", tops="vector", input_dim="label", output_dim=2),
        ClassSoftmaxLossLayer(name="words", bottoms=["vector", "label"], n_label="label", starts=[0, 1]),
    ]
    with Net("n", layers, backend="numpy") as net:
        shapes = {name: net.memory.final[name].shape for name in ("onehot", "index", "vector")}
        assert shapes == {"onehot": (3, 3), "index": (3, 3), "vector": (3, 2)}
        assert net.parameters["vector/weight"].shape == (3, 2)
        assert net.parameters["words/class_weight"].shape == (2, 2)


def test_in_a_container_it_is_the_name_of_a_blob_outside() -> None:
    box = SequentialLayer(name="box", bottoms="data", tops="score", layer=[scores()])
    with Net("n", [animals(), box, LOSS], backend="numpy") as net:
        assert net.parameters["box/score/weight"].shape == (3, 4)


def test_in_a_prefetch_a_text_is_read_before_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abcabc")
    text = CharTextLayer(source=str(tmp_path / "text.txt"), batch_size=1, steps=2)
    with Net("n", [PrefetchLayer(layer=[text]), OneHotLayer(bottoms="data", tops="x", n_class="data")]) as net:
        assert net.memory.final["x"].shape == (1, 2, 3)


def test_a_net_file_keeps_the_name(tmp_path: Path) -> None:
    text = '[[layer]]\ntype = "OneHot"\nname = "onehot"\nbottoms = ["data"]\ntops = ["onehot"]\nn_class = "data"\n'
    (tmp_path / "net.toml").write_text(text)
    assert text in dumps(load(tmp_path / "net.toml"))


class CountsLayer(Layer, is_sink=True):
    """Only says what its state would see."""

    bottoms: Annotated[Names, "any"]
    many: Annotated[ClassCount, positive, "number of classes"] = default(1)


def test_what_a_number_of_classes_may_be() -> None:
    assert [CountsLayer(bottoms="x", many=many).many for many in (3, "label")] == [3, "label"]
    for wrong, message in (
        (0, "many=0, but it must be above 0"),
        (-2, "many=-2, but it must be above 0"),
        (2.5, "many=2.5, but it must be a whole number, or the name of a blob whose classes are counted"),
        ("5", "many='5', but it must be a whole number, or the name of a blob"),
        ("a b", "many='a b', but it must be a whole number"),
    ):
        with pytest.raises(ConfigError, match=message):
            CountsLayer(bottoms="x", many=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("fields", "known"),
    [({"classes": {}}, "no blob"), ({"tops": ["data", "kind"], "classes": {"kind": NAMES}}, "kind")],
)
def test_classes_that_are_not_known(fields: dict[str, Any], known: str) -> None:
    message = f"score: output_dim='label', but the classes of blob 'label' are not known; known are those of: {known}\n"
    with pytest.raises(ConfigError, match=message):
        Net("n", [animals(**fields), scores()], backend="numpy")


def test_a_wrong_number_is_told_when_it_is_known() -> None:
    layers = [
        animals(),
        ClassSoftmaxLossLayer(name="words", bottoms=["data", "label"], n_label="label", n_class=4),
    ]
    with pytest.raises(ConfigError, match="words: n_class=4, but there are only 3 labels"):
        Net("n", layers, backend="numpy")
