"""Transpose: a copy into another order of the axes, of plain matrices by the helper, else by oneDNN."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

from nacre_layers.shapes.transpose import TransposeLayer, TransposeState, order_of

from ..dnnl.library import library
from ..dnnl.primitives import Call, Desc, HelperCall, plain, reorder
from ..helper.native import helper
from .base import Layouts, OnednnKernel, describe_blob, unfit_any


class TransposeKernel(OnednnKernel, reads=""):
    """Transpose of one bottom; both blobs may lie in any layout."""

    @classmethod
    def supports(cls, layer: TransposeLayer, inputs: list[Any]) -> str | None:
        return "serves one bottom" if len(inputs) != 1 else unfit_any(inputs)

    def __init__(self, layer: TransposeLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = TransposeState(layer, backend, inputs, diffs).blobs
        self.order = order_of(layer, inputs[0].shape)

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        forward = stage == "forward"
        source, target = ("x", "y") if forward else ("dy", "dx")
        x, y = (describe_blob(blob, layouts) for blob in (self.inputs[0], self.blobs[0]))
        if matrices := self._matrices(x, y):
            count, rows, columns = matrices
            rows, columns = (rows, columns) if forward else (columns, rows)
            narrow = self.inputs[0].dtype == "bf16"
            sizes = {"matrices": count, "rows": rows, "columns": columns, "narrow": narrow}
            return [HelperCall({"x": (source, x.bytes), "y": (target, x.bytes)}, "turn", sizes)]
        turned = Turned(y, self.order)
        return reorder(source, x, target, turned) if forward else reorder(source, turned, target, x)

    def _matrices(self, x: Desc, y: Desc) -> tuple[int, ...]:
        """Return (matrices, rows, columns) of the bottom if the helper can turn each of them, else ()."""
        dtype = self.inputs[0].dtype
        in_order = all(one == plain(*one.shape, dtype=dtype) for one in (x, y))
        return as_matrices(self.inputs[0].shape, self.order) if helper() is not None and in_order else ()


class Turned(Desc):
    """A blob with its axes counted in another order: axis i of the blob is axis `order[i]` here."""

    def __init__(self, whole: Desc, order: Sequence[int]) -> None:
        handle = ctypes.c_void_p()
        numbers = (ctypes.c_int * len(order))(*order)
        library().call("memory_desc_permute_axes", ctypes.byref(handle), whole.handle, numbers)
        super().__init__(handle)


def as_matrices(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return a blob as (matrices, rows, columns) where its axes in a new order are each of them turned, else ()."""
    axes = [axis for axis in order if shape[axis] > 1]
    before = next((number for number, axis in enumerate(axes) if axis != sorted(axes)[number]), None)
    if before is None:
        return ()
    turned = axes[before:]
    cut = turned.index(min(turned))
    rows, columns = turned[cut:], turned[:cut]
    if [*rows, *columns] != sorted(turned):
        return ()
    return tuple(prod(shape[axis] for axis in some) for some in (axes[:before], rows, columns))
