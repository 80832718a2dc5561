"""Functions of one number and their slopes over the whole line of floats: the bounds are those of docs/numerics.md."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import exact
from exact import L, near
from helper_calls import assert_same_bits
from helper_calls import run as run_calls
from nacre import Neuron, registry
from nacre.testing.trial import Example, Trial, backends, layer_of
from nacre_layers import Identity
from nacre_layers.elementwise import functions
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.functions import FunctionLayer
from nacre_layers.neurons import (
    ELU,
    GELU,
    SELU,
    Exponential,
    Hardswish,
    LReLU,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softplus,
    STanh,
    Tanh,
)
from page_tables import code, rows

PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"


def neuron(made, value, slope):
    return SimpleNamespace(layer=ActivationLayer, part=type(made), fields={"neuron": made}, value=value, slope=slope)


def layer(name, value, slope, **fields):
    cls = getattr(functions, f"{name}Layer")
    return SimpleNamespace(layer=cls, part=cls, fields=fields, value=value, slope=slope)


def above_zero(x):
    return (x > 0).astype(L)


def stanh(x):
    return L(1.7159047) * np.tanh(x * L(2 / 3))


FUNCTIONS = {
    "Identity": neuron(Identity(), lambda x: x, np.ones_like),
    "ReLU": neuron(ReLU(), lambda x: np.maximum(x, 0), above_zero),
    "Sigmoid": neuron(Sigmoid(), exact.logistic, lambda x: exact.logistic(x) * exact.logistic(-x)),
    "Tanh": neuron(Tanh(), np.tanh, exact.tanh_slope),
    "STanh": neuron(STanh(), stanh, lambda x: L(1.7159047) * L(2 / 3) * exact.tanh_slope(x * L(2 / 3))),
    "LReLU(slope=0.2)": neuron(
        LReLU(slope=0.2), lambda x: np.where(x > 0, x, L(0.2) * x), lambda x: np.where(x > 0, 1, L(0.2))
    ),
    "ELU": neuron(ELU(), lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), lambda x: np.exp(np.minimum(x, 0))),
    "ELU(alpha=0.7)": neuron(
        ELU(alpha=0.7),
        lambda x: np.where(x > 0, x, L(0.7) * np.expm1(np.minimum(x, 0))),
        lambda x: np.where(x > 0, 1, L(0.7) * np.exp(np.minimum(x, 0))),
    ),
    "SELU": neuron(SELU(), exact.selu, exact.selu_slope),
    "GELU": neuron(GELU(), exact.gelu, exact.gelu_slope),
    'GELU(approximate="tanh")': neuron(GELU(approximate="tanh"), exact.gelu_tanh, exact.gelu_tanh_slope),
    "SiLU": neuron(SiLU(), exact.silu(1), exact.silu_slope(1)),
    "SiLU(beta=-3)": neuron(SiLU(beta=-3), exact.silu(-3), exact.silu_slope(-3)),
    "Mish": neuron(Mish(), exact.mish, exact.mish_slope),
    "Hardswish": neuron(
        Hardswish(),
        lambda x: np.where(x >= 3, x, near(x, 3) * (near(x, 3) + 3) / 6),
        lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * near(x, 3) + 3) / 6)),
    ),
    "Softplus": neuron(Softplus(), exact.softplus(1), exact.logistic),
    "Softplus(beta=3)": neuron(Softplus(beta=3), exact.softplus(3), lambda x: exact.logistic(3 * x)),
    "Exponential": neuron(Exponential(), np.exp, np.exp),
    "AbsVal": layer("AbsVal", np.abs, np.sign),
    "Clip(low=-1, high=2)": layer(
        "Clip", lambda x: np.clip(x, -1, 2), lambda x: ((x >= -1) & (x <= 2)).astype(L), low=-1, high=2
    ),
    "Exp": layer("Exp", np.exp, np.exp),
    "Exp(base=10)": layer("Exp", lambda x: L(10) ** x, lambda x: np.log(L(10)) * L(10) ** x, base=10),
    "Log": layer("Log", np.log, lambda x: 1 / (x + 0)),  # the sum makes 0 of -0, as that with the shift does
    "Log(base=10)": layer("Log", np.log10, lambda x: 1 / (x + 0) / np.log(L(10)), base=10),
    "Power(power=2)": layer("Power", exact.power(2), exact.power_slope(2), power=2),
    "Power(power=3)": layer("Power", exact.power(3), exact.power_slope(3), power=3),
    "Power(power=-0.75)": layer("Power", exact.power(-0.75), exact.power_slope(-0.75), power=-0.75),
    "Power(power=0.5)": layer("Power", exact.power(0.5), exact.power_slope(0.5), power=0.5),
    "Threshold": layer("Threshold", above_zero, None),
}
CASES = [(backend, dtype) for backend in backends() for dtype in ("float32", "float64")]


def bounds(section):
    """Return the rows of a table of the page: {function: {column: cell}}."""
    found = {}
    for heading, head, cells in rows(PAGE):
        if heading == section:
            found[code(cells[0])[0]] = dict(zip(head[1:], cells[1:], strict=True))
    return found


VALUES, SLOPES = bounds("Values"), bounds("Slopes")


def run(function, backend, dtype, x):
    """Return the values and the slopes that a net computes."""
    trial = Trial(
        lambda one: layer_of(function.layer, one),
        Example(function.fields, [x.reshape(1, -1)]),
        backend=backend,
        dtype=dtype,
        wanted=[] if function.slope is None else [0],
    )
    with np.errstate(all="ignore"):
        trial.forward()
        y, slope = trial.results()[0].reshape(-1), None
        if function.slope is not None:
            for weight in trial.net.node_ops["probe"].state.weights:
                trial.net.backend.from_host(np.ones(weight.shape, dtype), weight)
            slope = trial.gradients()["input 0"].reshape(-1)
    trial.shutdown()
    return y, slope


def check(found, right, x, dtype, bound, least, what):
    off, place = exact.worst(found, right, dtype, least)
    told = f"{what} at {x[place]!r} is {found[place]!r} instead of {float(right[place])!r}"
    assert off <= float(bound), f"{told}, off by {off:.3g} units, but {bound} are promised"


def check_values(name, y, x, dtype, column):
    check(y, FUNCTIONS[name].value(x.astype(L)), x, dtype, VALUES[name][column], 0, name)


def check_slopes(name, slope, x, dtype, column):
    number = ~np.isnan(x)
    x, slope, cells = x[number], slope[number], SLOPES[name]
    least = {
        "of itself": 0,
        "of 1": 1,
        "of itself, of 1 from -2 to 2": (np.abs(x) <= 2).astype(L),
    }[cells["units"]]
    check(slope, FUNCTIONS[name].slope(x.astype(L)), x, dtype, cells[column], least, f"the slope of {name}")


@pytest.mark.parametrize(("backend", "dtype"), CASES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds(name, backend, dtype):
    if dtype == "float64" and not exact.PRECISE:
        pytest.skip("long double has no more digits than float64 here")
    column = "onednn float32" if (backend, dtype) == ("onednn", "float32") else f"numpy {dtype}"
    x = exact.line(dtype)
    x = x[~np.isnan(x)] if name == "ReLU" else x  # what becomes of a NaN there is tested for every kernel that has one
    y, slope = run(FUNCTIONS[name], backend, dtype, x)
    with np.errstate(all="ignore"):
        check_values(name, y, x, dtype, column)
        if slope is not None:
            check_slopes(name, slope, x, dtype, column)


def helper_calls(name, dtype, size):
    """Return the neuron as the onednn backend's helper computes it, forward and backward, or None."""
    if "onednn" not in backends():
        pytest.skip("oneDNN cannot be used here")
    native = pytest.importorskip("nacre_onednn.helper.native")
    if native.helper() is None:
        pytest.skip("the helper was not compiled")
    neurons, chain = (importlib.import_module(f"nacre_onednn.kernels.{one}") for one in ("neurons", "chain"))
    made = FUNCTIONS[name].fields["neuron"]
    if type(made) not in neurons.FUNCTIONS:
        return None
    link = neurons.link_of(made)
    desc = importlib.import_module("nacre_onednn.dnnl.primitives").plain(size, dtype=dtype)
    ends = {link.reads: link.reads, "dx": "dx"}
    return [chain.forward_call([link], desc), chain.backward_call([link], desc, ends)]


