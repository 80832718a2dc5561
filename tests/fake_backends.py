"""Two backends that keep the core honest.

`blocked` has own blobs in an opaque, padded layout, and a `compile` that records what its kernels enqueue at the first
run and only replays it afterwards: Python of a kernel never runs again. `foreign` has arrays that NumPy cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from nacre import Backend, HostFunctions, HostMemory, LayerState, MethodState, Own, Parameter
from nacre.protocols.backend import Step

BLOCK = 4


class BlockedBackend(HostMemory):
    """Own blobs lie in blocks of 4 along axis 1, the last one padded with NaN, behind all other axes."""

    name = "blocked"
    lineage = ("blocked",)

    def __init__(self) -> None:
        super().__init__()
        self.recording: list[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        self.recorded = 0
        self.replayed = 0

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return len(shape) < 2 or dtype not in ("float32", "float64")

    def enqueue(self, operation: Callable[..., None], *arguments: Any) -> None:
        assert self.recording is not None, "a kernel of this backend ran outside a recording"
        self.recording.append((operation, arguments))

    def pack(self, array: Any, blob: Own) -> None:
        self.enqueue(put, blob, array)

    def unpack(self, blob: Own, array: Any) -> None:
        self.enqueue(lambda: np.copyto(array, get(blob)))

    def arrange(self, kernels: Sequence[LayerState], blobs: Sequence[Own], plan: dict[str, Any]) -> None:
        for blob in blobs:
            blob.layout = plan.setdefault("layout", "blocked")

    def storage(self, blob: Own) -> tuple[int, str]:
        return prod(blocks(blob)), blob.dtype

    def place(self, blob: Own, array: Any) -> None:
        blob.memory = self.view(array, blocks(blob))
        blob.memory.fill(np.nan)

    def compile(self, steps: Sequence[Step]) -> Callable[[], None]:
        record: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

        def run() -> None:
            if not record:
                self.recording = record
                for step in steps:
                    step.call()
                self.recording = None
                self.recorded += 1
            else:
                self.replayed += 1
            for operation, arguments in record:
                operation(*arguments)

        return run


def blocks(blob: Own) -> tuple[int, ...]:
    """Return the shape of a blob in blocks."""
    first, channels, *rest = blob.shape
    return first, -(-channels // BLOCK), *rest, BLOCK


def put(blob: Own, array: Any) -> None:
    """Write a plain array into a blocked blob."""
    if blob.layout == "plain":
        np.copyto(blob.memory, array)
        return
    for channel in range(blob.shape[1]):
        blob.memory[:, channel // BLOCK, ..., channel % BLOCK] = array[:, channel]


def get(blob: Own) -> Any:
    """Read a blocked blob as a plain array."""
    if blob.layout == "plain":
        return blob.memory
    channels = [blob.memory[:, channel // BLOCK, ..., channel % BLOCK] for channel in range(blob.shape[1])]
    return np.stack(channels, axis=1)


class BlockedInnerProduct(LayerState, reads="inputs"):
    """A kernel whose methods only enqueue."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return None if len(inputs) == 1 else "only one bottom"

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        features = prod(inputs[0].shape[1:])
        self.parameters = [Parameter.of(layer, "weight", (layer.output_dim, features))]
        if layer.bias:
            self.parameters.append(Parameter.of(layer, "bias", (layer.output_dim,)))
        self.blobs = [backend.blob((inputs[0].shape[0], layer.output_dim))]

    def ready(self) -> None:
        assert all(one.memory is not None for one in self.blobs), "own blobs have memory when ready() is called"

    def forward(self, inputs: list[Own]) -> None:
        self.backend.backend.enqueue(self._forward, inputs[0])

    def _forward(self, x: Own) -> None:
        flat = get(x).reshape(x.shape[0], -1)
        bias = self.parameters[1].blob if self.layer.bias else 0
        put(self.blobs[0], flat @ self.parameters[0].blob.T + bias)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        self.backend.backend.enqueue(self._backward, inputs[0], diffs[0])

    def _backward(self, x: Own, dx: Own | None) -> None:
        dy = get(self.blobs_diff[0])
        flat = get(x).reshape(x.shape[0], -1)
        self.parameters[0].gradient[...] = dy.T @ flat
        if self.layer.bias:
            self.parameters[1].gradient[...] = dy.sum(axis=0)
        if dx is not None:
            put(dx, (dy @ self.parameters[0].blob).reshape(dx.shape))


