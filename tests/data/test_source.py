"""Sources over records: what is in which batch, in every phase, and after an interruption."""

from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Net, SnapshotError, Transformer
from nacre.random import Random
from nacre_data import MemoryDataLayer, RandomShift, Scale
from nacre_data.records import ArrayRecords, Records
from nacre_data.source import RecordSourceState

PHASES = st.sampled_from(["train", "validation", "test", "predict"])
HELD_OUT = ["validation", "test", "predict"]


def source(count: int, batch_size: int, **fields: Any) -> MemoryDataLayer:
    """Make a source whose records are their own numbers."""
    return MemoryDataLayer(name="ids", tops=["id"], data=[np.arange(count)], batch_size=batch_size, **fields)


def make(layer: MemoryDataLayer, phase: str = "train", seed: int = 0) -> Net:
    return Net("t", [layer], backend="numpy", phase=phase, seed=seed)


def state_of(net: Net) -> RecordSourceState:
    state = net.ops[0].state
    assert isinstance(state, RecordSourceState)
    return state


def batch(net: Net) -> list[int]:
    net.feed()
    return net.blob("id").tolist()


def a_pass(net: Net) -> list[list[int]]:
    """Return the real rows of every batch up to the end of a pass."""
    batches: list[list[int]] = []
    epoch = net.epoch
    while net.epoch == epoch:
        batches.append(batch(net)[: state_of(net).rows])
    return batches


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    count = draw(st.integers(1, 40))
    return count, draw(st.integers(1, count))


# What is in a batch


def test_training_goes_on_into_the_next_pass() -> None:
    net = make(source(5, 3))
    seen = [(batch(net), state_of(net).rows, net.epoch) for _ in range(5)]
    assert seen == [
        ([0, 1, 2], 3, 0),
        ([3, 4, 0], 3, 1),
        ([1, 2, 3], 3, 1),
        ([4, 0, 1], 3, 2),
        ([2, 3, 4], 3, 3),
    ]


@pytest.mark.parametrize("phase", HELD_OUT)
def test_other_phases_fill_the_last_batch_of_a_pass(phase: str) -> None:
    net = make(source(5, 3), phase)
    seen = [(batch(net), state_of(net).rows, net.epoch) for _ in range(4)]
    assert seen == [([0, 1, 2], 3, 0), ([3, 4, 4], 2, 1), ([0, 1, 2], 3, 1), ([3, 4, 4], 2, 2)]


def test_a_pass_that_the_batch_divides_has_no_empty_batch() -> None:
    for phase in ("train", "test"):
        net = make(source(6, 3), phase)
        assert [(batch(net), state_of(net).rows, net.epoch) for _ in range(3)] == [
            ([0, 1, 2], 3, 0),
            ([3, 4, 5], 3, 1),
            ([0, 1, 2], 3, 1),
        ]


def test_a_validation_pass_counts_1797_records_as_1797() -> None:
    net = make(source(1797, 100), "validation")
    for _ in range(2):
        batches = a_pass(net)
        assert [len(rows) for rows in batches] == [100] * 17 + [97]
        assert list(chain(*batches)) == list(range(1797))


