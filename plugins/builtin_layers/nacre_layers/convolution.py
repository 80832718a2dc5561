"""Convolution and deconvolution: filters that slide over images of one to three axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

from nacre import (
    Array,
    ConfigError,
    Identity,
    LayerState,
    Names,
    Neuron,
    Parameter,
    Sizes,
    as_many_as,
    at_least,
    default,
    non_negative,
    positive,
    spread,
)

from .fields import Weighted
from .sliding import Sliding


class FilterLayer(Weighted, has_param=True, has_neuron=True, can_do_bp=True):
    """The fields of layers whose filters slide over images."""

    bottoms: Annotated[Names, at_least(1), "what is filtered"]
    tops: Annotated[Names, as_many_as("bottoms"), "the filtered blobs"]
    n_filter: Annotated[int, positive, "channels of a top"]
    kernel: Annotated[Sizes, positive, "size of a filter, in pixels"] = default((1,))
    stride: Annotated[Sizes, positive, "step of the filters, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of zeros on each side, in pixels"] = default((0,))
    dilation: Annotated[Sizes, positive, "step between the cells of a filter, in pixels"] = default((1,))
    n_group: Annotated[int, positive, "parts that do not see each other"] = 1
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()


class ConvolutionLayer(FilterLayer, has_param=True, has_neuron=True, can_do_bp=True):
    """y[n, f] = b[f] + Σ_c W[f, c] ⋆ x[n, c], a cross-correlation; one top for each bottom, all with the same filters.

    Bottoms are (images, channels, rows, columns), or with one or three axes behind the channels; all of one shape.
    `kernel`, `stride`, `pad` and `dilation` are one number for all directions, or one for each, in pixels; padding is
    zero. A filter reaches over (kernel - 1) dilation + 1 pixels, and along an axis tops have
    floor((length + 2 pad - reach) / stride) + 1. `weight` is (n_filter, channels / n_group, *kernel), `bias`
    (n_filter). With `n_group` g, filters and channels are cut into g parts that do not see each other. After Mocha.jl's
    `ConvolutionLayer` and Caffe's `Convolution`.

    Example:
        [[layer]]
        type = "Convolution"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["conv1"]  # (8, 20, 28, 28)
        n_filter = 20
        kernel = 5
        neuron = "ReLU"
    """

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ConvolutionState:
        return ConvolutionState(self, backend, inputs, diffs)


class DeconvolutionLayer(FilterLayer, has_param=True, has_neuron=True, can_do_bp=True):
    """The transpose of a convolution: every number of a bottom adds its filter to the top, and tops grow by `stride`.

    y[n, f, i stride + k dilation - pad] = b[f] + Σ_c W[c, f, k] x[n, c, i], summed over all i and k that lead there.

    Bottoms are (images, channels, rows, columns), or with one or three axes behind the channels; all of one shape.
    Tops have (length - 1) stride + reach - 2 pad + extra along an axis, where a filter reaches over (kernel - 1)
    dilation + 1 pixels; `pad` is cut off on each side, `extra` added behind, since a convolution with that stride leads
    to one length from several. `weight` is (channels, n_filter / n_group, *kernel), `bias` (n_filter).
    Pictures grow F times, smoothly, with `kernel` 2F - F % 2, `stride` F, `pad` ceil((F - 1) / 2), `n_filter` and
    `n_group` the channels, `weight_init` Bilinear and `weight_lr` 0. After Caffe's `Deconvolution` and PyTorch's
    `ConvTranspose2d`, whose `output_padding` is `extra`.

    Example:
        [[layer]]
        type = "Deconvolution"
        bottoms = ["score"]  # (8, 21, 16, 16)
        tops = ["upsampled"]  # (8, 21, 32, 32)
        n_filter = 21
        kernel = 4
        stride = 2
        pad = 1
    """

    extra: Annotated[Sizes, non_negative, "pixels added behind the last ones, fewer than stride"] = default((0,))

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> DeconvolutionState:
        return DeconvolutionState(self, backend, inputs, diffs)


class Geometry(Sliding):
    """The sizes of a convolution on a bottom of one shape, checked.

    `filters` are slid over an `image` of `channels` and give an `out` of as many channels; all of a deconvolution are
    those of the convolution that leads back, from its top to its bottom.
    """

    def __init__(self, layer: FilterLayer, shape: Sequence[int]) -> None:
        self._check(layer, shape)
        self.images, self.channels, *self.image = shape
        self.filters = layer.n_filter
        self.out = self.count(layer, self.image)
        self.weight = (layer.n_filter, self.channels // layer.n_group, *self.kernel)
        self.top = (self.images, layer.n_filter, *self.out)

    def _check(self, layer: FilterLayer, shape: Sequence[int]) -> None:
        directions = len(shape) - 2
        if not 1 <= directions <= 3:
            raise ConfigError(
                f"{layer.name}: a bottom of shape {tuple(shape)} has not one to three axes behind the channels"
            )
        Sliding.__init__(self, layer, directions)
        for name, count in (("channels of the bottom", shape[1]), ("n_filter", layer.n_filter)):
            if count % layer.n_group:
                raise ConfigError(f"{layer.name}: n_group={layer.n_group} does not divide the {name}, {count}")


class Transposed(Geometry):
    """The sizes of a deconvolution."""

    def __init__(self, layer: DeconvolutionLayer, shape: Sequence[int]) -> None:
        self._check(layer, shape)
        self.images, self.filters, *out = shape
        self.channels, self.out = layer.n_filter, tuple(out)
        extra = spread(layer.extra, len(out), f"{layer.name}: extra")
        if any(more >= stride for more, stride in zip(extra, self.stride, strict=True)):
            raise ConfigError(f"{layer.name}: extra={extra} must be below stride={self.stride}")
        sizes = zip(out, self.extent, self.stride, self.pad, extra, strict=True)
        self.image = [(length - 1) * stride + extent - 2 * pad + more for length, extent, stride, pad, more in sizes]
        if min(self.image) < 1:
            raise ConfigError(
                f"{layer.name}: pad={self.pad} leaves nothing of a top of a bottom of shape {tuple(shape)}"
            )
        self.weight = (self.filters, layer.n_filter // layer.n_group, *self.kernel)
        self.top = (self.images, layer.n_filter, *self.image)


def declare(state: Any, layer: Any, backend: Any, inputs: list[Any], kind: type[Any] = Geometry) -> Geometry:
    """Declare the blobs and parameters of a convolution in its state or kernel; give its sizes."""
    for name, one in zip(layer.bottoms, inputs, strict=True):
        if one.shape != inputs[0].shape:
            raise ConfigError(
                f"{layer.name}: bottom '{name}' of shape {one.shape} differs from "
                f"'{layer.bottoms[0]}' of shape {inputs[0].shape}"
            )
    geometry = kind(layer, inputs[0].shape)
    state.parameters = [Parameter.of(layer, "weight", geometry.weight)]
    if layer.bias:
        state.parameters.append(Parameter.of(layer, "bias", (layer.n_filter,)))
    state.blobs = [backend.blob(geometry.top) for _ in inputs]
    return geometry


class Slider:
    """A convolution of one shape and what follows from it, by one product of matrices for each cell of the filter.

    `image` is (images, channels, ...), `out` (images, filters, ...).
    """

    def __init__(self, backend: Any, g: Geometry, groups: int) -> None:
        self.xp = backend.xp
        padded = (g.images, g.channels, *g.padded(g.image))
        self.padded, self.padded_diff = backend.empty(padded), backend.empty(padded)
        self.inside, self.cells = g.inside(g.image), g.cells(g.out)
        matrix, count = (groups, g.filters // groups, g.channels // groups), prod(g.out)
        self.grouped_out = (g.images, *matrix[:2], count)
        self.cell = backend.empty((g.images, g.channels, *g.out))
        self.part = self.cell.reshape(g.images, groups, matrix[2], count)
        self.product = backend.empty(self.grouped_out)
        self.by_image, self.summed = backend.empty((g.images, *matrix)), backend.empty(matrix)
        self.split_weight = (*matrix, len(self.cells))
        self.packed = backend.empty((len(self.cells), *matrix))

    def pack(self, weight: Array) -> None:
        """Copy the weights so that those of a cell lie together."""
        self.xp.copyto(self.packed, self.xp.moveaxis(weight.reshape(self.split_weight), 3, 0))

    def convolve(self, image: Array, out: Array) -> None:
        """Write `out`, the convolution of the image."""
        xp, total = self.xp, out.reshape(self.grouped_out)
        xp.copyto(self.padded[self.inside], image)
        total[...] = 0
        for weight, cell in zip(self.packed, self.cells, strict=True):
            xp.copyto(self.cell, self.padded[cell])
            xp.matmul(weight, self.part, out=self.product)
            xp.add(total, self.product, out=total)

    def transpose(self, out: Array, image: Array) -> None:
        """Write `image`, the transposed convolution of `out`."""
        xp, grouped = self.xp, out.reshape(self.grouped_out)
        self.padded_diff[...] = 0
        for weight, cell in zip(self.packed, self.cells, strict=True):
            xp.matmul(xp.swapaxes(weight, 1, 2), grouped, out=self.part)
            xp.add(self.padded_diff[cell], self.cell, out=self.padded_diff[cell])
        xp.copyto(image, self.padded_diff[self.inside])

    def add_gradient(self, image: Array, out: Array, gradient: Array) -> None:
        """Add the gradient of the weights, where one of `image` and `out` is a bottom, the other a top's gradient."""
        xp, grouped, total = self.xp, out.reshape(self.grouped_out), gradient.reshape(self.split_weight)
        xp.copyto(self.padded[self.inside], image)
        for number, cell in enumerate(self.cells):
            xp.copyto(self.cell, self.padded[cell])
            xp.matmul(grouped, xp.swapaxes(self.part, 2, 3), out=self.by_image)
            xp.sum(self.by_image, axis=0, out=self.summed)
            xp.add(total[..., number], self.summed, out=total[..., number])


