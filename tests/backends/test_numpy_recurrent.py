"""The numpy backend's RNN, GRU and LSTM, with sequences shared out over threads, each against the layer's state."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import InputLayer, Net
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example, ProbeLayer, without_kernels
from nacre_layers import GRULayer, LSTMLayer, RNNLayer
from nacre_numpy.recurrent import GRUKernel, LSTMKernel, RNNKernel
from nacre_numpy.threads import Pool


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch):
    """So that pieces have different sizes, however many cores there are."""
    pool = Pool(3)
    monkeypatch.setattr("nacre_numpy.recurrent.pool_of", lambda view: pool)
    monkeypatch.setattr("nacre_numpy.recurrent.ALONE", 0)
    yield
    pool.close()


class Shared:
    """What the tests of the three kernels have in common."""

    def examples(self):
        both = {"output_dim": 2, "direction": "both", "n_layer": 2}
        yield Example({"output_dim": 3}, [(4, 3, 2)])
        yield Example({"output_dim": 3, "sequences": "lengths"}, [(4, 3, 2), np.array([2, 0, 3, 1])], tops=1)
        cont = np.random.default_rng(0).integers(0, 2, (5, 3))
        yield Example({**both, "sequences": "cont"}, [(5, 3, 2), cont], tops=1, label="cont, both ways")
        yield Example({"output_dim": 3, "time_major": True}, [(4, 3, 2)], label="time major: declined")

    def strategy(self):
        def example(images, steps, layers, direction, seed):
            lengths = np.random.default_rng(seed).integers(0, steps + 1, images)
            fields = {"output_dim": 3, "n_layer": layers, "direction": direction, "sequences": "lengths"}
            return Example(fields, [(images, steps, 2), lengths], tops=1)

        direction = st.sampled_from(["forward", "backward", "both"])
        return st.builds(example, st.integers(2, 7), st.integers(1, 4), st.integers(1, 2), direction, st.integers(0, 9))


class TestRNNKernel(Shared, KernelTests):
    layer = RNNLayer
    kernel = RNNKernel


class TestGRUKernel(Shared, KernelTests):
    layer = GRULayer
    kernel = GRUKernel


class TestLSTMKernel(Shared, KernelTests):
    layer = LSTMLayer
    kernel = LSTMKernel

    def examples(self):
        yield from super().examples()
        yield Example({"output_dim": 3, "peepholes": True, "projection": 2}, [(5, 3, 2)], label="peepholes, projection")


def test_states_are_carried_and_go_in_and_out() -> None:
    x, first = (np.random.default_rng(seed).normal(size=shape) for seed, shape in enumerate([(4, 3, 2), (4, 5)]))
    found = []
    for switch in (nullcontext, without_kernels):
        layers = [
            InputLayer(tops="x", shape=(3, 2), batch_size=4),
            InputLayer(tops="h", shape=5, batch_size=4),
            GRULayer(name="one", bottoms=["x", "h"], tops=["y", "end"], output_dim=5),
            GRULayer(name="two", bottoms="y", tops="z", output_dim=5, carry=True),
            ProbeLayer(name="loss", bottoms=["z", "end"]),
        ]
        with switch():
            net = Net("n", layers, backend="numpy", dtype="float64", seed=1, input_gradients=["x", "h"])
        with net:
            assert isinstance(net.node_ops["one"].state, GRUKernel) is (switch is nullcontext)
            net.write("h", first)
            for _ in range(2):
                net.write("x", x)
                net.forward()
                net.backward()
                net.advance()
            found.append([net.blob("z"), net.blob("end"), net.gradient("x"), net.gradient("h")])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_a_frozen_layer_learns_again_when_it_is_free() -> None:
    layers = [
        InputLayer(tops="x", shape=(3, 2), batch_size=4),
        GRULayer(name="one", bottoms="x", tops="y", output_dim=5),
        GRULayer(name="two", bottoms="y", tops="z", output_dim=5),
        ProbeLayer(name="loss", bottoms="z"),
    ]
    with Net("n", layers, backend="numpy", dtype="float64", freeze=["two"]) as net:
        net.write("x", np.random.default_rng(0).normal(size=(4, 3, 2)))
        assert isinstance(net.node_ops["two"].state, GRUKernel)
        for change in (net.unfreeze, net.freeze, net.unfreeze):
            net.forward()
            net.backward()
            change("two")
        net.forward()
        net.backward()
        found = net.parameters["two/weight_hh_l0"].gradient
        with without_kernels():
            own = Net("own", layers, backend="numpy", dtype="float64", share=net)
        own.write("x", np.random.default_rng(0).normal(size=(4, 3, 2)))
        own.forward()
        own.backward()
        expected = own.parameters["two/weight_hh_l0"].gradient
        assert found is not None and expected is not None
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
