"""`nacre test` and `nacre predict`: what a trained net says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from command_line import run
from record_files import read_records


def read_data(name: str = "test.h5") -> tuple[np.ndarray, np.ndarray]:
    with h5py.File(name) as file:
        return file["data"][...], file["label"][...]


def test_one_pass_over_the_test_data(trained: Path) -> None:
    done = run("test", "small.toml", trained)
    assert done.out.startswith("test, after 60 iterations: loss ")
    assert done.out.endswith("  accuracy: 100.00 % (27 of 27)\n")
    told = run("test", "small.toml", trained / "snapshot-000020.h5", "--phase", "validation", "--json").json
    assert (told["phase"], told["iterations"]) == ("validation", 20)
    assert told["statistics"]["accuracy"]["records"] == 27
    assert told["loss"] > 0


def test_layers_that_are_absent_in_the_test_are_passed_over(trained: Path) -> None:
    text = Path("small.toml").read_text()
    extra = (
        '[[layer]]\ntype = "InnerProduct"\nname = "side"\nbottoms = ["label"]\ntops = ["side"]\noutput_dim = 3\n'
        'exclude = ["validation", "test", "predict"]\n'
        '[[layer]]\ntype = "SoftmaxLoss"\nname = "side-loss"\nbottoms = ["side", "label"]\n'
        'exclude = ["validation", "test", "predict"]\n'
    )
    Path("side.toml").write_text(text.replace("[solver]", extra + "[solver]", 1))
    run("train", "side.toml", "--set", "callback.Snapshot.folder=side", "--json")
    assert run("test", "side.toml", "side", "--json").json["statistics"]["accuracy"]["accuracy"] == 1.0
    assert run("predict", "side.toml", "side", "test.h5").code == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["no"], "no: no such file"),
        (["."], "no snapshot-*.h5 in this folder"),
        (["test.h5"], "test.h5"),
        (["snapshots", "--set", "layer.ip1.output_dim=5"], "the snapshot does not fit net 'small': parameter 'ip1/"),
        (["snapshots", "--set", "layer.ip1.name=other"], "'other/weight' is missing"),
        (
            ["snapshots", "--set", 'layer.test.exclude=["test", "predict"]'],
            "layer 'ip1' reads blob 'data' of layers 'train' and 'test', absent in phase 'test'",
        ),
    ],
)
def test_what_cannot_be_tested(trained: Path, arguments: list[str], error: str) -> None:
    assert error in run("test", "small.toml", *arguments, code=2).err


def test_classes_and_percents_of_each_record(trained: Path) -> None:
    _, label = read_data()
    lines = run("predict", "small.toml", trained, "test.h5", "--top", 2).out.splitlines()
    assert len(lines) == 27
    for number, line in enumerate(lines):
        assert line.startswith(f"{number:2}: {label[number]} ")
        assert line.count(" %") == 2
    Path("names.txt").write_text("red\ngreen\nblue\n")
    named = run("predict", "small.toml", trained, "test.h5", "--classes", "names.txt").out.splitlines()
    assert named[1].startswith(" 1: green ")
    told = run("predict", "small.toml", trained, "test.h5", "--json").json
    assert [row["record"] for row in told] == list(range(27))
    assert [row["classes"][0]["class"] for row in told] == label.tolist()
    assert sum(one["percent"] for one in told[0]["classes"]) == pytest.approx(100, abs=0.01)


def test_a_lone_number_is_of_no_class(trained: Path) -> None:
    text = Path("small.toml").read_text()
    argmax = '[[layer]]\ntype = "Argmax"\nname = "argmax"\nbottoms = ["ip2"]\ntops = ["digit"]\n\n[solver]'
    Path("small.toml").write_text(text.replace("[solver]", argmax))
    _, label = read_data()
    asked = ("predict", "small.toml", trained, "test.h5", "--blob", "digit")
    assert run(*asked).out.splitlines() == [f"{number:2}: {one}" for number, one in enumerate(label)]
    assert run(*asked, "--json").json[1]["classes"] == [{"class": 0, "name": "", "value": label[1], "percent": None}]
    Path("names.txt").write_text("the digit")
    assert run(*asked, "--classes", "names.txt").out.startswith(f" 0: the digit {label[0]}\n")


@pytest.mark.parametrize("batch_size", [0, 1, 10, 400])
def test_every_way_in_says_the_same(trained: Path, batch_size: int) -> None:
    data, _ = read_data()
    np.save("all.npy", data)
    np.savetxt("all.csv", data.reshape(27, -1), delimiter=",", fmt="%.9g")
    np.save("first.npy", data[:20])
    np.save("last.npy", data[20:])
    size = ("--batch-size", batch_size) if batch_size else ()
    run("predict", "small.toml", trained, "test.h5", "--out", "wanted.npy")
    for inputs in (["all.npy"], ["all.csv"], ["first.npy", "last.npy"]):
        run("predict", "small.toml", trained, *inputs, "--out", "found.npy", *size)
        assert np.allclose(np.load("found.npy"), np.load("wanted.npy"), atol=1e-5)


def test_every_way_out_holds_the_same(trained: Path) -> None:
    both = ("predict", "small.toml", trained, "test.h5", "--blob", "prob,ip1", "--out")
    assert run(*both, "out.npz").out.endswith("wrote out.npz: prob (27, 3), ip1 (27, 12)\n")
    run(*both, "out.h5")
    with h5py.File("out.h5") as file, np.load("out.npz") as arrays:
        assert np.array_equal(file["prob"][...], arrays["prob"])
        assert np.array_equal(file["ip1"][...], arrays["ip1"])
        run("predict", "small.toml", trained, "test.h5", "--blob", "ip1", "--out", "out.csv")
        assert np.allclose(np.loadtxt("out.csv", delimiter=",", skiprows=1), arrays["ip1"], rtol=1e-6)


def test_blobs_that_are_no_probabilities_have_no_percents(trained: Path) -> None:
    out = run("predict", "small.toml", trained, "test.h5", "--blob", "ip2").out
    assert "%" not in out


def test_several_outputs_are_all_told(trained: Path) -> None:
    same = ("predict", "small.toml", trained, "test.h5", "--top", 1)
    lines = run(*same, "--blob", "prob,ip2").out.splitlines()
    prob, ip2 = (run(*same, "--blob", blob).out.splitlines() for blob in ("prob", "ip2"))
    assert len(lines) == 2 * len(prob) == 2 * 27
    for number in range(27):
        assert lines[2 * number] == prob[number].replace(": ", ": prob: ", 1)
        assert lines[2 * number + 1] == ip2[number].replace(": ", ": ip2: ", 1)
    told = run(*same, "--blob", "prob,ip2", "--json").json
    each = {blob: run(*same, "--blob", blob, "--json").json for blob in ("prob", "ip2")}
    assert told == [
        {
            "record": number,
            "key": str(number),
            "outputs": {blob: {"classes": one[number]["classes"]} for blob, one in each.items()},
        }
        for number in range(27)
    ]
    Path("names.txt").write_text("red\ngreen\nblue\n")
    named = run(*same, "--blob", "ip1,prob", "--classes", "names.txt").out.splitlines()
    assert named[3].startswith(" 1: prob: green ") and "red" not in named[2]
    Path("names.txt").write_text("red\n")
    err = run(*same, "--blob", "ip1,prob", "--classes", "names.txt", code=2).err
    assert "blob 'ip1' has 12 numbers per record and blob 'prob' has 3" in err


def test_the_training_data_need_not_be_there(trained: Path) -> None:
    data, label = read_data()
    np.save("some.npy", data[:3])
    np.savetxt("some.csv", data[:3].reshape(3, -1), delimiter=",")  # with all digits
    Path("train.h5").unlink()
    Path("test.h5").unlink()
    told = run("predict", "small.toml", trained, "some.npy", "--json").json
    assert [row["classes"][0]["class"] for row in told] == label[:3].tolist()
    assert run("predict", "small.toml", trained, "some.csv", "--json").json == told
    assert run("predict", "small.toml", trained, "some.csv", "--shape", "2,4", "--json").json == told
    wrong = run("predict", "small.toml", trained, "some.csv", "--shape", "2,5", code=2).err
    assert "the shape (8,), but --shape is (2, 5)\n" in wrong


def test_pictures(trained: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    text = Path("small.toml").read_text().replace("scale = 0.5", "scale = 1")
    Path("picture.toml").write_text(text)
    pixels = np.random.default_rng(0).integers(0, 255, (6, 8, 3), np.uint8)
    image.fromarray(pixels).save("colour.png")
    image.fromarray(pixels[..., 0]).save("grey.png")
    np.save("grey.npy", pixels[np.newaxis, np.newaxis, ..., 0] / 2)
    shape = ("--set", "layer.train.source=no.h5", "--set", "layer.test.source=no.h5", "--shape", "1,2,4")
    run("predict", "picture.toml", trained, "colour.png", "grey.png", *shape, "--out", "two.npy")
    assert np.load("two.npy").shape == (2, 3)
    same = ("--set", "layer.ip1.name=other", "--shape", "1,6,8", "--divide", "2")
    assert "does not fit" in run("predict", "picture.toml", trained, "grey.png", *same, code=2).err
    assert np.array_equal(read_records(Path("grey.png"), shape=(1, 6, 8)) / 2, np.load("grey.npy"))
    assert np.array_equal(read_records(Path("colour.png"), shape=(3, 6, 8))[0], np.moveaxis(pixels, -1, 0))


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [
        (None, "no.npy", "no.npy: no such file"),
        (b"no array", "bad.npy", "bad.npy: this is not a NumPy array"),
        (b"", "bad.npy", "bad.npy: this is not a NumPy array"),
        (b"\x93NUMPY\x01\x00", "bad.npy", "bad.npy: damaged: "),
        (b"no hdf5", "bad.h5", "bad.h5"),
        (
            b"1,2,3,4,5,6,7,x\n",
            "bad.csv",
            "bad.csv: line 1 has the text 'x' and the number '7', so that it is not clear whether it is a header",
        ),
        (b"1,2,3,4,5,6,7,8\n\n1,2\n", "bad.csv", "bad.csv: line 3 has 2 cells, but the first line has 8"),
        (b"1,2,3\n", "bad.csv", "bad.csv: its records have the shape (3,), but the net needs (2, 4)"),
        (b"\n", "bad.csv", "bad.csv: line 1: the table is empty"),
        (
            b"x",
            "bad.parquet",
            "bad.parquet: no store is installed for files that end in '.parquet'; known endings: ",
        ),
        (b"x", "bad.jpgg", "bad.jpgg: no store is installed for files that end in '.jpgg' (did you mean '.jpg'?)"),
        (b"x", "bad", "bad: its name has no ending; known endings: "),
        (b"no picture", "bad.png", "bad.png: this is not a picture that can be read"),
    ],
)
def test_bad_inputs(trained: Path, content: bytes | None, name: str, error: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    assert error in run("predict", "small.toml", trained, name, code=2).err


def test_arrays_that_do_not_fit(trained: Path) -> None:
    np.save("wide.npy", np.zeros((3, 2, 5)))
    np.save("texts.npy", np.array(["a", "b"]))
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save("fine.npy", np.zeros((3, 2, 4)))
    for names, error in (
        (["texts.npy"], "texts.npy: the array is of type <U1, but it must hold whole or floating-point numbers"),
        (["objects.npy"], "objects.npy: it holds Python objects, but only numbers are read"),
        (["fine.npy", "wide.npy"], "wide.npy: its records have the shape (2, 5), but the net needs (2, 4)"),
    ):
        assert error in run("predict", "small.toml", trained, *names, code=2).err
    Path("test.h5").unlink()  # now nothing tells what the net takes, but what it was trained with
    Path("train.h5").unlink()
    wide = run("predict", "small.toml", trained, "wide.npy", code=2).err
    assert "records of shape (2, 5) do not fit the net: 'ip1/weight' was trained with the shape (12, 8), but" in wide
    assert "snapshot" not in wide
    assert (
        "different shapes: wide.npy: (2, 5), fine.npy: (2, 4)"
        in run("predict", "small.toml", trained, "wide.npy", "fine.npy", code=2).err
    )
    changed = ("--set", "layer.ip1.output_dim=5")  # that is another net, whatever the records are
    assert "does not fit" in run("predict", "small.toml", trained, "fine.npy", *changed, code=2).err


def test_numbers_that_are_not_finite_are_named(trained: Path) -> None:
    records = np.zeros((8, 2, 4))
    records[1, 0, 3], records[5, 1, 1] = np.nan, np.inf
    np.save("some.npy", records)
    done = run("predict", "small.toml", trained, "some.npy", "--top", 1)
    assert done.err == "warning: some.npy: records 1, 5: some numbers are not finite\n"
    lines = done.out.splitlines()
    assert [line.endswith(" %") for line in lines] == [
        True,
        False,
        True,
        True,
        True,
        True,
        True,
        True,
    ]  # tanh(inf) is 1
    assert lines[1] == "1: not finite"
    told = run("predict", "small.toml", trained, "some.npy", "--json").json
    assert [len(row["classes"]) for row in told] == [3, 0, 3, 3, 3, 3, 3, 3]
    np.save("all.npy", records * np.nan)
    err = run("predict", "small.toml", trained, "all.npy").err
    assert "records 0, 1, 2, 3, 4 and 3 more: some numbers" in err


PASSES_OVER = """
import numpy as np
from nacre import Neuron

