"""Records without numbers, which are read one after the other: passes, orders, ranks and interruptions."""

import os
import threading
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from line_store import LineReader, Lines, lines
from nacre import ConfigError, DataError, Field, Layer, NacreError, Net, Reader, Solver, open_records
from nacre.random import Random
from nacre_data import DataLayer, ImageDataLayer, MemoryDataLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_solvers import SGD, ValidationPerformance
from ranks import state_at
from resuming import trained
from toy_training import Reports

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture(name="folder", scope="module")
def folder_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


def layer_of(source: Any, batch_size: int = 3, **fields: Any) -> DataLayer:
    given: dict[str, Any] = {"name": "d", "tops": ["id"], "store": Lines(), **fields}
    return DataLayer(source=source, batch_size=batch_size, **given)


def fed(state: Any, batches: int) -> list[list[int]]:
    """Return the real rows of the next batches."""
    found = []
    for _ in range(batches):
        state.forward([])
        found.append(state.blobs[0][: state.rows].tolist())
    return found


# What is fed


@settings(max_examples=50)
@given(
    count=st.integers(1, 30),
    data=st.data(),
    phase=st.sampled_from(["train", "validation", "test", "predict"]),
    ahead=st.sampled_from([0, 2]),
)
def test_it_feeds_what_numbered_records_feed(
    count: int, data: st.DataObject, phase: str, ahead: int, folder: Path
) -> None:
    size = data.draw(st.integers(1, count))
    stream = state_at(layer_of(lines(folder, count), size, ahead=ahead), phase)
    memory = state_at(MemoryDataLayer(name="d", tops=["id"], data=[np.arange(count)], batch_size=size), phase)
    for _ in range(2 * count // size + 3):
        for state in (stream, memory):
            state.forward([])
        assert stream.blobs[0].tolist() == memory.blobs[0].tolist()
        assert (stream.rows, stream.epoch) == (memory.rows, memory.epoch)
        assert {**memory.memory(), **stream.memory()} == memory.memory()
    stream.shutdown()


@settings(max_examples=50)
@given(
    count=st.integers(1, 40),
    window=st.integers(1, 50),
    seed=st.integers(0, 2**64 - 1),
    ahead=st.sampled_from([0, 2]),
)
def test_a_window_mixes_each_pass_anew(count: int, window: int, seed: int, ahead: int, folder: Path) -> None:
    layer = layer_of(lines(folder, count), 1, shuffle=True, window=window, ahead=ahead)
    state, same = state_at(layer, seed=seed), state_at(layer, seed=seed)
    for epoch in range(3):
        order = [*chain(*fed(state, count))]
        assert order == [*chain(*fed(same, count))]
        assert sorted(order) == list(range(count))
        assert state.epoch == epoch + 1
        # the record in place i comes from the first i + window
        assert all(record < place + window for place, record in enumerate(order))
        generator, held, expected = Random(seed, "d", lambda epoch=epoch: epoch).generator(), [], []
        for record in range(count):
            if len(held) < window:
                held.append(record)
            else:
                place = generator.integers(window)
                expected.append(held[place])
                held[place] = record
        assert order == [*expected, *(held[place] for place in generator.permutation(len(held)))]
    state.shutdown()
    same.shutdown()


def test_the_order_is_one_of_its_own_for_each_seed_name_and_pass(folder: Path) -> None:
    def orders(seed: int, name: str) -> list[tuple[int, ...]]:
        state = state_at(layer_of(lines(folder, 30), 30, name=name, shuffle=True, window=10), seed=seed)
        found = [tuple(batch) for batch in fed(state, 2)]
        state.shutdown()
        return found

    assert len({*orders(0, "d"), *orders(1, "d"), *orders(0, "e")}) == 6


def test_the_order_does_not_depend_on_batches_ranks_or_phase(folder: Path) -> None:
    def order(size: int, phase: str, ranks: int) -> list[int]:
        layer = layer_of(lines(folder, 12), size, shuffle=True, window=5)
        parts = [state_at(layer, phase, rank, ranks) for rank in range(ranks)]
        found: list[int] = []
        while parts[0].epoch < 1:
            found += chain(*(fed(part, 1)[0] for part in parts))
        for part in parts:
            part.shutdown()
        return found

    assert order(3, "train", 1) == order(2, "train", 3) == order(1, "test", 1) == order(5, "validation", 2)


def test_each_pass_opens_the_reader_once_and_only_if_it_begins(folder: Path) -> None:
    opened = LineReader.opened
    state = state_at(layer_of(lines(folder, 6), 3))
    fed(state, 2)
    assert (state.epoch, LineReader.opened - opened) == (1, 1)
    fed(state, 3)
    assert (state.epoch, LineReader.opened - opened) == (2, 3)
    state.shutdown()
    assert not state.records.reader.reader.opened


def test_several_files_follow_each_other(folder: Path) -> None:
    state = state_at(layer_of([lines(folder, 4), lines(folder, 3, 4)], 3, tops=["x"]), "test")
    assert [[int(row[0]) for row in batch] for batch in fed(state, 4)] == [[0, 1, 2], [3, 4, 5], [6], [0, 1, 2]]
    state.remember({"position": 6, "epoch": 0})
    assert [int(row[0]) for row in fed(state, 1)[0]] == [6]
    state.shutdown()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe(tmp_path: Path) -> None:
    """It is opened for each pass, and closed at its end, so that whoever writes the next one waits until it begins."""
    path = tmp_path / "pipe.lines"
    os.mkfifo(path)

    def writes(first: int) -> threading.Thread:
        content = "".join(f"{first + number}\n" for number in range(5))
        writer = threading.Thread(target=path.write_text, args=(content, "ascii"), daemon=True)
        writer.start()
        return writer

    writer = writes(0)
    state = state_at(layer_of(str(path), 2), "validation")
    assert fed(state, 3) == [[0, 1], [2, 3], [4]]
    writer.join()
    writer = writes(100)
    assert fed(state, 3) == [[100, 101], [102, 103], [104]]
    writer.join()
    state.shutdown()


# Interruptions


@settings(max_examples=60)
@given(
    count=st.integers(1, 25),
    data=st.data(),
    window=st.sampled_from([0, 1, 4, 100]),
    phase=st.sampled_from(["train", "validation"]),
    ahead=st.sampled_from([0, 2]),
    before=st.integers(0, 12),
    elsewhere=st.integers(0, 5),
)
def test_a_resumed_source_repeats_and_loses_no_record(
    count: int, data: st.DataObject, window: int, phase: str, ahead: int, before: int, elsewhere: int, folder: Path
) -> None:
    size = data.draw(st.integers(1, count))
    layer = layer_of(lines(folder, count), size, shuffle=window > 0, window=window, ahead=ahead)
    first, second = state_at(layer, phase), state_at(layer, phase)
    fed(first, before)
    fed(second, elsewhere)
    memory = first.memory()
    assert all(type(value) is int for value in memory.values())  # JSON holds it
    said = second.remember({name: np.asarray(value) for name, value in memory.items()})
    assert bool(said) == (memory["position"] > 0)
    for _ in range(8):
        assert fed(first, 1) == fed(second, 1)
        assert (first.rows, first.epoch, first.memory()) == (second.rows, second.epoch, second.memory())
    first.shutdown()
    second.shutdown()


@settings(max_examples=20)
@given(before=st.integers(0, 6), window=st.sampled_from([0, 4]), ahead=st.sampled_from([0, 2]))
def test_rewind_begins_this_pass_again(before: int, window: int, ahead: int, folder: Path) -> None:
    layer = layer_of(lines(folder, 7), 2, shuffle=window > 0, window=window, ahead=ahead)
    state, fresh = state_at(layer, "validation"), state_at(layer, "validation")
    fed(state, before)
    fed(fresh, 4 * state.epoch)
    state.rewind()
    assert fed(state, 5) == fed(fresh, 5)
    state.shutdown()
    fresh.shutdown()


@pytest.mark.parametrize("window", [0, 4])
def test_a_resumed_training_is_the_same_bit_for_bit_and_says_how_long_it_read(
    window: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([10.0, 12.5])
    monkeypatch.setattr("nacre_data.sequential.clock", lambda: next(times))

    def layers() -> list[Layer]:
        return [
            layer_of(lines(folder, 11), 4, tops=["x"], shuffle=window > 0, window=window),
            InnerProductLayer(bottoms="x", tops="y", output_dim=2),
            SquareLossLayer(bottoms=["y", "x"]),
        ]

    reports = Reports()
    middle, _ = trained(layers(), 4, rate=1e-4)  # in the second pass, after 5 records
    _, resumed = trained(layers(), 5, middle, [reports], rate=1e-4)
    assert resumed == trained(layers(), 9, rate=1e-4)[1]
    warnings = [data["message"] for data in reports["warning"]]
    assert warnings == ["d: read 5 records again, in 2.5 s"]


def test_a_training_with_validation_passes(folder: Path) -> None:
    layers = [
        layer_of(lines(folder, 11), 4, tops=["x"], exclude=["validation"]),
        layer_of(lines(folder, 5), 2, tops=["x"], name="v", exclude=["train"], ahead=1),
        InnerProductLayer(bottoms="x", tops="y", output_dim=2),
        SquareLossLayer(bottoms=["y", "x"]),
    ]
    with Net("t", layers, backend="numpy") as net:
        checks = ValidationPerformance(every_n_iter=2)
        with Solver(SGD(), max_iter=6, lr_policy=1e-4, callbacks=[checks]).start(net) as training:
            training.run()
        assert training.epochs == 2
        assert training.history["validation"]["iteration"].tolist() == [2, 4, 6]


def test_after_an_error_the_same_batch_comes_again(tmp_path: Path) -> None:
    path = Path(lines(tmp_path, 7))
    state = state_at(layer_of(str(path), 2), "test")
    assert fed(state, 1) == [[0, 1]]
    path.write_text("0\n1\n2\nx\n4\n")
    for _ in range(2):
        state.rewind()
        assert fed(state, 1) == [[0, 1]]
        with pytest.raises(DataError, match=r"d: .*lines: line 4: this is no whole number: x"):
            state.forward([])
    path.write_text("0\n1\n2\n3\n4\n")
    assert fed(state, 2) == [[2, 3], [4]]
    state.shutdown()


def test_data_that_have_become_fewer(tmp_path: Path) -> None:
    path = lines(tmp_path, 9)
    state = state_at(layer_of(path, 2))
    Path(path).write_text("0\n1\n2\n3\n")
    with pytest.raises(NacreError, match="d: 4 records of this pass were used, but now there are no more than that"):
        state.remember({"position": 4, "epoch": 0})
    state.shutdown()


# What goes wrong


def test_what_needs_numbered_records_is_refused(folder: Path) -> None:
    source = lines(folder, 9)
    needs = "but these are read one after the other, and their number is not known"
    with pytest.raises(DataError, match=f"d: shuffle needs records in any order, {needs}\n  give window, such as"):
        state_at(layer_of(source, shuffle=True))
    split = {"part": "a", "fractions": {"a": 0.5}}
    for field in ({"split": split}, {"sampling": "balanced"}):
        (name,) = field
        message = f"d: {name} needs to know all records before the first, {needs}\n  convert them to a format"
        with pytest.raises(DataError, match=message):
            state_at(layer_of(source, **field))


def test_a_window_that_is_of_no_use(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="d: window=4 is given without shuffle = true, so nothing is mixed"):
        state_at(layer_of("x.lines", window=4))
    np.save(tmp_path / "id.npy", np.arange(5))
    layer = DataLayer(name="d", tops=["id"], source=str(tmp_path / "id.npy"), batch_size=2, shuffle=True, window=4)
    with pytest.raises(DataError, match="d: window=4, but shuffle mixes all records of these files\n  leave window"):
        state_at(layer)


def test_pictures_are_not_shown_by_image_data(folder: Path) -> None:
    class Shots(Lines):
        def open(self, path: Path, fields: Any = ()) -> Reader:
            reader = super().open(path, fields)
            reader.fields = {"id": Field(None, "uint8", codec="Picture")}
            return reader

    layer = ImageDataLayer(name="d", tops=["id"], source=lines(folder, 9), store=Shots(), batch_size=2)
    with pytest.raises(DataError, match="d: the pictures have no numbers: they are read one after the other\n  use"):
        state_at(layer)


def test_a_batch_larger_than_the_data(folder: Path) -> None:
    state = state_at(layer_of(lines(folder, 5), 6), "train")
    with pytest.raises(DataError, match="d: batch_size=6, but the data have only 5 records\n  set batch_size to 5"):
        state.forward([])
    state.shutdown()


def test_a_batch_larger_than_the_data_is_filled_up_outside_of_training(folder: Path) -> None:
    state = state_at(layer_of(lines(folder, 5), 7), "validation")
    for epoch in (1, 2):
        state.forward([])
        assert (state.rows, state.epoch) == (5, epoch)
        assert len({str(row) for row in np.asarray(state.blobs[0])[4:]}) == 1
    state.shutdown()


def test_no_records(folder: Path) -> None:
    state = state_at(layer_of(lines(folder, 0), 1))
    with pytest.raises(DataError, match="d: there are no records in the data"):
        state.forward([])
    state.shutdown()


def test_a_record_of_another_shape(tmp_path: Path) -> None:
    path = tmp_path / "x.lines"
    path.write_text("1\n2\n-3\n")
    state = state_at(layer_of(str(path), 3, tops=["x"]))
    with pytest.raises(DataError, match=r"d: line 3: 'x' has the shape \(3,\), but the others have \(2,\)"):
        state.forward([])
    state.shutdown()


def test_rows_of_several_files_without_numbers_begin_where_they_are_asked_to(folder: Path) -> None:
    for start in range(9):
        with open_records([Path(lines(folder, 4)), Path(lines(folder, 3, 4))], store=Lines()) as reader:
            assert reader.count is None
            assert [int(row["id"]) for row in reader.rows(start)] == list(range(start, 7))
            assert reader.key(5) == "record 5"
