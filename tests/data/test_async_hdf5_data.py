"""AsyncHDF5Data: what a thread reads ahead is what would be read without it, and the thread ends."""

import gc
import tempfile
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Layer, Net, SnapshotError
from nacre.net import joined
from nacre_data import AsyncHDF5DataLayer, HDF5DataLayer, RandomShift, Scale
from nacre_data.ahead import Batch, ReadAhead
from nacre_data.source import RecordSourceState
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from resuming import trained

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def parts(folder: Path, counts: Sequence[int], **options: Any) -> list[str]:
    """Write files whose images and labels tell which record each is."""
    files = []
    for number, (first, last) in enumerate(pairwise(np.cumsum([0, *counts]).tolist())):
        label = np.arange(first, last)
        path = folder / f"{number}.h5"
        with h5py.File(path, "w") as file:
            images = np.broadcast_to(label[:, None, None, None], (len(label), 1, 2, 3))
            file.create_dataset("data", data=images.astype(np.uint8), **options)
            file.create_dataset("label", data=label)
        files.append(str(path))
    return files


def layer_of(source: Any, batch_size: int = 3, chunk_size: int = 2, **fields: Any) -> AsyncHDF5DataLayer:
    return AsyncHDF5DataLayer(name="ahead", source=source, batch_size=batch_size, chunk_size=chunk_size, **fields)


def make(source: Any, phase: str = "train", seed: int = 0, **fields: Any) -> Net:
    return Net("t", [layer_of(source, **fields)], backend="numpy", phase=phase, seed=seed)


def state_of(net: Net) -> RecordSourceState:
    state = net.ops[0].state
    assert isinstance(state, RecordSourceState)
    return state


def batch(net: Net) -> list[int]:
    net.feed()
    labels = net.blob("label").tolist()
    np.testing.assert_array_equal(net.blob("data")[:, 0, 1, 2], labels)
    return labels


