"""What convolutions and deconvolutions by cuDNN share; see ../convolutions.py."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from nacre import Array, Own
from nacre_layers.convolution.filters import FilterLayer, declare
from nacre_layers.convolution.geometry import Geometry, Slider

from .. import library
from ..convolutions import Convolution, Way, graph_of
from .bias import BiasGradient, add_bias
from .blobs import transpose
from .launch import CudaKernel, is_image

ROOM = 8
"""Bytes for each number of the images and of the result that plans may need that are timed: a copy of them, padded."""


class FilterKernel(CudaKernel, reads="inputs", dtypes=("float32",)):
    """A layer whose filters slide over images with one to three axes, in groups or without; applies ReLU itself.

    cuDNN reads the channels last. Images with two or three axes lie so; those with one are copied in each pass. Filters
    are copied in every forward pass, too, to (filters, ..., channels) and the type that the net computes in: they are
    small. Where cuDNN has no plan, products of matrices compute it in float32, as the layer's own code.
    """

    in_bf16 = True

    kind_of_geometry: ClassVar[type[Geometry]] = Geometry
    to_top: ClassVar[Way] = "forward"
    """What cuDNN computes for the top, of the convolution whose sizes `one` has."""
    to_bottom: ClassVar[Way] = "data"
    """And for the gradient of the bottom."""

    @classmethod
    def supports(cls, layer: FilterLayer, inputs: list[Any]) -> str | None:
        if len(inputs) != 1 or not 3 <= len(inputs[0].shape) <= 5:
            return "serves one bottom, of images with one to three axes"
        return library.without_cudnn() or super().supports(layer, inputs)

    def __init__(self, layer: FilterLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs[:1], self.kind_of_geometry)
        self.one = Convolution.of(self.geometry, layer.n_group)
        self.device: Any = backend.backend
        self.apply_relu(layer.neuron)

    def ready(self) -> None:
        view, g, filters = self.backend, self.geometry, self.layer.n_filter
        self.kind = "uint16" if view.compute == "bf16" else "float32"
        self.sums = BiasGradient(view, prod(g.top) // filters, filters)
        self.one = Convolution.of(g, self.layer.n_group)
        trains = self.blobs_diff[0] is not None
        wanted: dict[Way, bool] = {
            self.to_top: True,
            "weight": trains and self.parameters[0].gradient is not None,
            self.to_bottom: trains and self.diffs[0] is not None,
        }
        ways: list[Way] = [way for way, is_wanted in wanted.items() if is_wanted]
        self.computations = self._plan(ways)
        self.cells = prod(self.one.kernel)
        self.as_it_is = self._reads_parameter()
        self.filters = None if self.as_it_is else view.empty((prod(self.one.w),), self.kind)
        known = [one for one in self.computations.values() if one is not None]
        self.most = max([1, *(one.workspace for one in known)])
        view.scratch((self.most,), "uint8")  # now, so that a net that is too large is told before it runs
        self.products = None if len(known) == len(ways) else ByProducts(view, g, self.layer.n_group)

    def _plan(self, ways: list[Way]) -> dict[Way, Any]:
        """Return what computes each of the ways, None for those that cuDNN has no plan for."""
        return {way: self.computation(way) for way in ways}

    def _reads_parameter(self) -> bool:
        """Return whether cuDNN reads the filters where they are: one channel, or cell, lies alike in both orders."""
        return self.kind == "float32" and 1 in (self.cells, self.geometry.weight[1])

    @property
    def _dtype(self) -> str:
        """The type of arrays and products, as convolutions.py names them."""
        return "bf16" if self.backend.compute == "bf16" else "tf32" if self.device.products.tf32 else "float32"

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

    def _enqueue(self, way: Way, ends: dict[str, Own], **arrays: Array) -> None:
        """Enqueue one of the ways, on the ends of the convolution by their names in cuDNN's graph, and more arrays."""
        computation = self.computations[way]
        assert computation is not None
        arrays |= {name: blob.memory for name, blob in ends.items()}
        computation.enqueue(arrays, self.backend.scratch((self.most,), "uint8"))

    # Arrays as cuDNN reads them

    def _room(self, blob: Own, slot: int) -> Own:
        """Return a blob for the numbers of another with its channels last: itself, if they lie so."""
        if is_image(blob.shape) or 1 in (blob.shape[1], prod(blob.shape[2:])):
            return blob
        made = Own(blob.shape, blob.dtype)
        images, channels, *size = blob.shape
        made.layout, made.memory = "channels last", self.backend.scratch((images, *size, channels), self.kind, slot)
        return made

    def _last(self, blob: Own, slot: int) -> Own:
        """Return a blob with its channels last, a copy if it does not lie so."""
        made = self._room(blob, slot)
        if made is not blob:
            transpose(self.backend, blob.memory, made.memory, blob.shape[1], prod(blob.shape[2:]))
        return made

    def _put(self, made: Own, blob: Own) -> None:
        """Write a blob with the channels last into another, unless it is that."""
        if made is not blob:
            transpose(self.backend, made.memory, blob.memory, prod(blob.shape[2:]), blob.shape[1])

    def _lay_filters(self) -> None:
        """Write the filters as cuDNN reads them."""
        if self.filters is not None:
            transpose(self.backend, self.parameters[0].blob, self.filters, self.geometry.weight[1], self.cells)

    def _laid(self) -> Array:
        """Return the filters as cuDNN reads them; `forward` has written them."""
        return self.parameters[0].blob if self.filters is None else self.filters

    def _ends(self, bottom: Own, top: Own) -> dict[str, Own]:
        """Return a bottom and a top, or their gradients, by what they are for the convolution: "x" is what it reads."""
        return {"x": bottom, "y": top}

    def _finish(self, y: Own) -> None:
        """Add the bias to a top whose channels lie last, and apply the ReLU."""
        bias = self.parameters[1].blob if self.layer.bias else None
        if bias is not None or self.relu:
            add_bias(self.backend, y.memory, bias, self.layer.n_filter, relu=self.relu)

    # The pass back

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        dy, dx = self._last(self.blobs_diff[0], 2), diffs[0]
        weight, *biases = (one.gradient for one in self.parameters)
        of_bias = biases[0] if biases else None
        if self.relu:
            dy = self._gated(dy, of_bias)
        elif of_bias is not None:
            self.sums.enqueue(dy.memory, of_bias)
        if weight is not None:
            self._filter_gradient(inputs[0], dy, weight)
        if dx is not None:
            self._back(dy, dx)

    def _gated(self, dy: Own, of_bias: Array | None) -> Own:
        """Return the gradient below the ReLU, and write that of the bias."""
        below = Own(dy.shape, dy.dtype)
        below.layout, below.memory = dy.layout, self._below(dy)
        self.sums.enqueue(dy.memory, of_bias, self._last(self.blobs[0], 3).memory, below.memory)
        return below

    def _below(self, dy: Own) -> Array:
        """Return memory for the gradient below the ReLU."""
        return self.backend.scratch(dy.memory.shape, self.kind)

    def _filter_gradient(self, x: Own, dy: Own, gradient: Array) -> None:
        if self.computations["weight"] is None:
            assert self.products is not None
            self.products.gradient(**self._ends(x, dy), gradient=gradient)
            return
        made = gradient if self.as_it_is else self.backend.scratch((prod(self.one.w),), self.kind, 1)
        self._enqueue("weight", self._ends(self._read(x), dy), w=made)
        if made is not gradient:
            self._put_filters(made, gradient)

    def _read(self, x: Own) -> Own:
        """Return the bottom as cuDNN reads it."""
        return self._last(x, 4)

    def _put_filters(self, made: Array, gradient: Array) -> None:
        """Write the gradient of the filters, which cuDNN has made."""
        transpose(self.backend, made, gradient, self.cells, self.geometry.weight[1])

    def _back(self, dy: Own, dx: Own) -> None:
        if self.computations[self.to_bottom] is None:
            assert self.products is not None
            self.products.run(self.to_bottom, dy, self.parameters[0].blob, dx)
            return
        made = self._room(dx, 4)
        self._enqueue(self.to_bottom, self._ends(made, dy), w=self._laid())
        self._put(made, dx)


