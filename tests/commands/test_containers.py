"""Every command on a net with containers: it uses the full names of the layers in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import NET, run
from nacre.config import dumps, load

INNER = """
[[layer]]
type = "Sequential"
name = "body"
bottoms = ["data"]
tops = ["ip2"]

[[layer.layer]]
type = "Dropout"
name = "drop0"
ratio = 0.1

[[layer.layer]]
type = "Repeat"
name = "twice"
times = 2
layer = [{ type = "InnerProduct", name = "ip", output_dim = 12, neuron = "Tanh" }, { type = "BatchNorm" }]

[[layer.layer]]
type = "Dropout"
ratio = 0.25

[[layer.layer]]
type = "InnerProduct"
name = "ip2"
output_dim = 3

[[layer]]
type = "Sequential"
name = "head"
bottoms = ["ip2", "label"]
tops = []
exclude = ["predict"]

[[layer.layer]]
type = "SoftmaxLoss"
name = "loss"

[[layer.layer]]
type = "Accuracy"
name = "accuracy"
bottoms = ["ip2", "label"]
exclude = ["train"]

"""
FIRST, LAST = NET.index('[[layer]]\ntype = "InnerProduct"'), NET.index('[[layer]]\ntype = "Softmax"\n')
BOXED = NET[:FIRST] + INNER.lstrip() + NET[LAST:]
LAYERS = [
    "body/drop0",
    "body/twice/1/ip",
    "body/twice/1/BatchNorm1",
    "body/twice/2/ip",
    "body/twice/2/BatchNorm1",
    "body/Dropout2",
    "body/ip2",
    "head/loss",
]


@pytest.fixture
def boxed(folder: Path) -> Path:
    path = folder / "boxed.toml"
    path.write_text(BOXED, encoding="utf-8")
    return path


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


def test_summary_time_and_explain(boxed: Path) -> None:
    assert names(run("summary", boxed, "--json").json["layers"]) == ["train", *LAYERS]
    assert names(run("summary", boxed, "--depth", 1, "--json").json["layers"]) == ["train", "body", "head"]
    lines = run("summary", boxed, "--depth", 2).out.splitlines()
    assert ["body/twice", "Repeat", "twice", "10x12"] in [line.split()[:4] for line in lines]
    timed = run("time", boxed, "--runs", 1, "--json").json
    assert names(timed["layers"]) == ["train", *LAYERS]
    assert all(entry["forward_ms"] > 0 for entry in timed["layers"])
    assert all(entry["backward_ms"] > 0 for entry in timed["layers"][2:])
    explained = run("explain", boxed, "--backend", "numpy", "--json").json
    assert {"body/twice/2/ip", "body/twice/2/ip/Tanh"} <= set(names(explained["layers"]))


def test_gradcheck(boxed: Path) -> None:
    told = run("gradcheck", boxed, "--entries", 3, "--json").json
    assert told["right"]
    assert {"body/twice/1/ip/weight", "body/ip2/bias"} <= told["parameters"].keys()


def test_overrides_name_layers_by_their_containers(boxed: Path) -> None:
    sets = ["--set", "layer.body/twice/ip.output_dim=5", "--set", "layer.body/twice.times=1"]
    told = run("summary", boxed, "--json", *sets).json["layers"]
    assert [entry["shapes"] for entry in told if entry["name"] == "body/twice/1/ip"] == [[[10, 5]]]
    assert "body/twice/2/ip" not in names(told)
    unnamed = ["--set", "layer.body/Dropout2.ratio=0", "--set", "layer.body/twice/BatchNorm1.epsilon=0.5"]
    assert run("explain", boxed, *unnamed, "--json").json
    wrong = run("summary", boxed, "--set", "layer.body/Dropout2.ratio=2", code=2).err
    assert "body/Dropout2: ratio=2" in wrong
    wrong = run("summary", boxed, "--set", "layer.body/twice/iq.output_dim=5", code=2).err
    assert "there is no layer 'body/twice/iq' (did you mean 'body/twice/ip'?)" in wrong
    wrong = run("summary", boxed, "--set", "layer.body/twice/ip.output_dim=0", code=2).err
    assert "body/twice/ip: output_dim=0, but it must be above 0" in wrong


def test_overrides_name_the_layers_of_a_projection(boxed: Path) -> None:
    block = '{ type = "InnerProduct", output_dim = 12 }, "ReLU", { type = "Activation", neuron = "Tanh" }'
    short_cut = '{ type = "InnerProduct", output_dim = 12 }, { type = "InnerProduct", name = "last", output_dim = 12 }'
    residual = f'type = "Residual"\nlayer = [{block}]\nprojection = [{short_cut}]\n'
    boxed.write_text(BOXED.replace('type = "Dropout"\nratio = 0.25\n', residual), encoding="utf-8")

    def shapes(*sets: str) -> dict[str, Any]:
        told = run("summary", boxed, "--json", *[word for one in sets for word in ("--set", one)]).json["layers"]
        return {entry["name"]: entry["shapes"] for entry in told}

    changed = shapes("layer.body/Residual1/projection/InnerProduct1.output_dim=7")
    assert changed["body/Residual1/InnerProduct1"] == [[10, 12]]
    assert changed["body/Residual1/projection/InnerProduct1"] == [[10, 7]]
    for name in ("projection/last", "last"):  # a name of its own is found without the field's, too
        assert shapes(f"layer.body/Residual1/{name}.output_dim=12") == shapes()
    second = "layer.body/Residual1/Activation2.neuron=None"  # a neuron by its name alone counts, as it does in the net
    wrong = run("summary", boxed, "--set", second, code=2).err
    assert "Residual1/Activation2: neuron: no neuron 'None'" in wrong


def test_training_statistics_and_prediction(boxed: Path, folder: Path) -> None:
    stop = 'type = "EarlyStopping"\nstatistic = "head/accuracy/accuracy"\nhigher_better = true\n'
    boxed.write_text(f"{BOXED}\n[[callback]]\n{stop}", encoding="utf-8")
    run("train", boxed)
    tested = run("test", boxed, "snapshots", "--json").json
    assert tested["statistics"]["head/accuracy"]["accuracy"] > 0.3
    wrong = boxed.with_name("wrong.toml")
    wrong.write_text(boxed.read_text(encoding="utf-8").replace("head/accuracy/", "head/acuracy/"), encoding="utf-8")
    assert "no layer 'head/acuracy' has statistics" in run("train", wrong, code=2).err
    loaded = load(boxed).net("test")
    assert loaded.load(folder / "snapshots", strict=False).loaded
    assert loaded.predict(np.zeros((3, 2, 4))).shape == (3, 3)


def test_a_resumed_training_is_that_which_was_not_interrupted(boxed: Path, folder: Path) -> None:
    def values(folder: str) -> dict[str, np.ndarray]:
        net = load(boxed).net("train", backend="numpy")
        net.load(folder)
        return {name: handle.value for name, handle in net.parameters.items()}

    parts = ["--set", "callback.Snapshot.folder=parts"]
    run("train", boxed, "--backend", "numpy", "--set", "callback.Snapshot.folder=whole")
    run("train", boxed, "--backend", "numpy", *parts, "--set", "solver.max_iter=20")
    told = run("train", boxed, "--backend", "numpy", *parts, "--resume", "auto")
    assert "warning" not in told.err
    whole = values("whole")
    assert all(np.array_equal(value, whole[name]) for name, value in values("parts").items())


def test_a_change_inside_is_told_on_resuming(boxed: Path) -> None:
    run("train", boxed, "--set", "solver.max_iter=20")
    told = run("train", boxed, "--resume", "auto", "--set", "layer.body/drop0.ratio=0.2")
    assert "trained with layer=" in told.err + told.out


def test_what_is_written_is_read_back(boxed: Path, folder: Path) -> None:
    file = load(boxed)
    again = folder / "again.toml"
    again.write_text(dumps(file), encoding="utf-8")
    assert dumps(load(again)) == dumps(file)
    assert list(load(again).net(allocate=False).node_ops) == list(file.net(allocate=False).node_ops)
    assert '    { type = "Dropout", name = "drop0", ratio = 0.1 },' in dumps(file)
