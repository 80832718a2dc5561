"""MVN: every image, or every channel of it, with mean 0 and, if wanted, variance 1."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, Trial
from nacre_layers.normalisation.mvn import MVNLayer


class TestMVN(Agreement):
    layer = MVNLayer

    def examples(self):
        yield Example({"epsilon": 0.01}, [(2, 3, 4, 3)])
        yield Example({"across_channels": True, "epsilon": 0.01}, [(3, 5), (2, 3, 2)], label="across, two bottoms")
        yield Example({"normalize_variance": False}, [(2, 3, 4)], label="mean only")
        yield Example({"epsilon": 0.01}, [(2, 2, 5, 13)], label="long rows")

    def strategy(self):
        booleans = {name: st.booleans() for name in ("normalize_variance", "across_channels")}
        fields = st.fixed_dictionaries({**booleans, "epsilon": st.floats(1e-5, 1)})
        shape = st.tuples(*[st.integers(1, 3)] * 2, *[st.integers(3, 5)] * 2)
        return st.builds(Example, fields, st.lists(shape, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            flat = x.flatten(1 if layer.across_channels else 2)
            y = flat - flat.mean(-1, keepdim=True)
            if layer.normalize_variance:
                y = y / (flat.var(-1, unbiased=False, keepdim=True) + layer.epsilon).sqrt()
            tops.append(y.reshape(x.shape))
        return tops

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            y = np.zeros_like(x)
            for place in np.ndindex(*x.shape[: 1 if layer.across_channels else 2]):
                values = x[place].ravel()
                mean = sum(values) / len(values)
                variance = sum((value - mean) ** 2 for value in values) / len(values)
                y[place] = x[place] - mean
                if layer.normalize_variance:
                    y[place] /= np.sqrt(variance + layer.epsilon)
            tops.append(y)
        return tops


def test_equal_numbers_become_zero():
    trial = Trial(TestMVN().make, Example({}, [np.full((2, 1, 3), 5.0)]), backend="numpy", dtype="float32")
    trial.forward()
    assert_close(trial.results()[0], np.zeros((2, 1, 3)), tolerance=0.0)
    assert np.isfinite(trial.gradients()["input 0"]).all()


def test_one_number_a_channel_is_refused():
    layers = [InputLayer(tops=["x"], shape=3), MVNLayer(name="norm", bottoms=["x"], tops=["y"])]
    with pytest.raises(ConfigError, match=r"norm: .*\(1, 3\) .*channel"):
        Net("n", layers, backend="numpy")


@pytest.mark.parametrize("fields", [{"epsilon": 0.0}, {"normalize_variance": 2}, {"across_channels": "no"}])
def test_bad_fields(fields):
    with pytest.raises(ConfigError, match=f"norm: {next(iter(fields))}="):
        MVNLayer(name="norm", bottoms=["x"], tops=["y"], **fields)
