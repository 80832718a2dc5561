"""Arrays in, answers out: `net.fit`, `evaluate`, `predict(classes=True)` and `reset`."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nacre import ConfigError, DataError, Input, InputLayer, L, Net, NotFiniteError, Solver, TopologyError, load
from nacre_data import MemoryDataLayer
from nacre_solvers import SGD, Adam, TrainingSummary
from toy_training import Reports, records, weights

X, Y = records(60)
NAMES = np.array(["cat", "dog", "owl"])


def net_of(*, label: Any = None, backend: str = "numpy", batch_norm: bool = True, **options: Any) -> Net:
    """Return a net of two layers for records in three classes."""
    x, label = Input(6, name="x"), Input(name="label", dtype="int64") if label is None else label
    h = L.InnerProduct(output_dim=8, neuron="Tanh", name="hidden")(x)
    score = L.InnerProduct(output_dim=3, name="score")(L.BatchNorm(name="norm")(h) if batch_norm else h)
    losses = [L.SoftmaxLoss(name="loss")(score, label), L.Accuracy(name="accuracy")(score, label)]
    return Net("net", losses, backend=backend, **{"dtype": "float64", **options})


def test_it_is_the_training_of_a_net_with_a_source_over_the_arrays() -> None:
    net = net_of()
    training = net.fit(X, Y, epochs=3, batch_size=7, lr=0.01, quiet=True)
    source = MemoryDataLayer(name="fitted", tops=["x", "label"], data=[X, Y], batch_size=7, shuffle=True)
    same = Net("net", [source, *net_of().layers[2:]], backend="numpy", dtype="float64")
    Solver(Adam(), lr_policy=0.01, max_epoch=3).solve(same, quiet=True)
    assert weights(net) == weights(same)
    assert (training.epochs, training.net.name) == (3, "net")
    assert training.history["train"]["epoch"].tolist() == [1, 2, 3]
    assert list(training.history["train"])[2:] == ["loss", "accuracy/accuracy", "accuracy/records"]


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_names_go_in_and_come_out(backend: str) -> None:
    net = net_of(backend=backend, dtype="float32")
    net.fit(X, NAMES[Y], epochs=30, lr=0.02, quiet=True)
    assert net.classes["score"] == tuple(NAMES)
    found = net.predict(X, classes=True)
    assert (found == NAMES[Y]).mean() > 0.7
    assert (NAMES[net.predict(X).argmax(axis=1)] == found).all()
    assert net.evaluate(X, NAMES[Y])["accuracy/accuracy"] == (found == NAMES[Y]).mean()


def test_names_keep_their_numbers() -> None:
    net = net_of()
    net.fit(X, NAMES[Y], epochs=30, lr=0.02, quiet=True)
    before = net.evaluate(X, NAMES[Y])
    owls = Y > 0  # here "dog" would be 0
    found = net.evaluate(X[owls], list(NAMES[Y[owls]]))
    assert found["accuracy/accuracy"] == (net.predict(X[owls], classes=True) == NAMES[Y[owls]]).mean()
    net.fit(X[owls], NAMES[Y[owls]], epochs=1, lr=0.0, quiet=True)
    assert net.classes["label"] == tuple(NAMES)
    with pytest.raises(DataError, match="'label' has the class 'bee'"):
        net.fit(X, np.where(Y == 1, "bee", NAMES[Y]), quiet=True)
    net.fit(X, NAMES[Y], epochs=1, lr=0.0, quiet=True)
    assert net.evaluate(X, NAMES[Y])["accuracy/accuracy"] == pytest.approx(before["accuracy/accuracy"], abs=0.1)


def test_without_names_classes_are_numbers() -> None:
    net = net_of()
    assert (net.predict(X, classes=True) == net.predict(X).argmax(axis=1)).all()
    with pytest.raises(ConfigError, match="blob 'one' has one number for each record"):
        Net("net", [L.InnerProduct(output_dim=1, name="one")(Input(6))], backend="numpy").predict(X, classes=True)


def test_evaluate_counts_every_record_once() -> None:
    net = net_of()
    scores = net.predict(X)
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(60), Y]
    for size in (1, 7, 60, 256):
        found = net.evaluate(X, Y, batch_size=size)
        assert found == {
            "loss": pytest.approx(losses.mean(), abs=1e-12),
            "accuracy/accuracy": (scores.argmax(axis=1) == Y).mean(),
        }


class Frame:
    """Something that NumPy can read, as tensors and data frames are."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values, dtype)


@pytest.mark.parametrize("form", [list, Frame, lambda one: np.array(one, object), lambda one: np.array(one, "f4")])
def test_what_numpy_can_read_is_an_array(form: Any) -> None:
    net, same = net_of(), net_of()
    net.fit(form(X.astype("f4").tolist()), form(Y.tolist()), epochs=1, quiet=True)
    same.fit(X.astype("f4"), Y, epochs=1, quiet=True)
    np.testing.assert_allclose(net.predict(X), same.predict(X), rtol=1e-12)


def test_a_single_record_is_told_what_would_do() -> None:
    net = net_of()
    for row in (X[0], X[0].tolist(), Frame(X[0])):  # a row of a data frame knows no [None]
        with pytest.raises(DataError) as caught:
            net.predict(row)
        assert caught.value.remedy.startswith("a single record is [x];")
        assert (net.predict([row], "score") == net.predict(X[:1], "score")).all()


class Table(Frame):
    """A data frame, whose columns have names."""

    def __init__(self, **columns: Any) -> None:
        self.arrays = {name: np.asarray(column) for name, column in columns.items()}
        self.columns = list(columns)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(np.stack([*self.arrays.values()], 1), dtype)

    def __getitem__(self, name: Any) -> Any:
        return Table(**{one: self.arrays[one] for one in name}) if isinstance(name, list) else self.arrays[name]


