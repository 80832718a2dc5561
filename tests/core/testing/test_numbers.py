"""What the conformance kit compares and differentiates with, and its trials."""

import numpy as np
import pytest

from nacre import (
    ConfigError,
    InputLayer,
    Net,
)
from nacre.testing.close import assert_close, assert_near
from nacre.testing.gradients import check_net_gradients, numerical_gradient, worst_error
from nacre.testing.trial import Example, Trial, backends, spread_values
from nacre_data import MemoryDataLayer, MemoryOutputLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from small_suites import Scaled, ScaledLayer, ScaledState, WrongGradientOfWeight

# Comparing


def test_assert_close():
    assert_close([1.0, np.nan, np.inf, -np.inf], [1.0, np.nan, np.inf, -np.inf])
    assert_close(np.float32(1 + 1e-6), 1.0)
    assert_close(np.zeros((0, 2)), np.zeros((0, 2)))
    for actual, expected, message in [
        (
            [1.0, 2.0, 3.5],
            [1.0, 2.0, 3.0],
            r"numbers: 1 of 3 .*most at \(2,\): 3.5 instead of 3, off by 0.5, allowed 6e-12",
        ),
        ([1.0, np.nan], [1.0, 2.0], r"most at \(1,\): nan instead of 2"),
        ([np.inf], [-np.inf], "inf instead of -inf"),
        ([1.0], [np.nan], "1 instead of nan"),
        ([[1.0]], [1.0], r"numbers: the shape is \(1, 1\) instead of \(1,\)"),
        ([1e-9], [0.0], "1 of 1 numbers differ"),
    ]:
        with pytest.raises(AssertionError, match=message):
            assert_close(actual, expected, "numbers")
    assert_close([1.5], [1.0], tolerance=0.25)
    with pytest.raises(AssertionError):
        assert_close([1], [2])  # whole numbers must be equal


