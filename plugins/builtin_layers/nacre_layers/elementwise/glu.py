"""GLU: one half of the channels, through a gate that the other half opens."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, Neuron, as_many_as, at_least, non_zero

from ..axes import axis_of, parts_along
from ..neurons import Sigmoid


class GLULayer(Layer, can_do_bp=True):
    """y = a · gate(b), where a and b are the first and the second half of the bottom along `axis`.

    With `axis` 1 y[n, c] = x[n, c] · gate(x[n, C + c]), for a bottom (N, 2C, ...); one top for each bottom. The gate is
    a neuron: with "Sigmoid" this is PyTorch's `GLU`, whose default axis is the last, with "SiLU" the SwiGLU and with
    "GELU" the GEGLU of transformers, where the second half goes through the neuron. Dauphin, Fan, Auli and Grangier,
    "Language modeling with gated convolutional networks", 2017; Shazeer, "GLU variants improve transformer", 2020.

    Example:
        [[layer]]
        type = "GLU"
        bottoms = ["both"]  # (8, 40, 12, 12)
        tops = ["gated"]  # (8, 20, 12, 12)
    """

    shown = ("gate",)

    bottoms: Annotated[Names, at_least(1), "the blobs with both halves"]
    tops: Annotated[Names, as_many_as("bottoms"), "the first halves, gated"]
    axis: Annotated[int, non_zero, "axis along which the halves lie"] = 1
    gate: Annotated[Neuron, "the function of the second half"] = Sigmoid()


class GLUState(LayerState, of=GLULayer, reads="inputs", capturable=True):
    """`GLULayer` on any backend."""

    def __init__(self, layer: GLULayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.halves: list[list[tuple[slice, ...]]] = []
        for name, one in zip(layer.bottoms, inputs, strict=True):
            axis = axis_of(layer, one.shape)
            half, odd = divmod(one.shape[axis], 2)
            if odd:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' of shape {one.shape} has an odd length along axis {axis}, "
                    f"{one.shape[axis]}",
                    "make their number even, so that there are two halves",
                )
            self.halves.append(parts_along(axis, [0, half, 2 * half]))
            self.blobs.append(backend.blob((*one.shape[:axis], half, *one.shape[axis + 1 :])))
        self.intermediates = [backend.blob(y.shape) for y in self.blobs]  # the gates

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        for x, y, gate, (first, second) in zip(inputs, self.blobs, self.intermediates, self.halves, strict=True):
            xp.copyto(gate, x[second])
            self.layer.gate.forward(self.backend, gate, gate)
            xp.multiply(x[first], gate, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, neuron = self.backend.xp, self.layer.gate
        arrays = zip(inputs, self.intermediates, self.blobs_diff, diffs, self.halves, strict=True)
        for x, gate, dy, dx, (first, second) in arrays:
            if dx is None:
                continue
            part, given = (self.backend.scratch(dy.shape, slot=slot) for slot in (10, 11))  # neurons use the first ones
            xp.copyto(given, x[second])
            xp.multiply(dy, x[first], out=part)
            neuron.backward(self.backend, given if neuron.needs_input else None, gate, part, part)
            xp.copyto(dx[second], part)
            xp.multiply(dy, gate, out=dx[first])
