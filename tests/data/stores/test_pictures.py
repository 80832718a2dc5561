"""Pictures as a store: single ones, folders, and lists."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import DataError, Field, FileKey, Net, open_records
from nacre.testing import StoreTests
from nacre_data import DataLayer
from nacre_data.codecs.picture import Picture
from nacre_data.stores.pictures import Pictures

Image = pytest.importorskip("PIL.Image")

FIELDS = {"data": Field((3, 4, 5), "uint8"), "label": Field((), "int64", classes=("cat", "dog"))}


def picture(path: Path, value: int = 0, size: tuple[int, int] = (2, 3)) -> Path:
    """Write a grey picture whose pixels all have one value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Picture().encode({"data": np.full((1, *size), value, np.uint8)}))
    return path


def found(path: Path, **options: Any) -> list[tuple[str, int, str]]:
    """Return key, value of the pixels and class (or number) of each picture."""
    with open_records([path], store=Pictures(**options)) as reader:
        classes = reader.fields["label"].classes if "label" in reader.fields else ()
        records: list[tuple[str, int, str]] = []
        for number, row in enumerate(reader.rows()):
            label = int(row["label"]) if "label" in row else -1
            records.append((reader.key(number), int(row["data"].flat[0]), classes[label] if classes else str(label)))
        return records


class TestPictures(StoreTests):
    store = Pictures()
    replaces = False

    def fields(self):
        return FIELDS

    def make(self, folder: Path):
        """Write records, which are read class by class."""
        path, records = super().make(folder)
        order = np.argsort(records["label"], kind="stable")
        return path, {name: values[order] for name, values in records.items()}


class TestOnePicture(StoreTests):
    store = Pictures()
    damage_shows = False  # behind the pixels of a PNG are some bytes more

    def make(self, folder: Path):
        return picture(folder / "a.png", 7), {"data": np.full((1, 1, 2, 3), 7, np.uint8)}


class TestList(StoreTests):
    store = Pictures()
    damage_shows = False

    def make(self, folder: Path):
        for number in range(3):
            picture(folder / f"{number}.png", number)
        (folder / "list.txt").write_text("2.png 5\n0.png 6\n1.png 5\n")
        pixels = np.array([2, 0, 1], np.uint8)
        return folder / "list.txt", {
            "data": np.broadcast_to(pixels[:, None, None, None], (3, 1, 2, 3)),
            "label": np.array([5, 6, 5]),
        }


# Folders


def test_each_sub_folder_is_a_class(tmp_path: Path) -> None:
    for number, name in enumerate(["dog/b.png", "dog/a.png", "cat/x/2.png", "cat/10.png", "Zebra/1.PNG"]):
        picture(tmp_path / name, number)
    (tmp_path / "empty").mkdir()
    for hidden in (".hidden/1.png", "cat/.1.png", "cat/.x/1.png"):
        picture(tmp_path / hidden)
    (tmp_path / "cat/notes.txt").write_text("no picture")
    (tmp_path / "README.md").write_text("no picture")
    assert Pictures.fits(tmp_path)
    assert found(tmp_path) == [
        ("Zebra/1.PNG", 4, "Zebra"),
        ("cat/10.png", 3, "cat"),
        ("cat/x/2.png", 2, "cat"),
        ("dog/a.png", 1, "dog"),
        ("dog/b.png", 0, "dog"),
    ]
    assert Pictures().open(tmp_path).fields["label"].classes == ("Zebra", "cat", "dog", "empty")


@pytest.mark.parametrize(
    ("folders", "classes"),
    [
        (["10", "9", "0"], ("0", "9", "10")),
        (["010", "9", "-1"], ("-1", "9", "010")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["ä", "z", "a", "Z"], ("Z", "a", "z", "ä")),
    ],
)
def test_classes_are_in_the_order_of_code_points_or_by_value(
    folders: list[str], classes: tuple[str, ...], tmp_path: Path
) -> None:
    for name in folders:
        picture(tmp_path / name / "a.png")
    assert Pictures().open(tmp_path).fields["label"].classes == classes