class BlockedReLU(LayerState, reads="blobs"):
    """A kernel of a neuron."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Own]) -> None:
        x, y = inputs[0], self.blobs[0]
        self.backend.backend.enqueue(lambda: np.maximum(x.memory, 0, out=y.memory))

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        y, dy, dx = self.blobs[0], self.blobs_diff[0], diffs[0]
        self.backend.backend.enqueue(lambda: np.multiply(dy.memory, y.memory > 0, out=dx.memory))


class BlockedSGD(MethodState):
    """A recorded update: the rate and the momentum are read from `scalars` at every replay."""

    def __init__(self, method: Any, backend: Any, spans: Any) -> None:
        super().__init__(method, backend, spans)
        self.velocity = self.history("velocity")

    def update(self) -> None:
        scalars = self.backend.scalars
        rate, momentum = scalars.place("rate"), scalars.place("momentum")

        def operation() -> None:
            for span, v in zip(self.spans, self.velocity, strict=True):
                v *= scalars.values[momentum]
                v -= scalars.values[rate] * span.rate * span.gradient
                span.value += v

        self.backend.backend.enqueue(operation)


class ForeignArray:
    """An array that NumPy cannot read: it has shape and type, and only `ForeignNumpy` looks inside."""

    def __init__(self, hidden: Any) -> None:
        self._hidden = np.asarray(hidden)

    shape = property(lambda self: self._hidden.shape)
    dtype = property(lambda self: self._hidden.dtype)
    ndim = property(lambda self: self._hidden.ndim)
    size = property(lambda self: self._hidden.size)
    T = property(lambda self: ForeignArray(self._hidden.T))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("NumPy cannot read an array of the foreign backend")

    __array_ufunc__ = None

    def reshape(self, *shape: Any) -> ForeignArray:
        return ForeignArray(self._hidden.reshape(*shape))

    def transpose(self, *axes: Any) -> ForeignArray:
        return ForeignArray(self._hidden.transpose(*axes))

    def __getitem__(self, key: Any) -> ForeignArray:
        return ForeignArray(self._hidden[_inside(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        assert not isinstance(value, np.ndarray) or value.ndim == 0, "a NumPy array was written into foreign memory"
        self._hidden[_inside(key)] = _inside(value)

    def __float__(self) -> float:
        return float(self._hidden)

    def __int__(self) -> int:
        return int(self._hidden)

    def __bool__(self) -> bool:
        return bool(self._hidden)


def _inside(value: Any) -> Any:
    if isinstance(value, ForeignArray):
        return value._hidden
    if isinstance(value, tuple | list):
        return type(value)(_inside(one) for one in value)
    assert not isinstance(value, np.ndarray) or value.ndim == 0, "a NumPy array met an array of the foreign backend"
    return value


def _outside(value: Any) -> Any:
    return ForeignArray(value) if isinstance(value, np.ndarray | np.generic) else value


_ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
for _name in [*_ARITHMETIC, "lt", "le", "gt", "ge", "eq", "ne", "and", "or"]:
    for _form in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        if hasattr(np.ndarray, _form):

            def _operator(self: ForeignArray, other: Any, _form: str = _form) -> Any:
                result = getattr(self._hidden, _form)(_inside(other))
                return self if result is self._hidden else _outside(result)

            setattr(ForeignArray, _form, _operator)
for _form in ("__neg__", "__invert__", "__abs__"):
    setattr(ForeignArray, _form, lambda self, _form=_form: _outside(getattr(self._hidden, _form)()))
ForeignArray.__hash__ = None  # type: ignore[assignment]


class ForeignNumpy:
    """NumPy's functions over foreign arrays, those of whole numbers alone as a backend has to have them."""

    functions = HostFunctions()

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.functions, name)
        if not callable(function) or (isinstance(function, type) and name != "finfo"):
            return function

        def call(*arguments: Any, **named: Any) -> Any:
            named = {key: _inside(value) for key, value in named.items()}
            return _outside(function(*(_inside(one) for one in arguments), **named))

        return call


class ForeignBackend(Backend):
    """A device: its arrays are not NumPy's."""

    name = "foreign"
    lineage = ("foreign",)
    on_host = False

    def __init__(self) -> None:
        super().__init__()
        self.xp = ForeignNumpy()

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        return ForeignArray(np.zeros(tuple(shape), dtype))

    def to_host(self, array: ForeignArray) -> Any:
        return array._hidden.copy()

    def from_host(self, host: Any, array: ForeignArray) -> None:
        assert isinstance(host, np.ndarray)
        array._hidden[...] = host
