"""Ranks: in training their batches are one batch of one process; elsewhere together they feed a pass exactly once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from line_store import Lines, lines
from nacre import DataError, Field, Layer, Net, Reader, Store
from nacre_data import (
    AsyncHDF5DataLayer,
    CSVDataLayer,
    DataLayer,
    HDF5DataLayer,
    ImageDataLayer,
    MemoryDataLayer,
    PrefetchLayer,
    RandomNormalLayer,
)
from nacre_parallel.frameworks.batches import divided
from ranks import state_at


class Dots(Store):
    """Pictures of one pixel, which is the number of the record."""

    count: int = 1

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        return DotsReader(self.count)


class DotsReader(Reader):
    def __init__(self, count: int) -> None:
        self.count: int | None = count
        self.fields = {"id": Field(None, "uint8", codec="Picture")}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        out["id"][:] = [b"P5 1 1 255\n%c" % number for number in numbers]


SPLIT = {"part": "some", "fractions": {"some": 0.6, "rest": 0.4}}


@pytest.fixture(name="file", scope="module")
def file_(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """Return a function that gives an HDF5 file with so many records, whose `id` is their number, beside a table."""
    folder = tmp_path_factory.mktemp("records")

    def written(count: int) -> str:
        path = folder / f"{count}.h5"
        if not path.exists():
            with h5py.File(path, "w") as file:
                file["id"] = np.arange(count)
            path.with_suffix(".csv").write_text("id\n" + "".join(f"{number}\n" for number in range(count)))
            lines(folder, count)
        return str(path)

    return written


# For each source, how it is made of a file with `count` records; whether it takes `split`.
SOURCES: dict[str, Callable[..., Layer]] = {
    "MemoryData": lambda path, count, **fields: MemoryDataLayer(data=[np.arange(count)], **fields),
    "HDF5Data": lambda path, count, **fields: HDF5DataLayer(source=path, **fields),
    "HDF5Data, not in memory": lambda path, count, **fields: HDF5DataLayer(source=path, cache_bytes=0, **fields),
    "AsyncHDF5Data": lambda path, count, **fields: AsyncHDF5DataLayer(source=path, chunk_size=7, **fields),
    "CSVData": lambda path, count, **fields: CSVDataLayer(source=str(Path(path).with_suffix(".csv")), **fields),
    "Data": lambda path, count, **fields: DataLayer(source=path, **fields),
    "Data, not in memory": lambda path, count, **fields: DataLayer(source=path, cache_bytes=0, **fields),
    "ImageData": lambda path, count, **fields: ImageDataLayer(
        source=path, store=Dots(count=count), is_color=False, threads=1, **fields
    ),
    "Data, one after the other": lambda path, count, **fields: DataLayer(
        source=str(Path(path).with_name(f"0-{count}.lines")),
        store=Lines(),
        window=5 * fields["shuffle"],
        **fields,
    ),
}
WHOLE = {"AsyncHDF5Data", "Data, one after the other"}  # they refuse `split`


def fields_of(data: st.DataObject, name: str) -> dict[str, Any]:
    """Draw the fields of a source besides its data and the size of its batches."""
    fields: dict[str, Any] = {"name": "ids", "tops": ["id"], "shuffle": data.draw(st.booleans(), "shuffle")}
    if name not in WHOLE and data.draw(st.booleans(), "split"):
        fields["split"] = SPLIT
    return fields


def size_of(make: Callable[..., Layer], path: str, count: int, fields: dict[str, Any]) -> int:
    """Return how many records a source feeds in a pass."""
    try:
        state = state_at(make(path, count, batch_size=1, **fields))
    except DataError:  # this part has none
        assume(False)
    fed: int = state.records.count or count
    state.shutdown()
    return fed


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=15)
@given(data=st.data(), ranks=st.integers(1, 8), count=st.integers(1, 100))
def test_in_training_the_ranks_batches_are_one_batch(
    name: str, data: st.DataObject, ranks: int, count: int, file: Callable[[int], str]
) -> None:
    make, path, fields = SOURCES[name], file(count), fields_of(data, name)
    fed = size_of(make, path, count, fields)
    assume(ranks <= fed)
    size = data.draw(st.integers(1, fed // ranks), "batch_size")
    whole = state_at(make(path, count, batch_size=size * ranks, **fields))
    parts = [state_at(make(path, count, batch_size=size, **fields), "train", rank, ranks) for rank in range(ranks)]
    for _ in range(2 * fed // (size * ranks) + 3):
        for state in (whole, *parts):
            state.forward([])
        assert np.concatenate([part.blobs[0] for part in parts]).tolist() == whole.blobs[0].tolist()
        for part in parts:
            assert (part.rows, part.epoch, part.memory()) == (size, whole.epoch, whole.memory())
    for state in (whole, *parts):
        state.shutdown()


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=15)
@given(
    data=st.data(),
    ranks=st.integers(1, 8),
    count=st.integers(1, 100),
    phase=st.sampled_from(["validation", "test", "predict"]),
)
def test_elsewhere_the_ranks_together_feed_a_pass(
    name: str, data: st.DataObject, ranks: int, count: int, phase: str, file: Callable[[int], str]
) -> None:
    make, path, fields = SOURCES[name], file(count), fields_of(data, name)
    fed = size_of(make, path, count, fields)
    size = data.draw(st.integers(1, fed), "batch_size")
    alone = state_at(make(path, count, batch_size=1, **fields), phase)
    parts = [state_at(make(path, count, batch_size=size, **fields), phase, rank, ranks) for rank in range(ranks)]
    for epoch in range(2):
        order = []
        for _ in range(fed):
            alone.forward([])
            order += alone.blobs[0].ravel().tolist()
        assert len(set(order)) == fed
        found = []
        for batch in range(-(-fed // (size * ranks))):
            assert {part.epoch for part in parts} == {epoch}, batch  # so that all go on together, or none does
            for part in parts:
                part.forward([])
                found += part.blobs[0][: part.rows].ravel().tolist()
                assert part.blobs[0][part.rows :].ravel().tolist() == order[-1:] * (size - part.rows)
            assert len({tuple(part.memory().items()) for part in parts}) == 1
        assert found == order
        assert {part.epoch for part in parts} == {epoch + 1}
    for state in (alone, *parts):
        state.shutdown()


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=10)
@given(
    data=st.data(),
    ranks=st.integers(1, 8),
    count=st.integers(1, 40),
    phase=st.sampled_from(["train", "validation"]),
    ahead=st.integers(0, 3),
)
def test_within_a_prefetch_each_rank_is_fed_the_same(
    name: str, data: st.DataObject, ranks: int, count: int, phase: str, ahead: int, file: Callable[[int], str]
) -> None:
    make, path, fields = SOURCES[name], file(count), fields_of(data, name)
    fed = size_of(make, path, count, fields)
    assume(ranks <= fed)
    source = make(path, count, batch_size=data.draw(st.integers(1, fed // ranks), "batch_size"), **fields)
    prefetch = PrefetchLayer(name="p", layer=[source], ahead=ahead)
    for rank in range(ranks):
        plain, early = (state_at(layer, phase, rank, ranks) for layer in (source, prefetch))
        for step in range(8):
            for state in (plain, early):
                state.backend.scalars["step"] = step * (phase == "train")
                state.forward([])
            assert plain.blobs[0].tobytes() == early.blobs[0].tobytes()
            assert (plain.rows, plain.epoch) == (early.rows, early.epoch)
            assert {f"ids:{key}": value for key, value in plain.memory().items()} == early.memory()
        plain.shutdown()
        early.shutdown()


def test_a_rank_may_have_no_row() -> None:
    layer = MemoryDataLayer(name="ids", tops=["id"], data=[np.arange(3)], batch_size=2)
    parts = [state_at(layer, "test", rank, 4) for rank in range(4)]
    for part in parts:
        part.forward([])
    assert [(part.blobs[0].tolist(), part.rows) for part in parts] == [([0, 1], 2), ([2, 2], 1), *[([2, 2], 0)] * 2]


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 9), st.integers(0, 3))
def test_a_training_goes_on_with_the_memory_of_any_rank_on_any_number_of_ranks(
    then: int, now: int, steps: int, rank: int
) -> None:
    def steps_of(ranks: int) -> list[Any]:
        layer = MemoryDataLayer(name="ids", tops=["id"], data=[np.arange(17)], batch_size=12 // ranks, shuffle=True)
        return [state_at(layer, "train", rank, ranks) for rank in range(ranks)]

    before, after = steps_of(then), steps_of(now)
    for state in before:
        for _ in range(steps):
            state.forward([])
    for state in after:
        state.remember(before[rank % then].memory())
    for _ in range(4):
        for state in (*before, *after):
            state.forward([])
        first, second = (np.concatenate([state.blobs[0] for state in one]).tolist() for one in (before, after))
        assert first == second


@given(st.integers(1, 8), st.integers(1, 5))
def test_noise_is_that_of_one_process(ranks: int, size: int) -> None:
    def noise(size: int, rank: int = 0, ranks: int = 1) -> Any:
        return state_at(
            RandomNormalLayer(name="z", tops=["a", "b"], output_dims=3, batch_size=[size, 2 * size]),
            "train",
            rank,
            ranks,
        )

    whole, parts = noise(size * ranks), [noise(size, rank, ranks) for rank in range(ranks)]
    for _ in range(3):
        for state in (whole, *parts):
            state.forward([])
        for top in range(2):
            joined = np.concatenate([part.blobs[top] for part in parts])
            np.testing.assert_array_equal(joined, whole.blobs[top])


def test_too_few_records_for_all_ranks() -> None:
    layer = MemoryDataLayer(name="ids", tops=["id"], data=[np.arange(10)], batch_size=4)
    with pytest.raises(DataError, match=r"ids: batch_size=4 on each of 3 ranks, .* 10 records\n  .*batch_size to 3"):
        state_at(layer, "train", 0, 3)
    with pytest.raises(
        DataError, match=r"ids: batch_size=4 on each of 11 ranks.*\n  let at most 10 of .* batch_size of 1$"
    ):
        state_at(layer, "train", 0, 11)
    state_at(replace(layer, batch_size=1), "train", 0, 10)
    state_at(layer, "validation", 10, 11)


@pytest.mark.parametrize(
    ("records", "ranks", "advice", "batch_size", "fewer"),
    [
        (10, 3, "set batch_size to 10 or less", 9, 3),
        (2, 3, "let at most 2 of the ranks train, .* batch_size of 2", 2, 2),
    ],
)
def test_too_few_records_for_a_batch_of_all_ranks(
    records: int, ranks: int, advice: str, batch_size: int, fewer: int
) -> None:
    """The batch_size that is told of is that of the net file, and the advice is right."""
    layer = MemoryDataLayer(name="ids", tops=["id"], data=[np.arange(records)], batch_size=12)
    with pytest.raises(DataError, match=rf"ids: batch_size=12 of 3 ranks together, .* {records} records\n  {advice}"):
        state_at(divided(layer, 0, ranks), "train", 0, ranks)
    for rank in range(fewer):
        state_at(divided(replace(layer, batch_size=batch_size), rank, fewer), "train", rank, fewer)


def test_a_prefetch_feeds_its_part_of_a_batch_that_ranks_divide_unevenly() -> None:
    source = MemoryDataLayer(name="ids", tops=["id"], data=[np.arange(20)], batch_size=7)
    fed = []
    for rank in range(3):
        layer = divided(PrefetchLayer(name="p", layer=[source]), rank, 3)
        with Net("prefetched", [layer], rank=rank, ranks=3) as net:
            net.feed()
            fed.append(net.blob("id").tolist())
    assert fed == [[0, 1], [2, 3], [4, 5, 6]]
