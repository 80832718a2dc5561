"""CharText and WordText: parallel streams of a text, and what follows each character or word."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import run
from nacre import ConfigError, DataError, Net, SnapshotError
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_data import CharTextLayer, LabelLayer, WordTextLayer
from nacre_layers import (
    EmbeddingLayer,
    GRULayer,
    InnerProductLayer,
    OneHotLayer,
    PerplexityLayer,
    SoftmaxLossLayer,
)
from ranks import state_at
from resuming import trained

TEXT = "der die das\nüber die Wörter\n\nein Ende"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder with a text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(TEXT.encode())
    return tmp_path


def naive(units, names, layer, phase):
    """Return the first batch."""
    numbers = [names.index(unit) for unit in units]
    size, steps, targets = layer.batch_size, layer.steps, len(numbers) - 1
    if phase == "train":
        starts = [row * len(numbers) // size for row in range(size)]
        places = [[(start + step) % targets for step in range(steps)] for start in starts]
    else:
        windows = -(-targets // steps)
        counts = [windows // size + (row < windows % size) for row in range(size)]
        places = [[steps * sum(counts[:row]) + step for step in range(steps)] for row in range(size)]
    data, label, cont = (np.zeros((size, steps)) for _ in range(3))
    for row, step in np.ndindex(size, steps):
        place = places[row][step]
        there = place < targets and (phase == "train" or counts[row] > 0)
        data[row, step] = numbers[place] if there else 0
        label[row, step] = numbers[place + 1] if there else layer.ignore_label
        cont[row, step] = step > 0 and (place > 0 or not there)
    return [data, label, cont][: len(layer.tops)]


class TestCharText(LayerTests):
    layer = CharTextLayer

    def examples(self):
        given = {"source": "text.txt", "vocabulary": sorted({*TEXT})}
        yield Example({**given, "tops": ["data", "label"], "batch_size": 2, "steps": 5})
        fields = {**given, "tops": ["data", "label", "cont"], "batch_size": 3, "steps": 12}
        yield Example(fields, label="cont, streams that meet")
        yield Example({**given, "tops": ["data"], "batch_size": 1, "steps": 1}, label="no label")

    def reference(self, layer, inputs, parameters):
        return naive(TEXT, layer.vocabulary, layer, self.phase)


class TestWordText(LayerTests):
    layer = WordTextLayer

    def examples(self):
        given = {"source": "text.txt", "vocabulary": ["\n", "die", "Ende", "Wörter", "das", "der", "ein", "über"]}
        yield Example({**given, "tops": ["data", "label", "cont"], "batch_size": 2, "steps": 3})

    def reference(self, layer, inputs, parameters):
        return naive(re.findall(r"\n|\S+", TEXT), layer.vocabulary, layer, self.phase)


def write(text, name="some.txt"):
    with open(name, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return name


def chars(text=TEXT, file="some.txt", **fields):
    return CharTextLayer(source=write(text, file), **{"batch_size": 1, "steps": 3, **fields})


def words(text=TEXT, **fields):
    return WordTextLayer(source=write(text), **{"batch_size": 1, "steps": 3, **fields})


def net_of(*layers, **options):
    return Net("n", layers, backend="numpy", **options)


def text_of(net, blob="data"):
    return ["".join(net.classes[blob][number] for number in row) for row in net.blob(blob).tolist()]


# Streams


def test_streams_go_on_where_the_batch_before_has_ended():
    net = net_of(chars("abcdefghijkl", batch_size=3, tops=["data", "label", "cont"], steps=2))
    found = []
    for _ in range(5):
        net.feed()
        found.append((text_of(net), text_of(net, "label"), net.blob("cont").tolist(), net.epoch))
    go_on = [[1, 1]] * 3
    assert found == [
        (["ab", "ef", "ij"], ["bc", "fg", "jk"], [[0, 1]] * 3, 0),
        (["cd", "gh", "ka"], ["de", "hi", "lb"], [[1, 1], [1, 1], [1, 0]], 1),
        (["ef", "ij", "bc"], ["fg", "jk", "cd"], go_on, 1),
        (["gh", "ka", "de"], ["hi", "lb", "ef"], [[1, 1], [1, 0], [1, 1]], 2),
        (["ij", "bc", "fg"], ["jk", "cd", "gh"], go_on, 2),
    ]


COUNTS = {
    "count": st.integers(2, 200),
    "size": st.integers(1, 5),
    "ranks": st.integers(1, 4),
    "steps": st.integers(1, 9),
}


def ids(count, **fields):
    """Return a source over so many different characters, whose numbers are their places."""
    text = "".join(chr(0x4E00 + place) for place in range(count))
    return chars(text, tops=["data", "label", "cont"], **fields)


@settings(max_examples=100)
@given(**COUNTS)
def test_in_training_a_pass_reads_all_of_the_text(count, size, ranks, steps):
    layer = ids(count, batch_size=size, steps=steps)
    if size * ranks * steps > count - 1:
        with pytest.raises(DataError, match=f"data: batch_size={size}.* need {size * ranks * steps + 1} characters"):
            state_at(layer, "train", 0, ranks)
        return
    parts = [state_at(layer, "train", rank, ranks) for rank in range(ranks)]
    streams, conts, batches = [[] for _ in range(size * ranks)], [[] for _ in range(size * ranks)], 0
    while parts[0].epoch < 2:
        for rank, part in enumerate(parts):
            part.forward([])
            data, label, cont = part.blobs
            assert (label == data + 1).all()
            for row in range(size):
                streams[rank * size + row] += data[row].tolist()
                conts[rank * size + row] += cont[row].tolist()
            assert (part.rows, part.epoch, part.memory()) == (size, parts[0].epoch, parts[0].memory())
        batches += 1
        if parts[0].epoch == 1:
            assert {place for stream in streams for place in stream} == {*range(count - 1)}
    assert [stream[0] for stream in streams] == [row * count // len(streams) for row in range(len(streams))]
    for stream, cont in zip(streams, conts, strict=True):
        assert all(after == (place + 1) % (count - 1) for place, after in pairwise(stream))
        assert cont == [float(step > 0 and place > 0) for step, place in enumerate(stream)]


@settings(max_examples=100)
@given(**COUNTS, phase=st.sampled_from(["validation", "test", "predict"]), ignored=st.sampled_from([-1, 255]))
def test_elsewhere_a_pass_feeds_every_target_once(count, size, ranks, steps, phase, ignored):
    layer = ids(count, batch_size=size, steps=steps, ignore_label=ignored)
    known = state_at(ids(count, batch_size=1, steps=1)).fitted
    parts = [state_at(layer, phase, rank, ranks, fitted=known) for rank in range(ranks)]
    for epoch in (0, 1):
        streams = [[] for _ in range(size * ranks)]
        while parts[0].epoch == epoch:
            begins = not any(streams)
            for rank, part in enumerate(parts):
                part.forward([])
                assert part.epoch == parts[0].epoch
                data, label, cont = part.blobs
                assert (cont[: part.rows, 0] == float(not begins)).all() and (cont[:, 1:] == 1).all()
                counts = label != ignored
                assert counts[: part.rows, 0].all() and not counts[part.rows :].any()
                assert (label[counts] == data[counts] + 1).all() and (data[~counts] == 0).all()
                for row in range(size):
                    streams[rank * size + row] += data[row][counts[row]].tolist()
        assert [place for stream in streams for place in stream] == [*range(count - 1)]


def test_a_parser_above_a_text_takes_random_numbers_by_rows():
    """A text has no records that random numbers could belong to."""
    layers = [
        CharTextLayer(source="text.txt", tops=["data", "label"], batch_size=4, steps=1),
        LabelLayer(bottoms="label", tops="parsed"),
    ]
    with Net("n", layers, backend="numpy", phase="train") as net:
        net.forward()
        assert net.blob("parsed").tolist() == net.blob("label")[:, 0].tolist()


def test_the_part_of_a_text():
    first, second = (net_of(chars("abcdefghij", steps=2, part=part)) for part in ([0.0, 0.7], [0.7, 1.0]))
    assert ["".join(net.classes["data"]) for net in (first, second)] == ["abcdefg", "hij"]
    words_net = net_of(words("a b c\nd", part=[0.5, 1.0], steps=1))
    assert set(words_net.classes["data"]) == {"\n", "d", "c"}


def test_a_pass_has_the_perplexity_of_the_whole_text():
    """Whatever the batches are: every target counts once."""
    train = chars("abracadabra " * 9, exclude=["validation"], name="train")
    found = []
    for size, steps in [(1, 107), (1, 1), (3, 5), (8, 16), (50, 3)]:
        layers = [
            train,
            chars("abracadabra " * 9, batch_size=size, steps=steps, exclude=["train"], name="valid"),
            EmbeddingLayer(name="e", bottoms="data", tops="score", input_dim=6, output_dim=6),
            SoftmaxLossLayer(name="loss", bottoms=["score", "label"], axis=-1, ignore_label=-1),
            PerplexityLayer(name="p", bottoms=["score", "label"], axis=-1, ignore_label=-1, exclude=["train"]),
        ]
        with net_of(*layers, dtype="float64") as net, net.derive("validation") as valid:
            valid.forward_epoch()
            found.append(valid.statistics()["p"])
    assert {one["records"] for one in found} == {107}
    np.testing.assert_allclose([one["perplexity"] for one in found], found[0]["perplexity"], rtol=1e-12)


# Vocabularies


def test_the_words_of_a_vocabulary_are_those_of_highest_frequency():
    net = net_of(words("b a c a b d", most=2, unknown="own", steps=5))
    net.feed()
    assert net.classes["data"] == ("a", "b", "<unk>") == net.classes["label"]
    assert net.blob("data").tolist() == [[1, 0, 2, 0, 1]]
    assert net.blob("label").tolist() == [[0, 2, 0, 1, 2]]


def test_lines_end_with_a_word_of_their_own_however_they_end():
    net = net_of(words("a b\r\nc\n", steps=4))
    net.feed()
    assert [net.classes["data"][number] for number in net.blob("data")[0]] == ["a", "b", "\n", "c"]


def test_several_files_follow_each_other():
    layers = [
        cls(source=[write("ab", "1"), write("cd ab", "2")], batch_size=1, steps=2)
        for cls in (CharTextLayer, WordTextLayer)
    ]
    assert net_of(layers[0]).classes["data"] == tuple(" abcd")
    assert net_of(layers[1]).classes["data"] == ("ab", "cd")


def test_a_byte_order_mark_is_no_character():
    assert net_of(chars("\ufeffaba", steps=1)).classes["data"] == ("a", "b")


def test_other_phases_use_the_vocabulary_of_training():
    train = chars("abcab", "train.txt", exclude=["validation"], name="train", steps=1)
    valid = {"exclude": ["train"], "steps": 1, "name": "v"}
    with net_of(train, chars("cb", **valid)) as net, net.derive("validation") as other:
        other.feed()
        assert other.blob("data").tolist() == [[2]] and other.classes == net.classes
    with pytest.raises(DataError, match=r"v: some.txt: line 2: the character 'é' is not one of the 3 .*\n.*own"):
        net_of(chars("c\nbé", **valid), phase="validation", fitted={"data": {"classes": ["b", "c", "\n"]}})
    with net_of(chars("cxb", unknown="own", **valid), phase="validation", fitted=net.fitted) as other:
        for number in (2, 3):
            other.feed()
            assert other.blob("data").tolist() == [[number]]
    with pytest.raises(DataError, match=r"v: the vocabulary is that of the training's text.*phase 'validation'"):
        net_of(chars("cb", **valid), phase="validation")


def test_an_unknown_word_is_found_in_its_file():
    layer = WordTextLayer(
        source=[write("a b", "1"), write("a\n\nb c", "2")], name="w", batch_size=1, vocabulary=["a", "b", "\n"]
    )
    with pytest.raises(DataError, match="w: 2: line 3: the word 'c' is not one of the 3 words of the vocabulary"):
        net_of(layer, phase="test")


def test_a_vocabulary_may_be_given():
    with net_of(chars("ab", vocabulary=["b", "c", "a"], steps=1)) as net:
        net.feed()
        assert net.blob("data").tolist() == [[2]]
        assert net.classes["data"] == ("b", "c", "a")


@settings(max_examples=50)
@given(text=st.text(min_size=4, max_size=300), size=st.integers(1, 3))
def test_any_text(text, size):
    """The numbers of every text stand for its characters; so do those of its words."""
    text = text.removeprefix("\ufeff")
    for make, units in ((chars, [*text]), (words, re.findall(r"\n|\S+", text))):
        if len(units) <= size:
            continue
        with net_of(make(text, batch_size=size, steps=1)) as net:
            names = net.classes["data"]
            assert sorted(names) == sorted({*units})
            assert [names[number] for number in net.node_ops["data"].state.text] == units


# Resuming


def model(**fields):
    """Return the layers of a small model of text, whose vocabulary has odd characters."""
    text = "a\0b\n\té😀\r " * 30
    return [
        chars(text, batch_size=4, steps=5, name="text", **fields),
        EmbeddingLayer(name="vectors", bottoms="data", tops="vector", input_dim=9, output_dim=4),
        InnerProductLayer(name="scores", bottoms="vector", tops="score", axis=-1, output_dim=9),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], axis=-1),
    ]


@pytest.mark.parametrize("before", [1, 12, 13, 14, 30])
def test_a_resumed_training_is_the_same(before):
    whole, parameters = trained(model(), 35)
    assert whole.fitted()["data"]["classes"] == sorted("a\0b\n\té😀\r ")
    snapshot, _ = trained(model(), before)
    assert trained(model(), 35 - before, snapshot)[1] == parameters


NET_FILE = """
name = "bigram"

