"""MatMul: products of the matrices in two blobs, by oneDNN."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from nacre import Array
from nacre_layers.linear.mat_mul import MatMulLayer, MatMulState

from ..dnnl import arguments as arg
from ..dnnl.library import library
from ..dnnl.primitives import Call, Desc, Primitive, attributes, call, strided
from .base import Layouts, OnednnKernel, numbered, unfit


class MatMulKernel(OnednnKernel, reads="inputs"):
    """Products of matrices, either of which may be transposed, and both gradients; blobs are in C order.

    Those of four axes, which are images for other kernels, are plain, and computed in float32.
    """

    PASSES: ClassVar = {"forward": ("forward",), "backward": ("first", "second")}

    @classmethod
    def supports(cls, layer: MatMulLayer, inputs: list[Any]) -> str | None:
        return next((reason for one in inputs if (reason := unfit([one]))), None)

    def __init__(self, layer: MatMulLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = MatMulState(layer, backend, inputs, diffs).blobs
        self.on_plain = len(inputs[0].shape) not in (3, 5)
        self.dtype = "float32" if self.on_plain else backend.compute

    def stages(self) -> list[str]:
        return [
            "forward",
            *(stage for stage, dx in zip(("first", "second"), self.diffs, strict=True) if dx is not None),
        ]

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        layer, y = self.layer, matrices("dy", self.blobs[0].shape)
        one, other = (matrices(f"x{index}", blob.shape) for index, blob in enumerate(self.inputs))
        a, b = one.turn() if layer.transpose_a else one, other.turn() if layer.transpose_b else other
        if stage == "forward":
            return [self._product(a, b, replace(y, name="y"))]
        if stage == "first":  # dA = dy Bᵀ, or its transpose B dyᵀ
            factors = (b, y.turn()) if layer.transpose_a else (y, b.turn())
            return [self._product(*factors, replace(one, name="dx0"))]
        factors = (y.turn(), a) if layer.transpose_b else (a.turn(), y)  # dB = Aᵀ dy, or dyᵀ A
        return [self._product(*factors, replace(other, name="dx1"))]

    def _product(self, one: Matrices, other: Matrices, result: Matrices) -> Call:
        descs = [each.desc(self.dtype) for each in (one, other, result)]
        primitive = Primitive("matmul", library().engine, descs[0], descs[1], None, descs[2], attributes())
        names = zip((arg.SRC, arg.WEIGHT, arg.DST), (one, other, result), descs, strict=True)
        return call(primitive, {which: (each.name, desc) for which, each, desc in names})

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **numbered("x", self.inputs), **numbered("dx", self.diffs)}


@dataclass(frozen=True)
class Matrices:
    """Matrices in a buffer, (count, rows, columns) in C order, that are multiplied as they are or `turned`."""

    name: str
    count: int
    rows: int
    columns: int
    turned: bool = False

    def turn(self) -> Matrices:
        """Return their transposes."""
        return replace(self, turned=not self.turned)

    def desc(self, dtype: str) -> Desc:
        """Describe the matrices as they are multiplied."""
        size = self.rows * self.columns
        if self.turned:
            return strided((self.count, self.columns, self.rows), (size, 1, self.columns), dtype)
        return strided((self.count, self.rows, self.columns), (size, self.columns, 1), dtype)


def matrices(name: str, shape: tuple[int, ...]) -> Matrices:
    """Return the matrices in a blob: its last two axes."""
    *records, rows, columns = shape
    return Matrices(name, prod(records), rows, columns)