NEURONS = [name for name, function in FUNCTIONS.items() if function.layer is ActivationLayer]


@pytest.mark.parametrize("name", NEURONS)
def test_bounds_in_bf16(name):
    """By the helper itself, so on processors without bf16 too."""
    x = exact.line("bf16")
    calls = helper_calls(name, "bf16", x.size)
    assert (calls is None) == (VALUES[name]["onednn bf16"] == "" == SLOPES[name]["onednn bf16"])
    if calls is None:
        return
    bits = exact.narrow(x)
    y, dy, dx = np.zeros_like(bits), exact.narrow(np.ones_like(x)), np.zeros_like(bits)
    run_calls(calls, {"x": bits, "y": y, "dy": dy, "dx": dx}, threads=1)
    with np.errstate(all="ignore"):
        check_values(name, exact.widen(y), x, "bf16", "onednn bf16")
        check_slopes(name, exact.widen(dx), x, "bf16", "onednn bf16")


@pytest.mark.parametrize("name", NEURONS)
def test_the_helper_gives_the_same_bits_in_place_and_on_several_threads(name):
    x = np.random.default_rng(0).normal(0, 5, 70_001).astype(np.float32)
    if (calls := helper_calls(name, "float32", x.size)) is None:
        return
    made = FUNCTIONS[name].fields["neuron"]
    found = []
    for threads, in_place in ((1, False), (3, False), (3, True)):
        given, dy = x.copy(), np.full_like(x, 0.7)
        y = given if in_place and not made.needs_input else np.zeros_like(x)
        dx = dy if in_place else np.zeros_like(x)
        buffers = {"x": given, "y": y, "dy": dy, "dx": dx}
        run_calls(calls, buffers, threads)
        found.append({"y": y, "dx": dx})
    assert_same_bits(found)


def test_the_page_has_all_functions():
    assert set(VALUES) == set(FUNCTIONS)
    assert set(SLOPES) == {name for name, function in FUNCTIONS.items() if function.slope is not None}
    ours = [offer for kind in ("neuron", "layer") for offer in registry().offers(kind) if offer.distribution == "nacre"]
    classes = {registry().open_offer(offer) for offer in ours}
    needed = {one for one in classes if issubclass(one, (Neuron, FunctionLayer))}
    assert needed == {function.part for function in FUNCTIONS.values()}
