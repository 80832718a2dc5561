"""`nacre predict` for files with records that cannot be read, or of which nothing can be computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import run
from nacre import Input, L, Net

SCALE = "scale the numbers, such as (x - x.mean(0)) / x.std(0)"
NOT_ONE = "this is not a picture that can be read"


@pytest.fixture
def pictures(folder: Path) -> Path:
    """Return a folder with two good pictures and two bad ones, one of them the first; a net is beside it."""
    image = pytest.importorskip("PIL.Image")
    data, label = Input((3, 4, 4)), Input(dtype="int64")
    score = L.InnerProduct(output_dim=2)(data)
    net = Net("pets", [L.SoftmaxLoss(exclude="predict")(score, label), L.Softmax(name="prob")(score)], backend="numpy")
    net.save("pets.nacre")
    some = folder / "some"
    some.mkdir()
    random = np.random.default_rng(0)
    for name in ("b.png", "d.png"):
        image.fromarray(random.integers(0, 256, (4, 4, 3), np.uint8)).save(some / name)
    (some / "a.png").write_text("no picture")
    image.fromarray(np.full((4, 4, 4), 100, np.uint8)).save(some / "c.png")  # transparent
    return Path("some")


def test_numbers_too_large_are_told(folder: Path) -> None:
    net = Net("t", [L.Softmax(name="prob")(L.InnerProduct(output_dim=2)(Input((2,), name="data")))], backend="numpy")
    net.save("t.nacre")
    np.save("some.npy", np.array([[1, 2], [1e39, 2], [3, 4]]))
    lines = run("predict", "t.nacre", "some.npy", "--batch-size", 3, code=2).out.splitlines()
    assert [" error: " in line for line in lines] == [False, True, False]
    assert lines[1] == "1: error: 'data' has a number too large for float32; " + SCALE
    np.save("some.npy", np.array([[0, 0], [1e-10, 2]]))
    lines = run("predict", "t.nacre", "some.npy", "--divide", 1e-320, code=2).out.splitlines()
    large = "error: some.npy: 'data' has a number that is too large when divided by 9.99989e-321; correct --divide"
    assert lines[0].endswith(" %") and lines[1] == f"1: {large}"


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_bad_picture_is_told_and_the_others_are_answered(pictures: Path, size: int) -> None:
    done = run("predict", "pets.nacre", pictures, "--batch-size", size, code=2)
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == ["a.png", "b.png", "c.png", "d.png"]
    assert lines[0].startswith(f"a.png  error: {NOT_ONE}") and "; write it again as PNG" in lines[0]
    assert lines[2].startswith("c.png  error: it is transparent, ") and "; give a background" in lines[2]
    assert lines[1].endswith(" %") and lines[3].endswith(" %") and not done.err
    good = run("predict", "pets.nacre", pictures / "b.png", pictures / "d.png").out.splitlines()
    assert [lines[1], lines[3]] == [line.replace("some/", "") for line in good]
    told = run("predict", "pets.nacre", pictures, "--json", code=2).json
    assert [row["record"] for row in told] == [0, 1, 2, 3]
    assert [row["key"] for row in told] == ["a.png", "b.png", "c.png", "d.png"]
    assert [{*row} for row in told[:2]] == [{"record", "key", "error", "remedy"}, {"record", "key", "classes"}]
    assert told[0]["error"].startswith(f"some: a.png: {NOT_ONE}")


def test_a_bad_picture_among_files_is_told(pictures: Path) -> None:
    lines = run("predict", "pets.nacre", *sorted(pictures.iterdir()), code=2).out.splitlines()
    assert [line.split()[:2][1] == "error:" for line in lines] == [True, False, True, False]
    assert [line.split()[0] for line in lines] == [f"some/{name}.png" for name in "abcd"]
    lines = run("predict", "pets.nacre", pictures / "b.png", "absent.png", code=2).out.splitlines()
    assert lines[1].startswith("absent.png  error: no such file")


def test_pictures_beside_folders_need_no_classes(pictures: Path) -> None:
    (pictures / "more").mkdir()
    (pictures / "b.png").rename(pictures / "more/b.png")
    lines = run("predict", "pets.nacre", pictures, code=2).out.splitlines()
    assert [line.split()[0] for line in lines] == ["a.png", "c.png", "d.png", "more/b.png"]


def test_one_bad_picture_is_an_error(pictures: Path) -> None:
    for name in ("a.png", "c.png"):
        done = run("predict", "pets.nacre", pictures / name, code=2)
        assert done.err.startswith(f"error: some/{name}: ") and not done.out


def test_what_is_written_is_without_the_bad_ones(pictures: Path) -> None:
    done = run("predict", "pets.nacre", pictures, "--out", "prob.csv", code=2)
    assert done.out.endswith("wrote prob.csv: prob (2, 2), without the records with an error, 2\n")
    assert [line.split(",")[0] for line in Path("prob.csv").read_text().splitlines()] == ["", "b.png", "d.png"]
