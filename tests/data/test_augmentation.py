"""Augmentations: what they do to pictures for given draws, exactly in small cases, and against naive references."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, DataError, Transformer
from nacre_data import ColorJitter, Cutout, MemoryDataLayer, RandomAffine
from nacre_data.augmentation import GREY, YIQ
from ranks import state_at


class Drawn:
    """Random numbers that are given."""

    def __init__(self, *rows: Any) -> None:
        self.rows = np.array(rows, float)

    def each(self, count: int) -> np.ndarray:
        return self.rows[:, :count]


def changed(transformer: Transformer, picture: Any, *draws: float, dtype: Any = "uint8") -> np.ndarray:
    """Return a picture, (rows, columns) or (channels, rows, columns), as it is in training for given draws."""
    picture = np.asarray(picture, dtype)
    batch = picture.reshape(1, *(1,) * (3 - picture.ndim), *picture.shape).copy()
    transformer.shape_of(batch.shape[1:])
    transformer.transform(batch, Drawn(draws), "train")  # pyright: ignore[reportArgumentType]
    return batch.reshape(picture.shape)


MIDDLE = 0.5  # a draw by which nothing is turned or moved
PICTURE = np.arange(1, 13).reshape(3, 4)
SQUARE = np.arange(1, 10).reshape(3, 3)


# RandomAffine


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize(("degrees", "draw", "turns"), [(90, 0.0, -1), (180, 0.0, 2), (180, 0.75, 1), (90, 0.5, 0)])
def test_a_square_is_turned_to_the_left(degrees: float, draw: float, turns: int, interpolation: Any) -> None:
    affine = RandomAffine(degrees=degrees, interpolation=interpolation)
    assert changed(affine, SQUARE, draw, 0, MIDDLE, MIDDLE).tolist() == np.rot90(SQUARE, turns).tolist()
    even = np.arange(16).reshape(4, 4)
    assert changed(affine, even, draw, 0, MIDDLE, MIDDLE).tolist() == np.rot90(even, turns).tolist()


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
def test_whole_pixels_are_moved_down_and_to_the_right(interpolation: Any) -> None:
    affine = RandomAffine(translate=(1, 0.5), fill=99, interpolation=interpolation)
    down_one_right_one = changed(affine, PICTURE, 0, 0, 2 / 3, 0.75)  # by 1/3 of 3 rows, and 1/4 of 4 columns
    assert down_one_right_one.tolist() == [[99, 99, 99, 99], [99, 1, 2, 3], [99, 5, 6, 7]]
    up_three = changed(affine, PICTURE, 0, 0, 0, MIDDLE)
    assert (up_three == 99).all()


def test_half_a_pixel_is_the_mean_of_two() -> None:
    affine = RandomAffine(translate=(0, 0.5), fill=0)
    row = [[8, 16, 24, 40]]
    assert changed(affine, row, 0, 0, 0, 0.625).tolist() == [[4, 12, 20, 32]]  # to the right by 0.25 · 0.5 · 4 pixels
    assert changed(affine, row, 0, 0, 0, 0.375).tolist() == [[12, 20, 32, 20]]


def test_a_picture_grows_about_its_middle() -> None:
    picture = [[0, 10, 20, 30]] * 4
    assert changed(RandomAffine(scale=2), picture, MIDDLE, 0, MIDDLE, MIDDLE).tolist() == [[8, 12, 18, 22]] * 4
    nearest = RandomAffine(scale=2, interpolation="nearest")
    assert changed(nearest, picture, MIDDLE, 0, MIDDLE, MIDDLE).tolist() == [[10, 10, 20, 20]] * 4
    smaller = changed(RandomAffine(scale=(0.5, 2), fill=7), np.full((4, 4), 9), MIDDLE, 0, MIDDLE, MIDDLE)
    assert smaller[1:3, 1:3].tolist() == [[9, 9], [9, 9]]
    assert smaller[0].tolist() == smaller[:, 0].tolist() == [7, 7, 7, 7]


def naive_affine(affine: RandomAffine, picture: np.ndarray, u: Any) -> np.ndarray:
    """Move a picture pixel by pixel."""
    channels, height, width = picture.shape
    fill = np.array(affine.fill * channels if len(affine.fill) == 1 else affine.fill)
    angle = math.radians((2 * u[0] - 1) * affine.degrees)
    factor = affine.scale[0] + u[1] * (affine.scale[1] - affine.scale[0])
    down, right = ((2 * u[2 + axis] - 1) * affine.translate[axis] * (height, width)[axis] for axis in (0, 1))

    def at(row: int, column: int) -> np.ndarray:
        inside = 0 <= row < height and 0 <= column < width
        return picture[:, row, column].astype(float) if inside else fill

    out = np.zeros(picture.shape)
    for row, column in np.ndindex(height, width):
        y, x = (row - (height - 1) / 2 - down) / factor, (column - (width - 1) / 2 - right) / factor
        y, x = y * math.cos(angle) + x * math.sin(angle), x * math.cos(angle) - y * math.sin(angle)
        y, x = y + (height - 1) / 2, x + (width - 1) / 2
        top, left = math.floor(y), math.floor(x)
        for i, j in np.ndindex(2, 2):
            share = (1 - abs(y - top - i)) * (1 - abs(x - left - j))
            out[:, row, column] += share * at(top + i, left + j)
    return out


UNIT = st.floats(0, 0.999)


@settings(max_examples=25)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    st.tuples(UNIT, UNIT, UNIT, UNIT),
    st.sampled_from([0, 15, 180]),
    st.sampled_from([(1, 1), (0.5, 2), (1.3, 1.3)]),
    st.sampled_from([0, 0.2, (1, 0.1)]),
    st.sampled_from(["float64", "float32", "uint8"]),
)
def test_affine_against_a_naive_one(shape: Any, u: Any, degrees: float, scale: Any, translate: Any, dtype: str) -> None:
    fields: dict[str, Any] = {"degrees": degrees, "scale": scale, "translate": translate or (0, 0.01)}
    affine = RandomAffine(**fields, fill=[5, 6, 7][: shape[0]])
    picture = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
    found, wanted = changed(affine, picture, *u, dtype=dtype), naive_affine(affine, picture, u)
    assert found.dtype == dtype
    # places have float32's digits, and numbers change by up to 255 from one pixel to the next
    np.testing.assert_allclose(found, wanted, atol=0.51 if dtype == "uint8" else 0.005)


# ColorJitter


def test_brightness_multiplies() -> None:
    jitter = ColorJitter(brightness=0.5)
    assert changed(jitter, [[10, 100, 200]], 1.0, 0, 0, 0).tolist() == [[15, 150, 255]]
    assert changed(jitter, [[10, 100, 201]], 0.0, 0, 0, 0).tolist() == [
        [5, 50, 100]
    ]  # 100.5 is rounded to the even one
    assert changed(jitter, [[-2.0, 300]], 1.0, 0, 0, 0, dtype="float32").tolist() == [[-3, 450]]


def test_contrast_is_about_the_mean() -> None:
    picture = [[0, 100], [100, 200]]
    assert changed(ColorJitter(contrast=0.5), picture, 0, 0.0, 0, 0).tolist() == [[50, 100], [100, 150]]
    assert changed(ColorJitter(contrast=1), picture, 0, 0.0, 0, 0).tolist() == [[100, 100], [100, 100]]


def test_saturation_is_about_the_grey_value() -> None:
    picture = np.array([200.0, 100, 50]).reshape(3, 1, 1)
    grey = float(np.dot(GREY, picture[:, 0, 0]))
    found = changed(ColorJitter(saturation=1), picture, 0, 0, 0.0, 0, dtype="float64")
    np.testing.assert_allclose(found[:, 0, 0], [grey] * 3)
    found = changed(ColorJitter(saturation=0.5), picture, 0, 0, 1.0, 0, dtype="float64")
    np.testing.assert_allclose(found[:, 0, 0], grey + 1.5 * (picture[:, 0, 0] - grey))


def test_the_hue_turns_about_the_grey_values() -> None:
    jitter = ColorJitter(hue=0.5)
    picture = np.array([200.0, 100, 50]).reshape(3, 1, 1)
    found = changed(jitter, picture, 0, 0, 0, 0.0, dtype="float64")  # by half a turn: the opposite colour
    grey = float(np.dot(GREY, picture[:, 0, 0]))
    np.testing.assert_allclose(found[:, 0, 0], 2 * grey - picture[:, 0, 0], atol=1e-9)
    np.testing.assert_allclose(changed(jitter, picture, 0, 0, 0, MIDDLE, dtype="float64"), picture)
    plain = np.full((3, 2, 2), 77.0)
    np.testing.assert_allclose(changed(jitter, plain, 0, 0, 0, 0.123, dtype="float64"), plain)


@settings(max_examples=20)
@given(st.tuples(UNIT, UNIT, UNIT, UNIT), st.sampled_from([1, 3]), st.sampled_from(["float64", "float32", "uint8"]))
def test_colours_against_naive_ones(u: Any, channels: int, dtype: str) -> None:
    jitter = ColorJitter(brightness=0.4, contrast=0.6, saturation=0.9, hue=0.25)
    picture = np.random.default_rng(0).integers(0, 256, (channels, 3, 4))
    bright, contrast, saturation = (1 + (2 * draw - 1) * most for draw, most in zip(u, (0.4, 0.6, 0.9), strict=False))
    shares = np.array(GREY if channels == 3 else (1.0,))
    x = picture * bright
    mean = np.tensordot(shares, x, 1).mean()
    x = mean + contrast * (x - mean)
    grey = np.tensordot(shares, x, 1)
    x = grey + saturation * (x - grey)
    if channels == 3:
        angle = 2 * math.pi * (2 * u[3] - 1) * 0.25
        parts = np.tensordot(np.array(YIQ), x, 1)
        turned = (parts[1] + 1j * parts[2]) * np.exp(1j * angle)
        x = np.tensordot(np.linalg.inv(np.array(YIQ)), np.stack([parts[0], turned.real, turned.imag]), 1)
    if dtype == "uint8":
        x = np.clip(x, 0, 255)
    found = changed(jitter, picture, *u, dtype=dtype)
    tolerance = {"uint8": 0.51, "float32": 1e-3, "float64": 1e-9}[dtype]
    np.testing.assert_allclose(found, x, atol=tolerance)


# Cutout


def test_a_window_is_filled() -> None:
    ones = np.ones((3, 4))
    assert changed(Cutout(size=1), ones, 0.5, 0.5).tolist() == [[1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]]
    assert changed(Cutout(size=(3, 2)), ones, 0.0, 0.999).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]
    for size in (9, 1 << 63, (7, 1 << 80)):
        for corner in (0.0, 0.5, 0.999):
            assert (changed(Cutout(size=size), ones, corner, 1 - corner - 0.0005) == 0).all()
    filled = changed(Cutout(size=1, fill=[2, 3, 4]), np.ones((3, 1, 2)), 0, 0)
    assert filled.tolist() == [[[2, 1]], [[3, 1]], [[4, 1]]]


# All of them

ALL = [RandomAffine(degrees=30, fill=3), ColorJitter(brightness=0.5, hue=0.1), Cutout(size=2)]


@pytest.mark.parametrize("transformer", ALL, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_pictures_change_in_training_only(transformer: Any, phase: str) -> None:
    batch = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 6), np.uint8)
    before = batch.copy()
    transformer.transform(batch, Drawn(*[[0.1] * 4] * 4), phase)
    assert batch.tobytes() == before.tobytes()
    transformer.transform(batch, Drawn(*[[0.1] * 4] * 4), "train")
    assert batch.tobytes() != before.tobytes()


@pytest.mark.parametrize("kind", ["u1", ">i2", "bool", "f2", "f4", "f8", "i8"])
def test_every_type_of_numbers(kind: str) -> None:
    data = (np.random.default_rng(0).integers(0, 2, (7, 3, 5, 6)) * 100).astype(kind)
    fields: Any = {
        "transformers": [["data", one] for one in ALL if kind != "bool" or not isinstance(one, RandomAffine)]
    }
    state = state_at(MemoryDataLayer(name="d", tops="data", data=data, batch_size=7, **fields), "train")
    state.forward([])
    assert np.isfinite(state.blobs[0]).all()
    state.shutdown()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomAffine(), "RandomAffine: degrees, scale or translate is needed, or no picture changes"),
        (lambda: RandomAffine(degrees=-1), r"RandomAffine: degrees=-1\.0, but it must be 0 or more"),
        (lambda: RandomAffine(scale=(2, 1)), r"RandomAffine: scale=\(2\.0, 1\.0\), but the first must not be larger"),
        (lambda: RandomAffine(scale=(1e-320, 1)), r"RandomAffine: scale=.*, but it must be at least 0\.001"),
        (lambda: RandomAffine(scale=0), "RandomAffine: scale=.*, but every number must be above 0"),
        (lambda: RandomAffine(scale=(1, 2, 3)), "RandomAffine: scale=.*, but it must be a finite number, or two"),
        (lambda: ColorJitter(), "ColorJitter: brightness, contrast, saturation or hue is needed"),
        (lambda: ColorJitter(contrast=1.5), r"ColorJitter: contrast=1\.5, but it must be at most 1"),
        (lambda: ColorJitter(hue=0.6), r"ColorJitter: hue=0\.6, but it must be at most 0\.5"),
        (lambda: Cutout(size=0), "Cutout: size=.*, but every number must be above 0"),
        (lambda: ALL[0].shape_of((3, 4)), r"RandomAffine: records must be \(channels, rows, columns\), not \(3, 4\)"),
        (lambda: ALL[1].shape_of((2, 3, 4)), "ColorJitter: records must have 1 or 3 channels, not 2"),
        (
            lambda: Cutout(size=1, fill=[1, 2]).shape_of((3, 4, 4)),
            r"Cutout: fill=\(1\.0, 2\.0\), but the pictures have 3 channels",
        ),
    ],
)
def test_what_cannot_be(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_what_bytes_cannot_hold() -> None:
    with pytest.raises(DataError, match=r"Cutout: fill=\(300\.0,\), but the pictures hold numbers of type uint8"):
        changed(Cutout(size=1, fill=300), np.ones((2, 2)), 0, 0)
    with pytest.raises(DataError, match=r"RandomAffine: fill=\(0\.5,\), but the pictures hold numbers of type uint8"):
        changed(RandomAffine(degrees=1, fill=0.5), np.ones((2, 2)), 0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
def test_the_largest_colours_stay_large(kind):
    most = np.iinfo(kind).max
    pictures = np.full((2, 1, 2, 2), most, kind)
    ColorJitter(brightness=0.5).change(pictures, np.full((2, 4), 0.9))
    assert int(pictures.min()) > most - most // 1000
