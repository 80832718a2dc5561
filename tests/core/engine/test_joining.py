"""Kernels that compute the layer below as well: the blob between them is never written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nacre import BlobError, HostMemory, InputLayer, Layer, LayerState, Names, Net, Parameter, PluginError
from nacre_layers.initializers import Constant
from registries import NewRegistry
from small_layers import SquareLossLayer


class JoiningBackend(HostMemory):
    name, lineage = "joining", ("joining",)


class GainLayer(Layer, can_do_bp=True, has_param=True):
    bottoms: Names
    tops: Names


class GainState(LayerState, of=GainLayer, reads="inputs"):
    """y = gain · (x + other); the other bottom is added if there is one."""

    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.parameters = [Parameter("gain", (1,), init=Constant(value=1.0))]

    @staticmethod
    def plain(array: Any) -> Any:
        return getattr(array, "memory", array)

    def forward(self, inputs: Any) -> None:
        total = sum(self.plain(one) for one in inputs)
        self.plain(self.blobs[0])[...] = self.parameters[0].blob * total

    def backward(self, inputs: Any, diffs: Any) -> None:
        dy = self.plain(self.blobs_diff[0])
        gradient = self.parameters[0].gradient
        if gradient is not None:
            gradient[0] = (dy * sum(self.plain(one) for one in inputs)).sum()
        for dx in diffs:
            if dx is not None:
                self.plain(dx)[...] = self.parameters[0].blob * dy


class GainKernel(GainState):
    def joined_with(self, below: LayerState, index: int) -> Callable[[list[Any], list[Any]], LayerState] | None:
        if type(below) is not GainKernel:
            return None
        return lambda inputs, diffs: TwoGains(self, below, index, inputs, diffs)


class TwoGains(GainKernel):
    """Two layers in one; the bottoms are those of the lower one, and then the other of the upper one."""

    def __init__(self, upper: GainKernel, lower: GainKernel, index: int, inputs: Any, diffs: Any) -> None:
        LayerState.__init__(self, upper.layer, upper.backend, inputs, diffs)
        self.blobs = [upper.backend.blob(inputs[0].shape)]
        self.parameters = [*lower.parameters, *upper.parameters]
        self.count = len(lower.layer.bottoms)

    def joined_with(self, below: LayerState, index: int) -> None:
        return None

    def forward(self, inputs: Any) -> None:
        lower, upper = (one.blob for one in self.parameters)
        arrays = [self.plain(one) for one in inputs]
        self.plain(self.blobs[0])[...] = upper * (lower * sum(arrays[: self.count]) + sum(arrays[self.count :]))

    def backward(self, inputs: Any, diffs: Any) -> None:
        dy, (lower, upper) = self.plain(self.blobs_diff[0]), self.parameters
        arrays = [self.plain(one) for one in inputs]
        below, others = sum(arrays[: self.count]), sum(arrays[self.count :])
        assert lower.gradient is not None
        assert upper.gradient is not None
        lower.gradient[0] = (upper.blob * dy * below).sum()
        upper.gradient[0] = (dy * (lower.blob * below + others)).sum()
        for number, dx in enumerate(diffs):
            if dx is not None:
                self.plain(dx)[...] = upper.blob * dy * (lower.blob if number < self.count else 1)


class OddKernel(GainKernel):
    """Returns what is no kernel."""

    def joined_with(self, below: LayerState, index: int) -> Any:
        return lambda inputs, diffs: None


def layers() -> list[Layer]:
    return [
        InputLayer(tops="x", shape=3, batch_size=4, name="in"),
        InputLayer(tops="t", shape=3, batch_size=4, name="target"),
        GainLayer(bottoms="x", tops="low", name="low"),
        GainLayer(bottoms="t", tops="side", name="side"),
        GainLayer(bottoms=["side", "low"], tops="high", name="high"),
        GainLayer(bottoms="high", tops="top", name="top"),
        SquareLossLayer(name="loss", bottoms="top"),
    ]


def net(new_registry: NewRegistry, kernel: type | None, **options: Any) -> Net:
    registry = new_registry()
    registry.register(JoiningBackend, "joining")
    registry.register(GainLayer)
    if kernel is not None:
        registry.register_kernel(kernel, "Gain", "joining")
    made = Net("gains", layers(), backend="joining", **options)
    for number, name in enumerate(("x", "t")):
        made.write(name, np.random.default_rng(number).normal(size=(4, 3)))
    for number, handle in enumerate(made.parameters.values()):
        handle.value = [number + 0.5]
    return made


def results(made: Net) -> list[Any]:
    """Return the loss and all gradients; both passes run twice, after one another."""
    for _ in range(2):
        made.forward()
        made.backward()
    return [made.loss(), *(handle.gradient for handle in made.parameters.values()), made.gradient("x")]


def test_a_kernel_computes_the_layer_below(new_registry: NewRegistry) -> None:
    with net(new_registry, None, input_gradients=["x"]) as alone:
        expected, names = results(alone), list(alone.parameters)
    with net(new_registry, GainKernel, input_gradients=["x"]) as joined:
        np.testing.assert_allclose(results(joined)[0], expected[0], rtol=1e-6)
        for one, other in zip(results(joined), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        assert list(joined.parameters) == names
        works = {op.name: [one.name for one in op.members] for op in joined.ops if len(op.members) > 1}
        assert works == {"high": ["side", "high"]}  # one of two below; and what is joined joins no other here
        assert [layer.name for layer in joined.summary().layers] == [
            "in",
            "target",
            "low",
            "side",
            "high",
            "top",
            "loss",
        ]
        assert joined.summary().bytes["blobs"] < alone.summary().bytes["blobs"]
        with pytest.raises(BlobError, match="'side' is not written: one kernel computes it together"):
            joined.blob("side")
        joined.freeze("side")
        gradient = joined.parameters["high/gain"].gradient
        assert gradient is not None and gradient == pytest.approx(expected[3], rel=1e-5)


def test_blobs_that_are_read_outside_are_written(new_registry: NewRegistry) -> None:
    with net(new_registry, GainKernel, keep=["side", "low"]) as kept:
        kept.forward()
        np.testing.assert_allclose(kept.blob("side"), 1.5 * kept.blob("t"), rtol=1e-6)
        assert [[one.name for one in op.members] for op in kept.ops if len(op.members) > 1] == [["high", "top"]]
    with net(new_registry, GainKernel, keep="all") as whole:
        assert all(op.members == [op] for op in whole.ops)


def test_what_is_no_kernel_is_told(new_registry: NewRegistry) -> None:
    with pytest.raises(PluginError, match="joined_with"):
        net(new_registry, OddKernel)
