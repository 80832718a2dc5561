"""The sources with the names of SINGA's, Caffe's and NumPy's formats: Data with one store, and `random_skip`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Field, Layer, NacreError, Store
from nacre_data import (
    LMDB,
    NPZ,
    DataLayer,
    LMDBDataLayer,
    NumpyDataLayer,
    Shard,
    ShardDataLayer,
    Tar,
    TarDataLayer,
)
from nacre_data.skipping import drawn_skip
from ranks import state_at

KINDS: dict[str, tuple[type[Any], Store, str]] = {
    "LMDBData": (LMDBDataLayer, LMDB(), "ids.lmdb"),
    "ShardData": (ShardDataLayer, Shard(), "ids.shard"),
    "TarData": (TarDataLayer, Tar(), "ids.tar"),
    "NumpyData": (NumpyDataLayer, NPZ(), "ids.npz"),
}
every_source = pytest.mark.parametrize(("layer", "store", "name"), KINDS.values(), ids=KINDS)
skipping = pytest.mark.parametrize("layer", [LMDBDataLayer, ShardDataLayer])


@pytest.fixture(name="folder", scope="module")
def folder_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ids")


def ids(store: Store, folder: Path, name: str, count: int = 11) -> Path:
    """Return a file whose records hold their numbers."""
    path = folder / f"{count}-{name}"
    if not path.exists():
        with store.create(path, {"id": Field((), "int64")}) as writer:
            writer.append({"id": np.arange(count)})
    return path


def of_layer(layer: Any, folder: Path, **fields: Any) -> Layer:
    """Return a layer over eleven records."""
    _, store, name = KINDS[layer.__name__.removesuffix("Layer")]
    return layer(name="d", tops="id", source=ids(store, folder, name), **{"batch_size": 4, **fields})


def fed(state: Any, batches: int) -> list[int]:
    found = []
    for _ in range(batches):
        state.forward([])
        found += state.blobs[0][: state.rows].tolist()
    return found


@every_source
@pytest.mark.parametrize("fields", [{}, {"shuffle": True}, {"cache_bytes": 0, "threads": 2, "ahead": 1}])
def test_it_feeds_what_data_feeds(layer: Any, store: Store, name: str, fields: dict[str, Any], folder: Path) -> None:
    mine = state_at(of_layer(layer, folder, **fields))
    data = state_at(DataLayer(name="d", tops="id", source=ids(store, folder, name), batch_size=4, **fields))
    assert fed(mine, 7) == fed(data, 7)
    mine.shutdown()
    data.shutdown()


@every_source
def test_another_format_is_refused(layer: Any, store: Store, name: str, tmp_path: Path) -> None:
    """Also if another store would read it by its name."""
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n2\n")
    with pytest.raises(NacreError, match=r"^d: .*a\.csv"):
        state_at(layer(name="d", tops="id", source=path, batch_size=1))


def test_the_fields_of_a_store_are_the_layers(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.kvfile"
    whole = ids(Shard(), folder, "ids.kvfile").read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(DataError, match=r"record 10 at byte .* is cut"):
        state_at(ShardDataLayer(name="d", tops="id", source=path, batch_size=2))
    state = state_at(ShardDataLayer(name="d", tops="id", source=path, batch_size=5, torn_tail=True))
    assert fed(state, 2) == [*range(10)]
    state.shutdown()
    with pytest.raises(DataError, match=r"^d: .*this is no protobuf message"):
        state_at(
            LMDBDataLayer(name="d", tops="id", source=ids(LMDB(), folder, "ids.lmdb"), batch_size=2, codec="Datum")
        )


# random_skip


@settings(max_examples=25)
@given(seed=st.integers(0, 2**64 - 1), ranks=st.integers(1, 4), rank=st.integers(0, 3), most=st.integers(1, 40))
def test_each_rank_begins_at_a_record_of_its_own_and_wraps_around(
    seed: int, ranks: int, rank: int, most: int, folder: Path
) -> None:
    rank %= ranks
    skip = drawn_skip(seed, rank, most)
    assert 0 <= skip <= most
    layer = of_layer(ShardDataLayer, folder, random_skip=most, batch_size=2)
    state = state_at(layer, "train", rank, ranks, seed)
    found = fed(state, 9)
    places = [batch * ranks * 2 + rank * 2 + row for batch in range(9) for row in range(2)]
    assert found == [(skip + place) % 11 for place in places]
    assert state.epoch == 9 * ranks * 2 // 11
    state.shutdown()


def test_the_skips_are_uniform_with_both_ends_and_differ_between_ranks() -> None:
    drawn = [drawn_skip(0, rank, 9) for rank in range(1000)]
    assert {*drawn} == {*range(10)}
    assert all(70 < drawn.count(skip) < 130 for skip in range(10))
    assert drawn != [drawn_skip(1, rank, 9) for rank in range(1000)]


@skipping
def test_it_is_resumed_where_it_was(layer: Any, folder: Path) -> None:
    given = of_layer(layer, folder, random_skip=1000)
    whole, parts = state_at(given, seed=3), state_at(given, seed=3)
    expected = fed(whole, 9)
    found = fed(parts, 4)
    memory = parts.memory()
    assert memory == {"position": 5, "epoch": 1, "count": 11}
    parts.shutdown()
    parts = state_at(given, seed=3)
    parts.remember(memory)
    assert found + fed(parts, 5) == expected
    assert expected[0] == drawn_skip(3, 0, 1000) % 11 != 0
    whole.shutdown()
    parts.shutdown()


@skipping
@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_nothing_is_skipped_out_of_training(layer: Any, phase: str, folder: Path) -> None:
    """There the ranks together feed each record once."""
    parts = [state_at(of_layer(layer, folder, random_skip=100), phase, rank, 2) for rank in range(2)]
    assert sorted([*fed(parts[0], 2), *fed(parts[1], 2)]) == [*range(11)]
    for part in parts:
        part.shutdown()


def test_it_counts_the_records_of_a_part(folder: Path) -> None:
    split = {"part": "a", "fractions": {"a": 0.5, "b": 0.5}}
    plain = state_at(of_layer(ShardDataLayer, folder, split=split, batch_size=1))
    skipped = state_at(of_layer(ShardDataLayer, folder, split=split, batch_size=1, random_skip=1000), seed=3)
    count = plain.records.count
    order, skip = fed(plain, count), drawn_skip(3, 0, 1000) % count
    assert fed(skipped, count) == order[skip:] + order[:skip]
    plain.shutdown()
    skipped.shutdown()


@skipping
@pytest.mark.parametrize("fields", [{"shuffle": True}, {"sampling": "balanced"}])
def test_it_goes_with_no_other_order(layer: Any, fields: dict[str, Any], folder: Path) -> None:
    with pytest.raises(ConfigError, match=rf"d: random_skip=5 with {next(iter(fields))}, which"):
        of_layer(layer, folder, random_skip=5, **fields)
    with pytest.raises(ConfigError, match="random_skip=-1"):
        of_layer(layer, folder, random_skip=-1)
