"""BatchNorm: every channel with mean 0 and variance 1, then scaled and shifted."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, Trial, backends
from nacre_layers.normalisation.batch_norm import BatchNormLayer


class TestBatchNorm(Agreement):
    layer = BatchNormLayer

    def examples(self):
        yield Example({}, [(5, 3)])
        yield Example({"epsilon": 0.1, "neuron": "Tanh"}, [(3, 2, 3, 2)], label="images, neuron")
        yield Example({"scale": False, "bias": False, "axis": -1}, [(2, 4, 3)], label="last axis, no parameters")
        yield Example({"use_running": True, "bias": False}, [(4, 2, 3)], label="running values in training")
        yield Example({}, [(3, 2, 5, 13)], label="long rows")
        yield Example({"use_batch": True, "epsilon": 0.1}, [(3, 2, 3, 2)], label="the batch's values in every phase")

    coarse = 1e-4  # three values of a channel may lie so near each other that float32 has lost two digits

    def strategy(self):
        # One value a channel gives no gradient, and two give one that is rounding noise: three or more.
        shape = st.tuples(st.integers(3, 5), *[st.integers(1, 4)] * 3) | st.tuples(*[st.integers(3, 5)] * 2)
        fields = {name: st.booleans() for name in ("scale", "bias")}
        more = {"axis": st.sampled_from([1, -1]), "epsilon": st.floats(1e-5, 1)}
        whose = st.sampled_from([{}, {"use_running": True}, {"use_batch": True}])
        given = st.fixed_dictionaries({**fields, **more})
        return st.builds(lambda one, other, shape: Example({**one, **other}, [shape]), given, whose, shape)

    def in_torch(self, layer, inputs, parameters):
        import torch

        y = torch.nn.functional.batch_norm(
            inputs[0].movedim(layer.axis, 1),
            *(parameters[name].detach().clone() for name in ("mean", "variance")),
            *(parameters.get(name) for name in ("scale", "bias")),
            training=not layer.use_running,
            eps=layer.epsilon,
        )
        return [y.movedim(1, layer.axis)]

    def reference(self, layer, inputs, parameters):
        x = np.moveaxis(inputs[0], layer.axis, 0)
        y = np.zeros_like(x)
        for channel, values in enumerate(x):
            mean, variance = parameters["mean"][channel], parameters["variance"][channel]
            if layer.use_batch or (self.phase == "train" and not layer.use_running):
                mean = values.sum() / values.size
                variance = ((values - mean) ** 2).sum() / values.size
            y[channel] = (values - mean) / np.sqrt(variance + layer.epsilon)
            if layer.scale:
                y[channel] *= parameters["scale"][channel]
            if layer.bias:
                y[channel] += parameters["bias"][channel]
        y = np.moveaxis(y, 0, layer.axis)
        return [np.tanh(y) if repr(layer.neuron) == "Tanh()" else y]


@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 4), (3, 2, 3, 3), (1, 2, 3, 3)])
@pytest.mark.parametrize("phase", ["train", "validation"])
def test_against_torch(shape, phase):
    torch = pytest.importorskip("torch")
    suite = TestBatchNorm()
    make = suite.put_parameters()
    trial = Trial(suite.make, Example({}, [shape]), backend="numpy", dtype="float64", phase=phase, parameters=make)
    before = {name: torch.tensor(value.copy()) for name, value in trial.parameters().items()}
    x = torch.tensor(trial.arrays[0], requires_grad=True)
    scale, bias = before["scale"].requires_grad_(), before["bias"].requires_grad_()
    trial.forward()
    y = torch.nn.functional.batch_norm(
        x, before["mean"], before["variance"], scale, bias, training=phase == "train", momentum=0.1
    )
    assert_close(trial.results()[0], y.detach().numpy())
    for name in ("mean", "variance"):  # torch has changed them in place
        assert_close(trial.parameters()[name], before[name].numpy(), name)
    if phase == "train":
        gradients = trial.gradients()
        y.backward(torch.tensor(trial.net.gradient("top0").copy()))
        for name, tensor in (("input 0", x), ("scale", scale), ("bias", bias)):
            assert_close(gradients[name], tensor.grad.numpy(), name, 1e-10)


def test_running_values_follow_the_batches():
    trial = Trial(TestBatchNorm().make, Example({"decay": 0.75}, [(6, 2)]), backend="numpy", dtype="float64")
    mean, variance = np.zeros(2), np.ones(2)
    random = np.random.default_rng(0)
    for _ in range(3):
        x = random.standard_normal((6, 2))
        trial.forward([x])
        mean = 0.75 * mean + 0.25 * x.mean(axis=0)
        variance = 0.75 * variance + 0.25 * x.var(axis=0, ddof=1)
    assert_close(trial.parameters()["mean"], mean)
    assert_close(trial.parameters()["variance"], variance)


def norm_layers():
    return [InputLayer(tops=["x"], shape=2, batch_size=4), BatchNormLayer(name="bn", bottoms=["x"], tops=["y"])]


def test_a_validation_net_shares_the_buffers():
    layers = norm_layers()
    training = Net("train", layers, backend="numpy", dtype="float64")
    validation = Net("validation", layers, backend="numpy", dtype="float64", phase="validation")
    x = np.random.default_rng(0).standard_normal((4, 2)) * 3 + 1
    training.write("x", x)
    training.forward()
    mean, variance = (training.parameters[f"bn/{name}"].value for name in ("mean", "variance"))
    assert_close(mean, 0.1 * x.mean(axis=0))
    validation.write("x", x)
    validation.forward()
    assert_close(validation.blob("y"), (x - mean) / np.sqrt(variance + 1e-5))
    assert_close(validation.parameters["bn/mean"].value, mean, tolerance=0.0)  # and leaves them


def test_buffers_are_no_parameters_of_the_solver():
    net = Net("train", norm_layers(), backend="numpy")
    trainable = {name for name, handle in net.parameters.items() if handle.parameter.trainable}
    assert trainable == {"bn/scale", "bn/bias"}
    assert set(net.parameters) - trainable == {"bn/mean", "bn/variance"}
    assert net.parameters["bn/mean"].gradient is None


def test_one_value_a_channel_is_normalised_to_the_bias():
    trial = Trial(TestBatchNorm().make, Example({"bias_init": 0.5}, [(1, 3)]), backend="numpy", dtype="float64")
    trial.forward()
    assert_close(trial.results()[0], np.full((1, 3), 0.5))
    assert np.isfinite(trial.parameters()["variance"]).all()


@pytest.mark.parametrize("how", ["frozen", "use_running"])
def test_statistics_stay_where_the_layer_is_frozen_or_told_to(how):
    layer = BatchNormLayer(name="bn", bottoms=["x"], tops=["y"], use_running=how == "use_running")
    net = Net("n", [InputLayer(tops=["x"], shape=2, batch_size=4), layer], backend="numpy", dtype="float64")
    if how == "frozen":
        net.freeze("bn")
    mean, variance = np.array([1.0, -2.0]), np.array([0.5, 4.0])
    net.parameters["bn/mean"].value, net.parameters["bn/variance"].value = mean, variance
    x = np.random.default_rng(0).standard_normal((4, 2))
    net.write("x", x)
    net.forward()
    assert_close(net.blob("y"), (x - mean) / np.sqrt(variance + 1e-5))
    assert_close(net.parameters["bn/mean"].value, mean, tolerance=0.0)
    assert_close(net.parameters["bn/variance"].value, variance, tolerance=0.0)
    if how == "frozen":
        net.unfreeze("bn")
        net.forward()
        assert_close(net.parameters["bn/mean"].value, 0.9 * mean + 0.1 * x.mean(axis=0))


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize(("shape", "axis"), [((2,), 1), ((2, 3, 3), 1), ((3, 2), -1)])
def test_of_a_batch_outside_of_training_only_rows_that_count_are_measured(backend, shape, axis):
    """As in PyTorch without running values, and in Caffe where use_global_stats is false; the buffers stay."""
    layer = BatchNormLayer(name="bn", bottoms=["x"], tops=["y"], axis=axis, use_batch=True)
    layers = [InputLayer(tops=["x"], shape=shape, batch_size=4), layer]
    x = np.random.default_rng(0).standard_normal((3, *shape)).astype("float32") * 3 + 1
    over = tuple(place for place in range(x.ndim) if place != axis % x.ndim)
    expected = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 1e-5)
    for phase in ("validation", "test", "predict"):
        with Net("n", layers, backend=backend, phase=phase, keep=["y"]) as net:
            for rows in (3, 4, 1):
                net.write("x", np.full((4, *shape), 1e6))  # what a batch before this one had
                net.write("x", np.concatenate([x, x])[:rows])
                net.forward()
                if rows == 3:
                    assert_close(net.blob("y")[:3], expected, tolerance=1e-5)
            assert net.parameters["bn/mean"].value.tolist() == [0, 0]
            assert net.parameters["bn/variance"].value.tolist() == [1, 1]


@pytest.mark.parametrize("frozen", [False, True])
def test_with_the_batchs_values_the_running_ones_follow_in_training_unless_frozen(frozen):
    layer = BatchNormLayer(name="bn", bottoms=["x"], tops=["y"], use_batch=True)
    with Net("n", [InputLayer(tops=["x"], shape=2, batch_size=4), layer], backend="numpy", dtype="float64") as net:
        if frozen:
            net.freeze("bn")
        x = np.random.default_rng(0).standard_normal((4, 2))
        net.write("x", x)
        net.forward()
        assert_close(net.blob("y"), (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5))
        assert_close(net.parameters["bn/mean"].value, 0 * x[0] if frozen else 0.1 * x.mean(axis=0))


def test_either_the_running_values_or_the_batchs():
    with pytest.raises(ConfigError, match="bn: use_running=True and use_batch=True"):
        BatchNormLayer(name="bn", bottoms=["x"], tops=["y"], use_running=True, use_batch=True)


@pytest.mark.parametrize("fields", [{"epsilon": 0.0}, {"decay": 1.0}, {"axis": 0}])
def test_bad_fields(fields):
    with pytest.raises(ConfigError, match=f"bn: {next(iter(fields))}="):
        BatchNormLayer(name="bn", bottoms=["x"], tops=["y"], **fields)
