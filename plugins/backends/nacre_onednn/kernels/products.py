"""Products y = x Wᵀ + b of matrices, and their gradients, in several ways; the weights are plain and of float32."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import library
from ..dnnl.primitives import (
    BLOCKED,
    CHANNELS_LAST,
    Buffer,
    Call,
    Desc,
    Primitive,
    attributes,
    block,
    call,
    free,
    into,
    out_of,
    plain,
    reorder,
    strided,
)
from ..helper.native import has_amx, has_avx512, lanes
from ..helper.product import PanelProduct, weights_in_pairs

PRODUCT, GEMM, PACKED = "product", "gemm", "packed"
"""Ways: a product of matrices, which packs the weights piece by piece; an inner product with plain weights; and one
with weights that are packed before as a whole."""

TOP, BOTTOM = "top turned", "bottom turned"
"""Ways of the gradient of the weights: products of matrices of which one is turned before."""

PANELS, SPLIT = "in panels", "in split panels"
"""Ways of the helper's: see product.c and product_amx.c."""

PAIRS = "in pairs"
"""A way of the gradient of the weights in bf16, the helper's: see pairs.c."""

FEW_ROWS = 16
"""Rows up to which reading the weights takes longer than multiplying."""


def own_ways(dtype: str) -> tuple[str, ...]:
    """Return the helper's ways of products in a type."""
    usable = {PANELS: lanes() > 0, SPLIT: has_amx()} if dtype == "float32" else {}
    return tuple(way for way, one in usable.items() if one)


def in_pairs(dtype: str) -> tuple[str, ...]:
    """Return the helper's ways of gradients of weights besides: AMX, where there is any, multiplies bf16 faster."""
    return (PAIRS,) if dtype == "bf16" and has_avx512() and not has_amx() else ()


def own_products(rows: int, features: int, outputs: int, dtype: str, *, keeps: bool) -> dict[str, PanelProduct]:
    """Return the helper's products of such matrices by their ways."""
    return {way: PanelProduct(rows, features, outputs, keeps=keeps, split=way == SPLIT) for way in own_ways(dtype)}


