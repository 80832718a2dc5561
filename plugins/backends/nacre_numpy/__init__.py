"""The numpy backend: always there, and the definition of what every other backend computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .backend import NumpyBackend as NumpyBackend

nacre_api = "1"

BACKENDS = {"numpy": "nacre_numpy.backend:NumpyBackend"}
KERNELS = {
    ("Convolution", "numpy"): "nacre_numpy.kernels:ConvolutionKernel",
    ("GRU", "numpy"): "nacre_numpy.recurrent:GRUKernel",
    ("GlobalPooling", "numpy"): "nacre_numpy.kernels:PoolingKernel",
    ("InnerProduct", "numpy"): "nacre_numpy.kernels:InnerProductKernel",
    ("LSTM", "numpy"): "nacre_numpy.recurrent:LSTMKernel",
    ("Pooling", "numpy"): "nacre_numpy.kernels:PoolingKernel",
    ("RNN", "numpy"): "nacre_numpy.recurrent:RNNKernel",
    ("neuron/ReLU", "numpy"): "nacre_numpy.kernels:ReLUKernel",
    ("solver/SGD", "numpy"): "nacre_numpy.kernels:SGDKernel",
}


@hookimpl
def offer_backends() -> dict[str, str]:
    return BACKENDS


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    return KERNELS


__getattr__ = lazy(__name__, BACKENDS, KERNELS)
