"""Parquet with nacre's kit, and against what pyarrow itself writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import DataError, Field, open_records
from nacre.testing import StoreTests, check_plugin

pyarrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

from nacre_parquet import Parquet  # noqa: E402  pyarrow may be missing


class TestParquet(StoreTests):
    """Numbers, tables and classes."""

    store = Parquet()
    step = 7

    def fields(self) -> Mapping[str, Field]:
        return {"data": Field((2, 3), "float32"), "label": Field((), "int64", classes=("cat", "dog"))}


class TestTypes(StoreTests):
    """Each type of numbers."""

    store = Parquet()
    step = 97

    def fields(self) -> Mapping[str, Field]:
        types = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
        return {name: Field((), name) for name in types}


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    """Write a file with pyarrow."""
    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


def read(path: Path) -> list[Any]:
    """Return the records of a file."""
    with Parquet().open(path) as reader:
        return [*reader.rows()]


def test_what_pyarrow_writes_is_read(tmp_path: Path) -> None:
    """Columns of every kind that is read."""
    columns = {
        "x": [1.5, 2.5, 3.5],
        "text": ["dog", "cat", "dog"],
        "several": [[1, 2], [3], []],
        "image": [{"bytes": b"\xff\xd8\xff", "path": "a.jpg"}] * 3,
        "kind": pyarrow.array(["10", "9", "10"]).dictionary_encode(),
    }
    path = write(tmp_path / "x.parquet", columns, row_group_size=2)
    with open_records([path], store=Parquet(), codec=None) as reader:
        assert reader.fields == {
            "x": Field((), "float64"),
            "text": Field((), "int64", classes=("cat", "dog")),
            "several": Field(None, "int64"),
            "image": Field(None, "uint8", codec="Picture"),
            "kind": Field((), "int64", classes=("9", "10")),
        }
        rows = [*reader.rows()]
    assert [row["x"] for row in rows] == [1.5, 2.5, 3.5]
    assert [row["text"] for row in rows] == [1, 0, 1]
    assert [row["several"].tolist() for row in rows] == [[1, 2], [3], []]
    assert rows[2]["image"] == b"\xff\xd8\xff"
    assert [row["kind"] for row in rows] == [1, 0, 1]


def test_records_of_all_row_groups_are_read_in_any_order(tmp_path: Path) -> None:
    """Also when one batch is in many row groups."""
    path = write(tmp_path / "x.parquet", {"x": np.arange(1000)}, row_group_size=64)
    numbers = np.random.default_rng(0).integers(0, 1000, 300)
    with open_records([path], store=Parquet()) as reader:
        out = np.empty(300, np.int64)
        reader.read(numbers, {"x": out})
    np.testing.assert_array_equal(out, numbers)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": [1, None]}, "record 1: 'x' is missing"),
        ({"x": [b"a", None]}, "record 1: 'x' is missing"),
        ({"x": ["a", None]}, "record 1: 'x' is missing"),
        ({"x": [{"a": 1}]}, "'x' is of type struct"),
        ({"x": pyarrow.array([[1, None]], pyarrow.list_(pyarrow.int64(), 2))}, "missing numbers"),
        ({"x": [{"bytes": None, "path": "a.jpg"}]}, "'x' has records without bytes"),
        ({}, "no columns"),
    ],
)
def test_what_is_no_data_is_told(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    """The message has the file, and the record where there is one."""
    path = write(tmp_path / "x.parquet", columns)
    with pytest.raises(DataError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_what_declares_more_than_the_file_justifies_is_refused(tmp_path: Path) -> None:
    """Ten million equal numbers are a few bytes."""
    path = write(tmp_path / "x.parquet", {"x": np.zeros(10_000_000)}, row_group_size=10_000_000)
    with pytest.raises(DataError, match="declares 10,000,000 records"):
        read(path)


def test_any_changed_byte_ends_in_a_sentence_or_in_numbers(tmp_path: Path) -> None:
    """No changed byte ends the process."""
    with Parquet().create(tmp_path / "whole.parquet", {"x": Field((3,), "int16"), "y": Field((), "int64")}) as writer:
        writer.append({"x": np.ones((9, 3)), "y": np.arange(9)})
    data, path, past = (tmp_path / "whole.parquet").read_bytes(), tmp_path / "x.parquet", 0
    for place in range(len(data)):
        bad = bytearray(data)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        try:
            past += len(read(path)) > 0
        except DataError:
            continue
    assert past


def test_what_a_file_has_no_room_for_is_told(tmp_path: Path) -> None:
    """Nothing is left behind then."""
    with pytest.raises(DataError, match="'x' differs in shape"):
        Parquet().create(tmp_path / "x.parquet", {"x": Field(None, "float32")})
    with pytest.raises(DataError, match="nothing can be appended"):
        Parquet().create(tmp_path / "x.parquet", {"x": Field((), "float32")}, append=True)
    assert [*tmp_path.iterdir()] == []


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-parquet` says."""
    check_plugin("nacre-parquet")
