"""The onednn backend: oneDNN's primitives, each pass of a net one list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .backend import OnednnBackend as OnednnBackend

nacre_api = "1"

BACKENDS = {"onednn": "nacre_onednn.backend:OnednnBackend"}
KERNELS = {
    ("Convolution", "onednn"): "nacre_onednn.convolution:ConvolutionKernel",
    ("InnerProduct", "onednn"): "nacre_onednn.inner_product:InnerProductKernel",
    ("Pooling", "onednn"): "nacre_onednn.pooling:PoolingKernel",
    ("neuron/ReLU", "onednn"): "nacre_onednn.relu:ReLUKernel",
    ("Dropout", "onednn"): "nacre_onednn.dropout:DropoutKernel",
    ("SoftmaxLoss", "onednn"): "nacre_onednn.loss:SoftmaxLossKernel",
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