class Products:
    """The product of a bottom (rows, features) to a top (rows, outputs), or the gradients; both are named buffers.

    Args:
        dtype: the type in which the product is computed.
        packed: returns the calls that copy a parameter into a primitive's layout, and the buffer to read then.
        keeps: whether such copies are kept from pass to pass.
    """

    def __init__(
        self,
        x: Buffer,
        y: Buffer,
        dtype: str,
        packed: Callable[[str, Desc, Desc], tuple[list[Call], Buffer]],
        *,
        keeps: bool,
    ) -> None:
        self.x, self.y, self.dtype, self.packed = x, y, dtype, packed
        (self.rows, self.features), (_, self.outputs) = x[1].shape, y[1].shape
        self.ours = own_products(self.rows, self.features, self.outputs, dtype, keeps=keeps)
        self.weight = plain(self.outputs, self.features)

    def _hint(self, way: str, bias: Desc | None) -> Primitive:
        laid = plain if way == GEMM else free
        return Primitive(
            "inner_product_forward", library().engine, dnnl.FORWARD_TRAINING,
            self.x[1], laid(self.outputs, self.features, dtype=self.dtype), bias, self.y[1], attributes(),
        )  # fmt: skip

    def forward(self, way: str, weight: str, bias: str) -> list[Call]:
        """Return the calls of y; `bias` is "" where there is none."""
        if way in self.ours:
            return self.ours[way].forward(self.x[0], weight, bias, self.y[0])
        if way == PRODUCT:
            added = plain(1, self.outputs) if bias else None
            inner = strided((self.features, self.outputs), (1, self.features), self.dtype)
            primitive = Primitive("matmul", library().engine, self.x[1], inner, added, self.y[1], attributes())
            packing, (read, _) = self.packed(weight, self.weight, plain(*self.weight.shape, dtype=self.dtype))
        else:
            added = plain(self.outputs) if bias else None
            primitive = self._hint(way, added)
            packing, (read, inner) = self.packed(weight, self.weight, primitive.memory(dnnl.WEIGHTS))
        buffers = {arg.SRC: self.x, arg.WEIGHT: (read, inner), arg.DST: self.y}
        return [*packing, call(primitive, {**buffers, **({arg.BIAS: (bias, added)} if added else {})})]

    def weights(self, way: str, dweight: str) -> list[Call]:
        """Return the calls of the gradient of the weights."""
        (_, x), (_, y) = self.x, self.y
        if way in self.ours:
            return self.ours[way].weights(self.x[0], self.y[0], dweight)
        if way == PAIRS:
            sizes = {"rows": self.rows, "features": self.features, "outputs": self.outputs}
            return weights_in_pairs(self.x[0], self.y[0], dweight, "", **sizes)
        if way == BOTTOM:
            return self._turned_bottom(dweight)
        if way in (PRODUCT, TOP):
            return self._turned_top(dweight, copied=way == TOP)
        laid = plain if way == GEMM else free
        primitive = Primitive(
            "inner_product_backward_weights", library().engine,
            x, laid(*self.weight.shape), None, y, self._hint(way, None).desc, attributes(),
        )  # fmt: skip
        inner = primitive.memory(dnnl.DIFF_WEIGHTS)
        result, after = out_of(dweight, self.weight, inner)
        return [call(primitive, {arg.SRC: self.x, arg.DIFF_DST: self.y, arg.DIFF_WEIGHT: result}), *after]

    def _turned_top(self, dweight: str, *, copied: bool) -> list[Call]:
        """Return the calls of dyᵀ x."""
        top, turned = self.y[0], strided((self.outputs, self.rows), (1, self.outputs), self.dtype)
        calls: list[Call] = []
        if copied:
            calls, (top, turned) = into(top, turned, plain(self.outputs, self.rows, dtype=self.dtype), "turned dy")
        primitive = Primitive("matmul", library().engine, turned, self.x[1], None, self.weight, attributes())
        return [*calls, call(primitive, {arg.SRC: (top, turned), arg.WEIGHT: self.x, arg.DST: (dweight, self.weight)})]

    def _turned_bottom(self, dweight: str) -> list[Call]:
        """Return the calls of xᵀ dy, and of turning the result."""
        x = plain(self.features, self.rows, dtype=self.dtype)
        result = plain(self.features, self.outputs)
        primitive = Primitive("matmul", library().engine, x, self.y[1], None, result, attributes())
        buffers = {arg.SRC: ("turned x", x), arg.WEIGHT: self.y, arg.DST: ("turned dweight", result)}
        return [
            *reorder(self.x[0], strided((self.features, self.rows), (1, self.features), self.dtype), "turned x", x),
            call(primitive, buffers),
            *reorder("turned dweight", result, dweight, strided((self.features, self.outputs), (1, self.features))),
        ]

    def data(self, way: str, weight: str, dx: str) -> list[Call]:
        """Return the calls of the gradient of x, from that of y."""
        (_, x), (_, y) = self.x, self.y
        if way in self.ours:
            return self.ours[way].data(self.y[0], weight, dx)
        if way == PRODUCT:
            packing, read = self.packed(weight, self.weight, plain(*self.weight.shape, dtype=self.dtype))
            primitive = Primitive("matmul", library().engine, y, read[1], None, x, attributes())
            return [*packing, call(primitive, {arg.SRC: self.y, arg.WEIGHT: read, arg.DST: (dx, x)})]
        laid = plain if way == GEMM else free
        primitive = Primitive(
            "inner_product_backward_data", library().engine,
            x, laid(*self.weight.shape, dtype=self.dtype), y, self._hint(way, None).desc, attributes(),
        )  # fmt: skip
        packing, read = self.packed(weight, self.weight, primitive.memory(dnnl.WEIGHTS))
        return [*packing, call(primitive, {arg.DIFF_DST: self.y, arg.WEIGHT: read, arg.DIFF_SRC: (dx, x)})]


def sum_up(name: str, shape: tuple[int, ...], layout: str, dtype: str = "float32") -> list[Call]:
    """Return the calls that add up a blob over pixels, then over images: the gradient of the bias.

    They are products with ones. A matrix of the first has the pixels of an image, or of one block of its channels.
    """
    images, channels, *image = shape
    pixels = prod(image)
    count, width = (images * channels // block(), block()) if layout == BLOCKED else (images, channels)
    steps = (width, 1) if layout in (BLOCKED, CHANNELS_LAST) else (1, pixels)
    blob = strided((count, pixels, width), (pixels * width, *steps), dtype)
    ones, sums = plain(1, 1, pixels, dtype=dtype), plain(count, 1, width)
    first = Primitive("matmul", library().engine, ones, blob, None, sums, attributes())
    rows, table, row = plain(1, images), plain(images, channels), plain(1, channels)
    second = Primitive("matmul", library().engine, rows, table, None, row, attributes())
    return [
        call(first, {arg.SRC: ("ones of pixels", ones), arg.WEIGHT: (name, blob), arg.DST: ("sums", sums)}),
        call(second, {arg.SRC: ("ones of images", rows), arg.WEIGHT: ("sums", table), arg.DST: ("dbias", row)}),
    ]
