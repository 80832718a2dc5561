"""Sampling: each pass has as many draws as records, classes or weights in their shares, the same in every run."""

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Layer
from nacre_data import AsyncHDF5DataLayer, DataLayer, HDF5DataLayer, MemoryDataLayer
from ranks import state_at

SEVERAL = st.integers(0, 2**64 - 1)


def layer_of(data: dict[str, Any], tops: str = "id label", **fields: Any) -> MemoryDataLayer:
    return MemoryDataLayer(**{"name": "m", "tops": tops.split(), "data": data, "batch_size": 1, **fields})


def passes(layer: Layer, count: int, number: int = 1, seed: int = 0, phase: str = "train") -> list[list[int]]:
    """Return the ids of the records of some passes of `count` draws; batches are of one record."""
    state = state_at(layer, phase, seed=seed)
    found = []
    for _ in range(number):
        found.append([])
        for _ in range(count):
            state.forward([])
            found[-1].append(int(state.blobs[0][0]))
    assert state.epoch == number
    state.shutdown()
    return found


@settings(max_examples=60)
@given(st.lists(st.integers(-2, 4), min_size=1, max_size=60), SEVERAL)
def test_every_class_comes_equally_often_and_so_do_its_records(labels: list[int], seed: int) -> None:
    layer = layer_of({"id": np.arange(float(len(labels))), "label": labels}, sampling="balanced")
    share, classes = len(labels) / len(set(labels)), Counter(labels)
    for drawn in passes(layer, len(labels), 3, seed):
        times = Counter(labels[one] for one in drawn)
        assert all(int(share) <= times[label] <= -int(-share // 1) for label in classes)
        assert sum(times.values()) == len(labels)
        of_record = Counter(drawn)
        for label in classes:
            counts = [of_record[one] for one in range(len(labels)) if labels[one] == label]
            assert max(counts) - min(counts) <= 1


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0.0, 1e-300, 0.5, 1, 3, 1e3]), min_size=1, max_size=60).filter(any), SEVERAL)
def test_every_record_comes_as_often_as_its_weight_says(weights: list[float], seed: int) -> None:
    layer = layer_of({"id": np.arange(len(weights)), "w": weights}, "id", sampling={"weights": "w"})
    shares = np.array(weights) / np.sum(weights) * len(weights)
    for drawn in passes(layer, len(weights), 3, seed):
        times = np.bincount(drawn, minlength=len(weights))
        assert (np.abs(times - shares) < 1 + 1e-9).all()
        assert not times[np.array(weights) == 0].any()


def test_equal_weights_draw_every_record_once() -> None:
    for weights in ([0.1] * 50, [1e308] * 50, [5e-324] * 50, [True] * 50):
        layer = layer_of({"id": np.arange(50), "w": weights}, "id", sampling={"weights": "w"})
        (drawn,) = passes(layer, 50)
        assert sorted(drawn) == list(range(50))
        assert drawn != sorted(drawn)


def test_the_draws_are_a_function_of_seed_name_and_epoch() -> None:
    data = {"id": np.arange(30.0), "label": np.arange(30) % 7, "w": np.arange(30)}
    for sampling in ("balanced", {"weights": "w"}):
        layer = layer_of(data, sampling=sampling)
        one = passes(layer, 30, 3)
        assert one == passes(layer, 30, 3)
        assert len({*map(tuple, one)}) == 3
        assert one != passes(layer, 30, 3, seed=1)
        assert one != passes(layer_of(data, sampling=sampling, name="n"), 30, 3)
    balanced = passes(layer_of({"id": np.arange(8.0), "label": [0] * 6 + [1] * 2}, sampling="balanced"), 8)
    assert balanced == [[7, 4, 7, 0, 6, 5, 6, 3]]  # in every version


def test_other_phases_feed_every_record_once() -> None:
    layer = layer_of({"id": np.arange(9.0), "label": [0] * 8 + [1]}, sampling="balanced")
    assert passes(layer, 9, phase="validation") == [list(range(9))]
    no_weights = layer_of({"id": np.arange(9)}, "id", sampling={"weights": "w"})
    assert passes(no_weights, 9, phase="test") == [list(range(9))]


def test_what_is_drawn_does_not_depend_on_the_batch_and_goes_on_after_an_interruption() -> None:
    data = {"id": np.arange(11.0), "label": [0] * 8 + [1] * 3}
    layer = layer_of(data, sampling="balanced", batch_size=4)
    first, second = state_at(layer), state_at(layer)
    found: list[int] = []
    for number in range(11):
        if number == 5:
            second.remember(first.memory())
        first.forward([])
        found += first.blobs[0].tolist()
        if number >= 5:
            second.forward([])
            assert second.blobs[0].tolist() == first.blobs[0].tolist()
    assert found == [*chain(*passes(layer_of(data, sampling="balanced"), 11, 4))]


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 3), SEVERAL)
def test_ranks_draw_what_one_process_draws(ranks: int, size: int, seed: int) -> None:
    data = {"id": np.arange(13.0), "label": [0] * 8 + [1] * 5}
    whole = state_at(layer_of(data, sampling="balanced", batch_size=ranks * size), seed=seed)
    part = layer_of(data, sampling="balanced", batch_size=size)
    parts = [state_at(part, "train", rank, ranks, seed) for rank in range(ranks)]
    for _ in range(6):
        for state in (whole, *parts):
            state.forward([])
        assert np.concatenate([one.blobs[0] for one in parts]).tolist() == whole.blobs[0].tolist()


