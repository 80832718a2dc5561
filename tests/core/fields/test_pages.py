"""What `inspect.signature`, `help` and completion show of layers, components and solvers."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import pytest

import nacre
import nacre_layers
from nacre import Configured, Initializer, InputLayer, L, Layer, Names, Solver
from nacre.fields.pages import own_doc
from nacre_layers import ConvolutionLayer, ReLU
from nacre_solvers import EarlyStopping


def every() -> list[type[Configured]]:
    here = nacre.registry()
    offers = [offer for kind in here.kinds() if kind != "kernel" for offer in here.offers(kind)]
    opened = [here.open_offer(offer) for offer in offers if offer.distribution == "nacre"]
    return [cls for cls in opened if isinstance(cls, type) and issubclass(cls, Configured)]


def test_every_field_is_in_the_signature_and_in_the_docstring() -> None:
    found = every()
    assert len(found) > 150
    for cls in found:
        parameters = inspect.signature(cls).parameters
        assert set(parameters) == {field.name for field in cls.fields()}
        doc = inspect.getdoc(cls) or ""
        assert doc.startswith(own_doc(cls).split("\n")[0])
        for field in cls.fields():
            assert f"    {field.name}: {field.type}" in doc
            assert field.help in doc


def test_a_signature_has_types_and_defaults() -> None:
    text = str(inspect.signature(ConvolutionLayer))
    assert text.startswith("(*, bottoms: Names = (), tops: Names = (), n_filter: int, kernel: Sizes = (1,), ")
    assert str(inspect.signature(ReLU)) == "(*, epsilon: float = 0.0)"
    solver = inspect.signature(Solver)
    assert str(solver).startswith("(method: Method, *, ")
    assert solver.parameters["n_accumulate"].default == 1
    assert "patience" in inspect.signature(EarlyStopping).parameters
    assert str(inspect.signature(L.Convolution(n_filter=1))).startswith("(*bottoms: ")


def test_a_layer_with_a_neuron_has_the_page_of_the_neuron_and_the_fields_of_both() -> None:
    for name in ("ReLU", "ELU"):
        made: Any = L[name]
        assert made.__doc__ == getattr(nacre_layers, name).__doc__
    assert str(inspect.signature(L.ReLU)).startswith("(*, epsilon: float = 0.0, bottoms: Names = (), tops: Names = ()")
    layer: Any = L["ReLU"](epsilon=0.1, name="r")
    parameters = {*inspect.signature(L.ReLU).parameters} - {"epsilon"}
    assert parameters == {*inspect.signature(type(layer)).parameters} - {"neuron"}
    assert (layer.neuron.epsilon, layer.name) == (0.1, "r")
    assert "epsilon: float = 0.0" in pydoc.plain(pydoc.render_doc(L.ReLU))


def test_help_is_a_page() -> None:
    page = pydoc.plain(pydoc.render_doc(ConvolutionLayer))
    assert "n_filter: int\n |          number of filters: the channels of a top (above 0)" in page
    assert "n_accumulate: int = 1\n |          number of batches" in pydoc.plain(pydoc.render_doc(Solver))
    assert pydoc.render_doc(nacre)
    assert pydoc.render_doc(Initializer)


def test_a_class_without_a_docstring_has_its_fields() -> None:
    class Bare(Layer):
        bottoms: Names
        tops: Names
        width: int = 3

    assert own_doc(Bare) == ""
    assert (Bare.__doc__ or "").startswith("Fields:\n    bottoms: Names = ()\n")
    assert "Fields:" not in own_doc(InputLayer)
    assert own_doc(InputLayer).startswith("Blobs that are written from outside")


def test_an_object_has_the_page_of_its_class() -> None:
    assert ConvolutionLayer(n_filter=2).__doc__ == ConvolutionLayer.__doc__


def test_values_without_names_are_refused() -> None:
    with pytest.raises(nacre.ConfigError) as caught:
        ReLU(0.5)  # type: ignore[call-arg]
    assert str(caught.value).startswith("ReLU: 0.5 given without a name, but fields are named\n  write ReLU(epsilon=")