def table_of(names: str, x: np.ndarray = X) -> Table:
    """Return columns of `x`, of which the first is called a, in the order of these names."""
    return Table(**{name: x[:, "abcdef".index(name)] for name in names})


def test_columns_of_frames_are_taken_by_their_names(tmp_path: Path) -> None:
    net, same = net_of(), net_of()
    net.fit(table_of("abcdef"), Y, epochs=2, quiet=True)
    same.fit(X, Y, epochs=2, quiet=True)
    assert weights(net) == weights(same)
    assert net.fitted["x"] == {"columns": [*"abcdef"]}
    assert (net.predict(table_of("fedcba"), "score") == net.predict(X, "score")).all()
    assert net.evaluate(table_of("bacfed"), Y) == net.evaluate(X, Y)
    net.save(tmp_path / "net.nacre")
    assert (load(tmp_path / "net.nacre").predict(table_of("fedcba"), "score") == net.predict(X, "score")).all()
    net.fit(table_of("fedcba"), Y, epochs=1, quiet=True)
    same.fit(X, Y, epochs=1, quiet=True)
    assert weights(net) == weights(same)
    assert net.fitted["x"] == {"columns": [*"abcdef"]}
    with pytest.raises(DataError, match=r"'x' has no column 'f', but training had one"):
        net.predict(table_of("abcde"), "score")
    with pytest.raises(DataError, match=r"'x' has the column 'g', but training had none\n  give the columns of the tr"):
        net.predict(Table(**table_of("abcdef").arrays, g=X[:, 0]), "score")


