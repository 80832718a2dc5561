"""Every source of nacre's own passes the conformance kit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import nacre
from line_store import Lines
from nacre import Field, Store
from nacre.testing import Example
from nacre.testing import SourceTests as SourceSuite
from nacre_data import (
    CSV,
    HDF5,
    LMDB,
    NPZ,
    AsyncHDF5DataLayer,
    CharTextLayer,
    CSVDataLayer,
    DataLayer,
    HDF5DataLayer,
    ImageDataLayer,
    IterableDataLayer,
    LMDBDataLayer,
    MemoryDataLayer,
    NumpyDataLayer,
    Pictures,
    PrefetchLayer,
    RandomNormalLayer,
    Shard,
    ShardDataLayer,
    Tar,
    TarDataLayer,
    WordTextLayer,
)

DATA = np.arange(14, dtype=np.float32).reshape(7, 2) / 2
LABEL = np.arange(7) % 3
ITEMS = [*zip(DATA, LABEL.tolist(), strict=True)]
TEXT = "der die das\nüber die Wörter\n\nein Ende, das keines ist"


class OfStores:
    """Sources over the file of a store."""

    store: ClassVar[Store]
    name: ClassVar[str]
    forms: ClassVar[Mapping[str, Mapping[str, Any]]] = {"": {}}

    def examples(self) -> Iterable[Example]:
        for label, fields in self.forms.items():
            yield Example(fields, label=label)

    def write(self, folder: Path) -> Mapping[str, Any]:
        path = folder / self.name
        if not path.exists():
            with self.store.create(path, {"data": Field((2,), "float32"), "label": Field((), "int64")}) as writer:
                writer.append({"data": DATA, "label": LABEL})
        return {"source": path}

    def records(self) -> Mapping[str, Any]:
        return {"data": DATA, "label": LABEL}


class TestHDF5Data(OfStores, SourceSuite):
    layer = HDF5DataLayer
    store, name = HDF5(), "records.h5"
    forms = {"": {}, "not kept, read ahead": {"cache_bytes": 0, "ahead": 2}}  # noqa: RUF012


class TestAsyncHDF5Data(OfStores, SourceSuite):
    layer = AsyncHDF5DataLayer
    store, name = HDF5(), "records.h5"
    forms = {"": {}, "small chunks": {"chunk_size": 2}}  # noqa: RUF012


class TestData(OfStores, SourceSuite):
    layer = DataLayer
    store, name = NPZ(), "records.npz"


class TestDataOfAStream(SourceSuite):
    """Records without numbers, which are read one after the other."""

    layer = DataLayer
    shuffle = {"shuffle": True, "window": 4}  # noqa: RUF012

    def write(self, folder: Path) -> Mapping[str, Any]:
        (folder / "seven.lines").write_text("".join(f"{number}\n" for number in range(7)))
        return {"source": folder / "seven.lines", "store": Lines(), "tops": ["id", "x"]}

    def records(self) -> Mapping[str, Any]:
        return {"id": np.arange(7), "x": np.repeat(np.arange(7.0), 2).reshape(7, 2)}


class TestCSVData(OfStores, SourceSuite):
    layer = CSVDataLayer
    store, name = CSV(), "records.csv"


class TestLMDBData(OfStores, SourceSuite):
    layer = LMDBDataLayer
    store, name = LMDB(), "records.lmdb"
    forms = {"": {"processes": 0}}  # noqa: RUF012


class TestShardData(OfStores, SourceSuite):
    layer = ShardDataLayer
    store, name = Shard(), "records.shard"


class TestTarData(OfStores, SourceSuite):
    layer = TarDataLayer
    store, name = Tar(), "records.tar"


class TestNumpyData(OfStores, SourceSuite):
    layer = NumpyDataLayer
    store, name = NPZ(), "records.npz"


class TestImageData(SourceSuite):
    layer = ImageDataLayer

    def write(self, folder: Path) -> Mapping[str, Any]:
        path = folder / "pictures"
        if not path.exists():
            pytest.importorskip("PIL.Image")
            fields = {"data": Field((3, 4, 4), "uint8"), "label": Field((), "int64", classes=("a", "b", "c"))}
            with Pictures().create(path, fields) as writer:
                writer.append(dict(zip(("data", "label"), self._pictures(), strict=True)))
        return {"source": path}

    def _pictures(self) -> tuple[np.ndarray, np.ndarray]:
        return np.random.default_rng(0).integers(0, 256, (7, 3, 4, 4), np.uint8), np.sort(LABEL)

    def records(self) -> Mapping[str, Any]:
        return dict(zip(("data", "label"), self._pictures(), strict=True))


class TestMemoryData(SourceSuite):
    layer = MemoryDataLayer

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"ahead": 2}, label="read ahead")

    def write(self, folder: Path) -> Mapping[str, Any]:
        return {"data": [DATA, LABEL]}

    def records(self) -> Mapping[str, Any]:
        return {"data": DATA, "label": LABEL}


class TestIterableData(TestMemoryData):
    layer = IterableDataLayer

    def write(self, folder: Path) -> Mapping[str, Any]:
        return {"data": ITEMS}


def items() -> Iterator[Any]:
    yield from ITEMS


class TestIterableDataInOrder(TestMemoryData):
    layer = IterableDataLayer
    shuffle = {"shuffle": True, "window": 4}  # noqa: RUF012

    def write(self, folder: Path) -> Mapping[str, Any]:
        return {"data": items}


class TestPrefetch(SourceSuite):
    layer = PrefetchLayer

    def make_in(self, folder: Path, example: Example, *, batch: int = 3, name: str = "tested") -> Any:
        fields = dict(example.fields)
        shuffle = fields.pop("shuffle", False)
        inner = MemoryDataLayer(name=f"{name}-data", data=[DATA, LABEL], batch_size=batch, shuffle=shuffle)
        return PrefetchLayer(name=name, layer=[inner], **cast("Any", fields))

    shuffle = {"shuffle": True}  # noqa: RUF012

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"ahead": 0}, label="without a thread")

    def records(self) -> Mapping[str, Any]:
        return {"data": DATA, "label": LABEL}


class TestRandomNormal(SourceSuite):
    layer = RandomNormalLayer
    endless = True

    def write(self, folder: Path) -> Mapping[str, Any]:
        return {"tops": "noise", "output_dims": 4}


class TestCharText(SourceSuite):
    layer = CharTextLayer

    def write(self, folder: Path) -> Mapping[str, Any]:
        (folder / "text.txt").write_text(TEXT, encoding="utf-8")
        return {"source": folder / "text.txt", "vocabulary": sorted({*TEXT}), "steps": 4}

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"tops": ["data", "label", "cont"], "steps": 2}, label="cont")


class TestWordText(SourceSuite):
    layer = WordTextLayer

    def write(self, folder: Path) -> Mapping[str, Any]:
        (folder / "text.txt").write_text(TEXT, encoding="utf-8")
        return {"source": folder / "text.txt", "vocabulary": sorted({*TEXT.split(), "\n"}), "steps": 1}


def test_every_source_is_tested_here() -> None:
    offers = [offer for offer in nacre.registry().offers("layer") if offer.distribution == "nacre"]
    layers = [nacre.registry().open("layer", offer.name) for offer in offers]
    tested = {suite.layer for suite in globals().values() if isinstance(suite, type) and hasattr(suite, "layer")}
    without_data = {"InputLayer"}  # it is written to
    assert {layer for layer in layers if layer.is_source and layer.__name__ not in without_data} == tested
