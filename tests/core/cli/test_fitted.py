"""What sources learned from the training data, on the command line: in training, tests and predictions."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from command_line import NET, run
from nacre import DataError, Net, load_snapshot
from nacre.cli import Predictor, read_trained
from nacre.config import load

COLOURS = ["red", "green", "blue"]


def write(name: str, names: list[str], records: int = 60) -> None:
    """Write records of three classes with these names, whose numbers are counted in this order, far from 0."""
    random = np.random.default_rng(0)
    colour = np.arange(records) % 3
    colour = colour[[COLOURS[one] in names for one in colour]] if set(COLOURS) & set(names) else colour
    data = random.normal(0, 0.3, (len(colour), 2, 4)) + colour[:, np.newaxis, np.newaxis] * np.linspace(-1, 1, 4)
    with h5py.File(name, "w") as file:
        file["data"] = 1000 + 50 * data
        file["label"] = np.array([names.index(COLOURS[one]) if COLOURS[one] in names else 0 for one in colour])
        file["label"].attrs["classes"] = names


@pytest.fixture(name="colours")
def colours_(folder: Path) -> Path:
    """Return the snapshots of a net trained on standardised data whose classes have names."""
    Path("small.toml").write_text(NET.replace('{ type = "Scale", scale = 0.5 }', '"Standardize"'), encoding="utf-8")
    write("train.h5", COLOURS)
    write("test.h5", ["green", "blue", "red"])
    run("train", "small.toml", "--json")
    return folder / "snapshots"


def test_a_test_maps_classes_by_name(colours: Path) -> None:
    wanted = run("test", "small.toml", colours, "--json").json
    assert wanted["statistics"]["accuracy"]["accuracy"] == 1
    write("test.h5", ["blue", "green"])  # one is missing, and the others are numbered in another order
    assert run("test", "small.toml", colours, "--json").json["statistics"]["accuracy"]["accuracy"] > 0.9
    write("test.h5", ["blue", "green", "pink"])
    assert run("test", "small.toml", colours, code=2).err == (
        "error: test: 'label' has the class 'pink', which is not one of the 3 known classes: red, green, blue\n"
    )


def test_predictions_have_names(colours: Path) -> None:
    with h5py.File("train.h5") as file:
        np.save("some.npy", file["data"][:6])
    Path("train.h5").unlink()
    Path("test.h5").unlink()
    lines = run("predict", "small.toml", colours, "some.npy", "--top", 1).out.splitlines()
    assert [line.split()[1] for line in lines] == COLOURS * 2
    told = run("predict", "small.toml", colours, "some.npy", "--json").json
    assert [row["classes"][0]["name"] for row in told] == COLOURS * 2
    assert [row["classes"][0]["class"] for row in told] == [0, 1, 2] * 2
    run("predict", "small.toml", colours, "some.npy", "--blob", "prob,ip1", "--out", "some.csv")
    head = Path("some.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert head[:4] == ["prob.red", "prob.green", "prob.blue", "ip1.0"]
    by_score = run("predict", "small.toml", colours, "some.npy", "--blob", "ip2", "--top", 1).out.splitlines()
    assert [line.split()[1] for line in by_score] == COLOURS * 2
    hidden = run("predict", "small.toml", colours, "some.npy", "--blob", "ip1", "--json").json
    assert hidden[0]["classes"][0]["name"] not in COLOURS  # it has 12 numbers
    Path("names.txt").write_text("rouge\nvert\nbleu\n")
    named = run("predict", "small.toml", colours, "some.npy", "--classes", "names.txt", "--top", 1).out
    assert named.split()[1] == "rouge"


def test_python_and_the_command_line_predict_what_the_test_net_says(colours: Path) -> None:
    with h5py.File("test.h5") as file:
        np.save("some.npy", file["data"][...])
    run("predict", "small.toml", colours, "some.npy", "--out", "out.npy", "--blob", "ip2")
    saved = load_snapshot(colours)

    def made(phase: str) -> Net:
        net = load("small.toml").net(phase, fitted=saved.fitted(), keep=("ip2",))
        net.parameters.load(saved, strict=False)
        return net

    with made("test") as tested, made("train") as trained:
        rows: list[np.ndarray] = []
        while tested.epoch < 1:
            tested.forward()
            rows.append(tested.blob("ip2")[: int(tested.scalars["rows"])])
        np.testing.assert_allclose(np.load("out.npy"), np.concatenate(rows), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            trained.predict(np.load("some.npy"), "ip2"), np.load("out.npy"), rtol=1e-6, atol=1e-6
        )


def test_resuming_takes_what_is_known(colours: Path) -> None:
    known = load_snapshot(colours).fitted()
    write("train.h5", ["blue", "red", "green"])  # the same records, numbered otherwise
    with h5py.File("train.h5", "a") as file:
        file["data"][...] += 1
    run("train", "small.toml", "--resume", "auto", "--set", "solver.max_iter=80", "--json")
    after = load_snapshot(colours)
    assert after.iteration == 80
    assert after.fitted()["label"] == known["label"] == {"classes": COLOURS}
    assert np.array_equal(after.fitted()["data"]["Standardize/mean"], known["data"]["Standardize/mean"])
    write("train.h5", [*COLOURS, "pink"])
    longer = ("--resume", "auto", "--set", "solver.max_iter=100")
    assert "train: 'label' has the class 'pink'" in run("train", "small.toml", *longer, code=2).err


def test_fine_tuning_takes_it_only_where_asked(colours: Path) -> None:
    weights = ("--weights", str(colours), "--set", "solver.max_iter=1", "--set")
    write("train.h5", ["blue", "red", "green"])
    run("train", "small.toml", *weights, "callback.Snapshot.folder=anew", "--json")
    assert load_snapshot("anew").fitted()["label"] == {"classes": ["blue", "red", "green"]}
    run("train", "small.toml", *weights, "callback.Snapshot.folder=same", "--fitted", "--json")
    assert load_snapshot("same").fitted()["label"] == {"classes": COLOURS}
    assert run("train", "small.toml", "--fitted", code=2).err == (
        "error: --fitted is only for --weights, which is missing\n  add --weights FILE, or leave --fitted out\n"
    )


def test_looking_at_a_net_needs_no_fitting(colours: Path) -> None:
    for phase in ("train", "test"):
        assert run("summary", "small.toml", "--phase", phase).code == 0


TABLE = """
[[layer]]
type = "CSVData"
name = "train"
tops = ["colour", "target"]
source = "train.csv"
label = "target"
batch_size = 6
exclude = ["test", "predict"]
transformers = [["colour", { type = "Categories", unknown = "own" }]]

