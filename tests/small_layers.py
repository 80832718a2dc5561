"""Small layers, sources and checks that the tests of the core share."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from nacre import (
    HostMemory,
    Initializer,
    InputLayer,
    Layer,
    LayerState,
    Names,
    Net,
    Neuron,
    Parameter,
    SourceState,
    as_many_as,
    at_least,
    exactly,
)


class PlainBackend(HostMemory):
    """NumPy arrays without any kernel: every layer runs through its own state."""

    name = "plain"
    lineage = ("plain",)


class State(LayerState):
    """A state that holds nothing."""


class SquareLossLayer(Layer, is_sink=True, has_loss=True, can_do_bp=True):
    """weight / 2 · Σ (x - cos 0, 1, 2 ...)²: a gradient for every element, each another."""

    bottoms: Annotated[Names, exactly(1)]
    weight: float = 1.0


class SquareLossState(State, of=SquareLossLayer, reads="inputs"):
    loss = 0.0

    def ready(self) -> None:
        self.target: Any = None

    def _distance(self, x: Any) -> Any:
        return x - np.cos(np.arange(x.size)).reshape(x.shape)

    def forward(self, inputs: list[Any]) -> None:
        self.loss = self.layer.weight / 2 * np.sum(self._distance(inputs[0]) ** 2)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        diffs[0][...] = self.layer.weight * self._distance(inputs[0])


class Normal(Initializer):
    """Normal numbers."""

    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        return random.generator().standard_normal(shape)


class MatrixLayer(Layer, has_param=True, can_do_bp=True):
    """y = x W; `tied` reads another layer's W, and `transposed` its transpose."""

    bottoms: Annotated[Names, at_least(1)]
    tops: Annotated[Names, as_many_as("bottoms")]
    width: int
    param_key: str = ""
    tied: str = ""
    transposed: bool = False
    trainable: bool = True


class MatrixState(State, of=MatrixLayer, reads="inputs"):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        said = {"tied": layer.tied, "transposed": layer.transposed} if layer.tied else {"init": Normal()}
        shape = (inputs[0].shape[1], layer.width)
        self.parameters = [Parameter("W", shape, trainable=layer.trainable, **said)]
        self.blobs = [backend.blob((one.shape[0], layer.width)) for one in inputs]

    def forward(self, inputs: list[Any]) -> None:
        for x, y in zip(inputs, self.blobs, strict=True):
            np.matmul(x, self.parameters[0].blob, out=y)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        W = self.parameters[0]
        if W.gradient is not None:
            W.gradient[...] = sum(x.T @ dy for x, dy in zip(inputs, self.blobs_diff, strict=True))
        for dx, dy in zip(diffs, self.blobs_diff, strict=True):
            if dx is not None:
                dx[...] = dy @ W.blob.T


class AddLayer(Layer, can_do_bp=True):
    """The sum of the bottoms."""

    bottoms: Annotated[Names, at_least(1)]
    tops: Annotated[Names, exactly(1)]


class AddState(State, of=AddLayer, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Any]) -> None:
        self.blobs[0][...] = sum(inputs)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dx in diffs:
            if dx is not None:
                dx[...] = self.blobs_diff[0]


class ProductLayer(Layer, can_do_bp=True):
    """The product of two bottoms: its backward reads both of them."""

    bottoms: Annotated[Names, exactly(2)]
    tops: Annotated[Names, exactly(1)]


