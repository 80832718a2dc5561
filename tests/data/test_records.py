"""Files of records: what is no such file is told, and everything else comes out as it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import nacre
from nacre import DataError
from nacre.net.records import endings, store_of
from record_files import predict_input, read_records
from registries import NewRegistry


@pytest.mark.parametrize("ending", endings())
def test_bad_bytes_are_told(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad{ending}"
    path.write_bytes(b"\x89 nothing of this kind \xff")
    with pytest.raises(DataError, match=f"bad{ending}"):
        read_records(path, shape=(1, 2, 3))


def test_a_dataset_that_leads_out_of_its_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "linked.h5"
    with h5py.File(path, "w") as file:
        file["data"] = h5py.ExternalLink("/etc/other.h5", "data")
    with pytest.raises(DataError, match=r"'data' .*link"):
        read_records(path)


class Foreign(nacre.Store):
    """A store of another package."""

    def open(self, path: Path, fields: Sequence[str] = ()) -> nacre.Reader:
        raise NotImplementedError


def test_an_ending_that_nacre_reads_is_anothers_only_by_a_pin(
    tmp_path: Path, new_registry: NewRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(Foreign):
        endings = (".h5",)

    new_registry().register(Other, "HDF5", distribution="acme")
    path = tmp_path / "x.h5"
    assert type(store_of(path)).__module__.startswith("nacre_data")
    assert isinstance(store_of(path, pins={"store:HDF5": "acme"}), Other)
    assert isinstance(store_of(path, "acme:HDF5"), Other)
    monkeypatch.chdir(tmp_path)
    Path("nacre.toml").write_text('[plugins]\npin = { "store:HDF5" = "Acme" }\n', encoding="utf-8")
    assert isinstance(store_of(path), Other)
    assert not isinstance(store_of(path, pins={"store:HDF5": "nacre"}), Other)


def test_two_strangers_that_read_a_file_are_told(tmp_path: Path, new_registry: NewRegistry) -> None:
    class Other(Foreign):
        endings = (".xyz",)

    registry = new_registry()
    registry.register(Other, "Xyz", distribution="acme")
    assert isinstance(store_of(tmp_path / "a.xyz"), Other)
    registry.register(Other, "XYZ", distribution="zebra")
    with pytest.raises(DataError, match="several stores read such files: acme:Xyz and zebra:XYZ") as caught:
        store_of(tmp_path / "a.xyz")
    assert 'store = "acme:Xyz", or add a pin: pin = { "store:Xyz" = "acme" }' in caught.value.remedy
    registry.pins["store:XYZ"] = "zebra"  # as those of a net file are while it is read
    store_of(tmp_path / "a.xyz")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("\ufeff1,2\n3,4\n", [[1, 2], [3, 4]]),  # as spreadsheets write it
        ("1,2\r\n3,4\r\n", [[1, 2], [3, 4]]),
        (" 1 ,\t2\n\n+.5,-3.e+2\n", [[1, 2], [0.5, -300]]),
        ("1,INF\n-Infinity,1E-3\n", [[1, np.inf], [-np.inf, 0.001]]),
        ("7\n8", [[7], [8]]),
    ],
)
def test_a_table_as_programs_write_it(text: str, numbers: list[list[float]], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    assert np.array_equal(read_records(path), numbers, equal_nan=True)


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
    with pytest.raises(DataError, match=r"a\.csv: line 2"):
        read_records(path)


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
        predict_input(path)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">i2", "u1", "?"])
@pytest.mark.parametrize("shape", [(3, 4, 2), (5,)])
def test_every_plain_array_is_read(order: Any, dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    array = np.asarray(np.random.default_rng(0).integers(0, 2, shape), dtype, order=order)
    np.save(path, array)
    read = read_records(path)
    assert read.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(read, array)