A_TABLE = {name: X[:4, number] for number, name in enumerate("abcde")}


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        (
            Table(**A_TABLE, f=[*"vwvw"]),
            0,
            r"'x': column 'f': record 0 is 'v', but numbers are needed\n  .* \(one-hot\)",
        ),
        (Table(**A_TABLE, f=[1, 2, {}, 3]), 0, r"'x': column 'f': record 2 is {}, but numbers are needed\n  fill what"),
        (Table(**A_TABLE, f=np.zeros(4, "M8[D]")), 0, r"'x': column 'f' holds times \(datetime64\[D\]\), but numbers"),
        (np.zeros((4, 6), "m8[s]"), 0, r"'x' holds times \(timedelta64\[s\]\), but numbers are needed"),
        ([*X[:3].tolist(), [1, 2, 3, 4, "x", 6]], 0, "'x': record 3 is 'x', but numbers are needed"),
        (X[:4].astype(str).tolist(), 0, "'x' holds texts, but an Input of shape"),
        (Table(**A_TABLE, f=[1, None, 2, 3]), 0, "'x': column 'f': record 1 is None, but numbers are needed\n  fill"),
        (
            X[:4],
            ["yes", "no", None, "no"],
            "'label': record 2 is None, but the others are texts\n  fill what is missing",
        ),
        (X[:4], np.array(["yes", "no", np.nan, 1], object), "'label': record 2 is nan, but the others are texts"),
        (X[:4], np.array(["yes", "no", 7, "no"], object), "'label': record 2 is 7, .*\n  write all of them as texts"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(x: Any, y: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        net_of().fit(x, [0, 1, 2, 0] if isinstance(y, int) else y, quiet=True)


def test_a_frame_with_one_column_of_texts_has_classes() -> None:
    net = net_of()
    net.fit(X, Table(kind=NAMES[Y]), epochs=1, quiet=True)
    assert net.classes["label"] == tuple(NAMES)


def test_a_lazy_frame_has_to_be_computed() -> None:
    class Lazy:
        """A frame of polars that is not computed yet."""

        columns = ("a", "b")

        def __getitem__(self, name: str) -> Any:
            raise TypeError("LazyFrame is not subscriptable")

        def collect(self) -> None: ...

    with pytest.raises(DataError, match=r"'x': this Lazy cannot be made an array of numbers yet\n  .*x\.collect\(\)"):
        net_of().fit(Lazy(), Y, quiet=True)


# Files


def file_of(path: Path, columns: dict[str, Any]) -> str:
    rows = [
        ",".join(map(str, row)) for row in zip(*(np.asarray(one).tolist() for one in columns.values()), strict=True)
    ]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    return str(path)


def in_columns(order: str, **more: Any) -> dict[str, Any]:
    return {name: X[:, "abcdef".index(name)] for name in order} | more


def test_it_learns_from_a_file_and_validates_on_one(tmp_path: Path) -> None:
    path = file_of(tmp_path / "train.csv", in_columns("abcdef", kind=NAMES[Y]))
    other = file_of(tmp_path / "other.csv", {"kind": NAMES[Y]} | in_columns("fedcba", note=["-"] * 60))
    net, same = net_of(), net_of()
    training = net.fit(path, epochs=2, validation=other, class_weight="balanced", quiet=True)
    wanted = same.fit(X, NAMES[Y], epochs=2, validation=(X, NAMES[Y]), class_weight="balanced", quiet=True)
    assert weights(net) == weights(same)
    np.testing.assert_allclose(training.history["validation"]["loss"], wanted.history["validation"]["loss"])
    assert net.fitted == {"x": {"columns": [*"abcdef"]}, "label": {"columns": ["kind"], "classes": [*NAMES]}}
    found = net.evaluate(X, NAMES[Y])
    assert net.evaluate(path) == net.evaluate(other) == net.evaluate([path]) == pytest.approx(found)
    assert net.evaluate(Table(**in_columns("cabdef", kind=NAMES[Y]))) == pytest.approx(found)
    assert net.fit([path, Path(other)], epochs=1, quiet=True).history["train"]["accuracy/records"][0] >= 120
    with pytest.raises(
        DataError, match=r"but must be an array .*\n  give a file alone, without y, if it has the labels"
    ):
        net.fit(path, Y)


@pytest.mark.parametrize(("x", "y"), [("x", "price"), ("data", "price"), ("data", "label")])
def test_a_column_is_found_by_the_name_of_its_input(x: str, y: str, tmp_path: Path) -> None:
    price = 3 * X[:, 0] + X[:, 1]
    path = file_of(tmp_path / "train.csv", in_columns("abc", **{y: price}) | in_columns("def"))
    score, label = L.InnerProduct(output_dim=1, name="guess")(Input(6, name=x)), Input(1, name=y)
    net = Net("prices", [L.SquareLoss(name="loss")(score, label)], backend="numpy", dtype="float64")
    net.fit(path, epochs=2, quiet=True)
    assert net.fitted[x] == {"columns": [*"abcdef"]}
    assert net.evaluate(path) == pytest.approx(net.evaluate(X, price))
    other = file_of(tmp_path / "other.csv", in_columns("fabcde", size=price))
    np.testing.assert_array_equal(net.predict(other), net.predict(X))


def test_a_file_has_the_columns_of_the_frame_that_was_learned(tmp_path: Path) -> None:
    class Series:
        """A column of a frame."""

        name = "price"

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return 3 * X[:, 0]

        def to_numpy(self) -> np.ndarray:
            return 3 * X[:, 0]

    guess, y = L.InnerProduct(output_dim=1, name="guess")(Input(6, name="x")), Input(1, name="y")
    net = Net("prices", [L.SquareLoss(name="loss")(guess, y)], backend="numpy", dtype="float64")
    net.fit(Table(**in_columns("abcdef")), Series(), epochs=1, quiet=True)
    path = file_of(tmp_path / "some.csv", in_columns("fa", price=3 * X[:, 0]) | in_columns("bcde"))
    assert net.evaluate(path) == pytest.approx(net.evaluate(X, 3 * X[:, 0]))
    np.testing.assert_array_equal(net.predict(path), net.predict(X))
    unlike = file_of(tmp_path / "unlike.csv", in_columns("abcde", price=3 * X[:, 0]))
    with pytest.raises(DataError, match=r"unlike\.csv: 'x' has no column 'f'.*, but training had one"):
        net.evaluate(unlike)
    with pytest.raises(
        DataError, match=r"bare\.csv: 'y' has no column 'price', but training had one\n  add this column"
    ):
        net.evaluate(file_of(tmp_path / "bare.csv", in_columns("abcdef")))
    unlike = file_of(tmp_path / "unlike.csv", in_columns("abcde", g=X[:, 5]))
    with pytest.raises(DataError, match=r"unlike\.csv: 'x' has no column 'f'.*, but training had one"):
        net.predict(unlike)


def lines_of(path: Path, columns: dict[str, Any]) -> str:
    rows = zip(*(np.asarray(one).tolist() for one in columns.values()), strict=True)
    path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("write", [file_of, lines_of])
def test_lines_of_json_have_the_columns_of_a_table(write: Any, tmp_path: Path) -> None:
    ending = "csv" if write is file_of else "jsonl"
    path = write(tmp_path / f"train.{ending}", in_columns("abcdef", kind=NAMES[Y]))
    net, same = net_of(label=Input(name="y", dtype="int64")), net_of(label=Input(name="y", dtype="int64"))
    net.fit(path, epochs=2, quiet=True)
    same.fit(X, NAMES[Y], epochs=2, quiet=True)
    assert weights(net) == weights(same)
    assert net.fitted == {"x": {"columns": [*"abcdef"]}, "y": {"columns": ["kind"], "classes": [*NAMES]}}
    other = lines_of(tmp_path / "other.jsonl", {"kind": NAMES[Y], "size": Y} | in_columns("fedcba"))
    wanted = pytest.approx(net.evaluate(X, NAMES[Y]))
    assert net.evaluate(other) == wanted and net.evaluate([path, other]) == wanted
    np.testing.assert_array_equal(net.predict(other), net.predict(X))
    net.fit(other, epochs=1, quiet=True)
    unlike = lines_of(tmp_path / "unlike.jsonl", in_columns("abcde", kind=NAMES[Y]))
    with pytest.raises(DataError, match=r"unlike\.jsonl: 'x' has no column 'f', but training had one\n  add this"):
        net.predict(unlike)
    bare = lines_of(tmp_path / "bare.jsonl", in_columns("abcdef"))
    with pytest.raises(DataError, match=r"bare\.jsonl: 'y' has no column 'kind', but training had one\n  add this"):
        net.evaluate(bare)
    np.testing.assert_array_equal(net.predict(bare), net.predict(X))
    texts = lines_of(tmp_path / "texts.jsonl", in_columns("abcde", f=NAMES[Y]))
    with pytest.raises(DataError, match=r"texts\.jsonl: column 'f' holds texts, such as 'cat', but must hold numbers"):
        net.predict(texts)


def test_a_number_of_its_own_is_no_column_of_the_data(tmp_path: Path) -> None:
    path = lines_of(tmp_path / "train.jsonl", in_columns("abc", price=3 * X[:, 0]) | in_columns("def"))
    guess, y = L.InnerProduct(output_dim=1, name="guess")(Input(6, name="x")), Input(1, name="price")
    net = Net("prices", [L.SquareLoss(name="loss")(guess, y)], backend="numpy", dtype="float64")
    net.fit(path, epochs=1, quiet=True)
    assert net.fitted["x"] == {"columns": [*"abcdef"]}
    assert net.evaluate(path) == pytest.approx(net.evaluate(X, 3 * X[:, 0]))
    few = lines_of(tmp_path / "few.jsonl", in_columns("ab", price=3 * X[:, 0]))
    net = Net("prices", [L.SquareLoss(name="loss")(guess, y)], backend="numpy", dtype="float64")
    with pytest.raises(DataError, match=r"not clear what in it is 'x', .* it has 'a', 'b' of shape \(2,\) and 'price'"):
        net.fit(few, quiet=True)


@pytest.mark.parametrize(
    ("last", "says"),
    [("7,8,", r"line 4: column 'kind' has no value"), ("7,8", r"line 4 has 2 cells, but the first line has 3")],
)
def test_what_is_wrong_with_a_table_is_said_not_what_follows(last: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(f"length,width,kind\n1,2,a\n3,4,b\n{last}\n")
    x, y = Input(2, name="x"), Input(name="y", dtype="int64")
    net = Net("n", [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=2, name="s")(x), y)], backend="numpy")
    with pytest.raises(DataError, match=says):
        net.fit(str(tmp_path / "train.csv"), quiet=True)


def test_columns_of_texts_are_called_so(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("day,length,kind\n1 May,2,a\n2 May,4,b\n")
    x, y = Input(1, name="x"), Input(name="y", dtype="int64")
    net = Net("n", [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=2, name="s")(x), y)], backend="numpy")
    with pytest.raises(DataError, match=r"'y', .* it has 'data' of shape .* and 'day' of texts and 'kind' of texts"):
        net.fit(str(tmp_path / "train.csv"), quiet=True)


