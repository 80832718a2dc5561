"""Random numbers: the definition in the docstring of `nacre.random`, computed here once more in plain Python."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import InputLayer, Net, open_backend
from nacre.protocols.view import Scalars, View
from nacre.random import Random, RecordRandom, name_key
from nacre_layers.elementwise.dropout import DropoutLayer

WORD = 2**64 - 1
MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def philox(counter, key):
    """Philox 4x64-10, after the paper: ten rounds over four words, the key raised between them."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        one, other = MULTIPLIERS[0] * a, MULTIPLIERS[1] * c
        a, b, c, d = (other >> 64) ^ b ^ k, other & WORD, (one >> 64) ^ d ^ m, one & WORD
        k, m = (k + WEYL[0]) & WORD, (m + WEYL[1]) & WORD
    return a, b, c, d


def numbers(seed, name, iteration, draw):
    """Yield the 64-bit numbers: four from each block, the blocks counted from 1."""
    key = seed, int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    for block in itertools.count(1):
        yield from philox((block, draw, iteration, 0), key)


def uniforms32(count, *key):
    halves = ((number >> shift) & 0xFFFFFFFF for number in numbers(*key) for shift in (0, 32))
    return [(half >> 8) * 2.0**-24 for half in itertools.islice(halves, count)]


def uniforms64(count, *key):
    return [(number >> 11) * 2.0**-53 for number in itertools.islice(numbers(*key), count)]


def test_philox_of_the_paper():
    # Known answers of Random123's kat_vectors for philox4x64, 10 rounds.
    assert philox((0, 0, 0, 0), (0, 0)) == (
        0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B,
    )  # fmt: skip
    assert philox((WORD,) * 4, (WORD, WORD)) == (
        0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0,
    )  # fmt: skip


seeds = st.integers(0, WORD)
steps = st.integers(0, 2**40)


@settings(derandomize=True, max_examples=40, database=None)
@given(seed=seeds, name=st.text(max_size=20), step=steps, draw=st.integers(0, 9), count=st.integers(1, 23))
def test_uniforms_bit_for_bit(seed, name, step, draw, count):
    random = Random(seed, name, lambda: step)
    single, double = np.empty(count, np.float32), np.empty(count)
    random.uniform(single, draw)
    random.uniform(double, draw)
    assert single.tolist() == uniforms32(count, seed, name, step, draw)
    assert double.tolist() == uniforms64(count, seed, name, step, draw)


def test_a_negative_seed_is_a_word():
    one, other = np.empty(3), np.empty(3)
    Random(-1, "a", lambda: 0).uniform(one)
    Random(WORD, "a", lambda: 0).uniform(other)
    assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.uint8])
def test_a_seed_of_numpy_is_that_of_python(kind):
    assert Random(kind(3), "a", lambda: 0).generator().random() == Random(3, "a", lambda: 0).generator().random()
    found = [RecordRandom(seed, "a", lambda: 0) for seed in (kind(3), 3)]
    for one in found:
        one.at([1], [2])
    assert found[0].each(3).tolist() == found[1].each(3).tolist()


def test_the_key_of_a_name():
    assert name_key("drop1") == int.from_bytes(hashlib.blake2b(b"drop1", digest_size=8).digest(), "little")
    assert len({name_key(name) for name in ("a", "b", "ab", "ä", "")}) == 5


def test_every_call_in_an_iteration_gives_the_same():
    step = 0
    random = Random(0, "a", lambda: step)
    first, second, other, later = (np.empty((3, 5), np.float32) for _ in range(4))
    random.uniform(first)
    random.generator().standard_normal(7)  # whatever was drawn before
    random.uniform(np.empty(3, np.float32))  # an odd count leaves half a number over
    random.uniform(second)
    random.uniform(other, draw=1)
    step = 1
    random.uniform(later)
    assert np.array_equal(first, second)
    assert not (first == other).any() and not (first == later).any()


def test_a_longer_array_begins_with_the_shorter():
    random = Random(0, "a", lambda: 0)
    short, long = np.empty(5, np.float32), np.empty((4, 4), np.float32)
    random.uniform(short)
    random.uniform(long)
    assert np.array_equal(long.ravel()[:5], short)


def test_a_view_gives_the_random_numbers_of_its_step():
    scalars = Scalars()
    random = View(open_backend("numpy"), phase="train", dtype="float32", seed=5, scalars=scalars).random("drop")
    out = np.empty(4)
    for step in (0, 1, 7):
        scalars["step"] = step
        random.uniform(out)
        assert out.tolist() == uniforms64(4, 5, "drop", step, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ratio", [0.3, 0.5])
def test_the_mask_of_dropout(ratio, dtype):
    """An element stays where the float32 uniform of its place is `ratio` or more."""
    layers = [
        InputLayer(tops=["x"], shape=(3, 5), batch_size=4),
        DropoutLayer(name="drop", bottoms=["x"], ratio=ratio),
    ]
    net = Net("n", layers, backend="numpy", seed=11, dtype=dtype)
    for step in (0, 1, 12):
        net.scalars["step"] = step
        net.write("x", np.ones((4, 3, 5)))
        net.forward()
        kept = (net.blob("x") != 0).ravel().tolist()
        assert kept == [uniform >= ratio for uniform in uniforms32(60, 11, "drop", step, 0)]


def test_random_numbers_of_records_are_numpys():
    for seed in (0, -1, 2**63 + 9):
        random = RecordRandom(seed, "n", lambda: 0)
        records, epochs = [0, 5, 2**40, 5], [0, 3, 2, 2**33]
        random.at(records, epochs)
        for count in (1, 3, 4, 5, 9):
            for record, epoch, numbers in zip(records, epochs, random.each(count), strict=True):
                expected = Random(seed, "n", lambda epoch=epoch: epoch).generator(record).random(count)
                np.testing.assert_array_equal(numbers, expected)


def test_no_records_have_no_random_numbers():
    assert RecordRandom(0, "n", lambda: 0).each(3).shape == (0, 3)


def test_a_part_leaves_the_generator_at_the_start_of_its_numbers():
    random, fresh = (Random(5, "drop", lambda: 2) for _ in range(2))
    random.uniform(np.empty((2, 4)), whole=(9, 4), start=(7, 0))
    assert random.generator().random() == fresh.generator().random()
