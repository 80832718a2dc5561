"""`nacre data convert`."""

from __future__ import annotations

import gzip
import json
import re
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from command_line import run, terminal
from nacre import DataError, Reader, open_records
from nacre_data.commands.options import Sources

Arrays = dict[str, np.ndarray]


def names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def read(path: str) -> Arrays:
    with open_records([Path(path)]) as reader:
        rows = list(reader.rows())
        return {name: np.stack([row[name] for row in rows]) for name in reader.fields}


def classes(path: str) -> tuple[str, ...]:
    with open_records([Path(path)]) as reader:
        return reader.fields["label"].classes


@pytest.mark.parametrize("ending", ["h5", "npz", "lines", "stream", "lmdb", "mdb", "kvfile", "shard", "tar"])
def test_records_come_back_with_the_same_bits(ending: str, train: Arrays) -> None:
    run("data", "convert", "train.h5", f"there.{ending}")
    run("data", "convert", f"there.{ending}", "back.h5")
    found = read("back.h5")
    assert list(found) == ["data", "label"]
    for name, values in train.items():
        assert found[name].dtype == values.dtype
        assert found[name].tobytes() == values.tobytes()


def test_mnist_becomes_hdf5_and_mnist_again() -> None:
    images = struct.pack(">4B3I", 0, 0, 8, 3, 3, 2, 2) + bytes(range(12))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 3) + b"\7\2\1"
    for name, content in (("t-images-idx3-ubyte.gz", images), ("t-labels-idx1-ubyte.gz", labels)):
        Path(name).write_bytes(gzip.compress(content))
    told = run("data", "convert", "t-images-idx3-ubyte.gz", "t.h5").out
    assert told == "wrote t.h5: 3 records, data uint8 (1, 2, 2); label uint8 ()\n"
    run("data", "convert", "t.h5", "u-images-idx3-ubyte")
    assert Path("u-images-idx3-ubyte").read_bytes() == images
    assert Path("u-labels-idx1-ubyte").read_bytes() == labels


def test_cifar_becomes_one_file_with_the_names_of_its_classes() -> None:
    folder = Path("cifar-10-batches-bin")
    folder.mkdir()
    for number in range(5):
        (folder / f"data_batch_{number + 1}.bin").write_bytes(bytes([number]) + bytes([number + 100]) * 3072)
    (folder / "batches.meta.txt").write_text("".join(f"class {number}\n" for number in range(10)))
    run("data", "convert", folder, "cifar.h5")
    found = read("cifar.h5")
    assert found["label"].tolist() == [0, 1, 2, 3, 4]
    assert found["data"].shape == (5, 3, 32, 32)
    assert found["data"][:, 0, 0, 0].tolist() == [100, 101, 102, 103, 104]
    assert classes("cifar.h5") == tuple(f"class {number}" for number in range(10))


def test_classes_are_kept_or_a_warning_says_so() -> None:
    done = run("data", "convert", "train.h5", "there.lines")
    assert done.err == ""
    run("data", "convert", "there.lines", "back.h5")
    assert classes("back.h5") == ("dog", "cat", "cow")
    done = run("data", "convert", "train.h5", "there.npz")
    assert done.err == ("warning: there.npz: it does not keep the names of 3 classes of 'label', such as 'dog'\n")


def test_names_of_records_are_kept_but_places_are_not() -> None:
    run("data", "convert", "train.h5", "there.lines")
    first, second = (json.loads(line) for line in Path("there.lines").read_text().splitlines()[1:3])
    assert (first["key"], second["key"]) == ("", "")  # and not "record 0"
    lines = Path("there.lines").read_text().splitlines()
    lines[1:] = [json.dumps({**json.loads(line), "key": f"cat {number}.png"}) for number, line in enumerate(lines[1:])]
    Path("there.lines").write_text("\n".join(lines))
    run("data", "convert", "there.lines", "again.lines")
    found = [json.loads(line)["key"] for line in Path("again.lines").read_text().splitlines()[1:]]
    assert found == [f"cat {number}.png" for number in range(60)]


def test_several_sources_are_one(train: Arrays) -> None:
    run("data", "convert", "train.h5", "train.h5", "both.npz")
    assert (read("both.npz")["data"] == np.concatenate([train["data"]] * 2)).all()


