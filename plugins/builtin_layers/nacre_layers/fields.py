"""Fields that many layers have: lists of numbers, and the fields of weights, scales and biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from nacre import Constraint, Converted, Initializer, Layer, Maybe, Regularizer, default, non_negative

from .initializers import Constant, Xavier
from .regularizers import L2


class NumberLists(Converted[Sequence[Any], tuple[Any, ...]]):
    """Finite numbers in a list, in a list of lists of equal length, and so on; or an array."""

    wants = "a list of finite numbers, or of such lists of equal length"

    @staticmethod
    def convert(value: Any) -> tuple[Any, ...]:
        array = np.asarray(value)
        empty = array.ndim > 1 and not array.size  # lists without a number in them
        if not array.ndim or empty or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ValueError
        return _tuples(array.astype(float).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(entry) for entry in value) if isinstance(value, list) else value


class Learning(Layer):
    """A layer with parameters."""

    param_key: Annotated[str, "layers with the same key share their parameters"] = ""


class BiasFields(Learning):
    """A layer that may have a bias."""

    bias_init: Annotated[Initializer, "first values of the bias"] = Constant()
    bias_regu: Annotated[Maybe[Regularizer], "regulariser of the bias"] = default(None)
    bias_cons: Annotated[Maybe[Constraint], "constraint of the bias"] = default(None)
    bias_lr: Annotated[float, non_negative, "multiplies the learning rate of the bias"] = 1.0


class ScaleFields(Learning):
    """A layer that may have a scale."""

    scale_init: Annotated[Initializer, "first values of the scale"] = Constant(value=1.0)
    scale_regu: Annotated[Maybe[Regularizer], "regulariser of the scale"] = default(None)
    scale_cons: Annotated[Maybe[Constraint], "constraint of the scale"] = default(None)
    scale_lr: Annotated[float, non_negative, "multiplies the learning rate of the scale"] = 1.0


class WeightFields(Learning):
    """A layer with a weight."""

    weight_init: Annotated[Initializer, "first values of the weight"] = Xavier()
    weight_regu: Annotated[Maybe[Regularizer], "regulariser of the weight"] = default(L2())
    weight_cons: Annotated[Maybe[Constraint], "constraint of the weight"] = default(None)
    weight_lr: Annotated[float, non_negative, "multiplies the learning rate of the weight"] = 1.0


class Biased(BiasFields):
    """A layer with a bias, unless `bias=False`."""

    bias: Annotated[bool, "whether there is a bias"] = True


class Weighted(WeightFields, Biased):
    """A layer with a weight and, unless `bias=False`, a bias."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "use_bias": "bias",
        "kernel_initializer": "weight_init",
        "bias_initializer": "bias_init",
        "kernel_regularizer": "weight_regu",
    }
