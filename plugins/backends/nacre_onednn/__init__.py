"""The onednn backend: runs each pass of a net as one list of oneDNN's primitives and nacre's own kernels in C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .backend import OnednnBackend as OnednnBackend

nacre_api = "1"

BACKENDS = {"onednn": "nacre_onednn.backend:OnednnBackend"}
KERNELS = {
    ("Activation", "onednn"): "nacre_onednn.kernels.chain:ActivationKernel",
    ("BatchNorm", "onednn"): "nacre_onednn.kernels.batch_norm:BatchNormKernel",
    ("Concat", "onednn"): "nacre_onednn.kernels.concat:ConcatKernel",
    ("Convolution", "onednn"): "nacre_onednn.kernels.convolution:ConvolutionKernel",
    ("Deconvolution", "onednn"): "nacre_onednn.kernels.deconvolution:DeconvolutionKernel",
    ("ElementWise", "onednn"): "nacre_onednn.kernels.element_wise:ElementWiseKernel",
    ("Embedding", "onednn"): "nacre_onednn.kernels.embedding:EmbeddingKernel",
    ("GRU", "onednn"): "nacre_onednn.kernels.recurrent:GRUKernel",
    ("GlobalPooling", "onednn"): "nacre_onednn.kernels.pooling:PoolingKernel",
    ("HuberLoss", "onednn"): "nacre_onednn.kernels.pair_loss:PairLossKernel",
    ("InnerProduct", "onednn"): "nacre_onednn.kernels.inner_product:InnerProductKernel",
    ("LRN", "onednn"): "nacre_onednn.kernels.lrn:LRNKernel",
    ("LayerNorm", "onednn"): "nacre_onednn.kernels.norm:LayerNormKernel",
    ("LSTM", "onednn"): "nacre_onednn.kernels.recurrent:LSTMKernel",
    ("MatMul", "onednn"): "nacre_onednn.kernels.mat_mul:MatMulKernel",
    ("Pooling", "onednn"): "nacre_onednn.kernels.pooling:PoolingKernel",
    ("RMSNorm", "onednn"): "nacre_onednn.kernels.norm:RMSNormKernel",
    ("RNN", "onednn"): "nacre_onednn.kernels.recurrent:RNNKernel",
    ("Dropout", "onednn"): "nacre_onednn.kernels.dropout:DropoutKernel",
    ("SigmoidCrossEntropyLoss", "onednn"): "nacre_onednn.kernels.pair_loss:PairLossKernel",
    ("Softmax", "onednn"): "nacre_onednn.kernels.softmax:SoftmaxKernel",
    ("SoftmaxLoss", "onednn"): "nacre_onednn.kernels.loss:SoftmaxLossKernel",
    ("Split", "onednn"): "nacre_onednn.kernels.element_wise:SplitKernel",
    ("SquareLoss", "onednn"): "nacre_onednn.kernels.pair_loss:PairLossKernel",
    ("Transpose", "onednn"): "nacre_onednn.kernels.transpose:TransposeKernel",
    ("neuron/ELU", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/Exponential", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/GELU", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/Hardswish", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/LReLU", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/Mish", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/ReLU", "onednn"): "nacre_onednn.kernels.relu:ReLUKernel",
    ("neuron/SELU", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/STanh", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/Sigmoid", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/SiLU", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/Softplus", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("neuron/Tanh", "onednn"): "nacre_onednn.kernels.neurons:NeuronKernel",
    ("regularizer/L2", "onednn"): "nacre_onednn.kernels.update:L2Kernel",
    ("solver/Adam", "onednn"): "nacre_onednn.kernels.update:AdamKernel",
    ("solver/AdamW", "onednn"): "nacre_onednn.kernels.update:AdamKernel",
    ("solver/SGD", "onednn"): "nacre_onednn.kernels.update:SGDKernel",
}


@hookimpl
def offer_backends() -> dict[str, str]:
    return BACKENDS


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    return KERNELS


@hookimpl
def offer_names_elsewhere() -> dict[str, str]:
    return {"backend/onednn": "cpu"}


__getattr__ = lazy(__name__, BACKENDS, KERNELS)
