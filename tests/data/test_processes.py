"""Reading in other processes: the same bits, and an end in a sentence whatever happens to one of them."""

from __future__ import annotations

import gc
import importlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre
from crashing_store import SIZE, Crashing
from nacre import ConfigError, DataError, Field, Layer, PluginError, Reader, open_records
from nacre_data import (
    LMDB,
    AsyncHDF5DataLayer,
    CSVDataLayer,
    DataLayer,
    HDF5DataLayer,
    ImageDataLayer,
    LMDBDataLayer,
    Shard,
)
from nacre_data.processes import ProcessReader
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from ranks import state_at
from registries import NewRegistry
from resuming import trained

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot hand memory on"),
    pytest.mark.usefixtures("no_thread_is_left", "no_process_is_left"),
]

TESTS = Path(__file__).parents[1]
COUNT = 11
RECORDS = {
    "data": np.random.default_rng(0).random((COUNT, 1, 4, 4)).astype(np.float32),
    "label": np.arange(COUNT) % 3,
}
PATIENCE = 60  # seconds in which what is waited for has happened long ago


def readers_of(parent: int) -> set[int]:
    """Return the processes that read for a process."""
    command = ["ps", "-wweo", "pid=,ppid=,stat=,args="]  # of any width
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 3) for line in listed.splitlines()]
    return {
        int(row[0]) for row in rows if int(row[1]) == parent and "Z" not in row[2] and "nacre_data.reader" in row[3]
    }


def shared_files() -> set[tuple[int, int]]:
    """Return the memory that this process has open as files, where the system says that."""
    folder = Path("/proc/self/fd")
    links = [one for one in folder.iterdir() if one.is_symlink()] if folder.is_dir() else []
    found = [one.stat() for one in links if "memfd" in str(one.readlink())]
    return {(one.st_dev, one.st_ino) for one in found}


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    """Check that the processes and files of a test end with it."""
    before = shared_files()
    yield
    assert readers_of(os.getpid()) == set()
    gc.collect()
    assert shared_files() <= before


