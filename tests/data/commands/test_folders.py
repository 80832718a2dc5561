"""The commands of `nacre data` with folders of pictures."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from command_line import run
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
