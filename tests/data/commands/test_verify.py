"""`nacre data verify`."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from command_line import run


def test_good_files_are_good() -> None:
    run("data", "convert", "train.h5", "train.lines")
    assert run("data", "verify", "train.h5", "train.lines").out == "120 records: all can be used\n"
    assert run("data", "verify", "train.h5", "--json").json == {"records": 60, "bad": []}


def test_bad_records_are_listed_by_key() -> None:
    run("data", "convert", "train.h5", "train.lines")
    head, *lines = Path("train.lines").read_text().splitlines()
    lines[3] = "{"
    lines[7] = json.dumps({**json.loads(lines[7]), "label": 3, "key": "seven"})
    lines[59] = "}"
    Path("train.lines").write_text("\n".join([head, *lines]))
    assert run("data", "verify", "train.h5", "train.lines", code=2).out == (
        "file         record     reason\n"
        "-----------  ---------  -------------------------------------------------------\n"
        "train.lines  record 3   this is not JSON\n"
        "train.lines  seven      'label' is 3, but there are 3 classes, from number 0 on\n"
        "train.lines  record 59  this is not JSON\n"
        "\n"
        "3 of 120 records cannot be used\n"
    )
    told = run("data", "verify", "train.lines", "--json", code=2).json
    assert told["records"] == 60
    assert [(one["record"], one["key"]) for one in told["bad"]] == [(3, "record 3"), (7, "seven"), (59, "record 59")]
    assert set(told["bad"][0]) == {"file", "record", "key", "reason"}


def test_records_without_numbers_are_read_up_to_the_first_that_cannot_be() -> None:
    run("data", "convert", "train.h5", "train.stream")
    head, *lines = Path("train.stream").read_text().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), "label": -1})
    lines[9] = "{"
    Path("train.stream").write_text("\n".join([head, *lines]))
    told = run("data", "verify", "train.stream", "--json", code=2).json
    assert [(one["record"], one["reason"]) for one in told["bad"]] == [
        (2, "'label' is -1, but there are 3 classes, from number 0 on"),
        (9, "this is not JSON"),
    ]
    assert told["records"] == 10


@pytest.mark.parametrize("first", [b"12x", b"123"])
def test_bytes_are_unpacked(first: bytes) -> None:
    Path("some.packets").write_bytes(first + b"\n45\nx6\n")
    told = run("data", "verify", "some.packets", "--json", code=2).json
    wanted = [] if first.isdigit() else [(0, "b'12x' has no digits")]
    assert [(one["record"], one["reason"]) for one in told["bad"]] == [*wanted, (2, "b'x6' has no digits")]


def test_labels_of_cifar_and_numbers_that_are_not_finite_are_found() -> None:
    Path("test_batch.bin").write_bytes(b"".join(bytes([label]) + bytes(3072) for label in (9, 10, 0, 255)))
    told = run("data", "verify", "test_batch.bin", "--json", code=2).json["bad"]
    assert [one["key"] for one in told] == ["record 1", "record 3"]
    assert told[0]["reason"].startswith("its label is 10, but the classes of CIFAR-10 have the numbers 0 to 9")
    np.save("odd.npy", np.array([[1.0], [np.nan], [np.inf]]))
    told = run("data", "verify", "odd.npy", "--json", code=2).json["bad"]
    assert [(one["key"], one["reason"]) for one in told] == [
        (f"record {number}", "'data' has numbers that are not finite") for number in (1, 2)
    ]


def test_labels_of_classes_may_be_vectors_of_one() -> None:
    with h5py.File("some.h5", "w") as file:
        file["label"] = np.array([[0], [2]], np.uint8)
        file["label"].attrs["classes"] = ["dog", "cat"]
    told = run("data", "verify", "some.h5", "--json", code=2).json["bad"]
    assert [one["record"] for one in told] == [1]


def test_a_file_that_cannot_be_opened_is_an_error() -> None:
    assert "no.h5: " in run("data", "verify", "train.h5", "no.h5", code=2).err
    Path("cut.h5").write_bytes(Path("train.h5").read_bytes()[:-1])
    assert "cut.h5: " in run("data", "verify", "cut.h5", code=2).err


def test_two_columns_of_one_name_are_refused_unless_they_are_chosen_by_place() -> None:
    Path("twice.csv").write_text("a,a,label\n1,2,x\n3,4,y\n")
    wrong = "error: twice.csv: 2 columns are called 'a', at the places 0, 1, counted from 0\n  rename one, or choose"
    for command in ("show", "verify"):
        assert run("data", command, "twice.csv", code=2).err.startswith(wrong)
        by_place = ("--store", "{type = 'CSV', data = [0, 1]}")
        assert "2 records" in run("data", command, "twice.csv", *by_place).out
