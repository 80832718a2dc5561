"""The cupy backend's own kernels: CUDA C++ in the .cu files, and beside each the Python that launches it."""

from __future__ import annotations

_MODULES = {
    "batch_norm:BatchNormKernel": ["BatchNorm"],
    "dropout:DropoutKernel": ["Dropout", "RandomMask"],
    "elementwise:ElementWiseKernel": ["ElementWise"],
    "elementwise:L1Kernel": ["regularizer/L1"],
    "elementwise:L2Kernel": ["regularizer/L2"],
    "elementwise:NeuronKernel": [
        *("neuron/ELU", "neuron/Exponential", "neuron/GELU", "neuron/Hardswish", "neuron/LReLU", "neuron/Mish"),
        *("neuron/ReLU", "neuron/SELU", "neuron/STanh", "neuron/Sigmoid", "neuron/SiLU", "neuron/Softplus"),
        "neuron/Tanh",
    ],
    "loss:SoftmaxLossKernel": ["SoftmaxLoss"],
    "lrn:LRNKernel": ["LRN"],
    "pooling:ChannelPoolingKernel": ["ChannelPooling"],
    "pooling:PoolingKernel": ["GlobalPooling", "Pooling"],
    "update:AdaDeltaKernel": ["solver/AdaDelta"],
    "update:AdaGradKernel": ["solver/AdaGrad"],
    "update:AdaMaxKernel": ["solver/AdaMax"],
    "update:AdamKernel": ["solver/Adam", "solver/AdamW"],
    "update:NesterovKernel": ["solver/Nesterov"],
    "update:RMSPropKernel": ["solver/RMSProp"],
    "update:SGDKernel": ["solver/SGD"],
}

KERNELS: dict[tuple[str, str], str] = {
    (thing, "cupy"): f"nacre_cupy.kernels.{target}" for target, things in _MODULES.items() for thing in things
}
"""Offers of kernels, as `offer_kernels` returns them."""