@pytest.fixture(name="files", scope="module")
def files_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the records above in several formats."""
    folder = tmp_path_factory.mktemp("processes")
    with h5py.File(folder / "x.h5", "w") as file:
        for name, values in RECORDS.items():
            file[name] = values
    fields = {"data": Field((1, 4, 4), "float32"), "label": Field((), "int64")}
    with Shard().create(folder / "x.shard", fields) as writer:
        writer.append(RECORDS)
    (folder / "x.csv").write_text("\n".join(["a,label", *(f"{n}.5,{n % 3}" for n in range(COUNT))]))
    return folder


def lmdb(files: Path) -> str:
    pytest.importorskip("lmdb")
    path = files / "x.lmdb"
    if not path.exists():
        with LMDB().create(path, {"data": Field((1, 4, 4), "float32"), "label": Field((), "int64")}) as writer:
            writer.append(RECORDS)
    return str(path)


def pictures(files: Path) -> str:
    image = pytest.importorskip("PIL.Image")
    random, folder = np.random.default_rng(1), files / "pictures"
    if not folder.exists():
        for number in range(COUNT):
            path = folder / "abc"[number % 3] / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.fromarray(random.integers(0, 256, (20, 30 - number, 3), np.uint8)).save(path)
    return str(folder)


SOURCES: dict[str, Callable[..., Layer]] = {
    "HDF5Data": lambda files, **fields: HDF5DataLayer(source=str(files / "x.h5"), cache_bytes=0, **fields),
    "AsyncHDF5Data": lambda files, **fields: AsyncHDF5DataLayer(source=str(files / "x.h5"), chunk_size=4, **fields),
    "Data, in memory": lambda files, **fields: DataLayer(source=str(files / "x.h5"), **fields),
    "Data, shard": lambda files, **fields: DataLayer(source=str(files / "x.shard"), cache_bytes=0, **fields),
    "LMDBData": lambda files, **fields: LMDBDataLayer(source=lmdb(files), cache_bytes=0, **fields),
    "ImageData": lambda files, **fields: ImageDataLayer(
        source=pictures(files), short_side=8, crop_size=4, mirror=True, **fields
    ),
}
SHORT = "Data, shard", "LMDBData", "ImageData"
every_source = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in SOURCES]
)


# The same bits


@every_source
def test_it_changes_nothing(name: str, files: Path) -> None:
    """Several states are used for all steps: a process takes long to start."""

    def state(**more: Any) -> Any:
        more = {"ahead": 0, "processes": 0, **more}
        return state_at(SOURCES[name](files, name="d", batch_size=4, shuffle=True, **more), "train")

    ways = [state(), state(processes=1), state(processes=3, threads=3), state(processes=2, ahead=2)]
    memory: Any = {}
    for call in ["forward"] * 4 + ["rewind"] + ["forward"] * 4 + ["remember"] + ["forward"] * 2:
        for one in ways:
            one.remember(memory) if call == "remember" else one.forward([]) if call == "forward" else one.rewind()
        memory = memory or ways[0].memory()
        for one in ways[1:]:
            same = [mine.tobytes() == other.tobytes() for mine, other in zip(ways[0].blobs, one.blobs, strict=True)]
            assert all(same)
            assert (one.rows, one.epoch, one.memory()) == (ways[0].rows, ways[0].epoch, ways[0].memory())
    for one in ways:
        one.shutdown()


@pytest.fixture(name="reader")
def reader_(files: Path) -> Iterator[Reader]:
    options = {"paths": [files / "x.shard"], "fields": (), "store": "", "codec": "", "shapes": {}, "threads": 1}
    with ProcessReader("records", options, 3) as reader:
        yield reader


def layers(name: str, files: Path, **fields: Any) -> list[Layer]:
    return [
        SOURCES[name](files, name="d", batch_size=3, shuffle=True, **fields),
        InnerProductLayer(bottoms="data", tops="ip", output_dim=3),
        SoftmaxLossLayer(bottoms=["ip", "label"]),
    ]


@every_source
def test_a_training_is_the_same_bit_for_bit_and_so_is_a_resumed_one(name: str, files: Path) -> None:
    expected = trained(layers(name, files), 7, rate=0.001)[1]
    middle, _ = trained(layers(name, files, processes=2, ahead=2), 4, rate=0.001)
    assert trained(layers(name, files, processes=2, ahead=2), 3, middle, rate=0.001)[1] == expected
    assert trained(layers(name, files), 3, middle, rate=0.001)[1] == expected


def test_any_numbers_come_in_their_order(reader: Reader) -> None:
    @settings(max_examples=50)
    @given(numbers=st.lists(st.integers(0, COUNT - 1), max_size=20), names=st.sampled_from([["label"], [*RECORDS]]))
    def check(numbers: list[int], names: list[str]) -> None:
        out = {name: np.empty((len(numbers), *RECORDS[name].shape[1:]), RECORDS[name].dtype) for name in names}
        reader.read(np.array(numbers, np.int64), out)
        for name in names:
            np.testing.assert_array_equal(out[name], RECORDS[name][numbers])

    check()


def test_more_than_fits_into_the_memory_comes_in_pieces(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nacre_data.processes.PIECE", 100)
    numbers = np.arange(COUNT)[::-1]
    out = np.empty((COUNT, 1, 4, 4), np.float32)
    reader.read(numbers, {"data": out})
    np.testing.assert_array_equal(out, RECORDS["data"][::-1])


def test_fields_and_keys_are_those_of_the_reader(reader: Reader, files: Path) -> None:
    with open_records([files / "x.shard"]) as here:
        assert (reader.fields, reader.count, reader.named) == (here.fields, here.count, here.named)
        assert [reader.key(number) for number in range(3)] == [here.key(number) for number in range(3)]


def test_a_program_without_stdin_reads_in_other_processes(files: Path) -> None:
    source = f"HDF5DataLayer(tops=['data', 'label'], source={str(files / 'x.h5')!r}, batch_size=4, processes=1)"
    code = f"from nacre import Net\nfrom nacre_data import HDF5DataLayer\nNet('net', [{source}]).forward()"
    shell = f"{shlex.join([sys.executable, '-c', code])} <&-"
    done = subprocess.run(["bash", "-c", shell], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_kept_in_memory_needs_no_process_any_longer(files: Path) -> None:
    state = state_at(SOURCES["Data, in memory"](files, name="d", batch_size=4, processes=1))
    assert len(readers_of(os.getpid())) == 1
    state.forward([])
    assert readers_of(os.getpid()) == set()
    state.shutdown()


def test_tables_keep_their_options(files: Path) -> None:
    state = state_at(CSVDataLayer(name="d", source=str(files / "x.csv"), label="label", batch_size=4, processes=1))
    state.forward([])
    assert state.blobs[0].tolist() == [[0.5], [1.5], [2.5], [3.5]]
    state.shutdown()


def test_sys_path_may_hold_what_is_no_text(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, files])
    state = state_at(DataLayer(source=str(files / "x.h5"), name="d", batch_size=4, processes=1))
    state.forward([])
    np.testing.assert_array_equal(state.blobs[0], RECORDS["data"][:4])
    state.shutdown()


def test_records_without_numbers_come_through_one_process(tmp_path: Path, new_registry: NewRegistry) -> None:
    new_registry().load_file(TESTS / "line_store.py")
    path = tmp_path / "x.lines"
    path.write_text("".join(f"{number}\n" for number in range(700)), encoding="ascii")
    fields: dict[str, Any] = {"name": "d", "source": str(path), "tops": ["id"], "batch_size": 100}
    for more in ({}, {"shuffle": True, "window": 30}):
        here, there = (state_at(DataLayer(**fields, **more, processes=number)) for number in (0, 2))
        for _ in range(9):
            here.forward([])
            there.forward([])
            assert len(readers_of(os.getpid())) <= 1
            assert here.blobs[0].tobytes() == there.blobs[0].tobytes()
            assert here.memory() == there.memory()
        here.shutdown()
        there.shutdown()
    with pytest.raises(DataError, match="d: on_error = 'skip' needs records with numbers"):
        state_at(DataLayer(**fields, on_error="skip"))


# Processes that end, and records that cannot be read


@pytest.fixture
def crash(tmp_path: Path, new_registry: NewRegistry) -> Callable[..., DataLayer]:
    """Return a function that makes a layer over 12 records, whose store is that of `crashing_store.py`."""
    new_registry().load_file(TESTS / "crashing_store.py")
    path = tmp_path / "x.crash"
    path.write_bytes(b"".join(np.array([number], "<i8").tobytes().ljust(SIZE, b"\0") for number in range(12)))

    def make(**fields: Any) -> DataLayer:
        store = {name: fields.pop(name) for name in ("crash", "fault", "leave", "wrong", "damaged") if name in fields}
        given = {"processes": 1, "batch_size": 6, "cache_bytes": 0, **fields}
        return DataLayer(name="d", tops=["x"], source=str(path), store={"type": "Crashing", **store}, **given)

    return make


@pytest.mark.parametrize(
    ("how", "words"),
    [("crash", "was ended by SIGKILL"), ("fault", "was ended by SIGSEGV"), ("leave", "ended with exit code 3")],
)
def test_a_process_that_ends_is_told_with_the_record(crash: Any, how: str, words: str) -> None:
    state = state_at(crash(**{how: [8]}, processes=2))
    state.forward([])
    for _ in range(2):
        with pytest.raises(DataError) as caught:
            state.forward([])
        assert (
            caught.value.args[0]
            == f"d: {state.records.reader.reader.paths[0]}: page 8: the process that reads this {words}"
        )
        assert caught.value.remedy
        assert state.memory()["position"] == 6
    state.shutdown()


def test_a_file_that_is_cut_while_it_is_mapped(crash: Any) -> None:
    layer = crash()
    state = state_at(layer)
    state.forward([])
    path = Path(layer.source[0])
    content = path.read_bytes()
    os.truncate(path, 6 * SIZE)
    with pytest.raises(DataError) as caught:
        state.forward([])
    message = caught.value.args[0]
    assert (
        message
        == f"d: one of 6 records from {layer.source[0]}: page 6 on: the process that reads this was ended by SIGBUS"
    )
    path.write_bytes(content)
    state.forward([])
    assert state.blobs[0].tolist() == [6, 7, 8, 9, 10, 11]
    state.shutdown()


def test_a_process_that_somebody_kills(crash: Any) -> None:
    state = state_at(crash(ahead=2))
    state.forward([])
    state._stop()
    (child,) = readers_of(os.getpid())
    os.kill(child, signal.SIGKILL)
    with pytest.raises(DataError, match=r"one of 6 records from .*page 6 on: the process that reads this was ended by"):
        state.forward([])
    state.forward([])
    assert state.blobs[0].tolist() == [6, 7, 8, 9, 10, 11]
    state.shutdown()


def test_one_that_ends_while_files_are_opened(crash: Any, tmp_path: Path) -> None:
    source = crash().source[0]
    Path(source).write_bytes(b"")
    with pytest.raises(PluginError, match="they cannot be read: ValueError: cannot mmap an empty file") as caught:
        state_at(crash())
    assert "CrashingReader" in str(caught.value.__cause__)


def test_errors_arrive_with_their_remedy_and_traceback(crash: Any) -> None:
    state = state_at(crash(damaged=[2], wrong=[7]))
    with pytest.raises(DataError) as caught:
        state.forward([])
    assert str(caught.value).endswith("x.crash: page 2: it is damaged\n  write it again")
    cause = caught.value.__cause__
    assert cause is not None
    assert "in read" in str(cause.__cause__)
    state.shutdown()
    state = state_at(crash(wrong=[2]))
    with pytest.raises(PluginError, match="they cannot be read: ValueError: a mistake"):
        state.forward([])
    state.shutdown()


DAMAGED = r"d: 4 of 12 records of pass 1 were left out.*page 0: it is damaged"


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
@pytest.mark.parametrize("way", [{"processes": 0}, {"processes": 2, "ahead": 2}])
def test_damaged_records_are_left_out_and_counted(crash: Any, way: Any, cache_bytes: int) -> None:
    layer = crash(damaged=[0, 4, 5, 9], on_error="skip", cache_bytes=cache_bytes, **way)
    state = state_at(layer)
    for told in (pytest.warns(UserWarning, match=DAMAGED), nullcontext()):  # not again in every pass
        state.forward([])
        assert state.blobs[0].tolist() == [1, 1, 2, 3, 3, 3]
        with told:
            state.forward([])
        assert state.blobs[0].tolist() == [6, 7, 8, 8, 10, 11]
    state.shutdown()


def test_records_that_kill_are_left_out_too(crash: Any) -> None:
    state = state_at(crash(crash=[3], fault=[8], on_error="skip"))
    killed = r"d: 2 of 12 records of pass 1 were left out.*page 3: .*SIGKILL"
    for told in (pytest.warns(UserWarning, match=killed), nullcontext()):
        state.forward([])
        assert state.blobs[0].tolist() == [0, 1, 2, 2, 4, 5]
        with told:
            state.forward([])
        assert state.blobs[0].tolist() == [6, 7, 7, 9, 10, 11]
    state.shutdown()


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
@pytest.mark.parametrize("batch_size", [1, 4, 5, 12])
def test_what_is_left_out_does_not_depend_on_the_batches(crash: Any, batch_size: int, cache_bytes: int) -> None:
    bad = {"damaged": [0, 4, 5, 8, 9, 10], "on_error": "skip", "processes": 0, "cache_bytes": cache_bytes}
    for more in ({}, {"shuffle": True}):
        state = state_at(crash(**bad, batch_size=batch_size, **more), phase="test")
        found: dict[int, int] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while not state.epoch:
                state.forward([])
                found |= dict(zip(state.numbers[0].tolist(), state.blobs[0].tolist(), strict=True))
        assert [found[number] for number in range(12)] == [1, 1, 2, 3, 3, 3, 6, 7, 7, 7, 7, 11]
        state.shutdown()


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_a_record_of_another_part_comes_in_no_place(crash: Any, cache_bytes: int) -> None:
    bad, split = [0, 3, 4, 5, 6, 10], {"part": "a", "fractions": {"a": 0.5, "b": 0.5}}
    fields = {"damaged": bad, "on_error": "skip", "processes": 0, "batch_size": 6, "cache_bytes": cache_bytes}
    state = state_at(crash(**fields, split=split))
    mine = {*state.records.numbers.tolist()}
    assert mine & {*bad}
    with pytest.warns(UserWarning, match="of 6 records of pass 1 were left out"):
        state.forward([])
    assert {*state.blobs[0].tolist()} == mine - {*bad}
    state.shutdown()


def test_damaged_records_alone_are_an_error(crash: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_at(crash(damaged=[*range(12)], on_error="skip", processes=0))
    with pytest.raises(DataError, match=r"d: all of 12 records in a row are damaged; .*page \d+: it is damaged"):
        state.forward([])
    state.shutdown()
    monkeypatch.setattr("nacre_data.reading.IN_A_ROW", 5)
    state = state_at(crash(damaged=[*range(6)], on_error="skip", processes=0))
    with pytest.raises(DataError, match="d: all of 5 records in a row are damaged"):
        state.forward([])
    state.shutdown()


def test_a_damaged_picture_is_left_out(tmp_path: Path) -> None:
    """The one in its place has the same window and the same side in every pass, also in the one that finds it."""
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for number in range(6):
        path = tmp_path / "a" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        image.fromarray(random.integers(0, 256, (9, 9, 3), np.uint8)).save(path)
    (tmp_path / "a" / "2.png").write_bytes(b"no picture")
    found: list[bytes] = []
    for processes in (0, 2):
        fields: dict[str, Any] = {"batch_size": 6, "processes": processes, "on_error": "skip", "crop_size": 4}
        layer = ImageDataLayer(name="d", source=str(tmp_path), mirror=True, **fields)
        state, other = state_at(layer), state_at(layer)
        with pytest.warns(UserWarning, match=r"d: 1 of 6 records of pass 1 were left out.*2\.png"):
            state.forward([])
        other.remember(state.memory())
        warned = pytest.warns(UserWarning, match="d: 1 of 6 records of pass 2")
        for one, told in ((state, nullcontext()), (other, warned)):
            with told:
                one.forward([])
            found.append(one.blobs[0].tobytes())
            one.shutdown()
    assert len(set(found)) == 1


@pytest.mark.parametrize("processes", [0, 1])
def test_pictures_that_cannot_be_read_do_not_tell_the_size(processes: int, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "a").mkdir()
    for number in range(4):
        image.fromarray(np.zeros((5, 6, 3), np.uint8)).save(tmp_path / "a" / f"{number}.png")
    for number in range(2):
        (tmp_path / "a" / f"{number}.png").write_bytes(b"no picture")
    fields: dict[str, Any] = {"name": "d", "source": str(tmp_path), "batch_size": 4, "processes": processes}
    state = state_at(ImageDataLayer(**fields, on_error="skip"))
    with pytest.warns(UserWarning, match=r"d: 2 of 4 records of pass 1 were left out.*0\.png"):
        state.forward([])
    assert state.blobs[0].shape == (4, 3, 5, 6)
    state.shutdown()
    with pytest.raises(DataError, match=r"0\.png"):
        state_at(ImageDataLayer(**fields))
    for number in range(2, 4):
        (tmp_path / "a" / f"{number}.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"0\.png"):
        state_at(ImageDataLayer(**fields, on_error="skip"))


def test_a_record_that_is_left_out_counts_in_its_own_pass(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "a").mkdir()
    for number in range(5):
        image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "a" / f"{number}.png")
    (tmp_path / "a" / "0.png").write_bytes(b"no picture")
    for ahead in (0, 2):
        state = state_at(
            ImageDataLayer(name="d", source=str(tmp_path), batch_size=3, on_error="skip", ahead=ahead, crop_size=9)
        )
        state.forward([])
        with pytest.warns(UserWarning, match="d: 1 of 5 records of pass 1 were left out"):
            state.forward([])  # this batch has the first record of the second pass, too, which is not counted yet
        assert len(state.left_out) == 1
        state.shutdown()


def test_a_pass_with_more_records_that_are_left_out_is_warned_of(crash: Any) -> None:
    state = state_at(crash(damaged=[0], on_error="skip", processes=0))
    with pytest.warns(UserWarning, match="d: 1 of 12 records of pass 1"):
        [state.forward([]) for _ in range(2)]
    state.forward([])
    state.left_out.append("x: page 7: it is damaged")  # what another machine's disk lost meanwhile
    with pytest.warns(UserWarning, match="d: 2 of 12 records of pass 2"):
        state.forward([])
    state.shutdown()


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("kind", [HDF5DataLayer, AsyncHDF5DataLayer])
def test_a_damaged_part_of_an_hdf5_file_is_left_out(kind: type[Any], processes: int, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(100, 106), chunks=(2,), fletcher32=True)
        file.flush()  # it may still be moved
        place = file["x"].id.get_chunk_info(1).byte_offset
    with path.open("r+b") as content:
        content.seek(place)
        content.write(b"\xff")
    fields: dict[str, Any] = {"batch_size": 6, "processes": processes, "on_error": "skip", "ahead": 2}
    state = state_at(kind(name="d", source=str(path), tops=["x"], **fields))
    with pytest.warns(UserWarning, match=r"d: 2 of 6 records of pass 1 were left out: .*x\.h5: dataset 'x'"):
        state.forward([])
    assert state.blobs[0].tolist() == [100, 101, 101, 101, 104, 105]
    state.shutdown()


# What another process can open


def test_a_store_that_was_registered_is_registered_there_too(
    tmp_path: Path, new_registry: NewRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_lines.py").write_text((TESTS / "line_store.py").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    store = importlib.import_module("my_lines").Lines
    new_registry().register(store, "Verses")
    (tmp_path / "x.lines").write_text("7\n8\n", encoding="ascii")
    fields: dict[str, Any] = {"name": "d", "source": str(tmp_path / "x.lines"), "tops": ["id"], "batch_size": 2}
    state = state_at(DataLayer(**fields, store="Verses", processes=1))
    state.forward([])
    assert state.blobs[0].tolist() == [7, 8]
    state.shutdown()


def test_a_store_that_only_this_process_knows(files: Path, new_registry: NewRegistry) -> None:
    class OnlyHere(Crashing):
        """No other process finds it by its name."""

    new_registry()
    nacre.register(OnlyHere)
    with pytest.raises(
        ConfigError, match="d: processes=1, but the store OnlyHere exists only in this process"
    ) as caught:
        state_at(DataLayer(name="d", source=str(files / "x.h5"), store=OnlyHere(), batch_size=1, processes=1))
    assert "set processes to 0" in caught.value.remedy


def test_fields(files: Path) -> None:
    with pytest.raises(ConfigError, match="d: processes=-1, but it must be from 0 to 256"):
        DataLayer(name="d", source="x", batch_size=1, processes=-1)
    with pytest.raises(ConfigError, match="d: on_error='go on', but it must be one of 'raise', 'skip'"):
        DataLayer(name="d", source="x", batch_size=1, on_error="go on")
    with pytest.raises(DataError, match=r"d: .*nothing\.h5"):
        state_at(DataLayer(name="d", source=str(files / "nothing.h5"), batch_size=1, processes=1))


# Ends


def test_shutdown_does_not_wait_for_a_record_that_never_comes(tmp_path: Path, new_registry: NewRegistry) -> None:
    """A pipe is opened for the first batch, which nobody writes."""
    new_registry().load_file(TESTS / "line_store.py")
    path = tmp_path / "x.lines"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    state = state_at(DataLayer(name="d", source=str(path), tops=["id"], batch_size=2, processes=1, ahead=1))
    failed: list[Exception] = []

    def forward() -> None:
        try:
            state.forward([])
        except Exception as error:
            failed.append(error)

    waiting = threading.Thread(target=forward)
    waiting.start()
    until(lambda: state.ahead is not None)
    state.records.interrupt()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert isinstance(failed[0], DataError)
    state.shutdown()
    os.close(writer)


def until(happened: Callable[[], Any]) -> None:
    """Wait until something is so."""
    pause = threading.Event()
    for _ in range(100 * PATIENCE):
        if happened():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")


SCRIPT = """
from nacre_data import DataLayer
from nacre import InputLayer, Net

