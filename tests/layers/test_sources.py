"""The sources keep what `nacre.testing` asks of every layer; what each of them reads is tested under tests/data."""

import h5py
import numpy as np
import pytest

from nacre import Field, InputLayer
from nacre.random import RecordRandom
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_data import (
    LMDB,
    AsyncHDF5DataLayer,
    CSVDataLayer,
    DataLayer,
    HDF5DataLayer,
    ImageDataLayer,
    LabelLayer,
    LMDBDataLayer,
    MemoryDataLayer,
    NumpyDataLayer,
    Pictures,
    PrefetchLayer,
    RandomNormalLayer,
    RGBImageLayer,
    Shard,
    ShardDataLayer,
    Tar,
    TarDataLayer,
)

X = np.random.default_rng(0).standard_normal((5, 2, 3))
LABEL = np.arange(5) % 3
PICTURES = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 5), np.uint8)


class TestInput(LayerTests):
    layer = InputLayer

    def examples(self):
        yield Example({"shape": [2, 3], "batch_size": 4})
        yield Example({"batch_size": 4, "dtype": "int64"}, tops=2, label="two whole numbers")

    def reference(self, layer, inputs, parameters):
        return [np.zeros((layer.batch_size, *layer.shape))] * len(layer.tops)  # nothing is written


class TestMemoryData(LayerTests):
    layer = MemoryDataLayer

    def examples(self):
        yield Example({"data": [X, LABEL], "tops": ["data", "label"], "batch_size": 3})
        yield Example({"data": X, "tops": ["data"], "batch_size": 5}, label="one pass a batch")

    def reference(self, layer, inputs, parameters):
        return [array[: layer.batch_size] for array in (X, LABEL)[: len(layer.tops)]]


class TestShuffledMemoryData(LayerTests):
    layer = MemoryDataLayer
    is_random = True

    def examples(self):
        yield Example({"data": np.arange(50.0)[:, None], "tops": ["data"], "batch_size": 30, "shuffle": True})

    def reference(self, layer, inputs, parameters):
        return [self.random.generator().permutation(50)[:30, None]]