def test_a_folder_without_sub_folders_has_no_labels(tmp_path: Path) -> None:
    for number, name in enumerate(["b.png", "a.png"]):
        picture(tmp_path / name, number)
    assert found(tmp_path) == [("a.png", 1, "-1"), ("b.png", 0, "-1")]
    with pytest.raises(DataError, match="the pictures have no labels, but 'label' is wanted") as caught:
        Pictures().open(tmp_path, ("data", "label"))
    assert "sub-folder" in caught.value.remedy


def test_a_folder_that_is_not_clear_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.jpeg.txt").touch()
    with pytest.raises(DataError, match=r"it has no pictures; of 1 files .* such as 'a\.jpeg\.txt', nothing is"):
        Pictures().open(tmp_path)
    assert not Pictures.fits(tmp_path)
    picture(tmp_path / "a.png")
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"pictures, such as 'a\.png', beside sub-folders, such as 'cat'"):
        Pictures().open(tmp_path)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["cat/a.png", "dog/1.HEIC"], "class 'dog' has no picture; of 1 files with other endings, such as '1.HEIC',"),
        (["cat/a.png", "dog/in/a.txt", "dog/b.txt"], "class 'dog' has no picture; of 2 files with other endings,"),
        (["cat/a.png", "cat/in/b.heic", "cat/c.txt"], "of 1 pictures in other formats, such as 'cat/b.heic', nothing"),
        (["a.png", "b.avif"], "of 1 pictures in other formats, such as 'b.avif', nothing is read"),
    ],
)
def test_pictures_in_formats_that_are_not_read_are_told(names: list[str], told: str, tmp_path: Path) -> None:
    for name in names:
        picture(tmp_path / name)
    with pytest.warns(UserWarning, match=f"{tmp_path}: {told}.*; endings of pictures are .bmp, ") as warned:
        Pictures().open(tmp_path).close()
    assert len(warned) == 1