net = Net("t", [DataLayer(name="d", source={path!r}, batch_size=4, processes=2, cache_bytes=0)], backend="numpy")
net.forward()
print(net.blob("label").tolist(), flush=True)
{end}
"""


@pytest.mark.parametrize("way", ["-c", "stdin", "script"])
def test_it_works_without_a_main_guard_and_ends_with_its_parent(way: str, files: Path, tmp_path: Path) -> None:
    code = SCRIPT.format(path=str(files / "x.shard"), end="" if way == "-c" else "input()")
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, "-W", "error"]
    command += {"-c": ["-c", code], "stdin": ["-c", "import sys; exec(sys.stdin.readline())"], "script": [str(script)]}[
        way
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stdin is not None
        assert it.stdout is not None
        assert it.stderr is not None
        if way == "stdin":
            it.stdin.write(f"exec({code!r})\n")
            it.stdin.flush()
        assert it.stdout.readline() == "[0, 1, 2, 0]\n", it.stderr.read()
        if way == "-c":  # it ends by itself, with the net open
            assert (it.wait(PATIENCE), it.stderr.read()) == (0, "")
            return
        children = readers_of(it.pid)
        assert len(children) == 2
        for child in children:
            os.kill(child, signal.SIGINT)  # as Ctrl-C would
        assert readers_of(it.pid) == children
        it.kill()
    until(lambda: not any(alive(child) for child in children))


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    line = Path(f"/proc/{process}/cmdline")  # its number may soon be that of another process
    return not line.exists() or "nacre_data.reader" in line.read_text()
