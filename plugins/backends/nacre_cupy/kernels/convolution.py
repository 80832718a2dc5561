"""Convolution by cuDNN, with the bias, a sum and ReLU in one; see ../convolutions.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from nacre import Array, LayerState, Neuron, Own, is_identity
from nacre_layers.convolution.filters import FilterLayer
from nacre_layers.neurons import is_relu

from ..convolutions import Way
from .blobs import KINDS, convert
from .filters import FilterKernel
from .launch import is_image
from .squares import Squares


class ConvolutionKernel(FilterKernel, reads="inputs"):
    """Convolution."""

    def ready(self) -> None:
        super().ready()
        view = self.backend
        narrow = self.kind != "float32" and self.layer.bias
        self.narrow_bias = view.empty((self.geometry.filters,), self.kind) if narrow else None
        self.images = None if self.squares is None else view.empty((prod(self.one.x),), self.kind)

    def _plan(self, ways: list[Way]) -> dict[Way, Any]:
        """Return what computes each of the ways, on squares of pixels where that is of use."""
        self.squares: Squares | None = None
        if self._dtype != "float32" and "data" not in ways and Squares.fit(self.one):
            made = Squares(self.backend, self.one, KINDS[self.kind])
            self.one = made.squared
            if None not in (computations := self._computations(ways)).values():
                self.squares = made
                return computations
            self.one = made.one
        return self._computations(ways)

    def _reads_parameter(self) -> bool:
        return self.squares is None and super()._reads_parameter()

    def _computations(self, ways: list[Way]) -> dict[Way, Any]:
        return {way: self._forward() if way == "forward" else self.computation(way) for way in ways}

    def _forward(self) -> Any:
        """Return what computes forward with all that is behind; without bias and ReLU (`apart`) if that has no plan."""
        made = self.computation("forward", **(behind := self._behind()))
        self.apart = made is None and "add" not in behind
        return self.computation("forward") if self.apart else made

    def _behind(self) -> dict[str, bool]:
        """Return what comes behind the convolution in forward."""
        return {"bias": self.layer.bias, "relu": self.relu}

    def sum_behind(self, neuron: Neuron) -> Callable[[list[Any], list[Any]], LayerState] | None:
        if not is_identity(self.layer.neuron) or not is_image(self.inputs[0].shape):
            return None
        if self.computation("forward", bias=self.layer.bias, add=True, relu=is_relu(neuron)) is None:
            return None
        return partial(ConvolutionSumKernel, self.layer, self.backend, below=self, neuron=neuron)

    def forward(self, inputs: list[Own]) -> None:
        y, (weight, *biases) = self.blobs[0], self.parameters
        x = self._read(inputs[0])
        if self.squares is None:
            self._lay_filters()
        else:
            self.squares.filters(weight.blob, self.filters)
            self.squares.images(inputs[0].memory, self.images)
        if self.computations["forward"] is None:
            assert self.products is not None
            bias = biases[0].blob if biases else None
            self.products.run("forward", x, weight.blob, y, bias, relu=self.relu)
            return
        made = self._room(y, 3)
        arrays = self._summand()
        if biases and not self.apart:
            arrays["bias"] = biases[0].blob
            if self.narrow_bias is not None:
                convert(self.backend, biases[0].blob, self.narrow_bias)
                arrays["bias"] = self.narrow_bias
        self._enqueue("forward", self._ends(x, made), w=self._laid(), **arrays)
        if self.apart:
            self._finish(made)
        self._put(made, y)

    def _read(self, x: Own) -> Own:
        """Return the images as cuDNN reads them; of squares, `forward` has written them."""
        if self.images is None:
            return super()._read(x)
        made = Own(self.one.x, x.dtype)
        made.memory = self.images
        return made

    def _put_filters(self, made: Array, gradient: Array) -> None:
        if self.squares is None:
            super()._put_filters(made, gradient)
        else:
            self.squares.gradient(made, gradient)

    def _summand(self) -> dict[str, Array]:
        """Return the array that is added in forward, by its name there, if there is one."""
        return {}


class ConvolutionSumKernel(ConvolutionKernel):
    """A convolution, and the sum of two blobs behind it, one of which is its top; applies the sum's ReLU itself.

    The bottoms are the images, and the other blob. In backward its gradient is that below the ReLU.
    """

    def __init__(
        self, layer: FilterLayer, backend: Any, inputs: list[Any], diffs: list[Any], *, below: Any, neuron: Neuron
    ) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = below.parameters
        self.apply_relu(neuron)

    def sum_behind(self, neuron: Neuron) -> None:
        """Return None: one sum is enough."""

    def _behind(self) -> dict[str, bool]:
        return {**super()._behind(), "add": True}

    def _summand(self) -> dict[str, Array]:
        return {"other": self.inputs[1].memory}

    def _below(self, dy: Own) -> Array:
        return super()._below(dy) if self.diffs[1] is None else self.diffs[1].memory

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        super().backward(inputs, diffs)
        if diffs[1] is not None and not self.relu:
            self.backend.xp.copyto(diffs[1].memory, self.blobs_diff[0].memory)