[[layer]]
type = "CharText"
name = "train"
exclude = ["validation", "test", "predict"]
source = "text.txt"
batch_size = 4
steps = 3

[[layer]]
type = "CharText"
name = "held-out"
exclude = ["train", "predict"]
source = "held.txt"
batch_size = 2
steps = 4

[[layer]]
type = "Embedding"
bottoms = ["data"]
tops = ["score"]
input_dim = 15
output_dim = 15

[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
axis = -1
ignore_label = -1

[[layer]]
type = "Perplexity"
name = "held"
exclude = ["train"]
bottoms = ["score", "label"]
axis = -1
ignore_label = -1

[solver]
type = "SGD"
max_iter = 20
lr_policy = 0.5

[[callback]]
type = "Snapshot"
every_n_iter = 7
folder = "snapshots"
"""


def test_the_vocabulary_on_the_command_line(folder):
    """A test finds the numbers of the characters in the snapshot; a training that is resumed has them too."""
    write(NET_FILE, "net.toml")
    write("die Wörter\n", "held.txt")
    run("train", "net.toml", "--json")
    whole = run("test", "net.toml", "snapshots", "--json").json["statistics"]["held"]
    assert whole["records"] == 10 and whole["perplexity"] < 14
    run("train", "net.toml", "--resume", "snapshots/snapshot-000014.h5", "--json")
    assert run("test", "net.toml", "snapshots", "--json").json["statistics"]["held"] == whole
    write("die Wörter?\n", "held.txt")
    said = run("test", "net.toml", "snapshots", code=2).err
    assert "held.txt: line 1: the character '?' is not one of the 15 characters of the vocabulary\n" in said


def test_a_resumed_text_has_the_length_it_had():
    state = state_at(chars("abcabcabc", steps=1))
    state.forward([])
    memory = state.memory()
    with pytest.raises(SnapshotError, match=r"data: the snapshot was made with 9 characters or words, but now .* 8\n"):
        state_at(chars("abcabcab", steps=1)).remember(memory)


def test_on_another_number_of_ranks_streams_begin_anew():
    state = state_at(chars("abcdefgh" * 2, steps=3, tops=["data", "label", "cont"]))
    for _ in range(6):
        state.forward([])
    assert state.epoch == 1
    other = state_at(state.layer, "train", 1, 2)
    assert other.remember(state.memory()) == ("data: the snapshot has 1 streams, now there are 2: they begin anew")
    other.forward([])
    assert other.blobs[0].tolist() == [[0, 1, 2]] and other.blobs[2].tolist() == [[0, 1, 1]]
    assert other.epoch == 1


def test_rewind_begins_the_streams_anew():
    state = state_at(ids(9, batch_size=2, steps=2), "test", fitted=state_at(ids(9, batch_size=1, steps=1)).fitted)
    found = []
    for _ in range(2):
        state.forward([])
        found.append([blob.tolist() for blob in state.blobs])
        state.rewind()
    assert found[0] == found[1] and state.epoch == 0


# Recurrent layers


def recurrent(text="abracadabra " * 9, size=4, steps=5, told=("cont",)):
    """Return a small recurrent model of text; in other phases it is fed all of it, in batches of this size."""
    given = {"tops": ["data", "label", *told], "steps": steps}
    sequences = "cont" if told else "full"
    return [
        chars(text, batch_size=4, name="train", exclude=["validation"], **given),
        chars(text, batch_size=size, name="valid", exclude=["train"], **given),
        OneHotLayer(name="onehot", bottoms="data", tops="onehot", n_class=6),
        GRULayer(name="gru", bottoms=["onehot", *told], tops="h", output_dim=5, sequences=sequences, carry=True),
        InnerProductLayer(name="ip", bottoms="h", tops="score", output_dim=6, axis=-1),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], axis=-1, ignore_label=-1),
        PerplexityLayer(name="p", bottoms=["score", "label"], axis=-1, ignore_label=-1, exclude=["train"]),
    ]


@pytest.mark.parametrize("told", [("cont",), ()])
def test_a_carried_state_sees_the_text_whatever_the_steps(told):
    """One stream in windows of a few steps is the whole text as one sequence; a second pass begins anew."""
    found = []
    for steps in (107, 1, 4, 10, 200):
        layers = [one for one in recurrent(size=1, steps=steps, told=told) if one.name != "train"]
        names = {top: {"classes": [*" abcdr"]} for top in ("data", "label")}
        with net_of(*layers, phase="validation", dtype="float64", fitted=names) as net:
            for _ in range(2):
                net.reset_statistics()
                net.forward_epoch()
                found.append(net.statistics()["p"]["perplexity"])
    np.testing.assert_allclose(found, found[0], rtol=1e-12)


@pytest.mark.parametrize("before", [1, 5, 6, 11])
def test_a_resumed_recurrent_training_is_the_same(before):
    _, parameters = trained(recurrent(), 14)
    snapshot, _ = trained(recurrent(), before)
    assert trained(recurrent(), 14 - before, snapshot)[1] == parameters


# What is wrong with a text


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"ab\nc\xe9d", r"some.txt: line 2: the byte 0xe9 at offset 4 is not UTF-8\n.*iconv"),
        ("é".encode("utf-16"), "some.txt: line 1: the byte 0xff at offset 0 is not UTF-8"),
        (b"", "the text has 0 characters, but it needs at least 2"),
        (b"a", "the text has 1 characters, but it needs at least 2"),
        (b"ab", r"batch_size=1 and steps=3 need 4 characters, but the text has only 2\n.*steps"),
    ],
)
def test_what_is_no_text(raw, message):
    with pytest.raises(DataError, match=f"data: {message}"):
        net_of(chars(raw))


def test_what_is_no_part():
    with pytest.raises(DataError, match=r"data: part=\[0.0, 0.1\] of the text's 10 characters has 1 characters"):
        net_of(chars("abcdefghij", part=[0, 0.1]))
    for part in ([0.5, 0.5], [0, 1.1], [-0.1, 1], [0.1], [1, 0], "ab"):
        with pytest.raises(ConfigError, match=r"part=.*two numbers from 0 to 1"):
            chars(part=part)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match=r"data: nowhere\.txt: no such file"):
        net_of(CharTextLayer(source="nowhere.txt", batch_size=1))
    with pytest.raises(DataError, match=r"data: .*: not a file"):
        net_of(CharTextLayer(source=str(tmp_path), batch_size=1))


@pytest.mark.parametrize(
    ("make", "fields", "message"),
    [
        (chars, {"tops": ["a", "b", "c", "d"]}, "at most three"),
        (chars, {"vocabulary": ["a", "b", "a"]}, "vocabulary has 'a' twice"),
        (chars, {"steps": 0}, "steps=0, but it must be above 0"),
        (chars, {"ignore_label": 2**63}, "ignore_label=9223372036854775808, but it must be a whole number of 64 bits"),
        (words, {"ignore_label": -(2**70)}, "ignore_label=-1180591620717411303424, but it must be a whole number"),
        (words, {"most": 5}, 'most=5 .* unknown must be "own"'),
        (words, {"most": 0, "unknown": "own"}, "most=0, but it must be above 0"),
    ],
)
def test_bad_fields(make, fields, message):
    with pytest.raises(ConfigError, match=message):
        make(**fields)
