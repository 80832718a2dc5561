"""The fields that layers with a weight and a bias have in common."""

from __future__ import annotations

from typing import Annotated

from nacre import Constraint, Initializer, Layer, Regularizer, non_negative

from .initializers import Constant, Xavier
from .regularizers import L2


class Biased(Layer):
    """A layer with a bias, unless `bias=False`."""

    param_key: Annotated[str, "layers of one key share their parameters"] = ""
    bias: Annotated[bool, "whether there is a bias"] = True
    bias_init: Annotated[Initializer, "first values of the bias"] = Constant()
    bias_regu: Annotated[Regularizer | None, "regulariser of the bias"] = None
    bias_cons: Annotated[Constraint | None, "constraint of the bias"] = None
    bias_lr: Annotated[float, non_negative, "multiplies the learning rate of the bias"] = 1.0


class Weighted(Biased):
    """A layer with a weight and, unless `bias=False`, a bias."""

    weight_init: Annotated[Initializer, "first values of the weight"] = Xavier()
    weight_regu: Annotated[Regularizer | None, "regulariser of the weight"] = L2()
    weight_cons: Annotated[Constraint | None, "constraint of the weight"] = None
    weight_lr: Annotated[float, non_negative, "multiplies the learning rate of the weight"] = 1.0