def test_pictures_in_folders_are_learned(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(6):
        path = tmp_path / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        image.fromarray(np.full((6 + number, 7, 3), 40 * number, "uint8")).save(path)
    x, y = Input((3, 4, 4), name="x"), Input(name="kind", dtype="int64")
    loss = L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=2, name="score")(x), y)
    with Net("pets", [loss], backend="numpy") as net:
        net.fit(str(tmp_path), epochs=1, lr=1e-4, quiet=True)
        assert net.classes["score"] == ("cat", "dog")
    data, label = L.ImageData(source=str(tmp_path), batch_size=2, new_height=4, new_width=4)()
    loss = L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=2, name="score")(data), label)
    with Net("pets", [loss], backend="numpy") as net:
        net.save(tmp_path / "pets.nacre")
    with load(tmp_path / "pets.nacre") as net:
        before = net.evaluate(str(tmp_path))["loss"]
        paths = sorted(tmp_path.glob("*/*.png"))
        given = [image.open(path) for path in paths], [path.parent.name for path in paths]
        assert net.evaluate(*given)["loss"] == pytest.approx(before)
        net.fit(str(tmp_path), epochs=3, lr=1e-5, quiet=True)
        assert net.evaluate(*given)["loss"] < before
        net.fit(*given, epochs=1, quiet=True)


def test_pictures_with_their_channels_last_are_told_what_to_do() -> None:
    x, y = Input((3, 4, 5), name="x"), Input(name="y", dtype="int64")
    net = Net("n", [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=2, name="s")(x), y)], backend="numpy")
    wrong, right = np.zeros((2, 4, 5, 3)), "the channels are at the other end: give x.transpose(0, 3, 1, 2)"
    for call in (lambda: net.fit(wrong, [0, 1], quiet=True), lambda: net.predict(wrong, "s")):
        with pytest.raises(DataError) as caught:
            call()
        assert caught.value.remedy == right


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    net, same = net_of(), net_of()
    net.fit(torch.tensor(X), torch.tensor(Y), epochs=1, quiet=True)
    same.fit(X, Y, epochs=1, quiet=True)
    assert weights(net) == weights(same)
    with pytest.raises(DataError, match=r"'x': this Tensor cannot be made an array of numbers"):
        net.fit(torch.tensor(X, requires_grad=True), Y)


def test_several_inputs_by_order_and_by_name() -> None:
    left, right = Input(2, name="left"), Input(4, name="right")
    size, kind = Input(1, name="size"), Input(name="kind", dtype="int64")
    body = L.InnerProduct(output_dim=5, neuron="ReLU", name="body")(L.Concat(name="both")(left, right))
    scores, length = L.InnerProduct(output_dim=3, name="s")(body), L.InnerProduct(output_dim=1, name="l")(body)
    losses = [L.SoftmaxLoss(name="kinds")(scores, kind), L.SquareLoss(name="sizes")(length, size)]

    def made() -> Net:
        return Net("two", losses, backend="numpy", seed=1)

    net = made()
    net.fit((X[:, :2], X[:, 2:]), (X[:, 0], Y), epochs=1, quiet=True)
    found = weights(net)
    net.reset()
    net.fit({"right": X[:, 2:], "left": X[:, :2]}, {"kind": Y, "size": X[:, :1]}, epochs=1, quiet=True)
    assert weights(net) == found
    net.reset()
    net.fit({"right": X[:, 2:], "left": X[:, :2], "kind": Y, "size": X[:, :1]}, epochs=1, quiet=True)
    assert weights(net) == found
    assert net.evaluate((X[:, :2], X[:, 2:]), (X[:, 0], Y)).keys() == {"loss", "kinds/loss", "sizes/loss"}


def test_a_net_that_learns_its_input_needs_no_y() -> None:
    x = Input(6, name="x")
    again = L.InnerProduct(output_dim=6, name="again")(L.InnerProduct(output_dim=3)(x))
    net = Net("auto", [L.SquareLoss()(again, x)], backend="numpy")
    first = net.evaluate(X)["loss"]
    net.fit(X, epochs=20, lr=0.01, quiet=True)
    assert net.evaluate(X)["loss"] < first / 2


