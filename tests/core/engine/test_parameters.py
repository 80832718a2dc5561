"""Where parameters lie: arenas, their order and alignment, and the spans that the solver sees."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nacre import Layer, Net, Solver
from nacre.training.spans import Span
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_solvers import SGD
from small_layers import PlainBackend, SquareLossLayer, data, fill


def chain(**second: Any) -> list[Layer]:
    return [
        data(5),
        InnerProductLayer(name="a", bottoms="data", tops="a", output_dim=3),
        InnerProductLayer(name="b", bottoms="a", tops="b", output_dim=7, **second),
        InnerProductLayer(name="c", bottoms="b", tops="c", output_dim=2),
        SquareLossLayer(name="loss", bottoms="c"),
    ]


def net_of(layers: list[Layer], **options: Any) -> Net:
    net = Net("net", layers, **{"backend": "numpy"} | options)
    fill(net)
    return net


def spans(net: Net) -> list[Span]:
    return Solver(SGD()).start(net).spans


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_lie_one_behind_the_other_and_aligned(dtype: str) -> None:
    net = net_of(chain(), dtype=dtype)
    names = [slot.name for slot in net.slots]
    assert names == ["c/bias", "c/weight", "b/bias", "b/weight", "a/bias", "a/weight"], "as backward completes them"
    itemsize = np.dtype(dtype).itemsize
    for which in ("value", "gradient"):
        arrays = [slot.storage.array if which == "value" else slot.gradient for slot in net.slots]
        assert all(address(array) % 64 == 0 for array in arrays)
        for one, other in itertools.pairwise(arrays):
            assert 0 <= address(other) - address(one) - one.size * itemsize < 64


def test_one_rate_is_one_span() -> None:
    net = net_of(chain())
    (span,) = spans(net)
    assert [piece.name for piece in span.pieces] == [slot.name for slot in net.slots]
    net.forward()
    net.backward()
    for piece in span.pieces:
        handle = net.parameters[piece.name]
        np.testing.assert_array_equal(piece.of(span.value).reshape(handle.shape), handle.value)
        np.testing.assert_array_equal(piece.of(span.gradient).reshape(handle.shape), handle.gradient)


def test_padding_is_zero_and_stays_zero() -> None:
    net = net_of(chain())
    (span,) = spans(net)
    training = Solver(SGD(), momentum_policy=0.9).start(net)
    for _ in range(3):
        training.step()
    used = np.zeros(len(span.value), bool)
    for piece in span.pieces:
        piece.of(used)[:] = True
    assert not used.all()
    assert not span.value[~used].any()
    assert not span.gradient[~used].any()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [6]),
        ({"bias_lr": 2.0}, [2, 1, 3]),
        ({"weight_lr": 2.0, "bias_lr": 2.0}, [2, 2, 2]),
    ],
)
def test_another_rate_begins_another_span(fields: dict[str, float], expected: list[int]) -> None:
    found = spans(net_of(chain(**fields)))
    assert [len(span.pieces) for span in found] == expected
    assert [span.rate for span in found] == [1.0, 2.0, 1.0][: len(found)]


def test_frozen_layers_are_in_no_span() -> None:
    net = net_of(chain())
    net.freeze("b")
    found = spans(net)
    assert sorted(piece.name for span in found for piece in span.pieces) == ["a/bias", "a/weight", "c/bias", "c/weight"]
    assert len(found) == 2


def test_buffers_are_in_no_arena() -> None:
    net = net_of(
        [*chain()[:4], BatchNormLayer(name="n", bottoms="c", tops="n"), SquareLossLayer(name="l", bottoms="n")]
    )
    assert len(spans(net)) == 1
    slots = {slot.name: slot for slot in net.slots}
    assert slots["n/mean"].storage.placed.arena is None
    assert slots["n/mean"].gradient is None
    assert slots["n/scale"].storage.placed.arena is slots["a/weight"].storage.placed.arena


def test_parameters_that_another_net_placed_stay_where_they_are() -> None:
    layers = chain()
    part = net_of(layers[:2], phase="test")
    place = address(part.parameters["a/weight"].storage.array)
    net = net_of(layers)
    assert address(net.parameters["a/weight"].storage.array) == place
    assert [len(span.pieces) for span in spans(net)] == [4, 2]


def test_a_net_that_goes_forward_only_has_no_gradients() -> None:
    net = net_of(chain(), phase="test")
    assert all(slot.gradient is None for slot in net.slots)
    assert all(parameter.gradient is None for slot in net.slots for parameter in slot.parameters)


def test_who_has_a_copy_of_a_parameter_can_see_that_it_has_changed() -> None:
    """Its version is higher after `reset` and an update, and that of a buffer after a pass in phase train."""
    layers = [*chain()[:4], BatchNormLayer(name="n", bottoms="c", tops="n"), SquareLossLayer(name="l", bottoms="n")]
    net = net_of(layers)
    validation = net.derive("validation")
    slots = {slot.name: slot.storage for slot in net.slots}

    def raised(call: Any) -> set[str]:
        before = {name: one.version for name, one in slots.items()}
        call()
        return {name for name, one in slots.items() if one.version > before[name]}

    assert raised(lambda: net.reset(1)) == set(slots)
    assert raised(net.forward) == {"n/mean", "n/variance"}
    assert raised(Solver(SGD(), lr_policy=0.1).start(net).step) == set(slots)
    validation.write("data", np.ones((3, 5)))
    assert raised(validation.forward) == set()


def test_first_values_are_a_function_of_seed_and_name() -> None:
    one, other, third = (net_of(chain(), backend=PlainBackend(), seed=seed) for seed in (4, 4, 5))
    for name, handle in one.parameters.items():
        np.testing.assert_array_equal(handle.value, other.parameters[name].value)
    assert np.any(one.parameters["a/weight"].value != third.parameters["a/weight"].value)
    wide, narrow = net_of(chain(), dtype="float64", seed=4), one
    np.testing.assert_array_equal(
        wide.parameters["a/weight"].value.astype(np.float32), narrow.parameters["a/weight"].value
    )
