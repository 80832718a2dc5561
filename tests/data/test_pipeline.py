"""The way of records into the blob: bytes stay bytes, and what is random belongs to the record, not to its batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forging import trials
from nacre import ConfigError, DataError, Layer, Net, Transformer
from nacre.random import Random
from nacre_data import (
    ColorJitter,
    Crop,
    Cutout,
    HDF5DataLayer,
    MemoryDataLayer,
    Mirror,
    RandomAffine,
    RandomShift,
    Scale,
    Standardize,
    SubMean,
)
from ranks import state_at

COUNT = 23
PICTURES = np.random.default_rng(0).integers(0, 256, (COUNT, 3, 7, 9), np.uint8)
MEAN = [10.5, 20, 30.25]


def layer_of(transformers: Sequence[Any], data: Any = PICTURES, **fields: Any) -> MemoryDataLayer:
    fields = {"batch_size": 4, **fields}
    pairs: Any = [["data", one] for one in transformers]
    return MemoryDataLayer(
        name="d", tops=["data", "id"], data=[data, np.arange(len(data))], transformers=pairs, **fields
    )


def fed(layer: Layer, phase: str = "train") -> np.ndarray:
    state = state_at(layer, phase)
    state.forward([])
    found: np.ndarray = state.blobs[0].copy()
    state.shutdown()
    return found


# Bytes


class Seen(Transformer):
    """Notes the types that it is handed."""

    keeps_type = True
    log: Any = None

    def transform(self, batch: Any, random: Any, phase: str) -> None:
        self.log.append(batch.dtype.name)


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize(
    ("stored", "held"),
    [("u1", "uint8"), ("bool", "bool"), (">i2", "int16"), ("f2", "float16"), ("<i4", "float32"), ("f8", "float32")],
)
def test_records_stay_in_a_smaller_type_until_they_must_be_the_blobs(stored: str, held: str, ahead: int) -> None:
    log: list[str] = []
    seen = Seen(log=log)
    data = (PICTURES % 2).astype(stored)
    transformers = [seen, Mirror(), seen, SubMean(mean=1), seen]
    state = state_at(layer_of(transformers, data, ahead=ahead), "test")
    assert state.batches[0].arrays[0].dtype == held
    assert state.batches[0].arrays[1].dtype == np.int64
    state.forward([])
    state.shutdown()
    assert log == [held, held, "float32"]
    np.testing.assert_array_equal(state.blobs[0], data[:4].astype(np.float32) - 1)


def test_floats_without_changes_of_their_shape_are_read_into_the_blob_itself() -> None:
    state = state_at(layer_of([Scale(scale=2)], PICTURES.astype("f4")))
    assert state.batches[0].arrays[0] is state.blobs[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stored", ["u1", "i2", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("size", [1, 5, 23])
def test_conversions_have_the_bits_of_one_step_after_the_other(dtype: Any, stored: str, size: int) -> None:
    data, mean = PICTURES.astype(stored), np.random.default_rng(1).uniform(0, 255, PICTURES.shape[1:])
    scale = [1 / 3, 1 / 7, 0.1]
    expected = (data[:size].astype(dtype) - mean.astype(dtype)) * np.array(scale, dtype).reshape(3, 1, 1)
    layer = layer_of([SubMean(mean=mean), Scale(scale=scale)], data, batch_size=size)
    for ahead in (0, 1):
        source = MemoryDataLayer(**{**vars_of(layer), "ahead": ahead})
        with Net("n", [source], dtype=dtype, backend="numpy") as net:
            net.feed()
            np.testing.assert_array_equal(net.blob("data"), expected)


def vars_of(layer: MemoryDataLayer) -> dict[str, Any]:
    return {name: getattr(layer, name) for name in ("name", "tops", "data", "batch_size", "transformers")}


def test_large_batches_are_changed_in_parts() -> None:
    sizes: list[int] = []

    class Sizes(Transformer):
        by_record = True

        def transform(self, batch: Any, random: Any, phase: str) -> None:
            sizes.append(len(batch))

    data = np.random.default_rng(0).integers(0, 256, (5, 3, 200, 200), np.uint8)
    layer = layer_of([SubMean(mean=MEAN), Sizes(), Scale(scale=0.5), Mirror(), Scale(scale=4)], data, batch_size=5)
    expected = (data - np.array(MEAN, np.float32).reshape(3, 1, 1)) * 2
    np.testing.assert_array_equal(fed(layer, "test"), expected)
    assert sizes == [1] * 5


def test_a_strangers_transformer_changes_the_shape() -> None:
    class Grey(Transformer):
        def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
            return (1, *shape[1:])

        def transform_into(self, given: Any, out: Any, random: Any, phase: str) -> None:
            given.mean(1, keepdims=True, dtype=out.dtype, out=out)

    found = fed(layer_of([Crop(size=5), Grey(), Scale(scale=2)]), "test")
    expected = PICTURES[:4, :, 1:6, 2:7].mean(1, keepdims=True, dtype=np.float32) * 2
    np.testing.assert_array_equal(found, expected)


def test_a_strangers_transformer_of_records_draws_for_each() -> None:
    class Noise(Transformer):
        def transform(self, batch: Any, random: Any, phase: str) -> None:
            batch += random.each(batch[0].size).reshape(batch.shape)

    found = fed(layer_of([Noise()], batch_size=3))
    for record in range(3):
        noise = Random(0, "d/data/0", lambda: 0).generator(record).random(PICTURES[0].size)
        np.testing.assert_array_equal(found[record], (PICTURES[record] + noise.reshape(3, 7, 9)).astype(np.float32))


def test_what_is_fitted_sees_the_records_as_they_come_to_it() -> None:
    layer = layer_of([Crop(size=(3, 5)), Standardize()], batch_size=COUNT)
    cut = PICTURES[:, :, 2:5, 2:7].astype(float)
    with Net("n", [layer], backend="numpy") as net:
        np.testing.assert_allclose(net.fitted["data"]["Standardize/mean"], cut.mean(0))
        np.testing.assert_allclose(net.predict(PICTURES, "data"), (cut - cut.mean(0)) / cut.std(0), atol=1e-5)


# Crop and Mirror


@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_elsewhere_the_middle_is_cut_and_nothing_is_turned(phase: str) -> None:
    np.testing.assert_array_equal(fed(layer_of([Crop(size=(4, 4)), Mirror()]), phase), PICTURES[:4, :, 1:5, 2:6])


@settings(max_examples=12)
@given(
    st.integers(1, 7), st.integers(1, 9), st.integers(0, 2**63), st.booleans(), st.sampled_from(["u1", "f4"]), st.data()
)
def test_windows_and_sides_against_naive_ones(
    rows: int, columns: int, seed: int, mirror_first: bool, kind: str, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, COUNT))
    transformers = [Mirror(), Crop(size=(rows, columns))] if mirror_first else [Crop(size=(rows, columns)), Mirror()]
    state = state_at(layer_of(transformers, PICTURES.astype(kind), batch_size=size), seed=seed)
    state.forward([])
    crop, mirror = (Random(seed, f"d/data/{place}", lambda: 0) for place in ((1, 0) if mirror_first else (0, 1)))
    for record, found in enumerate(state.blobs[0]):
        down, right = crop.generator(record).random(2)
        row, column = int(down * (8 - rows)), int(right * (10 - columns))
        turned = mirror.generator(record).random() < 0.5
        picture = PICTURES[record][..., ::-1] if turned and mirror_first else PICTURES[record]
        window = picture[:, row : row + rows, column : column + columns]
        np.testing.assert_array_equal(found, window[..., ::-1] if turned and not mirror_first else window)


def test_all_windows_are_cut_and_half_of_the_pictures_are_turned() -> None:
    places = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4).repeat(12000, 0)
    found = fed(layer_of([Crop(size=(2, 2)), Mirror()], places, batch_size=12000)).astype(int)
    turned = found[:, 0, 0, 1] < found[:, 0, 0, 0]
    assert abs(turned.sum() - 6000) < 5 * np.sqrt(3000)
    counts = np.unique(found.min((1, 2, 3)), return_counts=True)
    assert counts[0].tolist() == [0, 1, 2, 4, 5, 6]
    assert np.abs(counts[1] - 2000).max() < 5 * np.sqrt(2000)


@pytest.mark.parametrize(
    ("transformer", "data", "words"),
    [
        (Crop(size=(8, 3)), PICTURES, r"Crop: size=\(8, 3\) is larger than the pictures, which have \(7, 9\) pixels"),
        (Crop(size=3), PICTURES[:, 0, 0], r"Crop: records must be .*\(9,\)"),
        (Mirror(), PICTURES[:, 0], r"Mirror: records must be .*\(7, 9\)"),
        (RandomShift(), PICTURES[:, 0], r"RandomShift: records must be .*\(7, 9\)"),
        (RandomShift(pixels=73), PICTURES, "RandomShift: pixels=73, but the pictures have only 9 rows or columns"),
    ],
)
def test_records_that_are_no_pictures_or_too_small(transformer: Transformer, data: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"d: transformers: data: {words}"):
        state_at(layer_of([transformer], data))


def test_factors_that_do_not_fit() -> None:
    with pytest.raises(
        DataError, match=r"d: transformers: data: Scale: 2 factors do not fit records of shape \(3, 7, 9\)"
    ):
        fed(layer_of([Scale(scale=[1, 2])]))


@pytest.mark.parametrize("size", [0, -1, (1, 2, 3), "big"])
def test_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(ConfigError, match="Crop: size="):
        Crop(size=size)


# Whose the random numbers are


AUGMENTED = [
    RandomAffine(degrees=20, scale=(0.8, 1.2), translate=0.1),
    ColorJitter(contrast=0.4, hue=0.1),
    Cutout(size=2),
]
RANDOM = [RandomShift(pixels=2), Crop(size=(5, 6)), Mirror(), *AUGMENTED, SubMean(mean=MEAN), Scale(scale=0.25)]


def of_records(state: Any, batches: int, found: dict[tuple[int, int], bytes]) -> None:
    """Note what becomes of each record in each pass; it must be the same everywhere."""
    for _ in range(batches):
        state.forward([])
        epochs = state.randoms[0]._epochs.tolist()
        for record, epoch, picture in zip(state.blobs[1].tolist(), epochs, state.blobs[0], strict=True):
            assert found.setdefault((epoch, record), picture.tobytes()) == picture.tobytes()


@pytest.fixture(name="file", scope="module")
def file_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "pictures.h5"
    with h5py.File(path, "w") as file:
        file["data"], file["id"] = PICTURES, np.arange(COUNT)
    return path


@settings(max_examples=trials(15, 80))
@given(st.data())
def test_a_record_has_the_same_bits_in_a_pass_whatever_its_batch(file: Path, data: st.DataObject) -> None:
    found: dict[tuple[int, int], bytes] = {}
    for _ in range(3):
        ranks = data.draw(st.integers(1, 4), "ranks")
        fields: dict[str, Any] = {
            "name": "d",
            "tops": ["data", "id"],
            "source": file,
            "batch_size": data.draw(st.integers(1, COUNT // ranks), "batch_size"),
            "shuffle": data.draw(st.booleans(), "shuffle"),
            "ahead": data.draw(st.integers(0, 3), "ahead"),
            "cache_bytes": data.draw(st.sampled_from([0, 1 << 20]), "cache_bytes"),
            "transformers": [["data", one] for one in RANDOM],
        }
        layer = HDF5DataLayer(**fields)
        for rank in range(ranks):
            state = state_at(layer, "train", rank, ranks, seed=5)
            of_records(state, data.draw(st.integers(0, 2 * COUNT // fields["batch_size"]), "batches"), found)
            memory = state.memory()
            state.shutdown()
            again = state_at(layer, "train", rank, ranks, seed=5)
            again.remember(memory)
            of_records(again, 3, found)
            again.shutdown()


def test_a_record_looks_different_in_the_next_pass_and_with_another_seed() -> None:
    looks = set[bytes]()
    for seed in range(3):
        state = state_at(layer_of(RANDOM, batch_size=COUNT), seed=seed)
        for _ in range(3):
            state.forward([])
            looks.add(state.blobs[0].tobytes())
    assert len(looks) == 9
