"""What a plugin may do wrong, in each kind of thing that it offers: the field `fault` says what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, Any

import numpy as np

from nacre import (
    Algorithm,
    AlgorithmState,
    Callback,
    CallbackState,
    Constraint,
    HostMemory,
    Initializer,
    Layer,
    LayerState,
    LrPolicy,
    Method,
    MethodState,
    MomentumPolicy,
    Names,
    Neuron,
    Parameter,
    Reader,
    Regularizer,
    SourceState,
    Store,
    Transformer,
    exactly,
)
from nacre_layers import Constant, InnerProductLayer


class OddLayer(Layer, has_param=True, has_loss=True, has_stats=True, can_do_bp=True):
    """y = x, unless something goes wrong."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    fault: str = ""

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.fault == "complaints raise":
            raise IndexError("out of range")
        if self.fault == "complaints are numbers":
            yield 3  # type: ignore[misc]

    def bottoms_without_gradient(self) -> tuple[str, ...]:
        return ("eyes",) if self.fault == "a bottom that is none" else ()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> Any:
        if self.fault == "setup raises":
            raise KeyError("size")
        return None if self.fault == "setup returns None" else OddState(self, backend, inputs, diffs)


class OddState(LayerState):
    """The state of `OddLayer`."""

    loss: Any

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        if layer.fault == "no super":
            return
        super().__init__(layer, backend, inputs, diffs)
        self.fault = layer.fault
        self.parameters = [Parameter("weight", (1,), init=Constant(value=1.0))]
        self.blobs = [backend.blob(inputs[0].shape)]
        self.loss = None if layer.fault == "loss is None" else 0.0
        if layer.fault == "two blobs":
            self.blobs.append(backend.blob(inputs[0].shape))
        if layer.fault == "parameters are arrays":
            self.parameters = [np.zeros(1)]  # type: ignore[list-item]
        if layer.fault == "parameters of one name":
            self.parameters *= 2
        if layer.fault in DECLARED:
            DECLARED[layer.fault](self, inputs)

    def ready(self) -> None:
        if self.fault == "ready raises":
            self.weight = self.parameters[1]

    def forward(self, inputs: list[Any]) -> Any:
        if self.fault == "forward raises":
            inputs[0].reshape(7, 7, 7)
        if self.fault == "forward exits":
            raise SystemExit(3)
        if self.fault == "forward returns":
            return inputs[0] * 2
        if self.fault == "blobs[0] = ":
            self.blobs[0] = inputs[0] * 2
        if self.fault == "blobs = ":
            self.blobs = [inputs[0] * 2]
        if self.fault == "blobs.append":
            self.blobs.append(inputs[0] * 2)
        if self.fault == "parameter.blob = ":
            self.parameters[0].blob = self.parameters[0].blob * 2
        self.blobs[0][...] = np.sqrt(-1 - inputs[0] ** 2) if self.fault == "forward NaN" else inputs[0]
        return None

    def backward(self, inputs: list[Any], diffs: list[Any]) -> Any:
        if self.fault == "backward raises":
            self.missing()  # type: ignore[attr-defined]
        if self.fault == "diffs[0] = ":
            diffs[0] = self.blobs_diff[0]
        if self.fault == "gradient = ":
            self.parameters[0].gradient = np.zeros(1)
        gradient: Any = self.parameters[0].gradient
        gradient[...] = 0
        if diffs[0] is not None:
            diffs[0][...] = np.nan if self.fault == "backward NaN" else self.blobs_diff[0]
        return self.blobs_diff[0] if self.fault == "backward returns" else None

    def memory(self) -> Any:
        faults = {"memory is a list": [1], "memory of objects": {"seen": {1, 2}}, "memory by number": {3: 1}}
        return faults.get(self.fault, {})

    def dump_statistics(self) -> Any:
        if self.fault == "statistics raise":
            return {"share": 1 / (self.backend.step * 0)}
        return 0.5 if self.fault == "statistics are a number" else {}

    def reset_statistics(self) -> None:
        """Do nothing."""

    def shutdown(self) -> None:
        if self.layer.fault == "shutdown raises":
            raise ProcessLookupError("no such process")


def reshaped(array: Any) -> Any:
    return array.reshape(7, 7, 7)


def _set(thing: Any, name: str, value: Any) -> None:
    setattr(thing, name, value)


DECLARED: dict[str, Callable[[OddState, list[Any]], object]] = {
    "blobs are None": lambda self, inputs: _set(self, "blobs", None),
    "blobs are words": lambda self, inputs: _set(self, "blobs", ["top"]),
    "intermediates are a blob": lambda self, inputs: _set(self, "intermediates", self.blobs[0]),
    "a blob of objects": lambda self, inputs: self.backend.blob((2, 3), "object"),
    "a blob of half a row": lambda self, inputs: self.backend.blob((2.5, 3)),  # type: ignore[arg-type]
    "a blob is used": lambda self, inputs: inputs[0] * 2,
    "a number as initializer": lambda self, inputs: Parameter("bias", (1,), init=3),  # type: ignore[arg-type]
    "a word as shape": lambda self, inputs: Parameter("bias", "1", init=Constant()),  # type: ignore[arg-type]
    "a field is set": lambda self, inputs: _set(self.layer, "fault", ""),
    "a function raises": lambda self, inputs: reshaped(np.zeros(6)),
}
"""What goes wrong while a state declares what it needs."""


class OddBoxLayer(Layer):
    """A container that is made of what the test says."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    fault: str = ""

    def expand(self) -> Any:
        return {
            "None": lambda: None,
            "names": lambda: ["ReLU"],
            "no end": lambda: (HalfLayer(name=f"h{n}", bottoms=self.bottoms, tops=f"h{n}") for n in count()),
            "itself": lambda: [OddBoxLayer(name="box", bottoms=self.bottoms, tops=self.tops, fault="itself")],
        }[self.fault]()


class HalfLayer(Layer, can_do_bp=True):
    """A layer whose state has no `backward`."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]


