"""Files that are written by several at once."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from nacre import NacreError
from nacre.files import NewFile, atomic_write, durable, replaced_after
from nacre.files.durable import OutputLock, hold, make_folder, move

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows locks no files in this way")


def test_of_several_writers_each_writes_a_whole_file(tmp_path: Path) -> None:
    path, errors = tmp_path / "x.json", list[BaseException]()
    contents = {bytes([letter]) * 200_000 for letter in b"abc"}  # several calls of write each

    def write(content: bytes) -> None:
        try:
            for _ in range(30):
                atomic_write(path, content)
                if path.read_bytes() not in contents:
                    raise AssertionError("a part of a file")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize("kind", ["file", "link", "two names"])
def test_what_was_left_behind_is_replaced_and_a_link_is_not_followed(kind: str, tmp_path: Path) -> None:
    other, left = tmp_path / "other", tmp_path / ".x.tmp"
    other.write_bytes(b"other")
    if kind == "file":
        left.write_bytes(b"of a killed process, and longer")
    elif kind == "link":
        left.symlink_to(other)
    else:
        left.hardlink_to(other)
    atomic_write(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert other.read_bytes() == b"other"
    assert sorted(os.listdir(tmp_path)) == ["other", "x"]


class Noted:
    """Stands for `os`: notes the calls that make a change durable, and of what."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.calls: list[str] = []

    def open(self, path: Path, *rest: int) -> int:
        file = os.open(path, *rest)
        self.names[file] = Path(path).name
        return file

    def fsync(self, file: int) -> None:
        self.calls.append(f"fsync {self.names[file]}")

    def replace(self, path: Path, place: Path) -> None:
        Path(path).replace(place)
        self.calls.append(f"replace {place.name}")

    unlink = staticmethod(os.unlink)


def test_what_was_written_is_durable_before_it_has_its_name_and_its_name_on_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_os", noted := Noted())
    new = NewFile(tmp_path / "x")
    new.temporary.write_bytes(b"new")
    new.commit()
    assert noted.calls == ["fsync .x.tmp", "replace x", f"fsync {tmp_path.name}"]
    noted.calls.clear()
    make_folder(tmp_path / "a" / "b")
    assert noted.calls == [f"fsync {tmp_path.name}", "fsync a"]
    noted.calls.clear()
    assert move(tmp_path / "x", tmp_path / "a") == tmp_path / "a" / "x"
    assert noted.calls == ["replace x", "fsync a", f"fsync {tmp_path.name}"]


def test_of_two_that_write_a_new_file_the_first_disturbs_the_second_neither_before_nor_after_it(tmp_path: Path) -> None:
    slow, stopped, second = (NewFile(tmp_path / "x") for _ in range(3))
    second.temporary.write_bytes(b"second")
    stopped.drop()
    second.commit()
    with pytest.raises(NacreError, match="x: another process writes this file too"):
        slow.commit()
    assert (tmp_path / "x").read_bytes() == b"second"


def test_of_two_that_write_a_new_file_the_first_is_told(tmp_path: Path) -> None:
    first, second = NewFile(tmp_path / "x"), NewFile(tmp_path / "x")
    second.temporary.write_bytes(b"second")
    with pytest.raises(NacreError, match="x: another process writes this file too"):
        first.commit()
    second.commit()
    assert (tmp_path / "x").read_bytes() == b"second"


@pytest.mark.parametrize("works", [True, False])
def test_what_is_there_is_replaced_after_the_block_if_it_works(tmp_path: Path, works: bool) -> None:
    path, other, left = tmp_path / "x", tmp_path / "other", tmp_path / ".x.new"
    other.write_bytes(b"old")
    path.symlink_to(other)
    left.mkdir()
    (left / "of a killed process").touch()
    with suppress(NacreError) if not works else nullcontext(), replaced_after(path) as new:
        new.write_bytes(b"new")
        new.with_name("beside").write_bytes(b"too")
        assert path.read_bytes() == b"old"
        if not works:
            raise NacreError(f"{new}: damaged")
    assert other.read_bytes() == b"old"
    assert (path.is_symlink(), path.read_bytes()) == ((False, b"new") if works else (True, b"old"))
    assert sorted(os.listdir(tmp_path)) == (["beside", "other", "x"] if works else ["other", "x"])


