"""MnistImage: SINGA's parser of digits, as a layer and as a transformer, with the distortions that its fields name."""

from math import cos, exp, floor, pi, sin

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, Net
from nacre.random import RecordRandom
from nacre.testing.trial import Example
from nacre_data import MemoryDataLayer, MnistImage, MnistImageLayer

ELASTIC = {"kernel": 3, "sigma": 1.5, "alpha": 2.0, "elastic_freq": 1}


def number_at(picture, row, column):
    """Return a number between the pixels of a picture, in a loop over its four neighbours."""
    total = 0.0
    for r in (floor(row), floor(row) + 1):
        for c in (floor(column), floor(column) + 1):
            if 0 <= r < len(picture) and 0 <= c < len(picture):
                total += picture[r][c] * (1 - abs(row - r)) * (1 - abs(column - c))
    return total


def displacement(numbers, row, column, layer):
    half, size = layer.kernel // 2, len(numbers)
    weights = {step: exp(-(step**2) / (2 * layer.sigma**2)) for step in range(-half, half + 1)}
    total = sum(weights.values())
    moved = 0.0
    for down, one in weights.items():
        for right, other in weights.items():
            if 0 <= row + down < size and 0 <= column + right < size:
                moved += one * other / total**2 * (2 * numbers[row + down][column + right] - 1)
    return layer.alpha * moved


def distorted(picture, u, layer, *, trains):
    """Compute what the docstring says, pixel by pixel."""
    old = len(picture)
    size = layer.resize or old
    made = np.zeros((1, size, size))
    g = [2 * one - 1 for one in u[:3]]
    away = np.reshape(u[4:], (2, size, size)) if layer.elastic_freq else None
    for i in range(size):
        for j in range(size):
            row, column = i - (size - 1) / 2, j - (size - 1) / 2
            if trains:
                if away is not None:
                    row, column = (
                        place + displacement(numbers, i, j, layer)
                        for place, numbers in zip((row, column), away, strict=True)
                    )
                if u[3] < 0.5:
                    angle = g[2] * layer.beta * pi / 180
                    row, column = cos(angle) * row + sin(angle) * column, cos(angle) * column - sin(angle) * row
                else:
                    column -= g[2] * layer.beta / 90 * row
                row /= 1 + g[0] * layer.gamma / 100
                column /= 1 + g[1] * layer.gamma / 100
            row, column = (place * old / size + (old - 1) / 2 for place in (row, column))
            made[0, i, j] = number_at(picture, row, column)
    return made / layer.norm_a - layer.norm_b


class TestMnistImage(Agreement):
    layer = MnistImageLayer
    is_random = True

    def examples(self):
        yield Example({"beta": 30.0, "gamma": 20.0}, [(2, 2, 2)])
        yield Example({"norm_a": 2.0, "norm_b": 0.5, "beta": 30.0, "gamma": 20.0, **ELASTIC}, [(6, 5, 5)])

    def strategy(self):
        fields = {
            "norm_a": st.sampled_from([1.0, 255.0, 127.5]),
            "norm_b": st.sampled_from([0.0, 1.0]),
            "resize": st.sampled_from([0, 0, 3, 7]),
            "beta": st.sampled_from([0.0, 45.0]),
            "gamma": st.sampled_from([0.0, 60.0]),
        }
        elastic = st.sampled_from([{}, ELASTIC])
        shape = st.builds(
            lambda count, one, size: (count, *one, size, size),
            st.integers(1, 3),
            st.sampled_from([(), (1,)]),
            st.integers(2, 5),
        )
        return st.builds(lambda a, b, one: Example({**a, **b}, [one]), st.fixed_dictionaries(fields), elastic, shape)

    def reference(self, layer, inputs, parameters):
        made = []
        for number, picture in enumerate(inputs[0]):
            size = layer.resize or picture.shape[-1]
            u = self.random.generator(number).random(4 + 2 * size * size).tolist()
            made.append(distorted(picture.reshape(picture.shape[-2:]).tolist(), u, layer, trains=self.phase == "train"))
        return [np.stack(made)]


def made(pictures, phase="train", records=None, **fields):
    parser = MnistImage(**fields)
    out = np.empty((len(pictures), *parser.shape_of(pictures.shape[1:])), np.float32)
    random = RecordRandom(0, "d", lambda: 0)
    random.at(range(len(pictures)) if records is None else records, np.zeros(len(pictures)))
    parser.transform_into(pictures, out, random, phase)
    return out


