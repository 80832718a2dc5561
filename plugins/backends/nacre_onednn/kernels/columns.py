"""Convolutions as products of matrices, whose rows are windows of images: see columns.c and product.c."""

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
from ..helper.native import LANES, has_amx, helper, lanes
from ..helper.product import PanelProduct
from .base import rectify
from .products import sum_up

MOST_ROWS = 256
"""Windows of all images together, at most: where there are more, oneDNN's convolutions are as fast as its products."""

MOST_SUMMED = 2048
"""The same for the gradient of the filters, which is a sum over windows."""


MOST_BYTES = 1 << 23
"""The most bytes of the matrix of windows."""

MOST_BYTES_WITH_AMX = 1 << 25
"""The same where AMX multiplies, for any number of windows: oneDNN 3.2's convolutions take longer than its products."""


MOST_IMAGES = 16
"""Images in predictions up to which AMX does not multiply float32: nets take up to 1.5 times as long as trials tell."""


class ColumnsConvolution(DirectConvolution):
    """The stages of a convolution with few windows, so that reading or writing the filters takes most time.

    The products are oneDNN's, and add up in float32. From top to bottom also those into few channels, such as the last
    deconvolution before a picture: oneDNN fills registers with channels.

    Args:
        dtype: that of images and of what is multiplied.
    """

    def __init__(self, geometry: Geometry, *, keeps: bool, dtype: str = "float32") -> None:
        super().__init__(geometry, keeps=keeps)
        self.dtype = dtype
        self.windows = geometry.images * prod(axis.count for axis in geometry.axes)
        self.cells = prod(axis.kernel for axis in geometry.axes)
        self.of_pixels = all(
            (one.kernel, one.stride, one.pad, one.count) == (1, 1, 0, one.length) for one in geometry.axes
        )
        """Whether the images are the matrix: each pixel is a window."""

    def has(self, stage: str) -> bool:
        if helper() is None or self.groups > 1 or not self.flat:
            return False
        numbers = self.windows * self.cells * self.sizes.channels
        if self.by_amx:
            size = 2 if self.dtype == "bf16" and stage != "data" else 4
            return size * numbers <= MOST_BYTES_WITH_AMX
        few = self.windows <= (MOST_SUMMED if stage == "weights" else MOST_ROWS)
        few = few or (stage == "data" and self.sizes.channels < LANES)
        return few and 4 * numbers <= MOST_BYTES

    @property
    def by_amx(self) -> bool:
        """Whether AMX multiplies."""
        return self.dtype == "bf16" and library().amx

    def adds_to(self, y: Desc) -> bool:
        return self.ADDS and self._last(("y", y)) == y

    def forward(self, x: Buffer, y: Buffer, bias: str, added: str = "", *, relu: bool = False) -> list[Call]:
        s = self.sizes
        before, source = self._matrix(x)
        (result, _), after = out_of(*y, self._last(y))
        row = (result, plain(self.windows, s.filters, dtype=self.dtype))
        inside = source[1].shape[1]
        product = self._forward(source, (inside, s.filters), row, bias, added, relu=relu)
        return [*before, *product, *after, *(rectify(y[1]) if relu and not self.ADDS else [])]

    def _forward(
        self, source: Buffer, shape: tuple[int, int], result: Buffer, bias: str, added: str, *, relu: bool
    ) -> list[Call]:
        """Return the calls of a matrix of windows times filters; classes that `ADDS` apply ReLU, too."""
        return self._product(source, shape, result, bias, turned=True)

    def _back(self, source: Buffer, shape: tuple[int, int], result: Buffer) -> list[Call]:
        """Return the calls of a top, as a matrix, times filters."""
        return self._product(source, shape, result)

    def data(self, dx: Buffer, dy: Buffer, bias: str = "") -> list[Call]:
        s, inside = self.sizes, self.cells * self.sizes.channels
        before, (source, _) = into(*dy, self._last(dy))
        matrix = plain(self.windows, inside)
        top = plain(self.windows, s.filters, dtype=self.dtype)
        (result, bottom), after = out_of(*dx, describe(dx[1].shape, CHANNELS_LAST))
        summed = bool(bias) or not self.of_pixels
        windows = ("windows" if summed else result, matrix)
        product = self._back((source, top), (s.filters, inside), windows)
        buffers = {
            "matrix": ("windows", matrix.bytes),
            "bias": (bias, 4 * s.channels),
            "y": (result, bottom.bytes),
        }
        sums = [HelperCall(buffers, "columns_sum", s.of_windows)] if summed else []
        return [*before, *product, *sums, *after]

    def weights(self, bottom: Buffer, top: Buffer, bias: str) -> list[Call]:
        s = self.sizes
        before, source = self._matrix(bottom)
        also, gradient = into(*top, self._last(top))
        laid = plain(s.filters, source[1].shape[1])
        (result, _), after = out_of(self.names[1], self._filters, plain(*self._filters.shape))
        return [*before, *also, *self._sums(source, gradient, (result, laid), bias), *after]

    def _sums(self, source: Buffer, top: Buffer, result: Buffer, bias: str) -> list[Call]:
        """Return the calls of the gradients of filters and bias: a product, and a sum."""
        turned = strided((self.sizes.filters, self.windows), (1, self.sizes.filters), self.dtype)
        primitive = Primitive("matmul", library().engine, turned, source[1], None, result[1], attributes())
        product = call(primitive, {arg.SRC: (top[0], turned), arg.WEIGHT: source, arg.DST: result})
        return [product, *(sum_up(top[0], top[1].shape, CHANNELS_LAST, self.dtype) if bias else [])]

    def _last(self, image: Buffer) -> Desc:
        """Describe images whose channels lie last."""
        return describe(image[1].shape, CHANNELS_LAST, self.dtype)

    def _matrix(self, x: Buffer) -> tuple[list[Call], Buffer]:
        """Return the calls that lay the windows of images as a matrix, and the buffer to read."""
        matrix = plain(self.windows, self.cells * self.sizes.channels, dtype=self.dtype)
        before, (source, outer) = into(*x, self._last(x), "last x")
        if self.of_pixels:
            return before, (source, matrix)
        buffers = {"x": (source, outer.bytes), "matrix": ("windows", matrix.bytes)}
        numbers = {**self.sizes.of_windows, "narrow": self.dtype == "bf16"}
        return [*before, HelperCall(buffers, "columns", numbers)], ("windows", matrix)

    @property
    def _filters(self) -> Desc:
        """The plain filters, with their axes in the order of the matrix: (filters, cells, channels)."""
        s = self.sizes
        return strided((s.filters, self.cells, s.channels), (self.cells * s.channels, 1, self.cells))

    def _product(
        self, source: Buffer, shape: tuple[int, int], result: Buffer, bias: str = "", *, turned: bool = False
    ) -> list[Call]:
        """Return the calls of a product with the laid filters, read as a matrix or turned, and a bias behind."""
        row = plain(1, shape[1]) if bias else None
        weight = free(*shape, dtype=self.dtype)
        primitive = Primitive("matmul", library().engine, source[1], weight, row, result[1], attributes())
        calls, weight = self._packed(shape, primitive.memory(dnnl.WEIGHTS), turned=turned)
        buffers = {arg.SRC: source, arg.WEIGHT: weight, arg.DST: result}
        if row is not None:
            buffers[arg.BIAS] = (bias, row)
        return [*calls, call(primitive, buffers)]

    def _packed(self, shape: tuple[int, int], inner: Desc | None, *, turned: bool) -> tuple[list[Call], Buffer]:
        """Return the calls that lay the filters, and copy them if a layout is given, and the buffer to read."""
        strides = (1, shape[0]) if turned else (shape[1], 1)
        source = strided(shape, strides, self.dtype if self.cells > 1 else "float32")
        kept, name, inner = "Windows' " if self.keeps else "windows' ", self.names[0], inner or source
        calls: list[Call] = []
        if self.cells > 1:
            target = f"{kept}laid weight" if inner == source else "laid weight"
            laid = plain(*self._filters.shape, dtype=self.dtype)
            calls, name = reorder(name, self._filters, target, laid), target
        if inner != source:
            calls, name = [*calls, *reorder(name, source, f"{kept}weight", inner)], f"{kept}weight"
        for one in calls:
            one.once = self.keeps
        return calls, (name, inner)


