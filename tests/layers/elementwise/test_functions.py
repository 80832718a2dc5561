"""AbsVal, Clip, Exp, Log, Power and Threshold, element by element."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, Trial
from nacre_layers.elementwise.functions import AbsValLayer, ClipLayer, ExpLayer, LogLayer, PowerLayer, ThresholdLayer

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


class Function:
    """What the tests below have in common: `function` is that of a number."""

    def reference(self, layer, inputs, parameters):
        return [np.vectorize(lambda x: float(self.function(layer, x)))(x) for x in inputs]


class TestAbsVal(Function, Agreement):
    layer = AbsValLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({}, [(2, 3, 2, 2), (3, 1)], label="two bottoms")

    def strategy(self):
        return st.builds(Example, st.just({}), st.lists(SHAPES, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        return [x.abs() for x in inputs]

    def function(self, layer, x):
        return x if x > 0 else -x


class TestClip(Function, Agreement):
    layer = ClipLayer

    def examples(self):
        yield Example({"low": -0.5, "high": 1}, [(3, 4)])
        yield Example({"low": 0, "high": float("inf")}, [(2, 3), (3, 1, 2)], label="one limit, two bottoms")

    def strategy(self):
        limits = st.tuples(st.sampled_from([-9, -1.2, -0.3]), st.sampled_from([-0.2, 0.5, 6.0]))
        fields = limits.map(lambda both: {"low": both[0], "high": both[1]})
        return st.builds(Example, fields, st.lists(SHAPES, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        return [x.clamp(layer.low, layer.high) for x in inputs]

    def function(self, layer, x):
        return min(max(x, layer.low), layer.high)


class TestExp(Function, Agreement):
    layer = ExpLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({"base": 0.5, "scale": 2, "shift": -1}, [(2, 3), (3, 1, 2)], label="options, two bottoms")

    def strategy(self):
        fields = {"base": st.sampled_from([None, 0.3, 2, 10]), "scale": st.sampled_from([-1.5, 0, 1])}
        fields = st.fixed_dictionaries({**fields, "shift": st.sampled_from([0.0, -0.7])})
        return st.builds(Example, fields, st.lists(SHAPES, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        return [(layer.base or math.e) ** (layer.scale * x + layer.shift) for x in inputs]

    def function(self, layer, x):
        return (math.e if layer.base is None else layer.base) ** (layer.scale * x + layer.shift)


def above_zero(shape):
    return np.abs(np.random.default_rng(len(shape)).permutation(np.linspace(0.2, 3, int(np.prod(shape))))).reshape(
        shape
    )


class TestLog(Function, Agreement):
    layer = LogLayer

    def examples(self):
        yield Example({}, [above_zero((3, 4))])
        yield Example({"base": 2, "scale": -1, "shift": 4}, [(2, 3), (3, 1, 2)], label="options, two bottoms")

    def strategy(self):
        fields = {"base": st.sampled_from([None, 0.3, 10]), "scale": st.sampled_from([0.5, 2])}
        fields = st.fixed_dictionaries({**fields, "shift": st.sampled_from([0.1, 0.9])})
        return st.builds(Example, fields, st.lists(SHAPES.map(above_zero), min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        return [(layer.scale * x + layer.shift).log() / math.log(layer.base or math.e) for x in inputs]

    def function(self, layer, x):
        return math.log(layer.scale * x + layer.shift, math.e if layer.base is None else layer.base)


class TestPower(Function, Agreement):
    layer = PowerLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({"power": 2, "scale": -0.5, "shift": 1}, [(2, 3), (3, 1, 2)], label="square, two bottoms")
        yield Example({"power": -0.75, "shift": 3}, [(3, 4)], label="broken")
        yield Example({"power": 3, "scale": 0, "shift": 2}, [(3, 4)], label="constant")
        yield Example({"power": -3, "shift": -3}, [(3, 4)], label="odd, of numbers below 0")
        yield Example({"power": -2, "shift": -3}, [(3, 4)], label="even, of numbers below 0")

    def strategy(self):
        """Above 0 with any power; there and below with whole ones."""
        power, scale = st.sampled_from([-2, -0.75, 0, 0.5, 1, 2, 2.5, 3]), st.sampled_from([0, 0.5, 2])
        fields = st.fixed_dictionaries({"power": power, "scale": scale, "shift": st.sampled_from([0.25, 1])})
        whole = st.fixed_dictionaries({"power": st.sampled_from([0, 1, 2, 3]), "scale": st.sampled_from([0, -1, 2])})
        return st.one_of(
            st.builds(Example, fields, st.lists(SHAPES.map(above_zero), min_size=1, max_size=2)),
            st.builds(Example, whole, st.lists(SHAPES, min_size=1, max_size=2)),
        )

    def in_torch(self, layer, inputs, parameters):
        return [(layer.scale * x + layer.shift) ** layer.power for x in inputs]

    def function(self, layer, x):
        return (layer.scale * x + layer.shift) ** layer.power


class TestThreshold(Function, Agreement):
    layer = ThresholdLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({"threshold": 0.5}, [(2, 3), (3, 1, 2)], label="two bottoms")

    def strategy(self):
        fields = st.sampled_from([-1.01, 0.0, 0.73]).map(lambda threshold: {"threshold": threshold})
        return st.builds(Example, fields, st.lists(SHAPES, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        return [(x > layer.threshold).double() for x in inputs]

    def function(self, layer, x):
        return x > layer.threshold


def run(layer, x, **fields):
    """Return the top, and its slopes."""

    def make(_):
        return layer(name="tested", bottoms=["bottom0"], tops=["top0"], **fields)

    trial = Trial(make, Example(inputs=[np.array(x, float)]), backend="numpy", dtype="float64")
    trial.forward()
    return trial.results()[0], trial.gradients()["input 0"] / trial.probe_weights()[0]


@pytest.mark.parametrize(
    ("power", "y", "slope"),
    [(0, 1, 0), (0.5, 0, 0), (1, 0, 1), (1.5, 0, 0), (2, 0, 0), (3, 0, 0)],
)
def test_power_at_zero_without_a_shift_is_a_number(power, y, slope):
    """Mocha.jl computes y / x there, which is 0 / 0."""
    found = run(PowerLayer, [[0.0, 1.0]], power=power)
    assert_close(found[0], [[y, 1]])
    assert_close(found[1], [[slope, power]])


def test_power_of_nothing_is_constant():
    found = run(PowerLayer, [[0.0, 1.0]], power=3, scale=0, shift=2)
    assert_close(found[0], [[8, 8]])
    assert_close(found[1], [[0, 0]])
    assert_close(run(PowerLayer, [[0.0, -1.0]], power=0, scale=0)[0], [[1, 1]])


def test_the_ends_of_clip_pass_the_gradient():
    y, slope = run(ClipLayer, [[-2, -1, 0, 1, 2]], low=-1, high=1)
    assert_close(y, [[-1, -1, 0, 1, 1]])
    assert_close(slope, [[0, 1, 1, 1, 0]])


def test_the_kink_of_the_absolute_value_has_no_gradient():
    assert_close(run(AbsValLayer, [[-2, 0, 3]])[1], [[-1, 0, 1]])


def test_the_threshold_itself_gives_nothing():
    x = np.array([[0.4, 0.5, 0.6, np.inf, -np.inf]])
    trial = Trial(TestThreshold().make, Example({"threshold": 0.5}, [x]), backend="numpy", dtype="float64", probe=False)
    trial.forward()
    assert_close(trial.results()[0], [[0, 0, 1, 1, 0]])


@pytest.mark.parametrize(
    ("layer", "fields", "message"),
    [
        (ClipLayer, {"low": 1, "high": 1}, r"y: low=1.0, but it must be below high=1.0"),
        (ClipLayer, {"low": float("nan"), "high": 1}, "y: low=nan, but it must be below high=1.0"),
        (ClipLayer, {"low": 1}, "y: high is missing"),
        (ExpLayer, {"base": -1}, "y: base=-1.0, but it must be above 0"),
        (ExpLayer, {"scale": float("inf")}, "y: scale=inf, but it must be finite"),
        (LogLayer, {"base": 1}, "y: base=1.0, but there is no logarithm to the base 1"),
        (LogLayer, {"base": 0}, "y: base=0.0, but it must be above 0"),
        (PowerLayer, {"power": float("nan")}, "y: power=nan, but it must be finite"),
        (PowerLayer, {"power": -1, "scale": 0}, "y: power=-1.0, but with scale=0 and shift=0 all outputs"),
        (ThresholdLayer, {"threshold": float("nan")}, "y: threshold=nan, but it must be finite"),
        (AbsValLayer, {"tops": ["y", "z"]}, "y: tops=.*, but there must be as many as bottoms, 1"),
        (AbsValLayer, {"bottoms": []}, "y: bottoms=.*, but at least 1 must be given"),
    ],
)
def test_bad_fields(layer, fields, message):
    with pytest.raises(ConfigError, match=message):
        layer(**{"bottoms": ["x"], "tops": ["y"], **fields})