# What is fed


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any),
    st.data(),
    st.sampled_from(["train", "validation"]),
    st.booleans(),
)
def test_without_shuffling_it_feeds_what_hdf5_data_feeds(
    counts: list[int], data: st.DataObject, phase: str, packed: bool
) -> None:
    batch_size, chunk_size = data.draw(st.integers(1, sum(counts))), data.draw(st.integers(1, 12))
    options: dict[str, Any] = {"chunks": (2, 1, 1, 3), "compression": "gzip", "maxshape": (None, 1, 2, 3)}
    with tempfile.TemporaryDirectory() as folder:
        files = parts(Path(folder), counts, **options if packed else {})
        net = make(files, phase, batch_size=batch_size, chunk_size=chunk_size)
        twin = Net(
            "t", [HDF5DataLayer(name="ahead", source=files, batch_size=batch_size)], backend="numpy", phase=phase
        )
        for _ in range(2 * sum(counts) // batch_size + 3):
            twin.feed()
            assert batch(net) == twin.blob("label").tolist()
            assert (state_of(net).rows, net.epoch) == (twin.ops[0].state.rows, twin.epoch)
        net.shutdown()
        twin.shutdown()


def test_files_chunks_and_records_are_shuffled_anew_for_each_pass(tmp_path: Path) -> None:
    """Mocha's HDF5Data shuffles the files once only."""
    net = make(parts(tmp_path, [6, 9, 3]), batch_size=6, chunk_size=3, shuffle=True)
    passes = [[*batch(net), *batch(net), *batch(net)] for _ in range(12)]
    orders: dict[str, set[Any]] = {"files": set(), "chunks": set(), "records": set()}
    for records in passes:
        assert sorted(records) == list(range(18))
        files = [[0, 0, 1, 1, 1, 2][record // 3] for record in records]
        assert sum(one != other for one, other in pairwise(files)) == 2  # the records of a file stay together
        chunks = [record // 3 for record in records]
        assert sum(one != other for one, other in pairwise(chunks)) == 5  # and those of a chunk
        orders["files"].add(tuple(dict.fromkeys(files)))
        orders["chunks"].add(tuple(chunk for chunk in dict.fromkeys(chunks) if chunk in (2, 3, 4)))
        orders["records"].add(tuple(record for record in records if record < 3))
    assert all(len(seen) > 2 for seen in orders.values()), orders
    net.shutdown()


def test_the_order_is_of_the_seed_and_the_name(tmp_path: Path) -> None:
    files = parts(tmp_path, [20])
    nets = [make(files, seed=seed, shuffle=True) for seed in (0, 0, 1)]
    first, same, other = [[batch(net) for _ in range(6)] for net in nets]
    assert first == same != other
    for net in nets:
        net.shutdown()


def test_transformers_act_when_a_batch_is_used(tmp_path: Path) -> None:
    files = parts(tmp_path, [20])
    fields: dict[str, Any] = {"transformers": [["data", Scale(scale=0.5)], ["data", RandomShift(pixels=1)]]}
    net = make(files, **fields)
    twin = Net("t", [HDF5DataLayer(name="ahead", source=files, batch_size=3, **fields)], backend="numpy")
    for step in (0, 1, 7):
        for one in (net, twin):
            one.step = step
            one.feed()
        np.testing.assert_array_equal(net.blob("data"), twin.blob("data"))
    net.shutdown()


# Interruptions


@settings(max_examples=20)
@given(st.integers(0, 9), st.integers(0, 4), st.booleans(), st.sampled_from(["train", "validation"]))
def test_resuming_goes_on_bit_for_bit(before: int, elsewhere: int, shuffle: bool, phase: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = parts(Path(folder), [5, 6])
        first, second = (make(files, phase, shuffle=shuffle, batch_size=4) for _ in range(2))
        for _ in range(before):
            batch(first)
        memory = {name: np.asarray(value) for name, value in state_of(first).memory().items()}
        for _ in range(elsewhere):
            batch(second)
        state_of(second).remember(memory)
        for _ in range(8):
            assert batch(first) == batch(second)
            assert (state_of(first).rows, first.epoch) == (state_of(second).rows, second.epoch)
        first.shutdown()
        second.shutdown()


def test_a_training_goes_on_bit_for_bit_from_its_snapshot(tmp_path: Path) -> None:
    files = parts(tmp_path, [5, 8])
    shift = [["data", RandomShift(pixels=1)]]

    def layers() -> list[Layer]:
        return [
            layer_of(files, batch_size=4, shuffle=True, transformers=shift),
            InnerProductLayer(bottoms="data", tops="ip", output_dim=13),
            SoftmaxLossLayer(bottoms=["ip", "label"]),
        ]

    middle, _ = trained(layers(), 4)
    assert trained(layers(), 5, middle)[1] == trained(layers(), 9)[1]


def test_what_is_only_read_is_not_remembered(tmp_path: Path) -> None:
    net = make(parts(tmp_path, [12]), batch_size=2)
    records, reads = state_of(net).records, threading.Semaphore(0)
    read = records.read

    def reading(*arguments: Any) -> None:
        read(*arguments)
        reads.release()

    vars(records)["read"] = reading
    batch(net)
    for _ in range(1 + state_of(net).layer.ahead):
        assert reads.acquire(timeout=600)
    assert state_of(net).memory() == {"position": 2, "epoch": 0, "count": 12}
    net.shutdown()


def test_rewind_begins_this_pass_again(tmp_path: Path) -> None:
    net = make(parts(tmp_path, [5, 3]), "validation", batch_size=5)
    assert batch(net) == [0, 1, 2, 3, 4]
    for _ in range(2):
        state_of(net).rewind()
        assert batch(net) == [0, 1, 2, 3, 4]
    assert batch(net) == [5, 6, 7, 7, 7]
    assert state_of(net).ahead is None  # nothing is read ahead behind the end of a pass
    state_of(net).rewind()
    assert (batch(net), net.epoch) == ([0, 1, 2, 3, 4], 1)
    net.shutdown()


def test_a_snapshot_of_other_data_is_refused(tmp_path: Path) -> None:
    net = make(parts(tmp_path, [5]))
    with pytest.raises(SnapshotError, match=r"ahead: .* 7 records, .* 5"):
        state_of(net).remember({"position": 1, "epoch": 0, "count": 7})


# The end


def test_shutdown_ends_the_thread_and_closes_the_files(tmp_path: Path) -> None:
    (file,) = parts(tmp_path, [9])
    net = make(file)
    for _ in range(2):
        batch(net)
    ahead = state_of(net).ahead
    assert ahead is not None and ahead.thread.is_alive()
    net.shutdown()
    assert not ahead.thread.is_alive()
    h5py.File(file, "w").close()  # HDF5 refuses this while it is open
    net.shutdown()


def test_a_net_that_nobody_holds_ends_its_thread(tmp_path: Path) -> None:
    net = make(parts(tmp_path, [9]))
    batch(net)
    thread = state_of(net).ahead.thread  # type: ignore[union-attr]
    del net
    gc.collect()
    thread.join()


def test_whoever_lets_go_of_a_thread_that_reads_ahead_does_not_wait_for_it() -> None:
    """It may be the thread itself, or one that holds a lock of HDF5's, in which garbage happens to be collected."""
    lock, held = threading.Lock(), []
    with lock:
        held.append(ReadAhead(lambda _: bool(lock.acquire() and lock.release()), [Batch(np.empty(1), np.empty(1), [])]))
        thread = held[0].thread
        held.clear()
    thread.join()

    there = threading.Event()
    held.append(ReadAhead(lambda _: bool(there.wait() and held.clear()), [Batch(np.empty(1), np.empty(1), [])]))
    thread = held[0].thread
    there.set()
    thread.join()


def test_no_thread_is_made_by_setup(tmp_path: Path) -> None:
    net = make(parts(tmp_path, [9]))
    assert state_of(net).ahead is None
    net.shutdown()
    planned = Net("t", [layer_of(parts(tmp_path, [9]))], backend="numpy", allocate=False)
    planned.shutdown()


# Bad files


def test_a_damaged_chunk_is_an_error_where_it_is_used_and_again(tmp_path: Path) -> None:
    (file,) = parts(tmp_path, [64], chunks=(32, 1, 2, 3), fletcher32=True)
    content = bytearray(Path(file).read_bytes())
    content[content.index(bytes([40] * 6 + [41] * 6))] ^= 1
    Path(file).write_bytes(content)
    net = make(file, batch_size=16, chunk_size=8)
    assert batch(net) + batch(net) == list(range(32))
    for _ in range(2):
        with pytest.raises(DataError, match=r"ahead: .*0\.h5: dataset 'data': cannot be read as HDF5"):
            net.feed()
        state_of(net).ahead.thread.join()  # type: ignore[union-attr]
    net.shutdown()


def test_a_file_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one that is open: of that, the records are still there."""
    first, second = parts(tmp_path, [9, 9])
    monkeypatch.setattr(joined, "OPEN_FILES", 1)
    net = make([first, second], chunk_size=9)
    Path(first).unlink()
    with pytest.raises(DataError, match=r"ahead: .*0\.h5: no such file"):
        net.feed()
    parts(tmp_path, [9])
    assert batch(net) == [0, 1, 2]
    net.shutdown()


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"chunk_size": 0}, ConfigError, "ahead: chunk_size=0, but it must be above 0"),
        ({"source": []}, ConfigError, "ahead: source=.*, but at least 1 must be given"),
        ({"batch_size": 10}, DataError, "ahead: batch_size=10, but the data have only 9 records"),
        ({"tops": ["data", "labels"]}, DataError, "ahead: .*dataset 'labels': "),
    ],
)
def test_bad_fields(tmp_path: Path, fields: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make(**{"source": parts(tmp_path, [9]), **fields})
