"""What the onednn backend rewrites, with the same values and gradients: ReLU behind max pooling, sums of BatchNorms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import Identity, Layer, Names, Net, Neuron, is_identity, open_backend
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer, ActivationState
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.element_wise import Add, ElementWiseLayer, Multiply
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.split import SplitLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.kernels.batch_norm import BatchNormKernel
from small_layers import data, fill

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)


def make_net(*middle: Layer, end: str = "pool", **options: Any) -> Net:
    layers = [
        data(16, 9, 8, batch=4),
        data(batch=4, top="label"),
        ConvolutionLayer(bottoms="data", tops="conv", n_filter=16, kernel=3, neuron=ReLU()),
        *middle,
        InnerProductLayer(bottoms=end, tops="ip", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]
    net = Net("net", layers, **{"backend": "onednn", **options})
    fill(net)
    net.write("label", [0, 1, 2, 1])
    return net


def neurons(net: Net) -> list[str]:
    return [type(net.node_ops[name].state.layer.neuron).__name__ for name in ("conv", "pool")]


@pytest.mark.parametrize("neuron", [Identity(), ReLU()])
@pytest.mark.parametrize("pool", [{"kernel": 3, "stride": 2, "pad": 1}, {"kernel": 2, "stride": 2}])
def test_it_is_moved_and_changes_nothing(pool: dict[str, Any], neuron: Neuron) -> None:
    pooling = PoolingLayer(bottoms="conv", tops="pool", neuron=neuron, **pool)
    net, other = make_net(pooling), make_net(pooling, backend="numpy")
    assert neurons(net) == ["Identity", "ReLU"]
    assert "conv/ReLU" not in [op.name for op in net.ops] and "pool/ReLU" not in [op.name for op in net.ops]
    assert "Convolution + ReLU" in [row[1] for row in net.summary().rows()], "a person reads what was said"
    for one in (net, other):
        one.forward()
        one.backward()
    assert net.loss() == pytest.approx(other.loss(), rel=1e-6)
    for name, handle in other.parameters.items():
        found, expected = (np.asarray(one.gradient) for one in (net.parameters[name], handle))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=name)


def test_bottoms_of_one_pooling_are_moved_together_or_not_at_all() -> None:
    other = ConvolutionLayer(bottoms="data", tops="conv2", n_filter=16, kernel=3, neuron=ReLU())
    pooling = PoolingLayer(name="pool", bottoms=["conv", "conv2"], tops=["pool", "pool2"], kernel=2)
    end = InnerProductLayer(bottoms="pool2", tops="ip2", output_dim=3)
    assert neurons(make_net(other, pooling, end)) == ["Identity", "ReLU"]
    plain = ConvolutionLayer(bottoms="data", tops="conv2", n_filter=16, kernel=3)
    assert neurons(make_net(plain, pooling, end)) == ["ReLU", "Identity"]


class OwnLayer(Layer, has_neuron=True, can_do_bp=True):
    """A stranger's layer whose neuron is no field."""

    bottoms: Names
    tops: Names
    neuron = ReLU()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ActivationState:
        return ActivationState(self, backend, inputs, diffs)


@pytest.mark.parametrize(
    ("act", "moved"),
    [
        (ActivationLayer(name="act", bottoms="conv", tops="act", neuron=ReLU()), True),
        (OwnLayer(name="act", bottoms="conv", tops="act"), False),
    ],
)
def test_a_layer_that_is_a_relu_hands_its_bottom_on(act: Layer, moved: bool) -> None:
    net, other = (
        make_net(act, PoolingLayer(bottoms="act", tops="pool", kernel=2), **options)
        for options in ({}, {"keep": "all"})
    )
    assert [is_identity(one.node_ops["act"].state.layer.neuron) for one in (net, other)] == [moved, False]
    assert net.forward() == pytest.approx(other.forward(), rel=1e-6)
    assert "act" in str(net)


POOL = PoolingLayer(bottoms="conv", tops="pool", kernel=2)


@pytest.mark.parametrize(
    ("middle", "options"),
    [
        ([POOL], {"keep": ["conv"]}),
        ([POOL], {"keep": "all"}),
        ([PoolingLayer(bottoms="conv", tops="pool", kernel=2, pooling=Mean())], {}),
        ([PoolingLayer(bottoms="conv", tops="pool", kernel=2, neuron=Tanh())], {}),
        ([DropoutLayer(name="drop", bottoms="conv"), POOL], {}),
        ([POOL, PoolingLayer(bottoms="conv", tops="pool2", kernel=2), InnerProductLayer(bottoms="pool2", tops="ip2",
            output_dim=3)], {"insert_splits": True}),
        ([SplitLayer(name="split", bottoms="conv", tops=["a", "b"]), PoolingLayer(name="pool", bottoms="a", tops="pool",
            kernel=2)], {}),
    ],
    ids=["kept", "all kept", "mean", "another neuron", "changed in place", "two readers", "split"],
)  # fmt: skip
def test_it_stays_where_somebody_else_reads_it(middle: list[Layer], options: dict[str, Any]) -> None:
    assert neurons(make_net(*middle, **options))[0] == "ReLU"


