"""Files that are continued: by one writer at a time, with the fields that they have."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from nacre import DataError, Field, open_records, store_to_write
from nacre_data.stores.hdf5 import HDF5
from nacre_data.stores.lmdb import LMDB
from nacre_data.stores.npy import NPZ

NAMES = ("a.h5", "a.lmdb", "a.mdb", "a.shard", "a.kvfile", "a.jsonl", "a.csv")
CLASSES = {"x": Field((2,), "float64"), "label": Field((), "int64", ("cat", "dog"))}
every_format = pytest.mark.parametrize("name", NAMES)


def written(path: Path, fields=CLASSES, append=False, first=0.5) -> None:
    with store_to_write(path).create(path, fields, append=append) as writer:
        writer.append(
            {name: np.full((2, *field.shape), 1 if field.classes else first) for name, field in fields.items()}
        )


def labels(path: Path) -> list[str]:
    with open_records([path]) as reader:
        return [reader.fields["label"].classes[row["label"]] for row in reader.rows()]


@every_format
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**CLASSES, "x": Field((3,), "float64")}, "of shape|another line"),
        ({"x": CLASSES["x"]}, "'label' is .*to be appended is nothing|another line"),
        ({**CLASSES, "y": Field((), "int8")}, "'y' is nothing, but to be appended is (int|numbers)|another line"),
        ({**CLASSES, "label": Field((), "int64")}, "'label' is "),
    ],
)
def test_other_fields_are_refused(name, fields, said, tmp_path):
    path = tmp_path / name
    written(path)
    with pytest.raises(DataError, match=said):
        written(path, fields, append=True)
    assert labels(path) == ["dog", "dog"]


@every_format
def test_numbers_have_a_type_in_formats_that_store_it(name, tmp_path):
    """In text, a float of a whole value looks like a whole number, and one column may have both."""
    path, fields = tmp_path / name, {**CLASSES, "x": Field((2,), "int64")}
    written(path)
    if name in ("a.jsonl", "a.csv"):
        written(path, fields, append=True, first=3)
        written(path, append=True)
        assert labels(path) == ["dog"] * 6
    else:
        with pytest.raises(DataError, match=r"is float64 of shape .* to be appended is int64"):
            written(path, fields, append=True)
        assert labels(path) == ["dog", "dog"]


@every_format
def test_other_classes_change_no_labels(name, tmp_path):
    path, others = tmp_path / name, {**CLASSES, "label": Field((), "int64", ("ant", "cat"))}
    written(path)
    if name.endswith((".jsonl", ".csv")):  # they hold the names
        written(path, others, append=True)
        assert labels(path) == ["dog", "dog", "cat", "cat"]
        return
    with pytest.raises(DataError, match=r"with class 0 'cat', but to be appended is .* with class 0 'ant'"):
        written(path, others, append=True)
    with pytest.raises(DataError, match=r"with 2 classes, but to be appended is .* with 3 classes"):
        written(path, {**CLASSES, "label": Field((), "int64", ("cat", "dog", "eel"))}, append=True)
    assert labels(path) == ["dog", "dog"]


def test_a_label_that_caffe_has_is_not_left_out(tmp_path):
    path, store = tmp_path / "a.lmdb", LMDB(codec="Datum")
    image = {"data": Field((1, 2, 2), "uint8")}
    store.create(path, {**image, "label": Field((), "int64")}).close(commit=False)
    with store.create(path, {**image, "label": Field((), "int64")}) as writer:
        writer.append({"data": np.zeros((1, 1, 2, 2), "u1"), "label": np.array([3])})
    with pytest.raises(DataError, match=r"'label' is int64 of shape .*, but to be appended is nothing"):
        store.create(path, image, append=True)


@every_format
def test_a_second_writer_is_refused(name, tmp_path):
    path, store = tmp_path / name, store_to_write(name)
    written(path)
    for commit in (True, False):
        with store.create(path, CLASSES, append=True) as first:
            with pytest.raises(DataError, match="another writer writes to this file"):
                store.create(path, CLASSES, append=True).close(commit)
            first.append({"x": np.zeros((1, 2)), "label": np.array([0])})
    assert labels(path) == ["dog", "dog", "cat", "cat"]
    assert not [one for one in tmp_path.iterdir() if "nacre-lock" in one.name]


def test_a_key_of_another_program_is_kept(tmp_path):
    lmdb = pytest.importorskip("lmdb")
    path = tmp_path / "a.lmdb"
    written(path)
    writer = LMDB().create(path, CLASSES, append=True)
    with writer.environment.begin(write=True) as transaction:
        transaction.put(b"0000000002", b"mine")
    writer.append({"x": np.zeros((1, 2)), "label": np.array([0])})
    with pytest.raises(DataError, match="the key '0000000002' is there already"):
        writer.close(commit=True)
    with lmdb.open(str(path), readonly=True, lock=False) as environment, environment.begin() as transaction:
        assert transaction.get(b"0000000002") == b"mine"


@pytest.mark.parametrize("name", [*NAMES, "a.npz", "a.tar"])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"x": np.zeros((2, 1)), "y": np.zeros(2)}, r"the rows of 'x' have the shape \(1,\), but it has \(3,\)"),
        ({"x": np.zeros(3), "y": np.zeros(3)}, r"the rows of 'x' have the shape \(\), but it has \(3,\)"),
        ({"x": [[1, None, 3]], "y": [0]}, "the rows of 'x' are of type object\n  give an array of numbers"),
        ({"x": [["1", "2", "3"]], "y": [0]}, "the rows of 'x' are of type <U1"),
        ({"x": [[1, 2, 3j]], "y": [0]}, "the rows of 'x' are of type complex128"),
        ({"x": np.zeros((2, 3)), "y": [0, 0.5]}, "'y' is 0.5, but its type is int64"),
        ({"x": np.zeros((3, 3)), "y": np.zeros(2)}, "'y' has 2 records, but 'x' has 3"),
        ({"x": np.zeros((3, 3))}, "the field 'y' is missing among the rows: x"),
    ],
)
def test_rows_that_do_not_fit_are_refused(name, rows, said, tmp_path):
    path, fields = tmp_path / name, {"x": Field((3,), "float64"), "y": Field((), "int64")}
    with pytest.raises(DataError, match=said), store_to_write(path).create(path, fields) as writer:
        writer.append(rows)
    assert not path.exists()


# Names in HDF5


@pytest.mark.parametrize(
    "names", [["", "x"], ["."], ["a", "a/b"], ["a/b/c", "a/b"], ["a//b"], ["/a"], ["a\0b"], ["a/."]]
)
def test_names_that_a_dataset_cannot_have_are_refused(names, tmp_path):
    with pytest.raises(DataError, match=r"cannot be (the name of )?a dataset"):
        HDF5().create(tmp_path / "a.h5", dict.fromkeys(names, Field((), "int8")))
    assert list(tmp_path.iterdir()) == []


def test_an_array_cannot_have_a_zero_in_its_name(tmp_path):
    with pytest.raises(DataError, match="cannot be the name of an array"):
        NPZ().create(tmp_path / "a.npz", {"a\0b": Field((), "int8")})


def test_datasets_in_groups_are_fields(tmp_path):
    names = ["a", "kind/type", "kind/deep/x"]
    written(tmp_path / "a.h5", dict.fromkeys(names, Field((), "int64")), first=5)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["kind/again"] = file["/"]
        file["soft"] = h5py.SoftLink("/a")
    with open_records([tmp_path / "a.h5"]) as reader:
        assert sorted(reader.fields) == sorted(names)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["a"], file["meta/names"] = np.zeros(3), np.zeros(2)
    with pytest.raises(DataError, match="'meta/names' has 2 records, but 'a' has 3\n  name the fields that are wanted"):
        open_records([tmp_path / "b.h5"])
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["/".join("g" * 40)] = np.zeros(3)
    with pytest.raises(DataError, match="more than 32 groups"):
        open_records([tmp_path / "c.h5"])


@pytest.mark.parametrize("count", [4000, 4001, 9000])
def test_more_classes_than_an_attribute_has_room_for(count, tmp_path):
    """An attribute of HDF5 holds 64 KiB."""
    classes = tuple(f"class {number}" for number in range(count))
    written(tmp_path / "a.h5", {"label": Field((), "int64", classes)})
    with open_records([tmp_path / "a.h5"]) as reader:
        assert reader.fields["label"].classes == classes
    with h5py.File(tmp_path / "a.h5") as file:
        assert len(file["label"].attrs) == -(-count // 4000)
