"""Splits: parts are disjoint and complete, keep classes in proportion and groups together, and never move."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Layer, Net
from nacre_data import AsyncHDF5DataLayer, DataLayer, HDF5DataLayer, MemoryDataLayer
from nacre_data.source import RecordSourceState

FRACTIONS = st.sampled_from(
    [{"train": 0.8, "validation": 0.2}, {"a": 0.5, "b": 0.25, "c": 0.25}, {"all": 1.0}, {"x": 1 / 3, "y": 1 / 3}]
)


def fed(layer: Layer, seed: int = 0) -> list[int]:
    """Return what one pass over the blob 'id' feeds."""
    net = Net("t", [layer], backend="numpy", phase="test", seed=seed)
    state = net.ops[0].state
    assert isinstance(state, RecordSourceState)
    found: list[int] = []
    while net.epoch < 1:
        net.feed()
        found += net.blob("id")[: state.rows].tolist()
    net.shutdown()
    return found


def parts(data: Mapping[str, np.ndarray], tops: list[str], split: dict[str, Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for part in split["fractions"]:
        layer = MemoryDataLayer(name=part, tops=tops, data=dict(data), batch_size=1, split={**split, "part": part})
        try:
            found[part] = fed(layer)
        except DataError as error:
            if "has none of the" not in str(error):
                raise
            found[part] = []
    return found


@settings(max_examples=60)
@given(st.integers(1, 60), FRACTIONS, st.integers(0, 3), st.integers(1, 4))
def test_parts_are_disjoint_and_complete(count: int, fractions: dict[str, float], seed: int, classes: int) -> None:
    data = {"id": np.arange(count), "label": np.arange(count) % classes}
    found = parts(data, ["label", "id"], {"fractions": fractions, "seed": seed})
    together = [one for part in found.values() for one in part]
    assert len(set(together)) == len(together)
    whole = sum(fractions.values())
    assert len(together) == count if whole == 1 else abs(len(together) - whole * count) <= 1
    for part, ids in found.items():
        assert ids == sorted(ids)
        assert abs(len(ids) - fractions[part] * count) <= 1
        for label in range(classes):
            of_class = sum(data["label"] == label)
            assert abs(sum(one % classes == label for one in ids) - fractions[part] * of_class) <= 2


@settings(max_examples=40)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=50), FRACTIONS)
def test_a_group_stays_together(groups: list[int], fractions: dict[str, float]) -> None:
    data = {"id": np.arange(len(groups)), "patient": np.array(groups)}
    found = parts(data, ["id"], {"fractions": fractions, "group": "patient"})
    seen = [{groups[one] for one in ids} for ids in found.values()]
    assert sum(map(len, seen)) == len(set().union(*seen))
    if sum(fractions.values()) == 1:
        assert sorted(one for ids in found.values() for one in ids) == list(range(len(groups)))


def test_parts_depend_on_seed_and_data_alone() -> None:
    data, split = {"id": np.arange(40)}, {"part": "a", "fractions": {"a": 0.5, "b": 0.5}}
    one = fed(MemoryDataLayer(name="one", tops=["id"], data=data, batch_size=4, split=split))
    assert one == fed(MemoryDataLayer(name="other", tops=["id"], data=data, batch_size=5, split=split), seed=7)
    assert one != fed(MemoryDataLayer(name="one", tops=["id"], data=data, batch_size=4, split={**split, "seed": 1}))
    assert one == [2, 3, 6, 8, 9, 11, 12, 13, 16, 20, 23, 26, 27, 28, 29, 30, 31, 34, 36, 39]  # in every version


def test_a_shuffled_pass_feeds_the_part_alone() -> None:
    split = {"part": "b", "fractions": {"a": 0.7, "b": 0.3}}
    layer = MemoryDataLayer(name="m", tops=["id"], data=[np.arange(50)], batch_size=4, split=split)
    shuffled = MemoryDataLayer(name="m", tops=["id"], data=[np.arange(50)], batch_size=4, split=split, shuffle=True)
    assert fed(layer) != fed(shuffled)
    assert fed(layer) == sorted(fed(shuffled))


@pytest.fixture(name="file")
def file_(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["id"] = np.arange(30)
        file["patient"] = np.arange(30) // 7
        file["wide"] = np.zeros((30, 2))
    return tmp_path / "x.h5"


SPLIT = {"part": "a", "fractions": {"a": 0.6, "b": 0.4}, "group": "patient"}


@pytest.mark.parametrize("cached", [0, 1 << 20])
def test_every_source_makes_the_same_parts(file: Path, cached: int) -> None:
    data = {"id": np.arange(30), "patient": np.arange(30) // 7}
    memory = MemoryDataLayer(name="m", tops=["id"], data=data, batch_size=2, split=SPLIT)
    hdf5 = HDF5DataLayer(name="h", tops=["id"], source=str(file), batch_size=2, split=SPLIT, cache_bytes=cached)
    general = DataLayer(name="d", tops=["id"], source=str(file), batch_size=2, split=SPLIT, cache_bytes=cached)
    assert fed(memory) == fed(hdf5) == fed(general)
    assert len(fed(memory)) in range(14, 22)


# What goes wrong


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ({"part": "c", "fractions": {"a": 0.5}}, "part='c', but it must be one of the fractions: a"),
        ({"part": "a"}, "part='a', but it must be one of the fractions: (none)"),
        ({"fractions": {"a": 0.5}}, "part='', but it must be one of the fractions: a"),
        ({"part": "a", "fractions": {"a": 0.7, "b": 0.4}}, "each must be above 0, and their sum 1 at most"),
        ({"part": "a", "fractions": {"a": 0.5, "b": 0}}, "each must be above 0"),
        ({"part": "a", "fractions": {"a": float("nan")}}, "each must be above 0"),
        ({"part": "a", "fractions": {"a": "half"}}, "it must be a table such as {part"),
        ({"part": 3, "fractions": {"a": 0.5}}, "it must be a table such as {part"),
        ({"part": "a", "fractions": {"a": 1}, "seed": True}, "it must be a table such as {part"),
        ({"part": "a", "fractions": {"a": 1}, "size": 3}, "it must be a table such as {part"),
        ("a", "it must be a table such as {part"),
    ],
)
def test_a_wrong_split_is_refused(split: Any, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        Net("t", [MemoryDataLayer(name="m", tops=["id"], data=[np.arange(9)], batch_size=1, split=split)])
    assert said in str(error.value)


def test_a_group_must_be_there(file: Path) -> None:
    split = {**SPLIT, "group": "patent"}
    sources: list[Layer] = [
        MemoryDataLayer(name="m", tops=["id"], data=[np.arange(9)], batch_size=1, split=split),
        HDF5DataLayer(name="m", tops=["id"], source=str(file), batch_size=1, split=split),
        DataLayer(name="m", tops=["id"], source=str(file), batch_size=1, split=split),
    ]
    for layer in sources:
        with pytest.raises(DataError, match="patent"):
            Net("t", [layer], backend="numpy")
    wide = HDF5DataLayer(name="m", tops=["id"], source=str(file), batch_size=1, split={**SPLIT, "group": "wide"})
    with pytest.raises(DataError, match=r"'wide' has records of shape \(2,\), but one number in each is needed"):
        Net("t", [wide], backend="numpy")


def test_a_part_without_records_and_chunks_are_refused(file: Path) -> None:
    split = {"part": "b", "fractions": {"a": 0.95, "b": 0.05}}
    with pytest.raises(DataError, match="part 'b' has none of the 3 records"):
        Net("t", [MemoryDataLayer(name="m", tops=["id"], data=[np.arange(3)], batch_size=1, split=split)])
    with pytest.raises(ConfigError, match="nacre data split"):
        Net("t", [AsyncHDF5DataLayer(name="m", tops=["id"], source=str(file), batch_size=1, split=split)])
