"""Convolutions of float32 as products of matrices, whose rows are windows of images: see columns.c and product.c."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from nacre_layers.convolution.geometry import Geometry

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import library
from ..dnnl.primitives import (
    CHANNELS_LAST,
    Buffer,
    Call,
    Desc,
    HelperCall,
    Primitive,
    attributes,
    call,
    describe,
    free,
    into,
    out_of,
    plain,
    reorder,
    strided,
)
from ..helper.direct import DirectConvolution
from ..helper.native import LANES, helper, lanes
from ..helper.product import PanelProduct
from .base import rectify

MOST_ROWS = 256
"""Windows of all images together, at most: where there are more, oneDNN's convolutions are as fast as its products."""


MOST_BYTES = 1 << 23
"""The most bytes of the matrix of windows."""


class ColumnsConvolution(DirectConvolution):
    """The passes of a convolution between its images, with few windows, so that reading the filters takes most time.

    The products are oneDNN's. From top to bottom also those into few channels, such as the last deconvolution before a
    picture: oneDNN fills registers with channels.
    """

    RECTIFIES: ClassVar[bool] = False
    """Whether the product applies ReLU."""

    def __init__(self, geometry: Geometry, *, relu: bool, keeps: bool) -> None:
        super().__init__(geometry, relu=relu, keeps=keeps)
        self.windows = geometry.images * prod(axis.count for axis in geometry.axes)
        self.cells = prod(axis.kernel for axis in geometry.axes)
        self.of_pixels = all(
            (one.kernel, one.stride, one.pad, one.count) == (1, 1, 0, one.length) for one in geometry.axes
        )
        """Whether the images are the matrix: each pixel is a window."""

    def has(self, stage: str) -> bool:
        if helper() is None or self.groups > 1 or not self.flat or stage == "weights":
            return False
        few = self.windows <= MOST_ROWS or (stage == "data" and self.sizes.channels < LANES)
        return few and 4 * self.windows * self.cells * self.sizes.channels <= MOST_BYTES

    def forward(self, x: Buffer, y: Buffer, bias: str) -> list[Call]:
        s, inside = self.sizes, self.cells * self.sizes.channels
        outer = describe(x[1].shape, CHANNELS_LAST)
        before, (source, _) = into(*x, outer, "last x")
        matrix = plain(self.windows, inside)
        if not self.of_pixels:
            buffers = {"x": (source, outer.bytes), "matrix": ("windows", matrix.bytes)}
            before, source = [*before, HelperCall(buffers, "columns", s.of_windows)], "windows"
        turned = strided((inside, s.filters), (1, inside))
        (result, _), after = out_of(*y, describe(y[1].shape, CHANNELS_LAST))
        product = self._product((source, matrix), turned, (result, plain(self.windows, s.filters)), bias)
        return [*before, *product, *after, *(rectify(y[1]) if self.relu and not self.RECTIFIES else [])]

    def data(self, dx: Buffer, dy: Buffer, bias: str = "") -> list[Call]:
        s, inside = self.sizes, self.cells * self.sizes.channels
        before, (source, _) = into(*dy, describe(dy[1].shape, CHANNELS_LAST), "last dy")
        matrix = plain(self.windows, inside)
        top = plain(self.windows, s.filters)
        (result, bottom), after = out_of(*dx, describe(dx[1].shape, CHANNELS_LAST))
        buffers = {
            "matrix": ("windows", matrix.bytes),
            "bias": (bias, 4 * s.channels),
            "y": (result, bottom.bytes),
        }
        product = self._product((source, top), plain(s.filters, inside), ("windows", matrix), "")
        return [*before, *product, HelperCall(buffers, "columns_sum", s.of_windows), *after]

    def _product(self, source: Buffer, turned: Desc, result: Buffer, bias: str) -> list[Call]:
        """Return the calls of a product with the filters, read as a matrix that lies as `turned`, and a bias behind."""
        rows, columns = source[1], result[1]
        inner, outer = turned.shape
        row = plain(1, outer) if bias else None
        primitive = Primitive("matmul", library().engine, rows, free(inner, outer), row, columns, attributes())
        calls, weight = self._filters(turned, primitive.memory(dnnl.WEIGHTS))
        buffers = {arg.SRC: source, arg.WEIGHT: weight, arg.DST: result}
        if row is not None:
            buffers[arg.BIAS] = (bias, row)
        return [*calls, call(primitive, buffers)]

    def _filters(self, turned: Desc, inner: Desc) -> tuple[list[Call], Buffer]:
        """Return the calls that lay the filters (filters, cells, channels) and pack them, and the buffer to read."""
        s = self.sizes
        plain_one = strided((s.filters, self.cells, s.channels), (self.cells * s.channels, 1, self.cells))
        laid = plain(s.filters, self.cells, s.channels)
        kept, name = "Windows' " if self.keeps else "windows' ", self.names[0]
        calls: list[Call] = []
        if self.cells > 1:
            target = f"{kept}laid weight" if inner == turned else "laid weight"
            calls, name = reorder(name, plain_one, target, laid), target
        if inner != turned:
            calls, name = [*calls, *reorder(name, turned, f"{kept}weight", inner)], f"{kept}weight"
        for one in calls:
            one.once = self.keeps
        return calls, (name, inner)


class PanelsConvolution(ColumnsConvolution):
    """The forward pass with products of nacre's own, which apply ReLU; of any number of windows if they are pixels."""

    RECTIFIES = True

    def has(self, stage: str) -> bool:
        many = self.of_pixels and self.flat and self.groups == 1
        return lanes() > 0 and stage == "forward" and (many or super().has(stage))

    def _product(self, source: Buffer, turned: Desc, result: Buffer, bias: str) -> list[Call]:
        inner, outer = turned.shape
        calls, (weight, _) = self._filters(turned, turned)
        product = PanelProduct(self.windows, inner, outer, keeps=self.keeps)
        return [*calls, *product.forward(source[0], weight, bias, result[0], relu=self.relu)]
