"""Reshape: the same numbers under another shape."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, Shape, as_many_as, at_least, every


class ReshapeLayer(Layer, can_do_bp=True):
    """Read every image under another shape; one top for each bottom, and nothing is copied.

    `shape` is that of one image, without the batch; one -1 stands for what is left. After Mocha.jl's `ReshapeLayer`.
    """

    bottoms: Annotated[Names, at_least(1), "what is reshaped"]
    tops: Annotated[Names, as_many_as("bottoms"), "the reshaped blobs"]
    shape: Annotated[Shape, every(lambda n: n > 0 or n == -1, "above 0, or -1"), "shape of one image"]

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ReshapeState:
        return ReshapeState(self, backend, inputs, diffs)


class ReshapeState(LayerState, reads=""):
    """`ReshapeLayer` on any backend."""

    def __init__(self, layer: ReshapeLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(one, (one.shape[0], *_filled(layer, one.shape[1:]))) for one in inputs]

    def forward(self, inputs: list[Array]) -> None:
        """The tops are the bottoms."""

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """The gradients are those of the tops."""

    def shutdown(self) -> None:
        """Nothing is held."""


def _filled(layer: ReshapeLayer, image: tuple[int, ...]) -> tuple[int, ...]:
    known = prod(length for length in layer.shape if length > 0)
    rest = prod(image) // known
    shape = tuple(rest if length == -1 else length for length in layer.shape)
    if layer.shape.count(-1) > 1 or prod(shape) != prod(image):
        raise ConfigError(f"{layer.name}: shape={layer.shape}, but an image has {prod(image)} numbers: {image}")
    return shape
