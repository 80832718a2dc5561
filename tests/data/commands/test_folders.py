"""The commands of `nacre data` with folders of pictures."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from command_line import SCRIPT, run
from nacre import Field
from nacre_data import HDF5

CLASSES = ("cat", "cow", "dog")


@pytest.fixture(autouse=True)
def pictures(folder: Path) -> np.ndarray:
    """Write pictures as HDF5 and as a folder; return them."""
    pixels = np.random.default_rng(2).integers(0, 256, (30, 3, 4, 5)).astype(np.uint8)
    with HDF5().create(
        Path("some.h5"), {"data": Field((3, 4, 5), "uint8"), "label": Field((), "int64", CLASSES)}
    ) as file:
        file.append({"data": pixels, "label": np.arange(30) // 10})
    told = run("data", "convert", "some.h5", "some", "--to-store", "Pictures").out
    assert told == "wrote some: 30 records, data uint8 differs; label int64 ()\n"
    return pixels


def test_pictures_come_back_with_the_same_pixels_and_classes(pictures: np.ndarray) -> None:
    assert sorted(path.name for path in Path("some").iterdir()) == list(CLASSES)
    run("data", "convert", "some", "back.h5")
    with h5py.File("back.h5") as file:
        assert (file["data"][()] == pictures).all()
        assert (file["label"][()] == np.arange(30) // 10).all()
        assert tuple(file["label"].attrs["classes"]) == CLASSES


def test_pictures_of_different_sizes_need_a_shape(pictures: np.ndarray) -> None:
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save("some/cow/large.png")
    error = run("data", "convert", "some", "back.h5", code=2).err
    assert "--shape gives all records of 'data' one shape" in error
    run("data", "convert", "some", "back.h5", "--shape", "3,4,5")
    with h5py.File("back.h5") as file:
        assert file["data"].shape == (31, 3, 4, 5)


def test_bad_pictures_are_listed_by_their_paths() -> None:
    Path("some/cat/00000000.png").write_bytes(b"no picture")
    Path("some/dog/cut.png").write_bytes(Path("some/dog/00000029.png").read_bytes()[:60])
    told = run("data", "verify", "some", "--json", code=2).json
    assert told["records"] == 31
    assert [one["key"] for one in told["bad"]] == ["cat/00000000.png", "dog/cut.png"]
    assert all(one["reason"].startswith("this is not a picture that can be read") for one in told["bad"])


def test_they_are_shown_and_split_and_have_a_mean(pictures: np.ndarray) -> None:
    out = run("data", "show", "some", "--picture", "sheet.png").out
    assert "data   differs  uint8" in out
    assert "    1  cow         10  33.33 %" in out
    with Image.open("sheet.png") as image:
        sheet = np.asarray(image)
    assert (sheet[:4, 7:12] == np.moveaxis(pictures[1], 0, -1)).all()
    out = run("data", "split", "some", "--part", "a=0.8", "--part", "b=0.2", "--to-store", "Pictures").out
    assert out == "wrote a: 24 records\nwrote b: 6 records\n"
    assert [len([*Path("b", name).iterdir()]) for name in CLASSES] == [2, 2, 2]
    run("data", "mean", "some", "mean.h5", "--shape", "3,4,5")
    with h5py.File("mean.h5") as file:
        assert file["mean"][()] == pytest.approx(pictures.mean(axis=0), abs=1e-12)


def names(folder: str) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


def test_parts_of_a_folder_are_folders_of_the_same_files() -> None:
    Path("some/cat/broken.jpg").write_bytes(b"copied all the same")
    whole = names("some")
    told = run("data", "split", "some", "--part", "new/parts/a=0.5", "--part", "new/parts/b=0.5").out
    assert told == "wrote new/parts/a: 16 records\nwrote new/parts/b: 15 records\n"
    assert sorted(names("new/parts/a") + names("new/parts/b")) == whole
    for part in ("new/parts/a", "new/parts/b"):
        assert sorted(path.name for path in Path(part).iterdir()) == list(CLASSES)
        assert all(Path(part, name).read_bytes() == Path("some", name).read_bytes() for name in names(part))
    run("data", "convert", "new/parts/a", "copy", "--to-store", "Pictures")
    assert names("copy") == names("new/parts/a")


@pytest.mark.skipif(sys.platform != "linux", reason="not all names are possible there")
def test_names_of_pictures_stay_as_they_are() -> None:
    odd = ["2024-01-01 12:31:05.png", "x: y.PNG", "a\\b.png", "caf\udce9.png", " x .png", f"{'n' * 251}.png", "a\n.png"]
    for number, folder in enumerate(["odd/cat", "odd/c\udce9", "more/cat"]):
        Path(folder).mkdir(parents=True)
        for name in odd:
            Path(folder, name).write_bytes(Path(f"some/cow/{number + 10:08d}.png").read_bytes())
    whole = names("odd")
    run("data", "convert", "odd", "copy", "--to-store", "Pictures")
    assert names("copy") == whole
    told = run("data", "split", "odd", "--part", "a=0.5", "--part", "b=0.5", "--json").out
    assert told.isascii() and sorted(names("a") + names("b")) == whole
    run("data", "convert", "odd", "more", "both", "--to-store", "Pictures")
    found = {Path("both", name).read_bytes() for name in names("both")}
    assert {*whole} <= {*names("both")} and len(names("both")) == len(odd) * 3 and len(found) == 3
    run("data", "convert", "odd/cat/x: y.PNG", "one", "--to-store", "Pictures")
    assert names("one") == ["x: y.PNG"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
@pytest.mark.parametrize("target", ["new.h5", "new.csv", "new.jsonl"])
def test_classes_that_are_not_utf_8_are_told(target: str) -> None:
    Path("some/cat").rename("some/c\udce9")
    error = run("data", "convert", "some", target, "--shape", "3,4,5", code=2).err
    assert error.startswith(f"error: {target}: ") and r"the class 'c\udce9'" in error and "rename the class" in error
    assert not Path(target).exists()
    told = run("data", "convert", "some", "copy", "--to-store", "Pictures", "--json")
    assert "c\udce9" in told.json["fields"]["label"]["classes"] and r'"c\udce9"' in told.out


def test_a_list_of_pictures_is_divided_into_folders() -> None:
    Path("list.txt").write_text("".join(f"some/{name} {name[0]}\n" for name in names("some")))
    shape = ["--shape", "3,4,5"]
    run("data", "split", "list.txt", "--part", "a=0.5", "--part", "b.h5=0.5", *shape)
    run("data", "split", "list.txt", "--part", "c=0.5", "--part", "d=0.5")
    assert [sorted(path.name for path in Path(part).iterdir()) for part in "acd"] == [["c", "d"]] * 3
    assert names("a") == names("c")
    assert Path("b.h5").is_file()


def test_no_part_lies_in_its_source() -> None:
    error = run("data", "split", "some", "--part", "some/a=0.5", "--part", "some/new/b=0.5", code=2).err
    assert "some/a: it is in the source some, whose records it would be the next time" in error
    assert sorted(path.name for path in Path("some").iterdir()) == list(CLASSES)


def test_a_folder_of_pictures_is_not_replaced() -> None:
    before = names(".")
    error = run("data", "convert", "some.h5", "some", "--to-store", "Pictures", "--overwrite", code=2).err
    assert error.startswith("error: some: it exists already, and a folder is not replaced")
    assert names(".") == before


def test_folders_that_were_made_for_nothing_are_gone() -> None:
    error = run("data", "split", "some", "--part", "new/parts/a=0.5", "--part", "new/b.odd=0.5", code=2).err
    assert "new/b.odd: no store is installed for files that end in '.odd'" in error
    assert not Path("new").exists()
    Path("file").touch()
    assert "file/a: cannot be made" in run("data", "convert", "some", "file/a/b.h5", code=2).err


def test_warnings_of_stores_are_printed_as_those_of_commands() -> None:
    Path("some/pig").mkdir()
    Path("some/pig/1.HEIC").touch()
    done = subprocess.run([*SCRIPT, "data", "verify", "some"], capture_output=True, text=True, check=True)
    assert done.stdout == "30 records: all can be used\n"
    told = (
        "warning: some: class 'pig' has no picture; of 1 files with other endings, such as '1.HEIC', nothing is read; "
    )
    assert done.stderr.startswith(told) and done.stderr.count("\n") == 1


# What may not be looked into


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that takes the permissions of a folder away, also from root."""

    def make(folder: str) -> None:
        closed = Path(folder).absolute()

        def denying(function: Callable[..., Any], *, itself: bool) -> Callable[..., Any]:
            def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
                if isinstance(path, str | Path):
                    whole = Path(path).absolute()
                    if closed in whole.parents or (itself and whole == closed):
                        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
                return function(path, *arguments, **options)

            return call

        monkeypatch.setattr(os, "stat", denying(os.stat, itself=False))
        monkeypatch.setattr(os, "scandir", denying(os.scandir, itself=True))

    return make


