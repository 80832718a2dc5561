"""GroupNorm: normalises groups of channels of every record."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import ConfigError, positive

from .base import Normalising, NormalisingState


class GroupNormLayer(Normalising):
    """y = scale · (x - mean) / sqrt(variance + epsilon) + bias, over the numbers of each group of channels of a record.

    Bottoms are (records, channels, ...); `n_group` is the number of groups of neighbouring channels. Scale and bias
    have one number per channel. With as many groups as channels it is an instance normalisation. Wu and He, "Group
    normalization", 2018; PyTorch's `GroupNorm`.

    Example:
        [[layer]]
        type = "GroupNorm"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["norm1"]  # (8, 20, 12, 12)
        n_group = 4
        neuron = "ReLU"
    """

    n_group: Annotated[int, positive, "number of groups of channels"] = 32


class GroupNormState(NormalisingState, of=GroupNormLayer, reads="", capturable=True):
    """`GroupNormLayer` on any backend; arrays are read as (1, records and groups, numbers of a group)."""

    def __init__(self, layer: GroupNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape: tuple[int, ...] = inputs[0].shape
        if len(shape) < 2:
            raise ConfigError(f"{layer.name}: the bottom of shape {shape} has no channels")
        if shape[1] % layer.n_group:
            raise ConfigError(
                f"{layer.name}: n_group={layer.n_group} does not divide the {shape[1]} channels of {shape}"
            )
        self.shape = (1, shape[0] * layer.n_group, prod(shape[1:]) // layer.n_group)
        self.wide = (shape[0], shape[1], prod(shape[2:]))
        self.declare(inputs, (shape[1],))
