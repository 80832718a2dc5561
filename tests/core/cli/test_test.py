"""`nacre test`: statistics of single classes as tables, the picture of the confusion matrix, the worst mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from command_line import run
from nacre.cli.by_class import ByClass

MEASURES = """
[[layer]]
type = "ConfusionMatrix"
name = "confusion"
bottoms = ["ip2", "label"]
exclude = ["train", "predict"]

[[layer]]
type = "PrecisionRecall"
name = "found"
bottoms = ["ip2", "label"]
exclude = ["train", "predict"]
per_class = true

[[layer]]
type = "Accuracy"
name = "each"
bottoms = ["ip2", "label"]
exclude = ["train", "predict"]
per_class = true

[solver]"""


@pytest.fixture
def measured(folder: Path) -> Path:
    """Train the small net, with names of classes and layers that measure each, on labels that are partly wrong."""
    text = Path("small.toml").read_text().replace("[solver]", MEASURES, 1)
    Path("small.toml").write_text(text)
    with h5py.File("train.h5", "r+") as file:
        file["label"].attrs["classes"] = ["red", "green", "dark blue"]
    with h5py.File("test.h5", "r+") as file:
        label = np.asarray(file["label"])
        label[4], label[7] = 2, 0  # both were 1
        del file["label"]
        file["label"] = label
        file["label"].attrs["classes"] = ["red", "green", "dark blue"]
    run("train", "small.toml", "--json")
    return Path("snapshots")


def test_classes_are_shown_in_tables(measured: Path) -> None:
    out = run("test", "small.toml", measured).out
    first, *tables = out.split("\n\n")
    assert "found: precision 92." in first and "precision_0" not in first and "_as_" not in first
    named = {table.splitlines()[0]: table.splitlines()[1:] for table in tables}
    matrix = named["confusion: the row's class as the column's"]
    assert [line.split() for line in matrix] == [
        ["red", "green", "dark", "blue"],
        ["---------", "---", "-----", "---------"],
        ["red", "9", "1", "."],
        ["green", ".", "7", "."],
        ["dark", "blue", ".", "1", "9"],
    ]
    rows = [line.split() for line in named["found, class by class:"]]
    assert rows[0] == ["precision", "recall", "f1"]
    assert rows[2] == ["red", "100.00", "%", "90.00", "%", "94.74", "%"]
    assert named["each, class by class:"][0].split() == ["each"]
    assert max(map(len, out.splitlines())) <= 80


def test_the_worst_mistakes_are_named(measured: Path) -> None:
    lines = run("test", "small.toml", measured).out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("worst mistakes"))
    told = {line.split("  ")[0]: line.split() for line in lines[start + 2 :]}
    assert set(told) == {"record 4", "record 7"}
    assert told["record 7"][2:4] == ["red", "green"] and told["record 7"][5] == "%"
    found = run("test", "small.toml", measured, "--json").json
    assert found["classes"]["confusion"] == ["red", "green", "dark blue"]
    worst = found["mistakes"][0]
    assert worst["record"] in (4, 7) and worst["prediction_name"] == "green" and worst["loss"] > 0.69
    losses = [one["loss"] for one in found["mistakes"]]
    assert losses == sorted(losses, reverse=True)
    assert len(run("test", "small.toml", measured, "--json", "--worst", 1).json["mistakes"]) == 1
    assert "worst mistakes" not in run("test", "small.toml", measured, "--worst", 0).out


def test_mistakes_of_a_part_have_the_keys_of_its_files(measured: Path) -> None:
    found: list[dict[str, Any]] = []
    for part in "ab":
        split = f'layer.test.split={{part = "{part}", fractions = {{a = 0.5, b = 0.5}}}}'
        found += run("test", "small.toml", measured, "--set", split, "--json").json["mistakes"]
    assert sorted(one["key"] for one in found) == ["record 4", "record 7"]
    assert any(one["record"] != int(one["key"].split()[1]) for one in found)
    ahead = run("test", "small.toml", measured, "--set", "layer.test.ahead=2", "--json").json["mistakes"]
    assert {one["key"] for one in ahead} == {"record 4", "record 7"}


def test_reports_of_a_training_have_no_single_classes(measured: Path) -> None:
    lines = run("train", "small.toml", "--log", "log.jsonl").out.splitlines()
    (line,) = [line for line in lines if ", iteration 30: validation" in line]
    assert "confusion: accuracy" in line and "_as_" not in line and "recall_1" not in line
    assert "2_as_1" in Path("log.jsonl").read_text()


def test_the_matrix_as_a_picture(measured: Path) -> None:
    out = run("test", "small.toml", measured, "--plot", "confusion.svg").out
    assert out.endswith("\nwrote confusion.svg\n")
    drawn = Path("confusion.svg").read_text(encoding="utf-8")
    assert "small, test: confusion" in drawn and "<title>dark blue as green: 1</title>" in drawn
    run("test", "small.toml", measured, "--plot", "confusion.png", "--json")
    assert Path("confusion.png").read_bytes().startswith(b"\x89PNG")
    assert "draws nets, but no matrices" in run("test", "small.toml", measured, "--plot", "a.dot", code=2).err
    assert "the ending of a drawing must be" in run("test", "small.toml", measured, "--plot", "a.pdf", code=2).err


def test_without_pairs_there_is_no_picture(trained: Path) -> None:
    err = run("test", "small.toml", trained, "--plot", "confusion.svg", code=2).err
    assert "no layer counts pairs of classes" in err and 'type = "ConfusionMatrix"' in err
    assert not Path("confusion.svg").exists()


def shown(count: int, names: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    values = {(row, column): float(row == column) * 50 for row in range(count) for column in range(count)}
    values |= {(row, (row + 1) % count): row % 7 + 1 for row in range(count)}
    ByClass("confusion", names, pairs={"{class}_as_{class}": values}).show()
    return capsys.readouterr().out.splitlines()


def test_a_matrix_of_many_classes_fits_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"a long name {number}" for number in range(100)]
    numbered = shown(12, names, capsys)
    assert numbered[2].split() == [str(number) for number in range(12)]
    assert numbered[4].startswith("0 a long name 0    50   1   .")
    many = shown(100, names, capsys)
    assert many[1] == (
        "confusion: the 10 most frequent of 100 kinds of mistakes; --plot FILE.svg draws the whole matrix"
    )
    assert many[2].split() == ["class", "as", "times", "of", "the", "class"]
    assert many[4].split() == ["a", "long", "name", "6", "a", "long", "name", "7", "7", "12.28", "%"]
    assert len(many) == 14
    assert all(len(line) <= 100 for line in numbered + many)


def test_regressions_have_no_mistakes_of_classes(folder: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    for name in ("a.h5", "b.h5"):
        with h5py.File(name, "w") as file:
            file["data"], file["y"] = x, x @ np.array([[1.0], [2.0]], np.float32)
    source = 'type = "HDF5Data"\ntops = ["data", "y"]\nbatch_size = 5\n'
    Path("line.toml").write_text(
        f'[[layer]]\nname = "a"\nsource = "a.h5"\nexclude = ["test", "predict"]\n{source}'
        f'[[layer]]\nname = "b"\nsource = "b.h5"\nexclude = ["train", "predict"]\n{source}'
        '[[layer]]\ntype = "InnerProduct"\nbottoms = ["data"]\ntops = ["out"]\noutput_dim = 1\n'
        '[[layer]]\ntype = "SquareLoss"\nbottoms = ["out", "y"]\nexclude = ["predict"]\n'
        '[solver]\ntype = "SGD"\nmax_iter = 400\nlr_policy = 0.2\n[[callback]]\ntype = "Snapshot"\n'
    )
    run("train", "line.toml", "--json")
    assert run("test", "line.toml", "latest", "--json").json["mistakes"] == []
    np.save("x.npy", x[:2])
    lines = run("predict", "line.toml", "latest", "x.npy", "--unit", "EUR").out.splitlines()
    assert [float(line.split()[1]) for line in lines] == pytest.approx((x[:2] @ [1, 2]).tolist(), abs=1e-3)
    assert all(line.endswith(" EUR") for line in lines)
    told = run("predict", "line.toml", "latest", "x.npy", "--unit", "EUR", "--json").json[0]
    assert told["unit"] == "EUR" and told["values"] == pytest.approx([float(x[0] @ [1, 2])], abs=1e-3)
    assert "classes" not in told