class ProductState(AddState, of=ProductLayer, reads="inputs"):
    def forward(self, inputs: list[Any]) -> None:
        np.multiply(*inputs, out=self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dx, other in zip(diffs, reversed(inputs), strict=True):
            if dx is not None:
                np.multiply(other, self.blobs_diff[0], out=dx)


class SquashLayer(Layer, has_neuron=True, can_do_bp=True):
    """y = tanh(x), with a backward that reads its own top; then the neuron."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    neuron: Neuron


class SquashState(AddState, of=SquashLayer, reads="blobs"):
    def forward(self, inputs: list[Any]) -> None:
        np.tanh(inputs[0], out=self.blobs[0])  # however deep a net is, nothing overflows

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            np.multiply(self.blobs_diff[0], 1 - self.blobs[0] ** 2, out=diffs[0])


class HalveLayer(Layer, can_do_bp=True, is_inplace=True):
    """Half of every element, in place."""

    bottoms: Annotated[Names, at_least(1)]


class HalveState(State, of=HalveLayer, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def forward(self, inputs: list[Any]) -> None:
        for x, y in zip(inputs, self.blobs, strict=True):
            np.multiply(x, 0.5, out=y)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dy, dx in zip(self.blobs_diff, diffs, strict=True):
            if dx is not None:
                np.multiply(dy, 0.5, out=dx)


class SiLU(Neuron):
    """y = x / (1 + exp(-x)): not a function of its output."""

    needs_input = True

    def forward(self, backend: Any, x: Any, y: Any) -> None:
        y[...] = x / (1 + np.exp(-x))

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        s = 1 / (1 + np.exp(-x))
        dx[...] = dy * s * (1 + x * (1 - s))


class CountLayer(Layer, is_source=True):
    """Records 0, 1, 2 ... of `count`, each a row [number] * width; and the label number % 3."""

    tops: Annotated[Names, exactly(2)]
    count: int
    batch_size: int
    width: int = 2


class CountState(SourceState, of=CountLayer):
    closed = 0

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.position = 0
        self.blobs = [
            backend.blob((layer.batch_size, layer.width)),
            backend.blob((layer.batch_size,), "int64"),
        ]

    def forward(self, inputs: list[Any]) -> None:
        count, size = self.layer.count, self.layer.batch_size
        places = self.position + np.arange(size)
        if self.phase == "train":
            self.rows = size
            self.epoch += (self.position + size) // count
            numbers = places % count
            self.position = (self.position + size) % count
        else:
            self.rows = min(size, count - self.position)
            numbers = np.minimum(places, count - 1)
            self.position += size
            if self.position >= count:
                self.epoch += 1
                self.position = 0
        self.blobs[0][...] = numbers[:, None]
        self.blobs[1][...] = numbers % 3

    def rewind(self) -> None:
        self.position = 0

    def shutdown(self) -> None:
        type(self).closed += 1


def data(*shape: int, batch: int = 3, top: str = "data") -> InputLayer:
    """Return a source of the blob `top`, (batch, *shape)."""
    return InputLayer(name=f"in-{top}", tops=top, shape=shape, batch_size=batch)


def fill(net: Net, seed: int = 0) -> None:
    """Write random numbers into the blobs of all InputLayers."""
    random = np.random.default_rng(seed)
    for layer in net.layers:
        if isinstance(layer, InputLayer) and net.phase not in layer.exclude:
            for top in layer.tops:
                values = random.normal(size=(layer.batch_size, *layer.shape))
                net.write(top, np.round(values) if layer.dtype.startswith("int") else values)


def check_gradients(net: Net, blobs: tuple[str, ...] = ()) -> None:
    """Compare the gradients of all parameters, and of source blobs, with central differences; float64 only."""
    assert net.dtype == "float64"
    for _ in range(2):  # gradients are written, not added to those of the last pass
        net.forward()
        net.backward()
    expected = {name: handle.gradient for name, handle in net.parameters.items() if handle.gradient is not None}
    found = {
        name: numerical(net, handle.value, lambda x, h=handle: setattr(h, "value", x))
        for name, handle in net.parameters.items()
        if name in expected
    }
    for name in blobs:
        expected[name] = net.gradient(name)
        op = next(op for op in net.ops if op.is_source and any(value.name == name for value in op.outputs))
        given = op.state.blobs[[value.name for value in op.outputs].index(name)].copy()
        found[name] = numerical(net, given, lambda x, name=name: net.write(name, x))
    assert expected, "nothing was checked"
    for name, gradient in expected.items():
        error = 1e-8 + 1e-10 * abs(net.loss()) + 1e-7 * np.abs(gradient).max()  # of central differences
        np.testing.assert_allclose(gradient, found[name], rtol=1e-6, atol=error, err_msg=name)


def numerical(net: Net, value: Any, write: Any, step: float = 1e-5) -> Any:
    """Return the central differences of the loss over the elements of one array."""
    gradient = np.zeros(value.shape)
    for place in np.ndindex(*value.shape):
        losses = []
        for sign in (1, -1):
            moved = value.copy()
            moved[place] += sign * step
            write(moved)
            losses.append(net.forward())
        gradient[place] = (losses[0] - losses[1]) / (2 * step)
    write(value)
    return gradient
