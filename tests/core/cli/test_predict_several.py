"""`nacre predict` for a net that reads several blobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from command_line import run
from nacre import Net, Snapshot, load_snapshot
from nacre.cli import Predictor
from nacre.cli.app import nacre
from nacre.config import load
from nacre_data import HDF5Store

NET = """
[[layer]]
type = "Input"
name = "a"
tops = ["left"]
shape = [3]
batch_size = 2
[[layer]]
type = "Input"
name = "b"
tops = ["right"]
shape = [2]
batch_size = 2
[[layer]]
type = "Concat"
bottoms = ["left", "right"]
tops = ["both"]
[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["both"]
tops = ["y"]
output_dim = 4
"""


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Write a net file, a snapshot and data into the working folder; return what the net says of the data."""
    monkeypatch.chdir(tmp_path)
    Path("net.toml").write_text(NET)
    random = np.random.default_rng(0)
    left, right = random.normal(size=(7, 3)), random.normal(size=(7, 2))
    np.save("left.npy", left)
    np.save("right.npy", right)
    with h5py.File("both.h5", "w") as file:
        file["left"], file["right"] = left, right
    with load("net.toml").net("predict", backend="numpy") as net:
        Path("net.h5").write_bytes(HDF5Store().encode(snapshot_of(net)))
        return np.asarray(net.predict({"left": left, "right": right}, output="y"))


def snapshot_of(net: Net) -> Snapshot:
    arrays = {f"parameters/{name}": one.value for name, one in net.parameters.items()}
    return Snapshot(0, arrays, {"net": net.name, "layers": [], "memory": {}, "aliases": {}})


@pytest.mark.parametrize("inputs", [["left=left.npy", "right=right.npy"], ["both.h5"]])
@pytest.mark.parametrize("size", [[], ["--batch-size", 3]])
def test_each_blob_has_its_file_or_files_have_all(inputs: list[str], size: list[str], answers: np.ndarray) -> None:
    assert load_snapshot("net.h5").arrays
    run("predict", "net.toml", "net.h5", *inputs, *size, "--blob", "y", "--out", "y.npy", "--backend", "numpy")
    assert np.allclose(np.load("y.npy"), answers, atol=1e-6)
    told = run("predict", "net.toml", "net.h5", *inputs, *size, "--json", "--backend", "numpy").json
    assert [one["classes"][0]["class"] for one in told] == answers.argmax(axis=1).tolist()


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["left=left.npy"], "the net reads left, right, but there is no file for right"),
        (["left=left.npy", "right=short.npy"], "there are fewer records for 'right' than for 'left'"),
        (["left=left.npy", "right=right.npy", "--shape", "3"], "--shape is for nets of one input"),
        (["left=left.npy", "right=no.npy"], "no.npy: no such file"),
    ],
)
def test_what_is_wrong_is_told(inputs: list[str], message: str) -> None:
    np.save("short.npy", np.ones((5, 2)))
    assert message in run("predict", "net.toml", "net.h5", *inputs, code=2).err


# A record a line


def lines(*records: Any) -> list[dict[str, Any]]:
    words = ["predict", "net.toml", "net.h5", "--blob", "y", "--stdin", "--json", "--backend", "numpy"]
    done = CliRunner().invoke(nacre, words, "".join(f"{json.dumps(one)}\n" for one in records))
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(number: int) -> dict[str, Any]:
    return {blob: np.load(f"{blob}.npy")[number].tolist() for blob in ("left", "right")}


def test_a_record_has_the_numbers_of_each_blob(answers: np.ndarray) -> None:
    with h5py.File("one.h5", "w") as file:
        file["left"], file["right"] = np.load("left.npy")[5:6], np.load("right.npy")[5:6]
    told = lines(record(0), {**record(1), "key": "second"}, {"file": "one.h5"})
    assert [one["key"] for one in told] == ["", "second", "one.h5"]
    for one, row in zip(told, answers[[0, 1, 5]], strict=True):
        (first, *_) = one["classes"]
        assert first["class"] == row.argmax() and first["value"] == pytest.approx(row.max(), rel=1e-5)


@pytest.mark.usefixtures("answers")
def test_a_wrong_record_is_told_and_the_next_one_is_answered() -> None:
    whole = record(0)
    wrong: dict[str, Any] = {
        "the net reads left, right, but the record does not say whose numbers it has": whole["left"],
        "the record has no 'right', which the net reads too": {"left": whole["left"]},
        "the net reads no 'rihgt' (did you mean 'right'?)": {**whole, "rihgt": [1, 2]},
        "a record has either 'left' and 'right' or 'file'": {**whole, "file": "both.h5"},
        "'right' of the record has the shape (3,), but the net needs (2,)": {**whole, "right": [1, 2, 3]},
        "both.h5: it has several records, but one is asked for": {"file": "both.h5"},
        "not clear what in it is 'right', an Input of shape (2,): it has 'left'": {"file": "left.h5"},
    }
    with h5py.File("left.h5", "w") as file:
        file["left"] = np.load("left.npy")[:1]
    *told, last = lines(*wrong.values(), whole)
    for message, one in zip(wrong, told, strict=True):
        assert message in one["error"] and one["remedy"]
    assert len(last["classes"]) == 4


def test_a_program_asks_several_records_at_once(answers: np.ndarray) -> None:
    with Predictor(load("net.toml"), load_snapshot("net.h5"), "y", batch_size=4, backend="numpy") as predictor:
        told = predictor.answer([predictor.read(record(number)) for number in range(3)])
        assert [one["classes"][0]["class"] for one in told] == answers[:3].argmax(axis=1).tolist()
        short = ("short", {"left": np.ones(3), "right": np.ones(1)})
        good, bad = predictor.answer([predictor.read(record(0)), short])
        assert "classes" in good and bad["error"] and bad["key"] == "short"


@pytest.mark.usefixtures("answers")
def test_without_data_all_shapes_must_fit_the_parameters() -> None:
    text = NET.replace('type = "Input"', 'type = "HDF5Data"\nsource = "gone.h5"')
    Path("net.toml").write_text("\n".join(line for line in text.splitlines() if not line.startswith("shape")))
    told = lines({"left": [1, 2], "right": [3, 4]}, record(0), {"left": [1, 2], "right": [3, 4]})
    assert "records of shape (2,) and (2,) do not fit the net: 'ip/weight' was trained with" in told[0]["error"]
    assert len(told[1]["classes"]) == 4
    assert "'left' of the record has the shape (2,), but the net needs (3,)" in told[2]["error"]
