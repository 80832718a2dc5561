"""ElementWise: several blobs of one shape become one, element by element."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net, registry
from nacre.testing.close import assert_close, assert_near
from nacre.testing.gradients import check_net_gradients
from nacre.testing.trial import Example, Trial, backends
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.element_wise import Add, Average, ElementWiseLayer
from nacre_layers.elementwise.functions import AbsValLayer, PowerLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.shapes.split import SplitLayer

OPERATIONS = ["Add", "Multiply", "Maximum", "Mean", "Subtract", "Divide"]


def operands(shape, count, seed=0):
    """Return arrays in which no two numbers are equal, and none is near 0: no ties, no division by 0."""
    values = np.linspace(0.3, 2, int(np.prod(shape)) * count) ** 1.7  # sums of few of them are not near 0 either
    random = np.random.default_rng(seed)
    values = random.permutation(values) * random.choice([-1.0, 1.0], values.shape)
    return list(values.reshape(count, *shape))


class TestElementWise(Agreement):
    layer = ElementWiseLayer

    def examples(self):
        for name in OPERATIONS[:4]:
            yield Example({"operation": name}, operands((2, 3), 3), tops=1, label=f"{name} of three")
        for name in OPERATIONS[4:]:
            yield Example({"operation": name}, operands((2, 3, 2), 2), tops=1, label=name)
        weighted = {"operation": Add(coefficients=(0.5, -1)), "neuron": "Tanh"}
        yield Example(weighted, operands((3, 2), 2), tops=1, label="coefficients, neuron")

    def strategy(self):
        numbers = st.sampled_from([-2.0, -1.0, 0.5, 3.0])

        @st.composite
        def examples(draw):
            operation = draw(st.sampled_from(OPERATIONS))
            count = 2 if operation in OPERATIONS[4:] else draw(st.integers(2, 4))
            if operation == "Add" and draw(st.booleans()):
                operation = Add(coefficients=draw(st.lists(numbers, min_size=count, max_size=count)))
            shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
            return Example({"operation": operation}, operands(shape, count, draw(st.integers(0, 999))), tops=1)

        return examples()

    def in_torch(self, layer, inputs, parameters):
        import torch

        return [
            {
                "Add": lambda *x: sum(map(torch.mul, x, layer.operation.coefficients or [1] * len(x))),
                "Multiply": lambda *x: torch.stack(x).prod(0),
                "Maximum": lambda *x: torch.stack(x).amax(0),
                "Average": lambda *x: torch.stack(x).mean(0),
                "Subtract": torch.subtract,
                "Divide": torch.divide,
            }[type(layer.operation).__name__](*inputs)
        ]

    def reference(self, layer, inputs, parameters):
        y = np.empty_like(inputs[0])
        for place in np.ndindex(*y.shape):
            numbers = [float(x[place]) for x in inputs]
            coefficients = getattr(layer.operation, "coefficients", ()) or [1] * len(numbers)
            y[place] = {
                "Add": lambda n, c=coefficients: sum(c[i] * n[i] for i in range(len(n))),
                "Multiply": lambda n: float(np.prod(n)),
                "Maximum": max,
                "Average": lambda n: sum(n) / len(n),
                "Subtract": lambda n: n[0] - n[1],
                "Divide": lambda n: n[0] / n[1],
            }[type(layer.operation).__name__](numbers)
        return [np.tanh(y) if repr(layer.neuron) == "Tanh()" else y]


def run(operation, *inputs):
    """Return the top and the gradients of the bottoms, for a gradient of 1 at the top."""
    arrays = [np.array(one, float) for one in inputs]
    trial = Trial(
        TestElementWise().make, Example({"operation": operation}, arrays, 1), backend="numpy", dtype="float64"
    )
    trial.forward()
    weights = trial.probe_weights()[0]
    return trial.results()[0], [gradient / weights for gradient in trial.gradients().values()]


def test_every_operation_of_ours_is_tested():
    ours = {offer.name for offer in registry().offers("elementwise") if offer.distribution == "nacre"}
    assert ours == set(OPERATIONS)


def test_the_gradient_of_a_product_with_zeros_is_that_of_the_others():
    y, gradients = run("Multiply", [[0, 0]], [[2, 0]], [[3, 5]])
    assert_close(y, [[0, 0]])
    assert_close(gradients, [[[6, 0]], [[0, 0]], [[0, 0]]])


def test_of_equal_bottoms_the_first_gets_the_gradient_of_the_maximum():
    y, gradients = run("Maximum", [[1, 2, 3]], [[1, 5, 3]], [[1, 5, 4]])
    assert_close(y, [[1, 5, 4]])
    assert_close(gradients, [[[1, 0, 0]], [[0, 1, 0]], [[0, 0, 1]]])


def test_a_blob_may_be_several_operands():
    layers = [
        InputLayer(tops=["x"], shape=3, batch_size=2),
        InputLayer(tops=["label"], batch_size=2, dtype="int64"),
        InnerProductLayer(bottoms=["x"], tops=["a"], output_dim=3, weight_init="Gaussian", neuron="Tanh"),
        ElementWiseLayer(bottoms=["a", "a", "a"], tops=["y"], operation="Multiply"),
        SoftmaxLossLayer(bottoms=["y", "label"]),
    ]
    net = Net("cube", layers, backend="numpy", dtype="float64", keep=["a"], insert_splits=True)
    net.write("x", np.random.default_rng(0).standard_normal((2, 3)))
    net.write("label", [0, 2])
    assert max(error for _, error in check_net_gradients(net)) < 1e-6
    assert_close(net.blob("y"), net.blob("a") ** 3)


@pytest.mark.parametrize("backend", backends())
def test_a_residual_net(backend):
    """The sum's ReLU stands over a blob that others read: it must not overwrite it."""
    layers = [
        InputLayer(tops=["x"], shape=4, batch_size=3),
        InputLayer(tops=["label"], batch_size=3, dtype="int64"),
        InnerProductLayer(bottoms=["x"], tops=["a"], output_dim=4, weight_init="Gaussian", neuron="ReLU"),
        InnerProductLayer(bottoms=["a"], tops=["b"], output_dim=4, weight_init="Gaussian"),
        ElementWiseLayer(bottoms=["a", "b"], tops=["c"], neuron="ReLU"),
        ElementWiseLayer(bottoms=["c", "a"], tops=["d"], neuron="ReLU"),
        SoftmaxLossLayer(bottoms=["d", "label"]),
    ]
    net = Net("residual", layers, backend=backend, dtype="float64", insert_splits=True)
    net.write("x", np.random.default_rng(1).standard_normal((3, 4)))
    net.write("label", [0, 3, 2])
    assert max(error for _, error in check_net_gradients(net)) < 1e-6


