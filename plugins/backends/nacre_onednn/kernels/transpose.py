"""Transpose: a copy into another order of the axes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from nacre_layers.shapes.transpose import TransposeLayer, TransposeState, order_of

from ..dnnl.library import library
from ..dnnl.primitives import Call, Desc, reorder
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
        x, y = describe_blob(self.inputs[0], layouts), Turned(describe_blob(self.blobs[0], layouts), self.order)
        return reorder("x", x, "y", y) if stage == "forward" else reorder("dy", y, "dx", x)


class Turned(Desc):
    """A blob with its axes counted in another order: axis i of the blob is axis `order[i]` here."""

    def __init__(self, whole: Desc, order: Sequence[int]) -> None:
        handle = ctypes.c_void_p()
        numbers = (ctypes.c_int * len(order))(*order)
        library().call("memory_desc_permute_axes", ctypes.byref(handle), whole.handle, numbers)
        super().__init__(handle)
