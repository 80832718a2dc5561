"""The cupy backend: NVIDIA's GPUs by CuPy; what can be captured of an iteration is replayed as CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .backend import CupyBackend as CupyBackend

nacre_api = "1"

BACKENDS = {"cupy": "nacre_cupy.backend:CupyBackend"}
IN_CUDA = {
    "batch_norm:BatchNormKernel": ["BatchNorm"],
    "convolution:ConvolutionKernel": ["Convolution"],
    "deconvolution:DeconvolutionKernel": ["Deconvolution"],
    "dropout:DropoutKernel": ["Dropout", "RandomMask"],
    "elementwise:ElementWiseKernel": ["ElementWise"],
    "elementwise:L1Kernel": ["regularizer/L1"],
    "elementwise:L2Kernel": ["regularizer/L2"],
    "elementwise:NeuronKernel": [
        *("neuron/ELU", "neuron/Exponential", "neuron/GELU", "neuron/Hardswish", "neuron/LReLU", "neuron/Mish"),
        *("neuron/ReLU", "neuron/SELU", "neuron/STanh", "neuron/Sigmoid", "neuron/SiLU", "neuron/Softplus"),
        "neuron/Tanh",
    ],
    "embedding:EmbeddingKernel": ["Embedding"],
    "functions:ActivationKernel": ["Activation"],
    "functions:FunctionKernel": ["AbsVal", "Clip", "Exp", "Log", "Power"],
    "loss:SoftmaxLossKernel": ["SoftmaxLoss"],
    "lrn:LRNKernel": ["LRN"],
    "moves:ConcatKernel": ["Concat"],
    "moves:SliceKernel": ["Slice"],
    "moves:TransposeKernel": ["Transpose"],
    "norm:LayerNormKernel": ["LayerNorm"],
    "norm:RMSNormKernel": ["RMSNorm"],
    "one_hot:OneHotKernel": ["OneHot"],
    "pooling:ChannelPoolingKernel": ["ChannelPooling"],
    "pooling:PoolingKernel": ["GlobalPooling", "Pooling"],
    "recurrent:GRUKernel": ["GRU"],
    "recurrent:LSTMKernel": ["LSTM"],
    "recurrent:RNNKernel": ["RNN"],
    "source:SourceKernel": [
        *("AsyncHDF5Data", "Data", "HDF5Data", "ImageData", "IterableData", "LMDBData", "MemoryData", "NumpyData"),
        *("ShardData", "TarData"),
    ],
    "update:AdaDeltaKernel": ["solver/AdaDelta"],
    "update:AdaGradKernel": ["solver/AdaGrad"],
    "update:AdaMaxKernel": ["solver/AdaMax"],
    "update:AdamKernel": ["solver/Adam", "solver/AdamW"],
    "update:NesterovKernel": ["solver/Nesterov"],
    "update:RMSPropKernel": ["solver/RMSProp"],
    "update:SGDKernel": ["solver/SGD"],
}

KERNELS = {
    ("InnerProduct", "cupy"): "nacre_cupy.inner_product:InnerProductKernel",
    **{(thing, "cupy"): f"nacre_cupy.kernels.{target}" for target, things in IN_CUDA.items() for thing in things},
}


@hookimpl
def offer_backends() -> dict[str, str]:
    return BACKENDS


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    return KERNELS


@hookimpl
def offer_names_elsewhere() -> dict[str, str]:
    return {"backend/cupy": "cuda gpu"}


__getattr__ = lazy(__name__, BACKENDS, KERNELS)
