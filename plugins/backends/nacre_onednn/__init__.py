"""The onednn backend: oneDNN's primitives, each pass of a net one list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .backend import OnednnBackend as OnednnBackend

nacre_api = "1"

BACKENDS = {"onednn": "nacre_onednn.backend:OnednnBackend"}
KERNELS = {
    ("BatchNorm", "onednn"): "nacre_onednn.batch_norm:BatchNormKernel",
    ("Concat", "onednn"): "nacre_onednn.concat:ConcatKernel",
    ("Convolution", "onednn"): "nacre_onednn.convolution:ConvolutionKernel",
    ("Deconvolution", "onednn"): "nacre_onednn.deconvolution:DeconvolutionKernel",
    ("ElementWise", "onednn"): "nacre_onednn.element_wise:AddKernel",
    ("InnerProduct", "onednn"): "nacre_onednn.inner_product:InnerProductKernel",
    ("LRN", "onednn"): "nacre_onednn.lrn:LRNKernel",
    ("Pooling", "onednn"): "nacre_onednn.pooling:PoolingKernel",
    ("Dropout", "onednn"): "nacre_onednn.dropout:DropoutKernel",
    ("Softmax", "onednn"): "nacre_onednn.softmax:SoftmaxKernel",
    ("SoftmaxLoss", "onednn"): "nacre_onednn.loss:SoftmaxLossKernel",
    ("Split", "onednn"): "nacre_onednn.element_wise:SplitKernel",
    ("neuron/ELU", "onednn"): "nacre_onednn.neurons:NeuronKernel",
    ("neuron/GELU", "onednn"): "nacre_onednn.neurons:NeuronKernel",
    ("neuron/LReLU", "onednn"): "nacre_onednn.neurons:NeuronKernel",
    ("neuron/ReLU", "onednn"): "nacre_onednn.relu:ReLUKernel",
    ("neuron/Sigmoid", "onednn"): "nacre_onednn.neurons:NeuronKernel",
    ("neuron/SiLU", "onednn"): "nacre_onednn.neurons:NeuronKernel",
    ("neuron/Softplus", "onednn"): "nacre_onednn.neurons:NeuronKernel",
    ("neuron/Tanh", "onednn"): "nacre_onednn.neurons:NeuronKernel",
    ("regularizer/L2", "onednn"): "nacre_onednn.update:L2Kernel",
    ("solver/SGD", "onednn"): "nacre_onednn.update:SGDKernel",
}


@hookimpl
def offer_backends() -> dict[str, str]:
    return BACKENDS


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    return KERNELS


__getattr__ = lazy(__name__, BACKENDS, KERNELS)
