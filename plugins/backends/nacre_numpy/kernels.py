"""The numpy backend's kernels: layers at work on its own blobs, with the batch shared out over threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from nacre import Array, LayerState, MethodState, Neuron, Own, Span
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.filters import declare
from nacre_layers.linear.inner_product import InnerProductLayer, InnerProductState
from nacre_layers.linear.product import not_plain
from nacre_layers.neurons import ReLU, is_relu
from nacre_layers.pooling.base import pooled_axes
from nacre_layers.pooling.functions import Max, Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.windows import WindowAxis

from .arrays import Arrays
from .convolution import Convolution2D, gate_tasks
from .inner_product import InnerProduct
from .pooling import Pooling2D
from .threads import Pool, Task, maximum, run
from .update import MomentumUpdate

CHUNK = 1 << 16
"""Elements that an element-wise kernel works on at a time, so that they stay in cache."""


def pool_of(view: Any) -> Pool:
    """Return the threads of a net's backend."""
    return view.backend.pool


def channels_last(blob: Own) -> Array:
    """Return the memory of images as (images, rows, columns, channels); those of one axis have one row."""
    images, channels, *image = blob.shape
    rows, columns = [1, *image][-2:]
    return blob.memory.reshape(images, rows, columns, channels)  # a plain one has one channel, or one pixel


def rows_and_columns(axes: Iterable[WindowAxis]) -> list[WindowAxis]:
    """Return the windows over rows and columns; images of one axis have one row."""
    return [WindowAxis(1, 1), *axes][-2:]


