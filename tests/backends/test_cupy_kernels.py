"""The cupy backend's kernels in nets, over the stand-in for CuPy, with the sources compiled for the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import cuda_on_host
from nacre import L, Method, Net, Solver
from nacre.protocols.layer import layer_type
from nacre.testing.kernels import KernelTests
from nacre.testing.layers import check_kernel
from nacre.testing.trial import Example
from nacre_cupy import KERNELS
from nacre_cupy.kernels.batch_norm import BatchNormKernel
from nacre_cupy.kernels.dropout import DropoutKernel
from nacre_cupy.kernels.elementwise import ElementWiseKernel
from nacre_cupy.kernels.embedding import EmbeddingKernel
from nacre_cupy.kernels.loss import SoftmaxLossKernel
from nacre_cupy.kernels.lrn import LRNKernel
from nacre_cupy.kernels.norm import LayerNormKernel, RMSNormKernel
from nacre_cupy.kernels.one_hot import OneHotKernel
from nacre_cupy.kernels.pooling import ChannelPoolingKernel, PoolingKernel
from nacre_cupy.kernels.recurrent import GRUKernel, LSTMKernel, RNNKernel
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.normalisation.lrn import LRNLayer
from nacre_layers.normalisation.rms_norm import RMSNormLayer
from nacre_layers.pooling.channel_pooling import ChannelPoolingLayer
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.recurrent.gru import GRULayer
from nacre_layers.recurrent.lstm import LSTMLayer
from nacre_layers.recurrent.rnn import RNNLayer
from nacre_layers.shapes.one_hot import OneHotLayer
from nacre_solvers import SGD, AdaDelta, AdaGrad, Adam, AdaMax, AdamW, Nesterov, RMSProp

METHODS = [SGD(), Nesterov(), AdaGrad(), RMSProp(centered=True, epsilon=0.1), AdaDelta(), Adam(), AdamW(), AdaMax()]

if reason := cuda_on_host.missing():
    pytest.skip(reason, allow_module_level=True)


pytestmark = pytest.mark.usefixtures("cupy")


@pytest.mark.long
class OnCupy(KernelTests):
    """All that the kit asks of a kernel; for every commit, `test_in_nets` below does with two of its checks."""

    backend_name = "cupy"


IMAGES = st.tuples(st.integers(1, 3), st.sampled_from([1, 3, 4, 8]), st.integers(3, 9), st.integers(3, 9))


class TestPoolingKernel(OnCupy):
    layer = PoolingLayer
    kernel = PoolingKernel

    def examples(self):
        yield Example({"kernel": 2, "stride": 2}, [(3, 2, 6, 6)])
        yield Example({"kernel": 3, "stride": 2, "pad": 1, "neuron": "ReLU"}, [(2, 8, 7, 6)], label="overhang")
        yield Example({"kernel": 3, "stride": 2, "pooling": "Mean"}, [(2, 3, 8, 7), (2, 3, 8, 7)], label="two means")
        yield Example({"kernel": 2, "tops": ("y", "mask")}, [(3, 8, 4, 5)], tops=2, label="mask")
        of_one_pixel = {"kernel": 2, "pad": 1, "bottoms": ("a", "b"), "tops": ("y", "z", "mask", "marks")}
        yield Example(of_one_pixel, [(2, 3, 1, 1), (2, 1, 2, 1)], tops=4, label="images of one pixel or one channel")
        yield Example({"kernel": 2, "pad": 1, "axes": (1,)}, [(2, 1, 2, 3)], label="more channels than one")
        yield Example({"pooling": "Stochastic"}, [(3, 2, 6, 6)], label="declined")

    def strategy(self):
        fields = st.fixed_dictionaries(
            {
                "kernel": st.integers(2, 3),
                "stride": st.integers(1, 3),
                "pad": st.integers(0, 1),
                "pooling": st.sampled_from(["Max", "Mean"]),
                "rounding": st.sampled_from(["ceil", "floor"]),
            }
        )
        return st.builds(lambda one, shape: Example(one, [shape]), fields, IMAGES)


class TestChannelPoolingKernel(OnCupy):
    layer = ChannelPoolingLayer
    kernel = ChannelPoolingKernel

    def examples(self):
        yield Example({"kernel": 2, "stride": 2}, [(3, 4, 3, 5)])
        yield Example({"kernel": 3, "pad": (1, 0), "pooling": "Mean"}, [(3, 5)])


class TestLRNKernel(OnCupy):
    layer = LRNLayer
    kernel = LRNKernel

    def examples(self):
        yield Example({"scale": 0.5}, [(2, 8, 3, 4)])
        yield Example({"mode": "within", "kernel": 3, "power": 0.6}, [(2, 3, 5, 4)])


class TestBatchNormKernel(OnCupy):
    layer = BatchNormLayer
    kernel = BatchNormKernel

    def examples(self):
        yield Example({}, [(3, 8, 3, 4)])
        yield Example({"neuron": "ReLU", "bias": False}, [(4, 3, 4, 4)], label="ReLU")
        yield Example({"use_running": True, "neuron": "Tanh"}, [(5, 6)], label="running")
        yield Example({"use_batch": True}, [(5, 6)], label="declined")


class TestLayerNormKernel(OnCupy):
    layer = LayerNormLayer
    kernel = LayerNormKernel

    def examples(self):
        yield Example({"axis": -1}, [(3, 5, 8)])
        yield Example({"scale": False, "neuron": "ReLU"}, [(4, 7)], label="ReLU")
        yield Example({"bias": False, "epsilon": 0.1}, [(3, 4, 6)], label="two axes")
        yield Example({"axis": -1}, [(3, 2, 4, 5)], label="declined")

    def strategy(self):
        shape = st.tuples(st.integers(1, 5), st.integers(1, 9), st.sampled_from([5, 8, 33]))  # of two the gradient is 0
        return st.builds(lambda axis, one: Example({"axis": axis}, [one]), st.sampled_from([1, -1]), shape)


class TestRMSNormKernel(OnCupy):
    layer = RMSNormLayer
    kernel = RMSNormKernel

    def examples(self):
        yield Example({"axis": -1}, [(3, 5, 8)])
        yield Example({"scale": False}, [(4, 7)], label="no scale")


class TestDropoutKernel(OnCupy):
    layer = DropoutLayer
    kernel = DropoutKernel

    def examples(self):
        yield Example({"ratio": 0.3}, [(4, 9)])
        yield Example({"auto_scale": False}, [(3, 8, 4, 5)])


class TestElementWiseKernel(OnCupy):
    layer = ElementWiseLayer
    kernel = ElementWiseKernel

    def examples(self):
        yield Example({"neuron": "ReLU"}, [(3, 8, 4, 5), (3, 8, 4, 5)], tops=1, label="ReLU")
        for operation in ("Multiply", "Maximum", "Mean", "Divide"):
            yield Example({"operation": operation}, [(3, 7), (3, 7)], tops=1, label=operation)
        yield Example({"operation": "Multiply", "neuron": "ReLU"}, [(3, 4)] * 3, tops=1, label="Multiply, ReLU")
        yield Example({"operation": "Maximum", "neuron": "ReLU"}, [(3, 4)] * 3, tops=1, label="Maximum, ReLU")


class TestEmbeddingKernel(OnCupy):
    layer = EmbeddingLayer
    kernel = EmbeddingKernel

    def examples(self):
        numbers = np.random.default_rng(0).integers(0, 5, (4, 3, 2))
        yield Example({"input_dim": 5, "output_dim": 4}, [numbers[..., 0]])
        yield Example({"input_dim": 5, "output_dim": 3, "bias": False}, [numbers.astype("float64")], label="images")
        yield Example({"input_dim": 5, "output_dim": 3}, [numbers, numbers[:, 0]], label="two bottoms")
        yield Example({"input_dim": 5, "output_dim": 3}, [numbers > 2], label="declined")


class TestOneHotKernel(OnCupy):
    layer = OneHotLayer
    kernel = OneHotKernel

    def examples(self):
        numbers = np.random.default_rng(0).integers(0, 5, (4, 3, 2))
        yield Example({"n_class": 5}, [numbers[..., 0]])
        yield Example({"n_class": 8}, [numbers.astype("float64"), numbers[:, 0]], label="two bottoms")
        yield Example({"n_class": 5}, [numbers > 2], label="declined")


class TestSoftmaxLossKernel(OnCupy):
    layer = SoftmaxLossLayer
    kernel = SoftmaxLossKernel

    def examples(self):
        yield Example({}, [(5, 4), np.array([0, 3, 1, 2, 2])])
        yield Example({"ignore_label": 2, "normalize": "batch"}, [(3, 4, 5), np.arange(15).reshape(3, 5) % 4])
        labels = np.array([0, 1, 2, 1])
        yield Example({"weights": [1.0, 2.0, 0.5]}, [(4, 3), labels, (4,)], wanted=(0,), label="weights")
        yield Example({"label_smoothing": 0.1}, [(5, 4), np.array([0, 3, 1, 2, 2])], label="smoothed")
        yield Example({"axis": 2}, [(2, 3, 4, 5), np.zeros((2, 3, 1, 5), int)], label="declined")


class TestRNNKernel(OnCupy):
    layer = RNNLayer
    kernel = RNNKernel

    def examples(self):
        both = {"output_dim": 4, "direction": "both", "n_layer": 2}
        yield Example({"output_dim": 3, "activation": "ReLU"}, [(4, 3, 2)], label="ReLU")
        cont = np.random.default_rng(0).integers(0, 2, (5, 3))
        yield Example({**both, "sequences": "cont"}, [(5, 3, 2), cont], tops=1, label="cont, both ways")

    def strategy(self):
        def example(images, steps, layers, direction, told, seed):
            random = np.random.default_rng(seed)
            fields = {"output_dim": 3, "n_layer": layers, "direction": direction, "sequences": told}
            second = {"lengths": random.integers(0, steps + 1, images), "cont": random.integers(0, 2, (images, steps))}
            return Example(fields, [(images, steps, 2), second[told]], tops=1)

        ways, told = st.sampled_from(["forward", "backward", "both"]), st.sampled_from(["lengths", "cont"])
        return st.builds(
            example, st.integers(1, 5), st.integers(1, 4), st.integers(1, 2), ways, told, st.integers(0, 9)
        )


class TestGRUKernel(TestRNNKernel):
    layer = GRULayer
    kernel = GRUKernel

    def examples(self):
        yield Example({"output_dim": 4}, [(4, 3, 2)])
        lengths = np.array([2, 0, 3, 1])
        yield Example({"output_dim": 3, "sequences": "lengths"}, [(4, 3, 2), lengths], tops=1, label="lengths")
        yield Example({"output_dim": 3, "hidden_bias": False, "time_major": True}, [(4, 3, 2)], label="time major")
        yield Example({"output_dim": 3, "reset_gate": "before"}, [(4, 3, 2)], label="declined")


class TestLSTMKernel(TestRNNKernel):
    layer = LSTMLayer
    kernel = LSTMKernel

    def examples(self):
        yield Example({"output_dim": 4}, [(4, 3, 2)])
        yield Example({"output_dim": 3, "peepholes": True, "projection": 2}, [(5, 3, 2)], label="peepholes, projection")
        cont = np.random.default_rng(0).integers(0, 2, (3, 5))
        fields = {"output_dim": 4, "time_major": True, "sequences": "cont", "bias": False, "direction": "backward"}
        yield Example(fields, [(3, 5, 2), cont], tops=1, label="time major, cont")


SUITES = [
    TestRNNKernel,
    TestGRUKernel,
    TestLSTMKernel,
    TestPoolingKernel,
    TestChannelPoolingKernel,
    TestLRNKernel,
    TestBatchNormKernel,
    TestLayerNormKernel,
    TestRMSNormKernel,
    TestDropoutKernel,
    TestElementWiseKernel,
    TestEmbeddingKernel,
    TestOneHotKernel,
    TestSoftmaxLossKernel,
]


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.long)])
@pytest.mark.parametrize("suite", SUITES)
def test_in_nets(suite: type[KernelTests], dtype: str) -> None:
    """A kernel gives in a net what the layer's own state gives, in every phase."""
    kit, kernel = suite(), (suite.kernel, "cupy")
    for example in kit.examples():
        reason = check_kernel(kit, kernel, "cupy", dtype, example, phases=True)
        assert bool(reason) == (example.label == "declined"), reason


