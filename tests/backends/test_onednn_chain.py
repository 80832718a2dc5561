"""Chains of layers that the onednn backend computes in one pass: by the helper alone, and in nets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run as run_command
from exact import narrow as narrowed
from exact import widen as widened
from helper_calls import run
from nacre import BlobError, L, Net, Solver, open_backend
from nacre_layers import neurons
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import Call, plain
from nacre_onednn.helper import native
from nacre_onednn.kernels import chain
from nacre_onednn.kernels.chain import MOST_LINKS, RELU, TIMES, ChainKernel, Link, backward_call, by_top, forward_call
from nacre_onednn.kernels.neurons import FUNCTIONS, link_of
from nacre_solvers import SGD

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if native.helper() is None:
    pytest.skip("no helper was compiled", allow_module_level=True)

NARROW = "bf16" in open_backend("onednn").computes
PAIRS = ("TIMES", "OVER", "UNDER", "LARGER", "LARGER_SECOND")
LINKS = [
    *(link_of(neuron()) for neuron in FUNCTIONS),
    *(link_of(one) for one in (neurons.GELU(approximate="tanh"), neurons.SiLU(beta=-0.5), neurons.STanh(outer=0.5))),
    RELU,
    Link("SCALED", (0.3,)),
    *(Link("WEIGHED", numbers, others=1) for numbers in ((1.0, 1.0), (-1.0, 1.0), (0.3, 1.0), (1.0, -0.7))),
    *(Link(name, reads="x", others=1) for name in PAIRS),
]
SIZES = [1, 7, 127, 128, 129, 500, 4099, 40_001]


class Trial:
    """A random chain on random numbers, some of them NaN, infinite or equal, and which gradients are wanted."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.links = [LINKS[number] for number in random.integers(0, len(LINKS), random.integers(1, MOST_LINKS + 1))]
        size = self.size = int(random.choice(SIZES))
        sides = sum(link.others for link in self.links)
        self.others, gradients = ([f"{end}{number}" for number in range(sides)] for end in ("other", "dother"))
        self.wanted = [name if random.random() < 0.7 else "" for name in ["dx", *gradients]]
        self.given = {name: self.numbers(random, size) for name in ("x", "y", "dy", *self.others)}

    @staticmethod
    def numbers(random: Any, size: int) -> Any:
        made = random.normal(0, 2, size)
        for odd in (np.nan, np.inf, -np.inf, 0.0, 1.0):
            made[random.random(size) < 0.02] = odd
        return widened(narrowed(made))

    def run(self, calls: list[Call], dtype: str, threads: int, **more: Any) -> dict[str, Any]:
        """Run calls; return what they write, by name, as float32."""
        into, out = (narrowed, widened) if dtype == "bf16" else (np.copy, np.copy)
        buffers = {name: into(numbers) for name, numbers in {**self.given, **more}.items()}
        names = {name for call in calls for name in call.sizes()} - buffers.keys()
        buffers |= {name: into(np.full(self.size, 7, np.float32)) for name in names}
        run(calls, buffers, threads)
        return {name: out(buffers[name]) for name in {*names, "y"} - {""}}

    def whole(self, dtype: str, threads: int) -> dict[str, Any]:
        """Run the chain and its gradient, each in one pass."""
        desc = plain(self.size, dtype=dtype)
        known = "y" if by_top(self.links) else "x"
        forward = self.run([forward_call(self.links, desc, others=self.others)], dtype, threads)
        dx, *gradients = self.wanted
        call = backward_call(self.links, desc, {known: known, "dx": dx}, self.others, gradients)
        backward = self.run([call], dtype, threads, y=forward["y"])
        return {"y": forward["y"], **{name: backward[name] for name in self.wanted if name}}

    def one_by_one(self) -> dict[str, Any]:
        """Run each link and its gradient alone."""
        desc, sides, steps = plain(self.size), iter(range(len(self.others))), []
        x = self.given["x"]
        for link in self.links:
            other = [f"other{next(sides)}"] if link.others else []
            y = self.run([forward_call([link], desc, others=other)], "float32", 1, x=x)["y"]
            steps.append((link, other, x, y))
            x = y
        found, d = {"y": x}, self.given["dy"]
        for number, (link, other, x, y) in reversed([*enumerate(steps)]):
            known = {link.reads: link.reads} if link.reads else {}
            ends = {**known, "dx": "dx"}
            call = backward_call([link], desc, ends, other, [f"d{one}" for one in other])
            more = self.run([call], "float32", 1, x=x, y=y, dy=d)
            found |= {f"d{one}": more[f"d{one}"] for one in other}
            d = more["dx"]
            if not number:
                found["dx"] = d
        return {name: found[name] for name in ["y", *self.wanted] if name}