class OneBottom(LayerState, reads="inputs"):
    """A kernel with one bottom; its arrays are the same at every call, so `ready` makes all views of them."""

    LIES: Literal["in order", "by channels", "as below"] = "in order"
    """How it wants blobs of three axes: in C order, as images with the channels last, or as its bottom lies."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.inputs, self.diffs = inputs, diffs

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return None if len(inputs) == 1 else "serves one bottom"


class Product(OneBottom):
    """A kernel with a weight and perhaps a bias, which applies ReLU itself."""

    work: Convolution2D | InnerProduct

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.relu = is_relu(layer.neuron)
        if self.relu:
            self.reads = "inputs blobs"

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return self.relu

    def bind(self, x: Array, y: Array, dy: Array | None, dx: Array | None) -> None:
        """Set the arrays of the work: these, and those of the parameters."""
        weight, *biases = self.parameters
        bias, dbias = (biases[0].blob, biases[0].gradient) if biases else (None, None)
        self.work.bind(Arrays(x, weight.blob, bias, y, dy=dy, dweight=weight.gradient, dbias=dbias, dx=dx))


class ConvolutionKernel(Product):
    """Convolution with one or two axes, by products of matrices over chunks that stay in cache; applies ReLU itself."""

    LIES = "by channels"
    work: Convolution2D

    @classmethod
    def supports(cls, layer: ConvolutionLayer, inputs: list[Any]) -> str | None:
        images = 3 <= len(inputs[0].shape) <= 4
        return super().supports(layer, inputs) or (None if images else "serves images with one or two axes")

    def __init__(self, layer: ConvolutionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs)

    def ready(self) -> None:
        g, layer, pool = self.geometry, self.layer, pool_of(self.backend)
        down, across = rows_and_columns(g.axes)
        self.work = Convolution2D(
            g.images, g.channels, g.filters, down, across, layer.n_group, self.backend.dtype, pool, self.relu
        )
        blobs = (self.inputs[0], self.blobs[0], self.blobs_diff[0], self.diffs[0])
        self.bind(*(None if one is None else channels_last(one) for one in blobs))

    def forward(self, inputs: list[Own]) -> None:
        self.work.forward()

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        self.work.backward()


class PoolingKernel(OneBottom):
    """Max and mean pooling over one axis or two, one after the other."""

    LIES = "by channels"

    @classmethod
    def supports(cls, layer: PoolingLayer, inputs: list[Any]) -> str | None:
        if reason := super().supports(layer, inputs):
            return reason
        axes = len(inputs[0].shape)
        if not 3 <= axes <= 4 or layer.axes not in ((), tuple(range(2, axes))):
            return "serves images with one or two axes, all of them pooled"
        if layer.masks:
            return "makes no masks"
        if type(layer.pooling) is Max:
            return None
        mean = type(layer.pooling) is Mean and layer.pooling.divide_by == "padded"
        return None if mean else f"serves Max and Mean, not {layer.pooling!r}"

    def __init__(self, layer: PoolingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.axes = pooled_axes(layer, inputs[0].shape).values()
        self.blobs = [backend.blob((*inputs[0].shape[:2], *(axis.count for axis in self.axes)))]
        self.reads = layer.pooling.reads

    def ready(self) -> None:
        images, channels, *_ = self.inputs[0].shape
        down, across = rows_and_columns(self.axes)
        mode = "max" if type(self.layer.pooling) is Max else "mean"
        self.work = Pooling2D(images, channels, down, across, mode, self.backend.dtype, pool_of(self.backend))
        blobs = (self.inputs[0], self.blobs[0], self.blobs_diff[0], self.diffs[0])
        self.work.bind(*(None if one is None else channels_last(one) for one in blobs))

    def forward(self, inputs: list[Own]) -> None:
        self.work.forward()

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if diffs[0] is not None:
            self.work.backward()


class InnerProductKernel(Product):
    """InnerProduct with the outputs shared out over threads; applies ReLU itself."""

    work: InnerProduct

    @classmethod
    def supports(cls, layer: InnerProductLayer, inputs: list[Any]) -> str | None:
        return super().supports(layer, inputs) or not_plain(layer, inputs)

    def __init__(self, layer: InnerProductLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        plain = InnerProductState(layer, backend, inputs, diffs)
        self.features, self.parameters, self.blobs = plain.features, plain.parameters, plain.blobs

    def ready(self) -> None:
        batch, outputs = self.blobs[0].shape
        pool = pool_of(self.backend)
        self.work = InnerProduct(batch, self.features, outputs, self.backend.dtype, pool, self.relu)
        x, self.images = self._flat(self.inputs[0])
        dx, self.image_gradients = (None, None) if self.diffs[0] is None else self._flat(self.diffs[0])
        dy = self.blobs_diff[0]
        self.bind(x, self.blobs[0].memory, None if dy is None else dy.memory, dx)

    def _flat(self, blob: Own) -> tuple[Array, tuple[Array, Array] | None]:
        """Return a blob as (images, features), and where that is a copy: (the blob's memory, the copy), both alike."""
        if blob.layout == "plain":
            return blob.memory.reshape(-1, self.features), None
        images, channels, rows, columns = blob.shape
        flat = self.backend.empty((images, self.features))
        return flat, (blob.memory, flat.reshape(images, channels, rows, columns).transpose(0, 2, 3, 1))

    def forward(self, inputs: list[Own]) -> None:
        if self.images is not None:
            memory, copy = self.images
            copy[...] = memory
        self.work.forward()

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        self.work.backward()
        if self.image_gradients is not None:
            memory, copy = self.image_gradients
            memory[...] = copy


class ReLUKernel(OneBottom, reads="blobs"):
    """ReLU on blobs of any layout; NumPy's maximum with an array of zeros is four times faster than with a number."""

    LIES = "as below"

    @classmethod
    def supports(cls, layer: ReLU, inputs: list[Any]) -> str | None:
        return None if is_relu(layer) else f"serves epsilon=0, not {layer.epsilon}"

    def __init__(self, layer: ReLU, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def ready(self) -> None:
        x, y = (one.memory.reshape(-1) for one in (self.inputs[0], self.blobs[0]))
        zeros = np.zeros(min(x.size, CHUNK), x.dtype)
        chunks = [slice(start, min(start + CHUNK, x.size)) for start in range(0, x.size, CHUNK)]
        self.rectify = [(maximum, (x[chunk], zeros[: x[chunk].size], y[chunk])) for chunk in chunks]
        self.gate: list[Task] = []
        dy, dx = self.blobs_diff[0], self.diffs[0]
        if dx is not None:
            scratch = np.empty(2 * zeros.nbytes, np.uint8)
            dy, dx = dy.memory.reshape(-1), dx.memory.reshape(-1)
            self.gate = [task for chunk in chunks for task in gate_tasks(y[chunk], dy[chunk], dx[chunk], scratch)]

    def forward(self, inputs: list[Own]) -> None:
        run(self.rectify)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        run(self.gate)


class SGDKernel(MethodState):
    """SGD in one pass over memory, in chunks that stay in cache."""

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.velocity = self.history("velocity")
        self._product = 0.0
        self.work = [MomentumUpdate(span.value.size, backend.dtype, backend.backend.pool) for span in spans]

    def update(self) -> None:
        scalars = self.backend.scalars
        self._product = 0.0
        for span, v, work in zip(self.spans, self.velocity, self.work, strict=True):
            rate = scalars["rate"] * span.rate
            self._product += work.update(span.value, span.gradient, v, rate, scalars["momentum"])

    def product(self) -> float:
        return self._product