def test_sizes_may_lack_an_axis_of_length_1() -> None:
    x, size = Input(6, name="x"), Input(1, name="size")
    guess = L.InnerProduct(output_dim=1, name="guess")(x)
    net = Net("sizes", [L.SquareLoss()(guess, size), L.R2(name="r2")(guess, size)], backend="numpy")
    whole = np.rint(X @ np.arange(6)).astype(int)
    net.fit(X, whole, epochs=200, lr=0.1, quiet=True)
    assert net.evaluate(X, whole)["r2/r2"] > 0.9


def test_a_second_fit_goes_on_and_reset_begins_anew() -> None:
    net = net_of()
    first = weights(net)
    net.fit(X, NAMES[Y], epochs=2, quiet=True)
    second = weights(net)
    net.fit(X, NAMES[Y], epochs=2, quiet=True)
    assert len({first, second, weights(net)}) == 3
    net.reset()
    assert weights(net) == first
    assert net.classes == {}
    net.fit(X, NAMES[Y], epochs=2, quiet=True)
    assert weights(net) == second
    net.reset(seed=5)
    other = weights(net)
    assert other == weights(net_of(seed=5)) != first


def test_batches_are_not_larger_than_the_data() -> None:
    net = net_of()
    training = net.fit(X[:5], Y[:5], epochs=2, batch_size=100, validation=(X[:3], Y[:3]), quiet=True)
    assert training.iteration == 2
    assert training.history["validation"]["accuracy/records"].tolist() == [3, 3]


@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_a_fraction_is_drawn_of_each_class_alike(kind: str) -> None:
    labels = np.repeat([0, 1, 2], [10, 20, 30]).astype(kind)
    marked = np.arange(60.0)[:, None] * np.ones(6)
    net = net_of(label=Input(name="label", dtype="" if kind == "float32" else kind))
    training = net.fit(marked, labels, epochs=1, batch_size=1, validation=0.2, lr=0.0, quiet=True)
    sources = {layer.name: layer for layer in training.net.layers if layer.is_source}
    parts: dict[str, list[int]] = {}
    for name, phase in (("fitted", "train"), ("validated", "validation")):
        with Net("part", [sources[name]], phase=phase, backend="numpy", dtype="float64") as part:
            numbers: list[int] = []
            for _ in range(48 if name == "fitted" else 12):
                part.forward()
                numbers += part.blob("x")[:, 0].astype(int).tolist()
            parts[name] = numbers
    assert sorted(parts["fitted"] + parts["validated"]) == list(range(60))
    assert np.bincount(labels.astype(int)[parts["validated"]]).tolist() == [2, 4, 6]
    assert max(parts["validated"]) < 59 or min(parts["validated"]) < 48  # not the last rows
    assert training.history["validation"]["accuracy/records"].tolist() == [12]


def test_early_stopping_gives_the_best_parameters_back() -> None:
    net = net_of(batch_norm=False)
    training = net.fit(
        X[:12], Y[:12], epochs=200, batch_size=4, lr=0.05, validation=(X[12:], Y[12:]), early_stopping=3, quiet=True
    )
    losses = training.history["validation"]["loss"]
    assert len(losses) < 200
    assert training.stopped.startswith("EarlyStopping")
    assert int(losses.argmin()) == len(losses) - 4
    assert net.evaluate(X[12:], Y[12:])["loss"] == pytest.approx(losses.min(), rel=1e-9)


@pytest.mark.parametrize(
    "given", ["balanced", {"cat": 2.0, "dog": 0.5, "owl": 1.0}, {"loss": "balanced"}, {"loss": {"owl": 3}}]
)
def test_weights_of_classes_are_those_of_their_records(given: Any) -> None:
    labels = np.repeat([0, 1, 2], [10, 20, 30])
    table = "balanced" if given == "balanced" else given.get("loss", given)
    expected = {name: 60 / 3 / (labels == number).sum() for number, name in enumerate(NAMES)}
    if table != "balanced":
        expected = {name: table.get(name, 1.0) for name in NAMES}
    column = np.array([expected[NAMES[label]] for label in labels])
    one, other = net_of(), net_of()
    how: dict[str, Any] = {"epochs": 2, "validation": 0.25, "quiet": True}
    first = one.fit(X, NAMES[labels], class_weight=given, **how)
    second = other.fit(X, NAMES[labels], sample_weight=column, **how)
    assert weights(one) == weights(other)
    for phase in ("train", "validation"):
        assert first.history[phase]["loss"].tolist() == second.history[phase]["loss"].tolist()


def test_weights_count_in_the_losses_of_a_pair_of_arrays_too() -> None:
    net = net_of(batch_norm=False)
    losses = [
        net.fit(X, Y, epochs=1, lr=0.0, validation=(X, Y), quiet=True, **how).history["validation"]["loss"][0]
        for how in ({}, {"class_weight": {0: 2, 1: 2, 2: 2}}, {"sample_weight": np.full(60, 5.0)})
    ]
    assert losses[1] == pytest.approx(2 * losses[0])
    assert losses[2] == pytest.approx(losses[0])  # these are the training's records' own


def test_numbers_of_classes_name_them() -> None:
    one, other = net_of(), net_of()
    one.fit(X, Y, epochs=1, class_weight={2: 4.0}, quiet=True)
    other.fit(X, Y, epochs=1, sample_weight=np.where(Y == 2, 4.0, 1.0), quiet=True)
    assert weights(one) == weights(other)


