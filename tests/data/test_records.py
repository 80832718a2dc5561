"""Files of records: what is written is read back, and what is no such file is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import nacre
from nacre import DataError
from nacre.cli.inputs import read_inputs
from nacre.config import NetFile
from nacre.protocols.records import reader_of, writer_of
from registries import NewRegistry

ARRAY = np.random.default_rng(0).normal(size=(5, 2, 3))


def endings(kind: str) -> list[str]:
    return sorted({offer.name for offer in nacre.registry().offers(kind)})


@pytest.mark.parametrize("ending", [name for name in endings("output") if name in endings("record")])
def test_what_is_written_is_read_back(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"blobs.{ending.upper()}"
    writer_of(path).write(path, {"prob": ARRAY})
    read = reader_of(path).read(path, "prob", (2, 3))
    assert np.allclose(read.reshape(ARRAY.shape), ARRAY, rtol=1e-8)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", endings("output"))
def test_a_file_that_says_several_holds_several(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"blobs.{ending}"
    writer = writer_of(path)
    if writer.several:
        names = ["allow_pickle", "args", "file", "ip1", "prob"]  # some are NumPy's own arguments
        writer.write(path, dict.fromkeys(names, ARRAY[0]))
        opened = np.load(path) if ending == "npz" else h5py.File(path)
        with opened as file:
            assert sorted(file) == names
            assert all(np.array_equal(file[name], ARRAY[0]) for name in names)
    else:
        with pytest.raises(ValueError, match="too many values"):
            writer.write(path, {"prob": ARRAY, "ip1": ARRAY[0]})


@pytest.mark.parametrize("ending", endings("record"))
def test_bad_bytes_are_told(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad.{ending}"
    path.write_bytes(b"\x89 nothing of this kind \xff")
    if reader_of(path).__class__.__name__ == "PictureReader":
        pytest.importorskip("PIL")
    with pytest.raises(DataError, match=f"bad.{ending}"):
        reader_of(path).read(path, "data", (1, 2, 3))


def test_a_dataset_that_leads_out_of_its_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "linked.h5"
    with h5py.File(path, "w") as file:
        file["data"] = h5py.ExternalLink("/etc/other.h5", "data")
    with pytest.raises(DataError, match=r"'data' .*link"):
        reader_of(path).read(path, "data", None)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    for ending in endings("output"):
        path = tmp_path / "no" / f"x.{ending}"
        with pytest.raises(DataError, match="cannot be written"):
            writer_of(path).write(path, {"prob": ARRAY})
    assert list(tmp_path.iterdir()) == []


def test_an_ending_that_nacre_reads_is_anothers_only_by_a_pin(tmp_path: Path, new_registry: NewRegistry) -> None:
    class Other(nacre.RecordReader):
        pass

    new_registry().register(Other, "csv", distribution="acme")
    assert type(reader_of(tmp_path / "x.csv")).__module__.startswith("nacre_data")
    assert isinstance(reader_of(tmp_path / "x.csv", {"record:csv": "acme"}), Other)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("\ufeff1,2\n3,4\n", [[1, 2], [3, 4]]),  # as spreadsheets write it
        ("1,2\r\n3,4\r\n", [[1, 2], [3, 4]]),
        (" 1 ,\t2\n\n+.5,-3.e+2\n", [[1, 2], [0.5, -300]]),
        ("nan,INF\n-Infinity,1E-3\n", [[np.nan, np.inf], [-np.inf, 0.001]]),
        ("7\n8", [[7], [8]]),
    ],
)
def test_a_table_as_programs_write_it(text: str, numbers: list[list[float]], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    assert np.array_equal(reader_of(path).read(path, "data", (2,)), numbers, equal_nan=True)


@pytest.mark.parametrize(
    "cell",
    [
        "1_0",
        "١",
        "１",
        "0x1",
        "1,",
        ",1",
        "1,,2",
        "1 2",
        "1;2",
        "x",
        "1e",
        "--1",
        "1\u00a0",
        "\ufeff",
        "1" * 10**6 + "x",
    ],
)
def test_a_table_that_holds_no_plain_numbers(cell: str, tmp_path: Path) -> None:
    """Python's `float` reads 1_0, and the digits of every script."""
    path = tmp_path / "a.csv"
    path.write_text(f"1\n{cell}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.csv: record 1 \(line 2\)"):
        reader_of(path).read(path, "data", (1,))


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -3), }",
        "{'descr': '|S0', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': 3, }",
        "{'descr': '<q9', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'shape': (3,), }",
        "{" * 5000,
        "-" * 5000 + "1",
        "\0",
        "",
    ],
)
@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"])
def test_an_odd_header_of_an_array(header: str, version: bytes, tmp_path: Path) -> None:
    path, text = tmp_path / "a.npy", header.encode()
    length = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    path.write_bytes(b"\x93NUMPY" + version + length + text + bytes(24))
    with pytest.raises(DataError, match=r"a\.npy: "):
        read_inputs(NetFile(path, {}, ()), [path], "data", None)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">i2", "u1", "?"])
@pytest.mark.parametrize("shape", [(3, 4, 2), (5,), (3, 0), ()])
def test_every_plain_array_is_read(order: Any, dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    array = np.asarray(np.random.default_rng(0).integers(0, 2, shape), dtype, order=order)
    np.save(path, array)
    read = reader_of(path).read(path, "data", None)
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)
