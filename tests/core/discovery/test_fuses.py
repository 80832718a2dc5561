"""A kernel applies the neurons that it names, and no other that is called like one of them."""

from __future__ import annotations

import pytest

from nacre import HostMemory, Identity, LayerState, open_backend
from nacre.discovery.registry import Registry
from nacre_layers.neurons import ReLU, Tanh
from registries import NewRegistry, install_plugin


@pytest.fixture
def here(new_registry: NewRegistry) -> Registry:
    return new_registry()


def called(name: str, of: type = Identity) -> type:
    return type(name, (of,), {})


class Still(LayerState):
    """A state that computes nothing."""

    def forward(self, inputs: object) -> None: ...
    def backward(self, inputs: object, diffs: object) -> None: ...


def fused(kernel: type, *neurons: type) -> list[bool]:
    state = kernel(None, None, [], [])
    return [state.fuses_neuron(neuron()) for neuron in neurons]


def test_a_neuron_of_the_same_name_is_not_fused(here: Registry) -> None:
    class Kernel(Still, fuses=("ReLU",)):
        pass

    class Whole(Still, fuses=("nacre:ReLU", "acme:Softsign")):
        pass

    stranger, derived, softsign = called("ReLU"), called("ReLU", ReLU), called("Softsign")
    here.register(stranger, distribution="acme")
    here.register(softsign, distribution="acme")
    for kernel in (Kernel, Whole):
        assert fused(kernel, ReLU, stranger, derived, Tanh) == [True, False, False, False]
    assert fused(Whole, softsign, called("Softsign")) == [True, False]


def test_a_bare_name_is_that_of_the_kernels_own_distribution_first(here: Registry) -> None:
    class Kernel(Still, fuses=("ReLU", "Tanh", "Softsign")):
        pass

    own, others = called("ReLU"), called("Softsign")
    here.register(own, distribution="fast")
    here.register(others, distribution="acme")
    here.register_kernel(Kernel, "InnerProduct", "numpy", "fast")
    assert fused(Kernel, own, ReLU, Tanh, others) == [True, False, True, False]


# Which backend is "auto"


@pytest.mark.parametrize("name", ["keen", "numpy", "onednn"])
def test_a_strangers_backend_is_auto_only_where_it_is_enabled(
    here: Registry, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    class Keen(HostMemory):
        auto = 9

    Keen.name, Keen.lineage = name, (name, "numpy")
    monkeypatch.delenv("NACRE_BACKEND", raising=False)
    usual = type(open_backend())
    install_plugin(here, "keen", [("backend", name, Keen)])
    install_plugin(here, "broken", [("backend", "broken", "is_nowhere:Backend")])
    assert type(open_backend()) is usual
    here.kernels = ("broken", "keen")
    assert type(open_backend()) is Keen
    monkeypatch.setattr(Keen, "auto", 0)  # only when asked for
    assert type(open_backend()) is usual
