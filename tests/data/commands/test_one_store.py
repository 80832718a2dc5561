"""One store of another distribution brings its format to sources, outputs, predictions and converters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from command_line import run
from nacre.net.records import open_records

NET = """
name = "foreign"

[[layer]]
type = "Data"
name = "train"
source = "train.lines"
tops = ["data", "label"]
batch_size = 20
exclude = ["predict"]

[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["data"]
tops = ["score"]
output_dim = 3

[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
exclude = ["predict"]

[[layer]]
type = "Output"
name = "out"
bottoms = ["score"]
filename = "score.lines"
exclude = ["train", "predict"]

[solver]
type = "SGD"
max_iter = 3
lr_policy = 0.1

[[callback]]
type = "Snapshot"
every_n_iter = 3
folder = "snapshots"
"""


def lines(name: str) -> list[list[float]]:
    """Return the scores in a file of lines."""
    return [json.loads(line)["score"] for line in Path(name).read_text("utf-8").splitlines()[1:]]


def test_one_store_is_enough() -> None:
    run("data", "convert", "train.h5", "train.lines")
    Path("net.toml").write_text(NET, encoding="utf-8")
    run("train", "net.toml")
    run("test", "net.toml", "snapshots")
    run("predict", "net.toml", "snapshots", "train.lines", "--out", "predicted.lines")
    assert len(lines("score.lines")) == 60
    np.testing.assert_allclose(lines("score.lines"), lines("predicted.lines"), rtol=1e-5)
    run("data", "convert", "train.lines", "back.h5")
    with open_records([Path("train.h5")]) as first, open_records([Path("back.h5")]) as second:
        for one, other in zip(first.rows(), second.rows(), strict=True):
            assert np.array_equal(one["data"], other["data"]) and one["label"] == other["label"]