@pytest.fixture
def five_records(tmp_path, monkeypatch):
    """Make the working folder one with files of the records above."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("five.h5", "w") as file:
        file["data"], file["label"] = X, LABEL
    np.savez("five.npz", data=X, label=LABEL)
    fields = {"data": Field(X.shape[1:], "float64"), "label": Field((), "int64")}
    for store, name in ((LMDB(), "five.lmdb"), (Shard(), "five.shard"), (Tar(), "five.tar")):
        with store.create(tmp_path / name, fields) as writer:
            writer.append({"data": X, "label": LABEL})
    np.savetxt("five.csv", np.column_stack([X.reshape(5, -1), LABEL]), "%.17g", ",")


class TestPrefetch(LayerTests):
    layer = PrefetchLayer
    is_random = True

    def examples(self):
        layers = [
            MemoryDataLayer(name="d", data=[PICTURES, LABEL], tops=["x", "class"], batch_size=3),
            RGBImageLayer(bottoms="x", tops="rgb", crop_size=2),
            LabelLayer(bottoms="class", tops="label"),
        ]
        yield Example({"layer": layers, "tops": ["rgb", "label"]})
        yield Example({"layer": layers, "tops": ["label", "rgb"], "ahead": 0}, label="without a thread")

    def reference(self, layer, inputs, parameters):
        places = [(1, 1)] * 3
        if self.phase == "train":
            random = RecordRandom(0, "rgb", lambda: 0)
            random.at(range(3), [0] * 3)
            places = [(int(3 * row), int(4 * column)) for row, column in random.each(2)]
        windows = [PICTURES[n][:, row : row + 2, column : column + 2] for n, (row, column) in enumerate(places)]
        made = {"rgb": np.stack(windows), "label": LABEL[:3]}
        return [made[top] for top in layer.tops]


@pytest.mark.usefixtures("five_records")
class TestHDF5Data(LayerTests):
    layer = HDF5DataLayer

    def examples(self):
        yield Example({"source": ["five.h5"], "tops": ["data", "label"], "batch_size": 3})

    def reference(self, layer, inputs, parameters):
        return [X[:3], LABEL[:3]]


@pytest.mark.usefixtures("five_records")
class TestData(LayerTests):
    layer = DataLayer

    def examples(self):
        yield Example({"source": ["five.h5"], "tops": ["data", "label"], "batch_size": 3})
        yield Example({"source": ["five.h5"], "tops": ["data", "label"], "batch_size": 3, "cache_bytes": 0})

    def reference(self, layer, inputs, parameters):
        return [X[:3], LABEL[:3]]


@pytest.mark.usefixtures("five_records")
class TestCSVData(LayerTests):
    layer = CSVDataLayer

    def examples(self):
        given = {"source": ["five.csv"], "tops": ["data", "label"], "batch_size": 3}
        yield Example({**given, "label": X[0].size, "shape": X.shape[1:]})

    def reference(self, layer, inputs, parameters):
        return [X[:3], LABEL[:3]]


class OfFiveRecords:
    """The tests of a source that is Data with one store."""

    ending = ""

    def examples(self):
        yield Example({"source": [f"five.{self.ending}"], "tops": ["data", "label"], "batch_size": 3})

    def reference(self, layer, inputs, parameters):
        return [X[:3], LABEL[:3]]


@pytest.mark.usefixtures("five_records")
class TestLMDBData(OfFiveRecords, LayerTests):
    layer = LMDBDataLayer
    ending = "lmdb"


@pytest.mark.usefixtures("five_records")
class TestShardData(OfFiveRecords, LayerTests):
    layer = ShardDataLayer
    ending = "shard"


@pytest.mark.usefixtures("five_records")
class TestTarData(OfFiveRecords, LayerTests):
    layer = TarDataLayer
    ending = "tar"


@pytest.mark.usefixtures("five_records")
class TestNumpyData(OfFiveRecords, LayerTests):
    layer = NumpyDataLayer
    ending = "npz"


@pytest.mark.usefixtures("five_records")
class TestAsyncHDF5Data(LayerTests):
    layer = AsyncHDF5DataLayer

    def examples(self):
        yield Example({"source": ["five.h5"], "tops": ["data", "label"], "batch_size": 3, "chunk_size": 2})

    def reference(self, layer, inputs, parameters):
        return [X[:3], LABEL[:3]]


@pytest.fixture
def five_pictures(tmp_path, monkeypatch):
    """Make the working folder one with a folder of five pictures."""
    monkeypatch.chdir(tmp_path)
    with Pictures().create(
        tmp_path / "five", {"data": Field((3, 4, 5), "uint8"), "label": Field((), "int64")}
    ) as writer:
        writer.append({"data": PICTURES, "label": np.arange(5) // 2})


@pytest.mark.usefixtures("five_pictures")
class TestImageData(LayerTests):
    layer = ImageDataLayer

    def examples(self):
        yield Example({"source": ["five"], "tops": ["data", "label"], "batch_size": 3, "mean": [1, 2, 3]})
        yield Example({"source": ["five"], "tops": ["data", "label"], "batch_size": 3, "short_side": 4, "ahead": 0})

    def reference(self, layer, inputs, parameters):
        return [PICTURES[:3] - np.array(layer.mean)[:, None, None], np.array([0, 0, 1])]


class TestRandomNormal(LayerTests):
    layer = RandomNormalLayer
    is_random = True

    def examples(self):
        yield Example({"output_dims": [2, 3], "batch_size": 4}, tops=2)
        yield Example({"batch_size": 5}, tops=1, label="single numbers")
        yield Example({"output_dims": 3, "batch_size": [2, 4]}, tops=2, label="batches of two sizes")

    def reference(self, layer, inputs, parameters):
        sizes = layer.batch_size * (len(layer.tops) if len(layer.batch_size) == 1 else 1)
        return [
            self.random.generator(draw).standard_normal((size, *layer.output_dims)) for draw, size in enumerate(sizes)
        ]
