"""BatchNorm: every channel with mean 0 and variance 1, then scaled and shifted."""

import numpy as np
import pytest

from nacre import ConfigError, InputLayer, Net
from nacre.testing import Example, LayerTests, Trial, assert_close
from nacre_layers import BatchNormLayer


class TestBatchNorm(LayerTests):
    layer = BatchNormLayer

    def examples(self):
        yield Example({}, [(5, 3)])
        yield Example({"epsilon": 0.1, "neuron": "Tanh"}, [(3, 2, 3, 2)], label="images, neuron")
        yield Example({"scale": False, "bias": False, "axis": -1}, [(2, 4, 3)], label="last axis, no parameters")

    def reference(self, layer, inputs, parameters):
        x = np.moveaxis(inputs[0], layer.axis, 0)
        y = np.zeros_like(x)
        for channel, values in enumerate(x):
            mean, variance = parameters["mean"][channel], parameters["variance"][channel]
            if self.phase == "train":
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


@pytest.mark.parametrize("fields", [{"epsilon": 0.0}, {"decay": 1.0}, {"axis": 0}])
def test_bad_fields(fields):
    with pytest.raises(ConfigError, match=f"bn: {next(iter(fields))}="):
        BatchNormLayer(name="bn", bottoms=["x"], tops=["y"], **fields)
