"""Transformers: what they do to a batch, against naive references."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, InputLayer, Net
from nacre.config import netfile as config
from nacre.random import RecordRandom
from nacre_data import MemoryDataLayer, RandomShift, Scale, SubMean
from nacre_layers.linear.inner_product import InnerProductLayer


def moved(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """Move an image (channels, height, width) pixel by pixel."""
    _, height, width = image.shape
    result = np.zeros_like(image)
    for row in range(height):
        for column in range(width):
            if 0 <= row - down < height and 0 <= column - right < width:
                result[:, row, column] = image[:, row - down, column - right]
    return result


def random_at(epoch: int, records: int = 0, name: str = "d/data/0", seed: int = 0) -> RecordRandom:
    """Return the random numbers of a batch of the first records in a pass."""
    random = RecordRandom(seed, name, lambda: 5)
    random.at(range(records), [epoch] * records)
    return random


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("phase", ["train", "validation", "test", "predict"])
def test_scale(dtype: str, phase: str) -> None:
    batch = np.arange(6, dtype=dtype).reshape(2, 3)
    Scale(scale=0.0625).transform(batch, random_at(0), phase)
    assert batch.dtype == dtype
    np.testing.assert_array_equal(batch, np.arange(6).reshape(2, 3) / 16)


def test_scale_of_nothing_finite() -> None:
    with pytest.raises(ConfigError, match="Scale: scale=inf, but it must be a finite number"):
        Scale(scale=float("inf"))
    with pytest.raises(ConfigError, match=r"Scale: scale=1000.*, but it must be a finite number"):
        Scale(scale=10**400)


@settings(max_examples=60)
@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 8),
    st.integers(0, 10**6),
    st.sampled_from(["float32", "float64", "uint8"]),
)
def test_shift_against_a_naive_one(
    images: int, channels: int, height: int, width: int, pixels: int, epoch: int, dtype: str
) -> None:
    shape = images, channels, height, width
    before = (1 + np.arange(np.prod(shape)) % 255).astype(dtype).reshape(shape)
    batch = before.copy()
    RandomShift(pixels=pixels).transform(batch, random_at(epoch, images), "train")
    shifts = pixels - np.floor(random_at(epoch, images).each(2) * (2 * pixels + 1)).astype(int)
    assert np.abs(shifts).max() <= pixels
    for image, after, (down, right) in zip(before, batch, shifts, strict=True):
        np.testing.assert_array_equal(after, moved(image, down, right))


def test_all_shifts_are_drawn_alike() -> None:
    batch = np.zeros((20000, 1, 5, 5), np.float32)
    batch[:, :, 2, 2] = 1
    RandomShift(pixels=2).transform(batch, random_at(3, 20000), "train")
    places = batch.sum((0, 1))
    assert places.sum() == 20000  # no pixel is lost
    assert np.abs(places - 800).max() < 5 * np.sqrt(800)


def test_shift_is_the_same_at_every_call_within_a_pass_and_another_in_the_next() -> None:
    before = np.arange(1, 16 * 64 + 1, dtype=np.float32).reshape(16, 1, 8, 8)
    shift = RandomShift(pixels=2)

    def at(epoch: int) -> bytes:
        batch = before.copy()
        shift.transform(batch, random_at(epoch, 16), "train")
        return batch.tobytes()

    assert at(4) == at(4)
    assert len({at(epoch) for epoch in range(5)}) == 5


def test_batches_of_several_shapes_in_turn() -> None:
    shift = RandomShift(pixels=1)
    for shape in [(2, 1, 3, 4), (5, 2, 4, 3), (2, 1, 3, 4)] * 2:
        batch, other = np.ones((2, *shape), np.float32)
        shift.transform(batch, random_at(1, len(batch)), "train")
        RandomShift(pixels=1).transform(other, random_at(1, len(batch)), "train")
        np.testing.assert_array_equal(batch, other)


@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_shift_acts_in_training_only(phase: str) -> None:
    batch = np.ones((4, 1, 3, 3), np.float32)
    RandomShift(pixels=3).transform(batch, random_at(0), phase)
    assert (batch == 1).all()


def test_negative_shift() -> None:
    with pytest.raises(ConfigError, match="RandomShift: pixels=-1, but it must be 0 or more"):
        RandomShift(pixels=-1)


def test_through_a_net_and_through_predict() -> None:
    images = np.random.default_rng(0).integers(1, 17, (12, 1, 4, 4)).astype(np.uint8)
    transformers: Any = [["data", Scale(scale=0.0625)], ["data", RandomShift(pixels=1)]]
    layers = [
        MemoryDataLayer(name="d", tops="data", data=images, batch_size=4, transformers=transformers),
        InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=3),
    ]
    net = Net("t", layers, backend="numpy", seed=9)
    for _ in range(3 + 1):  # into the second pass
        net.feed()
    expected = images[:4].astype(np.float32) / 16
    RandomShift(pixels=1).transform(expected, random_at(1, 4, "d/data/1", 9), "train")
    np.testing.assert_array_equal(net.blob("data"), expected)
    plain = Net("p", [InputLayer(tops="data", shape=(1, 4, 4), batch_size=12), layers[1]], backend="numpy")
    plain.write("data", images / 16)
    plain.forward()
    np.testing.assert_allclose(net.predict(images, "ip"), plain.blob("ip"), rtol=1e-5, atol=1e-6)


# SubMean


IMAGES = np.random.default_rng(0).uniform(0, 255, (5, 3, 4, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("phase", ["train", "validation", "test", "predict"])
@pytest.mark.parametrize(
    ("mean", "naive"),
    [
        (2.5, np.full((3, 4, 2), 2.5)),
        ([7], np.full((3, 4, 2), 7)),
        ([104, 117, 123.5], np.array([104, 117, 123.5]).repeat(8).reshape(3, 4, 2)),
        (IMAGES.mean(0), IMAGES.mean(0)),
        (IMAGES[:1], IMAGES[0]),
    ],
    ids=["one", "one in a list", "one for each channel", "an image", "an image as a batch"],
)
def test_sub_mean(mean: Any, naive: np.ndarray, phase: str, dtype: str) -> None:
    batch = IMAGES.astype(dtype)
    SubMean(mean=mean).transform(batch, random_at(0), phase)
    np.testing.assert_allclose(batch, IMAGES - naive, rtol=1e-12 if dtype == "float64" else 1e-6, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 4, 2), (1, 3, 4, 2), (3,), (1,)])
def test_sub_mean_of_a_file(tmp_path: Path, shape: tuple[int, ...]) -> None:
    mean = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    with h5py.File(tmp_path / "mean.h5", "w") as file:
        file["mean"] = mean
    batch, other = np.array([IMAGES, IMAGES])
    SubMean(mean_file=tmp_path / "mean.h5").transform(batch, random_at(0), "train")
    SubMean(mean=mean).transform(other, random_at(0), "train")
    np.testing.assert_array_equal(batch, other)
    assert not (batch == IMAGES).any()


def test_sub_mean_of_features_and_of_batches_in_turn() -> None:
    sub = SubMean(mean=[1, 2])
    for shape in [(4, 2), (3, 2, 5), (1, 2), (4, 2)]:
        batch = np.zeros(shape)
        sub.transform(batch, random_at(0), "train")
        assert (batch[:, 0] == -1).all()
        assert (batch[:, 1] == -2).all()


def test_sub_mean_through_a_net_and_back_from_its_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "mean.h5", "w") as file:
        file["mean"], file["data"] = np.full(3, 5.0), IMAGES
    text = """
        [[layer]]
        type = "HDF5Data"
        tops = ["data"]
        source = "mean.h5"
        batch_size = 5
        transformers = [["data", { type = "SubMean", mean_file = "mean.h5" }], ["data", { type = "SubMean", mean = 2 }]]
    """
    path = tmp_path / "net.toml"
    for written in (text, None):
        path.write_text(written or config.dumps(config.load(path)))
        net = config.load(path).net(backend="numpy")
        net.feed()
        np.testing.assert_allclose(net.blob("data"), IMAGES - 7, rtol=1e-4, atol=1e-4)
        net.shutdown()


@pytest.mark.parametrize("fields", [{}, {"mean": 1, "mean_file": "a.h5"}, {"mean": 1, "mean_file": ["a", "b"]}])
def test_sub_mean_wants_one_mean(fields: Any) -> None:
    with pytest.raises(ConfigError, match=r"SubMean: mean=.* and mean_file="):
        SubMean(**fields)


@pytest.mark.parametrize("mean", ["mean.h5", [[1, 2]], float("nan"), [1, float("inf")], [[1], [2, 3]]])
def test_sub_mean_of_what_is_no_mean(mean: Any) -> None:
    with pytest.raises(ConfigError, match="SubMean: mean="):
        SubMean(mean=mean)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("mean", np.ones(2), r"mean\.h5: a mean of shape \(2,\) does not fit records of shape \(3, 4, 2\)"),
        ("other", np.ones(3), r"mean\.h5: dataset 'mean': "),
        ("mean", np.array([b"a"]), r"mean\.h5: dataset 'mean' .*\|S1"),
        ("mean", np.full(3, np.nan), r"mean\.h5: dataset 'mean' holds numbers that are not finite"),
    ],
)
def test_sub_mean_of_a_bad_file(tmp_path: Path, name: str, values: Any, words: str) -> None:
    with h5py.File(tmp_path / "mean.h5", "w") as file:
        file[name] = values
    with pytest.raises(DataError, match=words):
        SubMean(mean_file=tmp_path / "mean.h5").transform(IMAGES.copy(), random_at(0), "train")
    with pytest.raises(DataError, match=r"none\.h5: no such file"):
        SubMean(mean_file=tmp_path / "none.h5").transform(IMAGES.copy(), random_at(0), "train")


def test_layer_and_top_are_named_where_records_do_not_fit() -> None:
    source = MemoryDataLayer(
        name="train", tops=["x"], data=[IMAGES], batch_size=1, transformers=[["x", SubMean(mean=[1, 2])]]
    )
    words = r"train: transformers: x: SubMean: a mean of shape \(2,\) does not fit"
    with Net("net", [source], backend="numpy") as net, pytest.raises(DataError, match=words):
        net.forward()
