"""An enabled stranger's kernel for an ancestor of the backend is used only where it adds no copies, or is pinned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import HostMemory, InputLayer, Layer, LayerState, Names, Net, Neuron
from nacre.testing.states import ThroughKernel, Transposed
from nacre_data import RandomNormalLayer
from nacre_layers.regularizers import L2
from registries import NewRegistry, install_plugin
from small_layers import AddLayer, SquareLossLayer


class TurnedBackend(Transposed):
    """Its own blobs are not plain, nor are numpy's of four axes."""

    name, lineage = "turned", ("turned", "numpy")


def test_a_narrow_type_is_computed_in_only_where_a_backend_can() -> None:
    class Narrow(TurnedBackend):
        computes = ("bf16",)

    layers = [InputLayer(tops="x", shape=3), AddLayer(name="add", bottoms="x", tops="y")]
    net = Net("narrow", layers, backend=Narrow(), compute="bf16", allocate=False)
    assert (net.view().compute, net.view(HostMemory.shared()).compute) == ("bf16", "float32")


class TwiceLayer(Layer, can_do_bp=True):
    bottoms: Names
    tops: Names


class TwiceState(LayerState, of=TwiceLayer, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: Any) -> None:
        np.multiply(inputs[0], 2, out=self.blobs[0])

    def backward(self, inputs: Any, diffs: Any) -> None:
        np.multiply(self.blobs_diff[0], 2, out=diffs[0])


class EachLayer(Layer, can_do_bp=True):
    bottoms: Names
    tops: Names


class EachState(TwiceState, of=EachLayer, elementwise=True):
    """Works on own blobs as they are."""


class TwiceKernel(TwiceState):
    def forward(self, inputs: Any) -> None:
        np.multiply(inputs[0].memory, 2, out=self.blobs[0].memory)

    def backward(self, inputs: Any, diffs: Any) -> None:
        np.multiply(self.blobs_diff[0].memory, 2, out=diffs[0].memory)


class PlainKernel(TwiceKernel, on_plain=True):
    pass


class Double(Neuron):
    def forward(self, backend: Any, x: Any, y: Any) -> None:
        np.multiply(x, 2, out=y)

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        np.multiply(dy, 2, out=dx)


class BentLayer(Layer, can_do_bp=True, has_neuron=True):
    bottoms: Names
    tops: Names
    neuron: Neuron = Double()


class BentState(LayerState, of=BentLayer, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: Any) -> None:
        self.blobs[0][...] = inputs[0]

    def backward(self, inputs: Any, diffs: Any) -> None:
        diffs[0][...] = self.blobs_diff[0]


def check(new_registry: NewRegistry, kernel: type, thing: str, layers: list[Layer], *own: str) -> Any:
    """Compare the net without the kernel, where it is enabled, and where it is pinned; return the enabled one's choice.

    `own` are layers with a kernel for the backend itself.
    """
    registry = new_registry()
    registry.register(TurnedBackend, "turned")
    for one in (AddLayer, TwiceLayer, EachLayer, BentLayer, Double):
        registry.register(one)
    for name in ("Add", *own):
        registry.register_kernel(ThroughKernel, name, "turned")
    install_plugin(registry, "acme", [("kernel", f"{thing}@numpy", kernel)])

    def made(**options: Any) -> tuple[Any, Any, list[Any]]:
        with Net("net", layers, backend="turned", input_gradients=["data"], **options) as net:
            net.write("data", np.random.default_rng(0).normal(size=net.memory.final["data"].shape))
            net.forward()
            net.backward()
            (choice,) = [op.choice for op in net.ops if op.name == ("tested/Double" if "neuron" in thing else "tested")]
            return choice, net.gradient("data"), sorted(net.schedule.copies)

    without, expected, fewest = made()
    enabled, found, copies = made(kernels=["acme"])
    pinned, told, more = made(pins={f"kernel:{thing}@numpy": "acme"})
    assert (without.kernel, pinned.kernel) == (None, kernel)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(told, expected)
    assert copies == fewest
    assert (len(more) > len(fewest)) == (enabled.kernel is None)  # in these nets it adds copies wherever it declines
    return enabled