[[layer]]
type = "Embedding"
name = "score"
bottoms = ["colour"]
tops = ["score"]
input_dim = "colour"
output_dim = 3
weight_init = { type = "Gaussian", std = 0.01 }

[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "target"]
exclude = ["predict"]

[solver]
type = "SGD"
max_iter = 30
lr_policy = 5

[[callback]]
type = "Snapshot"
folder = "snapshots"
"""


def table(name: str, rows: list[tuple[str, str]]) -> None:
    Path(name).write_text("colour,target\n" + "".join(f"{colour},{target}\n" for colour, target in rows))


def test_texts_of_a_table_are_the_categories_of_the_training() -> None:
    Path("table.toml").write_text(TABLE, encoding="utf-8")
    table("train.csv", [("red", "stop"), ("green", "go"), ("amber", "wait")] * 4)
    run("train", "table.toml", "--json")
    known = {"columns": ["colour"], "classes": ["amber", "green", "red", "<unknown>"], "unknown": "<unknown>"}
    assert load_snapshot("snapshots").fitted()["colour"] == known
    table("one.csv", [("red", "-"), ("green", "-")])  # here green is 0
    table("two.csv", [("zinc", "-"), ("amber", "-"), ("red", "-")])
    told = run("predict", "table.toml", "snapshots", "one.csv", "two.csv", "--json").json
    best = [row["classes"][0]["name"] for row in told]
    assert (best[:2], best[3:]) == (["stop", "go"], ["wait", "stop"])  # nothing is known of zinc


def test_numbers_that_have_no_name_are_no_class(folder: Path) -> None:
    Path("table.toml").write_text(TABLE, encoding="utf-8")
    table("train.csv", [("red", "stop"), ("green", "go"), ("amber", "wait")] * 4)
    run("train", "table.toml", "--json")
    with h5py.File("bad.h5", "w") as file:
        file["colour"] = np.array([0, 2])
        file["colour"].attrs["classes"] = ["red", "green"]
    bad = run("predict", "table.toml", "snapshots", "bad.h5", code=2).out.splitlines()[1]
    assert bad == "1: error: bad.h5: 'colour' has the number 2, but only the classes 0 to 1 have names"


def test_what_is_missing_is_filled_in_predictions(colours: Path) -> None:
    text = NET.replace('["data", { type = "Scale", scale = 0.5 }]', '["data", "FillMissing"], ["data", "Standardize"]')
    Path("small.toml").write_text(text, encoding="utf-8")
    run("train", "small.toml", "--set", "callback.Snapshot.folder=filled", "--json")
    with h5py.File("train.h5") as file:
        data = file["data"][:3]
    data[1, 0, 1] = np.nan
    np.save("holes.npy", data)
    done = run("predict", "small.toml", "filled", "holes.npy", "--top", 1)
    assert [line.split()[1] for line in done.out.splitlines()] == COLOURS
    assert not done.err  # what the net reads is finite
    assert run("predict", "small.toml", colours, "holes.npy", "--top", 1, code=2).err


def test_an_unknown_category_is_told_and_the_others_are_answered(folder: Path) -> None:
    Path("table.toml").write_text(TABLE, encoding="utf-8")
    table("train.csv", [("red", "stop"), ("green", "go"), ("amber", "wait")] * 4)
    run("train", "table.toml", "--json")
    table("some.csv", [("red", "-"), ("pink", "-"), ("green", "-")])
    strict = ("--set", 'layer.train.transformers=[["colour", "Categories"]]', "--set", "layer.score.input_dim=4")
    lines = run("predict", "table.toml", "snapshots", "some.csv", "--top", 1, *strict, code=2).out.splitlines()
    assert [line.split()[:2] for line in lines] == [["0:", "stop"], ["1:", "error:"], ["2:", "go"]]
    assert "'pink', which is not one of the 3 categories" in lines[1]
    table("none.csv", [("pink", "-"), ("blue", "-")])
    err = run("predict", "table.toml", "snapshots", "none.csv", *strict, code=2).err
    assert "which is not one of the 3 categories" in err  # nothing fits: it is no record's fault


TOWNS = """
name = "towns"

