"""Files that are changed while they are read: what is said, and what is no change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre import DataError
from nacre.files.reading import Watched, check_file, unchanged


def test_a_file_that_may_not_be_read_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", denied)
    with pytest.raises(DataError) as caught:
        check_file(Path("closed/x"), "a file")
    assert caught.value.args[0] == "closed/x: cannot be read: Permission denied"
    assert caught.value.remedy == "check the folder and its permissions, or use another one"


def cut(path: Path) -> None:
    os.truncate(path, 40)


def cut_and_fill_up(path: Path) -> None:
    cut(path)
    os.truncate(path, 100)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"y" * 100)
    os.utime(path, ns=(0, 0))  # another time, whatever the clock's steps are


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"y")


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"z" * 10)
    other.replace(path)


def remove(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("other"))


def touch_nothing(path: Path) -> None:
    path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 100)
    os.utime(path, ns=(1, 1))
    return path


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (cut, "the file was cut while record 3 was read: 40 of 100 bytes are left"),
        (cut_and_fill_up, "the file was changed while record 3 was read"),
        (overwrite, "the file was changed while record 3 was read"),
        (append, "the file was changed while record 3 was read"),
    ],
)
def test_a_change_is_told(change: Callable[[Path], None], told: str, path: Path) -> None:
    with path.open("rb") as file:
        watched = Watched(file.fileno(), str(path))
        with watched.reading("record 2"):
            path.read_bytes()
        with pytest.raises(DataError) as caught, watched.reading("record 3"):
            change(path)
    assert caught.value.args[0] == f"{path}: {told}"


@pytest.mark.parametrize("change", [replace, remove, rename, touch_nothing])
def test_another_file_under_its_name_is_no_change(change: Callable[[Path], None], path: Path) -> None:
    with unchanged(path):
        change(path)


def test_a_format_that_grows_says_so(path: Path) -> None:
    with unchanged(path, grows=True):
        append(path)
    with pytest.raises(DataError, match="cut while it was read"), unchanged(path, grows=True):
        cut(path)


def test_the_change_explains_what_was_wrong(path: Path) -> None:
    def read() -> None:
        with unchanged(path):
            cut(path)
            raise DataError("record 5 has 3 numbers")

    with pytest.raises(DataError, match="cut while it was read") as caught:
        read()
    assert str(caught.value.__context__) == "record 5 has 3 numbers"


@pytest.mark.parametrize("name", ["x" * 300, "there/is/none", "file/below"])
def test_a_name_that_no_file_can_have_ends_in_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"no such file|cannot be read: File name too long"):
        check_file(tmp_path / name, "an HDF5 file")
