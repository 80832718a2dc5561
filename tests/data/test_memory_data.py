"""MemoryData: the arrays are fed as they are, without a copy, and bad ones are refused by name."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, DataError, Net
from nacre_data import MemoryDataLayer, RandomShift, Scale

X = np.arange(60, dtype=np.float32).reshape(10, 2, 3)
Y = np.arange(10) % 3


def make(data: Any, tops: Any = ("data", "label"), batch_size: int = 4, **fields: Any) -> Net:
    layer = MemoryDataLayer(name="memory", tops=tops, data=data, batch_size=batch_size, **fields)
    return Net("t", [layer], backend="numpy")


def test_tops_stay_together() -> None:
    net = make([X, Y], shuffle=True)
    for _ in range(10):
        net.feed()
        records = (net.blob("data")[:, 0, 0] / 6).astype(int)
        np.testing.assert_array_equal(net.blob("data"), X[records])
        np.testing.assert_array_equal(net.blob("label"), Y[records])


@pytest.mark.parametrize("data", [[X, Y], (X, Y), {"label": Y, "data": X, "unused": Y}, [X.tolist(), Y.tolist()]])
def test_arrays_by_place_or_by_name(data: Any) -> None:
    net = make(data)
    net.feed()
    np.testing.assert_array_equal(net.blob("data"), X[:4])
    np.testing.assert_array_equal(net.blob("label"), Y[:4])


@pytest.mark.parametrize("data", [X, [X], {"data": X}])
def test_a_single_top(data: Any) -> None:
    net = make(data, tops="data")
    net.feed()
    np.testing.assert_array_equal(net.blob("data"), X[:4])


def test_the_default_tops() -> None:
    assert MemoryDataLayer(data=[X, Y], batch_size=1).tops == ("data", "label")


def unaligned() -> np.ndarray:
    raw = np.zeros(X.nbytes + 1, np.uint8)
    array = raw[1:].view(np.float32).reshape(X.shape)
    array[...] = X
    return array


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        X[::-1][::-1],
        np.concatenate([X, X], axis=2)[:, :, :3],
        X.astype(">f4"),
        X.astype(np.float64),
        np.asfortranarray(X).astype(">i2", order="K"),
        unaligned(),
        np.broadcast_to(X[:1], X.shape),
    ],
    ids=[
        "columns first",
        "every second",
        "reversed twice",
        "cut",
        "big end",
        "float64",
        "both",
        "unaligned",
        "broadcast",
    ],
)
def test_arrays_of_any_layout_are_read_where_they_are(array: np.ndarray) -> None:
    before = array.tobytes()
    array.flags.writeable = False
    net = make([array], tops="data", shuffle=True, transformers=[["data", Scale(scale=2)]])
    for _ in range(5):
        net.feed()
        fed = net.blob("data") / 2
        assert all(any((row == record).all() for record in array) for row in fed)
    assert array.tobytes() == before


def test_what_the_array_holds_later_is_fed_later() -> None:
    array = np.zeros((4, 2), np.float32)
    net = make([array], tops="data")
    array[...] = 5
    net.feed()
    assert (net.blob("data") == 5).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["u1", "f4", ">f4", "f8"])
def test_feeding_allocates_nothing(kind: str, order: Any) -> None:
    images = np.asarray(np.ones((6000, 1, 24, 24)), kind, order)
    net = make(
        [images, np.arange(6000)],
        batch_size=64,
        shuffle=True,
        transformers=[["data", Scale(scale=0.5)], ["data", RandomShift(pixels=1)]],
    )
    for _ in range(10):
        net.feed()
    tracemalloc.start()
    try:
        start, _ = tracemalloc.get_traced_memory()
        for _ in range(200):  # two passes
            net.feed()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - start < 35 << 10  # some numbers for each record; a batch, and the order, are of 36 KiB or more


# Bad input


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([X], "memory: data has 1 arrays, .*: data, label"),
        ([X, Y, Y], "memory: data has 3 arrays, .*: data, label"),
        ({"data": X}, "memory: data has the arrays data, .*: data, label"),
        ({}, r"memory: data has the arrays \(none\), .*: data, label"),
        (3, "memory: data=3, but it must be a list of arrays"),
        ("x", "memory: data='x', but it must be a list of arrays"),
        ([[[1], [2, 3]], [1, 2]], "memory: data=.*, but it must be a list of arrays"),
    ],
)
def test_what_is_no_list_of_arrays(data: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make(data)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (Y[:9], "memory: 'label' has 9 records, but 'data' has 10"),
        (np.float32(3), "memory: 'label' is a single value, but its first axis must count the records"),
        (Y + 1j, "memory: 'label' .* complex128"),
        (Y.astype(str)[:, None], "memory: 'label' .* <U21"),
        (Y.astype(bytes), r"memory: 'label' .* \|S21"),
        (Y.astype(object), "memory: 'label' .* object"),
        (Y.astype("M8[s]"), r"memory: 'label' .* datetime64\[s\]"),
        (np.zeros((10, 0)), r"memory: 'label' has records of shape \(0,\)"),
    ],
)
def test_bad_arrays(label: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        make([X, label])


def test_no_records() -> None:
    with pytest.raises(DataError, match=r"memory: .*no records"):
        make([X[:0], Y[:0]])


def test_a_batch_larger_than_the_data() -> None:
    with pytest.raises(DataError, match=r"memory: batch_size=11, .* 10 records"):
        make([X, Y], batch_size=11)


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("step", [1, 2])  # of memory that is not contiguous, records are copied one by one
def test_a_label_beyond_int64_is_told_as_it_is(shape: tuple[int, ...], step: int) -> None:
    """It would arrive as -9223372036854775808."""
    labels = np.zeros((4 * step, *shape), np.uint64)
    labels[3 * step] = 2**63
    net = make([np.zeros((4, 2)), labels[::step]], batch_size=2)
    net.feed()
    with pytest.raises(DataError, match=r"memory: 'label' .*9223372036854775808 .*record 1 "):
        net.feed()


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0]])
def test_a_number_too_large_for_the_type_of_the_net_is_told(order: list[int]) -> None:
    data = np.array([[0.0, np.inf], [1.0, 1e39], [2.0, 0.0], [3.0, 0.0]])[order]
    layer = MemoryDataLayer(name="d", tops="x", data=[data], batch_size=4, shuffle=False)
    with Net("t", [layer], backend="numpy", phase="test") as net:
        with pytest.raises(DataError, match=f"'x': record {order.index(1)} of the batch .* large for float32\n  scale"):
            net.forward()
        data[order.index(1), 1] = -np.inf
        net.forward()
        assert np.isinf(net.blob("x")).sum() == 2


def test_names_of_columns_are_learned_in_training() -> None:
    fields: Any = {"tops": "x", "data": [np.arange(6.0).reshape(3, 2)], "batch_size": 3}
    train = MemoryDataLayer(name="train", column_names={"x": ["a", "b"]}, exclude="test", **fields)
    test = MemoryDataLayer(name="test", column_names={"x": ["b", "a"]}, exclude="train", **fields)
    with Net("n", [train, test], backend="numpy") as net:
        assert net.fitted == {"x": {"columns": ["a", "b"]}}
        with pytest.raises(DataError, match="test: 'x': column 'b' comes at place 0"):
            net.derive("test")
    with pytest.raises(ConfigError, match="column_names name the top 'y', but it must be one of x"):
        MemoryDataLayer(name="d", column_names={"y": ["a"]}, **fields)


@pytest.mark.parametrize("name", ["list", "dict", "array"])
def test_masked_values_are_refused(name):
    array = np.ma.masked_equal(np.array([1.0, -999, 3]), -999)
    data = {"list": [array], "dict": {"data": array}, "array": array}[name]
    with pytest.raises(DataError, match="1 masked values, but a blob has no masks"):
        MemoryDataLayer(name="d", tops=["data"], data=data, batch_size=3)
    assert MemoryDataLayer(name="d", tops=["data"], data=[array[:1]], batch_size=1)
