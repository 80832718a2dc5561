"""Saved nets where a net file and a snapshot are named, and `best` and `latest` where a snapshot is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre
from command_line import run
from nacre import Field, Input, L, Net, SnapshotError, Solver, load_parameters
from nacre.config import load
from nacre_data import CharTextLayer, MemoryDataLayer, Pictures
from nacre_layers import AccuracyLayer, EmbeddingLayer, InnerProductLayer, PerplexityLayer, SoftmaxLossLayer
from nacre_solvers import SGD, Snapshot


@pytest.fixture
def saved(trained: Path) -> Path:
    """Return the file of the trained net, saved."""
    file = load("small.toml")
    with file.net("train", backend="numpy") as net:
        load_parameters(net, file.snapshot())
        net.save("net.nacre")
    np.save("some.npy", np.random.default_rng(0).normal(size=(5, 2, 4)))
    return Path("net.nacre")


def test_predict_takes_a_saved_net_alone(saved: Path) -> None:
    own = run("predict", saved, "some.npy", "some.npy", "--backend", "numpy").out
    assert own == run("predict", "small.toml", "snapshots", "some.npy", "some.npy", "--backend", "numpy").out
    assert own == run("predict", "small.toml", saved, "some.npy", "some.npy", "--backend", "numpy").out
    Path("train.h5").unlink()
    Path("test.h5").unlink()
    Path("small.toml").unlink()
    assert own == run("predict", "--backend", "numpy", saved, "some.npy", "some.npy").out
    assert own == run("predict", saved, "some.npy", "some.npy").out  # on the backend that it was saved on


PICTURES = """
[[layer]]
type = "ImageData"
source = "train"
batch_size = 4
short_side = 7
crop_size = [6, 5]
mirror = true
mean = [123, 117, 104]
[[layer]]
type = "InnerProduct"
bottoms = ["data"]
tops = ["score"]
output_dim = "label"
[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
exclude = ["predict"]
[[layer]]
type = "Accuracy"
name = "accuracy"
bottoms = ["score", "label"]
exclude = ["train", "predict"]
[[layer]]
type = "Softmax"
bottoms = ["score"]
tops = ["prob"]
exclude = ["train"]
[solver]
type = "SGD"
max_iter = 3
lr_policy = 0.001
[[callback]]
type = "Snapshot"
every_n_iter = 3
"""


LAST = [
    InnerProductLayer(bottoms="data", tops="score", output_dim=2),
    SoftmaxLossLayer(name="loss", bottoms=["score", "label"], exclude="predict"),
]


def write_pictures(folder: str, count: int) -> None:
    fields = {"data": Field((3, 9, 8), "uint8"), "label": Field((), "int64", ("cat", "dog"))}
    pictures = np.random.default_rng(0).integers(0, 256, (count, 3, 9, 8), np.uint8)
    with Pictures().create(Path(folder), fields) as writer:
        writer.append({"data": pictures, "label": np.arange(count) % 2})


def test_pictures_are_read_as_the_source_read_them_and_classes_have_their_names() -> None:
    pytest.importorskip("PIL")
    write_pictures("train", 8)
    Path("pictures.toml").write_text(PICTURES, encoding="utf-8")
    run("train", "pictures.toml")
    file = load("pictures.toml")
    with file.net("train", backend="numpy") as net:
        load_parameters(net, file.snapshot())
        net.save("pictures.nacre")
    some = sorted(Path("train").rglob("*.png"))
    Path("train").rename("moved")
    some = [Path("moved", *path.parts[1:]) for path in some]
    own = run("predict", "pictures.nacre", *some, "--json").json
    assert own == run("predict", "pictures.toml", "latest", *some, "--json", "--shape", "3,6,5").json
    assert {one["name"] for record in own for one in record["classes"]} == {"cat", "dog"}
    whole = run("predict", "pictures.nacre", "moved", "--json").json
    assert [one["classes"] for one in whole] == [one["classes"] for one in own]


def test_one_probability_is_that_of_the_second_of_two_classes() -> None:
    random = np.random.default_rng(0)
    table = random.normal(size=(40, 3))
    x, label = Input(3, name="x"), Input(1, name="label")
    score = L.InnerProduct(output_dim=1, name="score")(x)
    net = Net("two", [L.SigmoidCrossEntropyLoss()(score, label), L.Sigmoid(name="prob")(score)], backend="numpy")
    net.fit(table, np.where(table[:, 0] > 0, "rain", "sun"), epochs=5, lr=0.1, quiet=True)
    net.save("two.nacre")
    np.save("table.npy", table[:1])
    sun = 100 * net.predict(table[:1], "prob").item()
    both = sorted([(sun, "sun"), (100 - sun, "rain")], reverse=True)
    expected = "  ".join(f"{name} {percent:.1f} %" for percent, name in both)
    assert run("predict", "two.nacre", "table.npy").out.strip() == f"0: {expected}"
    line = json.loads(run("predict", "two.nacre", "table.npy", "--json").out)
    assert (
        [one["name"] for one in line[0]["classes"]]
        == [name for _, name in both]
        == [*net.predict(table[:1], "prob", classes=True), both[1][1]]
    )
    assert "rain" not in run("predict", "two.nacre", "table.npy", "--blob", "score").out, "a score is no probability"


def test_several_probabilities_are_each_a_percentage() -> None:
    table = np.random.default_rng(0).normal(size=(40, 3))
    x, label = Input(3, name="x"), Input(3, name="label")
    score = L.InnerProduct(output_dim=3, name="score")(x)
    net = Net("labels", [L.SigmoidCrossEntropyLoss()(score, label), L.Sigmoid(name="prob")(score)], backend="numpy")
    net.fit(table, table > 0, epochs=5, lr=0.1, quiet=True)
    net.save("labels.nacre")
    np.save("table.npy", table[:1])
    Path("labels.txt").write_text("cat\ndog\nhen\n")
    chances = sorted(zip(100 * net.predict(table[:1], "prob")[0], ["cat", "dog", "hen"], strict=True), reverse=True)
    expected = "  ".join(f"{name} {percent:.1f} %" for percent, name in chances)
    assert run("predict", "labels.nacre", "table.npy", "--classes", "labels.txt").out.strip() == f"0: {expected}"
    assert "%" not in run("predict", "labels.nacre", "table.npy", "--blob", "score").out, "scores are no probabilities"


def test_a_saved_net_is_tested_with_data_that_are_given(saved: Path) -> None:
    own = run("test", "small.toml", "latest", "--json").json
    Path("train.h5").unlink()
    Path("test.h5").rename("moved.h5")
    found = run("test", saved, "--data", "moved.h5", "--json").json
    assert {**found, "mistakes": 0} == {**own, "mistakes": 0}
    assert own == run("test", "small.toml", "latest", "--data", "moved.h5", "--json").json
    twice = run("test", saved, "--data", "moved.h5", "--data", "moved.h5", "--json").json["statistics"]
    assert twice["accuracy"]["records"] == 2 * own["statistics"]["accuracy"]["records"]
    assert "none.h5: no such file" in run("test", saved, "--data", "none.h5", code=2).err


def test_pictures_are_tested_in_their_order_with_the_classes_of_training() -> None:
    pytest.importorskip("PIL")
    write_pictures("train", 8)
    write_pictures("other", 6)
    more = 'shuffle = true\nsampling = "balanced"\nsplit = { part = "a", fractions = { a = 0.5, b = 0.5 } }\n'
    text = PICTURES.replace("mirror = true\n", "mirror = true\n" + more).replace("batch_size = 4", "batch_size = 2")
    Path("pictures.toml").write_text(text, encoding="utf-8")
    with load("pictures.toml").net("train", backend="numpy") as net:
        net.save("pictures.nacre")
    Path("train").rename("moved")
    tested = run("test", "pictures.nacre", "--data", "other", "--json").json
    assert tested["statistics"]["accuracy"]["records"] == 6
    with load("pictures.nacre").net("test", backend="numpy") as net:
        assert net.classes["label"] == ("cat", "dog")


def test_a_net_of_texts_is_tested_with_another_text() -> None:
    Path("train.txt").write_text("abcd" * 30)
    Path("other.txt").write_text("dcba" * 25)
    source = CharTextLayer(name="t", source="train.txt", tops=["data", "label"], batch_size=2, steps=5, part=(0.0, 0.5))
    embedded = EmbeddingLayer(name="e", bottoms="data", tops="e", input_dim=4, output_dim=4)
    loss = SoftmaxLossLayer(name="loss", bottoms=["e", "label"], axis=2, ignore_label=-1, exclude="predict")
    perplexity = PerplexityLayer(
        name="p", bottoms=["e", "label"], axis=2, ignore_label=-1, exclude=["train", "predict"]
    )
    with Net("text", [source, embedded, loss, perplexity], backend="numpy") as net:
        net.save("text.nacre")
    Path("train.txt").unlink()
    found = run("test", "text.nacre", "--data", "other.txt", "--json").json
    assert found["statistics"]["p"]["perplexity"] > 1
    assert found["statistics"]["p"]["records"] == 99


NAMES = np.array(["rose", "daisy", "tulip"])


@pytest.fixture
def fitted() -> dict[str, float]:
    """Save a net that was fitted to arrays, and its data in files; return what it has reached."""
    x, label = Input(4), Input(dtype="int64")
    score = L.InnerProduct(output_dim=3)(x)
    measured = [L.SoftmaxLoss()(score, label), L.Accuracy(name="accuracy")(score, label)]
    net = Net("flowers", [*measured, L.Softmax(name="prob")(score)], backend="numpy")
    sizes = np.random.default_rng(0).normal(size=(300, 4)).round(3)
    kinds = NAMES[sizes[:, :3].argmax(1)]
    net.fit(sizes, kinds, epochs=5, lr=0.05, quiet=True)
    net.save("flowers.nacre")
    rows = [",".join([*map(str, row), kind]) for row, kind in zip(sizes.tolist(), kinds, strict=True)]
    Path("flowers.csv").write_text("\n".join(["a,b,c,d,kind", *rows]))
    np.savez("flowers.npz", x=sizes, y=np.searchsorted(np.sort(NAMES), kinds))
    np.savez("named.npz", input2=np.searchsorted(np.sort(NAMES), kinds), input1=sizes, more=sizes)
    np.savez("two.npz", left=sizes, right=sizes, label=np.zeros(300, int))
    np.savez("alone.npz", x=sizes)
    return net.evaluate(sizes, kinds)


@pytest.mark.parametrize("file", ["flowers.csv", "flowers.npz", "named.npz"])
def test_a_net_fitted_to_arrays_is_tested_and_predicts_with_files(file: str, fitted: dict[str, float]) -> None:
    told = run("test", "flowers.nacre", "--data", file, "--json").json
    assert told["statistics"]["accuracy"]["accuracy"] == fitted["accuracy/accuracy"]
    assert told["loss"] == pytest.approx(fitted["loss"], rel=1e-5)
    assert told["classes"] == {"accuracy": sorted(NAMES)}
    twice = run("test", "flowers.nacre", "--data", file, "--data", file, "--json").json
    assert twice["statistics"]["accuracy"]["records"] == 600
    lines = run("predict", "flowers.nacre", file, "--top", 1).out.splitlines()
    assert len(lines) == 300 and {line.split()[1] for line in lines} == {*NAMES}


@pytest.mark.usefixtures("fitted")
def test_files_in_which_a_net_does_not_find_what_it_reads() -> None:
    told = run("test", "flowers.nacre", "--data", "two.npz", code=2).err
    assert "not clear what in it is 'input1', an Input of shape (4,)" in told and "columns input1.0, input1.1" in told
    told = run("test", "flowers.nacre", "--data", "alone.npz", code=2).err
    assert "not clear what in it is 'input2', an Input of shape ()" in told and "a column input2 of a table" in told
    Path("wide.csv").write_text("a,b,c,d,price\n1,2,3,4,5\n")
    told = run("predict", "flowers.nacre", "wide.csv", code=2).err
    assert (
        "have the shape (5,), but the net needs (4,)" in told and "columns input1.0, input1.1, ... are chosen" in told
    )
    Path("wide.csv").write_text("input1.0,input1.1,input1.2,input1.3,price\n1,2,3,4,5\n")
    assert run("predict", "flowers.nacre", "wide.csv").out.startswith("0: ")
    assert "none.csv: no such file" in run("test", "flowers.nacre", "--data", "none.csv", code=2).err
    Path("strange.csv").write_text("a,b,c,d,kind\n1,2,3,4,lily\n")
    assert "'lily', which is not one of the 3" in run("test", "flowers.nacre", "--data", "strange.csv", code=2).err


def test_a_net_of_arrays_in_memory_is_tested_with_a_file() -> None:
    data = np.random.default_rng(0).normal(size=(40, 2)) * 10 + 100
    fields: Any = {"transformers": [["data", "Standardize"]], "classes": {"label": ["cat", "dog"]}}
    source = MemoryDataLayer(name="m", data=[data, np.arange(40) % 2], batch_size=20, **fields)
    with Net("memory", [source, *LAST, AccuracyLayer(bottoms=["score", "label"])], backend="numpy") as net:
        net.feed()
        net.save("memory.nacre")
        with net.derive("test") as tested:
            tested.forward_epoch()
            wanted = tested.statistics()
    np.savez("m.npz", pixels=data, kind=np.arange(40) % 2)
    assert run("test", "memory.nacre", "--data", "m.npz", "--json").json["statistics"] == wanted


def test_commands_that_look_at_a_net_take_a_saved_one(saved: Path) -> None:
    for phase in ("train", "predict"):
        assert "ip2" in run("summary", saved, "--phase", phase).out
        assert "ip2" in run("explain", saved, "--phase", phase).out
        assert "<svg" in run("graph", saved, "--phase", phase).out
    assert "Input" in run("summary", saved).out


def test_what_a_saved_net_is_not(saved: Path) -> None:
    alone = run("test", saved, code=2).err
    assert "net.nacre: a saved net has no data to be tested with\n  give it: --data FILE" in alone
    assert run("test", "small.toml", saved).out.startswith("test, after ")
    assert "snapshots stands behind a saved net" in run("test", saved, "snapshots", code=2).err
    told = run("predict", saved, code=2).err
    assert "Missing argument 'INPUT...'.\n" in told and f"write nacre predict {saved} FILE\n" in told
    told = run("test", "small.toml", code=2).err
    assert "Missing argument 'SNAPSHOT'.\n  write nacre test small.toml latest, or with the path of" in told
    told = run("predict", "small.toml", "test.h5", code=2).err
    assert "Missing argument 'INPUT...'.\n  write nacre predict small.toml latest FILE, or with the path of" in told
    assert "nacre train NET.toml --weights net.nacre" in run("train", saved, code=2).err
    damaged = bytearray(saved.read_bytes())
    damaged[700] ^= 1
    saved.write_bytes(damaged)
    assert "net.nacre: damaged: its bytes do not match its digest" in run("predict", saved, "some.npy", code=2).err


def test_best_and_latest_are_of_the_net_files_folder(trained: Path) -> None:
    tested = run("test", "small.toml", "latest").out
    assert tested == run("test", "small.toml", "snapshots").out
    newest = load("small.toml").snapshot()
    assert newest.iteration == load("small.toml").snapshot("latest").iteration == 60
    wrong = run("test", "small.toml", "best", code=2).err
    assert "snapshots: no snapshot in this folder is marked as the best\n" in wrong
    again = run("train", "small.toml", "--set", "solver.max_iter=80", "--resume", "latest").out
    assert "continuing from iteration 60" in again
    np.save("some.npy", np.zeros((1, 2, 4)))
    assert run("predict", "small.toml", "latest", "some.npy").out


def test_the_best_is_found(trained: Path) -> None:
    judged = 'callback.ValidationPerformance.best="loss"'
    best = ["--set", "callback.ValidationPerformance.every_n_iter=20", "--set", judged]
    run("train", "small.toml", *best)
    found = load("small.toml").snapshot("best")
    assert run("test", "small.toml", "best").out == run("test", "small.toml", found.path).out
    assert "loaded from snapshots/snapshot" in run("train", "small.toml", "--weights", "best", *best).out
    wanted = nacre.load_snapshot(found.path)
    assert found.iteration == wanted.iteration


def test_a_file_of_that_name_is_meant_itself(trained: Path) -> None:
    Path("snapshots").rename("latest")
    assert run("test", "small.toml", "latest").out == run("test", "small.toml", "./latest").out
    assert "snapshots: no such file" in run("test", "small.toml", "snapshots", code=2).err


def test_without_a_callback_there_is_no_folder(trained: Path) -> None:
    file = load("small.toml")
    with file.net(backend="numpy") as net:
        with pytest.raises(SnapshotError, match="'best' is a snapshot in the folder of a callback, but there is no"):
            Solver(SGD(), max_iter=2).solve(net, resume="best")
        solver = Solver(SGD(), max_iter=61, callbacks=[Snapshot(folder="snapshots")], momentum_policy=0.9)
        assert solver.solve(net, resume="latest", reports=[lambda *_: None]).resumed_from == 60
