"""Transformers for tables: what they are fitted to, against NumPy in float64, and what goes wrong."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nacre import Blocks, ConfigError, DataError, Layer, Net, Transformer
from nacre_data import (
    AsyncHDF5DataLayer,
    CSVDataLayer,
    DataLayer,
    FillMissing,
    HDF5DataLayer,
    ImageDataLayer,
    MemoryDataLayer,
    Scale,
    Standardize,
    fitting,
    tables,
)
from nacre_data.stores.csv import CSVReader
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer

GENERATOR = np.random.default_rng(0)


def blocks_of(data: np.ndarray, size: int = 7, classes: Sequence[str] = ()) -> Blocks:
    """Return blocks that use one memory, as those of a source do."""

    def read() -> Any:
        memory = np.empty((size, *data.shape[1:]))
        for first in range(0, len(data), size):
            block = memory[: len(data[first : first + size])]
            block[...] = data[first : first + size]
            yield block

    return Blocks(len(data), data.shape[1:], classes, read)


def applied(transformer: Transformer, data: np.ndarray, size: int = 7) -> np.ndarray:
    batch = data.copy()
    transformer.with_fitted(transformer.fit(blocks_of(data, size))).transform(batch, None, "train")
    return batch


# Standardize


NUMBERS = st.floats(-1e6, 1e6).map(lambda one: one if abs(one) > 1e-100 else 0.0)
"""Squares of other numbers are too near to 0 to be exact, in NumPy's deviation too."""


@settings(max_examples=60)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=NUMBERS),
    st.integers(1, 50),
)
def test_standardised_columns_against_numpy(data: np.ndarray, size: int) -> None:
    found = Standardize().fit(blocks_of(data, size))
    np.testing.assert_allclose(found["mean"], data.mean(0), rtol=1e-12, atol=1e-12 * np.abs(data).max())
    np.testing.assert_allclose(found["deviation"], data.std(0), rtol=1e-9, atol=1e-12 * np.abs(data).max())
    constant = data.min(0) == data.max(0)
    assert (found["deviation"][constant] == 0).all()
    assert (applied(Standardize(), data, size)[:, constant] == 0).all()


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3, 4)])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_far_from_zero_and_in_every_shape(shape: tuple[int, ...], size: int) -> None:
    data = 1e9 + GENERATOR.normal(size=(301, *shape))
    wanted = (data - data.mean(0)) / data.std(0)
    np.testing.assert_allclose(applied(Standardize(), data, size), wanted, atol=1e-5)


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e300, 1 / 3])
def test_a_constant_column_becomes_zero_whatever_other_data_have_there(constant: float) -> None:
    data = np.stack([np.full(13, constant), np.arange(13.0)], 1)
    assert (applied(Standardize(), data)[:, 0] == 0).all()
    assert applied(Standardize(), data)[:, 1].std() == pytest.approx(1)
    ready = Standardize().with_fitted(Standardize().fit(blocks_of(data)))
    other = np.ones((2, 2))
    ready.transform(other, None, "test")
    assert (other[:, 0] == 0).all()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (np.nan, "column 2 is missing (NaN) in record 9\n  use the transformer FillMissing before"),
        (np.inf, "column 2 is infinite in record 9\n  correct the data"),
    ],
)
def test_no_number_is_refused(bad: float, said: str) -> None:
    data = GENERATOR.normal(size=(20, 3))
    data[9, 2] = bad
    with pytest.raises(DataError) as error:
        Standardize().fit(blocks_of(data))
    assert str(error.value) == said


def test_too_large_for_a_deviation() -> None:
    with pytest.raises(DataError, match="column 0: its mean and deviation are too large for float64"):
        Standardize().fit(blocks_of(np.array([[1e300], [-1e300]])))


def test_records_of_another_shape() -> None:
    ready = Standardize().with_fitted(Standardize().fit(blocks_of(np.eye(4))))
    with pytest.raises(DataError) as error:
        ready.transform(np.ones((2, 3)), None, "test")
    assert str(error.value) == (
        "Standardize: 'mean' is needed for records of shape (3,), but it was fitted to records of shape (4,)\n"
        "  fit it to training data of this shape"
    )
    with pytest.raises(DataError, match="but there is none"):
        Standardize().transform(np.ones((2, 3)), None, "test")


