"""`nacre data show`."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from command_line import run

Arrays = dict[str, np.ndarray]


def test_the_table_and_the_classes() -> None:
    with h5py.File("some.h5", "w") as file:
        file["x"] = np.array([[1, 2], [3, 6]], np.float32)
        file["label"] = np.array([1, 1], np.uint8)
        file["label"].attrs["classes"] = ["dog", "cat"]
    assert run("data", "show", "some.h5").out == (
        "HDF5: 2 records\n"
        "\n"
        "field  shape  type     minimum  maximum  mean  deviation\n"
        "-----  -----  -------  -------  -------  ----  ---------\n"
        "label  ()     uint8          1        1     1          0\n"
        "x      (2,)   float32        1        6     3    1.87083\n"
        "\n"
        "label  class  records     share\n"
        "-----  -----  -------  --------\n"
        "    0  dog          0    0.00 %\n"
        "    1  cat          2  100.00 %\n"
    )


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a,kind\n1,\n", "fill = 0"),
        ("a;b\n1,5;2\n", 'separator = ";", decimal = ","'),
        ("1,b\n3,4\n", "header = true"),
    ],
)
def test_what_a_table_needs_is_said_with_its_store(text: str, options: str) -> None:
    Path("some.csv").write_text(text)
    done = run("data", "show", "some.csv", code=2)
    error = done.err or done.out  # of a record that cannot be read the others may be shown
    names = ", ".join(f"{name} = ..." for name in re.findall(r"(\w+) =", options))
    assert error.endswith(f"\n  it is said by --store '{{type = \"CSV\", {names}}}'\n")
    store = f'{{type = "CSV", {options}}}'
    assert run("data", "show", "some.csv", "--store", store).out.startswith("CSV: 1 record\n")


@pytest.mark.parametrize("ending", ["h5", "lines", "stream"])
def test_the_numbers_are_those_of_all_records(ending: str, train: Arrays) -> None:
    if ending != "h5":
        run("data", "convert", "train.h5", f"train.{ending}")
    told = run("data", "show", f"train.{ending}", "--json").json
    assert (told["records"], told["read"]) == (60, 60)
    found, data = told["fields"]["data"], train["data"].astype(np.float64)
    assert (found["shape"], found["type"], found["classes"]) == ([1, 2, 4], "float32", None)
    assert (found["minimum"], found["maximum"]) == (data.min(), data.max())
    assert found["mean"] == pytest.approx(data.mean(), rel=1e-12)
    assert found["deviation"] == pytest.approx(data.std(), rel=1e-12)
    assert told["fields"]["label"]["classes"] == [
        {"number": number, "name": name, "records": 20} for number, name in enumerate(("dog", "cat", "cow"))
    ]


def test_a_deviation_far_from_zero_is_exact() -> None:
    values = 1e9 + np.arange(1000) % 7
    np.save("far.npy", values)
    found = run("data", "show", "far.npy", "--json").json["fields"]["data"]
    assert found["deviation"] == pytest.approx((np.arange(1000) % 7).std(), rel=1e-9)


def test_numbers_that_are_not_finite_are_counted_and_left_out() -> None:
    np.save("odd.npy", np.array([[1.0, np.nan], [np.inf, 3.0]]))
    out = run("data", "show", "odd.npy").out
    assert "data: 2 numbers are not finite" in out
    found = run("data", "show", "odd.npy", "--json").json["fields"]["data"]
    assert (found["minimum"], found["maximum"], found["mean"], found["not_finite"]) == (1, 3, 2, 2)
    np.save("none.npy", np.array([np.nan]))
    found = run("data", "show", "none.npy", "--json").json["fields"]["data"]
    assert (found["minimum"], found["mean"], found["deviation"]) == (None, None, None)


def test_names_with_blanks_at_their_ends_are_in_quotes() -> None:
    Path("blanks.csv").write_text("x,label\n1,b\n2,b \n3, b\n4,c d\n")
    shown = run("data", "show", "blanks.csv").out
    assert re.findall(r"^ +\d  (.*?)  +1  ", shown, re.MULTILINE) == ["' b'", "b", "'b '", "c d"]
    Path("missing.csv").write_text("x,kind\n1,\n2,b\n")
    shown = run("data", "show", "missing.csv", "--store", '{type = "CSV", fill = 0}').out
    assert re.findall(r"^ +\d  (.*?)  +1  ", shown, re.MULTILINE) == ["''", "b"]


def test_many_classes_are_not_listed() -> None:
    Path("texts.csv").write_text("text,label\n" + "".join(f"text {number},x\n" for number in range(101)))
    told = run("data", "show", "texts.csv").out
    assert "\ntext: 101 classes, such as text 0; --json lists them\n" in told
    assert "text 1\n" not in told and "    0  x          101  100.00 %" in told


def test_whole_numbers_that_count_no_classes_are_not_listed() -> None:
    np.save("many.npy", np.arange(1001))
    assert run("data", "show", "many.npy", "--json").json["fields"]["data"]["classes"] is None
    np.save("few.npy", np.array([[7], [-3], [7]]))
    classes = run("data", "show", "few.npy", "--json").json["fields"]["data"]["classes"]
    assert classes == [{"number": -3, "name": "", "records": 1}, {"number": 7, "name": "", "records": 2}]


def test_the_first_records_alone(train: Arrays) -> None:
    run("data", "convert", "train.h5", "train.stream")
    for file, total in (("train.h5", 60), ("train.stream", None)):
        told = run("data", "show", file, "--limit", "5", "--json").json
        assert (told["records"], told["read"]) == (total, 5)
        assert told["fields"]["data"]["maximum"] == train["data"][:5].max()
    assert "HDF5: 60 records\nthe first 5 records:\n" in run("data", "show", "train.h5", "--limit", "5").out
    assert "Stream: an unknown number of records\n" in run("data", "show", "train.stream", "--limit", "5").out


def test_an_empty_set_is_shown() -> None:
    np.save("empty.npy", np.empty((0, 1, 2, 2)))
    assert "NPY: 0 records" in run("data", "show", "empty.npy").out
    error = run("data", "show", "empty.npy", "--picture", "x.png", code=2).err
    assert error == "error: empty.npy: there are no records, so there is no picture\n"


def test_the_first_pictures_are_one_png() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (70, 3, 5, 4)).astype(np.uint8)
    np.save("many.npy", pixels)
    out = run("data", "show", "many.npy", "--picture", "many.png").out
    assert out.endswith("wrote many.png: the first 64 records\n")
    with Image.open("many.png") as image:
        sheet = np.asarray(image)
    assert sheet.shape == (8 * 7 - 2, 8 * 6 - 2, 3)
    for number in (0, 7, 8, 63):
        row, column = divmod(number, 8)
        found = sheet[row * 7 : row * 7 + 5, column * 6 : column * 6 + 4]
        assert (found == np.moveaxis(pixels[number], 0, -1)).all()
    assert (sheet[5:7] == 255).all()
    error = run("data", "show", "many.npy", "--picture", "many.png", code=2).err
    assert "many.png: it is there already" in error
    run("data", "show", "many.npy", "--picture", "many.png", "--limit", "2", "--overwrite")
    with Image.open("many.png") as image:
        assert image.size == (2 * 6 - 2, 5)


def test_other_numbers_become_greys_from_the_least_to_the_largest() -> None:
    for pixels, seen in (
        (np.array([[[[-1.0, 0.0]]], [[[1.0, np.nan]]]]), [0, 128, 255, 0]),
        (np.array([[[[0, 16]]], [[[8, 0]]]], np.uint8), [0, 255, 128, 0]),
        (np.array([[[[0, 64]]], [[[8, 0]]]], np.uint8), [0, 64, 8, 0]),
    ):
        np.save("grey.npy", pixels)
        run("data", "show", "grey.npy", "--picture", "grey.png", "--overwrite")
        with Image.open("grey.png") as image:
            assert np.asarray(image)[0, [0, 1, 4, 5], 0].tolist() == seen


def test_pictures_of_different_sizes_and_large_ones_fit() -> None:
    Path("some.packets").write_bytes(b"1" * 600 + b"\n234\n")
    out = run("data", "show", "some.packets", "--picture", "some.png").out
    assert "data   differs  uint8        1        4" in out
    with Image.open("some.png") as image:
        assert image.size == (2 * 256 + 2, 1)


def test_what_is_no_picture_is_told() -> None:
    np.save("flat.npy", np.zeros((3, 4)))
    error = run("data", "show", "flat.npy", "--picture", "x.png", code=2).err
    assert "flat.npy: no field looks like a picture, (1 or 3, rows, columns): data (4,)" in error
    error = run("data", "show", "train.h5", "--picture", "x.gif", code=2).err
    assert "--picture x.gif: the name must end in .png" in error
    assert not Path("x.png").exists()


def test_pictures_that_cannot_be_read_are_named_and_the_others_shown() -> None:
    for name, number in (("cat/a", 10), ("cat/b", 20), ("dog/c", 30), ("dog/d", 40)):
        Path("pets", name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (3, 2 + number // 20), number).save(f"pets/{name}.png")
    Path("pets/cat/a.png").write_bytes(b"")  # also the first one, which tells what the fields are
    Path("pets/dog/d.png").write_text("a text")
    done = run("data", "show", "pets", "--picture", "pets.png", code=2)
    assert re.search(r"data +differs +uint8 +20 +30 ", done.out)
    assert "wrote pets.png: the first 2 records\n" in done.out
    assert re.search(r"cat/a\.png +this is not a picture .*dog/d\.png +this is not a picture ", done.out, re.DOTALL)
    assert re.search(r"\n2 of 4 records cannot be read\n  write it again as PNG, or take it out.*\n$", done.out)
    told = run("data", "show", "pets", "pets", "--json", code=2).json
    assert (told["records"], told["read"]) == (8, 8)
    assert [one["record"] for one in told["bad"]] == [0, 3, 4, 7]
    assert told["bad"][3]["key"] == "pets: dog/d.png"
    assert told["bad"][3]["reason"].startswith("this is not a picture")
    assert [one["records"] for one in told["fields"]["label"]["classes"]] == [2, 2]
    assert run("data", "show", "pets", "--limit", "1", "--json", code=2).json["bad"] == [
        {"key": "cat/a.png", "reason": told["bad"][0]["reason"], "record": 0}
    ]


def test_records_without_numbers_are_shown_up_to_the_first_that_cannot_be_read() -> None:
    run("data", "convert", "train.h5", "train.stream")
    lines = Path("train.stream").read_text().splitlines()
    lines[6] = "{"
    Path("train.stream").write_text("\n".join(lines))
    told = run("data", "show", "train.stream", "--json", code=2).json
    assert (told["read"], [(one["record"], one["reason"]) for one in told["bad"]]) == (6, [(5, "this is not JSON")])
    assert sum(one["records"] for one in told["fields"]["label"]["classes"]) == 5


def test_of_many_bad_records_the_first_are_listed() -> None:
    run("data", "convert", "train.h5", "train.lines")
    head, *lines = Path("train.lines").read_text().splitlines()
    Path("train.lines").write_text("\n".join([head, *lines[:10], *["{"] * 50]))
    told = run("data", "show", "train.lines", code=2).out
    assert told.count("this is not JSON") == 20
    assert "\n50 of 60 records cannot be read; nacre data verify lists all\n" in told
