"""Convolution: filters that slide over images of one to three axes."""

from __future__ import annotations

from typing import Any

from nacre import Array

from .filters import FilterLayer, FilterState, declare


class ConvolutionLayer(FilterLayer, has_param=True, has_neuron=True, can_do_bp=True):
    """y[n, f] = b[f] + Σ_c W[f, c] ⋆ x[n, c], a cross-correlation; one top for each bottom, all with the same filters.

    Bottoms are (images, channels, rows, columns), or with one or three axes after the channels; all of one shape.
    `kernel`, `stride`, `pad` and `dilation` are one number for all directions, or one for each, in pixels; padding is
    zero. A filter covers (kernel - 1) dilation + 1 pixels, and along an axis tops have floor((length + 2 pad - reach) /
    stride) + 1. `weight` is (n_filter, channels / n_group, *kernel), `bias` (n_filter). With `n_group` g, filters and
    channels form g independent groups. After Mocha.jl's `ConvolutionLayer` and Caffe's `Convolution`.

    Example:
        [[layer]]
        type = "Convolution"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["conv1"]  # (8, 20, 28, 28)
        n_filter = 20
        kernel = 5
        neuron = "ReLU"
    """


class ConvolutionState(FilterState, of=ConvolutionLayer, reads="inputs", capturable=True):
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