# FillMissing


WITH_HOLES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 4)),
    elements=st.sampled_from([-2.0, 0.0, 1.5, 3.0, 1e6, np.nan]),
)


@settings(max_examples=60)
@given(WITH_HOLES, st.sampled_from(["mean", "median", "frequent", 4.5]), st.integers(1, 40), st.sampled_from([1, 999]))
def test_what_is_missing_is_filled(data: np.ndarray, fill: Any, size: int, held: int) -> None:
    data[0] = 3.0  # a value in every column
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "AT_A_TIME", held)  # one column at a time, or several
        transformer = FillMissing(fill=fill)
        batch = applied(transformer, data, size) if transformer.needs_fit else data.copy()
    if fill == 4.5:
        transformer.transform(batch, None, "test")
    for column in range(data.shape[1]):
        values = data[~np.isnan(data[:, column]), column]
        known, counts = np.unique(values, return_counts=True)
        stands = {"mean": values.mean(), "median": np.median(values), "frequent": known[counts.argmax()], 4.5: 4.5}[
            fill
        ]
        wanted = np.where(np.isnan(data[:, column]), stands, data[:, column])
        np.testing.assert_allclose(batch[:, column], wanted, rtol=1e-12)


def test_each_column_has_its_own_way() -> None:
    data = np.array([[1.0, 1, 1, 1], [1, 1, 1, 1], [4, 4, 4, 4], [4, 5, 6, 7], [np.nan] * 4])
    assert applied(FillMissing(fill=["frequent", "median", "mean", -7]), data)[-1].tolist() == [1.0, 2.5, 3.0, -7.0]
    with pytest.raises(DataError, match=r"fill=\['mean', 'median'\] is for 2 columns, but the records have 4"):
        FillMissing(fill=["mean", "median"]).fit(blocks_of(data))


def test_an_infinite_number_has_a_median_but_no_mean() -> None:
    data = np.array([[1.0, 1], [np.inf, 2], [0, np.nan]])
    assert FillMissing(fill=["median", "mean"]).fit(blocks_of(data))["fill"].tolist() == [1, 1.5]
    with pytest.raises(DataError, match="column 0 is infinite in record 1"):
        FillMissing(fill="mean").fit(blocks_of(data))
    with pytest.raises(DataError, match="column 0: what fills it is too large for float64"):
        FillMissing(fill=["median", 0]).fit(blocks_of(np.full((2, 2), np.inf)))


@pytest.mark.parametrize("fill", ["mean", "median", "frequent"])
def test_a_column_without_values(fill: str) -> None:
    data = np.array([[1.0, np.nan], [2.0, np.nan]])
    with pytest.raises(DataError) as error:
        FillMissing(fill=fill).fit(blocks_of(data))
    assert str(error.value) == (
        "column 1 is missing (NaN) in all 2 records of the training data\n"
        "  leave this column out, or give a number for it in fill"
    )
    assert FillMissing(fill=[fill, 0]).fit(blocks_of(data))["fill"][1] == 0


@pytest.mark.parametrize("fill", ["mode", [], float("nan"), ["mean", float("inf")], None, {}])
def test_odd_ways_to_fill(fill: Any) -> None:
    with pytest.raises(ConfigError, match='it must be "mean", "median", "frequent", a number, or a list'):
        FillMissing(fill=fill)


# In nets


def table(rows: int = 40) -> np.ndarray:
    data = GENERATOR.normal(size=(rows, 3)) * [1, 10, 100] + [0, 5, -50]
    data[::5, 1] = np.nan
    return data


CLEAN: Any = [["x", Scale(scale=0.5)], ["x", FillMissing(fill="median")], ["x", Standardize()]]


def by_numpy(train: np.ndarray, data: np.ndarray) -> np.ndarray:
    train, data = train / 2, data / 2
    middle = np.nanmedian(train, 0)
    train, data = (np.where(np.isnan(one), middle, one) for one in (train, data))
    return (data - train.mean(0)) / train.std(0)


