"""Modules as layers: nacre's kit with torch itself as the reference, trainings side by side, and the shared memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nacre_torch import TorchLayer
from torch import nn

import nacre
from nacre import ConfigError, ContractError, Input, L, Net, Solver
from nacre.config import load
from nacre.testing import Example, LayerTests, check_plugin
from nacre_solvers import SGD

EXAMPLES = {
    "Linear": (nn.Linear(4, 3), (5, 4), 1),
    "Conv2d": (nn.Conv2d(2, 3, 3, stride=2, padding=1, groups=1), (4, 2, 5, 6), 1),
    "BatchNorm2d": (nn.BatchNorm2d(3), (4, 3, 2, 2), 1),
    "LSTM": (nn.LSTM(3, 4, num_layers=2, batch_first=True), (2, 5, 3), 1),
    "LSTM and its states": (nn.LSTM(3, 4), (5, 2, 3), 3),
    "several": (nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2, bias=False)), (3, 4), 1),
}


class TestTorch(LayerTests):
    """The layer with modules of torch's, by themselves and by their names."""

    layer = TorchLayer

    def examples(self) -> Iterator[Example]:
        for label, (module, shape, tops) in EXAMPLES.items():
            yield Example(fields={"module": module}, inputs=[shape], tops=tops, label=label)
        table = {"type": "Linear", "in_features": 4, "out_features": 2}
        yield Example(fields={"module": table}, inputs=[(3, 4)], label="by name")
        yield Example(fields={"module": nn.Bilinear(2, 3, 4)}, inputs=[(5, 2), (5, 3)], tops=1, label="two bottoms")

    def reference(self, layer: TorchLayer, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
        module = layer.module if isinstance(layer.module, nn.Module) else nn.Linear(4, 2)
        values = {name: torch.tensor(value, dtype=torch.float64) for name, value in parameters.items()}
        mode = module.training
        module.train(self.phase == "train")
        found = torch.func.functional_call(module, values, tuple(torch.tensor(x) for x in inputs))
        module.train(mode)
        if isinstance(found, tuple):
            found = [found[0], *found[1]]
        else:
            found = [found]
        return [one.detach().numpy() for one in found[: len(layer.tops)]]


def trial(name: str) -> tuple[Net, nn.Module, list[Any], list[Any]]:
    """Return a net, a copy of the module in it, and batches of records and of what they should become."""
    module, shape, _ = copy.deepcopy(EXAMPLES[name])
    theirs = copy.deepcopy(module).double()
    out = first_of(theirs.eval()(torch.zeros(shape, dtype=torch.float64))).shape
    x, y = Input(shape[1:], name="x", batch_size=shape[0]), Input(out[1:], name="y", batch_size=shape[0])
    net = Net(name, [L.SquareLoss()(L.Torch(module=module, name="m")(x), y)], dtype="float64", backend="numpy")
    random = np.random.default_rng(0)
    return net, theirs.train(), *([random.normal(size=one) for _ in range(12)] for one in (shape, out))


def first_of(found: Any) -> Any:
    """Return the first tensor."""
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", ["Linear", "Conv2d", "BatchNorm2d", "LSTM"])
def test_a_training_is_torchs(name: str) -> None:
    """The same parameters and buffers after 12 steps of gradient descent with momentum."""
    net, theirs, xs, ys = trial(name)
    solver = Solver(SGD(), lr_policy=0.05, momentum_policy=0.9)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    with solver.start(net) as training:
        for x, y in zip(xs, ys, strict=True):
            net.write("x", x)
            net.write("y", y)
            training.step()
            optimizer.zero_grad()
            off = first_of(theirs(torch.tensor(x))) - torch.tensor(y)
            ((off**2).sum() / 2 / len(x)).backward()
            optimizer.step()
    for tensor, value in theirs.state_dict().items():
        if value.dtype.is_floating_point:
            assert np.abs(net.parameters[f"m/{tensor}"].value - value.numpy()).max() < 1e-6, tensor


def one(module: Any, size: int = 3, **options: Any) -> Net:
    """Return a net of one module, whose top is y."""
    return Net("one", [L.Torch(module=module, name="m")(Input(size, name="x"))], backend="numpy", **options)


def test_memory_is_shared_both_ways() -> None:
    """What either side changes, the other sees at once."""
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.fill_(0.5)
    net = one(module)
    assert (net.parameters["m/weight"].value == 0.5).all()  # it begins with the module's values
    net.write("x", np.ones((1, 3)))
    net.forward()
    with torch.no_grad():
        module.weight.fill_(2.0)
        module.bias.fill_(1.0)
    assert (net.parameters["m/weight"].value == 2).all()
    net.forward()
    assert net.blob("m").tolist() == [[7, 7]]
    net.parameters["m/weight"].value = np.full((2, 3), 3.0)
    assert (module.weight == 3).all()
    net.reset()
    assert (module.weight == 0.5).all()


def test_a_module_is_trained_where_it_is() -> None:
    """After `fit` the module itself predicts what the net does."""
    module = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 3))
    x, y = Input(4), Input(dtype="int64")
    net = Net("flowers", [L.SoftmaxLoss()(score := L.Torch(module=module)(x), y)])
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    table = (random.normal(size=(90, 4)) + labels[:, None]).astype(np.float32)
    loss = net.fit(table, labels, epochs=40, lr=0.01, quiet=True).history["train"]["loss"]
    assert loss[-1] < 0.6 * loss[0]
    with torch.no_grad():
        assert np.allclose(net.predict(table, score), module(torch.tensor(table)).numpy(), atol=1e-5)