def ignoring(loss: str, label: Any, output_dim: int, ignored: int = -1) -> Net:
    """Return a net of one layer whose loss ignores a label."""
    score = L.InnerProduct(output_dim=output_dim, name="score")(Input(6, name="x"))
    return Net("net", [getattr(L, loss)(name="loss", ignore_label=ignored, normalize="valid")(score, label)])


def test_an_ignored_label_is_no_class_that_is_balanced() -> None:
    ignored = np.where(np.arange(60) < 30, -1, Y)
    balanced, counted = (ignoring("SoftmaxLoss", Input(name="label", dtype="int64"), 3) for _ in range(2))
    balanced.fit(X, ignored, epochs=2, class_weight="balanced", quiet=True)
    counts = np.bincount(ignored[30:])
    counted.fit(X, ignored, epochs=2, class_weight=dict(enumerate(30 / 3 / counts)), quiet=True)
    assert weights(balanced) == weights(counted)


def labelled(path: Path, labels: Any, names: Any) -> str:
    """Write records with labels that count names into an HDF5 file, and return its path."""
    with h5py.File(path, "w") as file:
        file["x"], file["label"] = X, labels
        file["label"].attrs["classes"] = [*map(str, names)]
    return str(path)


@pytest.mark.parametrize("ignored", [-1, 255])
def test_an_ignored_label_in_a_file_needs_no_name(ignored: int, tmp_path: Path) -> None:
    labels = np.where(np.arange(60) < 30, ignored, Y)
    path = labelled(tmp_path / "train.h5", np.where(labels == ignored, ignored, 2 - Y), NAMES[::-1])
    nets = [ignoring("SoftmaxLoss", Input(name="label", dtype="int64"), 3, ignored) for _ in range(2)]
    for net, data in zip(nets, [(path,), (X, labels)], strict=True):
        net.fit(*data, epochs=2, class_weight="balanced", validation=0.2, quiet=True)
    assert weights(nets[0]) == weights(nets[1])
    assert nets[0].evaluate(path) == nets[1].evaluate(X, labels)
    assert set(nets[0].predict(X, classes=True)) <= {*NAMES}
    with pytest.raises(DataError, match=rf"'label' has the number {ignored}, but only the classes 0 to 2 have names"):
        net_of().fit(path, quiet=True)


def test_the_classes_that_a_file_names_are_learned_even_if_no_record_has_one(tmp_path: Path) -> None:
    path = labelled(tmp_path / "train.h5", np.where(Y == 1, 2, Y), NAMES)
    net = net_of()
    net.fit(path, epochs=1, quiet=True)
    assert net.fitted["label"]["classes"] == [*NAMES]
    assert net.evaluate(labelled(tmp_path / "more.h5", Y, [*NAMES, "yak"]))["accuracy/accuracy"] >= 0


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
@pytest.mark.parametrize("batch_size", [1, 7, 60])
def test_the_loss_of_a_pass_is_the_mean_over_the_labels_that_count(batch_size: int, backend: str) -> None:
    x, label = Input(6, name="x"), Input(name="label", dtype="int64")
    score = L.InnerProduct(output_dim=3, name="score")(x)
    losses = [L.SoftmaxLoss(name="some", ignore_label=2)(score, label), L.SoftmaxLoss(name="all")(score, label)]
    net = Net("net", losses, backend=backend)
    labels = np.where(np.arange(60) < 20, 2, Y)
    found = net.evaluate(X, labels, batch_size=batch_size)
    scores = net.predict(X, "score").astype(float)
    each = np.log(np.exp(scores).sum(1)) - scores[np.arange(60), labels]
    some = each[labels != 2].mean()
    assert found["some/loss"] == pytest.approx(some, rel=1e-5)
    assert found["all/loss"] == pytest.approx(each.mean(), rel=1e-5)
    assert found["loss"] == pytest.approx(some + each.mean(), rel=1e-5)
    assert net.evaluate(X, np.full(60, 2), batch_size=batch_size)["some/loss"] == 0


def test_an_ignored_target_of_two_classes_is_right() -> None:
    targets = np.where(X[:, :2] > 1, -1, X[:, :2] > 0)
    net = ignoring("SigmoidCrossEntropyLoss", Input(2, name="y"), 2)
    with pytest.raises(DataError, match=r"'y': record 1 is -2, but 'loss' tells two classes apart"):
        net.fit(X, targets * 2, quiet=True)
    net.fit(X, targets, epochs=50, lr=0.1, quiet=True)
    assert ((net.predict(X) > 0) == targets)[targets >= 0].mean() > 0.9


def test_a_solver_brings_what_it_has() -> None:
    net, same = net_of(), net_of()
    solver = Solver(SGD(), lr_policy=0.1, momentum_policy=0.9, callbacks=[TrainingSummary(every_n_iter=2)])
    training = net.fit(X, Y, epochs=2, batch_size=10, solver=solver, quiet=True)
    assert training.history["train"]["iteration"].tolist() == [2, 4, 6, 8, 10, 12]
    same.fit(X, Y, epochs=2, batch_size=10, solver="SGD", lr=0.1, quiet=True)
    assert weights(net) != weights(same)


@pytest.mark.parametrize(
    ("limits", "epochs", "iterations"),
    [({"max_iter": 3}, None, 3), ({"max_epoch": 2}, None, 12), ({"max_iter": 9, "max_epoch": 1}, None, 6),
     ({}, 3, 18), ({}, None, 60)],
)  # fmt: skip
def test_a_solver_says_what_ends_the_training(limits: dict[str, int], epochs: int | None, iterations: int) -> None:
    solver = Solver(SGD(), lr_policy=0.1, **limits)
    assert net_of().fit(X, Y, epochs=epochs, batch_size=10, solver=solver, quiet=True).iteration == iterations


