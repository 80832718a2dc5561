"""What `net.predict` takes: arrays, files, pictures of any size, and names of classes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre
from nacre import Codec, DataError, Field, Input, InputLayer, L, Net
from nacre_data import CSVDataLayer, ImageDataLayer, MemoryDataLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.shapes.concat import ConcatLayer
from small_layers import AddLayer, CountLayer, data

RANDOM = np.random.default_rng(0)


def ip(name: str = "y", bottoms: Any = "data", output_dim: int = 3) -> InnerProductLayer:
    return InnerProductLayer(name=name, bottoms=bottoms, tops=name, output_dim=output_dim)


def made(*layers: Any, **options: Any) -> Net:
    return Net("net", layers, **{"backend": "numpy", "dtype": "float64"} | options)


# Several blobs


def test_arrays_for_several_blobs_come_in_order_or_by_name() -> None:
    net = made(data(5), data(5, top="more"), AddLayer(name="sum", bottoms=["data", "more"], tops="sum"), ip("y", "sum"))
    one, two = RANDOM.normal(size=(2, 7, 5))
    for given in ((one, two), [one, two], {"more": two, "data": one}):
        np.testing.assert_allclose(net.predict(given, "sum"), one + two)
    for given in (one, (one,), (one, two, two)):
        with pytest.raises(DataError, match=r"blobs data, more\n.*tuple of arrays in this order.*\{name: array\}"):
            net.predict(given)


# Files


def test_files_are_read_as_the_arrays_in_them(tmp_path: Path) -> None:
    x = RANDOM.normal(size=(600, 5))
    np.save(tmp_path / "all.npy", x)
    np.save(tmp_path / "rest.npy", x[:7])
    net = made(data(5), ip())
    wanted = net.predict(x)
    for batch_size in (0, 1, 100):
        np.testing.assert_allclose(net.predict(tmp_path / "all.npy", batch_size=batch_size), wanted, rtol=1e-12)
    both = net.predict([str(tmp_path / "all.npy"), tmp_path / "rest.npy"])
    np.testing.assert_allclose(both, [*wanted, *wanted[:7]], rtol=1e-12)
    np.testing.assert_array_equal(net.predict({"data": str(tmp_path / "all.npy")}), wanted)
    with pytest.raises(DataError, match=r"none\.npy: no such file"):
        net.predict(tmp_path / "none.npy")
    np.save(tmp_path / "other.npy", x[:, :4])
    with pytest.raises(DataError, match=r"shape \(4,\), but the net needs \(5,\)"):
        net.predict(tmp_path / "other.npy")


def test_files_for_several_blobs(tmp_path: Path) -> None:
    net = made(data(5), data(5, top="more"), AddLayer(name="sum", bottoms=["data", "more"], tops="sum"), ip("y", "sum"))
    one, two = RANDOM.normal(size=(2, 7, 5))
    np.savez(tmp_path / "both.npz", data=one, more=two)
    np.save(tmp_path / "one.npy", one)
    np.save(tmp_path / "two.npy", two)
    wanted = one + two
    for given in (tmp_path / "both.npz", (tmp_path / "one.npy", tmp_path / "two.npy"), (one, tmp_path / "two.npy")):
        np.testing.assert_allclose(net.predict(given, "sum"), wanted)
    for count in (1, 2):
        several = net.predict([tmp_path / "both.npz"] * count, "sum")
        np.testing.assert_allclose(several, np.concatenate([wanted] * count))
    for given, words in {
        tmp_path / "one.npy": "not clear what in it is 'more', .*'data' of shape",
        tmp_path / "swapped.npz": r"not clear what in it is 'data', .*'a' of shape \(5,\) and 'b' of shape",
    }.items():
        np.savez(tmp_path / "swapped.npz", a=one, b=two)
        with pytest.raises(DataError, match=words):
            net.predict(given, "sum")
    both = made(
        data(5, top="a"), data(5, top="b"), AddLayer(name="sum", bottoms=["a", "b"], tops="sum"), ip("y", "sum")
    )
    with pytest.raises(DataError, match=r"one\.npy: 'a' and 'b' are not both in it: it has 'data'"):
        both.predict(tmp_path / "one.npy", "sum")
    np.save(tmp_path / "two.npy", two[1:])
    with pytest.raises(DataError, match="fewer records for 'more' than for 'data'"):
        net.predict((tmp_path / "one.npy", tmp_path / "two.npy"), "sum")


def test_an_input_finds_its_records_in_a_file_by_name_or_by_size(tmp_path: Path) -> None:
    x, weights = RANDOM.normal(size=(7, 5)), RANDOM.normal(size=(7, 2))
    net = made(data(5, top="x"), ip("y", "x"))
    wanted = net.predict(x)
    path = tmp_path / "some.npz"
    for fields in ({"x": x, "z": 2 * x}, {"pixels": x, "weights": weights}, {"pixels": x.reshape(7, 1, 5)}):
        np.savez(path, **fields)
        np.testing.assert_array_equal(net.predict(path), wanted)
    np.savez(path, a=x, b=x)
    with pytest.raises(
        DataError, match=r"not clear what in it is 'x', .*'a' of shape \(5,\) and 'b'.*\n.* columns x\.0, x\.1"
    ):
        net.predict(path)
    table = tmp_path / "some.csv"
    rows = [",".join([*map(str, row), "yes"]) for row in x.tolist()]
    table.write_text("\n".join(["a,b,c,d,e,kind", *rows]))
    np.testing.assert_allclose(net.predict(table), wanted, rtol=1e-12)  # the column of texts is no data


def test_columns_of_a_table_in_another_order_are_refused(tmp_path: Path) -> None:
    header = "length,width,kind\n"
    (tmp_path / "train.csv").write_text(header + "1,10,a\n2,20,b\n3,30,a\n")
    source = CSVDataLayer(source=str(tmp_path / "train.csv"), label="kind", batch_size=3)
    x, label = source()
    path = tmp_path / "some.csv"
    with Net("sizes", [L.SoftmaxLoss()(L.InnerProduct(output_dim=2)(x), label)], backend="numpy") as net:
        path.write_text("length,width\n1,10\n")
        np.testing.assert_array_equal(net.predict(path), net.predict([[1, 10]]))
        path.write_text("width,length\n10,1\n")
        with pytest.raises(
            DataError, match=r"some\.csv: 'data': column 'width' comes at place 0, .* in training at place 1"
        ):
            net.predict(path)


def test_lines_of_json_have_the_columns_of_a_table_that_a_source_read(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("length,width,kind\n1,10,a\n2,20,b\n3,30,a\n")
    x, label = CSVDataLayer(source=str(tmp_path / "train.csv"), label="kind", batch_size=3)()
    path = tmp_path / "some.jsonl"
    with Net("sizes", [L.SoftmaxLoss()(L.InnerProduct(output_dim=2)(x), label)], backend="numpy") as net:
        path.write_text('{"width": 10, "note": "-", "length": 1}\n{"width": 20, "note": "-", "length": 2.5}\n')
        np.testing.assert_array_equal(net.predict(path), net.predict([[1, 10], [2.5, 20]]))
        path.write_text('{"width": 10, "long": 1}\n')
        with pytest.raises(DataError, match=r"some\.jsonl: 'data' has no column 'length'.*, but training had one"):
            net.predict(path)
        path.write_text('{"other": 10}\n')
        with pytest.raises(DataError, match=r"some\.jsonl: line 1 has no field 'data'"):
            net.predict(path)


# Through codecs


@pytest.mark.parametrize("rows", ["size,label\n1,1\n2,0\n", "size,other,label\n1,1,1\n2,0,0\n"])
def test_no_other_column_stands_for_one_that_was_a_field_of_its_own(rows: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size,town,label\n1,0,1\n2,1,0\n")
    (tmp_path / "b.csv").write_text(rows)
    how: Any = {"tops": ["size", "town", "label"], "batch_size": 2}
    layers = [
        CSVDataLayer(name="train", source=str(tmp_path / "a.csv"), exclude="test", **how),
        CSVDataLayer(name="test", source=str(tmp_path / "b.csv"), exclude="train", **how),
        EmbeddingLayer(name="y", bottoms="town", tops="y", input_dim=3, output_dim=2),
        ip("z", "y"),
    ]
    with made(*layers) as net:
        assert net.fitted["town"]["columns"] == ["town"] and "columns" not in net.fitted["label"]
        with pytest.raises(DataError, match=r"b\.csv: there is no column 'town', which was one in training"):
            net.predict(tmp_path / "b.csv")
        assert net.predict(tmp_path / "a.csv").shape == (2, 3)
        with pytest.raises(DataError, match=r"test: .* column .*'town'"):
            net.derive("test")


class Frame:
    """A data frame, as far as nacre looks at it."""

    def __init__(self, **values: list[Any]) -> None:
        self.values = values
        self.columns = [*values]

    def __getitem__(self, name: str | list[str]) -> Any:
        return self.values[name] if isinstance(name, str) else Frame(**{one: self.values[one] for one in name})

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([*self.values.values()], dtype).T


def test_a_frame_has_the_columns_of_all_blobs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size,town,rooms,label\n1,Ulm,3,1\n2,Bonn,4,0\n")
    layers = [
        CSVDataLayer(
            name="train", source=str(tmp_path / "a.csv"), tops=["data", "town", "label"], data=["size", "rooms"],
            transformers=[["town", "Categories"]], batch_size=2,
        ),
        EmbeddingLayer(name="e", bottoms="town", tops="e", input_dim="town", output_dim=2),
        ConcatLayer(bottoms=["data", "e"], tops="both", axis=1),
        ip("z", "both"),
        L.SoftmaxLoss(name="loss", bottoms=["z", "label"]),
    ]  # fmt: skip
    with made(*layers) as net:
        frame = Frame(town=["Bonn", "Ulm"], rooms=[4, 3], more=["-", "-"], size=[2, 1])
        assert (net.predict(frame)[::-1] == net.predict(tmp_path / "a.csv")).all()
        copied = copy.deepcopy(net)
        arrays = [[2, 4], [1, 3]], ["Bonn", "Ulm"]
        assert copied.evaluate(frame, [0, 1]) == copied.evaluate(arrays, [0, 1])
        with pytest.raises(DataError, match="x goes to the Inputs data, town of net 'net', but it is 3 arrays"):
            copied.evaluate((*arrays, [1, 2]), [0, 1])
        frame = frame[["town", "size"]]
        with pytest.raises(DataError, match="the data have no column 'rooms', but training had one"):
            net.predict(frame)


class Pairs(Codec):
    """Numbers as text with blanks between; as many as are wanted are decoded, from the first on."""

    def describe(self, data: bytes) -> Mapping[str, Field]:
        return {"data": Field(None, "float64")}

    def decode(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, np.ndarray]:
        numbers = np.array([*map(float, data.split())])
        return {"data": numbers[: shapes["data"][0]] if "data" in shapes else numbers}

    def encode(self, record: Mapping[str, Any]) -> bytes:
        if np.ndim(record["data"]) != 1:
            raise DataError("only lists of numbers can be written")
        return " ".join(map(repr, map(float, record["data"]))).encode()


class PairsDataLayer(CountLayer):
    """A stranger's source, whose records have any length."""

    def reading(self) -> Mapping[str, Any]:
        return {"codec": Pairs()}