class ByProducts:
    """A convolution by products of matrices, over copies of its blobs in C order and in float32."""

    def __init__(self, view: Any, geometry: Geometry, groups: int) -> None:
        self.view, self.slider = view, Slider(view, geometry, groups)
        counts, lengths = ([getattr(axis, name) for axis in geometry.axes] for name in ("count", "length"))
        self.x = view.empty((geometry.images, geometry.channels, *lengths))
        self.y = view.empty((geometry.images, geometry.filters, *counts))

    def run(
        self, way: Way, given: Own, weight: Array, made: Own, bias: Array | None = None, *, relu: bool = False
    ) -> None:
        """Write the convolution of a blob, or with way "data" its transpose, with what comes behind."""
        xp = self.view.xp
        read, wrote = (self.x, self.y) if way == "forward" else (self.y, self.x)
        self.view.backend.unpack(given, read)
        self.slider.pack(weight)
        (self.slider.convolve if way == "forward" else self.slider.transpose)(read, wrote)
        if bias is not None:
            xp.add(wrote, bias.reshape(-1, *[1] * (wrote.ndim - 2)), out=wrote)
        if relu:
            xp.maximum(wrote, 0, out=wrote)
        self.view.backend.pack(wrote, made)

    def gradient(self, x: Own, y: Own, gradient: Array) -> None:
        """Write the gradient of the filters."""
        self.view.backend.unpack(x, self.x)
        self.view.backend.unpack(y, self.y)
        gradient[...] = 0
        self.slider.add_gradient(self.x, self.y, gradient)