class HalfState(LayerState, of=HalfLayer):
    """The state of `HalfLayer`."""

    def forward(self, inputs: list[Any]) -> None:
        """Do nothing."""


class StatelessLayer(Layer):
    """A layer that nobody works for."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]


class OddSourceLayer(Layer, is_source=True):
    """Ones and zeros."""

    tops: Annotated[Names, exactly(2)]
    fault: str = ""


class OddSourceState(SourceState, of=OddSourceLayer):
    """The state of `OddSourceLayer`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.endless = layer.fault != "epoch is None"
        self.blobs = [backend.blob((2, 4)), backend.blob((2,), "int64")]

    def forward(self, inputs: list[Any]) -> None:
        if self.layer.fault == "forward raises":
            raise EOFError("the camera is off")
        rows: Any = {"rows are None": None, "rows are too many": 5}.get(self.layer.fault, 2)
        self.rows = rows
        self.epoch = None if self.layer.fault == "epoch is None" else 0  # type: ignore[assignment]
        self.blobs[0][...] = 1


class OddKernel(LayerState):
    """A kernel for InnerProduct on NumPy."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        plain = InnerProductLayer.setup(layer, backend, inputs, diffs)
        self.parameters, self.blobs = plain.parameters, plain.blobs

    def forward(self, inputs: list[Any]) -> None:
        self.blobs[0].memory[...] = inputs[0].memory @ self.parameters[0].blob

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing."""


class OddNeuron(Neuron):
    """f(x) = x, unless something goes wrong."""

    fault: str = ""

    def forward(self, backend: Any, x: Any, y: Any) -> Any:
        if self.fault == "forward raises":
            raise NameError("name 'xp' is not defined")
        return x * 2 if self.fault == "forward returns" else None


class OddInitializer(Initializer):
    """Zeros, unless something goes wrong."""

    fault: str = ""

    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        if self.fault == "values raise":
            raise ZeroDivisionError("float division by zero")
        return {"shape": np.zeros(7), "text": "zeros"}[self.fault]


class OddRegularizer(Regularizer):
    """No penalty."""

    def add_gradient(self, backend: Any, value: Any, gradient: Any, coefficient: float) -> Any:
        return gradient + coefficient * value


class OddConstraint(Constraint):
    """No limit."""

    def constrain(self, backend: Any, value: Any) -> None:
        value[...] = np.clip(value, 1)  # type: ignore[call-overload]


class OddMethod(Method):
    """Changes nothing."""

    fault: str = ""

    def setup(self, backend: Any, spans: Any) -> Any:
        if self.fault == "setup returns None":
            return None
        return OddMethodState(self, backend, spans)


class OddMethodState(MethodState):
    """The state of `OddMethod`."""

    def __init__(self, method: Any, backend: Any, spans: Any) -> None:
        if method.fault == "no super":
            return
        super().__init__(method, backend, spans)
        if method.fault == "history":
            self.histories["speed"] = [backend.empty((1,)) for _ in spans]

    def update(self) -> None:
        if self.method.fault == "update raises":
            raise TypeError("unsupported operand")
        if self.method.fault == "update is missing":
            super().update()


class OddPolicy(LrPolicy):
    """A rate."""

    fault: str = ""

    def start(self, training: Any) -> Any:
        return None if self.fault == "start returns None" else self

    def rate(self, iteration: int) -> Any:
        if self.fault == "rate is missing":
            return super().rate(iteration)
        rates: Any = {"rate is None": None, "rate is text": "0.1", "rate is NaN": float("nan")}
        return rates[self.fault]


class OddMomentum(MomentumPolicy):
    """A momentum."""

    def momentum(self, iteration: int) -> Any:
        return np.zeros(2)


class OddCallback(Callback):
    """Does nothing, unless something goes wrong."""

    fault: str = ""

    def start(self, training: Any) -> Any:
        return None if self.fault == "start returns None" else OddCallbackState(self, training)


class OddCallbackState(CallbackState):
    """The state of `OddCallback`."""

    def run(self) -> None:
        if self.callback.fault == "run raises":
            self.training.curve.append(1)  # type: ignore[attr-defined]
        if self.callback.fault == "run is missing":
            super().run()

    def memory(self) -> Any:
        return {"best": {1, 2}} if self.callback.fault == "memory of objects" else {}


class OddAlgorithm(Algorithm):
    """Does not train."""

    fault: str = ""

    def start(self, net: Any) -> Any:
        return 7 if self.fault == "start returns 7" else AlgorithmState(self, net)

    def train_one_batch(self, net: Any) -> Any:
        if self.fault == "train_one_batch is missing":
            return super().train_one_batch(net)
        return "forward"


class OddTransformer(Transformer):
    """Changes records."""

    def transform(self, batch: Any, random: Any, phase: str) -> None:
        batch -= np.ones(99)


class OddStore(Store):
    """A store of no files."""

    def open(self, path: Any, fields: Any = ()) -> Reader:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


class OddBackend(HostMemory):
    """NumPy, but not usable."""

    name = "odd"
    lineage = ("odd",)

    @classmethod
    def unusable(cls) -> str | None:
        return [][0]


class EmptyBackend(HostMemory):
    """NumPy without arrays."""

    name = "bare"
    lineage = ("bare",)

    def empty(self, shape: Any, dtype: str) -> Any:
        raise RuntimeError("no device")


def shout() -> None:
    """Raise an error, as a command."""
    print(int("loud"))
