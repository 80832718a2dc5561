"""One working thing of each kind that plugins offer; a trial puts a method that fails in the place of one of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nacre import (
    Algorithm,
    AlgorithmState,
    Callback,
    CallbackState,
    Constraint,
    Field,
    HostMemory,
    Initializer,
    InputLayer,
    Layer,
    LayerState,
    LrPolicy,
    Method,
    MethodState,
    MomentumPolicy,
    Names,
    Net,
    Neuron,
    Parameter,
    Reader,
    Regularizer,
    Solver,
    SourceState,
    Store,
    Transformer,
    exactly,
)
from nacre_data import DataLayer, MemoryDataLayer
from nacre_layers import InnerProductLayer, PoolingLayer, SoftmaxLossLayer
from nacre_solvers import Snapshot, ValidationPerformance


class FineLayer(Layer, has_param=True, has_loss=True, has_stats=True, can_do_bp=True):
    """y = w x."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    regu: Any = None

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> Any:
        return FineState(self, backend, inputs, diffs)

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int | None:
        return 3

    def tops_without_gradient(self) -> tuple[str, ...]:
        return ()

    def bottoms_without_gradient(self) -> tuple[str, ...]:
        return ()


class FineState(LayerState):
    """The state of `FineLayer`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [
            Parameter("weight", (1,), init=FineInitializer(), regu=FineRegularizer(), cons=FineConstraint())
        ]
        self.blobs = [backend.blob(inputs[0].shape)]
        self.loss = 0.0

    def ready(self) -> None: ...

    def forward(self, inputs: list[Any]) -> None:
        np.multiply(inputs[0], self.parameters[0].blob, out=self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        self.parameters[0].gradient[...] = (inputs[0] * self.blobs_diff[0]).sum()
        if diffs[0] is not None:
            np.multiply(self.blobs_diff[0], self.parameters[0].blob, out=diffs[0])

    def advance(self) -> None: ...

    def rewind(self) -> None: ...

    def memory(self) -> dict[str, Any]:
        return {"count": 1}

    def remember(self, memory: Any) -> None: ...

    def dump_statistics(self) -> dict[str, float]:
        return {"share": 0.5}

    def reset_statistics(self) -> None: ...

    def shutdown(self) -> None: ...


class FineContainer(Layer):
    """Made of one layer."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]

    def expand(self) -> Any:
        return [FineLayer(name="inner", bottoms=self.bottoms, tops=self.tops)]