class FilterState(LayerState, reads="inputs"):
    """What the states of both layers have in common."""

    geometry: Geometry

    def ready(self) -> None:
        self.slider = Slider(self.backend, self.geometry, self.layer.n_group)
        self.bias_sum = self.backend.empty((self.layer.n_filter,))

    def forward(self, inputs: list[Array]) -> None:
        self.slider.pack(self.parameters[0].blob)
        for x, y in zip(inputs, self.blobs, strict=True):
            self.apply(x, y)
            if self.layer.bias:
                self.backend.xp.add(y, self.parameters[1].blob.reshape(-1, *[1] * (y.ndim - 2)), out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, gradients = self.backend.xp, [one.gradient for one in self.parameters]
        for gradient in gradients:
            if gradient is not None:
                gradient[...] = 0
        self.slider.pack(self.parameters[0].blob)
        for x, dy, dx in zip(inputs, self.blobs_diff, diffs, strict=True):
            if gradients[0] is not None:
                self.add_gradient(x, dy, gradients[0])
            if self.layer.bias and gradients[1] is not None:
                xp.sum(dy, axis=(0, *range(2, dy.ndim)), out=self.bias_sum)
                xp.add(gradients[1], self.bias_sum, out=gradients[1])
            if dx is not None:
                self.apply_back(dy, dx)

    def apply(self, x: Array, y: Array) -> None:
        """Write y, less the bias."""
        raise NotImplementedError

    def apply_back(self, dy: Array, dx: Array) -> None:
        """Write the gradient of x."""
        raise NotImplementedError

    def add_gradient(self, x: Array, dy: Array, gradient: Array) -> None:
        """Add the gradient of the weights."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """Nothing is held."""


class ConvolutionState(FilterState, reads="inputs"):
    """`ConvolutionLayer` on any backend."""

    def __init__(self, layer: ConvolutionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs)

    def apply(self, x: Array, y: Array) -> None:
        self.slider.convolve(x, y)

    def apply_back(self, dy: Array, dx: Array) -> None:
        self.slider.transpose(dy, dx)

    def add_gradient(self, x: Array, dy: Array, gradient: Array) -> None:
        self.slider.add_gradient(x, dy, gradient)


class DeconvolutionState(FilterState, reads="inputs"):
    """`DeconvolutionLayer` on any backend: forward is a convolution's way back, and backward its way forward."""

    def __init__(self, layer: DeconvolutionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs, Transposed)

    def apply(self, x: Array, y: Array) -> None:
        self.slider.transpose(x, y)

    def apply_back(self, dy: Array, dx: Array) -> None:
        self.slider.convolve(dy, dx)

    def add_gradient(self, x: Array, dy: Array, gradient: Array) -> None:
        self.slider.add_gradient(dy, x, gradient)
