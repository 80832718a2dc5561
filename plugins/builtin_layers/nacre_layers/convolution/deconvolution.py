"""Deconvolution: the transpose of a convolution, which makes images larger."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, Sizes, default, non_negative

from .filters import FilterLayer, FilterState, declare
from .geometry import Transposed


class DeconvolutionLayer(FilterLayer, has_param=True, has_neuron=True, can_do_bp=True):
    """The transpose of a convolution: every number of a bottom adds its filter to the top, and tops grow by `stride`.

    y[n, f, i stride + k dilation - pad] = b[f] + Σ_c W[c, f, k] x[n, c, i], summed over all i and k that lead there.

    Bottoms are (images, channels, rows, columns), or with one or three axes after the channels; all of one shape. Tops
    have (length - 1) stride + reach - 2 pad + extra along an axis, where a filter reaches over (kernel - 1) dilation +
    1 pixels; `pad` is cut off on each side, `extra` added behind, since a convolution with that stride leads to one
    length from several. `weight` is (channels, n_filter / n_group, *kernel), `bias` (n_filter). Pictures grow F times,
    smoothly, with `kernel` 2F - F % 2, `stride` F, `pad` ceil((F - 1) / 2), `n_filter` and `n_group` the channels,
    `weight_init` Bilinear and `weight_lr` 0. After Caffe's `Deconvolution` and PyTorch's `ConvTranspose2d`, whose
    `output_padding` is `extra`.

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

    extra: Annotated[Sizes, non_negative, "pixels added at the end of each axis, fewer than stride"] = default((0,))

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        return sum(map(prod, bottoms)) * prod(parameters["weight"][1:])


class DeconvolutionState(FilterState, of=DeconvolutionLayer, reads="inputs", capturable=True):
    """`DeconvolutionLayer` on any backend: its forward is the backward of a convolution, and the other way round."""

    def __init__(self, layer: DeconvolutionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs, Transposed)

    def apply(self, x: Array, y: Array) -> None:
        self.slider.transpose(x, y)

    def apply_back(self, dy: Array, dx: Array) -> None:
        self.slider.convolve(dy, dx)

    def add_gradient(self, x: Array, dy: Array, gradient: Array) -> None:
        self.slider.add_gradient(dy, x, gradient)