@pytest.mark.parametrize(
    ("layer", "kernel", "shape", "reason"),
    [
        (TwiceLayer, TwiceKernel, (3,), ""),
        (TwiceLayer, TwiceKernel, (2, 4, 4), "'x' in numpy's own blobs, the layer's own code in the host's arrays"),
        (TwiceLayer, PlainKernel, (2, 4, 4), ""),
        (EachLayer, TwiceKernel, (3,), "'x' in the host's arrays, the layer's own code in turned's own blobs"),
        (EachLayer, PlainKernel, (2, 4, 4), "'x' in the host's arrays, the layer's own code in turned's own blobs"),
    ],
)
def test_behind_own_blobs(new_registry: NewRegistry, layer: Any, kernel: type, shape: Any, reason: str) -> None:
    layers = [
        InputLayer(name="in", tops="data", shape=shape, batch_size=2),
        AddLayer(name="below", bottoms="data", tops="x"),
        layer(name="tested", bottoms="x", tops="y"),
        AddLayer(name="above", bottoms="y", tops="z"),
        SquareLossLayer(name="loss", bottoms="z"),
    ]
    name = layer.__name__.removesuffix("Layer")
    choice = check(new_registry, kernel, name, layers)
    pin = f'pin = {{ "kernel:{name}@numpy" = "acme" }} under [plugins] in the net file or in nacre.toml'
    told = f"it may add copies: it needs {reason}; to choose it: {pin}"
    assert [why for _, why in choice.declined] == ([told] if reason else [])
    assert choice.kernel is (None if reason else kernel)


@pytest.mark.parametrize(("kernel", "shape"), [(TwiceKernel, (3,)), (PlainKernel, (2, 4, 4))])
def test_behind_plain_arrays(new_registry: NewRegistry, kernel: type, shape: Any) -> None:
    layers = [
        InputLayer(name="in", tops="data", shape=shape, batch_size=2),
        EachLayer(name="tested", bottoms="data", tops="y"),
        SquareLossLayer(name="loss", bottoms="y"),
    ]
    assert check(new_registry, kernel, "Each", layers).kernel is kernel


@pytest.mark.parametrize("own", [True, False])
def test_neurons(new_registry: NewRegistry, *, own: bool) -> None:
    layers = [
        InputLayer(name="in", tops="data", shape=(3,), batch_size=2),
        BentLayer(name="tested", bottoms="data", tops="y"),
        AddLayer(name="above", bottoms="y", tops="z"),
        SquareLossLayer(name="loss", bottoms="z"),
    ]
    choice = check(new_registry, TwiceKernel, "neuron/Double", layers, *(["Bent"] if own else []))
    assert choice.kernel is (None if own else TwiceKernel)
    assert len(choice.declined) == own


def test_sources_and_components(new_registry: NewRegistry) -> None:
    class Pull:
        dtypes = ()

        @classmethod
        def supports(cls, regularizer: Any, inputs: Any) -> str | None:
            return None

        def add_gradient(self, value: Any, gradient: Any, coefficient: float) -> None: ...

    registry = new_registry()
    registry.register(TurnedBackend, "turned")
    install_plugin(
        registry, "acme", [("kernel", "RandomNormal@numpy", TwiceKernel), ("kernel", "regularizer/L2@numpy", Pull)]
    )
    source = RandomNormalLayer(name="in", tops="data", output_dims=[3], batch_size=2)
    with Net("net", [source], backend="turned", kernels=["acme"]) as net:
        choice = net.ops[0].choice
        assert choice.kernel is None
        assert "which cannot be known before its data are open; to choose it: pin" in choice.declined[0][1]
        assert net.target.choose_kernel(L2(), [None]).kernel is Pull  # works on the arrays that it is given