# With the other fields, and other sources


def test_a_split_comes_first() -> None:
    data = {"id": np.arange(40.0), "label": np.repeat([0, 1], [30, 10]), "w": np.arange(40.0)}
    split = {"part": "a", "fractions": {"a": 0.5, "b": 0.5}}
    ((*part,),) = passes(layer_of(data, split=split), 20)
    for sampling in ("balanced", {"weights": "w"}):
        for drawn in passes(layer_of(data, split=split, sampling=sampling), 20, 3):
            assert set(drawn) <= set(part)
            assert sampling != "balanced" or Counter(one >= 30 for one in drawn) == {False: 10, True: 10}


@pytest.mark.parametrize("sampling", ["balanced", {"balanced": "kind"}, {"weights": "w"}])
@pytest.mark.parametrize("cached", [0, 1 << 20])
def test_every_source_draws_the_same(tmp_path: Path, sampling: Any, cached: int) -> None:
    data = {"id": np.arange(20.0), "label": np.arange(20) // 15, "kind": np.arange(20) % 3, "w": np.arange(20) / 7}
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            file[name] = values
    fields: dict[str, Any] = {"name": "m", "tops": ["id", "label"], "batch_size": 1, "sampling": sampling}
    memory = passes(layer_of(data, sampling=sampling), 20, 2)
    assert passes(HDF5DataLayer(source=path, cache_bytes=cached, **fields), 20, 2) == memory
    assert passes(DataLayer(source=path, cache_bytes=cached, **fields), 20, 2) == memory


def test_balanced_by_a_field_that_is_no_top() -> None:
    data = {"id": np.arange(6), "kind": [0, 0, 0, 0, 0, 1]}
    ((*drawn,),) = passes(layer_of(data, "id", sampling={"balanced": "kind"}), 6)
    assert Counter(one == 5 for one in drawn) == {False: 3, True: 3}


# What goes wrong


@pytest.mark.parametrize("sampling", [3, "unbalanced", ["balanced"], {"weights": 3}, {"balanced": True}])
def test_what_is_no_sampling(sampling: Any) -> None:
    with pytest.raises(ConfigError, match=r'm: sampling=.*"balanced", or a table such as {weights = "w"}'):
        layer_of({"id": np.arange(3)}, "id", sampling=sampling)


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        ({"weight": "w"}, "sampling has weight, but it must have one of balanced and weights"),
        ({"weights": "w", "balanced": "k"}, "sampling has weights and balanced, but it must have one of"),
        ({"weights": ""}, "sampling has weights='', but it must be the name of a field"),
    ],
)
def test_a_wrong_sampling_is_refused(sampling: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        state_at(layer_of({"id": np.arange(3)}, "id", sampling=sampling))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, -0.5, 2], "m: sampling: 'w' is -0.5 in record 1, but a weight must be a finite number"),
        ([1.0, 2, np.nan], "m: sampling: 'w' is nan in record 2, "),
        ([np.inf, 2, 1], "m: sampling: 'w' is inf in record 0, "),
        ([0, 0, 0], "m: sampling: 'w' is 0 in all 3 records, so there is none to draw"),
        ([[1, 2]] * 3, r"m: 'w' has records of shape \(2,\), but one number in each is needed"),
    ],
)
def test_weights_that_cannot_be_used(weights: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        state_at(layer_of({"id": np.arange(3), "w": weights}, "id", sampling={"weights": "w"}))


def test_weights_of_a_part_that_cannot_be_used() -> None:
    split = {"part": "a", "fractions": {"a": 0.5, "b": 0.5}}
    data = {"id": np.arange(8.0), "w": np.zeros(8)}
    with pytest.raises(DataError, match="'w' is 0 in all 4 records of part 'a', so there is none to draw"):
        state_at(layer_of(data, "id", sampling={"weights": "w"}, split=split))


def test_no_classes_and_no_such_field(tmp_path: Path) -> None:
    x = np.ones((3, 2))
    with pytest.raises(DataError, match=r"m: sampling is balanced, but no top \(x\) is the class of a record"):
        state_at(layer_of({"x": x}, "x", sampling="balanced"))
    with pytest.raises(DataError, match=r'any of the tops a, b may be the class of a record\n.*{balanced = "label"}'):
        state_at(layer_of({"a": [1, 2], "b": [1, 2]}, "a b", sampling="balanced"))
    with pytest.raises(DataError, match="m: sampling is balanced by 'w', but its type is float64: no classes"):
        state_at(layer_of({"x": x, "w": np.ones(3)}, "x", sampling={"balanced": "w"}))
    with pytest.raises(DataError, match="m: sampling: weights is 'w', but data has no array of this name"):
        state_at(layer_of({"x": x}, "x", sampling={"weights": "w"}))
    with pytest.raises(DataError, match="'w' has 2 records, but 'x' has 3"):
        state_at(layer_of({"x": x, "w": np.ones(2)}, "x", sampling={"weights": "w"}))
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w") as file:
        file["x"] = x
    fields: dict[str, Any] = {"name": "m", "source": path, "tops": ["x"], "batch_size": 1}
    for source in (HDF5DataLayer, DataLayer):
        with pytest.raises(DataError, match="'w'"):
            state_at(source(**fields, sampling={"weights": "w"}))
    with pytest.raises(ConfigError, match="sampling is given, but chunks are read whole: use HDF5Data"):
        state_at(AsyncHDF5DataLayer(**fields, sampling="balanced"))
