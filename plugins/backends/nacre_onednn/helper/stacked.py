"""Convolutions of float32 with three axes by Winograd's filtering over two: planes that a filter sees are channels."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from nacre_layers.convolution.geometry import Geometry

from ..dnnl.primitives import (
    BLOCKED,
    Buffer,
    Call,
    Desc,
    HelperCall,
    block,
    describe,
    into,
    out_of,
    plain,
    reorder,
    strided,
)
from .winograd import WinogradConvolution


class StackedConvolution:
    """The stages of a convolution with three axes, over buffers in blocks of channels; others are copied.

    A filter of (depth, rows, columns) over C channels is one of (rows, columns) over depth x C channels, of images in
    which planes that follow each other lie as channels.
    """

    def __init__(self, geometry: Geometry, *, relu: bool, keeps: bool) -> None:
        g = geometry
        self.deep, *flat = g.axes
        steps = self.deep.stride == self.deep.dilation == 1
        blocks = g.channels % block() == 0 == g.filters % block()
        self.usual = len(g.axes) == 3 and steps and blocks and g.channels == g.weight[1]
        if not self.usual:
            return
        self.g, self.keeps = g, keeps
        self.channels = self.deep.kernel * g.channels
        inner: Any = SimpleNamespace(
            images=g.images * self.deep.count,
            channels=self.channels,
            filters=g.filters,
            axes=flat,
            weight=(g.filters, self.channels, *g.weight[3:]),
        )
        self.inner = WinogradConvolution(inner, relu=relu, keeps=keeps)
        self.inner.names = ("Stacked weight" if keeps else "stacked weight", "stacked dweight")
        images = inner.images
        self.x2 = describe((images, self.channels, *(axis.length for axis in flat)), BLOCKED)
        self.y2 = describe((images, g.filters, *(axis.count for axis in flat)), BLOCKED)

    def has(self, stage: str) -> bool:
        """Return whether it computes "forward", "weights" or "data"."""
        return self.usual and self.inner.has(stage)

    def forward(self, x: Buffer, y: Buffer, bias: str) -> list[Call]:
        """Return the calls of y = x * weight + bias; `bias` is "" where there is none."""
        result, after = out_of(*y, describe(y[1].shape, BLOCKED))
        convolved = self.inner.forward(("stacked x", self.x2), ("stacked y", self.y2), bias)
        last = self._planes("planes_gradient", result, ("stacked y", self.y2))
        return [*self._stack(x, ("stacked x", self.x2)), *self._weight(), *convolved, last, *after]

    def data(self, dx: Buffer, dy: Buffer) -> list[Call]:
        """Return the calls of dx from dy."""
        result, after = out_of(*dx, describe(dx[1].shape, BLOCKED))
        convolved = self.inner.data(("stacked dx", self.x2), ("stacked dy", self.y2))
        last = self._planes("planes_gradient", result, ("stacked dx", self.x2))
        return [*self._stack(dy, ("stacked dy", self.y2)), *self._weight(), *convolved, last, *after]

    def weights(self, bottom: Buffer, top: Buffer, bias: str) -> list[Call]:
        """Return the calls of the gradients of weight and bias from x and dy."""
        given = [*self._stack(bottom, ("stacked x", self.x2)), *self._stack(top, ("stacked dy", self.y2))]
        summed = self.inner.weights(("stacked x", self.x2), ("stacked dy", self.y2), bias)
        shape = self._shape
        return [*given, *summed, *reorder(self.inner.names[1], self._turned, "dweight", plain(*shape))]

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape of the weights, with rows and columns as one axis."""
        g = self.g
        return (g.filters, g.channels, g.weight[2], g.weight[3] * g.weight[4])

    @property
    def _turned(self) -> Desc:
        """How the weights lie where the depth of a filter stands before its channels."""
        _, channels, depth, cells = self._shape
        return strided(self._shape, (depth * channels * cells, cells, channels * cells, 1))

    def _weight(self) -> list[Call]:
        calls = reorder("weight", plain(*self._shape), self.inner.names[0], self._turned)
        return [replace(one, once=self.keeps) for one in calls]

    def _stack(self, images: Buffer, stacked: Buffer) -> list[Call]:
        """Return the calls that copy the planes of x or dy to where they are channels."""
        before, source = into(*images, describe(images[1].shape, BLOCKED))
        return [*before, self._planes("planes", source, stacked)]

    def _planes(self, kind: str, images: Buffer, stacked: Buffer) -> Call:
        """Return a copy or sum of planes; those of a bottom are stacked as filters see them, those of a top are not."""
        (name, desc), (other, flat) = images, stacked
        count, channels, depth, rows, columns = desc.shape
        seen = {"out": self.deep.count, "kernel": self.deep.kernel, "before": self.deep.pad}
        numbers = {
            "images": count,
            "blocks": channels // block(),
            "deep": depth,
            "plane": block() * rows * columns,
            **(seen if flat is self.x2 else {"out": depth, "kernel": 1, "before": 0}),
        }
        return HelperCall({"x": (name, desc.bytes), "y": (other, flat.bytes)}, kind, numbers)
