"""The common code of Scale and Bias: an operand that is a parameter or a second bottom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, ConfigError, Identity, Layer, LayerState, Names, Neuron, at_least, exactly

from ..cutting import uncut
from ..fields import BiasFields


class OperandLayer(BiasFields, has_param=True, has_neuron=True, can_do_bp=True):
    """The common fields of Scale and Bias: which axes of the first bottom the operand has."""

    bottoms: Annotated[Names, at_least(1), "the blob x, and the operand if it is not learned"]
    tops: Annotated[Names, exactly(1), "the result, of the shape of x"]
    axis: Annotated[int | None, "first axis of x that the operand has; by default 1, or 0 with a second bottom"] = None
    n_axes: Annotated[int, "number of axes of a learned operand; 0 is a single number, -1 all up to the last"] = 1
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()

    def partition(self, part: int, parts: int) -> Layer:
        if len(self.bottoms) > 1:
            raise uncut(self, "its second bottom may have other axes")
        return self

    def complaints(self) -> Iterator[str]:
        """Check the numbers of bottoms and axes, and that fields of a learned operand are given only with one."""
        yield from super().complaints()
        if len(self.bottoms) > 2:
            yield f"bottoms={self.bottoms}, but one or two must be given"
        for name, value in self.given().items():
            if len(self.bottoms) == 2 and (name in ("n_axes", "param_key") or name.startswith(("scale_", "bias_"))):
                yield f"{name}={value!r}, but with a second bottom nothing is learned: remove it"
        if self.n_axes < -1:
            yield f"n_axes={self.n_axes}, but it must be -1 or more"


class OperandState(LayerState):
    """The common state of both layers: `wide` is the operand's shape with an axis for each axis of x."""

    def __init__(self, layer: OperandLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        shape, second = inputs[0].shape, len(inputs) == 2
        axis = int(not second) if layer.axis is None else layer.axis
        start = axis + len(shape) if axis < 0 else axis
        if not int(not second) <= start <= len(shape):
            raise ConfigError(
                f"{layer.name}: axis={axis}, but it must be from {int(not second)} to {len(shape)} for bottom "
                f"'{layer.bottoms[0]}' of shape {shape}"
            )
        end = len(shape) if layer.n_axes < 0 else start + layer.n_axes
        operand = inputs[1].shape if second else shape[start:end]
        self.wide = (*[1] * start, *operand, *[1] * (len(shape) - start - len(operand)))
        fits = len(self.wide) == len(shape) and all(one in (1, x) for one, x in zip(self.wide, shape, strict=True))
        if not second and end > len(shape):
            raise ConfigError(
                f"{layer.name}: n_axes={layer.n_axes}, but bottom '{layer.bottoms[0]}' of shape {shape} "
                f"has {len(shape) - start} axes from axis {start} on"
            )
        if not fits:
            raise ConfigError(
                f"{layer.name}: bottom '{layer.bottoms[1]}' of shape {operand} does not fit "
                f"'{layer.bottoms[0]}' of shape {shape} from axis {start} on"
            )
        self.operand = operand
        self.repeated = tuple(index for index, length in enumerate(self.wide) if length == 1)

    def add_up(self, array: Array, gradient: Array) -> None:
        """Write an operand's gradient: each number is a sum over the numbers of x that it is combined with."""
        self.backend.xp.sum(array, axis=self.repeated, keepdims=True, out=gradient.reshape(self.wide))