def test_a_kernel_that_is_part_of_a_chain_is_looked_at_by_the_kit() -> None:
    kit = TestElementWiseKernel()
    (example,) = (one for one in kit.examples() if one.label == "Maximum, ReLU")
    with kit.tried(example, "cupy", "float32") as trial:
        assert trial.computing is not trial.op
    kit.test_forward_twice("cupy", "float32", example)


def layers() -> Any:
    """Return a net with every kernel in it."""
    random = np.random.default_rng(0)
    data = [random.normal(size=(24, 3, 12, 12)), np.arange(24) % 4]
    x, label = L.MemoryData(data=data, tops=["x", "label"], batch_size=6)()
    maps = L.LRN(kernel=3)(L.Convolution(n_filter=8, kernel=3, neuron="ReLU", weight_regu="L2")(x))
    maps = L.BatchNorm(neuron="ReLU")(maps)
    maps = L.Pooling(kernel=3, stride=2)(maps)
    sides = [L.Convolution(n_filter=8, kernel=1, neuron=one)(maps) for one in ("GELU", "Tanh")]
    maps = L.ChannelPooling(kernel=2, stride=2)(L.ElementWise(neuron="ReLU")(*sides))
    hidden = L.InnerProduct(output_dim=16, neuron="SiLU", weight_regu="L1")(L.GlobalPooling()(maps))
    hidden = L.RandomMask(ratio=0.1)(L.Dropout(ratio=0.25)(hidden))
    return [L.SoftmaxLoss(label_smoothing=0.1)(L.InnerProduct(output_dim=4)(hidden), label)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_trainings(method: Method, dtype: str) -> None:
    """A training by the kernels of layers, neurons, penalties and updates is that of the numpy backend."""
    found: list[tuple[list[float], dict[str, Any]]] = []
    for backend in ("cupy", "numpy"):
        with Net("net", layers(), backend=backend, dtype=dtype, seed=3) as net:
            momentum = {"momentum_policy": 0.9} if method.has_momentum else {}
            with Solver(method, lr_policy=0.05, regu_coef=0.01, max_iter=6, **momentum).start(net) as training:
                losses: list[float] = []
                for _ in range(6):
                    training.step()
                    losses.append(float(training.loss))
                if backend == "cupy":
                    check_all_kernels(training)
            found.append((losses, {name: handle.value for name, handle in net.parameters.items()}))
    (losses, values), (own_losses, own_values) = found
    close = 2e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(losses, own_losses, rtol=close)
    for name, value in values.items():
        np.testing.assert_allclose(value, own_values[name], rtol=close, atol=close * abs(own_values[name]).max())


def check_all_kernels(training: Any) -> None:
    """Check that whatever in the net has a kernel of this package uses it."""
    ours = {thing for (thing, _), place in KERNELS.items() if place.startswith("nacre_cupy.kernels.")}
    ours -= {"Convolution"} if training.net.dtype == "float64" else set()  # for which cuDNN is not asked
    for op in training.net.ops:
        name = f"neuron/{type(op.neuron).__name__}" if op.neuron is not None else layer_type(type(op.node.layer))
        if name in ours and not op.is_source:
            assert type(op.state).__module__.startswith("nacre_cupy.kernels."), f"{op.name} is computed by {op.state}"
    assert type(training.method).__module__ == "nacre_cupy.kernels.update"