def residual(channels: int, *norms: str, neuron: Neuron | None = None, operation: Any = None) -> list[Layer]:
    """Return a block whose sum, or other operation, joins the tops of these BatchNorms, or "conv" itself."""
    fields: dict[str, Any] = {"kernel": 1, "bias": False}
    layers: list[Layer] = [
        layer
        for name in norms
        if name != "conv"
        for layer in (
            ConvolutionLayer(name=f"{name}_conv", bottoms="conv", tops=f"{name}_conv", n_filter=channels, **fields),
            BatchNormLayer(name=name, bottoms=f"{name}_conv", tops=name),
        )
    ]
    fields = {"neuron": neuron or Identity(), "operation": operation or Add()}
    return [*layers, ElementWiseLayer(name="sum", bottoms=norms, tops="sum", **fields)]


def left(net: Net) -> list[str]:
    """Return the BatchNorms that leave their tops to the sums behind them."""
    return [op.name for op in net.ops if isinstance(op.state, BatchNormKernel) and op.state.leaves_its_top]


@pytest.mark.parametrize("neuron", [Identity(), ReLU()])
@pytest.mark.parametrize("norms", [("norm", "conv"), ("conv", "norm"), ("norm", "other")], ids=str)
def test_a_sum_computes_the_batch_norm_below(norms: tuple[str, ...], neuron: Neuron) -> None:
    layers = residual(16, *norms, neuron=neuron)
    options: dict[str, Any] = {"end": "sum", "insert_splits": True}
    net, other = make_net(*layers, **options), make_net(*layers, backend="numpy", **options)
    for one in (net, other):
        for _ in range(2):
            one.forward()
            one.backward()
    assert left(net) == [max(norms)], "the last of them"
    assert net.loss() == pytest.approx(other.loss(), rel=1e-5)
    for name, handle in other.parameters.items():
        np.testing.assert_allclose(net.parameters[name].value, handle.value, rtol=1e-5, atol=1e-6, err_msg=name)
        if handle.gradient is not None:
            np.testing.assert_allclose(
                net.parameters[name].gradient, handle.gradient, rtol=1e-3, atol=1e-5, err_msg=name
            )


def test_a_sum_leaves_a_batch_norm_alone_whose_top_is_copied_for_it() -> None:
    """Of blobs with three axes, the BatchNorm's are plain arrays, and the sum's lie as images."""
    nets: list[Net] = []
    for backend in ("onednn", "numpy"):
        layers = [
            data(16, 7, batch=4),
            data(batch=4, top="label"),
            PoolingLayer(bottoms="data", tops="pool", kernel=3),
            LayerNormLayer(bottoms="pool", tops="layer_norm"),
            BatchNormLayer(bottoms="layer_norm", tops="norm"),
            ElementWiseLayer(name="sum", bottoms=["pool", "norm"], tops="sum"),
            InnerProductLayer(bottoms="sum", tops="ip", output_dim=3),
            SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
        ]
        nets.append(Net("net", layers, backend=backend, insert_splits=True))
        fill(nets[-1])
        nets[-1].write("label", [0, 1, 2, 1])
        nets[-1].forward()
    assert left(nets[0]) == []
    assert nets[0].loss() == pytest.approx(nets[1].loss(), rel=1e-5)


@pytest.mark.parametrize("operation", [Add(coefficients=[2.0, -1.0]), Multiply()], ids=repr)
def test_other_operations_read_what_a_batch_norm_writes(operation: Any) -> None:
    layers = residual(16, "norm", "conv", operation=operation)
    net, other = (make_net(*layers, end="sum", insert_splits=True, backend=one) for one in ("onednn", "numpy"))
    for one in (net, other):
        one.forward()
    assert left(net) == []
    assert net.loss() == pytest.approx(other.loss(), rel=1e-5)


@pytest.mark.parametrize("layout", ["channels last", "blocked"])
@pytest.mark.parametrize("compute", ["float32", *open_backend("onednn").computes])
def test_the_sum_has_the_bits_of_both_in_turn(layout: str, compute: str) -> None:
    options: dict[str, Any] = {"end": "sum", "compute": compute, "plan": {"onednn": {"layout": layout}}}
    layers = residual(16, "norm", "conv", neuron=ReLU())
    joined, apart = (make_net(*layers, insert_splits=True, keep=keep, **options) for keep in ((), ("norm",)))
    assert (left(joined), left(apart)) == (["norm"], [])
    for net in (joined, apart):
        net.forward()
    assert joined.loss() == pytest.approx(apart.loss(), rel=1e-7 if compute == "float32" else 1e-2)


def test_a_batch_norm_writes_its_top_where_it_is_read() -> None:
    block = residual(16, "norm", "conv")
    again = ElementWiseLayer(name="again", bottoms=["sum", "norm"], tops="again")
    assert left(make_net(*block, again, end="again", insert_splits=True)) == []
    assert left(make_net(*block, end="sum", keep=("norm",), insert_splits=True)) == []
    assert left(make_net(*block, end="sum", keep="all", insert_splits=True)) == []
    assert left(make_net(*block, end="sum", phase="test")) == []