def test_parts_of_a_set_are_hardly_its_classes(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for kind in ("cat", "dog"):
            picture(tmp_path / part / kind / "1.png")
    told = r"the classes are 'test', 'train', but each has the sub-folders 'cat', 'dog': .*, give .*train$"
    with pytest.warns(UserWarning, match=told), open_records([tmp_path], ["data", "label"]) as reader:
        assert reader.fields["label"].classes == ("test", "train")
    with open_records([tmp_path], ["data"]) as reader:  # warnings are errors
        assert reader.count == 4
    picture(tmp_path / "test" / "2.png")
    with open_records([tmp_path], ["data", "label"]) as reader:
        assert reader.count == 5


def test_pictures_beside_sub_folders_need_no_class_where_none_is_wanted(tmp_path: Path) -> None:
    for name in ("a.png", "cat/b.png", "cat/more/c.png"):
        picture(tmp_path / name)
    with Pictures().open(tmp_path, ("data",)) as reader:
        assert [*reader.fields] == ["data"]
        assert [reader.key(number) for number in range(3)] == ["a.png", "cat/b.png", "cat/more/c.png"]


def test_other_names_and_too_many(tmp_path: Path) -> None:
    picture(tmp_path / "x/a.png")
    assert list(Pictures().open(tmp_path, ("images", "kind")).fields) == ["images", "kind"]
    assert list(Pictures().open(tmp_path, ("images",)).fields) == ["images"]
    with pytest.raises(DataError, match="3 fields are wanted: a, b, c"):
        Pictures().open(tmp_path, ("a", "b", "c"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission")
def test_links_out_of_the_folder_are_told(tmp_path: Path) -> None:
    outside, folder = picture(tmp_path / "outside/a.png"), tmp_path / "in"
    picture(folder / "x/a.png", 3)
    link = folder / "x/b.png"
    link.symlink_to(folder / "x/a.png")
    assert len(found(folder)) == 2
    for target, told in ((outside, "a link out of the folder"), (outside.parent, "a link to a folder")):
        link.unlink()
        link.symlink_to(target)
        with pytest.raises(DataError, match=told) as caught:
            Pictures().open(folder)
        assert str(link) in str(caught.value)
    link.unlink()
    link.symlink_to(folder / "nowhere.png")
    with pytest.raises(DataError, match=r"b\.png: no such file"):
        found(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="there such names do not exist")
@pytest.mark.parametrize("name", ["a b.png", "a\nb.png", "'\".png", "ä😀.png", "a\udcff.png", "%s {}.png", "-n.png"])
def test_odd_names(name: str, tmp_path: Path) -> None:
    try:
        picture(tmp_path / "x" / name, 5)
    except (OSError, UnicodeEncodeError):
        pytest.skip("this file system has no such names")
    ((key, value, _),) = found(tmp_path)
    assert value == 5
    assert key.encode() == b"x/" + name.encode("utf-8", "backslashreplace")


# Lists


def test_a_list_with_names_of_classes(tmp_path: Path) -> None:
    for number, name in enumerate(["a b.png", "in/c.png"]):
        picture(tmp_path / name, number)
    path = tmp_path / "list.txt"
    path.write_bytes("\ufeffa b.png dog\r\n\r\n  in/c.png\tbig cat \r\n".encode())
    assert Pictures.fits(path)
    assert found(path) == [("a b.png", 0, "dog"), ("in/c.png", 1, "big cat")]


def test_a_list_without_labels_and_one_with_another_root(tmp_path: Path) -> None:
    picture(tmp_path / "in/a.png", 4)
    path = tmp_path / "list.txt"
    path.write_text(f"a.png\n{tmp_path / 'in/a.png'}\n")
    records = found(path, root_folder=tmp_path / "in")
    assert [record[1:] for record in records] == [(4, "-1"), (4, "-1")]
    with pytest.raises(DataError, match=r"a\.png: no such file"):
        found(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "this list is empty"),
        ("a.png 1\nb.txt 2", "line 2 is neither the path of a picture nor a path and a label: 'b.txt 2'"),
        ("a.png\0 1", "line 1 is neither"),
        ("a.png big cat", "line 1 is neither"),
        ("a.png 1\nb.png", "line 2 has no label, but the first picture has a number as its label"),
        ("a.png 1\nb.png x", "line 2 has the name of a class, but the first picture has a number"),
        ("a.png\nb.png 1", "line 2 has a number as its label, but the first picture has no label"),
        (b"a.png \xff", "this is not a list of pictures"),
    ],
)
def test_a_list_that_is_wrong_is_told(text: str | bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=told) as caught:
        Pictures().open(path)
    assert str(path) in str(caught.value)


def test_a_list_of_other_files_is_not_taken_for_one_of_pictures(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    for text in ("train.h5\n", "", "\xff"):
        path.write_text(text)
        assert not Pictures.fits(path)
    assert not Pictures.fits(tmp_path / "no.txt")


def test_the_source_data_reads_folders_and_lists(tmp_path: Path) -> None:
    for number in range(4):
        picture(tmp_path / f"{number}.png", number, (4 + number, 5))
    path = tmp_path / "list.txt"
    path.write_text("".join(f"{number}.png {10 * number}\n" for number in range(4)))
    layer = DataLayer(source=str(path), shape=(3, 2, 2), batch_size=4, threads=3)
    with Net("n", [layer], backend="numpy") as net:
        net.feed()
        assert net.blob("label").tolist() == [0, 10, 20, 30]
        assert net.blob("data").shape == (4, 3, 2, 2)
        assert net.blob("data")[:, 2, 1, 1].tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match="may differ in shape"):
        Net("n", [DataLayer(source=str(path), batch_size=4)], backend="numpy")


# Bad files


def test_a_bad_picture_is_named(tmp_path: Path) -> None:
    picture(tmp_path / "x/a.png")
    (tmp_path / "x/b.png").write_bytes(b"no picture")
    for sources in ([tmp_path], [tmp_path, tmp_path]):
        with open_records(sources, shapes={"data": (1, 2, 2)}) as reader, pytest.raises(DataError) as caught:
            list(reader.rows())
        assert str(caught.value).startswith(f"{tmp_path}: x/b.png: this is not a picture that can be read")


def test_a_picture_that_is_gone_is_told(tmp_path: Path) -> None:
    path = picture(tmp_path / "x/a.png")
    with Pictures().open(tmp_path) as reader:
        path.unlink()
        with pytest.raises(DataError, match=r"a\.png: no such file"):
            next(iter(reader.rows()))
        path.mkdir()
        with pytest.raises(DataError, match=r"a\.png: not a file"):
            next(iter(reader.rows()))


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    picture(tmp_path / "x/a.png")
    (tmp_path / "x").chmod(0)
    try:
        with pytest.raises(DataError, match="cannot be read"):
            Pictures().open(tmp_path)
    finally:
        (tmp_path / "x").chmod(0o700)


# Writing


def written(path: Path, fields: dict[str, Field], rows: dict[str, Any]) -> Path:
    with Pictures().create(path, fields) as writer:
        writer.append(rows)
    return path


def test_names_are_numbers_and_empty_classes_have_folders(tmp_path: Path) -> None:
    data = np.arange(3, dtype=np.uint8)[:, None, None, None]
    fields = {"data": Field((1, 1, 1), "uint8"), "label": Field((), "int64", ("a", "b", "c"))}
    path = written(tmp_path / "new", fields, {"data": data, "label": np.array([2, 0, 2])})
    assert found(path) == [("a/00000001.png", 1, "a"), ("c/00000000.png", 0, "c"), ("c/00000002.png", 2, "c")]
    assert Pictures().open(path).fields["label"].classes == ("a", "b", "c")


def test_pictures_keep_the_names_of_records(tmp_path: Path) -> None:
    keys = ["cat/IMG 1.JPG", "dog/in/img 1.jpeg", "a.tar: x.png", "C:\\y.png", "id 7", "../.hidden.png", "/", "z" * 300]
    named = ["IMG 1", "img 1-00000001", "x", "y", "id 7", "00000005", "00000006", "00000007"]
    data = np.zeros((8, 1, 1, 1), np.uint8)
    with Pictures().create(tmp_path / "pixels", {"data": Field((1, 1, 1), "uint8")}) as writer:
        writer.append({"data": data}, keys)
    assert [name for name, *_ in found(tmp_path / "pixels")] == sorted(f"{name}.png" for name in named)
    with Pictures().create(tmp_path / "bytes", {"data": Field(None, "uint8", codec="Picture")}) as writer:
        writer.append({"data": [b"broken, but copied"] * 2}, keys[:2])
    assert sorted(path.name for path in (tmp_path / "bytes").iterdir()) == ["IMG 1.JPG", "img 1.jpeg"]


def test_names_of_files_stay_and_none_replaces_another(tmp_path: Path) -> None:
    files = ["a-00000002.png", "a.png", "A.png", "12:30.png", "../b:c.png", ".d.png", "e\0.png", f"{'n' * 252}.png"]
    files += [f"{'n' * 251}.png", f"{'N' * 251}.png", "f\ud800.png"]
    named = ["a-00000002", "a", "00000002", "12:30", "b:c", *(f"{number:08d}" for number in (5, 6, 7))]
    named += ["n" * 251, "00000009", "00000010"]
    with Pictures().create(tmp_path / "new", {"data": Field((1, 1, 1), "uint8")}) as writer:
        writer.append({"data": np.zeros((len(files), 1, 1, 1), np.uint8)}, [FileKey("x", file) for file in files])
    assert [name for name, *_ in found(tmp_path / "new")] == sorted(f"{name}.png" for name in named)


def test_labels_without_names_stay_as_they_are(tmp_path: Path) -> None:
    fields = {"x": Field((1, 1, 1), "uint8"), "y": Field((1,), "int32")}
    path = written(tmp_path / "new", fields, {"x": np.zeros((2, 1, 1, 1), np.uint8), "y": np.array([[11], [2]])})
    with open_records([path]) as reader:
        assert [int(row["label"]) for row in reader.rows()] == [2, 11]


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    for ending in ("jpg", "gif", "webp", "png"):
        Image.new("L", (3, 2), 9).save(tmp_path / f"a.{ending}")
        data = (tmp_path / f"a.{ending}").read_bytes()
        path = written(tmp_path / ending, {"data": Field(None, "uint8", codec="Picture")}, {"data": [data]})
        assert (path / f"00000000.{ending}").read_bytes() == data


def test_pictures_of_different_sizes_are_written(tmp_path: Path) -> None:
    records = [np.zeros((1, 2, 3), np.uint8), np.ones((3, 4, 1), np.uint8)]
    path = written(tmp_path / "new", {"data": Field(None, "uint8")}, {"data": records})
    with open_records([path]) as reader:
        for row, expected in zip(reader.rows(), records, strict=True):
            np.testing.assert_array_equal(row["data"], expected)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "cannot hold no field"),
        ({"data": Field((3, 4, 5), "float32")}, r"cannot hold 'data' of shape \(3, 4, 5\) and type float32"),
        ({"data": Field((2, 4, 5), "uint8")}, "cannot hold"),
        ({"a": Field((1, 2, 2), "uint8"), "b": Field((1, 2, 2), "uint8")}, "cannot hold"),
        ({**FIELDS, "more": Field((), "int64")}, "cannot hold"),
        ({**FIELDS, "label": Field((), "float32")}, "cannot hold"),
        ({**FIELDS, "label": Field((), "int64", ("a/b",))}, "the class 'a/b' cannot be the name of a folder"),
        ({**FIELDS, "label": Field((), "int64", (".a",))}, "the class '.a' cannot"),
        ({**FIELDS, "label": Field((), "int64", ("",))}, "the class '' cannot"),
    ],
)
def test_what_a_folder_cannot_hold_is_told(fields: dict[str, Field], told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told) as caught:
        Pictures().create(tmp_path / "new", fields)
    assert str(tmp_path / "new") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("label", [-1, 2, 70000])
