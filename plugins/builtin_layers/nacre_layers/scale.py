"""Scale and Bias: a blob times, or plus, one of fewer axes, which is learned or a second bottom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, ConfigError, Identity, LayerState, Names, Neuron, Parameter, at_least, exactly

from .fields import BiasFields, ScaleFields


class OperandLayer(BiasFields, has_param=True, has_neuron=True, can_do_bp=True):
    """What Scale and Bias have in common: where the operand lies along the first bottom."""

    bottoms: Annotated[Names, at_least(1), "the blob, and unless it is learned, what it is combined with"]
    tops: Annotated[Names, exactly(1), "the result, of the first bottom's shape"]
    axis: Annotated[int | None, "axis of x where scale or bias begins; 1 unless given, or 0 with a second bottom"] = (
        None
    )
    n_axes: Annotated[int, "how many axes a learned one has; 0 is a single number, -1 all up to the last"] = 1
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()

    def complaints(self) -> Iterator[str]:
        """Check the numbers of bottoms and axes, and that what is for a learned operand has one."""
        yield from super().complaints()
        if len(self.bottoms) > 2:
            yield f"bottoms={self.bottoms}, but one or two must be given"
        for name, value in self.given().items():
            if len(self.bottoms) == 2 and (name in ("n_axes", "param_key") or name.startswith(("scale_", "bias_"))):
                yield f"{name}={value!r}, but with a second bottom nothing is learned: leave it out"
        if self.n_axes < -1:
            yield f"n_axes={self.n_axes}, but it must be -1 or more"


class ScaleLayer(OperandLayer, ScaleFields):
    """y = x · scale + bias, where scale and bias are repeated along all axes that they lack.

    With one bottom, x, scale is learned, and so is the bias if there is one: both have the shape of x's `n_axes` axes
    from `axis` on, (channels,) unless said. With two bottoms the second is the scale; its axes stand beside those of x
    from `axis` on, each of the same length or of length 1, such as the gate (images, channels) of a
    squeeze-and-excitation net. After Caffe's `Scale`.

    Example:
        [[layer]]
        type = "Scale"
        bottoms = ["conv1", "gate"]  # (8, 20, 12, 12), (8, 20)
        tops = ["gated1"]  # (8, 20, 12, 12)
    """

    bias: Annotated[bool, "whether a bias is added; of a learned scale only"] = False

    def complaints(self) -> Iterator[str]:
        """Check that a bias has a learned scale's shape to take."""
        yield from super().complaints()
        if self.bias and len(self.bottoms) > 1:
            yield "bias=True, but the scale is a second bottom: put a Bias layer behind"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ScaleState:
        return ScaleState(self, backend, inputs, diffs)


class BiasLayer(OperandLayer):
    """y = x + bias, where bias is repeated along all axes that it lacks.

    With one bottom, x, the bias is learned, and has the shape of x's `n_axes` axes from `axis` on, (channels,) unless
    said. With two bottoms the second is the bias; its axes stand beside those of x from `axis` on, each of the same
    length or of length 1. After Caffe's `Bias`.

    Example:
        [[layer]]
        type = "Bias"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["shifted1"]  # (8, 20, 12, 12)
    """

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> BiasState:
        return BiasState(self, backend, inputs, diffs)


class OperandState(LayerState):
    """What the states of both layers have in common: `wide`, the operand's shape with an axis for each of x's."""

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
        self.repeated = tuple(place for place, length in enumerate(self.wide) if length == 1)

    def add_up(self, array: Array, gradient: Array) -> None:
        """Write into an operand's gradient the sum over all numbers that one of its numbers meets."""
        self.backend.xp.sum(array, axis=self.repeated, keepdims=True, out=gradient.reshape(self.wide))

    def shutdown(self) -> None:
        """Nothing is held."""


class ScaleState(OperandState, reads="inputs"):
    """`ScaleLayer` on any backend."""

    def __init__(self, layer: ScaleLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.learned = len(inputs) == 1
        names = ["scale"] * self.learned + ["bias"] * layer.bias
        self.parameters = [Parameter.of(layer, name, self.operand) for name in names]

    def forward(self, inputs: list[Array]) -> None:
        xp, y = self.backend.xp, self.blobs[0]
        xp.multiply(inputs[0], self._scale(inputs), out=y)
        if self.layer.bias:
            xp.add(y, self.parameters[-1].blob.reshape(self.wide), out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, dy = self.backend.xp, self.blobs_diff[0]
        if self.layer.bias and (gradient := self.parameters[-1].gradient) is not None:
            self.add_up(dy, gradient)
        gradient = self.parameters[0].gradient if self.learned else diffs[1]
        if gradient is not None:
            product = self.backend.scratch(dy.shape)
            xp.multiply(dy, inputs[0], out=product)
            self.add_up(product, gradient)
        if diffs[0] is not None:
            xp.multiply(dy, self._scale(inputs), out=diffs[0])

    def _scale(self, inputs: list[Array]) -> Array:
        return (self.parameters[0].blob if self.learned else inputs[1]).reshape(self.wide)


class BiasState(OperandState, reads=""):
    """`BiasLayer` on any backend."""

    def __init__(self, layer: BiasLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        if len(inputs) == 1:
            self.parameters = [Parameter.of(layer, "bias", self.operand)]

    def forward(self, inputs: list[Array]) -> None:
        bias = self.parameters[0].blob if self.parameters else inputs[1]
        self.backend.xp.add(inputs[0], bias.reshape(self.wide), out=self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        dy = self.blobs_diff[0]
        gradient = self.parameters[0].gradient if self.parameters else diffs[1]
        if gradient is not None:
            self.add_up(dy, gradient)
        if diffs[0] is not None:
            self.backend.xp.copyto(diffs[0], dy)
