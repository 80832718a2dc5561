"""BatchNorm with a sum and ReLU behind it: by cuDNN in trainings on images, else in CUDA C++, see batch_norm.cu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nacre import Array, LayerState, Neuron, Own, is_identity
from nacre_layers.normalisation.batch_norm import BatchNormLayer, BatchNormState

from ..normalisations import Normalisation, Way, graph_of
from .launch import LANES, THREADS, TYPES, CudaKernel, function, is_image, memory

MOST_PARTS = 128
"""Parts in which a channel is summed up, at most."""
ROWS = 16
"""Numbers of a channel that a thread adds up, at least, before there is another part."""


class BatchNormKernel(CudaKernel, reads="inputs"):
    """BatchNorm, unless with `use_batch` or `sync`; applies ReLU itself.

    With a second bottom, which `BatchNormSumKernel` has, that is added before the ReLU.
    """

    in_bf16 = True

    @classmethod
    def supports(cls, layer: BatchNormLayer, inputs: list[Any]) -> str | None:
        if layer.use_batch:
            return "serves no use_batch"
        if layer.sync:
            return "serves the mean and variance of each rank: sync=False"
        count = len(inputs[0].shape)
        if is_image(inputs[0].shape) and layer.axis not in (1, 1 - count):  # which may lie last in memory
            return "serves the channels of images"
        return super().supports(layer, inputs)

    def __init__(self, layer: BatchNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.own = self._own()
        self.parameters, self.learned, self.blobs = self.own.parameters, self.own.learned, self.own.blobs
        self.apply_relu(self._neuron())
        self.by_cudnn = ByCudnn.of(self) if self.relu else None  # without it, in `ready`: a sum may take its place
        if self.by_cudnn is not None:
            self.intermediates = [backend.blob((-(-inputs[0].size // 8),), "uint8")]

    def _own(self) -> BatchNormState:
        """Return the state that declares the top and the parameters."""
        return BatchNormState(self.layer, self.backend, self.inputs[:1], self.diffs[:1])

    def _neuron(self) -> Neuron:
        return self.layer.neuron

    def sum_behind(self, neuron: Neuron) -> Callable[[list[Any], list[Any]], LayerState] | None:
        if not is_identity(self.layer.neuron):
            return None
        return partial(BatchNormSumKernel, self.layer, self.backend, below=self, neuron=neuron)

    def ready(self) -> None:
        before, channels, behind = self.own.shape
        if self.inputs[0].layout != "plain":
            before, behind = before * behind, 1
        self.shape, self.kind = (before, channels, behind), TYPES[self.inputs[0].dtype]
        self.wide = "double" if self.kind == "double" else "float"
        wide = "float64" if self.kind == "double" else "float32"
        lanes = LANES[self.kind]
        groups = channels if channels % lanes else channels // lanes
        if behind == 1:
            lines = THREADS // min(groups, THREADS)
            self.tiles, wanted = -(-channels // THREADS), -(-before // (lines * ROWS))
        else:
            self.tiles, wanted = channels, -(-before * behind // (THREADS * lanes * ROWS))
        self.n_parts = max(1, min(wanted, MOST_PARTS))
        empty = self.backend.empty
        self.parts = empty((self.n_parts, channels, 2), "float64")
        # the means, and behind them what their type could not hold; that cuDNN does not tell, and leaves at 0
        self.mean, self.slope = empty((2, channels), wide), empty((channels,), wide)
        self.means = empty((channels, 2), wide)
        if not self.relu:
            self.by_cudnn = ByCudnn.of(self)
        if self.by_cudnn is not None:
            self.by_cudnn.ready()

    def value(self, name: str) -> Array | None:
        """Return the scale or the bias, if there is one."""
        return self.learned[name].blob if name in self.learned else None

    def gradient(self, name: str) -> Array | None:
        """Return where the gradient of the scale or the bias is wanted, if it is."""
        return self.learned[name].gradient if name in self.learned else None

    def _sum(self, kernel: str, *arrays: Any) -> None:
        """Sum up the channels, in parts: a block for each part of each tile of channels."""
        given = tuple(0 if one is None else one for one in arrays)
        blocks = (self.tiles * self.n_parts,)
        run = function(self.backend, "batch_norm", f"{kernel}<{self.kind}>")
        run(blocks, (THREADS,), (*given, self.parts, self.n_parts, *self.shape))

    def forward(self, inputs: list[Own]) -> None:
        follows = self.own.follows
        if follows and self.by_cudnn is not None:
            self.by_cudnn.forward(*inputs)
            return
        x, y, kind = inputs[0].memory, self.blobs[0].memory, self.kind
        if follows:
            self._sum("batch_norm_moments", x)
        running = self.own.mean.blob, self.own.variance.blob
        numbers = float(self.layer.decay), float(self.layer.epsilon)
        parts = (self.parts if follows else None, self.n_parts)
        arrays = (x, *parts, *running, self.mean, self.slope)
        self.launch("batch_norm", f"batch_norm_measure<{kind}>", self.shape[1], *arrays, *numbers, *self.shape)
        other = memory(inputs[1]) if len(inputs) > 1 else None
        arrays = (x, other, y, self.mean, self.slope, self.value("scale"), self.value("bias"), int(self.relu))
        items = -(-inputs[0].size // LANES[kind])
        self.launch("batch_norm", f"batch_norm_apply<{kind}>", items, *arrays, *self.shape)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if self.own.follows and self.by_cudnn is not None and self.by_cudnn.backward(inputs[0], *diffs):
            return
        x, dy, kind = inputs[0].memory, self.blobs_diff[0].memory, self.kind
        y = self.blobs[0].memory if self.relu else None
        self._sum("batch_norm_slopes", x, y, dy, self.mean, self.slope)
        count = self.shape[0] * self.shape[2]
        gradients = self.gradient("scale"), self.gradient("bias")
        arrays = (self.parts, self.n_parts, *gradients, self.means, count, int(self.own.follows), self.shape[1])
        self.launch("batch_norm", f"batch_norm_total<{self.wide}>", self.shape[1], *arrays)
        dx, passed_on = (memory(one) for one in (*diffs, None)[:2])
        if dx is not None or passed_on is not None:
            arrays = (x, y, dy, dx, passed_on, self.mean, self.slope, self.value("scale"), self.means)
            items = -(-inputs[0].size // LANES[kind])
            self.launch("batch_norm", f"batch_norm_backward<{kind}>", items, *arrays, *self.shape)


class BatchNormSumKernel(BatchNormKernel):
    """BatchNorm, and the sum of its top with another blob, the second bottom; applies the sum's ReLU itself."""

    def __init__(
        self,
        layer: BatchNormLayer,
        backend: Any,
        inputs: list[Any],
        diffs: list[Any],
        *,
        below: BatchNormKernel,
        neuron: Neuron,
    ) -> None:
        self.below, self.behind = below, neuron
        super().__init__(layer, backend, inputs, diffs)

    def _own(self) -> BatchNormState:
        return self.below.own

    def _neuron(self) -> Neuron:
        return self.behind

    def sum_behind(self, neuron: Neuron) -> None:
        """Return None: one sum is enough."""


