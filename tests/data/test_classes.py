"""Classes: training fixes their numbers, every other set of data is mapped by name, and snapshots know the names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import (
    ConfigError,
    DataError,
    Field,
    Layer,
    Net,
    Reader,
    SnapshotError,
    Solver,
    Store,
    load_parameters,
    load_snapshot,
)
from nacre_data import DataLayer, HDF5DataLayer, ImageDataLayer, MemoryDataLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_solvers import SGD, Snapshot, ValidationPerformance
from toy_training import weights

ANIMALS = ["cat", "dog", "owl"]
NAMES = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=4), min_size=1, max_size=8, unique=True)
OTHERS: Any = ["validation", "test"]


def labels(net: Net) -> list[int]:
    """Return the labels of a pass, as the net gets them."""
    found: list[int] = []
    while net.epoch < 1:
        net.feed()
        found += net.blob("label").reshape(-1)[: int(net.scalars["rows"])].tolist()
    return found


def source(names: Sequence[str] | None, numbers: Sequence[int] | None = None, **fields: Any) -> MemoryDataLayer:
    given = np.arange(len(names or ())) if numbers is None else np.array(numbers)
    classes = None if names is None else {"label": list(names)}
    return MemoryDataLayer(name="d", tops="label", data=[given], classes=classes, **{"batch_size": 1, **fields})


def test_names_that_differ_in_blanks_alone_are_told() -> None:
    told = r"d: 'label' has the classes 'x' and 'x ', which differ in blanks alone: if they are one class"
    with pytest.warns(UserWarning, match=told), Net("t", [source(["y", "x", "x "])], backend="numpy") as net:
        assert net.classes["label"] == ("y", "x", "x ")
    Net("t", [source(["x y", "xy"])], backend="numpy").shutdown()


# By name


@pytest.mark.filterwarnings("ignore:.* differ in blanks alone")
@settings(max_examples=100)
@given(NAMES, NAMES, st.booleans())
def test_any_two_lists_are_mapped_by_name(training: list[str], other: list[str], column: bool) -> None:
    with Net("t", [source(training)], backend="numpy") as net:
        assert net.fitted == {"label": {"classes": training}}
        numbers = np.arange(len(other)).reshape(-1, 1) if column else np.arange(len(other))
        layer = MemoryDataLayer(name="d", tops="label", data=[numbers], classes={"label": other}, batch_size=1)
        if unknown := [name for name in other if name not in training]:
            with pytest.raises(DataError) as error:
                net.derive("test", [layer])
            assert str(error.value).startswith(f"d: 'label' has the class '{unknown[0]}'")
            return
        with net.derive("test", [layer]) as tested:
            assert labels(tested) == [training.index(name) for name in other]
            assert tested.fitted == net.fitted


def test_numbers_without_names_are_those_of_the_training() -> None:
    with Net("t", [source(ANIMALS)], backend="numpy") as net:
        with net.derive("test", [source(None, [2, 0])]) as tested:
            assert labels(tested) == [2, 0]
            assert tested.classes == {"label": tuple(ANIMALS)}
        with net.derive("test", [source(None, [3, 255, -1])]) as tested:  # the loss may ignore them
            assert labels(tested) == [3, 255, -1]


def test_numbers_without_a_name_in_a_file_with_names() -> None:
    with Net("t", [source(ANIMALS)], backend="numpy") as net:
        with net.derive("test", [source(["owl", "cat"], [1, 255, -1, 0])]) as tested:
            assert labels(tested) == [0, 255, -1, 2]
        with net.derive("test", [source(["owl", "cat"], [2])]) as tested, pytest.raises(DataError) as error:
            labels(tested)
    assert str(error.value).endswith("d: label: the number 2 has no name: only those from 0 to 1 have one")


def test_joined_files_number_classes_as_the_first(tmp_path: Path) -> None:
    paths = [hdf5(tmp_path / "a.h5", ANIMALS, [0, 1, 2]), hdf5(tmp_path / "b.h5", ["owl", "cat"], [1, 0])]
    with h5py.File(paths[1], "a") as file:
        file["label"][0] = -1
    fields: Any = {"name": "d", "tops": "label", "batch_size": 1}
    with Net("t", [DataLayer(source=paths, **fields)], backend="numpy", phase="test") as net:
        assert labels(net) == [0, 1, 2, -1, 2]
    with h5py.File(paths[1], "a") as file:
        file["label"][0] = 2
    net = Net("t", [DataLayer(source=paths, **fields)], backend="numpy", phase="test")
    with net, pytest.raises(DataError) as error:
        labels(net)
    assert f"{paths[1]}: 'label': the number 2 has no name: only those from 0 to 1 have one" in str(error.value)


def test_names_that_are_whole_numbers_are_the_numbers_of_a_training_without_names() -> None:
    with Net("t", [source(None, [5, 7])], backend="numpy") as net:
        assert net.fitted == {"label": {"classes": []}}
        with net.derive("test", [source(["7", "5"])]) as tested:
            assert labels(tested) == [7, 5]
        with pytest.raises(DataError) as error:
            net.derive("test", [source(["5", "cat"])])
    assert str(error.value) == (
        "d: 'label' has the class 'cat', but in training its numbers had no names\n"
        "  name them in the field classes of the training's source"
    )


def hdf5(path: Path, names: Sequence[str], numbers: Sequence[int]) -> str:
    with h5py.File(path, "w") as file:
        file["data"] = np.eye(len(ANIMALS))[
            [ANIMALS.index(names[one]) if names[one] in ANIMALS else 0 for one in numbers]
        ]
        file["label"] = np.array(numbers)
        file["label"].attrs["classes"] = list(names)
    return str(path)


def test_the_field_orders_the_names_of_a_file(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", ["owl", "cat"], [0, 1, 0])
    fields: Any = {"name": "d", "tops": "label", "source": path, "batch_size": 1}
    ordered = DataLayer(**fields, classes={"label": ANIMALS})
    with Net("t", [ordered], backend="numpy") as net:
        labels(net)
        assert net.fitted == {"label": {"classes": ANIMALS}}
    with Net("t", [DataLayer(**fields)], backend="numpy", phase="test", fitted=net.fitted) as tested:
        assert labels(tested) == [2, 0, 2]
    with Net("t", [DataLayer(**fields)], backend="numpy", phase="test") as alone:
        assert labels(alone) == [0, 1, 0]
        assert alone.classes == {"label": ("owl", "cat")}


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ({"labels": ["a"]}, "classes name the top 'labels', but it must be one of label"),
        ({"label": []}, "it must be a table of lists of names, such as {label = ['cat', 'dog']}"),
        ({"label": ["a", "a"]}, "it must be a table of lists of names"),
        ({"label": [1, 2]}, "it must be a table of lists of names"),
        (["cat"], "it must be a table of lists of names"),
        ("cat", "it must be a table of lists of names"),
    ],
)
def test_odd_names(classes: Any, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        MemoryDataLayer(name="d", tops="label", data=[np.arange(3)], batch_size=1, classes=classes)
    assert said in str(error.value)


def test_only_whole_numbers_count_classes() -> None:
    layer = MemoryDataLayer(name="d", tops="x", data=[np.ones(3)], batch_size=1, classes={"x": ["a"]})
    with pytest.raises(DataError, match="classes are given for 'x', but its records are no whole numbers"):
        Net("t", [layer], backend="numpy")


@pytest.mark.parametrize(
    "given", [3, {"x": 3}, {3: {}}, {"x": {3: 1}}, *({"x": {"classes": one}} for one in ("ab", [1], ["a", "a"]))]
)
def test_odd_knowledge(given: Any) -> None:
    with pytest.raises(ConfigError) as error:
        Net("t", [source(ANIMALS)], backend="numpy", fitted=given)
    assert "net 't': fitted=" in str(error.value)
    assert "it must be {top: {key: value}}, with lists of names as 'classes'" in str(error.value)
    assert "snapshot.fitted()" in error.value.remedy


def test_a_name_that_a_file_has_twice(tmp_path: Path) -> None:
    layer = DataLayer(name="d", tops="label", source=hdf5(tmp_path / "a.h5", ["cat", "dog", "cat"], [0]), batch_size=1)
    with pytest.raises(DataError) as error:
        Net("t", [layer], backend="numpy")
    assert str(error.value) == "d: 'label' has the class 'cat' twice\n  give each class its own name"


@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_files_that_number_classes_otherwise_are_read_as_the_first(cache: int, tmp_path: Path) -> None:
    one, other = hdf5(tmp_path / "a.h5", ANIMALS, [0, 1, 2]), hdf5(tmp_path / "b.h5", ["owl", "cat"], [1, 0, 0])
    fields: Any = {"name": "d", "tops": "label", "batch_size": 2, "cache_bytes": cache}
    with Net("t", [HDF5DataLayer(source=[one, other], **fields)], backend="numpy", phase="test") as net:
        assert labels(net) == [0, 1, 2, 0, 2, 2]
    split = {"part": "a", "fractions": {"a": 1.0}}
    with Net("t", [HDF5DataLayer(source=[one, other], split=split, **fields)], backend="numpy", phase="test") as net:
        assert labels(net) == [0, 1, 2, 0, 2, 2]
    for paths, said in (([one, plain(tmp_path)], "has no names"), ([plain(tmp_path), one], "has names")):
        with pytest.raises(DataError) as error:
            Net("t", [HDF5DataLayer(source=paths, **fields)], backend="numpy")
        assert str(error.value) == (
            f"d: {paths[1]}: 'label' {said} of classes, unlike {paths[0]}\n  name the classes in all files, or in none"
        )


def test_files_of_which_each_has_classes_of_its_own(tmp_path: Path) -> None:
    files = [hdf5(tmp_path / "a.h5", ["dog", "cat"], [0, 1]), hdf5(tmp_path / "b.h5", ["ant", "dog"], [0, 1])]
    layer = HDF5DataLayer(name="d", tops="label", source=files, batch_size=2)
    with Net("t", [layer], backend="numpy", phase="test") as net:
        assert labels(net) == [0, 1, 2, 0]
        assert net.classes["label"] == ("dog", "cat", "ant")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["label"][1] = 2
    with (
        Net("t", [layer], backend="numpy", phase="test") as net,
        pytest.raises(DataError, match=r"a\.h5: 'label': the number 2 has no name: only those from 0 to 1 have one"),
    ):
        labels(net)


def plain(folder: Path) -> str:
    """Return a file whose classes have no names."""
    with h5py.File(folder / "plain.h5", "w") as file:
        file["label"] = np.arange(3)
    return str(folder / "plain.h5")


# From training to test and predict


def layers(train: Layer, *others: Layer) -> list[Layer]:
    return [
        train,
        *others,
        InnerProductLayer(name="score", bottoms="data", tops="score", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], exclude=["predict"]),
        AccuracyLayer(name="accuracy", bottoms=["score", "label"], exclude=["train", "predict"]),
        SoftmaxLayer(name="prob", bottoms="score", tops="prob", exclude="train"),
    ]


def train_source(kind: str, folder: Path) -> Layer:
    numbers = np.arange(30) % 3
    fields: Any = {"name": "train", "batch_size": 10, "exclude": OTHERS}
    if kind == "memory":
        return MemoryDataLayer(data=[np.eye(3)[numbers], numbers], classes={"label": ANIMALS}, **fields)
    if kind == "npz":
        np.savez(folder / "train.npz", data=np.eye(3)[numbers], label=numbers)
        return DataLayer(source=str(folder / "train.npz"), classes={"label": ANIMALS}, **fields)
    path = hdf5(folder / "train.h5", ANIMALS, numbers.tolist())
    return (HDF5DataLayer if kind == "hdf5" else DataLayer)(source=path, **fields)


KINDS = ["memory", "npz", "hdf5", "data"]


def other_source(path: str, kind: Literal["hdf5", "data"] = "data") -> Layer:
    made = HDF5DataLayer if kind == "hdf5" else DataLayer
    return made(name="test", source=path, batch_size=1, exclude=["train", "predict"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_tests_and_predicts_by_name(kind: str, tmp_path: Path) -> None:
    train = train_source(kind, tmp_path)
    other = hdf5(tmp_path / "other.h5", ["owl", "cat"], [0, 0, 1, 0])  # another order, and one is missing
    folder = str(tmp_path / "saved")
    callbacks = [ValidationPerformance(phase="test", every_n_iter=20), Snapshot(folder=folder)]
    with Net("animals", layers(train, other_source(other)), backend="numpy") as net:
        training = Solver(SGD(), max_iter=60, lr_policy=0.5, callbacks=callbacks).solve(net)
        assert training.statistics["test"]["accuracy"]["accuracy"] == 1
        assert net.classes == {"label": (*ANIMALS,), "score": (*ANIMALS,)}
        assert net.predict(np.eye(3), "prob").argmax(1).tolist() == [0, 1, 2]
    saved = load_snapshot(folder)
    assert saved.state["fitted"] == {"label": {"classes": ANIMALS}}
    for read in ("hdf5", "data"):
        with Net(
            "animals", layers(train, other_source(other, read)), backend="numpy", phase="test", fitted=saved.fitted()
        ) as tested:
            load_parameters(tested, saved)
            tested.forward_epoch()
            assert tested.statistics()["accuracy"]["accuracy"] == 1
            assert tested.classes["prob"] == tuple(ANIMALS)
    unknown = hdf5(tmp_path / "unknown.h5", ["cat", "dogg"], [0, 1])
    with pytest.raises(DataError) as error:
        Net("animals", layers(train, other_source(unknown)), backend="numpy", phase="test", fitted=saved.fitted())
    assert str(error.value) == (
        "test: 'label' has the class 'dogg' (did you mean 'dog'?), which is not one of the 3 known classes: "
        "cat, dog, owl"
    )


def test_a_net_that_numbers_classes_otherwise_takes_no_parameters(tmp_path: Path) -> None:
    train = train_source("data", tmp_path)
    other = other_source(hdf5(tmp_path / "other.h5", ["owl", "cat"], [0, 1]))
    with Net("animals", layers(train, other), backend="numpy") as net:
        training = Solver(SGD(), max_iter=1, callbacks=[Snapshot(folder=tmp_path / "saved")]).solve(net)
    saved = load_snapshot(training.snapshot_path)
    net = Net("animals", layers(train, other), backend="numpy", phase="test")
    with net as tested, pytest.raises(SnapshotError) as error:
        load_parameters(tested, saved)
    assert str(error.value) == (
        "the net's sources found another 'classes' of 'label' in their data than the snapshot has: "
        "['cat', 'dog', 'owl'] in the snapshot, "
        "here ['owl', 'cat']\n  make the net with what the snapshot knows: fitted=snapshot.fitted()"
    )


def fitted_net(folder: Path, names: Sequence[str], data: np.ndarray, **options: Any) -> Net:
    """Return a net with classes and a table, whose records are those of `data` whatever their order of names is."""
    numbers = [names.index(ANIMALS[one % 3]) for one in range(len(data))]
    train = MemoryDataLayer(
        name="train", data=[data, np.array(numbers)], classes={"label": list(names)}, batch_size=8, shuffle=True,
        transformers=[["data", "Standardize"]],
    )  # fmt: skip
    return Net("animals", layers(train), **{"backend": "numpy", "dtype": "float64", **options})


def solver(folder: Path, max_iter: int) -> Solver:
    return Solver(SGD(), max_iter=max_iter, lr_policy=0.1, callbacks=[Snapshot(folder=folder, every_n_iter=5)])


def test_a_resumed_training_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(30, 3)) * [1, 5, 20]
    with fitted_net(tmp_path, ANIMALS, data) as whole:
        solver(tmp_path / "whole", 11).solve(whole)
        wanted = weights(whole)
        known = whole.fitted
    for names in (ANIMALS, ["owl", "cat", "dog"]):  # the data now count in another order
        folder = tmp_path / "-".join(names)
        with fitted_net(tmp_path, ANIMALS, data) as first:
            solver(folder, 5).solve(first)
        saved = load_snapshot(folder)
        np.testing.assert_array_equal(saved.arrays["fitted/data/Standardize/mean"], data.mean(0))
        with fitted_net(tmp_path, names, data, fitted=saved.fitted(), plan=saved.state["plan"]) as second:
            training = solver(folder, 11).solve(second, resume=saved, reports=[lambda *_: None])
            assert training.resumed_from == 5
            assert weights(second) == wanted
            assert second.fitted["label"] == known["label"]
            np.testing.assert_array_equal(second.fitted["data"]["Standardize/mean"], known["data"]["Standardize/mean"])


def test_what_is_known_is_taken_on_resuming_not_fitted_again(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(30, 3))
    with fitted_net(tmp_path, ANIMALS, data) as first:
        solver(tmp_path / "a", 5).solve(first)
        known = first.fitted
    saved = load_snapshot(tmp_path / "a")
    with fitted_net(tmp_path, ANIMALS, data + 1, fitted=saved.fitted()) as second:
        solver(tmp_path / "a", 6).solve(second, resume=saved, reports=[lambda *_: None])
        np.testing.assert_array_equal(second.fitted["data"]["Standardize/mean"], known["data"]["Standardize/mean"])
    with fitted_net(tmp_path, ANIMALS, data + 1) as other, pytest.raises(SnapshotError) as error:
        solver(tmp_path / "a", 6).solve(other, resume=saved, reports=[lambda *_: None])
    assert "found another 'Standardize/mean' of 'data' in their data than the snapshot has\n" in str(error.value)
    unknown = [*ANIMALS[:2], "eel", "owl"]
    with pytest.raises(DataError, match="'label' has the class 'eel'"):
        fitted_net(tmp_path, unknown, data, fitted=saved.fitted())


def test_a_snapshot_of_a_version_that_knew_nothing(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(30, 3))
    with fitted_net(tmp_path, ANIMALS, data) as first, solver(tmp_path / "a", 5).start(first) as training:
        now = training.snapshot()
        state = {key: value for key, value in now.state.items() if key != "fitted"}
        arrays = {key: value for key, value in now.arrays.items() if not key.startswith("fitted/")}
        old = type(now)(now.iteration, arrays, state)
        assert old.fitted() == {}
        training.restore(old)  # what this net has found stays
        assert first.fitted["label"] == {"classes": ANIMALS}


@pytest.mark.parametrize("forged", [{"label": {"classes": "abc"}}, {"label": {"classes": ["a", "a", 3]}}])
def test_forged_names_end_in_a_sentence(forged: Any) -> None:
    with pytest.raises(ConfigError, match="fitted="):
        Net("t", [source(ANIMALS)], backend="numpy", fitted=forged)


def pictures(folder: Path, names: Sequence[str]) -> str:
    """Make a folder with a sub-folder for each class, and one picture in each."""
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        image.fromarray(np.full((2, 2, 3), 10 * number, np.uint8)).save(folder / name / "a.png")
    return str(folder)


def test_folders_of_pictures_are_mapped_by_name(tmp_path: Path) -> None:
    fields: Any = {"name": "d", "tops": ["data", "label"], "batch_size": 1}
    train = ImageDataLayer(source=pictures(tmp_path / "train", ["cat", "dog", "owl"]), **fields)
    with Net("t", [train], backend="numpy") as net:
        assert net.fitted == {"label": {"classes": ANIMALS}}
        with net.derive(
            "test", [ImageDataLayer(source=pictures(tmp_path / "few", ["owl", "dog"]), **fields)]
        ) as tested:
            assert labels(tested) == [1, 2]
        with pytest.raises(DataError, match="'label' has the class 'eel'"):
            net.derive("test", [ImageDataLayer(source=pictures(tmp_path / "more", ["cat", "eel"]), **fields)])
    fields["transformers"] = [["label", "Categories"]]
    with Net("t", [ImageDataLayer(source=str(tmp_path / "train"), mirror=True, **fields)], backend="numpy") as net:
        net.feed()
        assert net.fitted == {"label": {"classes": ANIMALS}}


class Words(Store):
    """Texts, one on each line, which can only be read one after the other."""

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        names = path.read_text().split()
        reader = Reader()
        reader.fields = {"label": Field((), "int64", tuple(sorted(set(names))))}
        reader.count = None
        numbers = [{"label": np.int64(sorted(set(names)).index(name))} for name in names]
        reader.rows = lambda start=0: iter(numbers[start:])
        return reader


def test_records_that_are_read_one_after_the_other(tmp_path: Path) -> None:
    fields: Any = {"name": "d", "tops": "label", "batch_size": 1, "store": Words()}
    path = tmp_path / "a.words"
    path.write_text("dog\nowl\ndog\n")
    net = Net("t", [source(ANIMALS)], backend="numpy")
    with net, net.derive("test", [DataLayer(source=str(path), **fields)]) as tested:
        assert labels(tested) == [1, 2, 1]
        path.write_text("eel\nowl\ndog\n")
        with pytest.raises(DataError, match="d: the records have other classes than in the pass before"):
            tested.forward_epoch()
    layer = DataLayer(source=str(path), transformers=[["label", "Categories"]], **fields)
    with pytest.raises(DataError) as error:
        Net("t", [layer], backend="numpy")
    assert str(error.value) == (
        "d: Categories needs to know all records before the first, but these are read one after the other, and their "
        "number is not known\n  convert them to a format whose records are numbered, such as .h5, first"
    )
