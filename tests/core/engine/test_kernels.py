"""A stranger's kernel must be a state, and declare what the layer's (the method's) own state declares."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from nacre import ContractError, InputLayer, LayerState, MethodState, Net, Parameter, Solver
from nacre.discovery.registry import Registry
from nacre_layers import L2, Constant, InnerProductLayer, L2Norm, PoolingLayer, SquareLossLayer
from nacre_layers.neurons import ReLU
from nacre_solvers import SGD
from registries import NewRegistry, install_plugin


class Kernel(LayerState):
    """Declares what is in `declared`, whatever the layer is."""

    declared: ClassVar[Any] = None
    weights: ClassVar[Any] = ()

    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(*one) for one in self.declared]
        self.parameters = [Parameter.of(layer, name, shape) for name, shape in self.weights]

    def forward(self, inputs: Any) -> None: ...
    def backward(self, inputs: Any, diffs: Any) -> None: ...


def pooled(registry: Registry, kernel: type, thing: str = "Pooling", neuron: Any = "Identity") -> Net:
    """Return a net whose layer `pool` makes (2, 2, 4, 4), with a stranger's kernel that is pinned."""
    install_plugin(registry, "acme", [("kernel", f"{thing}@numpy", kernel)])
    source = InputLayer(tops="data", shape=(2, 8, 8), batch_size=2)
    pool = PoolingLayer(name="pool", bottoms="data", tops="pool", kernel=2, stride=2, neuron=neuron)
    return Net("net", [source, pool], backend="numpy", pins={f"kernel:{thing}@numpy": "acme"}, phase="predict")


def weighed(registry: Registry, kernel: type) -> Net:
    install_plugin(registry, "acme", [("kernel", "InnerProduct@numpy", kernel)])
    source = InputLayer(tops="data", shape=(3,), batch_size=2)
    layer = InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=5)
    pin = {"kernel:InnerProduct@numpy": "acme"}  # nacre's own would be chosen before it
    return Net("net", [source, layer], backend="numpy", pins=pin, phase="predict")


def of(declared: Any, weights: Any = ()) -> type[Kernel]:
    return type("OddKernel", (Kernel,), {"declared": declared, "weights": weights})


RIGHT = [((2, 2, 4, 4),)]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ([((5, 5),)], "declares blob 0: 5 x 5, float32, but the layer's own state declares 2 x 2 x 4 x 4, float32"),
        ([((2, 2, 4, 4), "float64")], "declares blob 0: 2 x 2 x 4 x 4, float64, but"),
    ],
)
def test_blobs(new_registry: NewRegistry, declared: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        pooled(new_registry(), of(declared))
    assert str(caught.value.args[0]).startswith("pool: its kernel ") and "OddKernel of acme 1.0" in str(caught.value)
    assert words in str(caught.value)
    assert "pip uninstall acme" in caught.value.remedy


def test_blobs_of_a_neurons_kernel(new_registry: NewRegistry) -> None:
    kernel = of([((2, 2, 4, 5),)])
    registry = new_registry()
    registry.register(Bend)
    with pytest.raises(ContractError, match=r"pool/Bend: its kernel .*OddKernel of acme 1.0 declares blob 0"):
        pooled(registry, kernel, "neuron/local:Bend", Bend())


class Bend(ReLU):
    """A neuron for which nacre has no kernel."""


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([("weight", (5, 4)), ("bias", (5,))], "parameter 0: 'weight', 5 x 4, but the layer's own state declares"),
        ([("weight", (5, 3))], "parameter 1: none, but the layer's own state declares 'bias', 5"),
        ([("bias", (5,)), ("weight", (5, 3))], "parameter 0: 'bias', 5, but the layer's own state declares 'weight', "),
    ],
)
def test_parameters(new_registry: NewRegistry, weights: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        weighed(new_registry(), of([((2, 5),)], weights))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("init", Constant(value=7.0), "init = Constant(value=7.0), but the layer's own state has Xavier("),
        ("lr", 5.0, "lr = 5.0, but the layer's own state has 1.0"),
        ("regu", L2(coef=3.0), "regu = L2(coef=3.0), but the layer's own state has "),
        ("cons", L2Norm(threshold=2.0), "cons = L2Norm(threshold=2.0"),
        ("blocks", 5, "blocks = 5, but the layer's own state has 1"),
    ],
)
def test_settings_of_parameters(new_registry: NewRegistry, field: str, value: Any, words: str) -> None:
    class OtherKernel(of([((2, 5),)], [("weight", (5, 3)), ("bias", (5,))])):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            setattr(self.parameters[0], field, value)

    with pytest.raises(ContractError) as caught:
        weighed(new_registry(), OtherKernel)
    assert "OtherKernel of acme 1.0 declares parameter 'weight' with " + words in str(caught.value)


