"""Swirl: turns pairs of channels by angles that it learns."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import (
    Array,
    ConfigError,
    Constraint,
    Initializer,
    Layer,
    LayerState,
    Names,
    Parameter,
    Regularizer,
    as_many_as,
    at_least,
    default,
    non_negative,
)


class SwirlLayer(Layer, has_param=True, can_do_bp=True):
    """Turn channels 2i and 2i + 1, as the coordinates of a point, by the angle i; one top for each bottom.

    y[2i] = cos(a) x[2i] - sin(a) x[2i + 1] and y[2i + 1] = sin(a) x[2i] + cos(a) x[2i + 1]. Bottoms are (images,
    channels, ...), with an even number of channels, the same for all. `angle` is (channels / 2), in radians; at 0,
    where it begins unless said, nothing is turned.
    """

    bottoms: Annotated[Names, at_least(1), "what is turned"]
    tops: Annotated[Names, as_many_as("bottoms"), "the turned blobs"]
    param_key: Annotated[str, "layers of one key share their parameters"] = ""
    angle_init: Annotated[Initializer, "first values of the angles"] = default("Constant")
    angle_regu: Annotated[Regularizer | None, "regulariser of the angles"] = None
    angle_cons: Annotated[Constraint | None, "constraint of the angles"] = None
    angle_lr: Annotated[float, non_negative, "multiplies the learning rate of the angles"] = 1.0

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> SwirlState:
        """Make the state."""
        return SwirlState(self, backend, inputs, diffs)


class SwirlState(LayerState, reads="blobs"):
    """`SwirlLayer` on any backend."""

    def __init__(self, layer: SwirlLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.angle = Parameter.of(layer, "angle", (pair_count(layer, inputs),))
        self.parameters = [self.angle]
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def ready(self) -> None:
        """Make room for the sines and cosines."""
        self.cos, self.sin, self.back = (self.backend.empty(self.angle.shape) for _ in range(3))

    def forward(self, inputs: list[Array]) -> None:
        """Turn every bottom."""
        self.backend.xp.cos(self.angle.blob, out=self.cos)
        self.backend.xp.sin(self.angle.blob, out=self.sin)
        for x, y in zip(inputs, self.blobs, strict=True):
            self._turn(x, y, self.sin)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Turn every gradient back; that of an angle is the sum of dy · (y turned by a right angle)."""
        xp, total = self.backend.xp, self.angle.gradient
        if total is not None:
            total[...] = 0
            for y, dy in zip(self.blobs, self.blobs_diff, strict=True):
                part, one = self._scratch(y), self.backend.scratch(total.shape, slot=1)
                for sign, here, there in ((1, 1, 0), (-1, 0, 1)):
                    xp.multiply(dy[:, here::2], y[:, there::2], out=part)
                    xp.sum(part, axis=(0, *range(2, y.ndim)), out=one)
                    xp.multiply(one, sign, out=one)
                    xp.add(total, one, out=total)
        xp.negative(self.sin, out=self.back)
        for dx, dy in zip(diffs, self.blobs_diff, strict=True):
            if dx is not None:
                self._turn(dy, dx, self.back)

    def _turn(self, x: Array, y: Array, sin: Array) -> None:
        xp, part = self.backend.xp, self._scratch(x)
        channels = (-1, *[1] * (x.ndim - 2))
        cos, sin = self.cos.reshape(channels), sin.reshape(channels)
        for combine, here, there in ((xp.subtract, 0, 1), (xp.add, 1, 0)):
            xp.multiply(x[:, here::2], cos, out=y[:, here::2])
            xp.multiply(x[:, there::2], sin, out=part)
            combine(y[:, here::2], part, out=y[:, here::2])

    def _scratch(self, x: Array) -> Array:
        return self.backend.scratch((x.shape[0], x.shape[1] // 2, *x.shape[2:]))

    def shutdown(self) -> None:
        """Nothing is held."""


def pair_count(layer: SwirlLayer, inputs: list[Any]) -> int:
    """Give the number of pairs of channels.

    Raises:
        ConfigError: a bottom has no channels, an odd number of them, or another number than the first.
    """
    for name, one in zip(layer.bottoms, inputs, strict=True):
        channels = one.shape[1] if one.ndim > 1 else 0
        if not channels or channels % 2:
            raise ConfigError(f"{layer.name}: bottom '{name}' has {channels} channels, but pairs need an even number")
        if channels != inputs[0].shape[1]:
            raise ConfigError(
                f"{layer.name}: bottom '{name}' has {channels} channels, but '{layer.bottoms[0]}' {inputs[0].shape[1]}"
            )
    return int(inputs[0].shape[1]) // 2
