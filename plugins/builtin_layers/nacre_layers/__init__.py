"""nacre's own layers, neurons, initializers, regularizers and pooling functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from nacre.component import Identity as Identity

    from .accuracy import AccuracyLayer as AccuracyLayer
    from .activation import ActivationLayer as ActivationLayer
    from .activation import ReLULayer as ReLULayer
    from .activation import SigmoidLayer as SigmoidLayer
    from .activation import TanhLayer as TanhLayer
    from .batch_norm import BatchNormLayer as BatchNormLayer
    from .concat import ConcatLayer as ConcatLayer
    from .convolution import ConvolutionLayer as ConvolutionLayer
    from .dropout import DropoutLayer as DropoutLayer
    from .initializers import Constant as Constant
    from .initializers import Gaussian as Gaussian
    from .initializers import Uniform as Uniform
    from .initializers import Xavier as Xavier
    from .initializers import XavierFanIn as XavierFanIn
    from .inner_product import InnerProductLayer as InnerProductLayer
    from .neurons import ReLU as ReLU
    from .neurons import Sigmoid as Sigmoid
    from .neurons import Tanh as Tanh
    from .pooling import Max as Max
    from .pooling import Mean as Mean
    from .pooling import PoolingLayer as PoolingLayer
    from .regularizers import L1 as L1
    from .regularizers import L2 as L2
    from .reshape import ReshapeLayer as ReshapeLayer
    from .softmax import SoftmaxLayer as SoftmaxLayer
    from .softmax_loss import SoftmaxLossLayer as SoftmaxLossLayer
    from .split import SplitLayer as SplitLayer

nacre_api = "1"

LAYERS = {
    "Accuracy": "nacre_layers.accuracy:AccuracyLayer",
    "Activation": "nacre_layers.activation:ActivationLayer",
    "BatchNorm": "nacre_layers.batch_norm:BatchNormLayer",
    "Concat": "nacre_layers.concat:ConcatLayer",
    "Convolution": "nacre_layers.convolution:ConvolutionLayer",
    "Dropout": "nacre_layers.dropout:DropoutLayer",
    "InnerProduct": "nacre_layers.inner_product:InnerProductLayer",
    "Pooling": "nacre_layers.pooling:PoolingLayer",
    "ReLU": "nacre_layers.activation:ReLULayer",
    "Reshape": "nacre_layers.reshape:ReshapeLayer",
    "Sigmoid": "nacre_layers.activation:SigmoidLayer",
    "Softmax": "nacre_layers.softmax:SoftmaxLayer",
    "SoftmaxLoss": "nacre_layers.softmax_loss:SoftmaxLossLayer",
    "Split": "nacre_layers.split:SplitLayer",
    "Tanh": "nacre_layers.activation:TanhLayer",
}
NEURONS = {
    "Identity": "nacre.component:Identity",
    "ReLU": "nacre_layers.neurons:ReLU",
    "Sigmoid": "nacre_layers.neurons:Sigmoid",
    "Tanh": "nacre_layers.neurons:Tanh",
}
INITIALIZERS = {
    "Constant": "nacre_layers.initializers:Constant",
    "Gaussian": "nacre_layers.initializers:Gaussian",
    "Uniform": "nacre_layers.initializers:Uniform",
    "Xavier": "nacre_layers.initializers:Xavier",
    "XavierFanIn": "nacre_layers.initializers:XavierFanIn",
}
REGULARIZERS = {"L1": "nacre_layers.regularizers:L1", "L2": "nacre_layers.regularizers:L2"}
LAYERS_OF = {"neuron": "nacre_layers.activation:ActivationLayer"}
POOLINGS = {"Max": "nacre_layers.pooling:Max", "Mean": "nacre_layers.pooling:Mean"}


@hookimpl
def offer_layers() -> dict[str, str]:
    return LAYERS


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {
        "neuron": NEURONS,
        "initializer": INITIALIZERS,
        "regularizer": REGULARIZERS,
        "pooling": POOLINGS,
        "layer_of": LAYERS_OF,
    }


__getattr__ = lazy(__name__, LAYERS, NEURONS, INITIALIZERS, REGULARIZERS, POOLINGS)