class ByCudnn:
    """What a `BatchNormKernel` does in phase train, by cuDNN.

    The running values follow by a kernel of our own, since cuDNN does not say which variance its own follow.
    """

    def __init__(self, kernel: BatchNormKernel, one: Normalisation, made: dict[Way, Any]) -> None:
        self.kernel, self.one, self.made = kernel, one, made
        self.count = one.shape[0] * one.shape[2] * one.shape[3]
        self.most = max(1, *(each.plan.workspace for each in made.values()))
        numbers = {"epsilon": kernel.layer.epsilon, "share": 1 - kernel.layer.decay}
        numbers |= {"zero": 0.0} if one.relu else {}
        self.numbers = {name: np.array([number], np.float32) for name, number in numbers.items()}

    @classmethod
    def of(cls, kernel: BatchNormKernel) -> ByCudnn | None:
        """Return it, or None if cuDNN has no such plans, or the blobs do not lie as it reads them."""
        view, x = kernel.backend, kernel.inputs[0]
        device: Any = view.backend
        dtype = "bf16" if view.compute == "bf16" else view.dtype
        if device.dnn is None or view.phase != "train" or dtype == "float64":
            return None
        if not is_image(x.shape) or device.layout_is_plain(x.shape, dtype):
            return None
        add, gives = len(kernel.inputs) > 1, len(kernel.diffs) > 1 and kernel.diffs[1] is not None
        images, channels, *size = x.shape
        one = Normalisation((images, channels, prod(size[:-1]), size[-1]), add, kernel.relu)
        if add and not kernel.relu:
            return None  # cuDNN has no such plan
        wanted: dict[Way, Normalisation] = {"forward": one}
        if kernel.diffs[0] is not None:
            wanted["backward"] = replace(one, add=False, gives=gives)
        with device.here:
            made: dict[Way, Any] = {
                way: device.dnn.computation(graph_of, what, way, dtype, deterministic=view.deterministic)
                for way, what in wanted.items()
            }
        return None if None in made.values() else cls(kernel, one, made)

    def ready(self) -> None:
        """Make room for what cuDNN writes and nobody reads, and a scale or bias that the layer does not have."""
        channels, view = self.one.shape[1], self.kernel.backend
        view.scratch((self.most,), "uint8")
        self.unread = [view.empty((channels,), "float32") for _ in range(4)]
        numbers = {"scale": np.ones(channels), "bias": np.zeros(channels)}
        learned = self.kernel.learned
        self.fixed = {name: view.constant(one, "float32") for name, one in numbers.items() if name not in learned}

    def _value(self, name: str) -> Array:
        return self.fixed[name] if name in self.fixed else self.kernel.learned[name].blob

    def forward(self, x: Own, other: Own | None = None) -> None:
        """Compute the top, mean and slope, and let the running values follow."""
        kernel, own, layer = self.kernel, self.kernel.own, self.kernel.layer
        arrays = {"x": x.memory, "scale": self._value("scale"), "bias": self._value("bias")}
        arrays |= {"old_mean": own.mean.blob, "old_variance": own.variance.blob}
        arrays |= {"new_mean": self.unread[0], "new_variance": self.unread[1]}
        arrays |= {"mean": kernel.mean, "slope": kernel.slope, "y": kernel.blobs[0].memory}
        arrays |= {} if other is None else {"other": other.memory}
        arrays |= {"mask": kernel.intermediates[0]} if self.one.relu else {}
        self._enqueue("forward", arrays, self.numbers)
        channels = self.one.shape[1]
        follow = (kernel.mean, kernel.slope, own.mean.blob, own.variance.blob, float(layer.decay), float(layer.epsilon))
        kernel.launch("batch_norm", "batch_norm_follow<float>", channels, *follow, self.count, channels)

    def backward(self, x: Own, dx: Own | None, dother: Own | None = None) -> bool:
        """Compute all gradients; return False, and do nothing, if that of the bottom is not wanted."""
        if dx is None:
            return False
        kernel = self.kernel
        arrays = {"x": x.memory, "dy": kernel.blobs_diff[0].memory, "dx": dx.memory, "scale": self._value("scale")}
        arrays |= {"mean": kernel.mean, "slope": kernel.slope}
        arrays |= {"mask": kernel.intermediates[0]} if self.one.relu else {}
        arrays |= {} if dother is None else {"dother": dother.memory}
        for number, name in enumerate(("scale", "bias"), 2):
            wanted = kernel.gradient(name)
            arrays[f"d{name}"] = self.unread[number] if wanted is None else wanted
        self._enqueue("backward", arrays)
        return True

    def _enqueue(self, way: Way, arrays: dict[str, Any], numbers: dict[str, np.ndarray] | None = None) -> None:
        computation = self.made[way]
        computation.enqueue(arrays, self.kernel.backend.scratch((self.most,), "uint8"), numbers)
