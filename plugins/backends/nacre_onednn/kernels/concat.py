"""Concat: every bottom is copied into its part of the top, and its gradient out of it."""

from __future__ import annotations

import ctypes
import itertools
from math import prod
from typing import Any

from nacre import Array
from nacre_layers.shapes.concat import ConcatLayer, ConcatState

from ..dnnl.library import library
from ..dnnl.primitives import Call, Desc, dims, lengths, reorder, too_large
from .base import Layouts, OnednnKernel, describe_blob, numbered, unfit_any


class ConcatKernel(OnednnKernel, reads=""):
    """Concat of bottoms along an axis."""

    LIES, ALIKE = "as below", True

    @classmethod
    def supports(cls, layer: ConcatLayer, inputs: list[Any]) -> str | None:
        if layer.axis in (0, -len(inputs[0].shape)):
            return "joins batches, of which the layer's own code checks that all rows count"
        return unfit_any(inputs) or too_large([sum(prod(one.shape) for one in inputs)])

    def __init__(self, layer: ConcatLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = ConcatState(layer, backend, inputs, diffs).blobs

    def stages(self) -> list[str]:
        return ["forward", *(["data"] if any(dx is not None for dx in self.diffs) else [])]

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        whole = describe_blob(self.blobs[0], layouts)
        axis = self.layer.axis % len(self.blobs[0].shape)
        starts = itertools.accumulate((one.shape[axis] for one in self.inputs), initial=0)
        calls: list[Call] = []
        for index, (bottom, start) in enumerate(zip(self.inputs, starts, strict=False)):
            own, inside = describe_blob(bottom, layouts), Part(whole, bottom.shape, axis, start)
            if stage == "forward":
                calls += reorder(f"x{index}", own, "y", inside)
            elif self.diffs[index] is not None:
                calls += reorder("dy", inside, f"dx{index}", own)
        return calls

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **numbered("x", self.inputs), **numbered("dx", self.diffs)}


class Part(Desc):
    """The part of a blob that begins at `start` along an axis; it takes the whole blob's memory."""

    def __init__(self, whole: Desc, shape: tuple[int, ...], axis: int, start: int) -> None:
        handle = ctypes.c_void_p()
        offsets = [start if one == axis else 0 for one in range(len(shape))]
        library().call(
            "memory_desc_create_submemory", ctypes.byref(handle), whole.handle, lengths(shape), dims(offsets)
        )
        super().__init__(handle)
        self.whole = whole

    @property
    def bytes(self) -> int:
        return self.whole.bytes
