"""LRN of images, across or within channels, by the helper: oneDNN's serves few windows and few processors."""

from __future__ import annotations

from typing import Any

from nacre import number_of_threads
from nacre_layers.normalisation.lrn import LRNLayer, window_axes

from ..dnnl.primitives import Call, HelperCall
from .base import Layouts, OnednnKernel, describe_blob, side_by_side, unserved


class LRNKernel(OnednnKernel, reads="inputs"):
    """LRN of images whose channels are axis 1."""

    @classmethod
    def supports(cls, layer: LRNLayer, inputs: list[Any]) -> str | None:
        if reason := unserved(inputs):
            return reason
        if len(inputs[0].shape) != 4 or layer.axis not in (1, -3):
            return "serves images with two axes, and the channels before them"
        return None

    def __init__(self, layer: LRNLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.cells = layer.kernel ** len(window_axes(layer, inputs[0].shape))

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        x, layer, workers = self.inputs[0], self.layer, number_of_threads()
        images, channels, rows, columns = x.shape
        side = side_by_side(x.shape, layouts(x))
        width, within = columns * side, layer.mode == "within"
        most = (max(rows, columns) if within else channels) - 1  # what lies beyond is 0
        down, up = min((layer.kernel - 1) // 2, most), min(layer.kernel // 2, most)
        if not within:  # as lrn.c has it
            room = 4 * channels + 2 * (down + up)
        else:
            room = 2 * width if stage == "forward" else 2 * rows * width + width
        kind, names = ("lrn", ("x", "y")) if stage == "forward" else ("lrn_gradient", ("x", "dy", "dx"))
        whole = describe_blob(x, layouts).bytes
        numbers = {
            "images": images, "channels": channels, "rows": rows, "columns": columns, "side": side,
            "down": down, "up": up, "within": within, "narrow": x.dtype == "bf16",
            "scale": layer.scale / self.cells, "shift": layer.shift, "power": layer.power,
        }  # fmt: skip
        buffers = {**{name: (name, whole) for name in names}, "scratch": ("scratch", 4 * room * workers)}
        return [HelperCall(buffers, kind, numbers, workers)]
