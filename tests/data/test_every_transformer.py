"""Every transformer and codec of nacre's own passes the conformance kit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import nacre_data as own
from nacre import registry
from nacre.testing import CodecTests as CodecSuite
from nacre.testing import ComponentTests as ComponentSuite
from nacre.testing import Example
from nacre.testing import TransformerTests as TransformerSuite

NO_PICTURES = ((3,), (2, 3), (1, 2, 3, 4))


class TestScale(TransformerSuite):
    component = own.Scale
    wrong = ({"scale": float("inf")},)

    def examples(self) -> Iterable[Example]:
        yield Example({"scale": 0.5})
        yield Example({"scale": [1.0, 2.0, 3.0]})

    def reference(self, transformer: Any, records: np.ndarray, phase: str) -> np.ndarray:
        return records * np.reshape(transformer.scale, (-1, 1, 1))


class TestSubMean(TransformerSuite):
    component = own.SubMean

    def examples(self) -> Iterable[Example]:
        yield Example({"mean": 2.5})
        yield Example({"mean": [1.0, 2.0, 3.0]})

    def reference(self, transformer: Any, records: np.ndarray, phase: str) -> np.ndarray:
        return records - np.reshape(transformer.mean, (-1, 1, 1))


class TestCrop(TransformerSuite):
    component = own.Crop
    is_random = True
    wrong_shapes = (*NO_PICTURES, (3, 2, 2))

    def examples(self) -> Iterable[Example]:
        yield Example({"size": [3, 4]})


class TestMirror(TransformerSuite):
    component = own.Mirror
    is_random = True
    wrong_shapes = NO_PICTURES


class TestRandomShift(TransformerSuite):
    component = own.RandomShift
    is_random = True
    wrong_shapes = NO_PICTURES
    wrong = ({"pixels": -1},)

    def examples(self) -> Iterable[Example]:
        yield Example({"pixels": 2})


class TestRandomAffine(TransformerSuite):
    component = own.RandomAffine
    is_random = True
    wrong_shapes = NO_PICTURES
    wrong = ({"degrees": -1.0},)

    def examples(self) -> Iterable[Example]:
        yield Example({"degrees": 30.0, "scale": [0.8, 1.2], "translate": 0.2})


class TestColorJitter(TransformerSuite):
    component = own.ColorJitter
    is_random = True
    wrong_shapes = (*NO_PICTURES, (2, 5, 5))
    wrong = ({"hue": 0.6},)

    def examples(self) -> Iterable[Example]:
        yield Example({"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1})


class TestCutout(TransformerSuite):
    component = own.Cutout
    is_random = True
    wrong_shapes = NO_PICTURES

    def examples(self) -> Iterable[Example]:
        yield Example({"size": 2})


class TestRGBImage(TransformerSuite):
    component = own.RGBImage
    is_random = True
    wrong_shapes = NO_PICTURES

    def examples(self) -> Iterable[Example]:
        yield Example({"scale": 0.5, "crop_size": 4, "mirror": True, "mean": [1.0, 2.0, 3.0]})


class TestMnistImage(TransformerSuite):
    component = own.MnistImage
    is_random = True
    wrong_shapes = ((3, 4, 4), (4, 5))

    def examples(self) -> Iterable[Example]:
        yield Example({"gamma": 15.0, "beta": 15.0, "alpha": 3.0, "sigma": 2.0, "kernel": 3, "elastic_freq": 1})

    def records(self, example: Example) -> np.ndarray:
        return super().records(example)[:, :1]


class OfTables(TransformerSuite):
    def records(self, example: Example) -> np.ndarray:
        return np.random.default_rng(0).normal(3, 2, (9, 4))


class TestStandardize(OfTables):
    component = own.Standardize

    def reference(self, transformer: Any, records: np.ndarray, phase: str) -> np.ndarray:
        return (records - records.mean(0)) / records.std(0)


class TestFillMissing(OfTables):
    component = own.FillMissing

    def records(self, example: Example) -> np.ndarray:
        records = super().records(example)
        records[2:4, 1] = np.nan
        return records

    def reference(self, transformer: Any, records: np.ndarray, phase: str) -> np.ndarray:
        return np.where(np.isnan(records), np.nanmean(self.records(Example()), axis=0), records)


class TestCategories(ComponentSuite):
    """It renumbers classes, which records of these tests have none of: see test_tables."""

    component = own.Categories


class TestWords(ComponentSuite):
    """It makes numbers of texts, which records of these tests have none of: see test_words."""

    component = own.Words

    def examples(self) -> Iterable[Example]:
        yield Example({"length": 4})


class TestLabel(TransformerSuite):
    component = own.Label

    def records(self, example: Example) -> np.ndarray:
        return np.arange(8).reshape(8, 1)

    def reference(self, transformer: Any, records: np.ndarray, phase: str) -> np.ndarray:
        return records[:, 0]


class OfCodecs(CodecSuite):
    def packed(self) -> Iterable[Mapping[str, Any]]:
        random = np.random.default_rng(0)
        yield {"data": random.integers(0, 256, (3, 4, 5)).astype(np.uint8), "label": np.int64(3)}

    def encoded(self) -> Iterable[tuple[bytes, Mapping[str, Any]]]:
        codec = self.component()
        for record in self.packed():
            yield codec.encode(record), record


class TestDatum(OfCodecs):
    component = own.Datum


class TestRecord(OfCodecs):
    component = own.Record


class TestSingleLabelImageRecord(OfCodecs):
    component = own.SingleLabelImageRecord


class TestPicture(OfCodecs):
    """Its bytes are a PNG."""

    component = own.Picture

    def packed(self) -> Iterable[Mapping[str, Any]]:
        pytest.importorskip("PIL")
        random = np.random.default_rng(0)
        for channels in (1, 3):
            yield {"data": random.integers(0, 256, (channels, 4, 5)).astype(np.uint8)}


class TestExample(CodecSuite):
    component = own.Example
    expected_failures: ClassVar[dict[str, str]] = {"encode": "it only reads"}

    def encoded(self) -> Iterable[tuple[bytes, Mapping[str, Any]]]:
        features = {
            "image.raw": (1, b"\x07\x08\xff"),
            "height": (3, b"\x03"),
            "box": (2, np.array([0.5, -2.0], "<f4").tobytes()),
        }
        entries = (
            part(1, part(1, name.encode()) + part(2, part(kind, part(1, data))))
            for name, (kind, data) in features.items()
        )
        values = {"image.raw": np.uint8([7, 8, 255]), "height": np.int64(3), "box": np.float32([0.5, -2.0])}
        yield part(1, b"".join(entries)), values


def part(number: int, data: bytes) -> bytes:
    """Return a field of protobuf's that is bytes, at most 127 of them."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def test_no_component_is_forgotten() -> None:
    here = registry()
    tested = {getattr(one, "component", None) for one in globals().values() if isinstance(one, type)}
    for kind in ("transformer", "codec"):
        offered = {here.open_offer(one) for one in here.offers(kind) if one.distribution == "nacre"}
        assert offered - tested == set(), kind
