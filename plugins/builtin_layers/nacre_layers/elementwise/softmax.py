"""Softmax: exponentials that add up to 1."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Layer, LayerState, Names, as_many_as, at_least

from ..axes import Joins, axis_or_batch, check_whole, joined_batch, split_shape


class SoftmaxLayer(Layer, can_do_bp=True):
    """y = exp(x) / Σ exp(x) over one axis; one top for each bottom, of its shape.

    Axis 0 compares the images of a batch: then all its rows must be real, or it raises DataError. After Mocha.jl's
    `SoftmaxLayer` and Caffe's `Softmax`.

    Example:
        [[layer]]
        type = "Softmax"
        bottoms = ["score"]  # (8, 10)
        tops = ["prob"]  # (8, 10)
    """

    bottoms: Annotated[Names, at_least(1), "the scores"]
    tops: Annotated[Names, as_many_as("bottoms"), "the probabilities"]
    axis: Annotated[int, "axis over which the probabilities add up to 1"] = 1

    def not_by_records(self) -> str:
        return "" if self.axis else "axis=0 joins the records of a batch"


class SoftmaxState(Joins, LayerState, of=SoftmaxLayer, reads="blobs"):
    """`SoftmaxLayer` on any backend."""

    def __init__(self, layer: SoftmaxLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shapes = [split_shape(one.shape, axis_or_batch(layer, one.shape)) for one in inputs]
        self.batch = joined_batch(layer, inputs)
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def forward(self, inputs: list[Array]) -> None:
        if self.batch:
            check_whole(self.layer, self.backend, self.batch)
        for x, y, shape in zip(inputs, self.blobs, self.shapes, strict=True):
            softmax(self.backend, x.reshape(shape), y.reshape(shape))

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for y, dy, dx, shape in zip(self.blobs, self.blobs_diff, diffs, self.shapes, strict=True):
            if dx is None:
                continue
            y, dy, dx = y.reshape(shape), dy.reshape(shape), dx.reshape(shape)
            total = self.backend.scratch((shape[0], 1, shape[2]))
            product = self.backend.scratch(shape, slot=1)
            xp.multiply(dy, y, out=product)
            xp.sum(product, axis=1, keepdims=True, out=total)
            xp.subtract(dy, total, out=product)
            xp.multiply(product, y, out=dx)


def softmax(backend: Any, x: Array, y: Array) -> None:
    """Write the softmax over axis 1 of x, (before, classes, after), into y."""
    xp = backend.xp
    total = backend.scratch((x.shape[0], 1, x.shape[2]), str(y.dtype))
    xp.max(x, axis=1, keepdims=True, out=total)
    xp.subtract(x, total, out=y)
    xp.exp(y, out=y)
    xp.sum(y, axis=1, keepdims=True, out=total)
    xp.divide(y, total, out=y)


def log_softmax(backend: Any, x: Array, y: Array) -> None:
    """Write the logarithm of the softmax over axis 1 of x, (before, classes, after), into y."""
    total, part = backend.scratch((x.shape[0], 1, x.shape[2]), str(y.dtype)), backend.scratch(x.shape, str(y.dtype), 1)
    log_softmax_with(backend.xp, x, y, total, part)


def log_softmax_with(xp: Any, x: Array, y: Array, total: Array, part: Array) -> None:
    """Write the logarithm of the softmax over axis 1 into y, which may be x.

    `total` is scratch memory with 1 for this axis, `part` of the shape of x.
    """
    xp.max(x, axis=1, keepdims=True, out=total)
    xp.subtract(x, total, out=y)
    xp.exp(y, out=part)
    xp.sum(part, axis=1, keepdims=True, out=total)
    xp.log(total, out=total)
    xp.subtract(y, total, out=y)