def test_assert_near():
    expected = np.array([1.0, 1e-12, 0])
    assert_near(np.add(expected, [0, 1e-11, 0]), expected)
    with pytest.raises(AssertionError, match=r"off by 1e-09 of its norm, allowed 1e-10; most at \(2,\)"):
        assert_near(np.add(expected, [0, 0, 1e-9]), expected)
    with pytest.raises(AssertionError, match=r"off by inf .* most at \(1,\): nan"):
        assert_near([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(AssertionError, match="the shape is"):
        assert_near([1.0], [1.0, 2.0])


# Numerical gradients


def test_numerical_gradient():
    x = np.array([[0.5, -1.0], [2.0, 300.0]])
    kept = x.copy()
    places, slopes = numerical_gradient(lambda y: float(np.sum(y**3)), x)
    assert places.tolist() == [0, 1, 2, 3]
    assert_close(slopes, 3 * x.reshape(-1) ** 2, tolerance=1e-8)
    assert np.array_equal(x, kept)


def test_of_a_large_array_some_entries_are_taken():
    x = np.arange(1000.0)
    places, slopes = numerical_gradient(lambda y: float(np.sum(y * x)), x, entries=50)
    assert len(set(places.tolist())) == 50 and places.max() > 500
    assert_close(slopes, x[places], tolerance=1e-6)
    again, _ = numerical_gradient(lambda y: 0.0, x, entries=50)
    other, _ = numerical_gradient(lambda y: 0.0, x, entries=50, seed=1)
    assert np.array_equal(places, again) and not np.array_equal(places, other)


def test_worst_error():
    places, slopes = np.array([0, 2]), np.array([1.0, 2.0])
    assert worst_error(np.array([1.0, 99.0, 2.0]), places, slopes) == (0.0, 0)
    error, place = worst_error(np.array([1.0, 99.0, 2.5]), places, slopes)
    assert (round(error, 9), place) == (0.2, 2)
    assert worst_error(np.array([np.nan, 0, 2.0]), places, slopes) == (np.inf, 0)
    assert worst_error(np.zeros(0), np.zeros(0, int), np.zeros(0)) == (0.0, 0)
    assert worst_error(np.array([1e-12]), np.array([0]), np.zeros(1))[0] < 1e-6  # rounding, where there is no slope


def whole_net(state=ScaledState, dtype="float64"):
    layers = [
        InputLayer(name="in", tops=["x"], shape=4, batch_size=3),
        InputLayer(name="labels", tops=["label"], batch_size=3, dtype="int64"),
        InnerProductLayer(bottoms=["x"], tops=["a"], output_dim=5, neuron="Tanh"),
        DropoutLayer(name="drop", bottoms=["a"]),
        ScaledLayer(bottoms=["a"], tops=["b"], state=state),
        InnerProductLayer(bottoms=["b"], tops=["c"], output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["c", "label"]),
    ]
    net = Net("whole", layers, backend="numpy", dtype=dtype)
    net.write("x", np.random.default_rng(0).standard_normal((3, 4)))
    net.write("label", [0, 2, 1])
    return net


def test_check_net_gradients():
    net = whole_net()
    before = {name: handle.value for name, handle in net.parameters.items()}
    errors = check_net_gradients(net)
    assert [name for name, _ in errors] == ["a/weight", "a/bias", "b/weight", "c/weight", "c/bias"]
    assert max(error for _, error in errors) < 1e-6
    for name, value in before.items():
        assert np.array_equal(net.parameters[name].value, value), name
    few = dict(check_net_gradients(net, entries=2, epsilon=1e-4))
    assert list(few) == list(before)


def test_check_net_gradients_finds_a_wrong_layer():
    errors = dict(check_net_gradients(whole_net(WrongGradientOfWeight)))
    assert errors["b/weight"] > 5e-5
    assert max(error for name, error in errors.items() if name != "b/weight") < 1e-6


def test_check_net_gradients_wants_float64():
    with pytest.raises(ConfigError, match="net 'whole' is of type float32, which is too coarse"):
        check_net_gradients(whole_net(dtype="float32"))


def test_check_net_gradients_leaves_out_what_writes():
    image, label = np.random.default_rng(0).standard_normal((3, 4)), np.array([0, 2, 1])
    written = MemoryOutputLayer(name="written", bottoms=["c"])
    layers = [
        MemoryDataLayer(name="in", tops=["x", "label"], data=[image, label], batch_size=3),
        InnerProductLayer(bottoms=["x"], tops=["c"], output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["c", "label"]),
        written,
    ]
    net = Net("writes", layers, backend="numpy", dtype="float64")
    assert len(check_net_gradients(net, entries=2)) == 2
    assert net.node_ops["written"].state.outputs == [[]]


# Trials


def test_backends():
    assert "numpy" in backends()


def test_examples():
    example = Example({}, [(3, 4), np.arange(3), [[0.5], [1.5], [2.5]]])
    arrays = example.arrays()
    assert [one.shape for one in arrays] == [(3, 4), (3,), (3, 1)]
    assert len(np.unique(arrays[0])) == 12 and 0 not in arrays[0] and np.abs(arrays[0]).max() <= 2
    assert example.differentiable() == (0, 2)
    assert [one.shape for one in example.cut(2).arrays()] == [(2, 4), (2,), (2, 1)]
    assert np.array_equal(example.cut(2).arrays()[0], arrays[0][:2])


@pytest.mark.parametrize("count", [2, 3, 4, 27, 1001])
def test_numbers_are_apart_and_none_is_their_mean(count):
    values = np.sort(spread_values((count,), 0))
    assert -2 < values[0] < values[-1] < 2
    assert np.diff(values).min() > 3.9 / count
    assert np.abs(values - values.mean()).min() > 0.6 / count


def test_a_trial_runs_what_nets_run():
    trial = Trial(Scaled().make, Example({}, [(4, 3)]), backend="numpy", dtype="float64")
    loss = trial.forward()
    gradients = trial.gradients()
    assert set(gradients) == {"input 0", "weight"}
    assert loss == pytest.approx(float((trial.arrays[0] * gradients["input 0"]).sum()))
    assert_close(trial.results()[0], trial.arrays[0])
    trial.shutdown()


def test_the_check_of_a_net_does_not_believe_zeros():
    layers = [
        InputLayer(name="in", tops="data", shape=3, batch_size=2),
        InputLayer(name="labels", tops="label", batch_size=2),
        InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=2),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]
    net = Net("net", layers, backend="numpy", dtype="float64")
    assert net.unwritten() == ["data", "label"]
    assert max(error for _, error in check_net_gradients(net)) < 1e-6
    assert net.unwritten() == ["label"]
    assert np.any(net.parameters["ip/weight"].gradient != 0)
