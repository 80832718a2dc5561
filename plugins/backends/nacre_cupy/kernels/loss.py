"""SoftmaxLoss: see loss.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import Array, DataError, Own
from nacre_layers.losses.classes import REMEDY, no_whole_number
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer, SoftmaxLossState

from .launch import LANES, NUMBERS, TYPES, CudaKernel, function, is_image, scalars, unknown_numbers

MOST_THREADS = 1024
"""Threads of the one block that adds up the losses of all labels."""
DIVISORS = ("valid", "full", "batch", "none")


class SoftmaxLossKernel(CudaKernel, reads="inputs"):
    """Loss and gradient over scores of any number of axes, with all that the layer has.

    In a net that computes in bf16 scores and their gradient are of bf16, unless there are other bottoms of a floating
    type: these would be rounded, too. All else is in float32.
    """

    same_dtype = False

    @classmethod
    def supports(cls, layer: SoftmaxLossLayer, inputs: list[Any]) -> str | None:
        if reason := super().supports(layer, inputs[:1]):
            return reason
        count = len(inputs[0].shape)
        if is_image(inputs[0].shape) and layer.axis not in (1, 1 - count):  # which may lie last in memory
            return "serves classes along the channels of images"
        if any(is_image(one.shape) and one.shape[1] > 1 and "float" in one.dtype for one in inputs[1:]):
            return "serves labels in C order: these may lie with their channels last"
        return unknown_numbers("labels", inputs[1:])

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.in_bf16 = not any("float" in one.dtype for one in inputs[1:])
        own = SoftmaxLossState(layer, backend, inputs, diffs)
        self.own_shape, self.images, self.weights = own.shape, own.classes.images, own.weights
        self.labels, self.divided_by = own.shape[0] * own.shape[2], own.divided_by
        self.wide = "float64" if inputs[0].dtype == "float64" else "float32"
        each = 8 + 4 * np.dtype(self.wide).itemsize + 4  # of a label, as `Known` in loss.cu
        self.intermediates = [backend.blob((-(-self.labels * each // 8),), "float64")]
        self.loss: Any = 0.0

    def ready(self) -> None:
        constant, empty = self.backend.constant, self.backend.empty
        self.shape, weights = self.own_shape, self.weights
        if self.inputs[0].layout != "plain":  # the labels of images have the same order as their pixels
            self.shape = (self.labels, self.shape[1], 1)
            weights = None if weights is None else np.moveaxis(weights, 1, -1)
        self.weight_of = None if weights is None else constant(np.ascontiguousarray(weights), self.wide)
        self.known = scalars(self.backend)
        self.result, self.right = empty((3,), "float64"), empty((1,), "bool")

    def forward(self, inputs: list[Own]) -> None:
        x, labels, *weights = inputs
        kind, kept = TYPES[x.dtype], self.intermediates[0]
        alone = self.shape[2] > 1  # neighbours are other labels' scores
        team, ignored = 1 if alone else 32, self.layer.ignore_label
        of_records = (weights[0].memory, NUMBERS.index(weights[0].dtype)) if weights else (None, 0)
        given = (x.memory, labels.memory, NUMBERS.index(labels.dtype), self.weight_of, *of_records, kept)
        ignores = (int(ignored is not None), float(ignored or 0), float(self.layer.label_smoothing))
        rows = f"softmax_loss_rows<{kind}, {'true' if alone else 'false'}>"
        self.launch("loss", rows, self.labels * team, *given, *self.shape, self.images, *ignores)
        numbers = (*self._rows(), float(self.layer.weight), DIVISORS.index(self.layer.normalize))
        total = f"softmax_loss_total<{'double' if self.wide == 'float64' else 'float'}>"
        arguments = (kept, self.labels, self.images, *numbers, self.result, self.right)
        function(self.backend, "loss", total)((1,), (MOST_THREADS,), arguments)
        self.loss, self.n_counted = self.result[0], self.result[2]
        self.backend.require(self.layer.name, self.right, lambda: self._wrong(labels.memory))

    def _rows(self) -> tuple[Array, int]:
        """Return the scalars, and which of them is the number of rows that count."""
        return self.known, self.backend.scalars.place("rows")

    def _wrong(self, labels: Array) -> DataError:
        """Return the error of the first label that is none."""
        ignored = self.layer.ignore_label
        free = None if ignored is None else labels.reshape(-1) == ignored
        return no_whole_number(self.layer, self.backend, labels, self.own_shape[1], free=free, remedy=REMEDY)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        x, (dx, *others) = inputs[0], diffs
        if dx is not None:
            kind, lanes = TYPES[x.dtype], LANES[TYPES[x.dtype]]
            items = x.size // lanes if self.shape[2] == 1 and self.shape[1] % lanes == 0 else x.size
            ends = (x.memory, self.intermediates[0], dx.memory)
            smoothing = float(self.layer.label_smoothing)
            given = (*self.shape, self.images, *self._rows(), self.result, self.weight_of, smoothing)
            self.launch("loss", f"softmax_loss_gradient<{kind}>", items, *ends, *given)
        for other in others:
            if other is not None:
                other.memory[...] = 0
