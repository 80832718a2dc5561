"""A field, a parameter and a component's field have new names: nets and snapshots from before are read as they were.

The files in `renamed` were made by the classes in `renamed/before.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import nacre
from nacre import (
    ConfigError,
    ContractError,
    Layer,
    LayerState,
    Names,
    Net,
    Neuron,
    Parameter,
    SnapshotError,
    default,
    exactly,
    finite,
)
from nacre.config import NetFile, load
from nacre_layers import Constant
from registries import NewRegistry

FILES = Path(__file__).with_name("renamed")


class Bent(Neuron, renamed={"slope": "below"}):
    """y = x above 0, below · x below it."""

    below: Annotated[float, finite, "the slope below 0"] = 0.1

    def forward(self, backend: Any, x: Any, y: Any) -> None:
        y[...] = np.where(x < 0, self.below * x, x)

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        dx[...] = np.where(y < 0, self.below * dy, dy)


class GrowLayer(
    Layer,
    has_param=True,
    has_neuron=True,
    can_do_bp=True,
    version=2,
    renamed={"by": "factor", "amount": "weight", "count": "seen"},
):
    """y = weight · x; the buffer `seen` counts batches."""

    bottoms: Annotated[Names, exactly(1), "x"]
    tops: Annotated[Names, exactly(1), "y"]
    factor: Annotated[float, finite, "the first weight"] = 1.0
    neuron: Annotated[Neuron, "the neuron"] = default("Bent")


class GrowState(LayerState, of=GrowLayer):
    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.weight = Parameter("weight", (1,), init=Constant(value=layer.factor))
        self.seen = Parameter("seen", (1,), init=Constant(), trainable=False)
        self.parameters = [self.weight, self.seen]

    def forward(self, inputs: Any) -> None:
        np.multiply(inputs[0], self.weight.blob, out=self.blobs[0])
        if self.phase == "train":
            self.seen.blob += 1

    def backward(self, inputs: Any, diffs: Any) -> None:
        if self.weight.gradient is not None:
            self.weight.gradient[0] = (inputs[0] * self.blobs_diff[0]).sum()
        if diffs[0] is not None:
            np.multiply(self.blobs_diff[0], self.weight.blob, out=diffs[0])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> None:
    """Work in a copy of the kept files, with the classes of today."""
    shutil.copytree(FILES, tmp_path / "renamed")
    monkeypatch.chdir(tmp_path / "renamed")
    monkeypatch.setenv("NACRE_BACKEND", "numpy")
    new_registry()
    nacre.register(GrowLayer)
    nacre.register(Bent)


def kept(name: str) -> float:
    """Return a number of the kept snapshot."""
    return float(nacre.load_snapshot("before.h5").arrays[f"parameters/grow/{name}"][0])


def weights(net: Net) -> list[float]:
    return [float(net.parameters[f"grow/{name}"].value[0]) for name in ("weight", "seen")]


def test_an_old_net_file_is_read() -> None:
    layer: Any = load("net.toml").layers[1]
    assert (layer.factor, layer.neuron.below) == (2.0, 0.5)
    assert "by" not in layer.given()
    changed: Any = load("net.toml", ["layer.grow.by=3"]).layers[1]
    assert changed.factor == 3


def test_parameters_of_an_old_snapshot_are_loaded() -> None:
    with load("net.toml").net() as net:
        assert weights(net) == [2, 0]
        loaded = net.load("before.h5")
        assert loaded.complete, loaded
        assert weights(net) == [kept("amount"), kept("count")]
        assert "where its name is grow/amount" in loaded.loaded["grow/weight"]


def test_a_training_goes_on_from_an_old_snapshot() -> None:
    """With the history of the parameter, and no word of changed fields; the new version of the layer is told."""
    file: NetFile = load("net.toml", ["solver.max_iter=6"])
    with file.net() as net:
        solver = file.solver()
        with pytest.warns(UserWarning, match="version 1 of .*Grow, is version 2 of .*Grow") as told:
            training = solver.solve(net, resume="before.h5", quiet=True)
        assert training.iteration == 6
        assert weights(net)[1] == kept("count") + 2
    assert not [one for one in told if "trained with" in str(one.message)]


def test_an_old_saved_net_is_loaded() -> None:
    with nacre.load("before.nacre") as net:
        assert weights(net) == [kept("amount"), kept("count")]


def test_new_files_have_the_new_names() -> None:
    with load("net.toml").net() as net:
        net.save("again.nacre")
    with nacre.load("again.nacre") as again:
        assert list(again.parameters) == ["grow/weight", "grow/seen"]
    assert "factor = 2.0" in nacre.config.dumps(load("net.toml"))


def test_python_code_may_use_the_old_name() -> None:
    assert Bent(slope=0.3).below == 0.3


class AgainLayer(Layer, has_param=True, can_do_bp=True):
    """Grows by the weight of another layer, which it knows by its former name."""

    bottoms: Annotated[Names, exactly(1), "x"]
    tops: Annotated[Names, exactly(1), "y"]


class AgainState(GrowState, of=AgainLayer):
    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        LayerState.__init__(self, layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.weight = self.seen = Parameter("weight", (1,), tied="grow/amount")
        self.parameters = [self.weight]


def test_a_parameter_is_found_by_its_former_name() -> None:
    layers = [*load("net.toml").layers[:2], AgainLayer(name="again", bottoms=["y"], tops=["z"])]
    with Net("net", layers, backend="numpy", phase="predict", keep="all") as net:
        assert net.parameters["grow/amount"] is net.parameters["grow/weight"]
        assert "grow/amount" in net.parameters and "grow/amount" not in list(net.parameters)
        net.parameters["grow/amount"].value = [3.0]
        net.forward()
        np.testing.assert_array_equal(net.blob("z"), 3 * net.blob("y"))


def test_both_names_are_told() -> None:
    with pytest.raises(ConfigError, match="'slope' and 'below' are given, but are one field") as told:
        Bent(slope=0.3, below=0.3)
    assert told.value.remedy == "remove 'slope'"


def test_a_name_that_is_still_there_cannot_be_renamed() -> None:
    with pytest.raises(ContractError, match=r"renamed={'below': \.\.\.}, but still has this field"):

        class Straight(Bent, renamed={"below": "under"}):
            pass


def test_an_old_name_is_only_looked_for_where_the_new_one_is_missing() -> None:
    with load("net.toml").net() as net:
        snapshot = nacre.load_snapshot("before.h5")
        snapshot.arrays["parameters/grow/weight"] = np.array([7.0])
        with pytest.raises(SnapshotError, match="'grow/amount' is not in the net"):
            net.parameters.load(snapshot)
        net.parameters.load(snapshot, strict=False)
        assert weights(net)[0] == 7
