"""The gates of the cupy backend's recurrent layers on the processor, and trainings with them over the stand-in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import cupy_standin
from cuda_on_host import ShimBackend, missing
from nacre import DataError, Input, InputLayer, L, Net, Solver
from nacre_cupy.kernels.launch import launch
from nacre_cupy.kernels.recurrent import GRUKernel, LSTMKernel
from nacre_layers import GRULayer, LSTMLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

SHAPES = [(1, 1), (0, 8), (3, 4), (5, 7), (300, 8), (129, 33)]


class Bench:
    """Arrays of one type on the device that is none, with numbers that are drawn in order."""

    def __init__(self, dtype: str, odd: bool) -> None:
        self.backend, self.dtype, self.random = ShimBackend(), dtype, np.random.default_rng(0)
        self.kind = {"float32": "float", "float64": "double"}[dtype]
        self.odd = np.array([np.nan, np.inf, -np.inf, np.finfo(dtype).max, -0.0, 1e-30], dtype) if odd else None

    def array(self, *shape: int) -> Any:
        made = self.backend.empty(shape, self.dtype)
        made[...] = self.random.normal(size=shape)
        if self.odd is not None and made.size:
            places = self.random.integers(0, made.size, made.size // 10 + 1)
            made.reshape(-1)[places] = self.odd[places % self.odd.size]
        return made

    def run(self, kernel: str, shape: Sequence[int], *arrays: Any) -> None:
        name, _, function = kernel.partition(" ")
        expression = f"{name}<{self.kind}{', ' * bool(function)}{function}>"
        view = type("View", (), {"backend": self.backend, "xp": self.backend.xp})()
        launch(view, "recurrent", expression, shape[0] * shape[1], *arrays, *shape)
        self.backend.check_guards()

    def narrow(self, *shape: int) -> Any:
        return self.backend.empty(shape, "uint16")

    def check_narrow(self, found: Any, wanted: Any) -> None:
        """Both are the same numbers, the first ones rounded to bf16."""
        np.testing.assert_array_equal(np.asarray(found), rounded(wanted))

    def check(self, found: Any, wanted: Any, what: str) -> None:
        ours, theirs = np.asarray(found, np.float64), np.asarray(wanted, self.dtype).astype(np.float64)
        assert ours.shape == theirs.shape
        allowed = {"float32": 1e-6, "float64": 1e-14}[self.dtype] * (1 + np.abs(theirs))
        allowed[np.abs(theirs) > 1e20] *= 1000  # where sums of the largest numbers have cancelled
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)) | (np.abs(ours - theirs) <= allowed)
        assert same.all(), f"{what}: {ours[~same][:3]} instead of {theirs[~same][:3]}"


def rounded(array: Any) -> Any:
    """Return numbers rounded to bf16, to even ones where two are as near, as their bits."""
    with np.errstate(all="ignore"):
        wide = np.asarray(array).astype(np.float32)
    bits = wide.view(np.uint32)
    return np.where(np.isnan(wide), 0x7FFF, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def logistic(x: Any) -> Any:
    return np.tanh(x * 0.5) * 0.5 + 0.5


def blocks(array: Any, count: int) -> list[Any]:
    return [np.asarray(one) for one in np.split(array, count, axis=-1)]


every = pytest.mark.parametrize("dtype", ["float32", "float64"])
shapes = pytest.mark.parametrize("shape", SHAPES)
ordinary = pytest.mark.parametrize("odd", [False, True], ids=["ordinary", "odd"])


@every
@shapes
@ordinary
def test_lstm(shape: tuple[int, int], dtype: str, odd: bool) -> None:
    bench, (rows, hidden) = Bench(dtype, odd), shape
    wide = (rows, 4 * hidden)
    for with_peephole in (False, True):
        gates, product, c, dh, dc = (bench.array(*one) for one in (wide, wide, shape, shape, shape))
        dy = bench.array(rows, 2 * hidden)[:, hidden:] if with_peephole else None
        narrow_h, narrow_dgates = (bench.narrow(*one) if with_peephole else None for one in (shape, wide))
        biases = [bench.array(4 * hidden), None] if with_peephole else [None, bench.array(4 * hidden)]
        peephole = bench.array(3, hidden) if with_peephole else None
        with np.errstate(all="ignore"):
            sums = np.asarray(gates + next(one for one in biases if one is not None) + product)
        p = [np.asarray(one) for one in peephole] if peephole is not None else [None] * 3
        c_new, tanh_c, h, dgates = (bench.array(*one) for one in (shape, shape, shape, wide))
        old_c, old_dc = np.array(c), np.array(dc)
        with np.errstate(all="ignore"):
            i, f, g, o = blocks(sums, 4)
            if with_peephole:
                i, f = i + p[0] * old_c, f + p[1] * old_c
            i, f, g = logistic(i), logistic(f), np.tanh(g)
            cell = f * old_c + i * g
            o = logistic(o + p[2] * cell if with_peephole else o)
            bent = np.tanh(cell)
        bench.run("lstm_forward", shape, gates, product, *biases, peephole, c, c_new, tanh_c, h, narrow_h)
        with np.errstate(all="ignore"):
            for found, wanted, what in ((c_new, cell, "cell"), (tanh_c, bent, "tanh"), (h, o * bent, "state")):
                bench.check(found, wanted, what)
            bench.check(gates, np.concatenate([i, f, g, o], -1), "gates")
        # from what the kernel has left, so that an overflow before is not compared again
        (i, f, g, o), bent = blocks(gates, 4), np.array(tanh_c)
        top = (None, 0) if dy is None else (dy, 2 * hidden)
        bench.run("lstm_backward", shape, gates, tanh_c, c, peephole, dh, *top, dc, dgates, narrow_dgates)
        with np.errstate(all="ignore"):
            dh = dh if dy is None else dh + dy
            if narrow_h is not None:
                bench.check_narrow(narrow_h, h)
                bench.check_narrow(narrow_dgates, dgates)
            do = (o - o * o) * (dh * bent)
            slope = old_dc + (1 - bent * bent) * o * dh + (p[2] * do if with_peephole else 0)
            di, df, dg = (i - i * i) * g * slope, (f - f * f) * old_c * slope, (1 - g * g) * i * slope
            bench.check(dgates, np.concatenate([di, df, dg, do], -1), "gradients of the gates")
            down = slope * f + p[0] * di + p[1] * df if with_peephole else slope * f
            bench.check(dc, down, "gradient of the old cell")


@every
@shapes
@ordinary
def test_gru(shape: tuple[int, int], dtype: str, odd: bool) -> None:
    bench, (rows, hidden) = Bench(dtype, odd), shape
    wide = (rows, 3 * hidden)
    gates, product, h, dh = (bench.array(*one) for one in (wide, wide, shape, shape))
    bias_x, bias_h = bench.array(3 * hidden), bench.array(3 * hidden)
    given = [np.array(one) for one in (gates, product, bias_x, bias_h)]
    dy = bench.array(rows, 2 * hidden)[:, hidden:]
    reset, h_new, direct, dgates, dproducts = (bench.array(*one) for one in (shape, shape, shape, wide, wide))
    narrow_h, narrow_dgates, narrow_dproducts = (bench.narrow(*one) for one in (shape, wide, wide))
    bench.run("gru_forward", shape, gates, product, bias_x, bias_h, h, reset, h_new, narrow_h)
    with np.errstate(all="ignore"):
        both = blocks(given[0] + given[2] + given[3] + given[1], 3)
        r, z = logistic(both[0]), logistic(both[1])
        part = blocks(given[1] + given[3], 3)[2]
        n = np.tanh(blocks(given[0] + given[2], 3)[2] + r * part)
        bench.check(gates, np.concatenate([r, z, n], -1), "gates")
        bench.check(reset, part, "what r multiplies")
        bench.check(h_new, n + (h - n) * z, "state")
    (r, z, n), part = blocks(gates, 3), np.array(reset)
    narrow = narrow_dgates, narrow_dproducts
    bench.run("gru_backward", shape, gates, reset, h, dh, dy, 2 * hidden, direct, dgates, dproducts, *narrow)
    for found, wanted in ((narrow_h, h_new), (narrow_dgates, dgates), (narrow_dproducts, dproducts)):
        bench.check_narrow(found, wanted)
    with np.errstate(all="ignore"):
        dh = dh + dy
        dz, past = (z - z * z) * ((h - n) * dh), dh * z
        dn = (1 - n * n) * (dh - past)
        dr = (r - r * r) * dn * part
        bench.check(dgates, np.concatenate([dr, dz, dn], -1), "gradients of the gates")
        bench.check(dproducts, np.concatenate([dr, dz, dn * r], -1), "gradients of the products")
        bench.check(direct, past, "gradient past the gates")


@every
@shapes
@ordinary
def test_rnn(shape: tuple[int, int], dtype: str, odd: bool) -> None:
    for name, forward, slope in (
        ("Bent", np.tanh, lambda y: 1 - y * y),
        ("Cut", lambda x: np.maximum(x, 0), lambda y: np.where(y > 0, 1.0, 0.0)),
    ):
        bench = Bench(dtype, odd)
        gates, product, h, dh, dy, dgates = (bench.array(*shape) for _ in range(6))
        narrow_h, narrow_dgates = bench.narrow(*shape), bench.narrow(*shape)
        bias = bench.array(shape[1])
        bench.run(f"rnn_forward {name}", shape, gates, product, bias, None, h, narrow_h)
        bench.run(f"rnn_backward {name}", shape, h, dh, dy, shape[1], dgates, narrow_dgates)
        with np.errstate(all="ignore"):
            bench.check(h, forward(gates + bias + product), "state")
            bench.check(dgates, slope(np.array(h)) * (dh + dy), "gradient")
        bench.check_narrow(narrow_h, h)
        bench.check_narrow(narrow_dgates, dgates)


def layers() -> list[Any]:
    carried = {"sequences": "cont", "carry": True}
    return [
        InputLayer(tops="x", shape=(3, 2), batch_size=4),
        InputLayer(tops="cont", shape=3, batch_size=4),
        InputLayer(tops="label", shape=3, batch_size=4),
        LSTMLayer(name="lstm", bottoms=["x", "cont"], tops="h", output_dim=5, **carried),
        GRULayer(name="gru", bottoms="h", tops="g", output_dim=4, direction="both"),
        L.InnerProduct(name="score", bottoms="g", tops="score", output_dim=3, axis=-1),
        L.SoftmaxLoss(name="loss", bottoms=["score", "label"], axis=-1),
    ]


def batch(number: int) -> dict[str, Any]:
    random = np.random.default_rng(number)
    return {
        "x": random.normal(size=(4, 3, 2)),
        "cont": random.integers(0, 2, (4, 3)),
        "label": random.integers(0, 3, (4, 3)),
    }


def test_a_training_is_captured_with_its_carried_states_and_is_that_of_numpy() -> None:
    found: list[Any] = []
    with cupy_standin.installed():
        for backend in (cupy_standin.watched()(), "numpy"):
            net = Net("text", layers(), backend=backend, dtype="float64", seed=2)
            solver = Solver("SGD", algorithm="BPTT", lr_policy=0.5, momentum_policy=0.9)
            with net, solver.start(net) as training:
                losses: list[float] = []
                for number in range(6):
                    for name, array in batch(number).items():
                        net.write(name, array)
                    training.step()
                    losses.append(float(training.loss))
                if backend != "numpy":
                    (recording,) = (one for one in net.backend.recordings if one.graph is not None)
                    steps = [f"{step.kind} {step.name}" for step in recording.steps]
                    assert steps[0] == "forward lstm" and steps[-1] == "update SGD" and len(steps) == 9
                    states = [net.node_ops[one].state for one in ("lstm", "gru")]
                    assert [type(one) for one in states] == [LSTMKernel, GRUKernel]
                found.append((losses, {one.name: one.value for one in net.parameters.values()}))
    (losses, values), (own_losses, own_values) = found
    np.testing.assert_allclose(losses, own_losses, rtol=1e-10)
    for name, value in values.items():
        np.testing.assert_allclose(value, own_values[name], rtol=1e-8, atol=1e-10)


KINDS: dict[str, Any] = {
    "two layers, both ways": partial(L.LSTM, n_layer=2, direction="both"),
    "projection": partial(L.LSTM, projection=4, direction="both"),
    "peepholes": partial(L.LSTM, peepholes=True),
    "odd": partial(L.LSTM, output_dim=5),
    "GRU": partial(L.GRU, n_layer=2),
    "GRU, back": partial(L.GRU, direction="backward"),
    "RNN": partial(L.RNN, direction="both"),
    "time first": partial(L.RNN, time_major=True),
}


def of_one_layer(kind: Any, backend: Any, sequences: str, **options: Any) -> list[Any]:
    """Return the top of a recurrent layer, and the gradients of its bottom and parameters, after some passes."""
    random = np.random.default_rng(0)
    x = Input((8, 8), name="x", batch_size=8)
    told = [] if sequences == "full" else [Input((8,) if sequences == "cont" else (), name="told", batch_size=8)]
    made = kind(**{"output_dim": 8, **kind.keywords}, sequences=sequences, name="made")(x, *told)
    options |= {"keep": ["made"], "input_gradients": ["x"], "seed": 2}
    with Net("one", [L.SumLoss()(made)], backend=backend, **options) as net:
        for _ in range(4):  # called, captured, replayed
            net.write("x", random.normal(size=(8, 8, 8)))
            if told:
                net.write("told", random.integers(0, 2, (8, 8)) if sequences == "cont" else random.integers(0, 9, 8))
            net.forward()
            net.backward()
        return [net.blob("made"), net.gradient("x"), *(one.gradient for one in net.parameters.values())]


@pytest.mark.parametrize("sequences", ["full", "lengths", "cont"])
@pytest.mark.parametrize("name", KINDS)
def test_in_a_net_in_bf16_factors_of_products_are_rounded(name: str, sequences: str) -> None:
    kind = KINDS[name]
    with cupy_standin.installed():
        backend = cupy_standin.watched()()
        found = of_one_layer(kind, backend, sequences, compute="bf16")
        used = {key[0] for key in backend.products._algorithms}
        assert backend.in_tf32.matmul.__self__.tf32 and not backend.products.tf32
        if backend.in_tf32.matmul.__self__._algorithms:
            used.add("tf32")
        exact = of_one_layer(kind, backend, sequences)
    wanted = of_one_layer(kind, "numpy", sequences)
    assert used == ({"tf32"} if name == "peepholes" else {"bf16"})
    for one, other, own in zip(found, exact, wanted, strict=True):
        np.testing.assert_allclose(other, own, rtol=1e-4, atol=1e-5)
        assert 0 < np.linalg.norm(one - own) < 2e-2 * np.linalg.norm(own)


def test_a_wrong_number_of_cont_is_told_when_it_is_replayed_too() -> None:
    with cupy_standin.installed(), Net("text", layers(), backend=cupy_standin.watched()()) as net:
        for number in range(4):
            for name, array in batch(number).items():
                net.write(name, array)
            net.forward()
        net.write("cont", np.array([[0, 1, 1]] * 3 + [[0, 1, 2]]))
        with pytest.raises(DataError, match="lstm: 'cont' has 2 for record 3 of the batch"):
            net.forward()
        net.write("cont", np.full((4, 3), np.nan))
        with pytest.raises(DataError, match="lstm: 'cont' has nan for record 0"):
            net.forward()