def test_a_list_names_the_sources(train: Arrays) -> None:
    Path("list.txt").write_text("train.h5\n\ntrain.h5\n")
    run("data", "convert", "list.txt", "both.npz")
    assert len(read("both.npz")["data"]) == 120
    assert run("data", "verify", "list.txt").out == "120 records: all can be used\n"


def test_fields_and_stores_are_chosen(train: Arrays) -> None:
    told = run("data", "convert", "train.h5", "label.npy", "--field", "label", "--json").json
    fields = {"data": {"shape": [], "type": "int64", "classes": []}}
    assert told == {"target": "label.npy", "records": 60, "fields": fields}
    assert (np.load("label.npy") == train["label"]).all()
    Path("train.h5").rename("train")
    run("data", "convert", "train", "there", "--store", "HDF5", "--to-store", '{type = "Lines"}')
    Path("there").rename("there.lines")
    assert read("there.lines")["data"].tobytes() == train["data"].tobytes()


def test_nothing_is_replaced_unless_that_is_wanted() -> None:
    Path("there.npz").write_bytes(b"mine")
    error = run("data", "convert", "train.h5", "there.npz", code=2).err
    assert error == ("error: there.npz: it is there already\n  use another name, or add --overwrite to replace it\n")
    assert Path("there.npz").read_bytes() == b"mine"
    run("data", "convert", "train.h5", "there.npz", "--overwrite")
    assert len(read("there.npz")["data"]) == 60
    error = run("data", "convert", "train.h5", "./train.h5", "--overwrite", code=2).err
    assert "error: train.h5: it is a source too\n" in error


def test_a_bad_record_leaves_no_target_and_an_old_one_as_it_is() -> None:
    run("data", "convert", "train.h5", "there.lines")
    lines = Path("there.lines").read_text().splitlines()
    lines[41] = lines[41][:-5]
    Path("there.lines").write_text("\n".join(lines))
    before = names()
    error = run("data", "convert", "there.lines", "back.h5", code=2).err
    assert error.startswith("error: there.lines: record 40: this is not JSON\n")
    assert names() == before
    Path("old.npz").write_bytes(b"old")
    run("data", "convert", "there.lines", "old.npz", "--overwrite", code=2)
    assert Path("old.npz").read_bytes() == b"old"
    assert names() == sorted([*before, "old.npz"])


