"""Words: the words of texts as numbers, whose vocabulary goes from the training to all that follows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run
from nacre import ConfigError, DataError, L, Layer, Net, Solver, feed, load
from nacre_data import CSVDataLayer, MemoryDataLayer, Words
from nacre_data.words import WORD
from nacre_layers import EmbeddingLayer
from nacre_solvers import Adam
from toy_training import weights

TEXTS = ["a fine day", "a FINE evening", "not a fine day, I'd say", "a"]
LABELS = ["yes", "yes", "no", "no"]


def source(texts: Any = TEXTS, name: str = "train", words: Any = None, **fields: Any) -> MemoryDataLayer:
    how: Any = {"transformers": [["text", {"type": "Words", "length": 4, **(words or {})}]], "batch_size": len(texts)}
    return MemoryDataLayer(name=name, tops="text", data=[texts], **{**how, **fields})


def numbers(net: Net) -> list[list[int]]:
    net.feed()
    return net.blob("text").tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I'd say so.", ["i'd", "say", "so", "."]),
        ("'quoted' — well…", ["'", "quoted", "'", "—", "well", "…"]),
        ("schön, l’été 42_a", ["schön", ",", "l’été", "42_a"]),
        (" \t\n", []),
    ],
)
def test_what_words_are(text: str, words: list[str]) -> None:
    assert Words(length=1).words(text) == words
    assert Words(length=1, lower=False).words(text.upper()) == WORD.findall(text.upper())


def test_the_vocabulary_is_that_of_the_training_the_most_frequent_first() -> None:
    other = source(["fine fine night", "a"], "test", exclude="train")
    with Net("t", [source(exclude="test"), other], backend="numpy") as net:
        assert net.classes["text"] == ("", "a", "fine", "day", ",", "evening", "i'd", "not", "say", "<unk>")
        assert numbers(net) == [[1, 2, 3, 0], [1, 2, 5, 0], [7, 1, 2, 3], [1, 0, 0, 0]]
        assert net.blob("text").dtype == np.int64
        assert net.fitted["text"]["unknown"] == "<unk>"
        with net.derive("test") as tested:
            assert numbers(tested) == [[2, 2, 9, 0], [1, 0, 0, 0]]


def test_rare_words_are_unknown_and_case_may_count() -> None:
    with Net("t", [source(words={"most": 2, "lower": False})], backend="numpy") as net:
        assert net.classes["text"] == ("", "a", "day", "<unk>")
        assert numbers(net)[:2] == [[1, 3, 2, 0], [1, 3, 3, 0]]


def test_words_count_as_often_as_their_text_occurs() -> None:
    split = {"part": "all", "fractions": {"all": 1.0}}
    with Net("t", [source(["b", "c c", "b", "b"], split=split)], backend="numpy") as net:
        assert net.classes["text"] == ("", "b", "c", "<unk>")


def test_texts_that_differ_in_blanks_alone_are_no_classes() -> None:
    with Net("t", [source(["a b", "", "  ", "a b "])], backend="numpy") as net:  # warnings are errors
        assert net.classes["text"] == ("", "a", "b", "<unk>")


def test_one_text_alone_is_taken_for_a_file() -> None:
    layers: list[Layer] = [source(), EmbeddingLayer(name="y", bottoms="text", tops="y", input_dim="text", output_dim=2)]
    with Net("t", layers, backend="numpy") as net:
        assert net.predict(["a fine day"]).shape == (1, 4, 2)
        with pytest.raises(
            DataError, match=r"'a fine day': no such .*\n  texts come in a list: net.predict\(\[text\]\)"
        ):
            net.predict("a fine day")


def test_layers_count_the_words_by_the_name_of_the_top() -> None:
    layers: list[Layer] = [source(), EmbeddingLayer(name="y", bottoms="text", tops="y", input_dim="text", output_dim=2)]
    with Net("t", layers, backend="numpy") as net:
        assert net.parameters["y/weight"].shape == (10, 2)
        assert net.memory.final["y"].shape == (4, 4, 2)


@pytest.mark.parametrize("length", [1, 3])
def test_texts_of_a_table_are_read_as_those_in_memory(length: int, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f'"{text}",1\n' for text in TEXTS))
    how: Any = {"transformers": [["text", {"type": "Words", "length": length}]], "tops": ["text", "label"]}
    table, memory = CSVDataLayer(source=tmp_path / "a.csv", batch_size=4, **how), source(words={"length": length})
    with Net("t", [table], backend="numpy") as net, Net("t", [memory], backend="numpy") as same:
        assert numbers(net) == numbers(same)
        assert net.classes["text"] == same.classes["text"]


def test_what_is_no_text_is_refused() -> None:
    for data, told in (
        (np.arange(3), "Words: the numbers of this top have no names, so they are no categories"),
        (np.zeros((3, 2), int), r"Words: records must hold one text, but they have the shape \(2,\)"),
    ):
        with pytest.raises((ConfigError, DataError), match=told):
            Net("t", [source(data)], backend="numpy")
    with pytest.raises(ConfigError, match="Words must be the first transformer of 'text'"):
        source(transformers=[["text", "Categories"], ["text", Words(length=2)]])


# Texts in memory


def test_texts_in_memory_count_classes() -> None:
    data = {"label": np.array(LABELS), "other": np.array(["10", "9", "9", "10"], object)}
    layer = MemoryDataLayer(tops=["label", "other"], data=data, batch_size=4)
    with Net("t", [layer], backend="numpy") as net:
        net.feed()
        assert net.classes == {"label": ("no", "yes"), "other": ("9", "10")}
        assert net.blob("label").tolist() == [1, 1, 0, 0]
        assert net.blob("other").tolist() == [1, 0, 0, 1]
    ordered = MemoryDataLayer(tops="label", data=[LABELS], batch_size=4, classes={"label": ["yes", "no"]})
    with Net("t", [ordered], backend="numpy") as net:
        net.feed()
        assert net.blob("label").tolist() == [0, 0, 1, 1]
    for mixed in (np.array(["a", None], object), np.array([["a", "b"]])):
        with pytest.raises(DataError, match="'label'"):
            Net("t", [MemoryDataLayer(name="d", tops="label", data=[mixed], batch_size=1)], backend="numpy")


# A net that reads texts


def friendly() -> Net:
    """Return a net that tells by its words whether a text is friendly, trained."""
    how: Any = {"tops": ["text", "label"], "transformers": [["text", Words(length=6)]], "batch_size": 4}
    text, label = feed(train=L.MemoryData(data=[TEXTS, LABELS], **how), test=L.MemoryData(data=[TEXTS, LABELS], **how))
    vectors = L.Embedding(input_dim="text", output_dim=8, name="vectors")(text)
    lengths = L.Reduction(operation="sum", axis=1)(L.Threshold()(text))
    states, last = L.GRU(output_dim=8, sequences="lengths", name="gru")(vectors, lengths, tops=2)
    score = L.InnerProduct(output_dim="label", name="score")(last)
    losses = [L.SoftmaxLoss(name="loss")(score, label), L.Accuracy(name="accuracy")(score, label)]
    net = Net(
        "friendly", [*losses, L.Softmax(name="prob", exclude="train")(score), L.Silence()(states)], backend="numpy"
    )
    Solver(Adam(), max_iter=100, lr_policy=0.02).solve(net, quiet=True)
    return net


def test_a_net_learns_texts_and_takes_its_vocabulary_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = friendly()
    with net.derive("test") as tested:
        tested.forward_epoch()
        assert tested.statistics()["accuracy"]["accuracy"] == 1
    net.save("friendly.nacre")
    Path("new.csv").write_text("text\na fine night\nnot a night\n")
    told = run("predict", "friendly.nacre", "new.csv", "--blob", "prob", "--json").json
    assert [row["classes"][0]["name"] for row in told] == ["yes", "no"]
    with load("friendly.nacre") as loaded:
        assert loaded.classes["text"] == net.classes["text"]
        assert loaded.evaluate(TEXTS, LABELS)["accuracy/accuracy"] == 1
        before = weights(loaded)
        loaded.fit(TEXTS, LABELS, epochs=1, quiet=True)
        assert weights(loaded) != before
        assert loaded.classes["text"] == net.classes["text"]
        with pytest.raises(DataError, match=r"'text' holds texts, but an Input of shape \(6,\) needs numbers"):
            loaded.evaluate(np.array([TEXTS, TEXTS]).T, LABELS)
