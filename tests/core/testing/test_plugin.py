"""The fixtures of nacre's plugin for pytest."""

import sys

import importlib_metadata
import pytest

import nacre
from nacre import NacreError, Net
from nacre.testing import backends

ACME = {
    "acme_layers/__init__.py": """
        from nacre.hooks import hookimpl
        nacre_api = "1"

        @hookimpl
        def offer_layers():
            return {"Swap": "acme_layers.swap:SwapLayer"}
        """,
    "acme_layers/swap.py": """
        from nacre import Layer

        class SwapLayer(Layer):
            def setup(self, backend, inputs, diffs):
                raise NotImplementedError
        """,
}


def test_an_empty_registry_takes_the_place_of_the_processs(nacre_registry):
    assert nacre.registry() is nacre_registry
    assert nacre_registry.names("layer") == []
    nacre_registry.register(type("HaltLayer", (nacre.Layer,), {"__doc__": "Nothing."}), "Halt")
    assert nacre_registry.names("layer") == ["Halt"]
    with pytest.raises(NacreError, match="no backend 'numpy'"):
        Net("n", [], backend="numpy")


def test_the_registry_is_back_after_the_test():
    assert "Halt" not in nacre.registry().names("layer")
    assert {"ReLU", "InnerProduct"} <= {*nacre.registry().names("layer"), *nacre.registry().names("neuron")}


def test_a_distribution_looks_installed(fake_distribution):
    before = nacre.registry()
    folder = fake_distribution(ACME, {"acme": "acme_layers"}, version="2.5", metadata="Summary: swaps\n")
    assert nacre.registry() is not before
    (offer,) = nacre.registry().offers("layer", "Swap")
    assert (offer.distribution, offer.provenance.version) == ("acme", "2.5")
    assert nacre.registry().open("layer", "Swap").__module__ == "acme_layers.swap"
    assert "InnerProduct" in nacre.registry().names("layer")
    assert (folder / "acme-2.5.dist-info" / "METADATA").read_text().endswith("Summary: swaps\n")
    fake_distribution({"late.py": "raise OSError"}, {"late-one": "late"}, name="acme-late")
    assert importlib_metadata.version("acme-late") == "1.0"
    assert [problem.distribution for problem in nacre.registry().problems] == ["acme-late"]


def test_a_distribution_is_gone_after_the_test():
    assert "acme_layers" not in sys.modules
    assert "Swap" not in nacre.registry().names("layer")
    assert not any("site-acme" in path for path in sys.path)


SEEN = []


def test_a_test_runs_on_every_backend(nacre_backend):
    assert (
        Net("n", [nacre.InputLayer(tops="x", shape=2, batch_size=1)], backend=nacre_backend).backend.name
        == nacre_backend
    )
    SEEN.append(nacre_backend)


@pytest.fixture
def twice(nacre_backend):
    return [nacre_backend] * 2


def test_a_fixture_may_use_it(twice):
    assert twice[0] in backends()


def test_these_were_all_backends():
    assert backends() == SEEN
