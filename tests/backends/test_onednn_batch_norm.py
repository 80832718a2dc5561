"""The helper's BatchNorm, run without a net: layouts, numbers of threads, bf16, NaN, and the sums of many blocks."""

from types import SimpleNamespace

import numpy as np
import pytest

import exact
from helper_calls import assert_same_bits, run
from nacre import Identity
from nacre_layers.neurons import ReLU
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_onednn.backend import OnednnBackend

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)

from nacre_onednn.dnnl.primitives import BLOCKED, CHANNELS_LAST, PLAIN, block
from nacre_onednn.helper.native import MISSING, helper
from nacre_onednn.kernels.batch_norm import BatchNormKernel

if helper() is None:
    pytest.skip(MISSING, allow_module_level=True)


class FakeKernel(BatchNormKernel):
    """The kernel with blobs that belong to no net."""

    def __init__(self, shape, layout, dtype="float32", *, relu=False, follows=True, **fields):
        self.layer = BatchNormLayer(bottoms="x", tops="y", neuron=ReLU() if relu else Identity(), **fields)
        blob = SimpleNamespace(shape=shape, dtype=dtype)
        self.inputs, self.diffs, self.relu, self.layout = [blob], [blob], relu, layout
        learned = {name: SimpleNamespace(gradient=True) for name in ("scale", "bias") if getattr(self.layer, name)}
        self.plain = SimpleNamespace(learned=learned, follows=follows)

    def run(self, x, dy, threads=1, seed=0):
        """Run forward and backward on arrays in C order; give everything, in C order and float32."""
        random, channels, narrow = np.random.default_rng(seed), x.shape[1], self.inputs[0].dtype == "bf16"
        few = {name: random.uniform(0.5, 1.5, channels).astype(np.float32) for name in ("scale", "mean", "variance")}
        few["bias"] = random.normal(size=channels).astype(np.float32)
        few |= {name: np.full(channels, np.nan, np.float32) for name in ("dscale", "dbias")}
        given = {name: value.copy() for name, value in few.items()}
        pack = exact.narrow if narrow else (lambda one: one.astype(np.float32))
        big = {"x": pack(lay(x, self.layout)), "dy": pack(lay(dy, self.layout))}
        big |= {name: np.zeros_like(big["x"]) for name in ("y", "dx")}
        buffers = {**few, **big, "Moments": np.zeros(28 * channels, np.uint8)}
        for part in ("forward", "data"):
            run(self.make(part, "", lambda _: self.layout), buffers, threads)
        wide = exact.widen if narrow else (lambda one: one)
        found = {name: unlay(wide(big[name]), x.shape, self.layout) for name in ("y", "dx")}
        return given, {**found, **{name: few[name] for name in ("mean", "variance", "dscale", "dbias")}}