def epoch(net: Net, blob: str = "x") -> np.ndarray:
    """Return a blob of all records of a pass."""
    parts: list[np.ndarray] = []
    while net.epoch < 1:
        net.feed()
        parts.append(net.blob(blob)[: net.scalars["rows"].__int__()])
    return np.concatenate(parts)


def sources(kind: str, folder: Path, train: np.ndarray, test: np.ndarray, ahead: int = 0) -> list[Layer]:
    phases: Any = {"train": ["test", "predict"], "test": ["train", "predict"]}
    made: list[Layer] = []
    for name, data in (("train", train), ("test", test)):
        fields: Any = {
            "name": name, "tops": "x", "batch_size": 4, "transformers": CLEAN, "exclude": phases[name],
            "ahead": ahead,
        }  # fmt: skip
        path = folder / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file["x"] = data
        match kind:
            case "memory":
                made.append(MemoryDataLayer(data=[data], **fields))
            case "hdf5":
                made.append(HDF5DataLayer(source=str(path), **fields))
            case "large hdf5":
                made.append(HDF5DataLayer(source=str(path), cache_bytes=0, **fields))
            case "chunks":
                made.append(AsyncHDF5DataLayer(source=str(path), chunk_size=5, **fields))
            case _:
                made.append(DataLayer(source=str(path), cache_bytes=0, **fields))
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["memory", "hdf5", "large hdf5", "chunks", "data"])
@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("block", [1, 200, 1 << 22])
def test_every_source_is_fitted_to_its_training_data(
    kind: str, dtype: Any, ahead: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "AT_A_TIME", block)
    train, test = table(), table(12)
    layers = [
        *sources(kind, tmp_path, train, test, ahead),
        InnerProductLayer(name="y", bottoms="x", tops="y", output_dim=2),
    ]
    with Net("t", layers, backend="numpy", dtype=dtype) as net, net.derive("test", keep="all") as tested:
        assert set(net.fitted["x"]) == {"FillMissing/fill", "Standardize/mean", "Standardize/deviation"}
        assert tested.fitted == net.fitted or set(tested.fitted) == {"x"}
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        found = epoch(tested)
        np.testing.assert_allclose(found, by_numpy(train, test), atol=tolerance)
        np.testing.assert_array_equal(net.predict(test, "x"), found)  # the same as the test net
        net.feed()
        np.testing.assert_allclose(net.blob("x"), by_numpy(train, train)[:4], atol=tolerance)


def test_only_the_part_that_is_fed_is_fitted_to() -> None:
    data = table()
    split: Any = {"fractions": {"train": 0.6, "validation": 0.4}, "seed": 3}
    layers = [
        MemoryDataLayer(
            name=part, tops="x", data=[data], batch_size=8, split={**split, "part": part}, transformers=CLEAN,
            exclude=[] if part == "train" else ["train"],
        )
        for part in ("train", "validation")
    ]  # fmt: skip
    raw = [MemoryDataLayer(name="r", tops="x", data=[data], batch_size=8, split={**split, "part": "train"})]
    with Net("raw", raw, backend="numpy", phase="test", dtype="float64") as plain:
        part = epoch(plain)
    with Net("t", layers[:1], backend="numpy", dtype="float64") as net:
        filled = np.where(np.isnan(part), np.nanmedian(part, 0), part) / 2
        np.testing.assert_allclose(net.fitted["x"]["Standardize/mean"], filled.mean(0))
        np.testing.assert_allclose(net.fitted["x"]["Standardize/deviation"], filled.std(0))


def test_what_is_given_is_used_and_nothing_is_fitted_again() -> None:
    known = {"x": {"Standardize/mean": np.array([1.0, 2.0]), "Standardize/deviation": np.array([2.0, 0.0])}}
    layer = MemoryDataLayer(
        name="d", tops="x", data=[np.full((4, 2), 9.0)], batch_size=2, transformers=[["x", "Standardize"]]
    )
    for phase in ("train", "test", "predict"):
        with Net("t", [layer], backend="numpy", phase=phase, fitted=known) as net:
            net.feed()
            assert net.blob("x").tolist() == [[4.0, 0.0]] * 2
            assert net.fitted == known


