"""Regularizers: the gradient of a penalty on a parameter, multiplied by the solver's `regu_coef`."""

from __future__ import annotations

from nacre import Array, Regularizer, View


class L2(Regularizer):
    """Adds coef·W to the gradient: the penalty is coef/2·‖W‖².

    As in Caffe and PyTorch; Mocha.jl adds 2·coef·W.
    """

    def add_gradient(self, backend: View, value: Array, gradient: Array, coefficient: float) -> None:
        part = backend.scratch(value.shape, str(value.dtype))
        backend.xp.multiply(value, coefficient, out=part)
        backend.xp.add(gradient, part, out=gradient)


class L1(Regularizer):
    """Adds coef·sign(W) to the gradient: the penalty is coef·Σ|W|."""

    def add_gradient(self, backend: View, value: Array, gradient: Array, coefficient: float) -> None:
        part = backend.scratch(value.shape, str(value.dtype))
        backend.xp.sign(value, out=part)
        backend.xp.multiply(part, coefficient, out=part)
        backend.xp.add(gradient, part, out=gradient)
