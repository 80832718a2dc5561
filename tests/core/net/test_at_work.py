"""A layer at work alone: forward, backward from given gradients, one half of it, another batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, DataError, Layer, TopologyError, open_backend
from nacre.testing.trial import backends
from nacre_layers import (
    AccuracyLayer,
    ActivationLayer,
    ArgmaxLayer,
    BatchNormLayer,
    ConcatLayer,
    DropoutLayer,
    EmbeddingLayer,
    GRULayer,
    InnerProductLayer,
    LSTMLayer,
    PoolingLayer,
    ResidualLayer,
    RNNLayer,
    SequentialLayer,
    SoftmaxLossLayer,
)

X = np.linspace(-1, 1, 12).reshape(4, 3)
DY = np.linspace(1, 2, 8).reshape(4, 2)


def ip(**fields: Any) -> InnerProductLayer:
    return InnerProductLayer(**{"name": "ip", "bottoms": "x", "tops": "y", "output_dim": 2, **fields})


def block() -> SequentialLayer:
    product = {"type": "InnerProduct", "output_dim": 3}
    layers = [{"type": "Residual", "layer": [product, "Tanh", product]}, {**product, "output_dim": 2}]
    return SequentialLayer(name="block", bottoms="x", tops="y", layer=layers)


@pytest.mark.parametrize("backend", backends())
def test_an_inner_product_gives_tops_and_gradients(backend: str) -> None:
    work = ip().at_work(backend, X)
    W, b = (work.parameters[f"ip/{name}"].value for name in ("weight", "bias"))
    np.testing.assert_allclose(work.forward(X), X @ W.T + b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(work.backward(DY), DY @ W, rtol=1e-5, atol=1e-6)
    gradient = work.parameters["ip/weight"].gradient
    assert gradient is not None
    np.testing.assert_allclose(gradient, DY.T @ X, rtol=1e-5, atol=1e-5)
    assert work.forward(X).dtype == np.float32
    assert ip().at_work(backend, X, dtype="float64").forward().dtype == np.float64


def test_a_container_works_alone_as_a_layer() -> None:
    work = block().at_work("numpy", X, dtype="float64")

    def objective(x: np.ndarray) -> float:
        return float(np.sum(work.forward(x) * DY))

    work.forward(X)
    dx = work.backward(DY)
    slopes = np.empty_like(X)
    for index in np.ndindex(X.shape):
        high, low = X.copy(), X.copy()
        high[index] += 1e-5
        low[index] -= 1e-5
        slopes[index] = (objective(high) - objective(low)) / 2e-5
    np.testing.assert_allclose(dx, slopes, rtol=1e-6)
    assert "block/Residual1/InnerProduct1/weight" in work.parameters


@pytest.mark.parametrize("make", [ip, block])
def test_one_half_alone_is_that_half_of_both(make: Any) -> None:
    layer = make()
    work = layer.at_work("numpy", X, dtype="float64")
    work.forward(X)
    dx = work.backward(DY)
    gradients = {name: handle.gradient for name, handle in work.parameters.items()}
    work.forward(2 * X)
    inputs = work.backward(DY, only="inputs")
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(work.parameters[name].gradient, gradient)  # as they were
    work.forward(X)
    np.testing.assert_array_equal(work.backward(DY, only="inputs"), dx)
    assert not np.array_equal(inputs, dx) or make is ip  # of a product it does not depend on x
    work.forward(2 * X)
    assert work.backward(DY, only="parameters") is None
    work.forward(2 * X)
    doubled = {name: handle.gradient for name, handle in work.parameters.items()}
    work.backward(DY)
    for name, handle in work.parameters.items():
        np.testing.assert_array_equal(handle.gradient, doubled[name])


def test_a_half_does_not_compute_the_other() -> None:
    work = ip().at_work("numpy", X)
    work.forward()
    work.backward(DY, only="inputs")
    assert all(parameter.gradient is None for parameter in work.net.node_ops["ip"].state.parameters)
    work.backward(DY, only="parameters")
    assert work.net.node_ops["ip"].diff_arrays == [None]


def test_buffers_see_every_input_once() -> None:
    layer = BatchNormLayer(name="bn", bottoms="x", tops="y")
    work = layer.at_work("numpy", X, dtype="float64")
    work.forward(X)
    means, dx = work.parameters["bn/mean"].value, work.backward(X)
    np.testing.assert_array_equal(work.backward(X, only="inputs"), dx)
    np.testing.assert_array_equal(work.parameters["bn/mean"].value, means)
    work.forward(X)
    assert not np.array_equal(work.parameters["bn/mean"].value, means)


@pytest.mark.parametrize("backend", backends())
def test_another_batch_size_sets_up_anew_with_the_same_parameters(backend: str) -> None:
    work = block().at_work(backend, X)
    whole = work.forward(X)
    name = "block/InnerProduct1/weight"
    work.parameters[name].value = work.parameters[name].value * 2
    storage, doubled = work.parameters[name].storage, work.forward(X)
    first = work.forward(X[:1])
    assert first.shape == (1, 2)
    assert work.parameters[name].storage is storage
    np.testing.assert_allclose(first, doubled[:1], rtol=1e-5, atol=1e-6)
    assert work.backward(DY[:1]).shape == (1, 3)
    assert not np.allclose(doubled, whole)
    work.net.step = 7
    work.forward(X)
    assert work.net.step == 7


def test_parameters_are_those_of_the_layer_in_every_net() -> None:
    layer, backend = ip(), open_backend("numpy")
    one, other = layer.at_work(backend, X), layer.at_work(backend, X[:2])
    one.parameters["ip/weight"].value = np.ones((2, 3))
    np.testing.assert_array_equal(other.parameters["ip/weight"].value, np.ones((2, 3)))


def test_several_bottoms_and_tops() -> None:
    work = ConcatLayer(bottoms=["a", "b"], tops="y").at_work("numpy", X, DY, dtype="float64")
    assert work.forward(X, DY).shape == (4, 5)
    da, db = work.backward(np.hstack([2 * X, 3 * DY]))
    np.testing.assert_allclose(da, 2 * X)
    np.testing.assert_allclose(db, 3 * DY)
    work = ActivationLayer(bottoms=["a", "b"], tops=["p", "q"], neuron="ReLU").at_work("numpy", X, DY)
    assert [one.shape for one in work.forward(X, DY)] == [(4, 3), (4, 2)]
    assert [one.shape for one in work.backward(X, DY)] == [(4, 3), (4, 2)]


def test_a_loss_gives_its_value_and_starts_backward_itself() -> None:
    work = SoftmaxLossLayer(bottoms=["x", "label"]).at_work("numpy", X, np.arange(4) % 3, dtype="float64")
    loss = work.forward(X, np.arange(4) % 3)
    e = np.exp(X)
    p = e / e.sum(axis=1, keepdims=True)
    assert loss == pytest.approx(-np.log(p[range(4), np.arange(4) % 3]).mean())
    dx, labels = work.backward()
    np.testing.assert_allclose(dx, (p - np.eye(3)[np.arange(4) % 3]) / 4)
    assert labels is None


def test_an_in_place_layer_gives_what_it_left_and_the_gradient_of_what_it_read() -> None:
    work = DropoutLayer(name="d", bottoms="x").at_work("numpy", X)
    y = work.forward(X)
    kept = y != 0
    np.testing.assert_allclose(y, np.where(kept, 2 * X, 0), rtol=1e-6)
    np.testing.assert_array_equal(work.backward(np.ones((4, 3))), np.where(kept, 2, 0))
    np.testing.assert_array_equal(work.forward(X), y)  # the same step has the same mask
    work.net.step = 1
    assert not np.array_equal(work.forward(X), y)
    assert not np.array_equal(DropoutLayer(name="d", bottoms="x").at_work("numpy", X, phase="predict").forward(), y)


def test_tops_without_gradient_need_none() -> None:
    pooling = PoolingLayer(bottoms="x", tops=["y", "m"], kernel=2)
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    work = pooling.at_work("numpy", x)
    y, mask = work.forward(x)
    assert y.shape == mask.shape
    assert work.backward(np.ones_like(y)).shape == x.shape


@pytest.mark.parametrize(
    ("layer", "inputs", "gradients", "error", "message"),
    [
        (ip(), [X, X], [], DataError, r"layer 'ip' has 1 bottoms \(x\), but 2 arrays are given"),
        (ip(), [np.empty((0, 3))], [], DataError, "bottom 'x' of layer 'ip': the array has no rows"),
        (ip(), [X], [DY, DY], DataError, "layer 'ip' has 1 tops with gradients, but 2 are given"),
        (ip(), [X], [[[10**400] * 2] * 4], DataError, "the gradient of top 'y' needs numbers, but .* the type object"),
        (
            ip(),
            [X],
            [[[1], [2, 3]]],
            DataError,
            "the gradient of top 'y': this list cannot be made an array of numbers",
        ),
        (ip(), [X], [X], DataError, r"the gradient of top 'y' has the shape \(4, 3\), but the top has \(4, 2\)"),
        (
            ArgmaxLayer(name="a", bottoms="x", tops="y"),
            [X],
            [np.ones((4, 1))],
            TopologyError,
            "layer 'a' has no gradients to compute",
        ),
        (AccuracyLayer(name="a", bottoms=["x", "l"]), [X, np.zeros(4)], [], TopologyError, "no loss layer"),
    ],
)
def test_mistakes(layer: Layer, inputs: Any, gradients: Any, error: type[Exception], message: str) -> None:
    def work() -> None:
        made = layer.at_work("numpy", *inputs)
        made.forward()
        made.backward(*gradients)

    with pytest.raises(error, match=message):
        work()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1.0, 2.0, 3.0], [1.0]], "{}: this list cannot be made an array of numbers: .*inhomogeneous"),
        ([["a", "b", "c"]] * 4, "{} needs numbers, but the new array has the type <U1"),
        (1j * X, "{} needs numbers, but the new array has the type complex128"),
        ([[None] * 3] * 4, "{} needs numbers, but the new array has the type object"),
    ],
)
def test_inputs_and_gradients_that_are_no_numbers(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message.format("bottom 'x' of layer 'ip'")):
        ip().at_work("numpy", given)
    work = ip().at_work("numpy", X)
    with pytest.raises(DataError, match=message.format("bottom 'x' of layer 'ip'")):
        work.forward(given)
    work.forward(X)
    with pytest.raises(DataError, match=message.format("the gradient of top 'y'")):
        work.backward(given)


def test_another_type_of_whole_numbers_sets_up_anew() -> None:
    words = EmbeddingLayer(name="e", bottoms="x", tops="y", input_dim=2000, output_dim=2)
    work = words.at_work("numpy", np.ones((2, 3), np.int8))
    weight = work.parameters["e/weight"].value
    for kind in (np.int64, np.uint16):
        y = work.forward(np.full((2, 3), 1000, kind))
        np.testing.assert_array_equal(y, np.broadcast_to(weight[1000], (2, 3, 2)))


@pytest.mark.parametrize("kind", [RNNLayer, GRULayer, LSTMLayer])
def test_what_a_layer_carries_goes_with_it_into_the_net_of_a_half(kind: Any) -> None:
    layer = kind(name="r", bottoms="x", tops="y", output_dim=3, carry=True)
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    work = layer.at_work("numpy", x, dtype="float64")
    first = work.forward()
    work.advance()
    second, dy = work.forward(), np.ones((2, 4, 3))
    assert not np.array_equal(first, second)
    dx = work.backward(dy)
    gradients = {name: one.gradient for name, one in work.parameters.items()}
    np.testing.assert_array_equal(work.backward(dy, only="inputs"), dx)
    np.testing.assert_array_equal(work.forward(), second)
    work.backward(dy, only="parameters")
    for name, one in work.parameters.items():
        np.testing.assert_array_equal(one.gradient, gradients[name])
    work.rewind()
    np.testing.assert_array_equal(work.forward(), first)
    work.backward(dy)  # back in a net that has carried something before
    np.testing.assert_array_equal(work.forward(), first)
    work.advance()
    np.testing.assert_array_equal(work.forward(), second)


def test_backward_needs_forward_and_a_half_that_there_is() -> None:
    work = ip().at_work("numpy", X)
    with pytest.raises(DataError, match="layer 'ip' has not gone forward yet"):
        work.backward(DY)
    with pytest.raises(ConfigError, match="only='outputs', but it must be 'inputs' or 'parameters'"):
        work.backward(DY, only="outputs")  # type: ignore[arg-type] - wrong on purpose
    predicts = ip().at_work("numpy", X, phase="predict")
    predicts.forward()
    with pytest.raises(TopologyError, match="is in phase 'predict', so it goes forward only"):
        predicts.backward(DY)


def test_a_layer_with_another_shape_in_a_container_says_which() -> None:
    layer = ResidualLayer(name="r", bottoms="x", tops="y", layer=[{"type": "InnerProduct", "output_dim": 2}])
    with pytest.raises(ConfigError, match=r"^r/add: "):
        layer.at_work("numpy", X)