class PanelsConvolution(ColumnsConvolution):
    """The same with products of nacre's own, which add and apply ReLU; of any number of windows if they are pixels."""

    ADDS = True
    SPLIT: ClassVar[bool] = False

    def has(self, stage: str) -> bool:
        many = self.of_pixels and self.flat and self.groups == 1
        return lanes() > 0 and (many or super().has(stage))

    @property
    def ours(self) -> PanelProduct:
        """The product of the windows and the filters."""
        inside = self.cells * self.sizes.channels
        return PanelProduct(self.windows, inside, self.sizes.filters, keeps=self.keeps, split=self.SPLIT)

    def _forward(
        self, source: Buffer, shape: tuple[int, int], result: Buffer, bias: str, added: str, *, relu: bool
    ) -> list[Call]:
        calls, (weight, _) = self._packed(shape, None, turned=True)
        return [*calls, *self.ours.forward(source[0], weight, bias, result[0], added, relu=relu)]

    def _back(self, source: Buffer, shape: tuple[int, int], result: Buffer) -> list[Call]:
        calls, (weight, _) = self._packed(shape, None, turned=False)
        return [*calls, *self.ours.data(source[0], weight, result[0])]

    def _sums(self, source: Buffer, top: Buffer, result: Buffer, bias: str) -> list[Call]:
        return self.ours.weights(source[0], top[0], result[0], bias)


class SplitConvolution(PanelsConvolution):
    """The same with AMX, which multiplies numbers as three of bf16 each."""

    SPLIT = True

    def has(self, stage: str) -> bool:
        """Return whether it computes a stage: but not in predictions of few images."""
        few = self.keeps and self.sizes.images <= MOST_IMAGES
        return has_amx() and not few and super().has(stage)

    @property
    def by_amx(self) -> bool:
        return True