@settings(max_examples=60)
@given(sizes(), st.booleans(), PHASES, st.integers(0, 2**64 - 1))
def test_every_pass_has_every_record_once_in_an_order_of_its_own(
    size: tuple[int, int], shuffle: bool, phase: str, seed: int
) -> None:
    count, batch_size = size
    net = make(source(count, batch_size, shuffle=shuffle), phase, seed)
    seen: list[int] = []
    ends: list[int] = []
    while net.epoch < 3 or (len(seen) % count and phase == "train"):
        epoch = net.epoch
        rows = batch(net)
        real = state_of(net).rows
        assert len(rows) == batch_size
        assert real == batch_size or (phase != "train" and net.epoch > epoch)
        assert rows[real:] == [rows[real - 1]] * (batch_size - real)
        seen += rows[:real]
        if net.epoch > epoch:
            ends.append(len(seen))
    expected: list[int] = []
    for epoch in range(len(seen) // count):
        generator = Random(seed, "ids", lambda epoch=epoch: epoch).generator()
        expected += generator.permutation(count).tolist() if shuffle else range(count)
    assert seen == expected
    if phase == "train":  # the epoch rises with the batch that has the last record
        assert ends == [-(-count * number // batch_size) * batch_size for number in range(1, net.epoch + 1)]
    else:
        assert ends == [count * number for number in range(1, net.epoch + 1)]


def test_the_order_is_a_function_of_seed_name_and_epoch() -> None:
    def order(seed: int, name: str = "a") -> list[list[int]]:
        layer = MemoryDataLayer(name=name, tops=["id"], data=[np.arange(100)], batch_size=100, shuffle=True)
        net = make(layer, seed=seed)
        return [batch(net) for _ in range(3)]

    one = order(1)
    assert one == order(1)
    orders = [tuple(epoch) for epoch in chain(one, order(2), order(1, "b"))]
    assert len(set(orders)) == 9
    assert all(sorted(epoch) == list(range(100)) for epoch in orders)


@pytest.mark.parametrize("ahead", [0, 2])
def test_the_numbers_of_a_batch_stay_what_they_are(ahead: int) -> None:
    """The memory of a batch is filled again, with `ahead` at any time."""
    net = make(source(12, 4, shuffle=True, ahead=ahead), "test")
    kept = [(batch(net), state_of(net).numbers) for _ in range(6)]
    for fed, numbers in kept:
        assert numbers is not None
        assert numbers[0].tolist() == fed
    assert [numbers[1].tolist() for _, numbers in kept if numbers] == [[0] * 4] * 3 + [[1] * 4] * 3
    net.shutdown()


def test_the_order_does_not_depend_on_the_batch_size_nor_on_the_phase() -> None:
    nets = [make(source(12, size, shuffle=True), phase) for size, phase in [(2, "train"), (6, "train"), (4, "test")]]
    assert len({tuple(chain(*a_pass(net))) for net in nets}) == 1


# Interruptions


@settings(max_examples=40)
@given(sizes(), st.booleans(), PHASES, st.integers(0, 30))
def test_memory_goes_on_where_it_was_taken(size: tuple[int, int], shuffle: bool, phase: str, before: int) -> None:
    layer = source(*size, shuffle=shuffle)
    first, second = make(layer, phase), make(layer, phase)
    for _ in range(before):
        first.feed()
    memory = state_of(first).memory()
    assert all(type(value) is int for value in memory.values())  # JSON holds it
    for _ in range(3):  # where the second stands before makes no difference
        second.feed()
    state_of(second).remember({name: np.asarray(value) for name, value in memory.items()})
    for _ in range(12):
        assert batch(first) == batch(second)
        assert (state_of(first).rows, first.epoch) == (state_of(second).rows, second.epoch)


def test_a_snapshot_of_other_data_is_refused() -> None:
    memory = state_of(make(source(10, 3))).memory()
    state = state_of(make(source(9, 3)))
    with pytest.raises(SnapshotError, match=r"ids: .* 10 records, .* 9"):
        state.remember(memory)


def test_a_snapshot_without_this_source_begins_anew() -> None:
    net = make(source(5, 3))
    state_of(net).remember({})
    assert batch(net) == [0, 1, 2]


@settings(max_examples=30)
@given(sizes(), st.booleans(), PHASES, st.integers(0, 12))
def test_rewind_begins_a_pass(size: tuple[int, int], shuffle: bool, phase: str, before: int) -> None:
    net = make(source(*size, shuffle=shuffle), phase)
    for _ in range(before):
        net.feed()
    epoch = net.epoch
    state_of(net).rewind()
    assert net.epoch == epoch
    seen = list(chain(*a_pass(net)))
    assert sorted(seen[: size[0]]) == list(range(size[0]))


def test_validation_leaves_the_training_source_where_it_was() -> None:
    layer = source(10, 3, shuffle=True)
    alone, net, held_out = make(layer), make(layer), make(layer, "validation")
    for _ in range(20):
        assert batch(alone) == batch(net)
        a_pass(held_out)


# Types


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["?", "u1", "i1", "u4", "<i8", ">i2", "f2", "<f4", ">f4", "f8", "g"])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (1, 3, 3)])
def test_labels_are_whole_numbers_and_all_else_is_of_the_nets_type(
    kind: str, shape: tuple[int, ...], dtype: str
) -> None:
    values = (np.arange(6 * int(np.prod(shape))).reshape(6, *shape) % 2).astype(kind)
    layer = MemoryDataLayer(name="d", tops=["x"], data=[values], batch_size=4)
    net = Net("t", [layer], backend="numpy", dtype=dtype)
    net.feed()
    label = values.dtype.kind in "biu" and shape in ((), (1,))
    assert net.blob("x").dtype == ("int64" if label else dtype)
    assert net.blob("x").shape == (4, *shape)
    np.testing.assert_array_equal(net.blob("x"), values[:4])


def test_a_whole_number_with_a_transformer_is_of_the_nets_type() -> None:
    layer = source(4, 2, transformers=[["id", Scale(scale=0.5)]])
    net = make(layer)
    net.feed()
    assert net.blob("id").dtype == np.float32
    np.testing.assert_array_equal(net.blob("id"), [0, 0.5])


# Transformers


