"""Random numbers that the cupy backend draws on the device are those of nacre.random, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cupy_standin
from cuda_on_host import ShimBackend, missing
from nacre import InputLayer, L, NacreError, Net
from nacre.protocols.part import Micro
from nacre.protocols.view import Scalars, View, named_view
from nacre.random import Random, name_key
from nacre_cupy.kernels.launch import launch
from nacre_cupy.kernels.random import fill_uniform, signed

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

BOXES = [
    ((7,), None, None),
    ((3, 5), (9, 5), (6, 0)),
    ((2, 3, 4), (4, 8, 4), (1, 5, 0)),
    ((2, 3, 4, 5, 2), (2, 6, 9, 5, 7), (0, 3, 4, 0, 5)),
    ((300, 3), (1000, 3), (701, 0)),
    ((2, 3, 2, 2, 3, 2, 2), None, None),
    ((2, 3, 2, 2, 3, 2, 2), (4, 3, 2, 5, 3, 2, 2), (1, 0, 0, 2, 0, 0, 0)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("box", BOXES, ids=lambda box: "x".join(map(str, box[0])))
def test_uniform_numbers_of_a_box(box: Any, dtype: str) -> None:
    (shape, whole, start), backend, seed = box, ShimBackend(), 2**63 + 5
    view = View(backend, phase="train", dtype="float32", seed=seed, scalars=Scalars())
    view.scalars["step"] = 10**9 + 3
    for draw in (0, 2):
        out, wanted = backend.empty(shape, dtype), np.empty(shape, dtype)
        fill_uniform(view, out, (seed, name_key("layer")), draw, whole, start)
        Random(seed, "layer", lambda: 10**9 + 3).uniform(wanted, draw, whole=whole, start=start)
        backend.check_guards()
        assert np.asarray(out).tobytes() == wanted.tobytes()


def test_a_box_that_is_cut_along_too_many_axes_is_refused() -> None:
    backend = ShimBackend()
    view = View(backend, phase="train", dtype="float32", seed=0, scalars=Scalars())
    with pytest.raises(NacreError, match="more than 5 axes are cut"):
        fill_uniform(view, backend.empty((2,) * 6, "float32"), (0, 0), 0, (3,) * 6, (1,) * 6)


@pytest.mark.parametrize("first", [0, 5, 8, 13, 2**33 + 1])
def test_dropout_begins_anywhere_in_what_is_drawn(first: int) -> None:
    backend, size = ShimBackend(), 77
    view: Any = View(backend, phase="train", dtype="float32", seed=7, scalars=Scalars())
    view.scalars["step"] = 4
    x, y, kept = (backend.empty(*one) for one in (((size,), "float32"), ((size,), "float32"), ((10,), "uint8")))
    x[...] = 1
    keys = signed(7), signed(name_key("drop"))
    numbers = backend.scalars(view), view.scalars.place("step"), 1, *keys, first, 0.5, 2.0
    launch(view, "dropout", "dropout_forward<float>", 10, x, y, kept, size, *numbers)
    wanted = np.empty((size,), np.float32)
    Random(7, "drop", lambda: 4).uniform(wanted, 1, whole=(first + size,), start=(first,))
    assert (np.asarray(y) == 2 * (wanted >= 0.5)).all()
    assert (np.unpackbits(np.asarray(kept), bitorder="little")[:size] == (wanted >= 0.5)).all()


def test_a_layer_that_draws_is_recorded_and_draws_the_same() -> None:
    layers = [
        InputLayer(name="x", tops="x", shape=(2, 6, 6), batch_size=3),
        L.Pooling(name="pool", bottoms="x", tops="y", kernel=2, stride=2, pooling="Stochastic"),
    ]
    with cupy_standin.installed():
        backend = cupy_standin.watched()()
        with Net("n", layers, backend=backend, seed=3) as net, Net("n", layers, backend="numpy", seed=3) as own:
            for step in range(5):
                x = np.random.default_rng(step).uniform(size=(3, 2, 6, 6)).astype(np.float32)
                for one in (net, own):
                    one.step = step
                    one.write("x", x)
                    one.forward()
                np.testing.assert_array_equal(net.blob("y"), own.blob("y"), err_msg=f"step {step}")
            (recording,) = (one for one in net.backend.recordings if one.graph is not None)
            assert "pool" in [step.name for step in recording.steps]


def test_a_part_of_a_batch_has_its_numbers_of_the_whole_batch() -> None:
    layers = [InputLayer(name="x", tops="x", shape=2, batch_size=3)]
    with cupy_standin.installed(), Net("n", layers, backend=cupy_standin.watched()(), seed=5) as net:
        view = named_view(net.view(), "drop", "drop#1", Micro("drop", 1, 4))
        out, wanted = view.empty((3, 7)), np.empty((3, 7), np.float32)
        view.random("drop").uniform(out, 2)
        Random(5, "drop", lambda: net.step).uniform(wanted, 2, whole=(12, 7), start=(3, 0))
        assert out.get().tobytes() == wanted.tobytes()


def test_scalars_that_are_asked_for_late_are_there_at_once() -> None:
    with cupy_standin.installed():
        backend = cupy_standin.watched()()
        view = View(backend, phase="train", dtype="float32", seed=0, scalars=Scalars())
        view.scalars["step"] = 5
        array = backend.scalars(view)
        assert backend.to_host(array)[view.scalars.place("step")] == 5
        view.scalars["step"] = 6
        assert backend.to_host(backend.scalars(view))[view.scalars.place("step")] == 6