DENIED = "cannot be read: Permission denied\n  check the folder and its permissions, or use another one\n"


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_folder_that_may_not_be_looked_into_is_told(command: str, close: Callable[[str], None]) -> None:
    close("some")
    assert run("data", command, "some", code=2).err == f"error: some: {DENIED}"
    for name in ("some/a.h5", "some/a.csv", "some/a.xyz"):
        assert run("data", command, name, code=2).err == f"error: {name}: {DENIED}"


def test_a_folder_of_a_class_that_may_not_be_looked_into_is_told(close: Callable[[str], None]) -> None:
    for name in ("cow", "dog"):
        for file in Path("some", name).iterdir():
            file.unlink()
    close("some/cat")
    assert run("data", "show", "some", code=2).err == f"error: some/cat: {DENIED}"


def test_a_target_in_a_folder_that_may_not_be_looked_into_is_told(close: Callable[[str], None]) -> None:
    close("some")
    remedy = "check the folder and its permissions, or use another one"
    error = run("data", "show", "some.h5", "--picture", "some/x.png", code=2).err
    assert error == f"error: some/x.png: Permission denied\n  {remedy}\n"


def test_a_folder_that_cannot_be_written_is_no_question_of_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", denied)
    error = run("data", "convert", "some", "there", "--to-store", "Pictures", code=2).err
    remedy = "check the folder and its permissions, or use another one"
    assert error == f"error: there: cannot be written: Permission denied\n  {remedy}\n"
