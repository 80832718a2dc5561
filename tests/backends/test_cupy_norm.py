"""The cupy backend's LayerNorm and RMSNorm, on the processor, against the layers' own states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import KernelSide, OwnSide, near, rounded
from cuda_on_host import ShimBackend, missing
from nacre import HostMemory, Own
from nacre_cupy.kernels.norm import LayerNormKernel, RMSNormKernel
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.normalisation.rms_norm import RMSNormLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]
BOTH: list[tuple[type, type]] = [(LayerNormLayer, LayerNormKernel), (RMSNormLayer, RMSNormKernel)]
SHAPES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((6, 20, 48), {"axis": -1}),
    ((5, 3, 7), {"axis": -1}),  # no packs, and fewer rows than a warp takes
    ((3, 300), {}),
    ((2, 4096), {"scale": False}),  # a block for each row
    ((3, 2101), {"epsilon": 1e-2}),
    ((700, 8), {}),  # several parts
    ((2, 3, 10), {}),  # over both axes
    ((4, 1), {}),
    ((1, 1), {"scale": False}),
]


class Both:
    """The two sides, with the same parameters, after a pass in a phase."""

    def __init__(self, which: tuple[type, type], x: np.ndarray, dtype: str, phase: str, fields: Any) -> None:
        layer, kernel = which
        made, given = layer(name="norm", bottoms="x", tops="y", **fields), rounded(x, dtype)
        options = (dtype, phase, 0, None, 0)
        self.own, self.fast = OwnSide(HostMemory.shared(), *options), KernelSide(ShimBackend(), *options)
        for side in (self.own, self.fast):
            side.prepare = lambda state, side=side: fill(side, state)

        def gradients(shapes: Any) -> list[Any]:
            return [rounded(np.random.default_rng(5).normal(size=shape), dtype) for shape in shapes]

        wanted = [0] if phase == "train" else []
        with np.errstate(all="ignore"):
            self.own.run(made, [given], wanted, gradients)
        self.fast.run(made, kernel, [given], wanted, gradients)

    def check(self, dtype: str, close: float | None = None) -> None:
        near(self.fast.tops[0], self.own.tops[0], dtype, "top", close=close)
        if self.own.diffs[0] is None:
            return
        near(self.fast.diffs[0], self.own.diffs[0], dtype, "gradient", close=close or 1e-5 * (dtype == "bf16"))
        wide = "float64" if dtype == "float64" else "float32"
        for one, other in zip(self.fast.state.parameters, self.own.state.parameters, strict=True):
            near(np.asarray(one.gradient), np.asarray(other.gradient), wide, "gradient of a parameter", close=close)


def fill(side: Any, state: Any) -> None:
    random = np.random.default_rng(1)
    for parameter in state.parameters:
        parameter.blob = side.view.empty(parameter.shape)
        parameter.blob[...] = random.uniform(0.5, 1.5, parameter.shape)
        parameter.gradient = side.view.empty(parameter.shape) if parameter.trainable else None


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("shape", "fields"), SHAPES)
@pytest.mark.parametrize("which", BOTH, ids=["LayerNorm", "RMSNorm"])
def test_rows(which: Any, shape: tuple[int, ...], fields: dict[str, Any], dtype: str) -> None:
    x = np.random.default_rng(0).normal(0.5, 2, size=shape)
    for phase in ("train", "test"):
        Both(which, x, dtype, phase, fields).check(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_far_from_0_a_row_is_as_exact(dtype: str) -> None:
    """Beside numbers that are computed with more digits; the first one of a row is no measure of the others."""
    x = np.random.default_rng(2).normal(1000, 1, size=(4, 512))
    x[1, 0], x[2, 7] = -1000, 5000
    given = x.astype(dtype)
    found = Both(BOTH[0], given, dtype, "train", {"scale": False, "bias": False}).fast.tops[0]
    wide = given.astype(np.longdouble)
    centred = wide - wide.mean(axis=1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.longdouble(1e-5))
    assert abs(found - wanted).max() < 40 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("which", BOTH, ids=["LayerNorm", "RMSNorm"])
def test_numbers_that_are_not_ordinary(which: Any, dtype: str) -> None:
    """What is not finite stays in its row."""
    x = np.random.default_rng(3).normal(size=(6, 40))
    x[0, 3], x[1, 0], x[2, 39], x[3], x[4] = np.nan, np.inf, -np.inf, 7.0, 1e-30
    Both(which, x, dtype, "train", {}).check(dtype, 1e-5)


def test_images_are_declined() -> None:
    for layer, kernel in BOTH:
        made: Any = layer(name="norm", bottoms="x", tops="y", axis=-1)
        assert "no images" in str(kernel.supports(made, [Own((2, 3, 4, 5), "float32")]))
        assert kernel.supports(made, [Own((2, 3, 4), "float32")]) is None