def test_the_same_transformer_twice() -> None:
    twice: Any = [["x", Standardize()], ["x", Scale(scale=3)], ["x", Standardize()]]
    layer = MemoryDataLayer(
        name="d", tops="x", data=[GENERATOR.normal(size=(30, 2))], batch_size=30, transformers=twice
    )
    with Net("t", [layer], backend="numpy", dtype="float64") as net:
        net.feed()
        np.testing.assert_allclose(net.blob("x").std(0), 1)
        np.testing.assert_allclose(net.fitted["x"]["Standardize.2/deviation"], 3)


def test_planning_a_net_reads_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = sources("data", tmp_path, table(), table())
    monkeypatch.setattr(Standardize, "fit", lambda *_: pytest.fail("fitted"))
    for phase in ("train", "test"):
        with Net("t", [train, test], backend="numpy", phase=phase, allocate=False) as net:
            assert net.fitted == {}


def test_a_phase_without_training(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        Net("t", sources("memory", tmp_path, table(), table()), backend="numpy", phase="test")
    assert str(error.value) == (
        "test: 'x': FillMissing is fitted to the training data, of which nothing is known in phase 'test'\n"
        "  derive this net from the training net (net.derive), or give it fitted=snapshot.fitted(); the training's "
        "source must have the same transformers"
    )


def test_a_source_without_the_transformer_of_the_training() -> None:
    layers: list[Layer] = [
        MemoryDataLayer(tops="x", name="train", data=[table()], batch_size=2, transformers=CLEAN, exclude="test"),
        MemoryDataLayer(tops="x", name="test", data=[table()], batch_size=2, exclude="train"),
    ]
    with Net("t", layers, backend="numpy") as net, pytest.raises(ConfigError) as error:
        net.derive("test")
    assert str(error.value) == (
        "test: 'x' was changed by the transformer FillMissing in training, but this source has no such transformer\n"
        "  give the sources of all phases the same transformers"
    )


def test_an_error_names_source_transformer_and_record() -> None:
    layer = MemoryDataLayer(name="d", tops="x", data=[table()], batch_size=2, transformers=[["x", "Standardize"]])
    with pytest.raises(DataError) as error:
        Net("t", [layer], backend="numpy")
    assert str(error.value).startswith("d: transformers: x: column 1 is missing (NaN) in record 0\n")


# Categories

COLOURS = ["blue", "green", "red"]


def coloured(numbers: Sequence[int], name: str = "train", names: Any = COLOURS, **fields: Any) -> Layer:
    fields = {"transformers": [["colour", "Categories"]], "batch_size": 1, **fields}
    return MemoryDataLayer(name=name, tops="colour", data=[np.array(numbers)], classes={"colour": names}, **fields)


def test_categories_are_those_of_the_training_part_and_stay_whole() -> None:
    with Net("t", [coloured([2, 0, 2])], backend="numpy", phase="train") as net:
        assert net.fitted == {"colour": {"classes": ["blue", "red"]}}
        net.feed()
        assert net.blob("colour").dtype == np.int64
        assert net.blob("colour").tolist() == [1]


def test_a_column_of_a_file_that_names_its_categories(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["colour"] = np.array([2, 1, 2, 1], np.uint8)
        file["colour"].attrs["classes"] = COLOURS
        file["x"] = np.arange(8.0).reshape(4, 2)
    fields: Any = {"tops": ["x", "colour"], "transformers": [["colour", "Categories"], ["x", "Standardize"]]}
    layer = DataLayer(name="d", source=str(tmp_path / "a.h5"), batch_size=4, **fields)
    with Net("t", [layer], backend="numpy") as net:
        net.feed()
        assert net.blob("colour").tolist() == [1, 0, 1, 0]
        assert net.fitted["colour"] == {"classes": ["green", "red"]}


@pytest.mark.parametrize("unknown", ["error", "own"])
def test_categories_that_training_did_not_have(unknown: Any) -> None:
    how: Any = {"transformers": [["colour", {"type": "Categories", "unknown": unknown}]]}
    layers: list[Layer] = [
        coloured([2, 0, 2], exclude="test", **how),
        coloured([0, 1, 2, 3], "test", ["red", "pink", "blue", "grey"], exclude="train", **how),
        EmbeddingLayer(name="y", bottoms="colour", tops="y", input_dim=3, output_dim=2),
        InnerProductLayer(name="z", bottoms="y", tops="z", output_dim=2),
    ]
    with Net("t", layers, backend="numpy") as net, net.derive("test", keep="all") as tested:
        net.forward()
        own = {"classes": ["blue", "red", "<unknown>"], "unknown": "<unknown>"}
        assert tested.fitted == {"colour": own if unknown == "own" else {"classes": ["blue", "red"]}}
        if unknown == "own":
            assert epoch(tested, "colour").tolist() == [1, 2, 0, 2]
            assert net.predict([0, 1, 2], "colour").tolist() == [0, 1, 2]  # the numbers of training
            return
        with pytest.raises(DataError) as error:
            epoch(tested, "colour")
        assert str(error.value) == (
            "test: transformers: colour: row 0 of the batch is 'pink', which is not one of the 2 categories of the "
            'training data: blue, red\n  correct the data, or let all unknown ones share a number: unknown = "own"'
        )


@pytest.mark.parametrize("unknown", ["error", "own"])
@pytest.mark.parametrize(
    ("number", "why"),
    [
        (0.9, "an input of classes needs whole numbers"),
        (7.5, "there are only the classes 0 to 1"),
        (np.nan, "there are only the classes 0 to 1"),
        (np.inf, "there are only the classes 0 to 1"),
    ],
)
def test_numbers_that_are_no_category(number: float, why: str, unknown: Any) -> None:
    how: Any = {"transformers": [["colour", {"type": "Categories", "unknown": unknown}]]}
    with Net("t", [coloured([2, 0, 2], batch_size=2, **how)], backend="numpy") as net:
        assert net.predict(np.array([1.0, 0.0]), "colour").tolist() == [1, 0]
        with pytest.raises(DataError) as error:
            net.predict(np.array([1, number]), "colour")
    why = why.replace("0 to 1", "0 to 2") if unknown == "own" else why
    assert str(error.value) == (
        f"train: transformers: colour: row 1 of the batch is {number:g}, but {why}\n  give the number of a class"
    )


@pytest.mark.parametrize(("unknown", "count"), [("error", 2), ("own", 3)])
def test_layers_count_categories_by_the_name_of_their_top(unknown: Any, count: int, tmp_path: Path) -> None:
    how: Any = {"transformers": [["town", {"type": "Categories", "unknown": unknown}]], "tops": ["town", "label"]}
    for name, text in (("a.csv", "town,label\nRom,1\nBonn,0\nRom,1\n"), ("b.csv", "town,label\nBonn,1\nUlm,1\n")):
        (tmp_path / name).write_text(text)
    layers: list[Layer] = [
        CSVDataLayer(name="train", source=tmp_path / "a.csv", batch_size=3, exclude="test", **how),
        CSVDataLayer(name="test", source=tmp_path / "b.csv", batch_size=2, exclude="train", **how),
        EmbeddingLayer(name="y", bottoms="town", tops="y", input_dim="town", output_dim=2),
    ]
    with Net("t", layers, backend="numpy") as net:
        assert net.parameters["y/weight"].shape == (count, 2)
        assert net.classes["town"] == ("Bonn", "Rom", "<unknown>")[:count]
        if unknown == "own":
            with net.derive("test") as tested:
                assert epoch(tested, "town").tolist() == [0, 2]


def test_a_source_may_refuse_what_the_training_would_have_numbered() -> None:
    fitted = {"colour": {"classes": ["blue", "red", "<unknown>"], "unknown": "<unknown>"}}
    net = Net("t", [coloured([0, 1], "test", ["red", "pink"])], backend="numpy", phase="test", fitted=fitted)
    with net, pytest.raises(DataError, match=r"'pink', which is not one of the 2 categories of .*: blue, red"):
        epoch(net, "colour")


def test_a_category_without_a_name_is_listed_in_quotes() -> None:
    fitted = {"colour": {"classes": ["", "red"]}}
    net = Net("t", [coloured([0, 1], "test", ["red", "pink"])], backend="numpy", phase="test", fitted=fitted)
    with net, pytest.raises(DataError, match="2 categories of the training data: '', red"):
        epoch(net, "colour")


def test_categories_of_a_net_that_has_no_name_for_unknown_ones() -> None:
    """As those of nacre 0.1."""
    how: Any = {"transformers": [["colour", {"type": "Categories", "unknown": "own"}]]}
    layer = coloured([0, 1, 2], "test", ["red", "pink", "blue"], **how)
    with Net("t", [layer], backend="numpy", phase="test", fitted={"colour": {"classes": ["blue", "red"]}}) as net:
        assert epoch(net, "colour").tolist() == [1, 2, 0]


def test_records_are_divided_by_their_classes_and_not_by_categories() -> None:
    random = np.random.default_rng(0)
    data = {"town": random.permutation(40), "label": np.arange(40) % 2}
    classes = {"town": [f"town {number}" for number in range(40)]}
    fields: Any = {"classes": classes, "transformers": [["town", "Categories"]], "tops": ["town", "label"]}
    split = {"part": "a", "fractions": {"a": 0.1, "b": 0.9}}
    layer = MemoryDataLayer(name="d", data=data, batch_size=4, split=split, **fields)
    with Net("t", [layer], backend="numpy") as net:
        assert sorted(epoch(net, "label").tolist()) == [0, 0, 1, 1]


def test_categories_are_found_without_reading_other_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("x,town\n1,Rom\n2,Ulm\n")
    wanted: list[set[str]] = []
    original = CSVReader.read

    def read(self: CSVReader, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        wanted.append({*out})
        original(self, numbers, out)

    monkeypatch.setattr(CSVReader, "read", read)
    fields: Any = {"tops": ["x", "town"], "transformers": [["town", "Categories"]]}
    with Net("t", [CSVDataLayer(source=tmp_path / "a.csv", batch_size=2, **fields)], backend="numpy") as net:
        assert wanted == [{"town"}]
        net.feed()
    assert wanted == [{"town"}, {"x", "town"}]


def test_categories_need_names_and_come_first() -> None:
    layer = MemoryDataLayer(tops="n", name="d", data=[np.arange(3)], batch_size=1, transformers=[["n", "Categories"]])
    with pytest.raises(DataError) as error:
        Net("t", [layer], backend="numpy")
    assert str(error.value) == (
        "d: transformers: n: Categories: the numbers of this top have no names, so they are no categories\n"
        "  name them in the field classes, or read a column of texts"
    )
    with pytest.raises(ConfigError, match="Categories must be the first transformer of 'colour'"):
        coloured([0], transformers=[["colour", "Standardize"], ["colour", "Categories"]])


def test_a_regression_on_a_table_learns_on_its_own_scale() -> None:
    data = table(80)
    layer = MemoryDataLayer(
        name="d", tops=["x", "y"], data=[data, np.nan_to_num(data[:, :1])], batch_size=20,
        transformers=[*CLEAN, ["y", Standardize()]],
    )  # fmt: skip
    layers: list[Layer] = [
        layer,
        InnerProductLayer(name="z", bottoms="x", tops="z", output_dim=1),
        SquareLossLayer(name="loss", bottoms=["z", "y"]),
    ]
    with Net("t", layers, backend="numpy") as net:
        assert np.isfinite(net.forward())
        assert net.blob("y").std() < 3


def test_empty_cells_of_a_table_are_filled(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,label\n1,10,a\n,20,b\n5,,a\n3,90,b\n")
    fill: Any = [["data", "FillMissing"], ["data", Standardize()]]
    layer = CSVDataLayer(name="d", source=str(tmp_path / "a.csv"), fill=np.nan, batch_size=4, transformers=fill)
    with Net("t", [layer], backend="numpy", dtype="float64") as net:
        net.feed()
        data = np.array([[1.0, 10], [3, 20], [5, 40], [3, 90]])
        np.testing.assert_allclose(net.blob("data"), (data - data.mean(0)) / data.std(0))
        assert net.classes == {"label": ("a", "b")}


def test_pictures_are_not_fitted_to() -> None:
    fields: Any = {"source": "train", "tops": ["data", "label"], "batch_size": 1}
    with pytest.raises(ConfigError) as error:
        ImageDataLayer(name="d", transformers=[["data", "Standardize"]], **fields)
    assert str(error.value) == (
        "d: transformers: Standardize has to be fitted, but pictures change from pass to pass: use mean and scale"
    )
