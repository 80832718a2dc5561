"""IterableData: datasets with numbers, iterables, functions and iterators from Python."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, DataError, Net, Solver
from nacre.config import dumps, load
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_data import HDF5Store, IterableDataLayer, MemoryDataLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_solvers import SGD
from ranks import state_at

X = np.random.default_rng(0).standard_normal((11, 2, 3)).astype(np.float32)
LABEL = np.arange(11) % 3
ITEMS = [*zip(X, LABEL.tolist(), strict=True)]
NAMED = [{"label": label, "data": x, "text": "not a number"} for x, label in ITEMS]


class Numbered:
    """A map-style dataset, as torch's and Hugging Face's."""

    def __init__(self, items: Any = ITEMS) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        assert type(number) is int
        return self.items[number]


class Table(Numbered):
    """A stand-in for a dataset of Hugging Face: dicts, many at once, classes with names."""

    class Labels:
        names = ("a", "b", "c")

    features = {"label": Labels, "data": object(), "text": object()}  # noqa: RUF012
    column_names = ("label", "data", "text")

    def __init__(self) -> None:
        super().__init__(NAMED)
        self.asked: list[int] = []

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        self.asked += numbers
        return [self.items[number] for number in numbers]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class Stream:
    """A stand-in for an iterable dataset: a new iterator for each pass, and neither length nor numbers."""

    features = None

    def __init__(self, items: Any = NAMED) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        yield from self.items


def records() -> Iterator[Any]:
    yield from ITEMS


NUMBERED: dict[str, Any] = {"list": ITEMS, "dicts": NAMED, "dataset": Numbered(), "table": Table()}
ORDERED: dict[str, Any] = {"function": records, "stream": Stream(), "lambda": lambda: iter(NAMED), "set": {*range(11)}}


class TestIterableData(LayerTests):
    layer = IterableDataLayer

    def examples(self):
        yield Example({"data": ITEMS, "tops": ["data", "label"], "batch_size": 4})
        yield Example({"data": records, "tops": ["data", "label"], "batch_size": 4}, label="one after the other")

    def reference(self, layer, inputs, parameters):
        return [X[:4], LABEL[:4]]


def layer_of(data: Any, batch_size: int = 4, **fields: Any) -> IterableDataLayer:
    return IterableDataLayer(**{"name": "d", "data": data, "batch_size": batch_size, **fields})


def fed(state: Any, batches: int) -> list[Any]:
    found = []
    for _ in range(batches):
        state.forward([])
        found.append([blob[: state.rows].tolist() for blob in state.blobs])
    return found


@pytest.mark.parametrize("data", [*NUMBERED.values(), *ORDERED.values()][:-1], ids=[*NUMBERED, *ORDERED][:-1])
@pytest.mark.parametrize("phase", ["train", "test"])
def test_it_feeds_what_arrays_feed(data: Any, phase: str) -> None:
    mine = state_at(layer_of(data), phase)
    arrays = state_at(MemoryDataLayer(name="d", data=[X, LABEL], batch_size=4), phase)
    assert fed(mine, 7) == fed(arrays, 7)
    assert mine.blobs[1].dtype == np.int64
    assert (mine.epoch, mine.rows) == (arrays.epoch, arrays.rows)
    mine.shutdown()


@pytest.mark.parametrize("data", NUMBERED.values(), ids=NUMBERED)
@pytest.mark.parametrize("fields", [{"shuffle": True}, {"shuffle": True, "ahead": 2}, {"sampling": "balanced"}])
def test_numbered_items_have_every_order(data: Any, fields: dict[str, Any]) -> None:
    mine = state_at(layer_of(data, **fields))
    arrays = state_at(MemoryDataLayer(name="d", data=[X, LABEL], batch_size=4, **fields))
    assert fed(mine, 7) == fed(arrays, 7)
    again = state_at(layer_of(data, **fields))
    again.remember(mine.memory())
    assert fed(again, 5) == fed(mine, 5)
    mine.shutdown()
    again.shutdown()


def test_split_by_a_field_that_is_no_top() -> None:
    named = [{"data": x, "patient": number // 2} for number, x in enumerate(X)]
    split = {"part": "a", "fractions": {"a": 0.5, "b": 0.5}, "group": "patient"}
    state = state_at(layer_of(named, 1, tops="data", split=split), "test")
    arrays = MemoryDataLayer(name="d", tops="data", data={"data": X, "patient": np.arange(11) // 2}, batch_size=1)
    other = state_at(type(arrays)(name="d", tops="data", data=arrays.data, batch_size=1, split=split), "test")
    assert fed(state, 9) == fed(other, 9)
    with pytest.raises(DataError, match=r"^d: the items have no names, so there is no 'patient'\n  let the items be"):
        state_at(layer_of([x for x, _ in ITEMS], 1, tops="data", split=split))


def test_hugging_face_gives_many_at_once_and_names_of_classes() -> None:
    table = Table()
    state = state_at(layer_of(table))
    fed(state, 1)
    assert table.asked == [0, 1, 2, 3]
    assert state.fitted["label"]["classes"] == ["a", "b", "c"]


@pytest.mark.parametrize("data", [records, Stream()], ids=["function", "stream"])
def test_others_are_read_again_from_the_start_of_the_pass(data: Any) -> None:
    state, again = state_at(layer_of(data)), state_at(layer_of(data))
    fed(state, 4)
    assert "read 5 records again" in again.remember(state.memory())
    assert fed(again, 5) == fed(state, 5)
    with pytest.raises(DataError, match=r"^d: shuffle needs records in any order.*\n  give window"):
        state_at(layer_of(data, shuffle=True))
    mixed = state_at(layer_of(data, 11, shuffle=True, window=5), "test")
    assert sorted(fed(mixed, 1)[0][1]) == sorted(LABEL.tolist())


def test_an_iterator_gives_one_pass() -> None:
    layer = layer_of(records())
    state = state_at(layer, "test")
    assert [label for batch in fed(state, 3) for label in batch[1]] == LABEL.tolist()
    with pytest.raises(
        DataError, match=r"^d: data is an iterator \(generator\), which gives its items only once\n  give"
    ):
        fed(state, 1)
    with pytest.raises(DataError, match="only once"):
        state_at(layer)
    partly = state_at(layer_of(iter(ITEMS)))
    fed(partly, 1)
    partly.rewind()  # its items could not be fed again
    with pytest.raises(DataError, match=r"list_iterator.*only once"):
        fed(partly, 1)


def test_a_generator_is_closed_at_the_end() -> None:
    closed = []

    def held() -> Iterator[Any]:
        try:
            yield from ITEMS
        finally:
            closed.append(True)

    state = state_at(layer_of(held))
    fed(state, 1)
    assert closed == []
    state.shutdown()
    assert closed == [True]


@pytest.mark.parametrize(
    ("items", "tops", "expected"),
    [
        ([1.5, 2.5], "data", [1.5, 2.5]),
        ([[1, 2], [3, 4]], "data", [[1, 2], [3, 4]]),
        (X[:2], "data", X[:2].tolist()),
        ([(X[0],), (X[1],)], "data", X[:2].tolist()),
        ({3, 4}, "data", [3, 4]),
        (lambda: [np.float32(1), np.float32(2)], "data", [1, 2]),
    ],
    ids=["numbers", "lists", "array", "tuples", "set", "function of a list"],
)
def test_items_for_one_top(items: Any, tops: str, expected: Any) -> None:
    assert fed(state_at(layer_of(items, 2, tops=tops)), 1) == [[expected]]


# Errors


@pytest.mark.parametrize("data", ["text", b"bytes", {"data": X}, 7, None])
def test_what_gives_no_items(data: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)d: data=.* must be an iterable, a function that returns one, or a dataset"
    ):
        layer_of(data)


@pytest.mark.parametrize("ordered", [False, True], ids=["numbered", "one after the other"])
@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], r"^d: there are no items in data$"),
        ([(X[0], 1, 2)], r"^d: item 0 has 3 entries, but it needs one for each top: data, label$"),
        ([X[0]], r"^d: item 0 has 1 entry, but it needs one for each top: data, label$"),
        ([{"data": 1, "lable": 2}], r"^d: item 0 has no 'label' \(did you mean .*; it has: data, lable$"),
        ([("a", 1)], r"^d: item 0: 'data' is of type <U1, but it must hold numbers"),
        ([([[1], [1, 2]], 1)], r"^d: item 0: 'data' is of type list, which cannot be made an array: "),
        ([*ITEMS[:2], (X[0, 0], 1)], r"^d: item 2: 'data' has the shape \(3,\) and type float32, but .* \(2, 3\) and "),
        (
            [*ITEMS[:2], (X[0], 1.5)],
            r"^d: item 2: 'label' has the shape \(\) and type float64, but .* \(\) and int64\n",
        ),
        ([*NAMED[:2], {"data": X[0]}], r"^d: item 2 has no 'label'; it has: data$"),
    ],
)
def test_bad_items(items: list[Any], words: str, ordered: bool) -> None:
    with pytest.raises(DataError, match=words):
        fed(state_at(layer_of((lambda: iter(items)) if ordered else items, 1)), 3)


class Frame(Numbered):
    """A stand-in for a data frame: it has columns by their names, and goes through these names."""

    def __getitem__(self, number: int) -> Any:
        raise KeyError(number)

    def __iter__(self) -> Iterator[str]:
        return iter(["length", "width"])


def test_a_data_frame_has_no_records() -> None:
    with pytest.raises(DataError, match=r"^d: item 0: 'data' is of type <U6, but it must hold numbers"):
        state_at(layer_of(Frame(), 1, tops="data"))


def test_a_function_that_returns_no_iterable() -> None:
    with pytest.raises(DataError, match=r"^d: data is a function that returns int, but it must return an iterable\n"):
        state_at(layer_of(lambda: 7))


def test_an_error_of_the_data_arrives_as_it_is() -> None:
    def broken() -> Iterator[Any]:
        yield from ITEMS[:5]
        raise KeyError("mine")

    state = state_at(layer_of(broken, ahead=1))
    with pytest.raises(KeyError, match="mine") as caught:
        fed(state, 2)
    assert caught.traceback[-1].name == "broken"


def test_window_is_for_mixing_what_has_no_numbers() -> None:
    with pytest.raises(ConfigError, match="d: window=3 is given without shuffle"):
        layer_of(records, window=3)
    with pytest.raises(ConfigError, match="d: window=3, but shuffle mixes all items of data that have numbers"):
        layer_of(ITEMS, window=3, shuffle=True)


def test_a_net_file_holds_no_data(tmp_path: Any) -> None:
    (tmp_path / "net.toml").write_text('[[layer]]\ntype = "IterableData"\nname = "d"\nbatch_size = 2\n')
    with pytest.raises(ConfigError, match="d: data is missing: from Python code: "):
        load(tmp_path / "net.toml")
    for data, kind in ((records, "function"), (Stream(), "Stream"), (ITEMS, "Listed"), (records(), "Once")):
        with pytest.raises(
            ConfigError, match=rf"d: data is an object \({kind}\), which a net file cannot hold\n  write"
        ):
            dumps(Net("n", [layer_of(data)], allocate=False))


@pytest.mark.parametrize("data", [ITEMS * 1000, records, Stream()], ids=["list", "function", "stream"])
def test_a_training_goes_on_from_a_snapshot_bit_for_bit(data: Any) -> None:
    def losses(net: Any, training: Any, count: int) -> list[float]:
        found = []
        for _ in range(count):
            training.step()
            found.append(net.loss())
        return found

    def made() -> Net:
        layers = [
            layer_of(data, tops=["data", "label"]),
            InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=3),
        ]
        return Net("n", [*layers, SoftmaxLossLayer(name="loss", bottoms=["ip", "label"])], backend="numpy", seed=1)

    solver, store = Solver(SGD(), max_iter=9), HDF5Store()
    with made() as net:
        training = solver.start(net)
        losses(net, training, 4)
        written = store.encode(training.snapshot())
        assert len(written) < 100_000
        expected = losses(net, training, 5)
    with made() as net, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "d: read 5 records again")
        training = solver.start(net)
        training.restore(store.decode(written, "here"))
        assert losses(net, training, 5) == expected


# PyTorch


def test_torch_datasets() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

    class Mapped(Dataset):
        def __len__(self) -> int:
            return 11

        def __getitem__(self, number: int) -> Any:
            return {"data": torch.from_numpy(X[number]), "label": int(LABEL[number])}

    class Iterated(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            yield from ((torch.from_numpy(x), torch.tensor(label)) for x, label in ITEMS)

    class Counted(Iterated):
        def __len__(self) -> int:
            return 11

    expected = fed(state_at(MemoryDataLayer(name="d", data=[X, LABEL], batch_size=4)), 7)
    tensors = TensorDataset(torch.from_numpy(X), torch.from_numpy(LABEL))
    for data in (Mapped(), Iterated(), Counted(), tensors, Subset(Mapped(), range(11))):
        assert fed(state_at(layer_of(data)), 7) == expected
    with pytest.raises(ConfigError, match=r"d: data is a DataLoader, which gives batches, .*: give its dataset"):
        layer_of(DataLoader(tensors, batch_size=4))
    tensor = torch.ones(2, requires_grad=True)
    with pytest.raises(DataError, match="d: item 0: 'data' is of type Tensor, which cannot be made an array: "):
        state_at(layer_of([tensor], 1, tops="data"))


def test_nothing_is_imported_for_it() -> None:
    assert "datasets" not in sys.modules


def test_a_generator_may_fill_one_array_again_and_again():
    def numbers():
        array = np.zeros(2, np.float32)
        for number in range(8):
            array[:] = number
            yield {"data": array}

    net = Net("n", [IterableDataLayer(name="d", tops=["data"], data=numbers, batch_size=4)], phase="test")
    net.forward()
    assert net.blob("data")[:, 0].tolist() == [0, 1, 2, 3]
    net.shutdown()


def test_a_number_that_the_first_items_type_cannot_hold_is_refused():
    items = [{"data": np.float16(1)}, {"data": np.float64(2)}, {"data": np.float64(1e6)}]
    layer = IterableDataLayer(name="d", tops=["data"], data=items, batch_size=3)
    net = Net("n", [layer], phase="test")
    with pytest.raises(DataError, match=r"item 2: 'data' has the shape .* and type float64, but in the first item"):
        net.forward()
    net.shutdown()