NET = """
[[layer]]
type = "Input"
tops = ["x"]
shape = [3]

[[layer]]
type = "Torch"
name = "m"
bottoms = ["x"]
tops = ["y"]
module = { type = "Linear", in_features = 3, out_features = 2 }
"""


def test_a_net_file_names_a_module(tmp_path: Path) -> None:
    """Its first values come from the net's seed, not from torch's generator; it can be saved."""
    (tmp_path / "net.toml").write_text(NET, encoding="utf-8")
    before = torch.get_rng_state()
    nets = [load(tmp_path / "net.toml").net(seed=seed, backend="numpy") for seed in (1, 1, 2)]
    values = [net.parameters["m/weight"].value for net in nets]
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(values[0], values[1]) and not np.array_equal(values[0], values[2])
    nets[0].reset(2)
    assert np.array_equal(nets[0].parameters["m/weight"].value, values[2])
    nets[2].save(tmp_path / "net.nacre")
    x = np.ones((1, 3))
    assert np.array_equal(nacre.load(tmp_path / "net.nacre").predict(x), nets[2].predict(x))


class Doubling(nn.Module):  # type: ignore[misc]  # torch is not read here
    """y = factor * x."""

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product."""
        return self.factor * x


def test_a_module_of_ones_own_has_a_name_if_it_is_offered() -> None:
    """Here by `register`; a package offers it as {"torch_module": {"Doubling": "my_package:Doubling"}}."""
    with pytest.raises(ConfigError, match="no torch_module 'Doubling'"):
        one("Doubling")
    nacre.register(Doubling, kind="torch_module")
    assert one("Doubling").predict(np.ones((1, 3))).tolist() == [[2, 2, 2]]
    assert one({"type": "Doubling", "factor": 5.0}).predict(np.ones((1, 3))).tolist() == [[5, 5, 5]]
    with pytest.raises(ConfigError, match=r"module Doubling: .*'speed'"):
        one({"type": "Doubling", "speed": 5.0})


def test_what_a_module_draws_is_the_nets() -> None:
    """The same at every call within a step, and not what torch's own generator gives."""
    with one(nn.Dropout(0.5), 100) as net, one(nn.Dropout(0.5), 100, seed=1) as other:
        found = []
        for each in (net, net, other):
            each.write("x", np.ones((1, 100)))
            each.forward()
            found.append(each.blob("m"))
        assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])
        net.step = 1
        net.forward()
        assert not np.array_equal(net.blob("m"), found[0])
        assert (net.predict(np.ones((1, 100))) == 1).all()


def test_a_frozen_module_keeps_its_buffers() -> None:
    """Then it uses them, as outside of training."""
    module = nn.BatchNorm1d(3)
    x, y = Input(3, name="x", batch_size=4), Input(3, name="y", batch_size=4)
    loss = L.SquareLoss()(L.InnerProduct(output_dim=3)(L.Torch(module=module, name="m")(x)), y)
    with Net("frozen", [loss], freeze=["m"]) as net:
        net.write("x", np.ones((4, 3)))
        net.forward()
        assert not module.training and (module.running_mean == 0).all()
        net.unfreeze("m")
        net.forward()
        assert module.training and (module.running_mean == 0.1).all()


def test_mistakes_are_told() -> None:
    """With the layer, the module and what to do."""
    for module, what in (
        (nn.Linear(4, 2), "m: the module Linear cannot be used on bottoms of the shapes"),
        (nn.Linear, "module=.* but it must be a torch.nn.Module"),
        ({"type": "Linear", "in_features": 3}, "m: module Linear: .*out_features"),
    ):
        with pytest.raises(ConfigError, match=what):
            one(module)
    with pytest.raises(ConfigError, match="returns 1 tensors"):
        Net("two", [*L.Torch(module=nn.Linear(3, 2), name="m")(Input(3), tops=2)], backend="numpy")
    net = one(nn.ReLU(inplace=True))
    net.write("x", np.ones((1, 3)))
    with pytest.raises(ContractError, match="changes its input in place"):
        net.forward()
    with pytest.raises(ConfigError, match="module"):
        one(nn.Linear(3, 2)).save("object.nacre")


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-torch` says."""
    check_plugin("nacre-torch")
