"""Copies of weights in bf16: written by the update, and made anew where anything else has changed the weights."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixed_nets
from nacre import InputLayer, Layer, Net, Solver, Training, open_backend
from nacre_layers.constraints import L2Norm
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.helper import native
from nacre_onednn.helper.native import operation
from nacre_onednn.record import Copies, aligned
from nacre_solvers import SGD, Adam

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if "bf16" not in open_backend("onednn").computes:
    pytest.skip("this processor does not compute in bf16", allow_module_level=True)
if native.helper() is None:
    pytest.skip("no helper was compiled", allow_module_level=True)


def two_products(**fields: Any) -> Net:
    layers: list[Layer] = [
        InputLayer(name="in", tops="data", shape=40, batch_size=8),
        InputLayer(name="labels", tops="label", batch_size=8),
        InnerProductLayer(name="ip1", bottoms="data", tops="ip1", output_dim=24, neuron=ReLU(), **fields),
        InnerProductLayer(name="ip2", bottoms="ip1", tops="ip2", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"]),
    ]
    net = Net("two", layers, backend="onednn", compute="bf16", seed=1, input_gradients=["data"])
    mixed_nets.fill(net)
    return net


def sgd(**fields: Any) -> Solver:
    return Solver(SGD(), lr_policy=0.5, momentum_policy=0.9, **fields)


def in_bf16(values: Any) -> Any:
    """Round to the nearest number in bf16, the even one of two, as its bits."""
    bits = values.ravel().view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def copies_are_right(net: Net) -> None:
    """Check what the last forward pass read."""
    for name in ("ip1/weight", "ip2/weight"):
        handle = net.parameters[name]
        narrow = net.backend.narrow_of(handle.storage)
        np.testing.assert_array_equal(narrow.array.view(np.uint16)[: handle.value.size], in_bf16(handle.value), name)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note whose copies were made before a pass."""
    noted: list[str] = []
    remember = Copies.remember

    def spy(self: Copies, *, updated: bool = False) -> None:
        noted.extend(storage.name for storage in self.storages if not updated)
        remember(self, updated=updated)

    monkeypatch.setattr(Copies, "remember", spy)
    return noted


@pytest.mark.parametrize("n_accumulate", [1, 3])
def test_an_update_writes_them(made: list[str], n_accumulate: int) -> None:
    net = two_products()
    with sgd(n_accumulate=n_accumulate).start(net) as training:
        for _ in range(4):
            training.step()
            net.forward()
            copies_are_right(net)
    assert sorted(made) == ["ip1/weight", "ip2/weight"], "they were made once, before the first pass"


def test_they_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, bytes]] = []
    for copied in (True, False):
        if not copied:
            monkeypatch.setattr(OnednnBackend, "narrow_of", lambda *_: None)
        net = two_products()
        with sgd().start(net) as training:
            for _ in range(5):
                training.step()
        found.append({name: handle.value.tobytes() for name, handle in net.parameters.items()})
        net.shutdown()
        net.backend.parameters.clear()
    assert found[0] == found[1]


def assign(training: Training) -> None:
    training.net.parameters["ip1/weight"].value = np.full((24, 40), 0.3)


def restore(training: Training) -> None:
    snapshot = training.snapshot()
    training.step()
    training.restore(snapshot)


def fail(training: Training) -> None:
    training.net.write("label", np.full(8, 7))
    with pytest.raises(Exception, match="label"):
        training.step()
    mixed_nets.fill(training.net)


@pytest.mark.parametrize("change", [assign, restore, fail])
def test_what_else_changes_the_weights_is_seen(change: Callable[[Training], None], made: list[str]) -> None:
    net = two_products()
    with sgd().start(net) as training:
        training.step()
        made.clear()
        change(training)
        net.forward()
        copies_are_right(net)
        assert "ip1/weight" in made
        made.clear()
        training.step()
        net.forward()
        copies_are_right(net)
    assert not made, "the next update writes them again"


def test_a_constraint_behind_the_update_is_seen(made: list[str]) -> None:
    net = two_products(weight_cons=L2Norm(threshold=0.1))
    with sgd().start(net) as training:
        for _ in range(3):
            training.step()
            net.forward()
            copies_are_right(net)
    assert made.count("ip1/weight") == 4
    assert made.count("ip2/weight") == 1, "which has no constraint"


def test_other_methods_do_without(made: list[str]) -> None:
    net = two_products()
    with Solver(Adam(), lr_policy=0.1).start(net) as training:
        for _ in range(3):
            training.step()
            net.forward()
            copies_are_right(net)
    assert made.count("ip1/weight") == 4


PIECES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 100)), max_size=4)


@settings(max_examples=50)
@given(pieces=PIECES, rest=st.integers(0, 50), threads=st.integers(1, 3), large=st.booleans())
def test_updates_have_the_same_bits_with_copies(
    pieces: list[tuple[int, int]], rest: int, threads: int, large: bool
) -> None:
    starts: list[tuple[int, int]] = []
    size = 0
    for gap, length in pieces:  # parameters begin at whole registers
        start = size + 16 * gap
        length *= 21_701 if large and not starts else 1
        starts.append((start, start + length))
        size = -(-(start + length) // 16) * 16
    size = max(size + rest, 1)
    random = np.random.default_rng(len(pieces))
    before = [random.normal(size=size).astype(np.float32) for _ in range(3)]
    before[0][:: 5 + rest] = [np.inf, np.nan, 0, 1e-39][rest % 4]
    scalars, copies = np.array([0.1, 0.9]), [aligned(2 * (stop - start) + 64) for start, stop in starts]
    table = np.array([(*ends, copy.ctypes.data) for ends, copy in zip(starts, copies, strict=True)], np.int64)
    results: list[tuple[Any, ...]] = []
    for count in (0, len(starts)):
        w, g, v = (array.copy() for array in before)
        products = np.zeros(threads)
        arrays = {"w": w, "g": g, "v": v, "scalars": scalars, "products": products, "copied": table}
        numbers = {"size": size, "rate": 0, "momentum": 1, "n_copied": count, "factor": 1.0}
        update = operation("update", {**{name: one.ctypes.data for name, one in arrays.items()}, **numbers})
        machine = native.machine(threads)
        assert native.helper().nacre_run(ctypes.byref(machine), ctypes.byref(update), ctypes.c_int64(1)) == 0
        results.append((w, v, products.sum()))
    for one, other in zip(results[0][:2], results[1][:2], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(results[1][2], results[0][2], rtol=1e-3, atol=1e-2 * size)
    for (start, stop), copy in zip(starts, copies, strict=True):
        value = results[0][0][start:stop]
        usual = np.isfinite(value) & (np.abs(value) > 1e-37)
        found = copy.view(np.uint16)[: stop - start]
        np.testing.assert_array_equal(found[usual], in_bf16(value)[usual])
        wide = (found.astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_array_equal(np.isnan(wide), np.isnan(value))
        np.testing.assert_array_equal(np.isinf(wide), np.isinf(value))