def test_between_convolutions_whose_blobs_have_a_layout_of_their_own():
    """Element by element means in any layout: a backend's own blobs pass through without a copy into a plain array."""
    fields = {"n_filter": 16, "kernel": 3, "pad": 1}
    layers = [
        InputLayer(tops=["x"], shape=(3, 6, 6), batch_size=2),
        InputLayer(tops=["label"], batch_size=2, dtype="int64"),
        ConvolutionLayer(bottoms=["x"], tops=["a"], neuron="STanh", **fields),
        SplitLayer(name="split", bottoms=["a"], tops=["b", "c", "d"]),
        AbsValLayer(bottoms=["b"], tops=["e"]),
        PowerLayer(bottoms=["c"], tops=["f"], power=3, shift=0.5),
        ElementWiseLayer(bottoms=["d", "e", "f"], tops=["g"], operation="Maximum"),
        ElementWiseLayer(bottoms=["g", "x16"], tops=["h"], operation="Multiply", neuron="Softplus"),
        ConvolutionLayer(bottoms=["h"], tops=["i"], **fields),
        InnerProductLayer(bottoms=["i"], tops=["y"], output_dim=3),
        SoftmaxLossLayer(bottoms=["y", "label"]),
        InputLayer(tops=["x16"], shape=(16, 6, 6), batch_size=2),
    ]
    found = []
    for backend in backends():
        net = Net("n", layers, backend=backend, input_gradients=["x"])
        random = np.random.default_rng(0)
        net.write("x", random.standard_normal((2, 3, 6, 6)))
        net.write("x16", random.standard_normal((2, 16, 6, 6)))
        net.write("label", [0, 2])
        loss = net.forward()
        net.backward()
        found.append([net.gradient("x"), np.array(loss), *(one.gradient for one in net.parameters.values())])
    for others in found[1:]:
        for one, other in zip(others, found[0], strict=True):
            assert_near(one, other, tolerance=1e-4)


def test_whole_numbers_are_operands_too():
    y = run("Multiply", [[1.5, 2.5]], [[2, 4]])[0]
    mask = np.array([[2, 4]])
    trial = Trial(
        TestElementWise().make,
        Example({"operation": "Multiply"}, [np.array([[1.5, 2.5]]), mask], 1),
        backend="numpy",
        dtype="float64",
    )
    trial.forward()
    assert_close(trial.results()[0], y)
    assert list(trial.gradients()) == ["input 0"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bottoms": ["a"]}, r"y: bottoms=\('a',\), but at least 2 must be given"),
        ({"operation": "Subtract"}, r"y: operation=Subtract\(\), but it takes two bottoms, not 3"),
        ({"operation": "Divide"}, r"y: operation=Divide\(\), but it takes two bottoms, not 3"),
        ({"operation": Add(coefficients=(1, 2))}, "but it has 2 coefficients for 3 bottoms"),
        ({"operation": {"type": "Add", "coefficients": ["1", 2, 3]}}, "it must be a list of finite numbers"),
        ({"operation": {"type": "Add", "coefficients": [[1], [2], [3]]}}, "its entries must be numbers"),
        ({"operation": {"type": "Add", "coefficients": [1, 2, float("nan")]}}, "a list of finite numbers"),
        ({"operation": "Modulo"}, "no elementwise 'Modulo'"),
        ({"tops": ["y", "z"]}, "exactly 1 must be given"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        ElementWiseLayer(**{"bottoms": ["a", "b", "c"], "tops": ["y"], **fields})


def test_shapes_that_differ():
    layers = [
        InputLayer(tops=["a"], shape=(2, 4)),
        InputLayer(tops=["b"], shape=(1, 4)),
        ElementWiseLayer(bottoms=["a", "b"], tops=["y"]),
    ]
    with pytest.raises(ConfigError, match=r"y: .*'b' .*\(1, 1, 4\) .*'a' .*\(1, 2, 4\)"):
        Net("n", layers, backend="numpy")


def test_the_mean_by_name_and_by_class():
    by_name = ElementWiseLayer(bottoms=["a", "b"], tops=["y"], operation="Mean")
    assert type(by_name.operation) is Average
