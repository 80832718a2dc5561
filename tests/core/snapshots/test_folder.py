"""The snapshot folder: what is in it after every kind of accident, and what the user is told."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nacre.errors import ConfigError, ContractError, NacreError, SnapshotError
from nacre.files import durable
from nacre.files.durable import atomic_write
from nacre.snapshots.environment import environment
from nacre.snapshots.folder import SnapshotFolder, load_snapshot
from nacre.snapshots.snapshot import Snapshot
from nacre_data.hdf5_store import HDF5Store

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


class WatchedOS:
    """Stands for `os`: notes the calls that change the disk, and fails the n-th of one kind."""

    def __init__(self, failing: str = "", n: int = 1, error: int = errno.ENOSPC) -> None:
        self.failing, self.n, self.error = failing, n, error
        self.calls: list[tuple[str, Any]] = []
        self.names: dict[int, str] = {}

    def open(self, path: Path, *rest: Any) -> int:
        file = os.open(path, *rest)
        self.names[file] = path.name
        return file

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(first: Any, *rest: Any) -> Any:
            self.calls.append((name, self.names.get(first, getattr(first, "name", first))))
            if name == self.failing and [kind for kind, _ in self.calls].count(name) == self.n:
                raise OSError(self.error, os.strerror(self.error))
            return getattr(os, name)(first, *rest)

        return call


def snapshot(iteration: int, size: int = 3) -> Snapshot:
    return Snapshot(iteration, {"parameters/ip1/weight": np.full(size, float(iteration))}, {"seed": 1})


def iterations(folder: SnapshotFolder) -> list[int]:
    return [folder.load(path).iteration for path in folder.files()]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SnapshotFolder]:
    with SnapshotFolder(tmp_path / "runs" / "first", HDF5Store()) as folder:
        yield folder


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., WatchedOS]:
    def watch(*options: Any) -> WatchedOS:
        watched = WatchedOS(*options)
        monkeypatch.setattr(durable, "_os", watched)
        return watched

    return watch


# What a snapshot may hold


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a//b"], "name "),
        (["/a"], "name "),
        (["a/./b"], "name "),
        (["a\0"], "name "),
        (["a\udcff"], "name "),
        (["a", "a/b"], "array 'a' .*'a/b'"),
    ],
)
def test_a_name_that_no_file_can_hold_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        Snapshot(0, {name: np.zeros(1) for name in names}, {})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {3: 1}}, "state/a: key 3 "),
        ({"a": [1, np.zeros(2)]}, "state/a/1: .*ndarray"),
        ({"a": np.int64(1)}, "state/a: .*int64"),
        ({"a": b"x"}, "state/a: .*bytes"),
    ],
)
def test_a_state_that_would_come_back_different_is_refused(state: dict[str, Any], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        Snapshot(0, {}, state)


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([None]), np.zeros(2, "datetime64[s]")])
def test_only_numbers_are_held(array: Any) -> None:
    with pytest.raises(SnapshotError, match="array 'a' "):
        Snapshot(0, {"a": array}, {})


@pytest.mark.parametrize("iteration", [-1, 1.0, True])
def test_an_iteration_is_a_whole_number(iteration: Any) -> None:
    with pytest.raises(SnapshotError, match="iteration="):
        Snapshot(iteration, {}, {})


# Keeping


def test_the_newest_and_the_best_are_kept(folder: SnapshotFolder) -> None:
    for iteration in range(0, 800, 100):
        folder.save(snapshot(iteration), best=iteration in (100, 200), value=0.5)
    assert iterations(folder) == [200, 500, 600, 700]
    assert folder.best() == folder.path / "snapshot-000200.h5"
    marker = json.loads((folder.path / "best.json").read_bytes())
    assert (marker["file"], marker["iteration"], marker["value"]) == ("snapshot-000200.h5", 200, 0.5)
    folder.save(snapshot(800), best=True)
    marker = json.loads((folder.path / "best.json").read_bytes())
    assert (marker["previous"]["iteration"], marker["previous"]["previous"]) == (200, None), "it does not grow"


def test_the_iteration_counts_not_the_time_nor_the_spelling(folder: SnapshotFolder) -> None:
    for iteration in (2_000_000, 999_999):
        folder.save(snapshot(iteration))
    newest = folder.newest(pytest.fail)
    assert newest is not None
    assert newest.iteration == 2_000_000


def test_a_training_taken_up_again_before_others_removes_none_of_them(folder: SnapshotFolder) -> None:
    for iteration in (7, 8, 9, 1, 2, 3, 4):
        folder.save(snapshot(iteration))
    assert iterations(folder) == [2, 3, 4, 7, 8, 9]


def test_the_mark_of_a_best_that_was_never_written_is_forgotten(folder: SnapshotFolder, watch: Any) -> None:
    folder.save(snapshot(1), best=True, value=3.0)
    folder.save(snapshot(2))
    watch("replace", 2)
    with pytest.raises(SnapshotError):
        folder.save(snapshot(3), best=True, value=2.0)
    assert folder.best() == folder.path / "snapshot-000001.h5"
    watch()
    folder.unlock()
    folder.lock()
    folder.save(snapshot(3))
    assert folder.best() == folder.path / "snapshot-000001.h5"


def test_a_mark_whose_snapshots_are_gone_is_none(folder: SnapshotFolder) -> None:
    folder.save(snapshot(1), best=True).unlink()
    assert folder.best() is None
    folder.unlock()
    folder.lock()
    assert not (folder.path / "best.json").exists()


def test_a_pipe_in_the_place_of_the_mark_is_refused(tmp_path: Path) -> None:
    """It was read, and waited for ever for somebody who writes."""
    os.mkfifo(tmp_path / "best.json")
    with pytest.raises(SnapshotError, match=r"best\.json: not a file\n  remove it"):
        SnapshotFolder(tmp_path, HDF5Store()).lock()


@pytest.mark.parametrize("marker", ["{", "[]", "{}", '{"file": "../snapshot-000001.h5"}', '{"file": 3}', "[" * 9999])
def test_a_damaged_mark_is_told_when_the_folder_is_taken(marker: str, tmp_path: Path) -> None:
    (tmp_path / "best.json").write_text(marker)
    folder = SnapshotFolder(tmp_path, HDF5Store())
    with pytest.raises(SnapshotError, match=r"best\.json.*\n  remove this file"):
        folder.lock()
    assert not folder.locked
    (tmp_path / "best.json").unlink()
    with folder:
        pass


def test_a_lock_that_is_another_file_too_is_not_written_into(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "folder"
    other.write_text("not to be lost")
    folder.mkdir()
    (folder / ".lock").hardlink_to(other)
    with pytest.raises(SnapshotError, match=r"\.lock: a link or a special file, so it cannot be the lock"):
        SnapshotFolder(folder, HDF5Store()).lock()
    assert other.read_text() == "not to be lost"


def test_nothing_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keep=0"):
        SnapshotFolder(tmp_path, HDF5Store(), keep=0)


def test_only_our_own_litter_is_removed(tmp_path: Path) -> None:
    ours = {".snapshot-000500.h5.tmp", ".best.json.tmp", ".run.json.tmp"}
    others = {".notes.tmp", "snapshot-000500.h5.tmp", ".snapshot-5.h5.tmp", "snapshot-best.h5"}
    for name in ours | others:
        (tmp_path / name).write_bytes(b"half")
    with SnapshotFolder(tmp_path, HDF5Store()) as folder:
        assert set(os.listdir(tmp_path)) == others | {".lock", ".nacre"}
        assert folder.files() == []


# Reading


def test_what_is_saved_comes_back(folder: SnapshotFolder) -> None:
    path = folder.save(snapshot(5))
    for loaded in (folder.load(path), load_snapshot(path, HDF5Store(), pytest.fail), folder.newest(pytest.fail)):
        assert loaded is not None
        assert loaded.iteration == 5
        assert loaded.state == {"seed": 1}
        np.testing.assert_array_equal(loaded.arrays["parameters/ip1/weight"], [5.0, 5.0, 5.0])


@pytest.mark.parametrize("position", [0, 20, 40, 120, 511, 512, 900, -1])
def test_a_damaged_snapshot_is_passed_over_with_a_warning(folder: SnapshotFolder, position: int) -> None:
    folder.save(snapshot(1))
    flip(folder.save(snapshot(2)), position)
    warnings: list[str] = []
    newest = folder.newest(warnings.append)
    assert newest is not None
    assert newest.iteration == 1
    assert len(warnings) == 1
    assert "snapshot-000002.h5: " in warnings[0]


def test_snapshots_that_are_all_damaged_are_an_error(folder: SnapshotFolder) -> None:
    flip(folder.save(snapshot(1)), 700)
    flip(folder.save(snapshot(2)), 700)
    warnings: list[str] = []
    with pytest.raises(SnapshotError, match=" 2 snapshots"):
        folder.newest(warnings.append)
    assert len(warnings) == 2


def test_no_snapshot_is_none_or_an_error_where_one_is_asked_for(tmp_path: Path) -> None:
    assert SnapshotFolder(tmp_path / "none", HDF5Store()).newest(pytest.fail) is None
    with pytest.raises(SnapshotError, match=r"no snapshot-\*\.h5 in this folder"):
        load_snapshot(tmp_path, HDF5Store(), pytest.fail)


def test_what_cannot_be_loaded_is_named_with_the_reason(folder: SnapshotFolder) -> None:
    path = folder.save(snapshot(1))
    whole = path.read_bytes()
    for data, reason in {
        whole[:900]: "truncated",
        b"": "empty",
        whole.replace(b"format 1", b"format 2"): "format 2.*\n  upgrade nacre",
        whole[512:]: "no file of nacre's",
        whole[:-1] + b"\1": "damaged",
    }.items():
        path.write_bytes(data)
        with pytest.raises(SnapshotError, match=rf"snapshot-000001\.h5: .*{reason}"):
            folder.load(path)
    with pytest.raises(SnapshotError, match=r"none\.h5: no such file"):
        folder.load(folder.path / "none.h5")
    with pytest.raises(SnapshotError, match="not a file"):
        folder.load(folder.path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "snapshot-000001.h5")
    with pytest.raises(SnapshotError, match="not a file"):
        load_snapshot(tmp_path / "snapshot-000001.h5", HDF5Store(), pytest.fail)


# Writing


def test_the_order_that_survives_a_power_failure(folder: SnapshotFolder, watch: Any) -> None:
    for iteration in (1, 2, 3):
        folder.save(snapshot(iteration))
    watched = watch()
    folder.save(snapshot(4, size=20_000), best=True)
    marker, temporary = ".best.json.tmp", ".snapshot-000004.h5.tmp"
    assert watched.calls == [
        ("write", marker),
        ("fsync", marker),
        ("replace", marker),
        ("fsync", "first"),
        *[("write", temporary)] * 3,  # 162 KB, 64 KiB at a time
        ("fsync", temporary),
        ("replace", temporary),
        ("fsync", "first"),
        ("unlink", "snapshot-000001.h5"),
    ]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EACCES])
@pytest.mark.parametrize("failing", [("write", 1), ("write", 2), ("write", 3), ("fsync", 1), ("replace", 1)])
def test_a_full_or_failing_disk_leaves_the_old(
    folder: SnapshotFolder, watch: Any, failing: tuple[str, int], error: int
) -> None:
    old = folder.save(snapshot(1, size=20_000))
    before = old.read_bytes()
    watch(*failing, error)
    for iteration in (1, 2):  # over the old file, and beside it
        watch(*failing, error)
        with pytest.raises(SnapshotError, match=rf"snapshot-00000{iteration}\.h5: .*{os.strerror(error)}\n  .+"):
            folder.save(snapshot(iteration, size=20_000))
        assert old.read_bytes() == before
        assert sorted(os.listdir(folder.path)) == [".lock", ".nacre", "snapshot-000001.h5"]


class SmallDisk(WatchedOS):
    """A disk with room for so many bytes, all in one folder."""

    def __init__(self, folder: Path, room: int) -> None:
        super().__init__()
        self.folder, self.room = folder, room

    def write(self, file: int, data: Any) -> int:
        used = sum(path.stat().st_size for path in self.folder.iterdir())
        if used + len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(file, data)


@pytest.mark.parametrize("best", [False, True])
def test_on_a_full_disk_what_is_no_longer_kept_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: bool
) -> None:
    with SnapshotFolder(tmp_path, HDF5Store(), keep=5) as folder:
        for iteration in range(1, 6):
            folder.save(snapshot(iteration, size=20_000), best=iteration == 1)
        room = sum(path.stat().st_size for path in tmp_path.iterdir()) + 100
        with monkeypatch.context() as patch:
            patch.setattr(durable, "_os", SmallDisk(tmp_path, room))
            with pytest.raises(SnapshotError, match="No space"):  # all are kept: nothing may go
                folder.save(snapshot(6, size=20_000))
            assert iterations(folder) == [1, 2, 3, 4, 5]
            folder.keep = 2
            with pytest.raises(SnapshotError, match="No space"):  # nor the two newest, and the best
                folder.save(snapshot(6, size=200_000))
            assert iterations(folder) == [1, 4, 5]
            assert folder.save(snapshot(6, size=20_000), best=best).exists()
        assert iterations(folder) == ([5, 6] if best else [1, 5, 6])
        assert folder.best() == tmp_path / ("snapshot-000006.h5" if best else "snapshot-000001.h5")


def test_on_a_full_disk_nothing_goes_where_what_is_kept_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SnapshotFolder(tmp_path, HDF5Store(), keep=5) as folder:
        for iteration in range(1, 6):
            folder.save(snapshot(iteration, size=20_000))
        flip(tmp_path / "snapshot-000005.h5", 2000)
        room = sum(path.stat().st_size for path in tmp_path.iterdir())
        monkeypatch.setattr(durable, "_os", SmallDisk(tmp_path, room))
        folder.keep = 1
        with pytest.raises(SnapshotError, match="No space"):
            folder.save(snapshot(6, size=20_000))
        assert [path.name for path in folder.files()] == [f"snapshot-00000{number}.h5" for number in range(1, 6)]


def test_an_interruption_leaves_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(WatchedOS):
        def write(self, *_: Any) -> int:
            raise KeyboardInterrupt

    path = tmp_path / "net.toml"
    atomic_write(path, b"old")
    monkeypatch.setattr(durable, "_os", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        atomic_write(path, b"new")
    assert os.listdir(tmp_path) == ["net.toml"]
    assert path.read_bytes() == b"old"


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(WatchedOS):
        def write(self, file: int, data: memoryview) -> int:
            return os.write(file, data[: max(1, len(data) // 3)])

    monkeypatch.setattr(durable, "_os", Short())
    data = os.urandom(200_000)
    atomic_write(tmp_path / "x", data)
    assert (tmp_path / "x").read_bytes() == data


def test_an_error_of_the_callers_kind(tmp_path: Path) -> None:
    with pytest.raises(NacreError, match="cannot be written: No such file"):
        atomic_write(tmp_path / "none" / "x", b"")
    with pytest.raises(ConfigError):
        atomic_write(tmp_path / "none" / "x", b"", ConfigError)


def test_a_limit_of_the_system_leaves_the_old(tmp_path: Path) -> None:
    code = """if True:
        import resource, sys
        import numpy as np
        from nacre.snapshots.snapshot import Snapshot
        from nacre.snapshots.folder import SnapshotFolder
        from nacre.errors import SnapshotError
        from nacre_data.hdf5_store import HDF5Store
        with SnapshotFolder(sys.argv[1], HDF5Store()) as folder:
            for iteration, size in ((1, 10), (2, 30_000)):
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
                try:
                    folder.save(Snapshot(iteration, {"w": np.zeros(size)}, {}))
                except SnapshotError as error:
                    sys.exit(str(error))
    """
    command = [sys.executable, "-c", code, str(tmp_path)]
    child = subprocess.run(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert child.returncode == 1
    assert "snapshot-000002.h5: cannot be written: File too large\n  free some space" in child.stderr
    assert sorted(os.listdir(tmp_path)) == [".lock", ".nacre", "snapshot-000001.h5"]
    assert SnapshotFolder(tmp_path, HDF5Store()).newest(pytest.fail) is not None


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SnapshotError, match="file: cannot be used for snapshots: File exists"):
        SnapshotFolder(tmp_path / "file", HDF5Store()).lock()


# Locking

HOLDER = """if True:
    import os, sys
    from nacre.snapshots.folder import SnapshotFolder
    SnapshotFolder(sys.argv[1], None).lock()
    if "alone" in sys.argv or os.fork() == 0:
        print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("worker", ["alone", "fork"])