[[layer]]
type = "CSVData"
name = "train"
source = "towns.csv"
tops = ["data", "Ort", "label"]
data = ["Größe (m²)", "Zimmer"]
transformers = [["data", { type = "FillMissing", fill = 70.0 }], ["Ort", "Categories"]]
fill = nan
batch_size = 4

[[layer]]
type = "Embedding"
name = "towns"
bottoms = ["Ort"]
tops = ["towns"]
input_dim = "Ort"
output_dim = 2

[[layer]]
type = "Concat"
name = "all"
bottoms = ["data", "towns"]
tops = ["all"]
axis = 1

[[layer]]
type = "InnerProduct"
name = "price"
bottoms = ["all"]
tops = ["price"]
output_dim = 1

[[layer]]
type = "SquareLoss"
name = "loss"
bottoms = ["price", "label"]
exclude = ["predict"]

[solver]
type = "SGD"
max_iter = 1
lr_policy = 1e-6

[[callback]]
type = "Snapshot"
folder = "towns"
"""


def trained_on_towns(rows: str, text: str = TOWNS) -> Predictor:
    """Train a net on a table of towns, and return what answers its records."""
    Path("towns.toml").write_text(text, encoding="utf-8")
    Path("towns.csv").write_text("Größe (m²),Zimmer,Ort,label\n" + rows, encoding="utf-8")
    run("train", "towns.toml", "--json")
    return Predictor(*read_trained(Path("towns.toml"), (), None, "towns"), batch_size=8)


def test_records_in_lines_may_have_the_columns_of_the_table(folder: Path) -> None:
    with trained_on_towns("80,3,Köln,1\n,2,Ulm,2\n120,4,Köln,3\n60,2,Ulm,4\n") as asked:
        given = [
            {"data": [80, 3], "Ort": "Köln"},
            {"Ort": "Köln", "Zimmer": 3, "Größe (m²)": 80},
            {"Ort": "Köln", "Zimmer": 3, "Größe (m²)": None},
            {"Ort": "Köln", "Zimmer": 3, "Größe (m²)": 70},
        ]
        values = [one["values"] for one in asked.answer([asked.read(one) for one in given])]
        assert values[0] == values[1] != values[2] == values[3]
        form = r'\n  write {"Größe \(m²\)": number, "Zimmer": number, "Ort": text, "key": "a name"} or {"file"'
        with pytest.raises(DataError, match=r"the record has no 'Größe \(m²\)', which the net reads too" + form):
            asked.read({"Ort": "Köln", "Zimmer": 3})
        with pytest.raises(DataError, match="the net reads no 'Bad'"):
            asked.read({"Ort": "Köln", "Zimmer": 3, "Größe (m²)": 70, "Bad": 1})


@pytest.mark.parametrize(("fill", "known"), [("nan", 70), ("5", 5)])
def test_null_is_what_an_empty_cell_is(fill: str, known: float, folder: Path) -> None:
    rows = "80,3,Köln,1\n,2,Ulm,2\n120,4,Köln,3\n60,2,,4\n"
    Path("some.csv").write_text("Größe (m²),Zimmer,Ort\n,3,Ulm\n", encoding="utf-8")
    with trained_on_towns(rows, TOWNS.replace("fill = nan", f"fill = {fill}")) as asked:
        given = [
            {"data": [None, 3], "Ort": None},
            {"Größe (m²)": None, "Zimmer": 3, "Ort": ""},
            {"data": [known, 3], "Ort": ""},
            {"data": [None, 3], "Ort": "Ulm"},
            {"file": "some.csv"},
        ]
        values = [one["values"] for one in asked.answer([asked.read(one) for one in given])]
    assert values[0] == values[1] == values[2] != values[3] == values[4]


def test_null_without_anything_to_fill_it_is_an_error(folder: Path) -> None:
    text = TOWNS.replace('["data", { type = "FillMissing", fill = 70.0 }], ', "").replace("fill = nan", "")
    with trained_on_towns("80,3,Köln,1\n90,2,Ulm,2\n120,4,Köln,3\n60,2,Ulm,4\n", text) as asked:
        given = [
            {"data": [80, 3], "Ort": "Köln"},
            {"data": [80, None], "Ort": "Köln"},
            {"data": [80, 3], "Ort": None},
            {"data": [1e39, 3], "Ort": "Köln"},
            {"data": [80, 3], "Ort": 0.5},
        ]
        told = asked.answer([asked.read(one) for one in given])
        with pytest.raises(DataError, match="must hold numbers"):
            asked.read({"data": [10**400, 3], "Ort": "Ulm"})
    assert "values" in told[0]
    assert told[1]["error"] == "column 'Zimmer' has no value" and "fill" in told[1]["remedy"]
    assert "row 0 of the batch is '', which is not one of the 2 categories" in told[2]["error"]
    assert told[3]["error"] == "'data' has a number too large for float32"
    assert "Ort: row 0 of the batch is 0.5, but an input of classes needs whole numbers" in told[4]["error"]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_results_that_are_not_finite_are_an_error_in_lines(colours: Path) -> None:
    with Predictor(*read_trained(Path("small.toml"), (), None, "snapshots"), batch_size=2) as asked:
        good, bad = asked.answer([asked.read([[1000] * 4] * 2), asked.read([[1000] * 4, [np.inf] * 4])])
    assert good["classes"] and bad["error"] == "the net's results for this record are not finite"


def test_names_of_categories_come_in_lines_and_in_files_of_lines(folder: Path) -> None:
    Path("table.toml").write_text(TABLE, encoding="utf-8")
    table("train.csv", [("red", "stop"), ("green", "go"), ("amber", "wait")] * 4)
    run("train", "table.toml", "--json")
    table("one.csv", [("red", "-")])
    strict = ("--set", 'layer.train.transformers=[["colour", "Categories"]]')
    with Predictor(*read_trained(Path("table.toml"), strict[1:], None, "snapshots"), top=1, batch_size=8) as asked:
        given = ["red", {"colour": "green"}, {"file": "one.csv"}, {"colour": "pink"}, 2, ["red"], {"colour": {}}]
        records = [(one, asked.read(one)) for one in given[:6]]
        told = asked.answer([record for _, record in records])
        with pytest.raises(DataError, match="must hold numbers"):
            asked.read(given[6])
    assert [one["classes"][0]["name"] if "classes" in one else "" for one in told] == [
        "stop", "go", "stop", "", "stop", "stop"
    ]  # fmt: skip
    assert "'pink', which is not one of the 3 categories" in told[3]["error"]
