"""`nacre predict --stdin --json`: a record a line, an answer a line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from command_line import SCRIPT, run
from nacre.cli.app import nacre as command


def records() -> np.ndarray:
    with h5py.File("test.h5") as file:
        return np.asarray(file["data"])


def answers(snapshots: Path, lines: list[Any], *options: str) -> list[dict[str, Any]]:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    done = CliRunner().invoke(command, ["predict", "small.toml", str(snapshots), "--stdin", "--json", *options], text)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_lines_are_answered_as_files_are(trained: Path) -> None:
    data = records()
    wanted = run("predict", "small.toml", trained, "test.h5", "--json").json
    given = [data[0].tolist(), {"data": data[1].reshape(-1).tolist(), "key": "second"}]
    found = answers(trained, given)
    for number, key in enumerate(("", "second")):
        assert (found[number]["record"], found[number]["key"]) == (number, key)
        for one, other in zip(found[number]["classes"], wanted[number]["classes"], strict=True):
            assert one["class"] == other["class"] and one["percent"] == pytest.approx(other["percent"], rel=1e-4)


def test_a_wrong_line_is_answered_and_the_next_one_too(trained: Path) -> None:
    np.save("one.npy", records()[:1])
    np.save("two.npy", records()[:2])
    good = records()[0].tolist()
    found = answers(
        trained,
        [[1, 2], "{", "", {"image": good}, {"data": good, "file": "one.npy"}, {"file": "no.npy"}, {"file": "two.npy"},
         [["a"]], {"file": 3}, {"file": "one.npy"}, good],
    )  # fmt: skip
    errors = [one.get("error", "") for one in found]
    assert [one["record"] for one in found] == list(range(10))
    for error, part in zip(
        errors,
        [
            "the record has the shape (2,), but the net needs (2, 4)",
            "the line is not JSON: ",
            "the net reads no 'image'",
            "a record has either 'data' or 'file'",
            "no.npy: no such file",
            "two.npy: it has several records",
            "must hold numbers",
            "'file' must be the path of a file",
        ],
        strict=False,
    ):
        assert part in error
    assert found[8]["key"] == "one.npy" and found[8]["classes"] == found[9]["classes"]
    assert all("remedy" in one for one in found[:8])


def test_without_data_the_first_good_record_makes_the_net(trained: Path) -> None:
    good = records()[0].tolist()
    for name in ("train.h5", "test.h5"):
        Path(name).unlink()
    found = answers(trained, [[1, 2, 3], good, [1.0]])
    assert "do not fit the net: 'ip1/weight' was trained with" in found[0]["error"]
    assert len(found[1]["classes"]) == 3 and "shape (1,)" in found[2]["error"]
    assert len(answers(trained, [good], "--shape", "2,4")[0]["classes"]) == 3


def test_names_of_classes_and_blobs_are_options(trained: Path) -> None:
    Path("names.txt").write_text("red\ngreen\nblue\n")
    good = records()[0].tolist()
    (one,) = answers(trained, [good], "--classes", "names.txt", "--top", "1")
    assert [found["name"] for found in one["classes"]] == ["red"]
    (one,) = answers(trained, [good], "--blob", "ip2")
    assert one["classes"][0]["percent"] is None
    Path("names.txt").write_text("red\n")
    (one,) = answers(trained, [good], "--classes", "names.txt")
    assert "it has 1 names of classes" in one["error"]


def test_each_answer_comes_before_the_next_line_is_read(trained: Path) -> None:
    words = [*SCRIPT, "predict", "small.toml", str(trained), "--stdin", "--json"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for number in range(2):
            process.stdin.write(json.dumps(records()[number].tolist()) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["record"] == number
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape", "latin-1"])
def test_half_a_character_in_a_key_is_answered_as_such(encoding: str, trained: Path) -> None:
    good = records()[0].tolist()
    lines = [json.dumps({"data": good, "key": key}) for key in ("\ud800", "\udce9", "\xe9\u5c64")] + [json.dumps(good)]
    done = subprocess.run(
        [*SCRIPT, "predict", "small.toml", str(trained), "--stdin", "--json"],
        input="".join(f"{line}\n" for line in lines).encode(),
        env={**os.environ, "PYTHONIOENCODING": encoding},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [one["key"] for one in found] == ["\ud800", "\udce9", "\xe9\u5c64", ""]
    assert ("\xe9\u5c64" in done.stdout.decode()) == encoding.startswith("utf-8")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--stdin"], "--stdin reads and writes lines of JSON: add --json"),
        (["test.h5", "--stdin", "--json"], "--stdin reads records from lines, so leave out test.h5"),
        (["--stdin", "--json", "--out", "x.csv"], "--stdin answers each record on a line, so leave out --out"),
        ([], "Missing argument 'INPUT...'"),
    ],
)
def test_options_that_do_not_go_together(trained: Path, options: list[str], error: str) -> None:
    assert (
        error
        in run("predict", "small.toml", trained, *options, code=2).out
        + run("predict", "small.toml", trained, *options, code=2).err
    )