class FineSource(Layer, is_source=True):
    """Ones and zeros."""

    tops: Annotated[Names, exactly(2)]

    def prepare(self, top: str, records: Any, random: Any, phase: Any, fitted: Any, classes: Any = ()) -> Any:
        return records

    def prepared_shape(self, top: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def reading(self) -> Any:
        return {}


class FineSourceState(SourceState, of=FineSource):
    """The state of `FineSource`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((2, 4)), backend.blob((2,), "int64")]

    def ready(self) -> None: ...

    def forward(self, inputs: list[Any]) -> None:
        self.rows, self.epoch = 2, self.epoch + 1
        self.blobs[0][...] = 1

    def rewind(self) -> None: ...

    def memory(self) -> dict[str, Any]:
        return {"epoch": self.epoch}

    def remember(self, memory: Any) -> None: ...

    def shutdown(self) -> None: ...


class FineKernel(LayerState):
    """A kernel for Pooling on NumPy."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return None

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.plain = PoolingLayer.setup(layer, backend, inputs, diffs)
        self.blobs = self.plain.blobs

    def ready(self) -> None: ...

    def fuses_neuron(self, neuron: Any) -> bool:
        return False

    def forward(self, inputs: list[Any]) -> None:
        self.blobs[0].memory[...] = 1

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        diffs[0].memory[...] = 1


class FineNeuron(Neuron):
    """f(x) = x."""

    def forward(self, backend: Any, x: Any, y: Any) -> None:
        np.copyto(y, x)

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        np.copyto(dx, dy)


class FineInitializer(Initializer):
    """Ones."""

    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        return np.ones(shape)


class FineRegularizer(Regularizer):
    """No penalty."""

    def add_gradient(self, backend: Any, value: Any, gradient: Any, coefficient: float) -> None: ...


class FineConstraint(Constraint):
    """No limit."""

    def check(self, shape: tuple[int, ...]) -> None: ...

    def constrain(self, backend: Any, value: Any) -> None: ...


class FineTransformer(Transformer):
    """Changes nothing."""

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def fit(self, blocks: Any) -> Any:
        return {"mean": np.zeros(4)}

    def transform(self, batch: Any, random: Any, phase: str) -> None: ...


class FineStore(Store):
    """Files of one record."""

    suffixes = (".fine",)

    def open(self, path: Any, fields: Any = ()) -> Reader:
        return FineReader()


class FineReader(Reader):
    """One record, four times."""

    def __init__(self) -> None:
        self.fields, self.count = {"x": Field((4,), "float32"), "label": Field((), "int64")}, 4

    def read(self, numbers: Any, out: Any) -> None:
        for array in out.values():
            array[...] = 1

    def close(self) -> None: ...


class FineMethod(Method):
    """Changes nothing."""

    def setup(self, backend: Any, spans: Any) -> Any:
        return FineMethodState(self, backend, spans)


class FineMethodState(MethodState):
    """The state of `FineMethod`."""

    def __init__(self, method: Any, backend: Any, spans: Any) -> None:
        super().__init__(method, backend, spans)
        self.history("speed")

    def advance(self) -> None: ...

    def update(self) -> None: ...

    def product(self) -> float:
        return 0.0

    def memory(self) -> dict[str, Any]:
        return {"count": 1}

    def remember(self, memory: Any) -> None: ...


class FinePolicy(LrPolicy):
    """A rate."""

    def start(self, training: Any) -> Any:
        return self

    def rate(self, iteration: int) -> float:
        return 0.1

    def memory(self) -> dict[str, Any]:
        return {"count": 1}

    def remember(self, memory: Any) -> None: ...


class FineMomentum(MomentumPolicy):
    """A momentum."""

    def start(self, training: Any) -> Any:
        return self

    def momentum(self, iteration: int) -> float:
        return 0.9

    def memory(self) -> dict[str, Any]:
        return {"count": 1}

    def remember(self, memory: Any) -> None: ...


class FineCallback(Callback):
    """Does nothing."""

    def start(self, training: Any) -> Any:
        return FineCallbackState(self, training)

    def snapshots(self) -> Any:
        return None


class FineCallbackState(CallbackState):
    """The state of `FineCallback`."""

    def __init__(self, callback: Any, training: Any) -> None:
        super().__init__(callback, training)
        training.listeners.append(self.on_event)

    def on_event(self, event: str, data: Any) -> None: ...

    def begin(self) -> None: ...

    def due(self, epochs: int) -> bool:
        return True

    def run(self) -> None: ...

    def finish(self) -> None: ...

    def shutdown(self) -> None: ...

    def memory(self) -> dict[str, Any]:
        return {"count": 1}

    def remember(self, memory: Any) -> None: ...


class FineAlgorithm(Algorithm):
    """Back-propagation."""

    def rewrite(self, graph: Any, phase: str) -> Any:
        return graph

    def start(self, net: Any) -> Any:
        return FineAlgorithmState(self, net)

    def train_one_batch(self, net: Any) -> Any:
        return [*net.steps("feed"), *net.steps("forward"), *net.steps("backward")]


class FineAlgorithmState(AlgorithmState):
    """The state of `FineAlgorithm`."""

    def train_one_batch(self) -> Any:
        return self.algorithm.train_one_batch(self.net)

    def memory(self) -> dict[str, Any]:
        return {"count": 1}

    def remember(self, memory: Any) -> None: ...


class FineBackend(HostMemory):
    """NumPy."""

    name = "fine"
    lineage = ("fine", "numpy")

    @classmethod
    def unusable(cls) -> str | None:
        return None

    def environment(self) -> dict[str, Any]:
        return {}

    def empty(self, shape: Any, dtype: str) -> Any:
        return super().empty(shape, dtype)

    def view(self, array: Any, shape: Any) -> Any:
        return super().view(array, shape)

    def to_host(self, array: Any) -> Any:
        return super().to_host(array)

    def from_host(self, host: Any, array: Any) -> None:
        super().from_host(host, array)

    def rewrite(self, graph: Any) -> Any:
        return graph

    def arrange(self, kernels: Any, blobs: Any, plan: Any) -> None:
        super().arrange(kernels, blobs, plan)

    def compile(self, steps: Any) -> Any:
        return super().compile(steps)

    def wrap(self, run: Any) -> Any:
        return run


OFFERS: list[tuple[str, str, object]] = [
    *(("layer", cls.__name__.removesuffix("Layer"), cls) for cls in (FineLayer, FineContainer, FineSource)),
    ("neuron", "FineNeuron", FineNeuron),
    ("initializer", "FineInitializer", FineInitializer),
    ("regularizer", "FineRegularizer", FineRegularizer),
    ("constraint", "FineConstraint", FineConstraint),
    ("transformer", "FineTransformer", FineTransformer),
    ("store", "FineStore", FineStore),
    ("solver", "FineMethod", FineMethod),
    ("lr_policy", "FinePolicy", FinePolicy),
    ("momentum_policy", "FineMomentum", FineMomentum),
    ("callback", "FineCallback", FineCallback),
    ("algorithm", "FineAlgorithm", FineAlgorithm),
    ("backend", "fine", FineBackend),
    ("kernel", "Pooling@fine", FineKernel),
]


def methods() -> list[tuple[type, str]]:
    """Return every method that these classes define."""
    mine = [one for one in globals().values() if isinstance(one, type) and one.__module__ == __name__]
    return [
        (cls, name)
        for cls in mine
        for name, value in vars(cls).items()
        if (callable(value) or isinstance(value, classmethod))
        and (not name.startswith("_") or (name == "__init__" and "Field" not in repr(value)))
        and "dataclass" not in repr(value)
        and getattr(value, "__module__", __name__) == __name__
        and not isinstance(value, type)
    ]


def raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    """Return a method that raises an error."""

    def method(*_: Any, **__: Any) -> Any:
        raise error()

    return method


def returning(value: Callable[[], Any]) -> Callable[..., Any]:
    """Return a method that returns a value."""

    def method(*_: Any, **__: Any) -> Any:
        return value()

    return method


def use_all(folder: Path) -> None:
    """Use every thing once: train, validate, save, resume, predict, draw."""
    with ExitStack() as stack:
        net = stack.enter_context(Net("all", layers(FineSource(name="in", tops=["x", "label"])), **options()))
        train(net, folder)
        _ = net.predict({"x": np.ones((3, 4))}, output="y")
        str(net)
        again = stack.enter_context(Net("all", layers(FineSource(name="in", tops=["x", "label"])), **options()))
        with solver(folder, max_iter=3).start(again) as training:
            training.restore(snapshot(folder))
            training.step()
    (folder / "a.fine").write_text("")
    data = [np.ones((4, 4)), np.arange(4) % 3]
    sources: list[Layer] = [
        MemoryDataLayer(
            name="in", tops=["x", "label"], data=data, batch_size=2, transformers=[("x", FineTransformer())]
        ),
        DataLayer(name="in", tops=["x", "label"], source=str(folder / "a.fine"), batch_size=2, store=FineStore()),
    ]
    for source in sources:
        with Net("other", layers(source), backend="fine") as net:
            net.forward()
            net.predict({"x": np.ones((3, 4))}, output="y")


def layers(source: Layer) -> list[Layer]:
    return [
        source,
        InnerProductLayer(name="ip", bottoms="x", tops="ip", output_dim=4, neuron=FineNeuron()),
        FineLayer(name="fine", bottoms="ip", tops="f"),
        FineContainer(name="box", bottoms="f", tops="y"),
        SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
        InputLayer(name="image", tops=["image"], shape=[1, 2, 2], batch_size=2, exclude=["predict", "validation"]),
        PoolingLayer(name="pool", bottoms="image", tops="pool", kernel=2, exclude=["predict", "validation"]),
    ]


def options() -> dict[str, Any]:
    return {"backend": "fine", "algorithm": FineAlgorithm()}


def solver(folder: Path, max_iter: int = 2) -> Solver:
    return Solver(
        FineMethod(),
        lr_policy=FinePolicy(),
        momentum_policy=FineMomentum(),
        algorithm=FineAlgorithm(),
        regu_coef=0.1,
        callbacks=[
            FineCallback(every_n_iter=1),
            ValidationPerformance(every_n_iter=2),
            Snapshot(folder=folder / "snapshots", every_n_iter=1),
        ],
        max_iter=max_iter,
    )


def train(net: Net, folder: Path) -> None:
    net.write("image", np.ones((2, 1, 2, 2)))
    with solver(folder).start(net) as training:
        training.run()


def snapshot(folder: Path) -> Any:
    from nacre import load_snapshot

    return load_snapshot(folder / "snapshots")