def test_it_talks_unless_it_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    net_of().fit(X, Y, epochs=2, validation=0.2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines[:-1]] == ["epoch 1 of 2"] * 2 + ["epoch 2 of 2"] * 2
    net_of().fit(X, Y, epochs=2, quiet=True)
    assert capsys.readouterr().out == ""


def test_callbacks_run(tmp_path: Any) -> None:
    from nacre_solvers import JSONLog

    net_of().fit(X, Y, epochs=2, callbacks=[JSONLog(path=tmp_path / "log.jsonl")], quiet=True)
    assert (tmp_path / "log.jsonl").read_text().count('"summary"') == 2


def test_the_net_itself_is_ready_for_more() -> None:
    net = net_of(freeze=["hidden"])
    frozen = net.parameters["hidden/weight"].value.copy()
    net.fit(X, Y, epochs=1, quiet=True)
    assert (net.parameters["hidden/weight"].value == frozen).all()
    net.unfreeze("hidden")
    net.fit(X, Y, epochs=1, quiet=True)
    assert (net.parameters["hidden/weight"].value != frozen).any()
    net.write("x", X[:1])
    net.write("label", Y[:1])
    assert net.forward() > 0
    before = weights(net)
    with pytest.raises(DataError, match="'x': record 0 has a number that is not finite"):
        net.fit(np.where(X > 1, np.nan, X), Y, epochs=1, quiet=True)
    assert weights(net) == before


def test_whole_numbers_that_are_none() -> None:
    with pytest.raises(DataError, match=r"'label' must hold whole numbers \(int64\)"):
        net_of().fit(X, Y + 0.5)


def test_reports_see_the_epochs() -> None:
    reports = Reports()
    net = net_of()
    with Net("n", [MemoryDataLayer(tops=["x", "label"], data=[X, Y], batch_size=20), *net.layers[2:]]) as trained:
        Solver("SGD", max_epoch=2).solve(trained, reports=[reports])
    assert [one["epoch"] for one in reports["summary"]] == [1, 2]


def test_pictures_may_lack_their_channel() -> None:
    x, label = Input((1, 4, 4), name="x"), Input(name="label", dtype="int64")
    score = L.InnerProduct(output_dim=3, name="score")(L.Convolution(n_filter=2, kernel=3)(x))
    net = Net("net", [L.SoftmaxLoss()(score, label)], backend="numpy")
    pictures = np.random.default_rng(0).integers(0, 256, (20, 4, 4)).astype(np.uint8)
    net.fit(pictures, Y[:20], epochs=1, lr=1e-4, quiet=True)
    assert net.predict(pictures).shape == (20, 3)
    assert net.evaluate(pictures, Y[:20]) == net.evaluate(pictures[:, None], Y[:20, None])


def test_what_no_loss_needs_is_absent_in_training_only() -> None:
    x, label = Input(4, name="x"), Input(dtype="int64", name="label")
    score = L.InnerProduct(output_dim=3, name="score")(x)
    prob = L.Softmax(name="prob")(score)
    sure = L.Power(power=2.0, name="sure")(prob)
    outputs = [L.SoftmaxLoss()(score, label), L.Accuracy(name="right")(prob, label), sure]
    net = Net("n", outputs, backend="numpy")
    random = np.random.default_rng(0)
    training = net.fit(random.normal(size=(20, 4)), np.arange(20) % 3, epochs=2, validation=0.5, quiet=True)
    assert "right/accuracy" not in training.history["train"]
    assert np.isfinite(training.history["validation"]["right/accuracy"]).all()
    np.testing.assert_allclose(net.predict(np.ones((2, 4)), "prob").sum(axis=1), 1, rtol=1e-6)


def test_parameters_that_would_never_learn_are_told() -> None:
    x, y = Input(4, name="x"), Input(1, name="y")
    outputs = [L.SquareLoss()(L.InnerProduct(output_dim=1)(x), y), L.InnerProduct(output_dim=2, name="lost")(x)]
    with pytest.raises(TopologyError, match="blob 'lost' of layer 'lost' needs a gradient but reaches no loss"):
        Net("n", outputs, backend="numpy").fit(np.ones((4, 4)), np.ones(4), epochs=1, quiet=True)


def test_weights_that_nobody_would_read_are_refused() -> None:
    x, label, w = Input(4, name="x"), Input(dtype="int64", name="label"), Input(name="w")
    score = L.InnerProduct(output_dim=3)(x)
    block = {"name": "block", "bottoms": ["x", "label"], "tops": ["score"]}
    parts = [
        {"type": "InnerProduct", "bottoms": ["x"], "tops": ["score"], "output_dim": 3},
        {"type": "SoftmaxLoss", "bottoms": ["score", "label"]},
    ]
    inputs = [InputLayer(name="x", tops="x", shape=4), InputLayer(name="label", tops="label", dtype="int64")]
    inside = Net("n", [*inputs, L.Sequential(**block, layer=parts)], backend="numpy")
    own = Net("n", [L.SoftmaxLoss(name="loss")(score, label, w)], backend="numpy")
    arrays = {"x": np.ones((6, 4)), "label": np.arange(6) % 3}
    for given in ({"class_weight": "balanced"}, {"sample_weight": np.ones(6)}):
        with pytest.raises(
            ConfigError, match=r"'block/.*' stands in a container, so that its records cannot be weighed"
        ):
            inside.fit(arrays, epochs=1, quiet=True, **given)
        with pytest.raises(ConfigError, match=r"loss 'loss' \(SoftmaxLoss\) cannot weigh records"):
            own.fit({**arrays, "w": np.ones(6)}, epochs=1, quiet=True, **given)