@pytest.mark.parametrize("classes", [(), ("cat", "dog")])
def test_a_label_without_a_folder_is_told(label: int, classes: tuple[str, ...], tmp_path: Path) -> None:
    fields = {"data": Field((1, 1, 1), "uint8"), "label": Field((), "int64", classes)}
    rows = {"data": np.zeros((1, 1, 1, 1), np.uint8), "label": np.array([label])}
    if label == 2 and not classes:
        assert [path.name for path in sorted(written(tmp_path / "new", fields, rows).iterdir())] == ["0", "1", "2"]
        return
    with pytest.raises(DataError, match=rf"record 0 has the label {label}"):
        written(tmp_path / "new", fields, rows)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_appended_and_nothing_is_replaced(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing can be appended"):
        Pictures().create(tmp_path / "new", FIELDS, append=True)
    picture(tmp_path / "old/a.png")
    with pytest.raises(DataError, match="it exists already, and a folder is not replaced"):
        Pictures().create(tmp_path / "old", FIELDS)
    assert (tmp_path / "old/a.png").exists()


def test_two_writers_of_one_folder(tmp_path: Path) -> None:
    """The second takes the folder of the first for one that was left behind: the first is told, and adds nothing."""
    fields = {"data": Field((3, 4, 4), "uint8"), "label": Field((), "int64")}

    def rows(count: int) -> dict[str, Any]:
        return {"data": np.zeros((count, 3, 4, 4), np.uint8), "label": np.zeros(count, np.int64)}

    other, first = (Pictures().create(tmp_path / "new", fields) for _ in range(2))
    second = Pictures().create(tmp_path / "new", fields)
    second.append(rows(2))
    with pytest.raises(DataError, match="new: another process writes this folder too\n  use another name"):
        first.append(rows(3))
    with pytest.raises(DataError, match="another process writes this folder too"):
        first.close(commit=True)
    other.close(commit=False)
    second.append(rows(2))
    second.close(commit=True)
    assert len(list((tmp_path / "new/0").iterdir())) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    picture(tmp_path / ".new.tmp/cat/00000009.png")
    rows = {"data": np.zeros((1, 3, 4, 5), np.uint8), "label": np.array([0])}
    assert [key for key, *_ in found(written(tmp_path / "new", FIELDS, rows))] == ["cat/00000000.png"]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 12)), min_size=1, max_size=8), st.booleans())
def test_what_is_written_is_read_again(records: list[tuple[int, int]], named: bool) -> None:
    """Class by class, in the order in which they were written."""
    classes = tuple(sorted(f"class {number}" for number in range(13))) if named else ()
    values, labels = (np.array(column) for column in zip(*records, strict=True))
    fields = {"data": Field((1, 2, 2), "uint8"), "label": Field((), "int64", classes)}
    with tempfile.TemporaryDirectory() as folder:
        rows = {"data": np.broadcast_to(values.astype(np.uint8)[:, None, None, None], (len(records), 1, 2, 2))}
        path = written(Path(folder) / "new", fields, {**rows, "label": labels})
        order = np.argsort(labels, kind="stable")
        again = found(path)
    assert [value for _, value, _ in again] == values[order].tolist()
    assert [label for *_, label in again] == [classes[one] if named else str(one) for one in labels[order].tolist()]
