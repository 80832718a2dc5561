"""MVN: normalises every record, or every channel of it, to mean 0 and, optionally, variance 1."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, as_many_as, at_least, positive

from .base import Standard


class MVNLayer(Layer, can_do_bp=True):
    """y = (x - mean) / sqrt(variance + epsilon), for each channel of each record; one top for each bottom.

    With `normalize_variance=False` y is x - mean. Bottoms are (records, channels, ...), with one axis or more after the
    channels unless `across_channels`. After Caffe's `MVN`, which adds its epsilon to the standard deviation and leaves
    it out of the gradient.

    Example:
        [[layer]]
        type = "MVN"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["normalised"]  # (8, 3, 32, 32)
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to normalise"]
    tops: Annotated[Names, as_many_as("bottoms"), "the normalised blobs"]
    normalize_variance: Annotated[bool, "whether to make the variance 1 too"] = True
    across_channels: Annotated[bool, "normalise all channels of a record together"] = False
    epsilon: Annotated[float, positive, "added to the variance"] = 1e-9


class MVNState(LayerState, of=MVNLayer, reads="blobs", capturable=True):
    """`MVNLayer` on any backend; arrays are read as (1, records and channels, numbers of each)."""

    def __init__(self, layer: MVNLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        before = 1 if layer.across_channels else 2
        for one in inputs:
            if len(one.shape) <= before:
                raise ConfigError(
                    f"{layer.name}: the bottom of shape {one.shape} has one number per channel, which would become 0",
                    "set across_channels=True",
                )
        self.shapes = [(1, prod(one.shape[:before]), prod(one.shape[before:])) for one in inputs]
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def ready(self) -> None:
        epsilon = self.layer.epsilon if self.layer.normalize_variance else None
        self.standards = [Standard(self.backend, shape, epsilon) for shape in self.shapes]

    def forward(self, inputs: list[Array]) -> None:
        for x, y, standard in zip(inputs, self.blobs, self.standards, strict=True):
            standard.forward(x.reshape(standard.shape), y.reshape(standard.shape))

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for y, dy, dx, standard in zip(self.blobs, self.blobs_diff, diffs, self.standards, strict=True):
            if dx is not None:
                standard.backward(*(one.reshape(standard.shape) for one in (y, dy, dx)))