def assert_alike(found: dict[str, Any], expected: dict[str, Any], what: str) -> None:
    """Check that all numbers have the same bits; of NaN only that they are."""
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        nan = np.isnan(one)
        assert (np.isnan(found[name]) == nan).all(), f"{name} of {what}"
        bits = [np.where(nan, np.float32(0), numbers).view(np.uint32) for numbers in (found[name], one)]
        np.testing.assert_array_equal(*bits, err_msg=f"{name} of {what}")


def check(seed: int) -> None:
    trial = Trial(seed)
    what = f"seed {seed}, {[link.name for link in trial.links]}, {trial.size} numbers"
    whole = trial.whole("float32", 1)
    assert_alike(whole, trial.one_by_one(), what)
    assert_alike(trial.whole("float32", 2), whole, f"{what} on two threads")
    narrow = trial.whole("bf16", 1)
    assert_alike(trial.whole("bf16", 2), narrow, f"{what} in bf16 on two threads")
    trial.given["y"] = narrow["y"]
    wide = {"y": widened(narrowed(whole["y"]))}
    if by_top(trial.links):  # the gradient reads the rounded top
        desc, (dx, *gradients) = plain(trial.size), trial.wanted
        call = backward_call(trial.links, desc, {"y": "y", "dx": dx}, (), gradients)
        whole = {**whole, **trial.run([call], "float32", 1, y=narrow["y"])}
    wide |= {name: widened(narrowed(whole[name])) for name in trial.wanted if name}
    assert_alike(narrow, wide, f"{what} in bf16")