def lay(x, layout):
    """Return an array of four axes in a layout, as one row."""
    images, channels, height, width = x.shape
    if layout == CHANNELS_LAST:
        x = x.transpose(0, 2, 3, 1)
    if layout == BLOCKED:
        x = x.reshape(images, channels // block(), block(), height, width).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(x).reshape(-1)


def unlay(flat, shape, layout):
    places = lay(np.arange(flat.size).reshape(shape), layout)
    found = np.empty(flat.size, flat.dtype)
    found[places] = flat
    return found.reshape(shape)


def formula(kernel, given, x, dy):
    """BatchNorm in float64; its gradient with ReLU behind it passes where the kernel's top is above 0."""
    axes, wide = (0, 2, 3), (1, -1, 1, 1)
    follows, layer = kernel.plain.follows, kernel.layer
    mean = x.mean(axes) if follows else given["mean"].astype(float)
    variance = x.var(axes) if follows else given["variance"].astype(float)
    slope = 1 / np.sqrt(variance + layer.epsilon)
    normal = (x - mean.reshape(wide)) * slope.reshape(wide)
    scale = given["scale"].astype(float) if layer.scale else np.ones(x.shape[1])
    y = normal * scale.reshape(wide) + (given["bias"] if layer.bias else np.zeros(x.shape[1])).reshape(wide)
    if kernel.relu:
        dy, y = dy * (y > 0), np.maximum(y, 0)
    dx = dy * (scale * slope).reshape(wide)
    if follows:
        rest = dy.mean(axes, keepdims=True) + normal * (dy * normal).mean(axes, keepdims=True)
        dx -= rest * (scale * slope).reshape(wide)
    found = {"y": y, "dx": dx}
    if layer.scale:
        found["dscale"] = (dy * normal).sum(axes)
    if layer.bias:
        found["dbias"] = dy.sum(axes)
    if follows:
        count = x.size // x.shape[1]
        found["mean"] = layer.decay * given["mean"] + (1 - layer.decay) * mean
        found["variance"] = layer.decay * given["variance"] + (1 - layer.decay) * variance * count / max(count - 1, 1)
    return found


SHAPES = [
    ((3, 32, 5, 4), BLOCKED),
    ((2, 16, 33, 17), BLOCKED),
    ((1, 48, 1, 1), BLOCKED),
    ((3, 32, 5, 4), CHANNELS_LAST),
    ((2, 20, 13, 7), CHANNELS_LAST),
    ((5, 3, 9, 9), CHANNELS_LAST),
    ((2, 1, 40, 40), CHANNELS_LAST),
    ((2, 130, 6, 3), CHANNELS_LAST),
    ((3, 5, 9, 11), PLAIN),
    ((4, 7, 1, 1), PLAIN),
    ((1, 2, 1, 3), PLAIN),
]


@pytest.mark.parametrize(
    "options", [{}, {"relu": True}, {"follows": False, "relu": True}, {"scale": False}, {"bias": False}]
)
@pytest.mark.parametrize(("shape", "layout"), SHAPES)
def test_float32(shape, layout, options):
    kernel, random = FakeKernel(shape, layout, **options), np.random.default_rng(1)
    x, dy = random.normal(3, 1, shape).astype(np.float32), random.normal(size=shape).astype(np.float32)
    given, found = kernel.run(x, dy, threads=3)
    for name, right in formula(kernel, given, x.astype(float), dy.astype(float)).items():
        np.testing.assert_allclose(found[name], right, rtol=2e-5, atol=2e-6 * max(1, np.abs(right).max()), err_msg=name)
    if not kernel.plain.follows:
        np.testing.assert_array_equal(found["mean"], given["mean"])


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize(("shape", "layout"), SHAPES)
def test_bf16(shape, layout, follows):
    """By the helper itself, so on processors without bf16 too; sums are as exact as in float32, blobs are rounded."""
    kernel, random = FakeKernel(shape, layout, "bf16", follows=follows), np.random.default_rng(1)
    x, dy = (exact.widen(exact.narrow(random.normal(mean, 1, shape).astype(np.float32))) for mean in (3, 0))
    given, found = kernel.run(x, dy, threads=3)
    for name, right in formula(kernel, given, x.astype(float), dy.astype(float)).items():
        share = 2**-8 if name in ("y", "dx") else 2e-5
        np.testing.assert_allclose(
            found[name], right, rtol=share, atol=2e-6 * max(1, np.abs(right).max()), err_msg=name
        )


@pytest.mark.parametrize(
    ("shape", "layout"), [((9, 32, 40, 21), BLOCKED), ((9, 20, 40, 21), CHANNELS_LAST), ((99, 3, 40, 21), PLAIN)]
)
def test_the_bits_do_not_depend_on_the_number_of_threads(shape, layout):
    kernel, random = FakeKernel(shape, layout, relu=True), np.random.default_rng(1)
    x, dy = random.normal(3, 1, shape).astype(np.float32), random.normal(size=shape).astype(np.float32)
    assert_same_bits([kernel.run(x, dy, threads)[1] for threads in (1, 2, 3, 7)])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("shape", "layout"), SHAPES)
def test_a_nan_takes_its_channel_and_no_other(shape, layout, relu):
    kernel, random = FakeKernel(shape, layout, relu=relu), np.random.default_rng(1)
    x, dy = random.normal(size=shape).astype(np.float32), random.normal(size=shape).astype(np.float32)
    x[-1, -1, -1, -1] = np.nan
    found = kernel.run(x, dy)[1]
    for name, one in found.items():
        channels = np.moveaxis(np.isnan(one), 1, 0).reshape(shape[1], -1) if one.ndim == 4 else np.isnan(one)[:, None]
        assert not channels[:-1].any(), name
        assert channels[-1].all() or name == "dbias", name


@pytest.mark.parametrize("place", ["x", "dy"])
def test_a_nan_of_the_gradient_above_reaches_that_below(place):
    kernel, random = FakeKernel((2, 16, 3, 3), BLOCKED, relu=True, follows=False), np.random.default_rng(1)
    arrays = {name: random.normal(size=(2, 16, 3, 3)).astype(np.float32) for name in ("x", "dy")}
    arrays[place][0, 0, 0, 0] = np.nan
    found = kernel.run(**arrays)[1]
    assert np.isnan(found["y"]).sum() == (place == "x")
    assert np.isnan(found["dx"]).sum() == (place == "dy")


def test_a_constant_channel_has_no_variance():
    kernel = FakeKernel((4, 16, 9, 9), BLOCKED)
    x = np.full((4, 16, 9, 9), 1000.1, np.float32)
    given, found = kernel.run(x, np.ones_like(x))
    np.testing.assert_array_equal(found["y"], np.broadcast_to(given["bias"].reshape(1, -1, 1, 1), x.shape))
    np.testing.assert_allclose(found["variance"], 0.9 * given["variance"], rtol=1e-6)