def contents() -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", ["there.npz", "there.lines", "there.lmdb", "there.shard", "u-images-idx3-ubyte"])
@pytest.mark.parametrize("command", ["convert", "split", "mean"])
def test_what_cannot_be_read_back_replaces_nothing(
    target: str, command: str, train: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target.startswith("u-") and command == "mean":
        pytest.skip("IDX is for pictures")

    def damaged(paths: list[Path], *arguments: object, **options: Any) -> Reader:
        if paths[0].name != target:
            return open_records(paths, *arguments, **options)
        assert Path(target).is_dir() == paths[0].is_dir()
        raise DataError(f"{paths[0]}: damaged", "try again")

    def run_again(code: int = 0) -> str:
        part = ["--part", f"{target}=1"] if command == "split" else [target]
        return run("data", command, "other.h5", *part, "--overwrite", code=code).err

    run("data", "convert", "train.h5", target)
    with h5py.File("other.h5", "w") as file:
        file["data"], file["label"] = train["data"], train["label"] + 1
    before = contents()
    with monkeypatch.context() as patch:
        patch.setattr("nacre_data.commands.options.open_records", damaged)
        error = run_again(code=2)
    assert error == f"error: what was written cannot be read back: {target}: damaged\n  try again\n"
    assert contents() == before
    run_again()
    with open_records([target]) as reader:
        if command == "mean":
            assert next(reader.rows())["mean"] == pytest.approx(train["data"].mean(axis=0, dtype=float)[0])
        else:
            assert [row["label"] for row in reader.rows()] == (train["label"] + 1).tolist()
    assert contents().keys() == before.keys()


@pytest.mark.parametrize("target", ["new.npz", "in/folders/new.lmdb", "u-images-idx3-ubyte", "new.pictures"])
@pytest.mark.parametrize("command", ["convert", "split"])
def test_what_cannot_be_read_back_is_not_there(target: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(paths: list[Path], *arguments: object, **options: Any) -> Reader:
        if paths[0].name != Path(target).name:
            return open_records(paths, *arguments, **options)
        assert paths[0].exists()
        raise DataError(f"{paths[0]}: damaged", "try again")

    with h5py.File("pictures.h5", "w") as file:
        file["data"], file["label"] = np.zeros((3, 1, 2, 2), np.uint8), np.array([0, 2, 2])
    before = {*Path().rglob("*")}
    to = ["--to-store", "Pictures"] if target == "new.pictures" else []
    words = ["--part", f"{target}=1"] if command == "split" else [target]
    with monkeypatch.context() as patch:
        patch.setattr("nacre_data.commands.options.open_records", damaged)
        error = run("data", command, "pictures.h5", *words, *to, code=2).err
    assert error == f"error: what was written cannot be read back: {target}: damaged\n  try again\n"
    assert {*Path().rglob("*")} == before
    run("data", command, "pictures.h5", *words, *to)
    assert read_with(target, to)["label"].tolist() == [0, 2, 2]


def read_with(path: str, to: list[str]) -> Arrays:
    with open_records([path], store=to[1] if to else "", codec=None) as reader:
        labels = [row["label"] for row in reader.rows()]
        return {"label": np.array(labels).reshape(-1)}


def test_fields_that_are_not_there_are_told_in_one_way() -> None:
    run("data", "convert", "train.h5", "there.npz")
    for ending in ("h5", "npz", "jsonl", "csv"):
        np.savetxt("table.csv", [[1, 2, 0], [3, 4, 1]], delimiter=",", header="x,y,label", comments="")
        run("data", "convert", "table.csv" if ending in ("csv", "jsonl") else "train.h5", f"some.{ending}")
        for words in (["show", f"some.{ending}"], ["convert", f"some.{ending}", "a.npz"], ["verify", f"some.{ending}"]):
            error = run("data", *words, "--field", "label,labl", code=2).err
            more = ", x, y" if ending == "csv" else ""
            assert error == (
                f"error: some.{ending}: there is no field 'labl' (did you mean 'label'?); it has: data, label{more}\n"
                "  name others by --field A,B, or leave --field out\n"
            )
    assert "data   (2,)" in run("data", "show", "some.csv", "--field", "data,label").out
    assert "x      ()" in run("data", "show", "some.csv", "--field", "label,x").out


def h5(**fields: Any) -> None:
    """Write `some.h5`; a "/" in the name of a field is written as "__"."""
    with h5py.File("some.h5", "w") as file:
        for name, values in fields.items():
            file[name] = values


@pytest.mark.parametrize("ending", ["csv", "jsonl", "folder"])
def test_two_classes_of_one_name_stay_two_or_are_refused(ending: str) -> None:
    h5(data=np.zeros((3, 1, 2, 2), np.uint8), label=np.arange(3))
    with h5py.File("some.h5", "a") as file:
        file["label"].attrs["classes"] = ["a", "b", "a"]
    before = names()
    to = ["--to-store", "Pictures"] if ending == "folder" else []
    error = run("data", "convert", "some.h5", f"there.{ending}", *to, code=2).err
    assert error == (
        f"error: there.{ending}: 'label' has two classes called 'a', which would be read as one\n"
        "  use a .h5 file, which numbers them, or rename one\n"
    )
    assert names() == before
    run("data", "convert", "some.h5", "there.h5")
    assert (classes("there.h5"), read("there.h5")["label"].tolist()) == (("a", "b", "a"), [0, 1, 2])


LARGE = 2**53 + 1


def test_whole_numbers_that_a_table_would_round_are_refused() -> None:
    h5(data=np.array([[1, LARGE], [2**62, -3]]))
    before = names()
    error = run("data", "convert", "some.h5", "there.csv", code=2).err
    assert error == (
        f"error: there.csv: 'data' is {LARGE}, but whole numbers of several columns are read up to {2**53}\n"
        "  use a .jsonl, .npz or .h5 file\n"
    )
    assert names() == before
    h5(data=np.array([[1, 2**53], [2**62, -3]]), label=np.array([LARGE, -LARGE]))
    assert run("data", "convert", "some.h5", "there.csv").err == ""
    run("data", "convert", "there.csv", "back.h5")
    assert read("back.h5")["data"].tolist() == [[1, 2**53], [2**62, -3]]
    assert read("back.h5")["label"].tolist() == [LARGE, -LARGE]


def test_a_table_with_whole_numbers_that_are_rounded_is_told() -> None:
    Path("some.csv").write_text(f"id,x\n1,2\n{LARGE},4\n{LARGE + 2},4\n")
    told = f"some.csv: line 3: column 'id' is {LARGE}, which float64 makes {2**53}; a column of whole numbers that is"
    with pytest.warns(UserWarning, match=f"^{re.escape(told)} wanted as a field of its own keeps them$") as caught:
        run("data", "convert", "some.csv", "there.npz")
    assert len(caught) == 1
    assert run("data", "convert", "some.csv", "own.npz", "--field", "id,x").err == ""
    assert read("own.npz")["id"].tolist() == [1, LARGE, LARGE + 2]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("name", ["data", "z"])
def test_numbers_that_are_nan_are_told_with_what_reads_them(ending: str, name: str) -> None:
    h5(**{name: np.arange(600.0)})
    with h5py.File("some.h5", "a") as file:
        file[name][500] = np.nan
    line = 502 if ending == "csv" else 501
    error = run("data", "convert", "some.h5", f"there.{ending}").err.splitlines()[0]
    assert error.startswith(f"warning: there.{ending}: line {line}: ")
    assert error.endswith(": whoever reads it has to say fill in the store")
    store = f'{{type = "{"CSV" if ending == "csv" else "JSONLines"}", fill = nan}}'
    run("data", "convert", f"there.{ending}", "back.npz", "--store", store, "--field", name)
    assert np.isnan(read("back.npz")[name]).sum() == 1


def test_a_label_that_is_nan_is_refused_in_a_table() -> None:
    h5(data=np.arange(2.0), label=np.array([1, np.nan]))
    error = run("data", "convert", "some.h5", "there.csv", code=2).err
    assert error == (
        "error: there.csv: 'label' is NaN, which would be read as a label that is missing\n  use a .npz or .h5 file\n"
    )
    assert not Path("there.csv").exists()


@pytest.mark.parametrize(
    ("fields", "read_as"),
    [
        (["x.1"], "'data'"),
        (["#"], "'data'"),
        (["data.0"], "'data'"),
        (["data.0", "y"], "'data', 'y'"),
        (["x.0", "x.1"], "'x'"),
        ([" x", '"q"', "a,b"], "'data'"),
    ],
)
def test_fields_of_a_table_come_back_where_they_are_named(fields: list[str], read_as: str) -> None:
    h5(**{name: np.array([number + 0.5, 9]) for number, name in enumerate(fields)})
    lost = [name for name in sorted(fields) if name != "y"]
    said = f"name {', '.join(map(repr, lost))} (--field, tops) to get {'them' if len(lost) > 1 else 'it'} back"
    error = run("data", "convert", "some.h5", "there.csv").err
    assert error == f"warning: there.csv: where no fields are named it is read as {read_as}: {said}\n"
    with open_records(["there.csv"], fields) as reader:
        assert next(reader.rows()) == {name: number + 0.5 for number, name in enumerate(fields)}


@pytest.mark.parametrize("whole", ["x", "data"])
def test_a_column_and_a_field_of_several_columns_need_two_names(whole: str) -> None:
    h5(**{whole: np.array([1.5]), f"{whole}.0": np.array([2.5])})
    error = run("data", "convert", "some.h5", "there.csv", code=2).err
    assert error == (
        f"error: there.csv: the columns '{whole}' and '{whole}.0' are both the field '{whole}'\n  rename one\n"
    )
    Path("there.csv").write_text(f"{whole},{whole}.0\n1,2\n")
    error = run("data", "show", "there.csv", code=2).err
    assert error.startswith(f"error: there.csv: the columns '{whole}' and '{whole}.0' are both the field '{whole}'\n")
    assert "data   (2,)" in run("data", "show", "there.csv", "--store", '{type = "CSV", data = [0, 1]}').out


def test_an_empty_source_is_told() -> None:
    with h5py.File("empty.h5", "w") as file:
        file["data"] = np.empty((0, 3), np.float32)
    assert run("data", "convert", "empty.h5", "there.npz", code=2).err == "error: empty.h5: there are no records\n"
    assert not Path("there.npz").exists()


@pytest.mark.parametrize("source", ["train.h5", "there.stream"])
def test_sources_that_need_no_shape_are_opened_once(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe can be read only once."""
    run("data", "convert", "train.h5", "there.stream")
    opened: list[None] = []
    original = Sources.open

    def counted(sources: Sources, shape: str | None, **options: bool) -> Reader:
        opened.append(None)
        return original(sources, shape, **options)

    monkeypatch.setattr(Sources, "open", counted)
    run("data", "convert", source, "back.npz")
    assert len(opened) == 1


@pytest.mark.parametrize("ending", ["lmdb", "shard", "tar"])
def test_records_of_one_shape_keep_it_where_others_may_differ(ending: str) -> None:
    Path("some.packets").write_bytes(b"123\n456\n")
    run("data", "convert", "some.packets", f"there.{ending}")
    with open_records([Path(f"there.{ending}")]) as reader:
        assert reader.fields["data"].shape == (1, 1, 3)


@pytest.mark.parametrize("ending", ["lmdb", "shard", "tar"])
def test_a_shape_that_is_wanted_must_be_that_of_every_record(ending: str) -> None:
    there = Path(f"there.{ending}")
    Path("some.packets").write_bytes(b"123\n456\n78\n")
    run("data", "convert", "some.packets", there)
    with open_records([there], shapes={"data": (1, 1, 3)}) as reader:
        assert reader.fields["data"].shape == (1, 1, 3)
        out = {"data": np.empty((2, 1, 1, 3), np.uint8)}
        reader.read(np.array([1, 0]), out)
        assert out["data"].tolist() == [[[[4, 5, 6]]], [[[1, 2, 3]]]]
        for read in (lambda: reader.read(np.array([0, 2]), out), lambda: list(reader.rows())):
            with pytest.raises(DataError, match=rf"^{there}: .*'data' has the shape \(1, 1, 2\), but \(1, 1, 3\) is"):
                read()


def test_records_of_one_shape_need_no_option_where_the_format_lets_them_differ() -> None:
    Path("some.packets").write_bytes(b"123\n456\n")
    run("data", "convert", "some.packets", "there.h5")
    assert read("there.h5")["data"].shape == (2, 1, 1, 3)


def test_no_command_takes_a_file_without_records_whose_kind_nobody_knows() -> None:
    Path("some.packets").write_bytes(b"")
    for words in (["convert", "some.packets", "a.h5"], ["show", "some.packets"], ["mean", "some.packets", "a.h5"]):
        assert run("data", *words, code=2).err == "error: some.packets: there are no records\n"
    assert not Path("a.h5").exists()


def test_records_of_different_shapes_get_one_by_shape() -> None:
    Path("some.packets").write_bytes(b"123\n4567\n")
    error = run("data", "convert", "some.packets", "there.h5", code=2).err
    assert error.startswith("error: there.h5: 'data' differs in shape from record to record")
    assert "--shape gives all records of 'data' one shape, such as --shape 3,32,32" in error
    run("data", "convert", "some.packets", "there.h5", "--shape", "1,1,2")
    assert read("there.h5")["data"].tolist() == [[[[1, 2]]], [[[4, 5]]]]
    error = run("data", "convert", "train.h5", "there.npz", "--shape", "1,1,2", code=2).err
    assert "--shape 1,1,2 is for the field 'data', whose shape is (1, 2, 4)" in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no.h5", "a.npz"], "no.h5: "),
        (["train.h5", "a.doc"], "a.doc: no store is installed for files that end in '.doc'"),
        (["train.h5", "some.packets"], "some.packets: files of this format are only read"),
        (["train.h5", "train.h5/a.npz"], "train.h5/a.npz: cannot be written"),
        (["train.h5", "a.npz", "--field", "labels"], "labels"),
        (["train.h5", "a.npz", "--field", "data,,label"], "--field 'data,,label': a name is missing"),
        (["train.h5", "a.npz", "--shape", "3,x"], "--shape 3,x: it must be whole numbers above 0"),
        (["train.h5", "a.npz", "--shape", "0"], "--shape 0: it must be whole numbers above 0"),
        (["train.h5", "a.npz", "--store", "{type = "], "--store {type = : "),
        (["train.h5", "a.npz", "--to-store", "{a = 1}"], "--to-store {a = 1}: it names no type"),
        (["train.h5", "a.npz", "--store", "HDF6"], "HDF6"),
        (["train.h5"], "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], told: str) -> None:
    before = names()
    assert told in run("data", "convert", *arguments, code=2).err
    assert names() == before


def test_a_terminal_shows_the_end() -> None:
    assert "wrote there.npz: 60 records" in terminal("data", "convert", "train.h5", "there.npz")


def test_the_group_lists_its_commands() -> None:
    out = run("data", "--help").out
    assert [line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()] == [
        *("convert", "mean", "show", "split", "verify")
    ]
    assert run("data").out == out
    assert "No such command 'convrt'" in run("data", "convrt", code=2).err
