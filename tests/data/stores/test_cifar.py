"""CIFAR-10 and CIFAR-100 as a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Field, open_records, store_of
from nacre.testing import StoreTests
from nacre_data import CIFAR

TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (3, 32, 32)).astype(np.uint8)


def content(labels: Sequence[bytes]) -> bytes:
    """Return the bytes of records with these label bytes: red, green and blue row by row follow each."""
    return b"".join(label + picture(number).tobytes() for number, label in enumerate(labels))


def problem(path: Path, fields: Sequence[str] = (), store: CIFAR | None = None) -> str:
    with pytest.raises(DataError) as caught, open_records([path], fields, store=store or CIFAR()) as reader:
        list(reader.rows())
    assert str(path) in str(caught.value)
    return str(caught.value)


class TestCIFAR10(StoreTests):
    store = CIFAR()
    step = 7

    def make(self, folder: Path):
        path = folder / "data_batch_1.bin"
        path.write_bytes(content([b"\7"]))
        return path, {"data": picture(0)[None], "label": np.array([7])}


class TestSeveral(StoreTests):
    store = CIFAR()
    damage_shows = False  # a record is as good as three
    step = 61

    def make(self, folder: Path):
        path = folder / "test_batch.bin"
        path.write_bytes(content([b"\0", b"\2", b"\1"]))
        (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
        return path, {"data": np.stack([picture(0), picture(1), picture(2)]), "label": np.array([0, 2, 1])}


@pytest.mark.parametrize("labels", ["fine", "coarse"])
class TestCIFAR100(StoreTests):
    store = CIFAR()
    damage_shows = False
    step = 61

    @pytest.fixture(autouse=True)
    def _labels(self, labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "store", CIFAR(labels=labels))
        self.labels = [99, 3] if labels == "fine" else [19, 0]

    def make(self, folder: Path):
        path = folder / "train.bin"
        path.write_bytes(content([b"\x13\x63", b"\0\3"]))
        return path, {"data": np.stack([picture(0), picture(1)]), "label": np.array(self.labels)}


class TestFolder(StoreTests):
    store = CIFAR()

    def make(self, folder: Path):
        folder = folder / "cifar-10-batches-bin"
        folder.mkdir()
        for number in range(5):
            path = folder / f"data_batch_{number + 1}.bin"
            path.write_bytes(bytes([number]) + picture(number).tobytes())
        return folder, {"data": np.stack([*map(picture, range(5))]), "label": np.arange(5)}


def test_the_names_of_the_files_are_known() -> None:
    for name in ("data_batch_1.bin", "data_batch_5.bin", "test_batch.bin", "train.bin", "test.bin"):
        assert isinstance(store_of(Path("cifar") / name), CIFAR)
    with pytest.raises(DataError):
        store_of(Path("mytrain.bin"))


def test_a_folder_is_known_by_its_files(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        store_of(tmp_path)
    (tmp_path / "train.bin").touch()  # anybody's
    with pytest.raises(DataError):
        store_of(tmp_path)
    for name in ("data_batch_1.bin", "fine_label_names.txt"):
        folder = tmp_path / name.removesuffix(".bin").removesuffix(".txt")
        folder.mkdir()
        (folder / name).touch()
        assert isinstance(store_of(folder), CIFAR)


def test_classes_have_the_names_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content([b"\0"]))
    with CIFAR().open(path) as reader:
        assert reader.fields == {"data": Field((3, 32, 32), "uint8"), "label": Field((), "int64")}
    (tmp_path / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
    with CIFAR().open(path, ["picture", "kind"]) as reader:
        assert reader.fields["kind"] == Field((), "int64", TEN)
    with CIFAR().open(path, ["label"]) as reader:
        assert set(reader.fields) == {"label"}
    hundred = tmp_path / "train.bin"
    hundred.write_bytes(content([b"\0\0"]))
    for labels, count in (("fine", 100), ("coarse", 20)):
        names = [f"{labels} {number:02}" for number in range(count)]
        (tmp_path / f"{labels}_label_names.txt").write_text("\n".join(names) + "\n")
        with CIFAR(labels=labels).open(hundred) as reader:
            assert reader.fields["label"].classes == tuple(names)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("\n".join(TEN[:9]), "it has 9 names, 9 of them different, but there are 10 classes"),
        ("\n".join([*TEN[:9], "cat"]), "it has 10 names, 9 of them different"),
        ("\n".join([*TEN, "cat"]), "it has 11 names, 10 of them different"),
        ("\xff\n" * 10, "this is not a list of names"),
        ("x" * 70_000, "must not be larger than 65,536 bytes"),
    ],
)
def test_names_that_do_not_fit_are_told(names: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(content([b"\0"]))
    (tmp_path / "batches.meta.txt").write_bytes(names.encode("latin-1"))
    with pytest.raises(DataError, match=told) as caught:
        CIFAR().open(tmp_path / "test_batch.bin")
    assert str(tmp_path / "batches.meta.txt") in str(caught.value)


def test_a_label_out_of_range_is_told_with_its_record(tmp_path: Path) -> None:
    ten = tmp_path / "data_batch_1.bin"
    ten.write_bytes(content([b"\0", b"\x0a"]))
    assert f"{ten}: record 1: its label is 10, but the classes of CIFAR-10 have the numbers 0 to 9" in problem(ten)
    with CIFAR().open(ten, ["data"]) as reader:
        assert len(list(reader.rows())) == 2
    hundred = tmp_path / "train.bin"
    hundred.write_bytes(content([b"\x13\x64"]))
    assert "record 0: its label is 100, but the classes of CIFAR-100 have the numbers 0 to 99" in problem(hundred)
    hundred.write_bytes(content([b"\x14\x63"]))
    assert "its label is 20" in problem(hundred, store=CIFAR(labels="coarse"))
    with CIFAR().open(hundred) as reader:
        assert int(next(reader.rows())["label"]) == 99


def test_size_says_what_a_file_with_another_name_is(tmp_path: Path) -> None:
    for labels, found in ((b"\5", 5), (b"\5\x63", 99)):
        (tmp_path / "mine.bin").write_bytes(content([labels]))
        with CIFAR().open(tmp_path / "mine.bin") as reader:
            assert int(next(reader.rows())["label"]) == found


def test_a_name_says_it_where_the_size_does_not(tmp_path: Path) -> None:
    for name, size in (("data_batch_1.bin", 3073), ("test.bin", 3074)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(3073 * 3074)
        with CIFAR().open(tmp_path / name) as reader:
            assert reader.count == 3073 * 3074 // size
    (tmp_path / "test.bin").rename(tmp_path / "mine.bin")
    assert "its 9,446,402 bytes may be of either data set" in problem(tmp_path / "mine.bin")


@pytest.mark.parametrize("name", ["data_batch_1.bin", "train.bin", "mine.bin"])
@pytest.mark.parametrize("size", [0, 1, 3072, 3075])
def test_sizes_that_are_no_whole_records_are_told(name: str, size: int, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(bytes(size))
    assert f"its {size:,} bytes are no whole records" in problem(tmp_path / name)


def test_a_file_of_one_data_set_is_never_taken_for_the_other(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content([b"\0", b"\0"])[:3074])  # cut
    assert "are no whole records of CIFAR-10: records of CIFAR-10 have 3,073 and" in problem(path)
    path = tmp_path / "train.bin"
    path.write_bytes(content([b"\0"]))
    assert "are no whole records of CIFAR-100" in problem(path)


def test_folders_that_are_not_complete_are_told(tmp_path: Path) -> None:
    assert "neither data_batch_1.bin to data_batch_5.bin nor train.bin" in problem(tmp_path)
    (tmp_path / "data_batch_2.bin").write_bytes(content([b"\0"]))
    assert "data_batch_1.bin is missing" in problem(tmp_path)
    (tmp_path / "train.bin").write_bytes(content([b"\0\0"]))
    assert "data_batch_2.bin and train.bin, of two data sets" in problem(tmp_path)
    (tmp_path / "data_batch_2.bin").unlink()
    with CIFAR().open(tmp_path) as reader:
        assert reader.count == 1


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="labels"):
        CIFAR(labels="rough")
    (tmp_path / "test_batch.bin").write_bytes(content([b"\0"]))
    assert "CIFAR-10 has no coarse labels" in problem(tmp_path / "test_batch.bin", store=CIFAR(labels="coarse"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(labels=st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_what_is_in_the_bytes_is_read(tmp_path: Path, labels: list[int]) -> None:
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(content([bytes([label]) for label in labels]))
    with CIFAR().open(path) as reader:
        rows = list(reader.rows())
    assert [int(row["label"]) for row in rows] == labels
    assert all((row["data"] == picture(number)).all() for number, row in enumerate(rows))
