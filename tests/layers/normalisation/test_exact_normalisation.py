"""Layers that normalise: in float32 as exact as PyTorch's, or more, also far from 0 and for many numbers."""

import numpy as np
import pytest

from nacre.testing.trial import Example, Trial, backends, layer_of, offered_kernels
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.neurons import ReLU
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.group_norm import GroupNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.normalisation.lrn import LRNLayer
from nacre_layers.normalisation.mvn import MVNLayer
from nacre_layers.normalisation.rms_norm import RMSNormLayer

ULP = 6e-8


def normal(shape, offset=0.0, scale=1.0):
    return offset + scale * np.random.default_rng(0).standard_normal(shape)


def cases():
    """Yield (what, layer, fields, input): the numbers of the fault that was found first, then those of its class."""
    yield "after ReLU", BatchNormLayer, {}, np.maximum(normal((32, 16, 28, 28)), 0)
    for offset in (0.0, 1e3, -1e4):
        yield f"blocks at {offset}", BatchNormLayer, {"neuron": ReLU()}, normal((16, 32, 14, 14), offset)
        yield f"no blocks at {offset}", BatchNormLayer, {}, normal((16, 20, 15, 7), offset)
        yield f"few channels at {offset}", BatchNormLayer, {}, normal((40, 3, 31, 9), offset)
        yield f"two axes at {offset}", BatchNormLayer, {"neuron": ReLU()}, normal((500, 37), offset)
        yield f"three axes at {offset}", BatchNormLayer, {}, normal((8, 20, 301), offset)
        yield f"layer norm at {offset}", LayerNormLayer, {}, normal((50, 768), offset)
        yield f"RMS norm at {offset}", RMSNormLayer, {}, normal((50, 768), offset)
        yield f"group norm at {offset}", GroupNormLayer, {"n_group": 4}, normal((8, 16, 14, 14), offset)
        yield f"mvn at {offset}", MVNLayer, {}, normal((8, 3, 33, 32), offset)
    yield "many numbers", BatchNormLayer, {}, normal((64, 8, 96, 96), 3.0)
    yield "an outlier first", BatchNormLayer, {}, np.concatenate([np.full((1, 16, 9, 9), 40.0), normal((63, 16, 9, 9))])
    yield "a drift", BatchNormLayer, {}, normal((64, 16, 9, 9)) + np.linspace(-50, 50, 64).reshape(-1, 1, 1, 1)
    yield "tiny", BatchNormLayer, {"epsilon": 1e-30}, normal((16, 16, 9, 9), 1e-9, 1e-12)
    yield "huge", BatchNormLayer, {}, normal((16, 16, 9, 9), 1e12, 1e9)


CASES = {what: rest for what, *rest in cases()}


def measure(layer, fields, x, backend, dtype, kernel=None, known=None):
    """Return what a layer computes, by name; `known` gets its state."""
    example = Example(fields, [x])
    trial = Trial(lambda one: layer_of(layer, one), example, backend=backend, dtype=dtype, kernel=kernel)
    if known is not None:
        known.append(trial.ops[0].state)
    trial.forward()
    found = {"y": trial.results()[0], **trial.gradients()}
    found |= {f"running {name}": value for name, value in trial.parameters().items() if name in ("mean", "variance")}
    trial.shutdown()
    return found


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("what", CASES)
def test_float32_is_near_float64(what, backend):
    """Errors are shares of the largest number; the numbers themselves are those of float32."""
    layer, fields, x = CASES[what]
    x = x.astype(np.float32).astype(float)
    exact = measure(layer, fields, x, "numpy", "float64")
    for kernel in (None, *offered_kernels(layer, "layer", backend)):
        known = []
        found = measure(layer, fields, x, backend, "float32", kernel, known)
        share = 40 * ULP * (1 + far_from_0(x)) if getattr(known[0], "by_cudnn", None) else 40 * ULP
        for name, right in exact.items():
            largest = float(np.abs(x if name == "running mean" else right).max())
            wrong = np.abs(found[name] - right) > share * largest
            if name in ("y", "input 0") and fields.get("neuron"):  # a number that is 0 but for rounding may pass or not
                passed = share / ULP / 40 * 2e-5
                assert np.count_nonzero(wrong) <= passed * wrong.size, (name, kernel)
                continue
            off = float(np.abs(found[name] - right).max())
            assert not wrong.any(), f"{name} by {kernel}: off by {off:.3g} of {largest:.3g}"


def far_from_0(x):
    """Return how many standard deviations numbers lie from 0: so much is lost where a mean is of float32."""
    return abs(x.mean()) / x.std()


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4])
def test_softmax_and_lrn_do_not_mind_an_offset(backend, offset):
    for layer, fields, shape in ((SoftmaxLayer, {}, (50, 1000)), (LRNLayer, {"scale": 1e-4}, (4, 32, 7, 7))):
        x = normal(shape, offset).astype(np.float32).astype(float)
        found = measure(layer, fields, x, backend, "float32")
        for name, right in measure(layer, fields, x, "numpy", "float64").items():
            assert np.abs(found[name] - right).max() <= 40 * ULP * np.abs(right).max(), (layer, name)
