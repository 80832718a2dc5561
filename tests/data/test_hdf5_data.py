"""HDF5Data: several files as one, in memory or batch by batch, and what is wrong with a file is said."""

import codecs
import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Net
from nacre.fields.types import base_folder
from nacre.net import joined
from nacre_data import HDF5DataLayer, MemoryDataLayer, Scale, hdf5_checks
from nacre_data.data import StoreRecords, files_of
from nacre_data.source import RecordSourceState
from nacre_data.stores import hdf5

CACHES = pytest.mark.parametrize("cache_bytes", [0, 1 << 28], ids=["batch by batch", "in memory"])


def write(path: Path, data: Any = None, label: Any = None, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        if data is not None:
            file.create_dataset("data", data=data, **options)
        if label is not None:
            file.create_dataset("label", data=label)
    return path


def digits(count: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels that tell which record each is."""
    label = np.arange(first, first + count)
    return np.broadcast_to(label[:, None, None, None], (count, 1, 2, 3)).astype(np.uint8), label


def parts(folder: Path, counts: Sequence[int], **options: Any) -> list[Path]:
    starts = np.cumsum([0, *counts]).tolist()
    return [
        write(folder / f"{number}.h5", *digits(count, start), **options)
        for number, (count, start) in enumerate(zip(counts, starts, strict=False))
    ]


def make(source: Any, batch_size: int = 3, phase: str = "train", seed: int = 0, **fields: Any) -> Net:
    layer = HDF5DataLayer(name="hdf5", source=source, batch_size=batch_size, **fields)
    return Net("t", [layer], backend="numpy", phase=phase, seed=seed)


def state_of(net: Net) -> RecordSourceState:
    state = net.ops[0].state
    assert isinstance(state, RecordSourceState)
    return state


def records_of(net: Net) -> StoreRecords:
    records = state_of(net).records
    assert isinstance(records, StoreRecords)
    return records


# What is fed


@CACHES
def test_files_of_5_1_and_2_records(tmp_path: Path, cache_bytes: int) -> None:
    files = parts(tmp_path, [5, 1, 2])
    net = make(files, cache_bytes=cache_bytes, transformers=[["data", Scale(scale=0.5)]])
    order = [*range(8)] * 3
    for start in range(0, 24, 3):  # Mocha's test: three passes in batches of 3
        net.feed()
        assert net.blob("label").tolist() == order[start : start + 3]
        assert net.blob("data").dtype == np.float32
        assert net.blob("data").shape == (3, 1, 2, 3)
        np.testing.assert_array_equal(net.blob("data")[:, 0, 1, 2], np.array(order[start : start + 3]) / 2)
    assert net.epoch == 3


@CACHES
def test_files_of_5_1_and_2_records_shuffled(tmp_path: Path, cache_bytes: int) -> None:
    net = make(parts(tmp_path, [5, 1, 2]), shuffle=True, cache_bytes=cache_bytes)
    seen: list[int] = []
    for _ in range(8):
        net.feed()
        seen += net.blob("label").tolist()
        np.testing.assert_array_equal(net.blob("data")[:, 0, 0, 0], net.blob("label"))
    passes = [seen[:8], seen[8:16], seen[16:]]
    assert all(sorted(one) == list(range(8)) for one in passes)
    assert len({tuple(one) for one in passes}) == 3
    assert any({5, 6, 7} & set(one[:5]) for one in passes)  # the order goes across the files


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any),
    st.data(),
    st.booleans(),
    st.sampled_from(["train", "validation"]),
    st.booleans(),
    st.booleans(),
)
def test_files_are_fed_as_one_array_in_memory_would_be(
    counts: list[int], data: st.DataObject, shuffle: bool, phase: str, in_memory: bool, chunked: bool
) -> None:
    batch_size = data.draw(st.integers(1, sum(counts)))
    images, labels = digits(sum(counts))
    options: dict[str, Any] = {"chunks": (2, 1, 1, 3), "compression": "gzip", "maxshape": (None, 1, 2, 3)}
    with tempfile.TemporaryDirectory() as folder:
        files = parts(Path(folder), counts, **options if chunked else {})
        fields: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "name": "hdf5"}
        layers = (
            HDF5DataLayer(source=list(map(str, files)), cache_bytes=1 << 20 if in_memory else 0, **fields),
            MemoryDataLayer(data=[images, labels], **fields),
        )
        net, twin = (Net("t", [layer], backend="numpy", phase=phase) for layer in layers)
        for number in range(2 * sum(counts) // batch_size + 3):
            if number == 2:  # an interruption
                memory = state_of(net).memory()
                net.shutdown()
                net = Net("t", [layers[0]], backend="numpy", phase=phase)
                state_of(net).remember(memory)
            net.feed()
            twin.feed()
            np.testing.assert_array_equal(net.blob("label"), twin.blob("label"))
            np.testing.assert_array_equal(net.blob("data"), twin.blob("data"))
            assert (state_of(net).rows, net.epoch) == (state_of(twin).rows, twin.epoch)
        net.shutdown()


@CACHES
@pytest.mark.parametrize("kind", ["?", "u1", ">i4", ">f4", "f2", "f8"])
def test_types(tmp_path: Path, kind: str, cache_bytes: int) -> None:
    values = np.array([0, 1, 1, 0, 1]).astype(kind)
    net = make(write(tmp_path / "a.h5", np.stack([values, values], 1), values), 5, cache_bytes=cache_bytes)
    net.feed()
    assert net.blob("data").dtype == "float32"
    assert net.blob("label").dtype == ("float32" if "f" in kind else "int64")
    np.testing.assert_array_equal(net.blob("label"), values)
    np.testing.assert_array_equal(net.blob("data")[:, 1], values)


def test_the_digits_of_the_demo() -> None:
    folder = Path(__file__).parents[2] / "examples/digits"
    net = make(folder / "test.h5", 100, "validation")
    counted = 0
    while net.epoch == 0:
        net.feed()
        counted += state_of(net).rows
    assert counted == 360


def test_other_names_of_datasets_and_groups_in_between(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["pixels"] = np.ones((4, 2))
        file["unused"] = ["text"]
    net = make(tmp_path / "a.h5", tops="pixels")
    net.feed()
    assert net.blob("pixels").shape == (3, 2)


# Where the files are


def test_paths_are_relative_to_the_net_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts(tmp_path, [4])
    token = base_folder.set(tmp_path)
    layer = HDF5DataLayer(name="hdf5", source="0.h5", batch_size=2)
    base_folder.reset(token)
    assert layer.source == (str(tmp_path / "0.h5"),)
    Net("t", [layer], backend="numpy").feed()
    monkeypatch.chdir(tmp_path)  # without a net file, to the working folder
    make("0.h5").feed()


def test_a_list_of_files_is_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    files = parts(tmp_path, [2, 3])
    (tmp_path / "lists/all.txt").write_text(f"\n  ../1.h5 \n\n{files[0]}\n")
    net = make([tmp_path / "lists/all.txt", files[0]], 7)
    net.feed()
    assert net.blob("label").tolist() == [2, 3, 4, 0, 1, 0, 1]


# What is open, and what is read


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[h5py.File]:
    """Return all data files that are opened from here on; one that is closed again is false."""
    opened: list[h5py.File] = []
    original = hdf5_checks.open_hdf5

    def opening(path: Path) -> hdf5_checks.CheckedFile:
        checked = original(path)
        opened.append(checked.file)
        return checked

    monkeypatch.setattr(hdf5, "open_hdf5", opening)
    return opened


@CACHES
def test_setup_reads_no_data_and_what_is_in_memory_leaves_nothing_open(
    tmp_path: Path, openings: list[h5py.File], monkeypatch: pytest.MonkeyPatch, cache_bytes: int
) -> None:
    files = parts(tmp_path, [5, 1])
    with monkeypatch.context() as patch:
        patch.setattr(h5py.Dataset, "__getitem__", None)
        patch.setattr(h5py.Dataset, "read_direct", None)
        net = make(files, cache_bytes=cache_bytes)
    net.feed()
    net.feed()
    net.feed()
    assert len(openings) == 2
    assert sum(map(bool, openings)) == (2 if cache_bytes == 0 else 0)
    net.shutdown()
    assert not any(openings)
    net.shutdown()


def test_only_data_of_the_right_size_are_kept_in_memory(tmp_path: Path) -> None:
    files = parts(tmp_path, [5, 1])
    size = 6 * (6 + 8)  # bytes of an image and of a label
    assert records_of(make(files, cache_bytes=size)).cached
    assert not records_of(make(files, cache_bytes=size - 1)).cached


def test_more_files_than_may_be_open(
    tmp_path: Path, openings: list[h5py.File], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "OPEN_FILES", 2)
    net = make(parts(tmp_path, [1, 2, 1, 3, 1]), shuffle=True, cache_bytes=0)
    seen: list[int] = []
    for _ in range(8):
        net.feed()
        seen += net.blob("label").tolist()
        assert sum(map(bool, openings)) <= 2
    assert sorted(seen) == sorted([*range(8)] * 3)
    net.shutdown()
    assert not any(openings)


# Bad files


def raises(words: str, source: Any, kind: type[Exception] = DataError, **fields: Any) -> None:
    with pytest.raises(kind, match=words):
        make(source, **fields)


def test_no_files() -> None:
    raises("hdf5: source=.*, but at least 1 must be given", [], ConfigError)


def test_a_missing_file(tmp_path: Path) -> None:
    raises(r"hdf5: .*none\.h5: no such file", tmp_path / "none.h5")
    raises(r"hdf5: .*: not a file", tmp_path)
    raises(r"hdf5: .*none\.h5: no such file", [*parts(tmp_path, [4]), tmp_path / "none.h5"])


@pytest.mark.parametrize("name", ["x" * 300 + ".h5", "x" * 300 + ".txt"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    raises("hdf5: .*xxx", tmp_path / name)


def test_a_file_that_is_no_hdf5(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"data, label\n" * 100)
    raises(r"hdf5: .*a\.h5: this is not an HDF5 file", tmp_path / "a.h5")
    (tmp_path / "b.h5").touch()
    raises(r"hdf5: .*b\.h5: this file is empty", tmp_path / "b.h5")


def test_reasons_are_short_and_name_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.h5", *digits(64))
    size = path.stat().st_size
    os.truncate(path, size - 100)
    with pytest.raises(DataError) as caught:
        make(path)
    told = f"a.h5: truncated: it has {size - 100:,} of {size:,} bytes\n  copy or convert it again"
    assert str(caught.value).endswith(told)
    assert str(caught.value).count(str(path)) == 1

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(h5py, "is_hdf5", lambda _: False)  # what h5py says of what it may not read
    monkeypatch.setattr(Path, "open", refuse)
    raises(r"hdf5: .*a\.h5: cannot be read: Permission denied\n  check the folder", path)


@settings(max_examples=40)
@given(st.integers(0, 4095), st.booleans())
def test_a_truncated_file(length: int, in_memory: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.h5", np.ones((512, 8), np.uint8), np.arange(512))
        os.truncate(path, length)
        raises(r"hdf5: .*a\.h5: ", path, cache_bytes=in_memory * 2**20)


def test_a_damaged_chunk_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", *digits(64), chunks=(64, 1, 2, 3), fletcher32=True)
    content = bytearray(path.read_bytes())
    start = content.index(bytes([5] * 6 + [6] * 6))
    content[start] ^= 1
    path.write_bytes(content)
    for cache_bytes in (0, 1 << 20):
        net = make(path, cache_bytes=cache_bytes)
        with pytest.raises(
            DataError, match=r"hdf5: .*a\.h5: dataset 'data': cannot be read as HDF5: .*(filter|Fletcher32)"
        ):
            net.feed()


def test_a_missing_dataset(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", *digits(4))
    words = r"hdf5: .*a\.h5: dataset 'labels': .*'/' \(did you mean 'label'\?\).*: data, label"
    raises(words, path, tops=["data", "labels"])


def test_record_counts_that_differ_in_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", np.ones((5, 2)), np.arange(4))
    raises(r"hdf5: .*a\.h5: 'label' has 4 records, but 'data' has 5", path)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (np.ones((4, 3), np.float32), r"of shape \(3,\) and type float32, but in .*a\.h5 they have shape \(2,\)"),
        (np.ones((4, 2), np.float64), r"of shape \(2,\) and type float64, but in .*a\.h5 .* type float32"),
        (np.ones(4, np.float32), r"of shape \(\) and type float32, but in .*a\.h5 they have shape \(2,\)"),
    ],
)
def test_files_that_differ(tmp_path: Path, other: np.ndarray, words: str) -> None:
    files = [
        write(tmp_path / "a.h5", np.ones((4, 2), np.float32), np.arange(4)),
        write(tmp_path / "b.h5", other, np.arange(4)),
    ]
    raises(rf"hdf5: .*b\.h5: 'data' has records {words}", files)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (np.float32(1), "is a single value, but its first axis must count the records"),
        (np.ones(4, np.complex64), "complex64"),
        (np.array([b"a"] * 4), r"\|S1"),
        (np.array(["a"] * 4, h5py.string_dtype()), " object"),
        (np.ones(4, [("a", "i4")]), r"\[\('a', '<i4'\)\]"),
        (np.ones((4, 0)), r"records of shape \(0,\)"),
    ],
)
def test_datasets_that_hold_no_numbers(tmp_path: Path, label: Any, words: str) -> None:
    raises(rf"hdf5: .*a\.h5: dataset 'label'.*{words}", write(tmp_path / "a.h5", np.ones((4, 2)), label))


def test_no_records(tmp_path: Path) -> None:
    raises(r"hdf5: there are no records in \S+/0\.h5, \S+/1\.h5$", parts(tmp_path, [0, 0]))


def test_a_batch_larger_than_the_data(tmp_path: Path) -> None:
    words = "hdf5: batch_size=9, but the data have only 8 records"
    raises(words, parts(tmp_path, [5, 3]), batch_size=9, phase="train")


def test_lists_of_files_from_windows(tmp_path: Path) -> None:
    """They may begin with a byte order mark, and be called in capitals."""
    for name in ("list.txt", "LIST.TXT"):
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + b"a.h5\r\nb.h5\r\n")
        assert files_of(tmp_path / name) == [tmp_path / "a.h5", tmp_path / "b.h5"]


def test_lists_of_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n\n")
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "wrong.txt").write_text("none.h5\n")
    raises(r"hdf5: .*gone\.txt: no such file", tmp_path / "gone.txt")
    raises(r"hdf5: .*empty\.txt: .*empty", tmp_path / "empty.txt")
    raises(r"hdf5: .*picture\.txt: .*not a list", tmp_path / "picture.txt")
    raises(r"hdf5: .*none\.h5: no such file", tmp_path / "wrong.txt")
    (tmp_path / "text.txt").write_text("once upon a time " * 30)
    raises(r"text\.txt: this is not a list of files, but has the line 'once .*'.*\n.* WordText", tmp_path / "text.txt")
    (tmp_path / "nul.txt").write_bytes(b"a\0b.h5\n")
    raises(r"nul\.txt: this is not a list of files, but has the line 'a\\x00b.h5'", tmp_path / "nul.txt")
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(1 << 25)
    raises(r"hdf5: .*huge\.txt: a list of files must not be larger than 16,777,216 bytes", tmp_path / "huge.txt")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: write(path, *digits(3)), r"0\.h5: its records are others than when it was opened first"),
        (lambda path: write(path, np.ones((4, 5)), np.arange(4)), r"0\.h5: its records are others"),
        (lambda path: write(path, digits(4)[0]), r"0\.h5: dataset 'label': "),
        (lambda path: path.unlink(), r"0\.h5: no such file"),
    ],
)
@CACHES
def test_a_file_that_changes_between_two_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, words: str, cache_bytes: int
) -> None:
    monkeypatch.setattr(joined, "OPEN_FILES", 1)
    files = parts(tmp_path, [4, 4])
    net = make(files, cache_bytes=cache_bytes)
    change(Path(files[0]))
    for _ in range(2):
        with pytest.raises(DataError, match=rf"hdf5: .*{words}"):
            net.feed()


# Hostile files (see hdf5_checks)


def test_links_out_of_the_file_are_refused(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.h5", np.ones((4, 2)), np.arange(4))
    path = write(tmp_path / "a.h5", label=np.arange(4))
    with h5py.File(path, "a") as file:
        file["data"] = h5py.ExternalLink(secret, "data")
    raises(r"hdf5: .*a\.h5: dataset 'data': 'data' .*link", path)


def test_numbers_in_another_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    path = write(tmp_path / "a.h5", label=np.arange(4))
    with h5py.File(path, "a") as file:
        file.create_dataset("data", (4, 2), "f8", external=[(os.fspath(tmp_path / "secret"), 0, 64)])
    raises(r"hdf5: .*a\.h5: dataset 'data': its numbers are in another file", path)


def test_virtual_datasets_are_refused(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.h5", np.ones((4, 2)))
    path = write(tmp_path / "a.h5", label=np.arange(4))
    layout = h5py.VirtualLayout((4, 2), "f8")
    layout[:] = h5py.VirtualSource(secret, "data", (4, 2))
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset("data", layout)
    raises(r"hdf5: .*a\.h5: dataset 'data': .*virtual", path)


def test_a_small_file_that_declares_terabytes_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", label=np.arange(4))
    with h5py.File(path, "a") as file:
        file.create_dataset("data", (4, 1 << 40), "u1", chunks=(1, 1 << 20))
    assert path.stat().st_size < 10_000
    raises(r"hdf5: .*a\.h5: dataset 'data': it declares 4,398,046,511,104 bytes, but the file can hold", path)


@CACHES
def test_files_are_shuffled_anew_in_each_pass(tmp_path: Path, cache_bytes: int) -> None:
    """Mocha's HDF5Data shuffles the order of the files once, when it is set up."""
    net = make(parts(tmp_path, [4, 4, 4]), 12, shuffle=True, cache_bytes=cache_bytes)
    orders = set()
    for _ in range(6):
        net.feed()
        orders.add(tuple(dict.fromkeys(label // 4 for label in net.blob("label").tolist())))
    assert len(orders) > 1


@CACHES
@pytest.mark.parametrize("chunks", [None, (4, 1, 2, 3)])
def test_a_shuffled_pass_has_every_record_once(tmp_path: Path, chunks: Any, cache_bytes: int) -> None:
    data, label = digits(40)
    path = write(tmp_path / "a.h5", data, label, chunks=chunks)
    net = make(path, batch_size=8, shuffle=True, cache_bytes=cache_bytes)
    used: list[int] = []
    for _ in range(5):
        net.feed()
        used += net.blob("label").tolist()
        assert (net.blob("data")[:, 0, 0, 0] == net.blob("label")).all()
    assert used != sorted(used) == [*range(40)]
    net.shutdown()