def test_bytes_become_numbers_from_minus_1_to_1():
    """SINGA's MLP: norm_a 127.5 and norm_b 1; its `char` has a sign, which had to be removed."""
    pictures = np.array([[[0, 255], [51, 200]]], np.uint8)
    found = made(pictures, norm_a=127.5, norm_b=1.0)
    assert found.shape == (1, 1, 2, 2)
    np.testing.assert_allclose(found.ravel(), [-1, 1, -0.6, 200 / 127.5 - 1], rtol=1e-6)
    np.testing.assert_array_equal(found, made(pictures.astype(np.float32), norm_a=127.5, norm_b=1.0))


def test_resize_alone_works():
    """In SINGA it only changed the shape of the blob, so that a check failed."""
    found = made(np.array([[[0, 4], [8, 12]]], np.uint8), "test", resize=4)
    assert found.shape == (1, 1, 4, 4)
    np.testing.assert_allclose(found[0, 0, 1:3, 1:3], [[3, 5], [7, 9]])


@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_nothing_is_distorted_outside_training(phase):
    pictures = np.random.default_rng(0).random((3, 5, 5), np.float32)
    np.testing.assert_array_equal(made(pictures, phase, beta=40.0, gamma=30.0, **ELASTIC)[:, 0], pictures)


def test_a_record_is_distorted_alike_in_every_batch():
    pictures = np.random.default_rng(0).random((6, 1, 5, 5), np.float32)
    whole = made(pictures, beta=40.0, gamma=30.0, **ELASTIC)
    for records in ([0, 1, 2], [5, 3], [4]):
        np.testing.assert_array_equal(
            made(pictures[records], records=records, beta=40.0, gamma=30.0, **ELASTIC), whole[records]
        )


def test_the_sum_of_a_turned_picture_hardly_changes():
    """A disc in the middle stays what it is."""
    rows, columns = np.meshgrid(np.arange(28) - 13.5, np.arange(28) - 13.5, indexing="ij")
    disc = np.clip(8 - np.hypot(rows, columns), 0, 1).astype(np.float32)
    turned = made(np.repeat(disc[None], 20, 0), beta=180.0)
    sheared = [one for one in turned if np.abs(one - disc).max() > 0.1]
    assert 0 < len(sheared) < 20
    np.testing.assert_allclose(turned.sum(axis=(1, 2, 3)), disc.sum(), rtol=0.02)


def test_as_a_transformer_of_a_source():
    pictures = np.random.default_rng(0).integers(0, 256, (4, 28, 28), np.uint8)
    fields = {
        "norm_a": 255.0,
        "gamma": 15.0,
        "beta": 15.0,
        "kernel": 5,
        "sigma": 4.0,
        "alpha": 34.0,
        "elastic_freq": 100,
    }
    source = MemoryDataLayer(
        name="d", tops=["x"], data=[pictures], batch_size=4, transformers=[["x", {"type": "MnistImage", **fields}]]
    )
    random = RecordRandom(0, "d/x/0", lambda: 0)
    random.at(range(4), np.zeros(4))
    wanted = np.empty((4, 1, 28, 28), np.float32)
    MnistImage(**fields).transform_into(pictures, wanted, random, "train")
    with Net("n", [source], backend="numpy") as net:
        net.feed()
        np.testing.assert_array_equal(net.blob("x"), wanted)
        assert np.abs(wanted - pictures[:, None] / 255).max() > 0.1


@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 5, 5), (1, 4, 5), (1, 1, 5, 5)])
def test_records_that_are_no_squares_are_refused(shape):
    with pytest.raises(
        ConfigError, match=r"MnistImage: records must be squares \(1, size, size\) or \(size, size\), not"
    ):
        MnistImage().shape_of(shape)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"norm_a": 0}, "norm_a=0.0, but it must be different from 0"),
        ({"gamma": 100}, "gamma=100.0, but it must be from 0 to below 100"),
        ({**ELASTIC, "kernel": 4}, "kernel=4, but it must be an odd number"),
        ({**ELASTIC, "elastic_freq": 0}, "alpha=2.0, sigma=1.5, kernel=3, elastic_freq=0, but displacements need all"),
        ({"alpha": 3}, "alpha=3.0, sigma=0.0, kernel=0, elastic_freq=0, but displacements need all four"),
    ],
)
def test_bad_fields_are_told(fields, words):
    for cls, more in ((MnistImage, {}), (MnistImageLayer, {"bottoms": "x", "tops": "y"})):
        with pytest.raises(ConfigError, match=words):
            cls(**fields, **more)  # pyright: ignore[reportArgumentType]


def test_a_window_far_larger_than_the_picture_is_refused():
    with pytest.raises(ConfigError, match="MnistImage: kernel=99, but the pictures have only 5 rows"):
        MnistImage(**ELASTIC | {"kernel": 99}).shape_of((5, 5))
