"""The cupy backend's conversion of pictures, on the processor, against nacre's transformers on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import near
from cuda_on_host import ShimBackend, from_bits, missing
from nacre import DataError, Transformer
from nacre.protocols.view import Scalars, View
from nacre.random import RecordRandom
from nacre_cupy.kernels import convert
from nacre_cupy.kernels.convert import Conversion
from nacre_data.pipeline import Pipeline
from nacre_data.transformers import Crop, Mirror, RandomShift, Scale, SubMean

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

SHAPE = (3, 13, 18)
FULL = np.random.default_rng(1).uniform(0, 255, SHAPE)
SMALL = np.random.default_rng(2).uniform(0, 255, (3, 8, 16))
CASES: list[list[Transformer]] = [
    [],
    [Scale(scale=1 / 256)],
    [Scale(scale=[1.0, 0.5, 0.25]), SubMean(mean=0.5)],
    [Crop(size=(8, 16)), Mirror(), SubMean(mean=[104.0, 117.0, 123.0]), Scale(scale=0.017)],
    [SubMean(mean=FULL), Mirror(), Crop(size=(9, 5))],
    [SubMean(mean=FULL), Crop(size=(8, 16)), SubMean(mean=SMALL), Mirror(), Scale(scale=2.0), SubMean(mean=SMALL)],
    [Mirror(), SubMean(mean=FULL), Scale(scale=0.1)],
    [Crop(size=(13, 18)), Mirror()],
    [Scale(scale=0.5), RandomShift(pixels=1), SubMean(mean=3.0)],
    [
        RandomShift(pixels=4),
        SubMean(mean=FULL),
        Mirror(),
        Crop(size=(8, 16)),
        RandomShift(pixels=20),
        SubMean(mean=SMALL),
    ],
    [Crop(size=(8, 16)), SubMean(mean=SMALL), Mirror(), RandomShift(pixels=2), Scale(scale=[1.0, 0.5, 0.25])],
]


def as_change(one: Any) -> Any:
    if isinstance(one, Crop):
        return convert.Crop(*one.size)
    if isinstance(one, Mirror):
        return convert.Mirror()
    if isinstance(one, RandomShift):
        return convert.Shift(one.pixels)
    return convert.Arithmetic(np.asarray(one.scale if isinstance(one, Scale) else one.mean), isinstance(one, Scale))


@pytest.mark.parametrize("last", [0, 3, 8], ids=["plain", "channels-last", "padded"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bf16"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_conversion(case: int, dtype: str, last: int) -> None:
    changes = CASES[case]
    plain = "float64" if dtype == "float64" else "float32"
    for images, phase, stored in (
        (5, "train", "uint8"),
        (1, "test", "uint8"),
        (2, "train", "float32"),
        (0, "test", "uint8"),
    ):
        pictures = np.random.default_rng(0).integers(0, 256, (images, *SHAPE)).astype(stored)
        randoms = [RecordRandom(7, f"data/{number}", lambda: 0) for number in range(len(changes))]
        for one in randoms:
            one.at(np.arange(images) + 40, np.full(images, 2))

        backend = ShimBackend()
        view = View(backend, phase=phase, dtype=plain, seed=7, scalars=Scalars())
        conversion = Conversion(view, SHAPE, [as_change(one) for one in changes])
        drawn = [
            one.each(1 if isinstance(change, Mirror) else 2)
            for one, change in zip(randoms, changes, strict=True)
            if isinstance(change, Crop | Mirror | RandomShift)
        ]
        channels, height, width = conversion.sizes[-1]
        places, batch = (
            backend.empty((len(conversion.sizes), images, 3), "int32"),
            backend.empty(pictures.shape, stored),
        )
        places[...], batch[...] = conversion.places(drawn, images, phase), pictures
        shape = (images, height, width, last) if last else (images, channels, height, width)
        to = backend.empty(shape, "uint16" if dtype == "bf16" else dtype)
        to.view(np.uint8)[...] = 0xFF
        conversion.enqueue(batch, places, to, dtype, last)
        backend.check_guards()

        expected = np.zeros((images, channels, height, width), plain)
        if images:
            pipeline = Pipeline("data", "x", pictures.copy(), expected, list(zip(changes, randoms, strict=True)), phase)
            pipeline.run(pictures.copy(), np.arange(images) + 40, np.full(images, 2))
        found = from_bits(to) if dtype == "bf16" else np.asarray(to)
        if last:
            assert not found[..., channels:].any()
            found = np.moveaxis(found[..., :channels], -1, 1)
        near(found, expected, dtype, "picture", 0, 1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bf16"])
def test_numbers_that_are_not_ordinary(dtype: str) -> None:
    every = np.array([np.nan, np.inf, -np.inf, np.finfo("float32").max, -0.0, 1e-30, 2.0], np.float32)
    pictures, backend = np.resize(every, (2, *SHAPE)), ShimBackend()
    plain = "float64" if dtype == "float64" else "float32"
    view = View(backend, phase="test", dtype=plain, seed=0, scalars=Scalars())
    conversion = Conversion(view, SHAPE, [convert.Arithmetic(np.array(0.5), True)])
    places, batch = backend.empty((1, 2, 3), "int32"), backend.empty(pictures.shape, "float32")
    places[...], batch[...] = conversion.places([], 2, "test"), pictures
    to = backend.empty(pictures.shape, "uint16" if dtype == "bf16" else dtype)
    conversion.enqueue(batch, places, to, dtype)
    found = from_bits(to) if dtype == "bf16" else np.asarray(to)
    near(found, pictures.astype(plain) * 0.5, dtype, "picture", 0, each=True)


def test_what_does_not_fit() -> None:
    view = View(ShimBackend(), phase="train", dtype="float32", seed=0, scalars=Scalars())
    with pytest.raises(DataError, match="fit no picture of shape"):
        Conversion(view, SHAPE, [convert.Crop(2, 2), convert.Arithmetic(FULL, False)])
    assert Conversion.unfit(SHAPE, "uint8", 10) is None
    assert Conversion.unfit(SHAPE, "int64", 10)
    assert Conversion.unfit((3, 1 << 15, 1 << 15), "uint8", 10)