class PassesOver(Neuron):
    def forward(self, backend, x, y):
        y[...] = np.where(np.isnan(x), 0, x)
    def backward(self, backend, x, y, dy, dx):
        dx[...] = dy
"""


def test_a_layer_that_passes_over_what_is_no_number_hides_nothing(trained: Path) -> None:
    Path("over.py").write_text(PASSES_OVER)
    change = ("--plugin", "over.py", "--set", "layer.ip1.neuron=PassesOver")
    records = np.zeros((3, 2, 4))
    records[1, 0, 3] = np.nan
    np.save("some.npy", records)
    assert run("predict", "small.toml", trained, "some.npy", *change).out.splitlines()[1] == "1: not finite"
    with h5py.File("test.h5", "r+") as file:
        file["data"][5, 0, 0] = np.nan
        file["data"][26, 1, 1] = np.nan
    done = run("test", "small.toml", trained, *change)
    told = "warning: blob 'data' of layer 'test': 2 of 27 records have"
    assert done.err.startswith(told) and done.err.count("\n") == 1


RAW = """
import numpy as np
from nacre import Field, Reader, Store, Writer, hookimpl
from nacre.files import NewFile

@hookimpl
def offer_components():
    return {"store": {"Raw": "raw:Raw"}}

class Raw(Store):
    "Numbers of 4 bytes behind the number of them in a record."
    endings = (".raw",)
    def open(self, path, fields=()):
        return RawReader(path, fields[0] if fields else "data")
    def create(self, path, fields, *, append=False):
        return RawWriter(path, fields)

