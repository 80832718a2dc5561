from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import Component, ConfigError, ContractError, Identity, Initializer, Neuron, Solver, Transformer
from nacre.fields.component import make_component
from nacre_layers.initializers import Constant
from nacre_layers.neurons import ReLU
from nacre_solvers import SGD
from registries import NewRegistry


def test_a_component_needs_a_kind() -> None:
    with pytest.raises(ContractError, match=r"Lonely: .*class Lonely\(Component, kind='...'\)"):

        class Lonely(Component):
            """Has no kind."""


def test_a_kind_goes_to_subclasses_and_is_known() -> None:
    class Sound(Component, kind="test_sound"):
        """A new kind needs no change in the core."""

    class Bell(Sound):
        """One of them."""

    assert Bell.nacre_kind == "test_sound"
    assert Component.kinds["test_sound"] is Sound
    assert Component.kinds["neuron"] is Neuron


def test_made_from_an_object_a_name_a_table_or_a_number() -> None:
    assert type(make_component(Neuron, "ReLU")) is ReLU
    made = make_component(Neuron, {"type": "ReLU", "epsilon": 0.5})
    assert (type(made), made.epsilon) == (ReLU, 0.5)  # type: ignore[attr-defined]
    assert make_component(Constant, 0.25).value == 0.25
    number = make_component(Initializer, 3)
    assert (type(number), number.value) == (Constant, 3.0)  # type: ignore[attr-defined]
    assert make_component(Initializer, np.float32(0.5)).value == 0.5  # type: ignore[attr-defined]
    assert Solver(SGD(), lr_policy=np.int8(1), momentum_policy=np.float16(0.5)).momentum_policy.momentum(0) == 0.5


class Weather(Component, kind="test_weather"):
    """A stranger's kind."""


class Sunny(Weather):
    """What a number means."""

    degrees: float = 20.0

    @classmethod
    def from_number(cls, number: float) -> Sunny:
        return cls(degrees=number)


def test_plugins_say_what_a_number_and_what_no_name_means(new_registry: NewRegistry) -> None:
    here = new_registry(discover=False)
    with pytest.raises(ValueError, match=r"^$"):
        make_component(Weather, 25)
    with pytest.raises(ConfigError, match="no test_weather is named, and no plugin offers a default one") as caught:
        make_component(Weather, "")
    assert "install a plugin that offers a default" in caught.value.remedy
    for kind in ("number_of", "default_of"):
        here.register(Sunny, "test_weather", kind, "acme")
    assert make_component(Weather, 25).degrees == 25  # type: ignore[attr-defined]
    assert make_component(Weather, "").degrees == 20  # type: ignore[attr-defined]
    assert make_component(Weather, {"type": "", "degrees": 5}).degrees == 5  # type: ignore[attr-defined]
    here.register(Sunny, "test_weather", "number_of", "bits")
    with pytest.raises(ConfigError, match="number_of 'test_weather' is offered by acme and bits"):
        make_component(Weather, 25)


def test_without_the_plugin_of_policies_a_number_means_none(new_registry: NewRegistry) -> None:
    new_registry(environ={"NACRE_DISABLE_PLUGINS": "nacre-solvers"})
    with pytest.raises(ConfigError, match=r"lr_policy=0\.01, but it must be an lr_policy") as caught:
        Solver(SGD())
    assert "algorithm: no algorithm is named, and no plugin offers a default one" in str(caught.value)
    assert "nacre:nacre-solvers is disabled: NACRE_DISABLE_PLUGINS" in caught.value.remedy


@pytest.mark.parametrize("value", [True, None, {"epsilon": 1}, ["ReLU"], 0.5])
def test_what_no_neuron_is_made_of(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        make_component(Neuron, value)


def test_a_name_that_nobody_offers() -> None:
    with pytest.raises(ConfigError, match="ReLu"):
        make_component(Neuron, "ReLu")


def test_a_table_is_not_changed() -> None:
    table = {"type": "ReLU", "epsilon": 0.5}
    make_component(Neuron, table)
    assert table == {"type": "ReLU", "epsilon": 0.5}


def test_the_type_of_a_table_is_never_an_import_path() -> None:
    with pytest.raises(ConfigError):
        make_component(Neuron, {"type": "nacre_layers.neurons:ReLU"})


def test_identity_copies_only_where_it_must() -> None:
    class Backend:
        xp = np

    x, y = np.ones(3), np.zeros(3)
    Identity().forward(Backend(), x, x)
    Identity().forward(Backend(), x, y)
    assert list(y) == [1, 1, 1]
    dx = np.zeros(3)
    Identity().backward(Backend(), None, y, x, dx)
    assert list(dx) == [1, 1, 1]


def test_a_component_has_no_memory_unless_it_says_so() -> None:
    class Nothing(Transformer):
        """Does nothing."""

    assert Nothing().memory() == {}
    with pytest.raises(NotImplementedError):
        Nothing().transform(np.zeros(1), None, "train")
