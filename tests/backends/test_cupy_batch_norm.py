"""The cupy backend's BatchNorm, on the processor, against the layer's own state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import KernelSide, OwnSide, near, rounded
from cuda_on_host import ShimBackend, missing
from nacre import HostMemory, Own
from nacre_cupy.kernels.batch_norm import BatchNormKernel, BatchNormSumKernel
from nacre_cupy.kernels.launch import launch
from nacre_layers.neurons import ReLU
from nacre_layers.normalisation.batch_norm import BatchNormLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]
CASES: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({}, (4, 16, 9, 10)),  # whole vectors with the channels last, and in C order none
    ({}, (3, 5, 8, 8)),  # and the other way round
    ({"neuron": ReLU()}, (9, 24, 16, 16)),  # several parts
    ({"scale": False, "bias": False}, (3, 7, 5, 3)),
    ({"bias": False, "decay": 0.5, "epsilon": 1e-2}, (3, 2100)),  # several tiles
    ({"use_running": True, "neuron": ReLU()}, (3, 8, 4, 4)),
    ({}, (37, 10)),
    ({"axis": -1}, (4, 6, 12)),
    ({}, (1, 3, 1, 1)),
    ({}, (600, 1, 2, 8)),
]


LITTLE = 1e-6
"""In bf16, beside the largest gradient: those of three rows are differences of nearly equal numbers."""


class WithSum(BatchNormSumKernel):
    """BatchNorm with a sum and a ReLU behind it, made as one kernel."""

    def __init__(self, layer: Any, view: Any, inputs: list[Any], diffs: list[Any]) -> None:
        below = BatchNormKernel(layer, view, inputs[:1], diffs[:1])
        super().__init__(layer, view, inputs, diffs, below=below, neuron=ReLU())


class Both:
    """The two sides, with the same parameters; with `more`, that is added to the top, with a ReLU behind it."""

    def __init__(
        self,
        fields: dict[str, Any],
        x: np.ndarray,
        dtype: str,
        last: bool,
        phase: str,
        more: Any = None,
        shift: int = 0,
    ) -> None:
        layer = BatchNormLayer(name="norm", bottoms="x", tops="y", **fields)
        given = rounded(x, dtype)
        self.more = None if more is None else rounded(more, dtype)
        options = (dtype, phase, 0, None, 0)
        self.own, self.fast = OwnSide(HostMemory.shared(), *options), KernelSide(ShimBackend(last, shift), *options)
        relu = fields.get("neuron") is not None or more is not None

        def gradients(shapes: Any) -> list[Any]:
            return [rounded(np.random.default_rng(5).normal(size=shape), dtype) for shape in shapes]

        def gated(shapes: Any) -> list[Any]:  # what the neuron's own state would leave
            return [np.where(self.expected > 0, one, 0).astype(one.dtype) if relu else one for one in gradients(shapes)]

        for side in (self.own, self.fast):
            side.prepare = lambda state, side=side: self.fill(side, state)
        self.own.between = lambda state: self.top(state, relu, dtype)
        with np.errstate(all="ignore"):
            wanted = [0] if phase == "train" else []
            self.own.run(layer, [given], wanted, gradients)
            if relu and wanted:
                self.own.state.blobs_diff = gated([self.expected.shape])
                self.own.state.backward([given], self.own.diffs)
        if self.more is None:
            self.fast.run(layer, BatchNormKernel, [given], wanted, gradients)
        else:
            self.fast.run(layer, WithSum, [given, self.more], [*wanted, 1] if wanted else [], gradients)

    def top(self, state: Any, relu: bool, dtype: str) -> None:
        made = state.blobs[0] if self.more is None else state.blobs[0] + self.more
        self.expected = rounded(np.maximum(made, 0) if relu else made, dtype)

    def fill(self, side: Any, state: Any) -> None:
        random = np.random.default_rng(1)
        for parameter in state.parameters:
            parameter.blob = side.view.empty(parameter.shape)
            parameter.blob[...] = random.uniform(0.5, 1.5, parameter.shape)
            parameter.gradient = side.view.empty(parameter.shape) if parameter.trainable else None


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("fields", "shape"), CASES)
def test_batch_norm(fields: dict[str, Any], shape: tuple[int, ...], dtype: str, last: bool) -> None:
    for phase in ("train", "test") if shape[0] == 3 else ("train",):
        check(fields, shape, dtype, last, phase)


@pytest.mark.parametrize("dtype", KINDS)
def test_of_arrays_that_no_pack_fits(dtype: str) -> None:
    for shape in ((4, 16, 9, 10), (3, 2104), (3, 5, 8, 8)):
        check({}, shape, dtype, last=True, phase="train", shift=1)


def check(fields: dict[str, Any], shape: tuple[int, ...], dtype: str, last: bool, phase: str, shift: int = 0) -> None:
    x = np.random.default_rng(0).normal(size=shape) * 2 + 3
    both = Both(fields, x, dtype, last, phase, shift=shift)
    close = {"float32": 1e-6, "float64": 1e-13, "bf16": None}[dtype]
    near(both.fast.tops[0], both.expected, dtype, "top", close=close)
    if phase == "train":
        near(both.fast.diffs[0], both.own.diffs[0], dtype, "gradient", 1, close or LITTLE)
    wide = "float32" if dtype == "bf16" else dtype
    for ours, theirs in zip(both.fast.state.parameters, both.own.state.parameters, strict=True):
        near(ours.blob, theirs.blob, wide, ours.name, close=close)
        if ours.trainable and phase == "train":
            near(ours.gradient, theirs.gradient, wide, f"gradient of {ours.name}", close=close)


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(4, 16, 9, 10), (3, 5, 8, 8), (3, 2100)])
def test_with_a_sum_behind_it(shape: tuple[int, ...], dtype: str, last: bool) -> None:
    for phase in ("train", "test"):
        x, more = np.random.default_rng(0).normal(size=(2, *shape)) * 2 + 3
        more.flat[5] = np.nan
        both = Both({}, x, dtype, last, phase, more - 3)
        close = {"float32": 1e-6, "float64": 1e-13, "bf16": None}[dtype]
        near(both.fast.tops[0], both.expected, dtype, "top", close=close)
        if phase == "train":
            near(both.fast.diffs[0], both.own.diffs[0], dtype, "gradient", 1, close or LITTLE)
            near(both.fast.diffs[1], both.own.state.blobs_diff[0], dtype, "gradient of the other blob", 0)


def test_running_values_follow_what_cudnn_has_measured() -> None:
    """The kernel beside it gets mean and variance themselves; here the variance is made of the slope."""
    backend, random = ShimBackend(), np.random.default_rng(0)
    for channels in (1, 7, 300):
        variance = np.array([0, 1e-7, 1e3, *random.uniform(0, 4, 297)][:channels])
        mean, slope = random.normal(size=channels), 1 / np.sqrt(variance + 1e-5)
        given = [backend.empty((channels,), "float32") for _ in range(4)]
        for array, numbers in zip(given, (mean, slope, np.ones(channels), np.full(channels, 3)), strict=True):
            array[...] = numbers
        launch(backend, "batch_norm", "batch_norm_follow<float>", channels, *given, 0.9, 1e-5, 50, channels)
        np.testing.assert_allclose(given[2], 0.9 + 0.1 * mean, rtol=1e-6)
        np.testing.assert_allclose(given[3], 2.7 + 0.1 * variance * 50 / 49, rtol=1e-6)


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])
@pytest.mark.parametrize("dtype", KINDS)
def test_a_channel_with_a_number_that_is_none_is_as_in_the_layers_own_state(dtype: str, last: bool) -> None:
    for place in ((0, 0), (2, 5)):  # the first number of a channel is what others are compared with
        for bad in (np.nan, np.inf, -np.inf):
            x = np.random.default_rng(0).normal(size=(3, 8, 2, 4))
            x[place[0], place[1], 0, 0] = bad
            for fields in ({}, {"use_running": True, "neuron": ReLU()}):
                both = Both(fields, x, dtype, last, "train")
                assert (np.isnan(both.fast.tops[0]) == np.isnan(both.expected)).all()
                close = {"float32": 1e-6, "float64": 1e-13, "bf16": None}[dtype]
                near(both.fast.tops[0], both.expected, dtype, "top", close=close)


def test_declines() -> None:
    blob = Own((2, 3, 4, 5), "float32")
    for fields in ({"use_batch": True}, {"sync": True}, {"axis": 2}):
        assert BatchNormKernel.supports(BatchNormLayer(bottoms="x", tops="y", **fields), [blob])