class RawReader(Reader):
    def __init__(self, path, name):
        size = int(np.fromfile(path, np.int64, 1)[0])
        self.rows_read = np.fromfile(path, np.float32, offset=8).reshape(-1, size)
        self.count = len(self.rows_read)
        self.fields = {name: Field((size,), "float32")}
    def read(self, numbers, out):
        for array in out.values():
            array[...] = self.rows_read[numbers]

class RawWriter(Writer):
    def __init__(self, path, fields):
        (field,) = fields.values()
        self.new = NewFile(path)
        self.file = self.new.temporary.open("wb")
        np.array([field.shape[0]]).tofile(self.file)
    def append(self, rows, keys=()):
        (array,) = rows.values()
        array.astype(np.float32).tofile(self.file)
    def close(self, commit):
        self.file.close()
        if commit:
            self.new.commit()
        self.new.drop()
"""


def test_a_third_party_reads_and_writes_files_of_its_own(trained: Path) -> None:
    Path("raw.py").write_text(RAW)
    data, _ = read_data()
    with Path("all.raw").open("wb") as file:
        np.array([data[0].size]).tofile(file)
        data.astype(np.float32).tofile(file)
    run("predict", "small.toml", trained, "test.h5", "--out", "wanted.npy")
    run("predict", "small.toml", trained, "all.raw", "--out", "found.RAW", "--plugin", "raw.py")
    assert np.allclose(np.fromfile("found.RAW", np.float32, offset=8).reshape(-1, 3), np.load("wanted.npy"))


def test_pictures_without_pillow_say_what_to_install(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    Path("x.png").write_bytes(b"x")
    err = run("predict", "small.toml", trained, "x.png", code=2).err
    assert err == 'error: x.png: pictures need Pillow\n  pip install "nacre[images]"\n'


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--blob", "prbo"], "no layer writes blob 'prbo' in this phase (did you mean 'prob'?)"),
        (
            ["--out", "x.txt"],
            "x.txt: no store is installed for files that end in '.txt'; known endings: ",
        ),
        (["--blob", "prob,ip1", "--out", "x.npy"], "it can hold one array, but there are 2 fields: prob, ip1"),
        (["--classes", "no.txt"], "error: no.txt: no such file\n"),
        (["--classes", "."], "error: .: cannot be read: Is a directory\n"),
        (["--classes", "test.h5"], "error: test.h5: not a text file (UTF-8): "),
        (["--classes", "two.txt"], "two.txt: it has 2 names of classes, but blob 'prob' has 3 numbers per record"),
        (["--shape", "a"], "must be like 1,8,8"),
        (["--shape", "1,x"], "'1,x' must be like 1,8,8, but 'x' is not a whole number above 0"),
        (["--shape", "1,0,8"], "but '0' is not a whole number above 0"),
        (["--divide", "0"], "--divide 0"),
        (["--divide", "nan"], "--divide nan: it must be a finite number other than 0"),
        (["--out", "no/such/x.npy"], "no/such/x.npy"),
    ],
)
def test_bad_options(trained: Path, options: list[str], error: str) -> None:
    Path("two.txt").write_text("red\ngreen\n\n")
    assert error in run("predict", "small.toml", trained, "test.h5", *options, code=2).err


def test_a_net_of_two_inputs_needs_records_for_both(trained: Path) -> None:
    text = Path("small.toml").read_text()
    extra = (
        '[[layer]]\ntype = "Concat"\nname = "cat"\nbottoms = ["ip2", "more"]\ntops = ["cat"]\n'
        '[[layer]]\ntype = "Input"\nname = "more"\ntops = ["more"]\nshape = [2]\nbatch_size = 10\n'
    )
    Path("two.toml").write_text(text.replace("[solver]", f"{extra}[solver]", 1))
    assert "not clear what in it is 'more'" in run("predict", "two.toml", trained, "test.h5", code=2).err


def test_failures_are_json_too(trained: Path) -> None:
    told = run("predict", "small.toml", trained, "no.npy", "--json", code=2)
    assert json.loads(told.out.splitlines()[-1])["error"] == "no.npy: no such file"


def test_blobs_go_to_a_url(trained: Path) -> None:
    pytest.importorskip("fsspec")
    url = Path("there.npy").absolute().as_uri()
    assert f"wrote {url}: " in run("predict", "small.toml", trained, "test.h5", "--out", url).out
    run("predict", "small.toml", trained, "test.h5", "--out", "here.npy")
    assert Path("there.npy").read_bytes() == Path("here.npy").read_bytes()


def test_nothing_that_is_read_is_replaced(trained: Path) -> None:
    newest = max(trained.glob("*.h5"))
    before = [path.read_bytes() for path in (Path("test.h5"), Path("small.toml"), newest)]
    for out in ("test.h5", "small.toml", newest):
        told = run("predict", "small.toml", trained, "test.h5", "--out", out, code=2).err
        assert told == f"error: {out}: it is read, too\n  use another name for --out\n"
    assert "it is read, too" in run("predict", "small.toml", trained, "data=test.h5", "--out", "test.h5", code=2).err
    assert [path.read_bytes() for path in (Path("test.h5"), Path("small.toml"), newest)] == before
    for _ in range(2):  # its own earlier result it replaces
        run("predict", "small.toml", trained, "test.h5", "--out", "out.npy")
        run("predict", "small.toml", trained, "test.h5", "--out", trained / "out.npy")