@pytest.mark.parametrize("name", ["folder", ".", "..", "../here"])
def test_files_of_a_folder_get_their_places(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "folder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    before = {*tmp_path.rglob("*")}
    with replaced_after(Path(name)) as new:
        (new / "sub").mkdir(parents=True)
        (new / "sub" / "data").write_bytes(b"new")
    place = Path(name, "sub").resolve()
    assert {*tmp_path.rglob("*")} - before == {place, place / "data"}


def test_a_new_folder_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    for works in (False, True):
        with suppress(NacreError), replaced_after(tmp_path / "x") as new:
            (new / "empty").mkdir(parents=True)
            (new / "full").mkdir()
            (new / "full" / "data").write_bytes(b"new")
            new.with_name("beside").write_bytes(b"too")
            assert not (tmp_path / "x").exists()
            if not works:
                raise NacreError("damaged")
        found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
        assert found == ({"x", "x/empty", "x/full", "x/full/data", "beside"} if works else set())


def test_of_two_that_replace_a_file_the_second_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with replaced_after(path) as new:
        new.write_bytes(b"first")
        with pytest.raises(NacreError, match="x: another process writes to this file"), replaced_after(path):
            pytest.fail("both write")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["x"]


def test_messages_name_what_is_to_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    with replaced_after(Path("x")) as new:
        assert str(NacreError(f"{new}: damaged")) == "x: damaged"
    with pytest.raises(NacreError, match=r"^x: cannot be written: Is a directory\n"), replaced_after(Path("x")) as new:
        new.touch()
    assert os.listdir() == ["x"]


def test_a_device_or_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    """Where nacre runs as root, as in containers, /dev/null would be a file afterwards."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        with pytest.raises(NacreError, match=f"{path.name}: this is a device or a pipe"):
            atomic_write(path, b"new")
        with pytest.raises(NacreError, match=f"{path.name}: this is a device or a pipe"):
            NewFile(path)
        with pytest.raises(NacreError, match=f"{path.name}: this is a device or a pipe"), replaced_after(path):
            pass
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_a_file_to_append_to_has_one_owner(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("ab") as one, path.open("ab") as two:
        hold(one.fileno(), path)
        with pytest.raises(NacreError, match=r"log\.jsonl: another training writes to this file"):
            hold(two.fileno(), path)
        one.close()
        hold(two.fileno(), path)


def test_a_pipe_has_no_owner() -> None:
    reading, writing = os.pipe()
    try:
        for _ in range(2):
            hold(writing, "a pipe")
    finally:
        os.close(reading)
        os.close(writing)


def test_an_output_has_one_owner_and_its_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    output = tmp_path / "curve.png"
    lock = OutputLock(output)
    with pytest.raises(NacreError, match=r"curve\.png: another training writes to this file\n.*another name"):
        OutputLock(output)
    OutputLock(tmp_path / "other.png").release()
    atomic_write(output, b"drawn")
    lock.release()
    lock.release()
    OutputLock(output).release()
    assert os.listdir(tmp_path) == ["curve.png"]


def test_a_lock_that_its_owner_removes_at_this_moment_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, first = tmp_path / "x", OutputLock(tmp_path / "x")
    opened: list[int] = []

    def open_late(path: Path, flags: int, mode: int) -> int:
        opened.append(os.open(path, flags, mode))
        first.release()  # only now, when the second has opened the file of the first
        return opened[-1]

    monkeypatch.setattr(durable, "_os", SimpleNamespace(open=open_late, unlink=os.unlink))
    second = OutputLock(output)
    assert len(opened) == 2
    with pytest.raises(NacreError, match="another training"):
        OutputLock(output)
    second.release()


@pytest.mark.parametrize("kind", ["no folder", "link"])
def test_where_no_lock_can_be_made_nothing_is_locked(kind: str, tmp_path: Path) -> None:
    other, output = tmp_path / "other", tmp_path / ("no/x" if kind == "no folder" else "x")
    if kind == "link":
        other.write_bytes(b"other")
        (tmp_path / ".x.nacre-lock").symlink_to(other)
    OutputLock(output).release()
    assert not other.exists() or other.read_bytes() == b"other"