class Add(Transformer):
    """Adds a number, and says what it was called with."""

    number: float = 0.0
    calls: Any = None

    def transform(self, batch: Any, random: Any, phase: str) -> None:
        batch += self.number
        if self.calls is not None:
            self.calls.append((phase, random.generator().random()))


@pytest.mark.parametrize("phase", ["train", "test"])
def test_transformers_are_applied_in_their_order_to_their_top(phase: str) -> None:
    x = np.ones((4, 2), np.uint8)
    layer = MemoryDataLayer(
        name="d",
        tops=["a", "b"],
        data=[x, x],
        batch_size=3,
        transformers=[["a", Add(number=1.0)], ["b", Add(number=0.5)], ["a", Scale(scale=10)], ["a", Add(number=0.25)]],
    )
    net = make(layer, phase)
    for _ in range(3):
        net.feed()
        assert (net.blob("a") == 20.25).all()
        assert (net.blob("b") == 1.5).all()
    assert (x == 1).all()


def test_a_transformers_random_numbers_are_of_its_place_and_the_step() -> None:
    calls: list[Any] = []
    add = Add(calls=calls)
    layer = MemoryDataLayer(
        name="d",
        tops=["a", "b"],
        data=[np.ones(4), np.ones(4)],
        batch_size=2,
        transformers=[["a", add], ["b", add], ["a", add]],
    )
    net = make(layer, seed=7)
    for step in (0, 5):
        net.scalars["step"] = step
        net.feed()
    expected = [
        ("train", Random(7, name, lambda step=step: step).generator().random())
        for step in (0, 5)
        for name in ("d/a/0", "d/a/1", "d/b/0")
    ]
    assert calls == expected
    assert all(one != other for (_, one), (_, other) in pairwise(calls))


def test_transformers_by_name() -> None:
    layer = source(4, 2, transformers=[["id", "Scale"], ("id", {"type": "RandomShift", "pixels": 2})])
    (_, scale), (_, shift) = layer.transformers
    assert type(scale) is Scale and type(shift) is RandomShift and shift.pixels == 2


@pytest.mark.parametrize(
    "transformers", [3, "Scale", ["id", "Scale"], [["id"]], [["id", 3]], [["id", {"scale": 2}]], [[3, "Scale"]]]
)
def test_what_is_no_list_of_transformers(transformers: Any) -> None:
    with pytest.raises(ConfigError, match=r"ids: transformers=.*\[top, transformer\]"):
        source(4, 2, transformers=transformers)


def test_a_transformer_of_no_top() -> None:
    with pytest.raises(ConfigError, match=r"ids: transformers .*'data', .* id"):
        source(4, 2, transformers=[["data", "Scale"]])


# Bad input, and readers of other people


def test_a_batch_of_a_training_that_is_larger_than_the_data() -> None:
    with pytest.raises(DataError, match=r"ids: batch_size=64, .* 7 records\n.*batch_size to 7"):
        make(source(7, 64))


@pytest.mark.parametrize("phase", HELD_OUT)
@pytest.mark.parametrize("fields", [{}, {"shuffle": True}, {"ahead": 2}])
def test_other_phases_fill_a_batch_that_is_larger_than_the_data(phase: str, fields: dict[str, Any]) -> None:
    net = make(source(3, 7, **fields), phase)
    for epoch in (1, 2, 3):
        records = batch(net)
        assert (sorted(records[:3]), state_of(net).rows, net.epoch) == ([0, 1, 2], 3, epoch)
        assert records[3:] == [records[2]] * 4
    net.shutdown()


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_nothing(size: int) -> None:
    with pytest.raises(ConfigError, match=f"ids: batch_size={size}, but it must be above 0"):
        source(7, size)


def test_planning_a_net_reads_and_allocates_nothing() -> None:
    class Unreadable(Records):
        count, shapes, dtypes = 10**12, [()], [np.dtype("i8")]

    class Layer(MemoryDataLayer, is_source=True):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
            return RecordSourceState(self, backend, Unreadable())

    layer = Layer(name="big", tops=["id"], data=[np.arange(2)], batch_size=10**9)
    net = Net("t", [layer], backend="numpy", allocate=False)
    assert net.memory.final["id"].shape == (10**9,)


def test_shutdown_closes_the_records_and_may_be_called_twice() -> None:
    class Closing(ArrayRecords):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    records = Closing("ids", ["id"], [np.arange(4)])

    class Layer(MemoryDataLayer, is_source=True):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
            return RecordSourceState(self, backend, records)

    net = make(Layer(name="ids", tops=["id"], data=[np.arange(4)], batch_size=2))
    net.feed()
    assert records.closed == 0
    net.shutdown()
    assert records.closed == 1
    net.shutdown()