def test_sizes_have_no_classes_to_balance() -> None:
    x, y = Input(4, name="x"), Input(1, name="y")
    net = Net("n", [L.SquareLoss()(L.InnerProduct(output_dim=1)(x), y)], backend="numpy")
    with pytest.raises(ConfigError, match="reads no class of each record"):
        net.fit(np.ones((6, 4)), np.arange(6), class_weight="balanced", quiet=True)


def test_numbers_of_numpy_are_numbers() -> None:
    x, label = Input(4, name="x"), Input(dtype="int64", name="label")
    net = Net("n", [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(x), label)], backend="numpy")
    weights = {0: np.float32(2), 1: np.int64(1)}
    net.fit(np.ones((6, 4)), np.arange(6) % 3, epochs=1, lr=np.float32(0.1), class_weight=weights, quiet=True)
    assert net.step == 1


@pytest.mark.parametrize("large", [10**400, -(10**400), 10**5000], ids=["large", "negative", "long"])
def test_whole_numbers_that_no_float_holds_are_refused(large: int) -> None:
    net = net_of()
    values: dict[str, Any] = {"sample_weight": [large] * len(X), "class_weight": {0: large}}
    for given in ("lr", "validation", "sample_weight", "class_weight"):
        with pytest.raises((ConfigError, DataError), match=given):
            net.fit(X, Y, quiet=True, **{given: values.get(given, large)})
    training = net.fit(X, Y, epochs=1, quiet=True)
    with pytest.raises(ConfigError, match="lr="):
        training.lr = large


def test_names_are_kept_where_a_training_breaks_off() -> None:
    x, label = Input(1, name="x"), Input(dtype="int64", name="label")
    net = Net("n", [L.SoftmaxLoss()(L.InnerProduct(output_dim=2)(x), label)], backend="numpy")
    with pytest.raises(NotFiniteError):
        net.fit(np.array([[1.0], [2.0]]), ["cat", "dog"], epochs=9, lr=1e38, quiet=True)
    net.reset()
    net.fit(np.ones((2, 1)), ["cat", "dog"], epochs=1, quiet=True)
    assert set(net.predict(np.ones((2, 1)), classes=True)) <= {"cat", "dog"}


def test_layers_of_a_net_may_have_the_names_of_what_fit_adds() -> None:
    x, label = Input(4, name="fitted"), Input(dtype="int64", name="loss-weight")
    score = L.InnerProduct(output_dim=3, name="evaluated")(x)
    net = Net("n", [L.SoftmaxLoss(name="loss")(L.Power(name="validated")(score), label)], backend="numpy")
    images, labels = np.ones((6, 4)), np.arange(6) % 3
    net.fit(images, labels, epochs=1, validation=0.5, class_weight="balanced", quiet=True)
    assert np.isfinite(net.evaluate(images, labels)["loss"])


@pytest.mark.parametrize("probabilities", [False, True])
def test_one_number_tells_two_classes_apart(probabilities: bool) -> None:
    answers = np.where(X[:, 0] > 0, "yes", "no")
    x, label = Input(6, name="x"), Input(1, name="label")
    score = L.InnerProduct(output_dim=1, name="score", neuron="Sigmoid" if probabilities else "Identity")(x)
    loss = L.BinaryCrossEntropyLoss() if probabilities else L.SigmoidCrossEntropyLoss()
    net = Net("n", [loss(score, label), L.Power(name="end", scale=3.0)(score)], backend="numpy")
    net.fit(X, answers, epochs=40, lr=0.1, quiet=True)
    found = net.predict(X, classes=True)
    assert (found == np.where(net.predict(X, "score")[:, 0] > 0.5 * probabilities, "yes", "no")).all()
    assert (found == answers).mean() > 0.9
    assert list(net.predict(X, ["end"], classes=True)) == ["end"]
    net.reset()
    net.fit(X, answers == "yes", epochs=40, lr=0.1, quiet=True)
    assert (net.predict(X, classes=True) == (found == "yes")).mean() > 0.9


def test_a_record_of_several_classes_is_answered_with_a_row() -> None:
    labels = (X[:, :3] > 0).astype(np.int64)
    x, label = Input(6, name="x"), Input(3, name="label")
    score = L.InnerProduct(output_dim=3, name="score")(x)
    outputs = [L.SigmoidCrossEntropyLoss()(score, label), L.Sigmoid(name="prob")(score)]
    net = Net("n", outputs, backend="numpy")
    net.fit(X, labels, epochs=40, lr=0.1, quiet=True)
    found = net.predict(X, "prob", classes=True)
    assert found.dtype == np.int64
    assert (found == (net.predict(X, "score") > 0)).all()
    assert (found == labels).mean() > 0.9


def test_names_are_refused_where_they_are_no_classes() -> None:
    x, y = Input(6, name="x"), Input(1, name="y")
    score = L.InnerProduct(output_dim=1)(x)
    with pytest.raises(DataError, match="'y' holds texts, but 'sizes' compares numbers"):
        Net("n", [L.SquareLoss(name="sizes")(score, y)], backend="numpy").fit(X, NAMES[Y], quiet=True)
    with pytest.raises(DataError, match=r"'y' has 3 classes, .*, but 'two' tells two apart"):
        Net("n", [L.SigmoidCrossEntropyLoss(name="two")(score, y)], backend="numpy").fit(X, NAMES[Y], quiet=True)


def test_a_record_that_is_not_a_number_has_no_class() -> None:
    net = net_of()
    records = X.copy()
    records[4, 0] = np.nan
    with pytest.raises(DataError, match="blob 'score' is not a number for record 4"):
        net.predict(records, classes=True)
    assert np.isnan(net.predict(records)[4]).any()
