"""Passes in phases of an algorithm's own: what runs, and what is recorded."""

from __future__ import annotations

import numpy as np
import pytest

from nacre import Net
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_onednn.backend import OnednnBackend
from small_layers import MatrixLayer, SquareLossLayer, data, fill


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_steps_run_and_are_recorded_in_the_phase_in_which_they_stand(backend: str) -> None:
    if backend == "onednn" and OnednnBackend.unusable() is not None:
        pytest.skip("oneDNN cannot be used here")
    layers = [data(8), MatrixLayer(name="ip", bottoms="data", tops="y", width=8)]
    layers += [DropoutLayer(name="drop", bottoms="y"), SquareLossLayer(bottoms="y")]
    net = Net("net", layers, backend=backend, keep="all")
    fill(net)
    passes = {
        phase: net.compile([*net.in_phase(phase, net.steps("forward")), *net.in_phase(phase, net.steps("backward"))])
        for phase in ("positive", "train")
    }
    assert net.view().phase == "train"
    for _ in range(2):
        found = {}
        for phase, call in passes.items():
            call()
            found[phase] = net.blob("y"), net.parameters["ip/W"].gradient
        y, gradient = found["positive"]
        np.testing.assert_allclose(y, net.blob("data") @ net.parameters["ip/W"].value, rtol=1e-5)
        dy = y - np.cos(np.arange(y.size)).reshape(y.shape)
        np.testing.assert_allclose(gradient, net.blob("data").T @ dy, rtol=1e-4, atol=1e-4)
        assert np.count_nonzero(found["train"][0] == 0) > 0
