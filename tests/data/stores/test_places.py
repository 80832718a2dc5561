"""Files that are continued in their place, on a disk that gets full."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nacre import DataError, Field, Store
from nacre_data.stores.csv import CSV
from nacre_data.stores.json_lines import JSONLines
from nacre_data.stores.shard import Shard

FIELDS = {"data": Field((4,), "float32")}
FEW, MANY = {"data": np.ones((10, 4), "f4")}, {"data": np.ones((10_000, 4), "f4")}
FULL = "cannot be written: File too large\n  free some space, keep fewer files, or use another folder$"

every_format = pytest.mark.parametrize(
    ("store", "name"), [(CSV(), "a.csv"), (JSONLines(), "a.jsonl"), (Shard(), "a.kvfile"), (Shard(), "a.shard")]
)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def written(store: Store, path: Path) -> Path:
    """Write a file, and return it: the one in the folder if it is a folder."""
    with store.create(path, FIELDS, append=True) as writer:
        writer.append(FEW)
    return path / "shard.dat" if path.is_dir() else path


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limits of files")
@every_format
def test_an_appended_file_is_as_before_if_the_disk_gets_full(store: Store, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    file = written(store, path)
    before = file.read_bytes()
    writer = store.create(path, FIELDS, append=True)
    with full_disk(len(before) + 20_000):
        with pytest.raises(DataError, match=FULL):
            writer.append(MANY)
        writer.close(commit=False)
    assert file.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limits of files")
@every_format
def test_an_appended_file_is_as_before_if_it_cannot_be_completed(store: Store, name: str, tmp_path: Path) -> None:
    """What little was appended is still in memory, and the disk is full when it is written."""
    path = tmp_path / name
    file = written(store, path)
    before = file.read_bytes()
    writer = store.create(path, FIELDS, append=True)
    writer.append(FEW)
    with full_disk(len(before) + 50), pytest.raises(DataError, match=FULL):
        writer.close(commit=True)
    assert file.read_bytes() == before
    writer.close(commit=True)  # a second time, which does nothing
    assert file.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limits of files")
@every_format
def test_nothing_is_left_of_a_new_file_on_a_full_disk(store: Store, name: str, tmp_path: Path) -> None:
    """Neither of one that is written beside its place nor of one that is begun in its place."""
    path = tmp_path / name
    for append, told in ((False, FULL.replace("$", "; the files that were there")), (True, FULL)):
        writer = store.create(path, FIELDS, append=append)
        writer.append(FEW)
        with full_disk(50), pytest.raises(DataError, match=told):
            writer.close(commit=True)
        assert not [one for one in tmp_path.rglob("*") if one.is_file()]