def test_a_strangers_codec_brings_records_to_the_shape_of_the_net() -> None:
    source = PairsDataLayer(name="pairs", tops=["data", "label"], count=10, batch_size=4, width=3)
    net = made(source, ip())
    long, longer = [1.0, 2.0, 3.0, 4.0], [0.5, 1.5, 2.5, 3.5, 4.5]
    wanted = net.predict([long[:3], longer[:3]])
    np.testing.assert_array_equal(net.predict([np.array(long), longer]), wanted)
    np.testing.assert_array_equal(net.predict(np.array([long])), wanted[:1])
    with pytest.raises(DataError, match=r"'data': record 1: only lists of numbers can be written"):
        net.predict([long, [long]])
    with pytest.raises(DataError, match=r"record 0 becomes one of shape \(2,\), but the net needs \(3,\)"):
        net.predict([long[:2]])
    with pytest.raises(DataError, match=r"record 0: .*\n  a single record is \[x\]"):
        net.predict(np.array(long))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return a folder with pictures of two classes, of different sizes."""
    image = pytest.importorskip("PIL.Image")
    for name, shape in {"train/cat/a.png": (9, 11), "train/cat/b.png": (20, 8), "train/dog/c.png": (8, 30)}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(RANDOM.integers(0, 256, (*shape, 3), np.uint8)).save(tmp_path / name)
    return tmp_path


def classifier(folder: Path) -> Net:
    source = ImageDataLayer(
        source=str(folder / "train"), batch_size=2, short_side=8, crop_size=(6, 5), mean=100, scale=0.01, mirror=True
    )
    pixels, label = source()
    score = L.InnerProduct(output_dim="label")(pixels)
    return Net("pets", [L.SoftmaxLoss()(score, label)], backend="numpy")


def test_pictures_of_any_size_are_scaled_and_cut_as_the_source_does(pictures: Path) -> None:
    from PIL import Image

    net = classifier(pictures)
    paths = [pictures / "train" / name for name in ("cat/a.png", "cat/b.png", "dog/c.png")]
    wanted = net.predict(pictures / "train")
    assert wanted.shape == (3, 2)
    assert net.predict(paths[0], classes=True)[0] in ("cat", "dog")
    opened = [Image.open(path) for path in paths]
    arrays = [np.asarray(one).transpose(2, 0, 1) for one in opened]
    net.save(pictures / "pets.nacre")
    for one in (net, nacre.load(pictures / "pets.nacre")):
        for given in (paths, opened, arrays, tuple(arrays)):
            np.testing.assert_array_equal(one.predict(given), wanted)
        np.testing.assert_array_equal(one.predict(arrays[0][np.newaxis]), wanted[:1])
    cut = RANDOM.integers(0, 256, (2, 3, 6, 5))
    np.testing.assert_allclose(net.predict(cut), net.predict(cut.astype(float)))  # they have the net's shape


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_pictures_of_pillow_have_any_mode(mode: str, pictures: Path) -> None:
    from PIL import Image

    net = classifier(pictures)
    wanted = Image.open(pictures / "train/cat/a.png").convert(mode)
    assert np.isfinite(net.predict([wanted])).all()


def test_a_picture_of_pillow_is_turned_as_its_file_is(pictures: Path) -> None:
    from PIL import Image

    path = pictures / "turned.jpg"
    exif = Image.Exif()
    exif[0x112] = 6
    Image.open(pictures / "train/cat/a.png").save(path, exif=exif)
    net = classifier(pictures)
    np.testing.assert_allclose(net.predict([Image.open(path)]), net.predict(path), atol=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((3, 9, 9), np.uint8), r"record 0: .*shape \(9, 9\).*\n.*; a single record is \[x\]"),
        ([np.zeros((9, 9, 3), np.uint8)], r"shape \(9, 9, 3\) .*\n.*x\.transpose\(2, 0, 1\) puts the channels first"),
        (np.zeros((2, 3, 9, 9)), r"type float64 is no picture\n.* from 0 to 255, uint8"),
        ([np.zeros((3, 9, 9), np.uint8), 3], r"record 1: .*shape \(\)"),
        ("none.png", r"none\.png: no such file"),
    ],
)
def test_what_is_no_picture(given: Any, words: str, pictures: Path) -> None:
    with pytest.raises(DataError, match=words):
        classifier(pictures).predict(given)


def test_a_bad_picture_is_named(pictures: Path) -> None:
    (pictures / "train/cat/aa.png").write_text("no picture")
    with pytest.raises(DataError, match=r"aa\.png: this is not a picture"):
        classifier(pictures).predict(pictures / "train")


# Names of classes


def test_names_of_classes_are_those_of_training() -> None:
    city, x, price = Input(dtype="int64", name="city"), Input(2, name="x"), Input(1, name="price")
    where = L.Embedding(input_dim=3, output_dim=4)(city)
    guess = L.InnerProduct(output_dim=1)(L.Concat()(where, x))
    net = Net("prices", [L.SquareLoss()(guess, price)], backend="numpy")
    names, sizes = np.array(["Bonn", "Köln", "Aachen"])[np.arange(30) % 3], RANDOM.normal(size=(30, 2))
    net.fit({"city": names, "x": sizes}, {"price": RANDOM.normal(size=(30, 1))}, epochs=1, quiet=True)
    wanted = net.predict({"city": np.arange(3), "x": sizes[:3]})
    for given in (np.array(["Aachen", "Bonn", "Köln"]), ["Aachen", "Bonn", "Köln"]):
        np.testing.assert_array_equal(net.predict({"city": given, "x": sizes[:3]}), wanted)
    np.testing.assert_allclose(net.predict((["Köln"], sizes[2:3])), wanted[2:], rtol=1e-5)  # a batch of another size
    with pytest.raises(DataError, match=r"'city' has the class 'Kölm' \(did you mean 'Köln'\?\)"):
        net.predict((["Kölm"], sizes[:1]))
    with pytest.raises(DataError, match=r"'x': the data must be numbers, .* <U1"):
        net.predict((["Köln"], np.array([["a", "b"]])))


def test_categories_of_a_source_are_found_by_name() -> None:
    source = MemoryDataLayer(
        tops=["colour"], data=[np.arange(6) % 3], classes={"colour": ["red", "green", "blue"]}, batch_size=3,
        transformers=[["colour", "Categories"]],
    )  # fmt: skip
    double = ElementWiseLayer(bottoms=["colour", "colour"], tops="twice")
    net = made(source, double, InputLayer(name="other", tops="z"))
    np.testing.assert_array_equal(net.predict(["blue", "red"], "twice"), net.predict(np.array([2, 0]), "twice"))
    with pytest.raises(DataError, match="'pink', which is not one of the 3 categories"):
        net.predict(["pink"], "twice")
