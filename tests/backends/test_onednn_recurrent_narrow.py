"""The steps of recurrent layers in bf16, beside the same in float32; with AVX2 too, where no net computes in bf16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulated_bf16 import emulate, narrowed, widened
from forging import trials
from helper_calls import assert_same_bits, run
from nacre import DataError, InputLayer, Net
from nacre.testing.close import assert_near
from nacre.testing.trial import ProbeLayer
from nacre_layers import GRULayer, LSTMLayer, RNNLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.library import library
from nacre_onednn.dnnl.primitives import CHANNELS_LAST, HelperCall
from nacre_onednn.helper import native
from nacre_onednn.helper.native import CONSTANTS, LANES, lanes
from nacre_onednn.helper.product import DEPTH, TOGETHER
from nacre_onednn.kernels.products import BOTTOM, GEMM, PACKED, PRODUCT, TOP
from nacre_onednn.kernels.recurrent import BY_IMAGES, BY_UNITS, RecurrentKernel
from nacre_onednn.record import aligned, rounded_up

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if native.helper() is None or native.most_instructions() == CONSTANTS["ANY"]:
    pytest.skip("no helper was compiled, or the processor has no AVX2", allow_module_level=True)
if library().wide and not library().narrow:
    pytest.skip("the processor has AVX-512, but not for bf16", allow_module_level=True)

STEPS, PRODUCTS = (BY_UNITS, BY_IMAGES), (PRODUCT, GEMM, PACKED, TOP, BOTTOM)
BLOCKS = {"CELL_TANH": 1, "CELL_RELU": 1, "CELL_GRU": 3, "CELL_LSTM": 4}


def passes(cell: str, images: int, steps: int, hidden: int, way: int, threads: int, narrow: int) -> dict[str, Any]:
    """Return what both passes give, on two threads or more, from numbers that bf16 has."""
    random, blocks = np.random.default_rng(hidden), BLOCKS[cell]
    rows, wide, units, size = images * steps, BLOCKS[cell] * hidden, rounded_up(hidden, 32), 2 if narrow else 4
    given: dict[str, Any] = {
        "inputs": random.normal(size=(rows, wide)).astype(np.float32),
        "weight": widened(narrowed(random.normal(0, hidden**-0.5, (wide, hidden)))),
        "bias": random.normal(size=wide).astype(np.float32),
        "marks": random.choice([CONSTANTS["MARK_NONE"]] * 3 + [CONSTANTS["MARK_FRESH"]], rows).astype(np.uint8),
    }
    states = {
        name: narrowed(random.normal(size=(images, hidden))) for name in ("begin", "cell_begin", "dend", "cell_dend")
    }
    states["dy"] = narrowed(random.normal(size=(rows, hidden)))
    given |= {name: bits if narrow else widened(bits) for name, bits in states.items()}
    wanted = {"y": rows * hidden, "dgates": rows * wide, "dproducts": rows * wide, "before": rows * hidden}
    wanted |= dict.fromkeys(("end", "cell_end", "dbegin", "cell_dbegin"), images * hidden)
    found = {name: aligned(count * size) for name, count in wanted.items()}
    room = 4 * blocks * units * (hidden + 1)
    tiles = TOGETHER * (max(units, DEPTH) * lanes() + LANES) + max(
        2 * blocks * TOGETHER * LANES * lanes(), CONSTANTS["RECURRENT_PRODUCTS"]
    )
    numbers: dict[str, float] = {
        "cell": CONSTANTS[cell], "blocks": blocks, "steps": steps, "images": images, "hidden": hidden,
        "image_rows": steps, "step_rows": 1, "y_width": hidden, "state_width": hidden, "by_images": way, "keep": 1,
        "narrow": narrow, "room": tiles,
    }  # fmt: skip
    kept = {name: (name, 4 * rows * hidden) for name in ("reset", "cells", "curves")}
    kept["gates"] = ("gates", size * rows * wide)
    arrays = {name: (name, one.nbytes) for name, one in {**given, **found}.items() if name not in ("weight",)}
    if cell != "CELL_GRU":
        arrays |= {"dproducts": ("", 0), "bias": ("", 0)}
        found.pop("dproducts")
    common = {
        **kept,
        **arrays,
        "scratch": ("scratch", 4 * units * (3 * images + 1 + threads) + 8 * threads * (blocks + 1) * hidden),
        "tiles": ("tiles", 4 * threads * tiles),
    }
    calls = []
    for back, kind in enumerate(("recurrent", "recurrent_gradient")):
        weights = {"w": ("weight", given["weight"].nbytes), "packed": (f"packed {back}", room)}
        options = {"hidden": hidden, "blocks": blocks, "back": back, "narrow": narrow}
        calls.append(HelperCall(weights, "recurrent_weights", options))
        calls.append(HelperCall({**common, "w": (f"packed {back}", room)}, kind, numbers, threads))
    if cell != "CELL_LSTM":
        for name in ("cell_end", "cell_dbegin"):
            found[name][...] = 1  # nothing is told of cells
    run(calls, {**given, **found}, threads)
    return {name: widened(one.view(np.uint16)) if narrow else one.view(np.float32) for name, one in found.items()}


@settings(max_examples=trials(20, 60))
@given(
    cell=st.sampled_from(list(BLOCKS)),
    images=st.integers(1, 9),
    steps=st.integers(1, 4),
    hidden=st.one_of(st.integers(1, 48), st.just(300)),
    way=st.integers(0, 1),
    threads=st.integers(1, 3),
)
@example(cell="CELL_LSTM", images=205, steps=2, hidden=21, way=0, threads=2)
@example(cell="CELL_GRU", images=7, steps=2, hidden=1101, way=1, threads=1)
def test_steps_in_bf16_are_near_those_in_float32(
    cell: str, images: int, steps: int, hidden: int, way: int, threads: int
) -> None:
    narrow, wide = (passes(cell, images, steps, hidden, way, threads, one) for one in (1, 0))
    for name in ("y", "end", "before", *(["cell_end"] if cell == "CELL_LSTM" else [])):
        assert_near(narrow[name], wide[name], name, 2e-2)
    if cell != "CELL_RELU":  # whose slope jumps
        for name in ("dgates", "dbegin", *(["cell_dbegin"] if cell == "CELL_LSTM" else [])):
            assert_near(narrow[name], wide[name], name, 4e-2)


@pytest.mark.parametrize("narrow", [0, 1])
@pytest.mark.parametrize("cell", BLOCKS)
def test_threads_and_ways_change_no_bit(cell: str, narrow: int) -> None:
    assert_same_bits([passes(cell, 7, 3, 66, way, threads, narrow) for way in (0, 1) for threads in (1, 2, 3)])


def computed(
    layers: list[Any], given: dict[str, Any], compute: str | None, steps: str, products: str
) -> dict[str, Any]:
    """Return tops and gradients of the layer `it`, in these ways of its kernel, behind two batches."""
    wanted = [name for name in given if name != "told"]
    options: dict[str, Any] = {"backend": "onednn", "compute": compute, "seed": 1, "input_gradients": wanted}
    net = Net("some", layers, deterministic=True, keep="all", **options)
    kernel = net.node_ops["it"].state
    assert isinstance(kernel, RecurrentKernel) and kernel.dtype == (compute or "float32")
    ways = {stage: kernel.ways_of(stage, lambda _: "plain") for stage in kernel.stages()}
    taken = {stage: next((one for one in (steps, products) if one in each), each[0]) for stage, each in ways.items()}
    plan = {"onednn": {"layout": CHANNELS_LAST, "ways": {"it": taken}}}
    net = Net("forced", layers, plan=plan, keep="all", **options)
    for name, values in given.items():
        net.write(name, values)
    for number, handle in enumerate(net.parameters.values()):
        shape = handle.value.shape
        handle.value = np.random.default_rng(number).normal(0, shape[-1] ** -0.5, shape)
    for _ in range(2):
        net.forward()
        net.backward()
        net.advance()
    tops = {top: net.blob(top) for top in net.node_ops["it"].node.tops}
    gradients = {one.name: one.gradient for one in net.parameters.values()}
    return {**tops, **gradients, **{f"d{name}": net.gradient(name) for name in wanted}}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("cell", [RNNLayer, GRULayer, LSTMLayer])
@pytest.mark.parametrize("use", ["plain", "lengths", "cont", "states", "carry"])
def test_nets_in_bf16_are_near_float32(
    cell: Any, use: str, steps: str, products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"x": widened(narrowed(np.random.default_rng(0).normal(size=(5, 4, 6))))}
    fields: dict[str, Any] = {"direction": "both", "n_layer": 2}
    if use == "lengths":
        given["told"], fields["sequences"] = np.array([4, 0, 1, 3, 4]), "lengths"
    if use == "cont":  # of float32, which becomes bf16
        given["told"], fields["sequences"] = np.array([[0, 1, 1, 0]] * 4 + [[1, 1, 0, 1]], np.float32), "cont"
    if use == "states":
        given |= {name: np.random.default_rng(1).normal(size=(5, 4, 10)) for name in cell.states}
    if use == "carry":
        fields = {"carry": True, "n_layer": 2}
    tops = ["y", *(f"last-{name}" for name in cell.states if use in ("states", "carry"))]
    layers = [
        *(InputLayer(name=f"in-{name}", tops=name, shape=one.shape[1:], batch_size=5) for name, one in given.items()),
        cell(name="it", bottoms=list(given), tops=tops, output_dim=10, **fields),
        ProbeLayer(name="loss", bottoms=tops),
    ]
    wide = computed(layers, given, None, steps, products)
    if not library().narrow:
        emulate(monkeypatch)
    for name, one in computed(layers, given, "bf16", steps, products).items():
        assert_near(one, wide[name], name, 5e-2)


def test_a_wrong_number_of_cont_is_refused_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    if not library().narrow:
        emulate(monkeypatch)
    layers = [
        InputLayer(name="in", tops="x", shape=(4, 6), batch_size=5),
        InputLayer(name="told", tops="told", shape=(4,), batch_size=5),
        LSTMLayer(name="it", bottoms=["x", "told"], tops="y", output_dim=6, sequences="cont"),
    ]
    net = Net("net", layers, backend="onednn", compute="bf16", phase="predict", deterministic=True)
    told = np.ones((5, 4), np.float32)
    told[3, 1] = 2
    net.write("x", np.zeros((5, 4, 6)))
    net.write("told", told)
    with pytest.raises(DataError, match="it: 'told' has 2 for record 3 of the batch, but it must be a whole number"):
        net.forward()
