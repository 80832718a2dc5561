"""The kernels against the layers' own code, and when a net takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nacre_numba import LayerNormKernel, LRNKernel, RMSNormKernel

from nacre import InputLayer, Net
from nacre.config import load
from nacre.testing import Example, KernelTests, check_plugin
from nacre_layers import LayerNormLayer, LRNLayer, RMSNormLayer


class TestLayerNorm(KernelTests):
    """Vectors, sequences and images, with and without scale and bias."""

    layer = LayerNormLayer
    kernel = LayerNormKernel

    def examples(self) -> Iterator[Example]:
        yield Example(inputs=[(3, 17)], label="vectors")
        yield Example(fields={"axis": -1, "bias": False}, inputs=[(2, 3, 8)], label="sequences")
        yield Example(fields={"scale": False, "epsilon": 0.1}, inputs=[(2, 3, 4, 5)], label="images")
        yield Example(fields={"axis": 2, "neuron": "ReLU"}, inputs=[(2, 3, 4, 5)], label="channels")
        yield Example(inputs=[1e3 + np.random.default_rng(0).normal(size=(4, 50))], label="a large mean")


class TestRMSNorm(KernelTests):
    """The same without means."""

    layer = RMSNormLayer
    kernel = RMSNormKernel

    def examples(self) -> Iterator[Example]:
        yield Example(inputs=[(3, 17)], label="vectors")
        yield Example(fields={"axis": -1, "scale": False}, inputs=[(2, 3, 8)], label="sequences")
        yield Example(inputs=[(2, 3, 4, 5)], label="images")


class TestLRN(KernelTests):
    """Windows of every kind across channels; those within a channel are declined."""

    layer = LRNLayer
    kernel = LRNKernel

    def examples(self) -> Iterator[Example]:
        yield Example(inputs=[(2, 7, 3, 4)], label="images")
        yield Example(fields={"kernel": 4, "power": 0.6, "shift": 2.0}, inputs=[(2, 7, 3, 4)], label="even windows")
        yield Example(fields={"kernel": 9}, inputs=[(3, 4), (2, 5, 1, 1)], label="wider than the channels")
        yield Example(inputs=[(2, 1, 3, 4)], label="one channel")
        yield Example(fields={"mode": "within"}, inputs=[(2, 3, 4, 4)], label="declined: within")
        yield Example(inputs=[(2, 3, 4)], label="declined: sequences")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, about infinity
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("layer", [LayerNormLayer, RMSNormLayer, LRNLayer])
def test_nan_comes_where_the_layers_own_code_has_it(layer: Any, number: float) -> None:
    """A record that is not finite spoils no other."""
    x = np.random.default_rng(0).normal(size=(3, 8))
    x[1, 2] = number
    found = []
    for kernels in ([], ["nacre-numba"]):
        source = InputLayer(tops="x", shape=(8,), batch_size=3)
        with Net("nan", [source, layer(bottoms="x", tops="y")], backend="numpy", kernels=kernels) as net:
            net.write("x", x)
            net.forward()
            found.append(net.blob("y"))
    assert np.array_equal(np.isnan(found[0]), np.isnan(found[1]))


NET = """
[[layer]]
type = "Input"
tops = ["x"]
shape = [8]

[[layer]]
type = "LayerNorm"
name = "norm"
bottoms = ["x"]
tops = ["y"]
"""


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("", False),
        ('[plugins]\nkernels = ["nacre-numba"]', True),
        ('[plugins]\npin = { "kernel:LayerNorm@numpy" = "nacre-numba" }', True),
        ('[plugins]\npin = { "kernel:LRN@numpy" = "nacre-numba" }', False),
    ],
    ids=["installed", "enabled", "pinned", "another pinned"],
)
def test_a_net_has_a_kernel_only_if_somebody_asks_for_it(tmp_path: Path, line: str, taken: bool) -> None:
    """Installing the package changes nothing."""
    (tmp_path / "net.toml").write_text(f"{NET}\n{line}\n", encoding="utf-8")
    with load(tmp_path / "net.toml").net(backend="numpy") as net:
        assert isinstance(net.owners()["layer.norm"], LayerNormKernel) == taken


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-numba` says."""
    check_plugin("nacre-numba")