@pytest.mark.parametrize("seed", range(40))
def test_a_chain_has_the_bits_of_link_after_link(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40, 240))
def test_many_chains_have_the_bits_of_link_after_link(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
@pytest.mark.parametrize("links", [[RELU, LINKS[0]], [link_of(neurons.GELU())], [link_of(neurons.Hardswish())]])
def test_in_place(links: list[Link], dtype: str) -> None:
    random = np.random.default_rng(0)
    numbers, dy = (narrowed(random.normal(size=1001)) for _ in range(2))
    numbers, dy = (one if dtype == "bf16" else widened(one) for one in (numbers, dy))
    desc, found = plain(numbers.size, dtype=dtype), []
    for in_place in (False, True):
        x, d = numbers.copy(), dy.copy()
        y, dx = (x, d) if in_place else (np.zeros_like(x), np.zeros_like(d))
        run([forward_call(links, desc)], {"x": x, "y": y}, 1)
        run([backward_call(links, desc, {"x": "x", "dx": "dx"})], {"x": numbers, "dy": d, "dx": dx}, 1)
        found.append((y, dx))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_slopes_that_are_kept_have_the_bits_of_those_computed_again(size: int, threads: int) -> None:
    random, desc = np.random.default_rng(size), plain(size)
    x, dy = Trial.numbers(random, size), Trial.numbers(random, size)
    for link in LINKS:
        if link.reads == "x" and not link.others:
            found: list[dict[str, Any]] = []
            for kept in ("", "slopes"):
                buffers = {name: np.full(size, 7, np.float32) for name in ("y", "slopes", "dx")} | {"x": x, "dy": dy}
                again = backward_call([link], desc, {"x": "x", "dx": "dx"})
                times = forward_call([TIMES], desc, "dy", ["slopes"], y="dx")
                run([forward_call([link], desc, kept=kept), times if kept else again], buffers, threads)
                found.append({name: buffers[name] for name in ("y", "dx")})
            assert_alike(found[1], found[0], f"{link.name} of {size} numbers")


# Nets

UNIFORM = {"type": "Uniform", "low": -0.5, "high": 0.5}
SMALL = {"type": "Uniform", "low": -0.1, "high": 0.1}


def layers() -> list[Any]:
    """Return a net with chains: gates, operations of three and of the same bottom twice, and layers of neurons."""
    random = np.random.default_rng(3)
    data = [random.normal(size=(8, 7)), random.normal(size=(8, 7))]
    x, t = L.MemoryData(data=data, tops=["x", "t"], batch_size=4, name="data")()
    parts = [L.InnerProduct(output_dim=7, name=f"ip{n}", weight_init=UNIFORM)(x) for n in range(9)]
    gate = L.Sigmoid(name="gate")(parts[0])
    gated = L.ElementWise(operation="Multiply", name="gated")(parts[1], gate)
    summed = L.ElementWise(name="summed", neuron="SiLU")(gated, parts[2])
    square = L.ElementWise(name="square", operation="Multiply")(parts[3], parts[3])
    both = L.ElementWise(name="both", operation="Subtract")(L.Mish(name="mish")(square), summed)
    most = L.ElementWise(name="most", operation="Maximum", neuron="Tanh")(parts[4], both)
    bent = L.Hardswish(name="bent")(L.STanh(name="first")(parts[6]))
    three = L.ElementWise(name="three", operation="Multiply")(bent, parts[5], parts[7])
    mean = L.ElementWise(name="mean", operation="Mean")(three, parts[8], x)
    weighed = L.ElementWise(name="weighed", operation={"type": "Add", "coefficients": [0.5, -1.0, 2.0]})(mean, x, x)
    largest = L.ElementWise(name="largest", operation="Maximum", neuron="ReLU")(weighed, x, t)
    last = L.InnerProduct(output_dim=7, name="last", weight_init=UNIFORM)(most)
    return [L.SquareLoss(name="loss")(L.ElementWise(name="ends")(last, largest), t)]


WHOLE = {
    "summed": ["gate/Sigmoid", "gated", "summed", "summed/SiLU"],
    "most": ["square", "mish", "mish/Mish", "both", "most", "most/Tanh"],
    "mean": ["first/STanh", "bent", "bent/Hardswish", "three", "mean"],
    "ends": ["weighed", "largest", "ends"],
}
CHEAP = {
    "summed": ["gated", "summed"],
    "mish": ["square", "mish"],
    "most": ["both", "most"],
    "weighed": ["bent/Hardswish", "three", "mean", "weighed"],
    "ends": ["largest", "ends"],
}


def chains(net: Net) -> dict[str, list[str]]:
    """Return the layers that each chain computes, by the name of the last one."""
    found = {op.name: op for op in net.ops if isinstance(op.state, ChainKernel) and len(op.members) > 1}
    return {name: [one.name for one in op.members] for name, op in found.items()}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let chains in training be made of blobs of any size."""
    monkeypatch.setattr(chain, "LARGE", 0)


@pytest.mark.usefixtures("always")
def test_layers_in_a_row_are_one_pass() -> None:
    with Net("chains", layers(), backend="onednn") as net:
        assert chains(net) == WHOLE
        with pytest.raises(BlobError, match="'gated' is not written: one kernel computes it together"):
            net.blob("gated")
    with Net("chains", layers(), backend="onednn", keep=["gated"]) as net:
        net.forward()
        assert net.blob("gated").shape == (4, 7)
        assert "gated" not in chains(net)["summed"]
    with Net("chains", layers(), backend="onednn", keep="all") as net:
        assert not chains(net)


def test_small_blobs_are_joined_where_nothing_is_computed_again() -> None:
    with Net("chains", layers(), backend="onednn") as net, net.derive("test") as other:
        assert chains(net) == {"bent": ["first/STanh", "bent"], "weighed": ["mean", "weighed"]}
        assert chains(other) == WHOLE


def test_neurons_alone_keep_slopes_in_place_of_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def layers() -> list[Any]:
        x, t = L.Input(name="in", tops=["x", "t"], shape=[9], batch_size=4)()
        first = L.InnerProduct(name="first", output_dim=9, neuron="Mish")(x)
        second = L.InnerProduct(name="second", output_dim=9, neuron="Mish")(first)
        return [L.SquareLoss(name="loss")(second, t)]

    def keeping(net: Net) -> list[bool]:
        return [op.state.keeps_slopes for op in net.ops if isinstance(op.state, ChainKernel)]

    with Net("mish", layers(), backend="onednn") as net, net.derive("test") as other:
        assert keeping(net) == [True, True]
        assert keeping(other) == [False, False]
        peak = net.memory.planned_bytes()["peak"]
    monkeypatch.setattr(chain, "SHORT", ("MISH",))
    with Net("mish", layers(), backend="onednn") as net:
        assert keeping(net) == [False, False]
        assert net.memory.planned_bytes()["peak"] == peak


def trained(backend: Any, made: Any = layers, **options: Any) -> tuple[list[float], dict[str, Any]]:
    """Return the losses of a training, and the parameters after it."""
    losses: list[float] = []
    with Net("chains", made(), backend=backend, seed=1, **options) as net:
        with Solver(SGD(), lr_policy=0.02).start(net) as training:
            for _ in range(4):
                training.step()
                losses.append(float(training.loss))
        return losses, {name: handle.value for name, handle in net.parameters.items()}


def assert_near_numpy(made: Any, close: float, **options: Any) -> None:
    losses, values = trained("onednn", made, **options)
    own_losses, own_values = trained("numpy", made, **{name: options[name] for name in options if name == "freeze"})
    np.testing.assert_allclose(losses, own_losses, rtol=close)
    for name, value in own_values.items():
        np.testing.assert_allclose(values[name], value, rtol=close, atol=close, err_msg=name)


@pytest.mark.parametrize("options", [{}, {"deterministic": True}, {"freeze": ["ip1", "ip6"]}], ids=str)
@pytest.mark.usefixtures("always")
def test_a_training_is_that_of_the_numpy_backend(options: dict[str, Any]) -> None:
    assert_near_numpy(layers, 1e-5, **options)


@pytest.mark.skipif("not NARROW", reason="this processor does not compute in bf16")
def test_a_training_in_bf16_is_near_that_in_float32() -> None:
    with Net("chains", layers(), backend="onednn", compute="bf16") as net, net.derive("test") as other:
        assert chains(net) == {"weighed": ["mean", "weighed"]}
        assert chains(other) == CHEAP, "no neuron that is looked up"
    assert_near_numpy(layers, 2e-2, compute="bf16")


def images(*shape: int) -> list[Any]:
    """Return a net with gates over images, of which one comes as it is; a chain begins at a second bottom."""
    random = np.random.default_rng(3)
    data = [random.normal(size=(8, *shape)), random.normal(size=(8, 3))]
    x, t = L.MemoryData(data=data, tops=["x", "t"], batch_size=4, name="data")()
    parts = [L.Convolution(n_filter=shape[0], kernel=3, pad=1, name=f"conv{n}", weight_init=SMALL)(x) for n in (0, 1)]
    gate = L.Sigmoid(name="gate")(parts[0])
    gated = L.ElementWise(operation="Multiply", name="gated")(x, gate)
    both = L.ElementWise(operation="Maximum", name="both", neuron="GELU")(gated, parts[1])
    conv = L.Convolution(n_filter=8, kernel=3, name="conv2", weight_init=SMALL)(both)
    return [L.SquareLoss(name="loss")(L.InnerProduct(output_dim=3, name="last", weight_init=SMALL)(conv), t)]


SHAPES = [(16, 9), (20, 5, 7), (16, 5, 7), (3, 5, 7), (16, 4, 3, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.usefixtures("always")
def test_images_of_any_layout(shape: tuple[int, ...]) -> None:
    with Net("images", images(*shape), backend="onednn") as net:
        gate = ["gate/Sigmoid"] if len(shape) == 3 else []  # else x is plain, and the convolution's top is not
        assert chains(net) == {"both": [*gate, "gated", "both", "both/GELU"]}
    assert_near_numpy(lambda: images(*shape), 1e-4)


@pytest.mark.skipif("not NARROW", reason="this processor does not compute in bf16")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_images_in_bf16(shape: tuple[int, ...]) -> None:
    assert_near_numpy(lambda: images(*shape), 5e-2, compute="bf16")


FILE = """
name = "gate"

[[layer]]
type = "Input"
tops = ["x"]
shape = [7]
batch_size = 4

[[layer]]
type = "Sigmoid"
name = "gate"
bottoms = ["x"]
tops = ["gate"]

[[layer]]
type = "ElementWise"
name = "gated"
operation = "Multiply"
bottoms = ["x", "gate"]
tops = ["gated"]
"""


def test_explain_shows_what_is_computed_together(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(FILE)
    explained = run_command("explain", file, "--backend", "onednn", "--phase", "test", "--json").json["layers"]
    together = {one["name"]: one["together_with"] for one in explained if one["together_with"]}
    assert together == {"gate/Sigmoid": ["gated"], "gated": ["gate/Sigmoid"]}