def test_one_training_at_a_time(tmp_path: Path, worker: str) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path), worker]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        folder = SnapshotFolder(tmp_path, HDF5Store())
        with pytest.raises(SnapshotError, match=rf"{tmp_path}: .*process {holder.pid} on .+\n  wait"):
            folder.lock()
        holder.kill()
        holder.wait()
        with folder:  # though the killed training's worker may live on
            folder.save(snapshot(1))


def test_one_training_at_a_time_in_one_process(folder: SnapshotFolder) -> None:
    other = SnapshotFolder(folder.path, HDF5Store())
    with pytest.raises(SnapshotError, match=f"process {os.getpid()}"):
        other.lock()
    assert folder.lock() is folder
    folder.unlock()
    folder.unlock()
    with other:
        pass


def test_one_training_at_a_time_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "_can_flock", False)
    with (
        SnapshotFolder(tmp_path, HDF5Store()),
        pytest.raises(SnapshotError, match=rf"process {os.getpid()} .*\n.*\.lock"),
    ):
        SnapshotFolder(tmp_path, HDF5Store()).lock()
    with SnapshotFolder(tmp_path, HDF5Store()):
        pass


def test_a_forked_worker_cannot_save(tmp_path: Path) -> None:
    code = """if True:
        import os, sys
        from nacre.errors import ContractError
        from nacre.snapshots.folder import SnapshotFolder
        with SnapshotFolder(sys.argv[1], None) as folder:
            if os.fork() == 0:
                try:
                    folder.write_run({})
                except ContractError:
                    os._exit(0)
                os._exit(1)
            _, status = os.wait()
            folder.write_run({"by": "the parent"})
            sys.exit(status)
    """
    command = [sys.executable, "-c", code, str(tmp_path)]
    child = subprocess.run(command, env=ENVIRONMENT, stderr=subprocess.PIPE)
    assert child.returncode == 0
    assert json.loads((tmp_path / "run.json").read_bytes()) == {"by": "the parent"}


def test_writing_without_the_lock_is_refused(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path, HDF5Store())
    with pytest.raises(ContractError, match="with folder:"):
        folder.save(snapshot(1))
    with pytest.raises(ContractError, match="with folder:"):
        folder.write_run({})


# How it was made


def test_run_json(folder: SnapshotFolder) -> None:
    folder.save(snapshot(1), run={"command": ["nacre", "train"], "environment": environment()})
    run = json.loads((folder.path / "run.json").read_bytes())
    assert run["command"] == ["nacre", "train"]
    assert run["environment"]["numpy"] == np.__version__
    assert run["environment"]["h5py"] == h5py.__version__
    assert run["environment"]["processor"]


def test_the_module_is_light() -> None:
    heavy = {"h5py", "numpy", "importlib.metadata"}
    code = f"import sys, nacre.snapshots.folder; sys.exit(not {heavy}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT).returncode == 0


def test_a_path_that_the_system_refuses_is_told(tmp_path: Path) -> None:
    for name in ("x" * 300, "x" * 300 + ".nacre"):
        with pytest.raises(SnapshotError, match="cannot be read: File name too long"):
            load_snapshot(tmp_path / name)
