"""Convolution of images by cuDNN, with the bias and ReLU in one; see ../convolutions.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from nacre import Array, LayerState, Neuron, Own, is_identity
from nacre_layers.convolution.filters import FilterLayer, declare
from nacre_layers.convolution.geometry import Slider
from nacre_layers.neurons import is_relu

from .. import library
from ..convolutions import Convolution, Way, graph_of
from .bias import BiasGradient
from .blobs import KINDS, convert, transpose
from .launch import CudaKernel
from .squares import Squares

ROOM = 8
"""Bytes for each number of the images and of the result that plans may need that are timed: a copy of them, padded."""


class ConvolutionKernel(CudaKernel, reads="inputs", dtypes=("float32",)):
    """Convolution of images with two axes, in groups or without; applies ReLU itself.

    Filters are copied in every forward pass, to (filters, rows, columns, channels) and the type that the net computes
    in: they are small. Where cuDNN has no plan, products of matrices compute it in float32, as the layer's own code.
    """

    in_bf16 = True

    @classmethod
    def supports(cls, layer: FilterLayer, inputs: list[Any]) -> str | None:
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            return "serves one bottom, of images with two axes"
        return library.without_cudnn() or super().supports(layer, inputs)

    def __init__(self, layer: FilterLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs[:1])
        self.one = Convolution.of(self.geometry, layer.n_group)
        self.device: Any = backend.backend
        self.apply_relu(layer.neuron)

    def ready(self) -> None:
        view, g = self.backend, self.geometry
        self.kind = "uint16" if view.compute == "bf16" else "float32"
        self.narrow_bias = view.empty((g.filters,), self.kind) if self.kind != "float32" and self.layer.bias else None
        self.sums = BiasGradient(view, prod(g.top) // g.filters, g.filters)
        self.one = Convolution.of(g, self.layer.n_group)  # not that of squares, if it was ready before
        trains = self.blobs_diff[0] is not None
        wanted: dict[Way, bool] = {
            "forward": True,
            "weight": trains and self.parameters[0].gradient is not None,
            "data": trains and self.diffs[0] is not None,
        }
        ways: list[Way] = [way for way, is_wanted in wanted.items() if is_wanted]
        self.squares = self._squares(ways)
        self.computations = self._computations(ways)
        self.cells = prod(self.one.kernel)
        # one channel, or one cell, lies alike in both orders
        self.as_it_is = self.squares is None and self.kind == "float32" and 1 in (self.cells, g.weight[1])
        self.filters = None if self.as_it_is else view.empty((prod(self.one.w),), self.kind)
        self.images = None if self.squares is None else view.empty((prod(self.one.x),), self.kind)
        known = [one for one in self.computations.values() if one is not None]
        self.most = max([1, *(one.workspace for one in known)])
        view.scratch((self.most,), "uint8")  # now, so that a net that is too large is told before it runs
        self.products = None if len(known) == len(ways) else ByProducts(view, g, self.layer.n_group)

    def _squares(self, ways: list[Way]) -> Squares | None:
        """Return what makes it a convolution of squares, which is `one` from now on, or None if that is of no use."""
        if self._dtype == "float32" or "data" in ways or not Squares.fit(self.one):
            return None
        made = Squares(self.backend, self.one, KINDS[self.kind])
        self.one = made.squared
        if None not in self._computations(ways).values():
            return made
        self.one = made.one
        return None

    def _computations(self, ways: list[Way]) -> dict[Way, Any]:
        return {way: self.computation(way, **(self._behind() if way == "forward" else {})) for way in ways}

    @property
    def _dtype(self) -> str:
        """The type of arrays and products, as convolutions.py names them."""
        return "bf16" if self.backend.compute == "bf16" else "tf32" if self.device.products.tf32 else "float32"

    def _behind(self) -> dict[str, bool]:
        """Return what comes behind the convolution in forward."""
        return {"bias": self.layer.bias, "relu": self.relu}

    def computation(self, way: Way, **behind: bool) -> Any:
        """Return what computes it, or one of its gradients, with what comes behind it; None if cuDNN cannot."""
        with self.device.here:
            return self.device.dnn.computation(
                graph_of,
                self.one,
                way,
                self._dtype,
                deterministic=self.backend.deterministic,
                room=ROOM * (prod(self.one.x) + prod(self.one.y)),
                result={"forward": "y", "data": "x", "weight": "w"}[way],
                **behind,
            )

    def sum_behind(self, neuron: Neuron) -> Callable[[list[Any], list[Any]], LayerState] | None:
        if not is_identity(self.layer.neuron):
            return None
        if self.computation("forward", bias=self.layer.bias, add=True, relu=is_relu(neuron)) is None:
            return None
        return partial(ConvolutionSumKernel, self.layer, self.backend, below=self, neuron=neuron)

    def _enqueue(self, way: Way, **arrays: Array) -> None:
        computation = self.computations[way]
        assert computation is not None
        computation.enqueue(arrays, self.backend.scratch((self.most,), "uint8"))

    def _laid(self) -> Array:
        """Return the filters as cuDNN reads them; `forward` has written them."""
        return self.parameters[0].blob if self.filters is None else self.filters

    def forward(self, inputs: list[Own]) -> None:
        x, y, (weight, *biases) = inputs[0], self.blobs[0], self.parameters
        if self.squares is not None:
            self.squares.filters(weight.blob, self.filters)
            self.squares.images(x.memory, self.images)
        elif self.filters is not None:
            transpose(self.backend, weight.blob, self.filters, self.geometry.weight[1], self.cells)
        if self.computations["forward"] is None:
            assert self.products is not None
            self.products.forward(x, weight.blob, biases[0].blob if biases else None, y, relu=self.relu)
            return
        arrays = {"x": self._read(x), "w": self._laid(), "y": y.memory}
        if biases:
            arrays["bias"] = biases[0].blob
            if self.narrow_bias is not None:
                convert(self.backend, biases[0].blob, self.narrow_bias)
                arrays["bias"] = self.narrow_bias
        self._enqueue("forward", **arrays, **self._summand())

    def _read(self, x: Own) -> Array:
        """Return the images as cuDNN reads them; `forward` has written them."""
        return x.memory if self.images is None else self.images

    def _summand(self) -> dict[str, Array]:
        """Return the array that is added in forward, by its name there, if there is one."""
        return {}

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        x, dy, dx = inputs[0], self.blobs_diff[0], diffs[0]
        weight, *biases = (one.gradient for one in self.parameters)
        of_bias = biases[0] if biases else None
        if self.relu:
            dy = self._gated(dy, of_bias)
        elif of_bias is not None:
            self.sums.enqueue(dy.memory, of_bias)
        if weight is not None:
            self._filter_gradient(x, dy, weight)
        if dx is not None and self.computations["data"] is not None:
            self._enqueue("data", x=dx.memory, w=self._laid(), y=dy.memory)
        elif dx is not None:
            assert self.products is not None
            self.products.data(dy, self.parameters[0].blob, dx)

    def _gated(self, dy: Own, of_bias: Array | None) -> Own:
        """Return the gradient below the ReLU, and write that of the bias."""
        below = Own(dy.shape, dy.dtype)
        below.layout, below.memory = dy.layout, self._room(dy)
        self.sums.enqueue(dy.memory, of_bias, self.blobs[0].memory, below.memory)
        return below

    def _room(self, dy: Own) -> Array:
        """Return memory for the gradient below the ReLU."""
        return self.backend.scratch(dy.memory.shape, self.kind)

    def _filter_gradient(self, x: Own, dy: Own, gradient: Array) -> None:
        if self.computations["weight"] is None:
            assert self.products is not None
            self.products.weight(x, dy, gradient)
            return
        made = gradient if self.as_it_is else self.backend.scratch((prod(self.one.w),), self.kind, 1)
        self._enqueue("weight", x=self._read(x), w=made, y=dy.memory)
        if self.squares is not None:
            self.squares.gradient(made, gradient)
        elif made is not gradient:
            transpose(self.backend, made, gradient, self.cells, self.geometry.weight[1])


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

    def _room(self, dy: Own) -> Array:
        return super()._room(dy) if self.diffs[1] is None else self.diffs[1].memory

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        super().backward(inputs, diffs)
        if diffs[1] is not None and not self.relu:
            self.backend.xp.copyto(diffs[1].memory, self.blobs_diff[0].memory)


class ByProducts:
    """A convolution by products of matrices, over copies of its blobs in C order and in float32."""

    def __init__(self, view: Any, geometry: Any, groups: int) -> None:
        self.view, self.slider = view, Slider(view, geometry, groups)
        self.x = view.empty((geometry.images, geometry.channels, *(axis.length for axis in geometry.axes)))
        self.y = view.empty(geometry.top)

    def forward(self, x: Own, weight: Array, bias: Array | None, y: Own, *, relu: bool) -> None:
        xp = self.view.xp
        self.view.backend.unpack(x, self.x)
        self.slider.pack(weight)
        self.slider.convolve(self.x, self.y)
        if bias is not None:
            xp.add(self.y, bias.reshape(-1, 1, 1), out=self.y)
        if relu:
            xp.maximum(self.y, 0, out=self.y)
        self.view.backend.pack(self.y, y)

    def data(self, dy: Own, weight: Array, dx: Own) -> None:
        self.view.backend.unpack(dy, self.y)
        self.slider.pack(weight)
        self.slider.transpose(self.y, self.x)
        self.view.backend.pack(self.x, dx)

    def weight(self, x: Own, dy: Own, gradient: Array) -> None:
        self.view.backend.unpack(x, self.x)
        self.view.backend.unpack(dy, self.y)
        gradient[...] = 0
        self.slider.add_gradient(self.x, self.y, gradient)
