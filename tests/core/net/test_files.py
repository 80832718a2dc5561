"""Records of files side by side, of which some cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import DataError, Field, Reader, Store
from nacre.net.files import FileRecords, batches
from nacre.protocols.data_store import BLOCK
from registries import NewRegistry


class Damaged(Store):
    """As many records as the name of the file says, of which those in its text cannot be read."""

    endings = (".damaged",)

    def open(self, path: Path, fields: Any = ()) -> Reader:
        text = path.read_text(encoding="utf-8")
        if text == "none":
            raise DataError(f"{path}: it is broken")
        return DamagedReader(path, {*map(int, text.split())}, *fields)


class DamagedReader(Reader):
    named = True

    def __init__(self, path: Path, bad: set[int], name: str) -> None:
        self.path, self.bad = path, bad
        self.count: int | None = int(path.stem)
        self.fields = {name: Field((2,), "int64")}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        if bad := self.bad & {*numbers.tolist()}:
            raise DataError(f"{self.path}: {self.key(min(bad))}: damaged")
        for array in out.values():
            array[...] = numbers[:, np.newaxis]

    def key(self, number: int) -> str:
        return f"r{number}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> Path:
    monkeypatch.chdir(tmp_path)
    new_registry(discover=False).register(Damaged)
    return tmp_path


def file(count: int, *bad: int | str) -> Path:
    path = Path(f"{count}.damaged")
    path.write_text(" ".join(map(str, bad)), encoding="utf-8")
    return path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("size", [1, 3, 100, 2000])
def test_records_that_cannot_be_read_have_errors_in_their_places(size: int) -> None:
    bad = {0, 7, BLOCK, BLOCK + 1, 999}
    with FileRecords(None, [file(1000, *bad)], "data") as records:
        found = [*batches({"data": records}, size)]
    assert [key for batch in found for key in batch.keys] == [f"r{number}" for number in range(1000)]
    errors = {size * first + place: error for first, one in enumerate(found) for place, error in one.errors.items()}
    assert {*errors} == bad
    assert str(errors[7]).endswith("r7: damaged")
    read = np.concatenate([batch.records["data"] for batch in found])
    np.testing.assert_array_equal(read[:, 0], [number for number in range(1000) if number not in bad])


@pytest.mark.usefixtures("folder")
def test_a_record_that_one_blob_lacks_is_none_for_the_other_either() -> None:
    Path("5").mkdir()
    other = file(5, 3).rename("5/5.damaged")
    with FileRecords(None, [file(5, 1)], "left") as left, FileRecords(None, [other], "right") as right:
        (batch,) = batches({"left": left, "right": right}, 10)
    assert batch.good == [0, 2, 4]
    for blob in ("left", "right"):
        assert batch.records[blob][:, 0].tolist() == [0, 2, 4]


@pytest.mark.usefixtures("folder")
def test_a_file_that_cannot_be_opened_is_one_among_several() -> None:
    paths = [file(2), file(3, "none"), file(4, 2)]
    with FileRecords(None, paths, "data") as records:
        assert records.count == 7
        (batch,) = batches({"data": records}, 10)
    assert batch.keys == [
        "2.damaged: r0", "2.damaged: r1", "3.damaged", *(f"4.damaged: r{number}" for number in range(4))
    ]  # fmt: skip
    assert {place: str(error) for place, error in batch.errors.items()} == {
        2: "3.damaged: it is broken",
        5: "4.damaged: r2: damaged",
    }
    with pytest.raises(DataError, match=r"3\.damaged: it is broken"):
        FileRecords(None, [paths[1]], "data")


@pytest.mark.usefixtures("folder")
def test_what_is_wholly_damaged_is_an_error() -> None:
    with (
        FileRecords(None, [file(2 * BLOCK, *range(BLOCK, 2 * BLOCK))], "data") as records,
        pytest.raises(DataError, match=rf"r{BLOCK}: damaged"),
    ):
        [*batches({"data": records}, 10)]
    with FileRecords(None, [file(1, 0)], "data") as records, pytest.raises(DataError, match="r0: damaged"):
        [*batches({"data": records}, 10)]  # the only record
