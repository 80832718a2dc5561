"""`nacre data split`."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from command_line import run
from nacre import Net
from nacre_data import CSVDataLayer, DataLayer

Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def numbered(folder: Path) -> None:
    """Write `some.h5`, whose records have their numbers, a class and a patient."""
    random = np.random.default_rng(1)
    with h5py.File("some.h5", "w") as file:
        file["data"] = np.arange(90, dtype=np.float32)
        file["label"] = random.integers(0, 3, 90)
        file["label"].attrs["classes"] = ["dog", "cat", "cow"]
        file["patient"] = random.integers(0, 12, 90)


def read(path: str) -> Arrays:
    with h5py.File(path) as file:
        return {name: file[name][()] for name in file}


def split(*options: object, source: str = "some.h5", ending: str = "h5") -> list[Arrays]:
    parts = [f"--part=a.{ending}=0.5", f"--part=b.{ending}=0.3", f"--part=c.{ending}=0.2"]
    run("data", "split", source, *parts, "--overwrite", *options)
    for name in "abc":
        if ending != "h5":
            run("data", "convert", f"{name}.{ending}", f"{name}.h5", "--overwrite")
    return [read(f"{name}.h5") for name in "abc"]


@pytest.mark.parametrize("ending", ["h5", "lines", "stream"])
def test_parts_are_disjoint_complete_and_in_order(ending: str) -> None:
    some = read("some.h5")
    if ending != "h5":
        run("data", "convert", "some.h5", f"some.{ending}")
    parts = split(source=f"some.{ending}", ending=ending)
    assert [len(part["data"]) for part in parts] == [45, 27, 18]
    assert sorted(np.concatenate([part["data"] for part in parts]).tolist()) == [*range(90)]
    for part in parts:
        assert (np.diff(part["data"]) > 0).all()
        for name in ("label", "patient"):
            assert (part[name] == some[name][part["data"].astype(int)]).all()
    with h5py.File("a.h5") as file:
        assert [*file["label"].attrs["classes"]] == ["dog", "cat", "cow"]


def fed(part: str, **options: object) -> list[int]:
    """Return which records a source with the same split feeds."""
    table = {"part": part, "fractions": {"a": 0.5, "b": 0.3, "c": 0.2}, **options}
    layer = DataLayer(source=("some.h5",), tops=("data", "label"), batch_size=1, split=table)
    net, found = Net("t", [layer], backend="numpy", phase="test"), list[int]()
    while net.epoch < 1:
        net.feed()
        found.append(int(net.blob("data")[0]))
    net.shutdown()
    return found


def test_parts_are_those_of_a_source_with_this_split() -> None:
    for options, table in (
        ([], {}),
        (["--seed", "7"], {"seed": 7}),
        (["--group", "patient"], {"group": "patient"}),
    ):
        found = [part["data"].astype(int).tolist() for part in split(*options)]
        assert found == [fed(part, **table) for part in "abc"]


def test_classes_are_split_alike_and_groups_stay_together() -> None:
    some = read("some.h5")
    for field in ("label", "patient"):
        for part, fraction in zip(split("--label", field), (0.5, 0.3, 0.2), strict=True):
            for number in np.unique(some[field]):
                assert abs((part[field] == number).sum() - fraction * (some[field] == number).sum()) <= 2
    patients = [set(part["patient"].tolist()) for part in split("--group", "patient")]
    assert sum(map(len, patients)) == len(set.union(*patients))


def test_the_rest_is_left_out() -> None:
    told = run("data", "split", "some.h5", "--part", "a.npz=0.1", "--field", "data", "--json").json
    assert told == {"seed": 0, "parts": {"a.npz": 9}}
    out = run("data", "split", "some.h5", "--part", "b.npz=0.1", "--part", "c.npz=0.9").out
    assert out == "wrote b.npz: 9 records\nwrote c.npz: 81 records\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--part", "a.h5"], "--part a.h5: it must be a file and its fraction of the records"),
        (["--part", "=0.5"], "--part =0.5: it must be a file and its fraction"),
        (["--part", "a.h5=half"], "--part a.h5=half: it must be a file and its fraction"),
        (["--part", "a.h5=0.5", "--part", "a.h5=0.5"], "--part a.h5=0.5: a.h5 is named twice"),
        (["--part", "a.h5=0.5", "--part", "./a.h5=0.5"], "--part ./a.h5=0.5: ./a.h5 is named twice"),
        (["--part", "a.h5=0.8", "--part", "b.h5=0.3"], "each must be above 0, and their sum 1 at most"),
        (["--part", "a.h5=nan"], "each must be above 0"),
        (["--part", "a.h5=0.999", "--part", "b.h5=0.001"], "part 'b.h5' has none of the 90 records"),
        (["--part", "a.h5=1", "--group", "doctor"], "there is no field 'doctor'"),
        (["--part", "a.h5=1", "--label", "labl"], "there is no field 'labl'"),
        (["--part", "some.h5=1", "--overwrite"], "some.h5: it is a source too"),
        (["--part", "a.h5=0.5", "--part", "train.h5=0.5"], "train.h5: it is there already"),
        ([], "Missing option '--part'"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], told: str) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert told in run("data", "split", "some.h5", *arguments, code=2).err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_a_part_that_does_not_keep_the_names_of_classes_is_warned_of() -> None:
    done = run("data", "split", "some.h5", "--part", "a.npz=0.5", "--part", "b.lines=0.5")
    assert done.err == "warning: a.npz: it does not keep the names of 3 classes of 'label', such as 'dog'\n"


def test_an_empty_set_has_no_parts() -> None:
    np.save("empty.npy", np.empty(0, np.int64))
    error = run("data", "split", "empty.npy", "--part", "a.npy=1", code=2).err
    assert error == "error: empty.npy: there are no records\n"


def test_parts_of_a_table_are_tables_of_its_kind() -> None:
    lines = ["Nr;Art;a;b", *(f"{number};{'xy'[number % 2]};{number},5;0,25" for number in range(10))]
    Path("all.csv").write_text("\n".join(lines) + "\n")
    store = '{type = "CSV", separator = ";", decimal = ","}'
    parts = [f"--part={part}.csv=0.5" for part in ("one", "two")]
    run("data", "split", "all.csv", *parts, "--store", store)
    found = [Path(f"{part}.csv").read_text().splitlines() for part in ("one", "two")]
    assert [part[0] for part in found] == ["Nr;Art;a;b"] * 2
    assert sorted(found[0][1:] + found[1][1:]) == lines[1:]
    source = CSVDataLayer(source="one.csv", separator=";", decimal=",", label="Art", data=["b", "a"], batch_size=5)
    with Net("n", [source], backend="numpy") as net:
        net.feed()
        assert (net.blob("data")[:, 0] == 0.25).all()
        assert net.classes["label"] == ("x", "y")
    run("data", "split", "all.csv", *parts, "--store", store, "--to-store", "CSV", "--overwrite")
    assert Path("one.csv").read_text().startswith("Nr,Art,a,b\n")


def test_a_part_without_records_of_a_class_is_warned_of() -> None:
    Path("some.csv").write_text("x,kind\n1,a\n2,a\n3,b\n4,b\n5,c\n6,d\n7,a\n8,b\n")
    done = run("data", "split", "some.csv", "--part", "train.csv=0.5", "--part", "test.csv=0.5")
    assert [line for line in done.err.splitlines() if line.startswith("warning: ")] == [
        "warning: train.csv: it has no record of class 'd': there are too few for every part",
        "warning: test.csv: it has no record of class 'c': there are too few for every part",
    ]
    done = run("data", "split", "some.csv", "--part", "train.csv=0.1", "--part", "test.csv=0.9", "--overwrite")
    assert "train.csv: it has no record of 3 classes, such as " in done.err
    assert run("data", "split", "some.h5", "--part", "a.h5=0.5", "--part", "b.h5=0.5").err == ""
