"""Small nets to train in tests, and a layer whose gradients are given."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from nacre import InputLayer, Layer, LayerState, Names, Net, Parameter, Regularizer, Shape, default
from nacre.training.training import Training
from nacre_data import MemoryDataLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.initializers import Constant
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.neurons import Sigmoid
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.regularizers import L2

OUT_OF_TRAINING = ["validation", "test", "predict"]


def records(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make images of 6 numbers in three classes that a net can learn to tell apart."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 3, count)
    return random.normal(size=(count, 6)) + 1.5 * np.eye(3, 6)[label], label


def toy_layers(hidden: int = 8, batch_size: int = 10) -> list[Layer]:
    """Return a net with all that a restart can forget: shuffled source, dropout, running means, shared parameter."""
    image, label = records(47)
    others = records(23, seed=1)
    return [
        MemoryDataLayer(
            name="train",
            tops=["data", "label"],
            data=[image, label],
            batch_size=batch_size,
            shuffle=True,
            exclude=OUT_OF_TRAINING,
        ),
        MemoryDataLayer(name="check", tops=["data", "label"], data=others, batch_size=10, exclude=["train", "predict"]),
        InnerProductLayer(bottoms="data", tops="ip1", output_dim=hidden, neuron=Sigmoid(), weight_lr=2.0),
        BatchNormLayer(bottoms="ip1", tops="norm"),
        DropoutLayer(name="drop", bottoms="norm", ratio=0.3),
        InnerProductLayer(bottoms="norm", tops="ip2", output_dim=hidden, param_key="shared"),
        InnerProductLayer(bottoms="ip2", tops="ip3", output_dim=hidden, param_key="shared", neuron=Sigmoid()),
        InnerProductLayer(bottoms="ip3", tops="ip4", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip4", "label"], exclude=["predict"]),
        AccuracyLayer(name="accuracy", bottoms=["ip4", "label"], exclude=["train", "predict"]),
    ]


def toy_net(**options: Any) -> Net:
    return Net("toy", toy_layers(), **{"dtype": "float64", "backend": "numpy", **options})


def weights(net: Net) -> bytes:
    return b"".join(handle.value.tobytes() for handle in net.parameters.values())


class PulledLayer(Layer, is_sink=True, has_loss=True, has_param=True, can_do_bp=True):
    """loss = w² / 2, or with `gradients` that of each iteration."""

    bottoms: Annotated[Names, ""] = default("data")
    gradients: Annotated[tuple, "the gradient of each iteration; that of the loss unless given"] = ()
    shape: Shape = default((1,))
    first: float = 1.0
    rate: float = 1.0
    regu: Regularizer | None = L2()


class PulledState(LayerState, of=PulledLayer, reads=""):
    loss = 0.0

    def __init__(self, layer: PulledLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        init = Constant(value=layer.first)
        self.parameters = [Parameter("w", layer.shape, init=init, regu=layer.regu, lr=layer.rate)]

    def forward(self, inputs: list[Any]) -> None:
        self.loss = float(self.parameters[0].blob[0]) ** 2 / 2

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        given = self.layer.gradients
        self.parameters[0].gradient[...] = given[self.backend.step] if given else self.parameters[0].blob


def pulled_net(*, dtype: str = "float64", backend: Any = "numpy", **fields: Any) -> Net:
    net = Net("pulled", [InputLayer(), PulledLayer(name="pull", **fields)], dtype=dtype, backend=backend)
    net.write("data", [0.0])
    return net


def trace(training: Training, count: int, name: str = "pull/w") -> list[float]:
    """Return a parameter's first number after each of the next iterations."""
    values: list[float] = []
    for _ in range(count):
        training.step()
        values.append(float(training.net.parameters[name].value[0]))
    return values


class Reports:
    """Listens to a training."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.all: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, event: str, data: dict[str, Any]) -> None:
        self.all.append((event, data))

    def __getitem__(self, event: str) -> Sequence[dict[str, Any]]:
        return [data for name, data in self.all if name == event]