def test_a_kernel_that_declares_the_same_is_used(new_registry: NewRegistry) -> None:
    with pooled(new_registry(), of(RIGHT)) as net:
        assert net.ops[1].kernel
    with weighed(new_registry(), of([((2, 5),)], [("weight", (5, 3)), ("bias", (5,))])) as net:
        assert net.ops[1].kernel


class Plain:
    """No state at all."""


class Raising(Kernel):
    declared = RIGHT

    @classmethod
    def supports(cls, layer: Any, inputs: Any) -> str | None:
        raise ZeroDivisionError("oops")


class Yes(Kernel):
    declared = RIGHT

    @classmethod
    def supports(cls, layer: Any, inputs: Any) -> Any:
        return True


class Forward(LayerState):
    def forward(self, inputs: Any) -> None: ...


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Plain, "Plain is no LayerState, but a kernel of a layer must be one"),
        (Forward, "Forward does not define backward, but a kernel must"),
        (Raising, "its supports raised ZeroDivisionError: oops"),
        (Yes, "its supports returned True, but must return None, or the reason to decline"),
    ],
)
def test_what_is_no_kernel_is_passed_over_and_told(new_registry: NewRegistry, kernel: type, words: str) -> None:
    with pooled(new_registry(), kernel) as net:
        choice = net.ops[1].choice
        ((offer, reason),) = choice.declined
        assert words in reason and "of acme 1.0 cannot be opened: " in reason
        assert choice.broken == [offer]
        assert choice.kernel is None or choice.offer.distribution == "nacre"  # type: ignore[union-attr]


# Methods


class Update(MethodState):
    """The update of SGD with the histories and the memory of a subclass."""

    kept: ClassVar[tuple[str, ...]] = ("velocity",)
    remembered: ClassVar[dict[str, float]] = {}

    def __init__(self, method: Any, backend: Any, spans: Any) -> None:
        super().__init__(method, backend, spans)
        for name in self.kept:
            self.history(name)

    def update(self) -> None: ...

    def memory(self) -> dict[str, float]:
        return self.remembered


@pytest.mark.parametrize(
    ("kept", "remembered", "words"),
    [
        ((), {}, "declares history 0: none, but the method itself declares 'velocity', "),
        (("speed",), {}, "declares history 0: 'speed', "),
        (("velocity",), {"steps": 1.0}, "declares memory 0: 'steps', but the method itself declares none"),
    ],
)
def test_histories_and_memory(new_registry: NewRegistry, kept: Any, remembered: Any, words: str) -> None:
    registry = new_registry()
    own = _histories()
    kept = tuple(own if name == "velocity" else name for name in kept)
    kernel = type("OddUpdate", (Update,), {"kept": kept, "remembered": remembered})
    install_plugin(registry, "acme", [("kernel", "solver/SGD@numpy", kernel)])
    with _net(pins={"kernel:solver/SGD@numpy": "acme"}) as net, pytest.raises(ContractError) as caught:
        Solver(SGD(), max_iter=1).start(net)
    assert str(caught.value).startswith("SGD: its kernel ") and "OddUpdate of acme 1.0" in str(caught.value)
    assert words.replace("velocity", own) in str(caught.value)


def _net(**options: Any) -> Net:
    sources = [InputLayer(tops=name, shape=(size,), batch_size=2) for name, size in (("data", 3), ("wanted", 2))]
    layer = InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=2)
    net = Net("net", [*sources, layer, SquareLossLayer(bottoms=["ip", "wanted"])], backend="numpy", **options)
    net.write("data", np.ones((2, 3)))
    net.write("wanted", np.ones((2, 2)))
    return net


def _histories() -> str:
    """Return the name of the history of SGD."""
    with _net() as net, Solver(SGD(), max_iter=1).start(net) as training:
        (name,) = training.method.histories
        return name
