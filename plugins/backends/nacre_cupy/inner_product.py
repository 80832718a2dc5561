"""InnerProduct by cuBLASLt, which adds a bias and applies a ReLU while it multiplies."""

from __future__ import annotations

from math import prod
from typing import Any

from nacre import Array, Neuron, Own
from nacre_layers.linear.inner_product import InnerProductLayer, InnerProductState
from nacre_layers.neurons import is_relu

from .kernels.bias import BiasGradient
from .kernels.blobs import convert, transpose
from .kernels.launch import not_floating
from .kernels.narrow import multiply_narrow


class InnerProductKernel(InnerProductState, reads="inputs", on_plain=True, dtypes=("float32", "float64")):
    """The layer's own state, but for the bias and a ReLU, for which no further pass over the tops is needed.

    In a net that computes in bf16 bottoms, tops and a copy of the weight are of bf16. Sums are made in float32, and the
    gradients of the parameters written in it. In float64 the neuron is not its work.
    """

    in_bf16 = same_dtype = True

    @classmethod
    def supports(cls, layer: InnerProductLayer, inputs: list[Any]) -> str | None:
        if layer.axis == 0:
            return "serves no axis=0, for which every pass looks at the number of rows"
        if layer.transpose:
            return "serves layers with an untransposed weight"
        return not_floating(inputs)

    def __init__(self, layer: InnerProductLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.narrow, self.wide = backend.compute == "bf16", backend.dtype == "float64"
        self.on_plain = not self.narrow
        self.products: Any = backend.backend.products
        self.relu = is_relu(layer.neuron) and not self.wide
        if self.relu:
            self.reads = "inputs blobs"

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return self.relu

    def ready(self) -> None:
        view, outputs = self.backend, self.layer.output_dim
        if not self.wide and (self.layer.bias or self.relu):
            self.sums = [BiasGradient(view, prod(one.shape) // outputs, outputs) for one in self.blobs]
        if self.narrow:
            self.copies = [view.empty(one.shape, "uint16") for one in self.parameters]

    def _rows(self, x: Any, dy: Any) -> tuple[Array, Array]:
        return super()._rows(*(one.memory if isinstance(one, Own) else one for one in (x, dy)))

    def forward(self, inputs: list[Own]) -> None:
        products = self.products
        if not self.narrow:
            weight, bias = self._learned([one.blob for one in self.parameters])
            for bottom, top in zip(inputs, self.blobs, strict=True):
                x, y = self._rows(bottom, top)
                products.linear(x, weight, bias, y, relu=self.relu)
            return
        for parameter, copy in zip(self.parameters, self.copies, strict=True):
            convert(self.backend, parameter.blob, copy)
        weight, bias = self._learned(self.copies)
        for bottom, top in zip(inputs, self.blobs, strict=True):
            made = self._room(top, 1)
            x, y = self._rows(self._in_order(bottom, 0), made)
            multiply_narrow(self.backend, x, weight.T, y, bias, relu=self.relu)
            self._lay(made, top)

    def _learned(self, arrays: list[Array]) -> tuple[Array, Array | None]:
        """Return those of the weight and the bias, None if there is none."""
        return arrays[0], arrays[1] if self.layer.bias else None

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if self.wide:
            super().backward(inputs, [None if one is None else one.memory for one in diffs])
            return
        weight = self.copies[0] if self.narrow else self.parameters[0].blob
        for number, (bottom, diff, top, top_diff) in enumerate(
            zip(inputs, diffs, self.blobs, self.blobs_diff, strict=True)
        ):
            x, dy = self._rows(self._in_order(bottom, 0), self._in_order(top_diff, 1))
            dy = self._gated(number, top, dy) if self.relu else dy
            if self.layer.bias and (not self.relu or number):
                self._gradient(1, number, lambda out, dy=dy, sums=self.sums[number]: sums.enqueue(dy, out))
            self._gradient(0, number, lambda out, x=x, dy=dy: self._multiply(dy.T, x, out))
            if diff is not None:
                made = self._room(diff, 2)
                self._multiply(dy, weight, made.reshape(-1, self.features))
                self._lay(made, diff)

    def _multiply(self, a: Array, b: Array, out: Array) -> None:
        if self.narrow:
            multiply_narrow(self.backend, a, b, out)
        else:
            self.products.matmul(a, b, out)

    def _gated(self, number: int, top: Own, dy: Array) -> Array:
        """Return the gradient below the ReLU; for the first top, write that of the bias."""
        below = self.backend.scratch(dy.shape, str(dy.dtype), 4)
        y = self._in_order(top, 3).reshape(dy.shape)
        of_bias = self.parameters[1].gradient if self.layer.bias and not number else None
        self.sums[number].enqueue(dy, of_bias, y, below)
        return below

    def _in_order(self, blob: Own, slot: int) -> Array:
        """Return a blob in C order: one of bf16 may lie in another."""
        made = self._room(blob, slot)
        if made is not blob.memory:
            transpose(self.backend, blob.memory, made, prod(blob.shape[2:]), blob.shape[1])
        return made

    def _room(self, blob: Own, slot: int) -> Array:
        """Return memory for a blob in C order: its own, unless its channels lie last."""
        return blob.memory if blob.layout == "plain" else self.backend.scratch(blob.shape, "uint16", slot)

    def _lay(self, array: Array, blob: Own) -> None:
        """Write an array in C order into a blob of bf16, unless it is there already."""
        if array is not blob.memory:
            transpose(self.backend, array, blob.memory, blob.shape[1], prod(blob.shape[2:]))
