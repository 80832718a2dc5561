"""`ahead`: what a thread reads beforehand is what would be read without it, for every source over records."""

import threading
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Layer
from nacre_data import (
    AsyncHDF5DataLayer,
    DataLayer,
    HDF5DataLayer,
    MemoryDataLayer,
    RandomShift,
    Scale,
)
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from ranks import assert_same, state_at
from resuming import trained
from toy_training import Reports

COUNT = 11
RECORDS = {
    "data": np.random.default_rng(0).random((COUNT, 1, 4, 4)).astype(np.float32),
    "label": np.arange(COUNT) % 3,
}


@pytest.fixture(name="path", scope="module")
def path_(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ahead") / "x.h5"
    with h5py.File(path, "w") as file:
        for name, values in RECORDS.items():
            file[name] = values
    return str(path)


pytestmark = pytest.mark.usefixtures("no_thread_is_left")


SOURCES: dict[str, Callable[..., Layer]] = {
    "MemoryData": lambda _, **fields: MemoryDataLayer(data=RECORDS, **fields),
    "HDF5Data": lambda path, **fields: HDF5DataLayer(source=path, **fields),
    "HDF5Data, not in memory": lambda path, **fields: HDF5DataLayer(source=path, cache_bytes=0, **fields),
    "AsyncHDF5Data": lambda path, **fields: AsyncHDF5DataLayer(source=path, chunk_size=4, **fields),
    "Data": lambda path, **fields: DataLayer(source=path, **fields),
    "Data, not in memory": lambda path, **fields: DataLayer(source=path, cache_bytes=0, **fields),
}


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=20)
@given(
    ahead=st.integers(1, 4),
    size=st.integers(1, 5),
    shuffle=st.booleans(),
    balanced=st.booleans(),
    phase=st.sampled_from(["train", "validation"]),
    ranks=st.integers(1, 2),
    what=st.lists(st.sampled_from(["forward"] * 4 + ["rewind", "remember"]), max_size=20),
)
def test_it_changes_nothing(
    name: str,
    ahead: int,
    size: int,
    shuffle: bool,
    balanced: bool,
    phase: str,
    ranks: int,
    what: list[str],
    path: str,
) -> None:
    fields: dict[str, Any] = {"name": "d", "batch_size": size, "shuffle": shuffle}
    fields["transformers"] = [["data", Scale(scale=0.5)], ["data", RandomShift(pixels=1)]]
    if balanced and name != "AsyncHDF5Data":
        fields["sampling"] = "balanced"
    plain, early = (
        state_at(SOURCES[name](path, ahead=number, **fields), phase, ranks - 1, ranks) for number in (0, ahead)
    )
    assert_same(plain, early, what)


@pytest.mark.parametrize("name", SOURCES)
def test_a_training_is_the_same_bit_for_bit_and_so_is_a_resumed_one(name: str, path: str) -> None:
    def layers(ahead: int) -> list[Layer]:
        return [
            SOURCES[name](path, name="d", batch_size=3, shuffle=True, ahead=ahead),
            InnerProductLayer(bottoms="data", tops="ip", output_dim=3),
            SoftmaxLossLayer(bottoms=["ip", "label"]),
        ]

    expected = trained(layers(2), 7)[1]
    assert trained(layers(0), 7)[1] == expected
    middle, _ = trained(layers(2), 4)
    assert trained(layers(2), 3, middle)[1] == expected
    reports = Reports()
    assert trained(layers(1), 3, middle, [reports])[1] == expected
    assert reports["warning"] == []


def test_only_some_batches_are_read_ahead(path: str) -> None:
    state = state_at(HDF5DataLayer(name="d", source=path, batch_size=2, ahead=2))
    reads, read = threading.Semaphore(0), state.records.read

    def reading(*arguments: Any) -> None:
        read(*arguments)
        reads.release()

    vars(state.records)["read"] = reading
    state.forward([])
    for _ in range(1 + 2):
        assert reads.acquire(timeout=600)
    assert not reads.acquire(blocking=False)  # a fourth one has no place
    assert state.memory() == {"position": 2, "epoch": 0, "count": COUNT}
    state.shutdown()


@pytest.mark.parametrize("ahead", [0, 2])
def test_after_an_error_the_same_batch_comes_again(ahead: int) -> None:
    state = state_at(MemoryDataLayer(name="d", tops=["id"], data=[np.arange(9)], batch_size=3, ahead=ahead))
    state.forward([])
    read, failed = state.records.read, threading.Event()

    def reading(records: np.ndarray, arrays: Any) -> None:
        if 4 in records and not failed.is_set():
            failed.set()
            raise DataError("d: bad record")
        read(records, arrays)

    state._stop()
    vars(state.records)["read"] = reading
    with pytest.raises(DataError, match="bad record"):
        state.forward([])
    state.forward([])
    assert state.blobs[0].tolist() == [3, 4, 5]
    state.shutdown()


def test_no_thread_where_nothing_is_read_ahead(path: str) -> None:
    before = threading.active_count()
    state = state_at(AsyncHDF5DataLayer(name="d", source=path, batch_size=2, ahead=0))
    state.forward([])
    assert threading.active_count() == before
    state.shutdown()


def test_it_must_not_be_negative() -> None:
    with pytest.raises(ConfigError, match="d: ahead=-1, but it must be 0 or more"):
        MemoryDataLayer(name="d", tops=["id"], data=[np.arange(9)], batch_size=3, ahead=-1)
