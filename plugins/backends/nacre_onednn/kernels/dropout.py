"""Dropout of plain blobs, by the helper: the mask has the bits of the layer's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import Array, LayerState, Own
from nacre.random import name_key
from nacre_layers.elementwise.dropout import DropoutLayer

from ..record import recorder
from .base import unserved


class DropoutKernel(LayerState, reads="", dtypes=("float32",), on_plain=True):
    """Multiplies by a mask that is a function of the seed, the layer's name, the iteration and the element."""

    @classmethod
    def supports(cls, layer: DropoutLayer, inputs: list[Any]) -> str | None:
        if inputs[0].box is not None and inputs[0].box.whole != inputs[0].shape:
            return "draws the masks of whole blobs only"
        return unserved(inputs)

    def __init__(self, layer: DropoutLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.acts = self.phase == "train"
        self.on_plain = self.acts  # C order fixes the elements' numbers; where it does nothing, it needs no copies
        self.blobs = [backend.blob(inputs[0].shape) if self.acts else backend.alias(inputs[0])]
        self.random = backend.random(layer.name)
        self.scale = 1 / (1 - layer.ratio) if layer.auto_scale else 1.0
        self.key = np.array([backend.seed & (2**64 - 1), name_key(backend.full_name(layer.name))], np.uint64)

    def ready(self) -> None:
        if self.acts:
            self.kept = self.backend.empty(self.blobs[0].shape, "uint8")

    def forward(self, inputs: list[Own]) -> None:
        if self.phase == "train":
            self._add("dropout", {"x": inputs[0].memory, "y": self.blobs[0].memory}, inputs[0].size)
        elif self.acts:
            self._copy(inputs[0], self.blobs[0])

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if diffs[0] is None:
            return
        if self.phase == "train":
            self._add("dropout_gradient", {"dy": self.blobs_diff[0].memory, "dx": diffs[0].memory}, inputs[0].size)
        elif self.acts:
            self._copy(self.blobs_diff[0], diffs[0])

    def _copy(self, one: Own, other: Own) -> None:
        """Copy a blob in a phase in which nothing is dropped, unless both lie in one memory."""
        if one.memory.ctypes.data != other.memory.ctypes.data:
            recorder(self.backend).add(one, other, first=True)

    def _add(self, kind: str, ends: dict[str, Array], size: int) -> None:
        scalars, record = self.backend.scalars, recorder(self.backend).record
        arrays = {**ends, "kept": self.kept, "scalars": record.read(scalars), "key": self.key}
        first, _ = self.random.joined(size)  # of the elements of all ranks
        numbers = {
            "size": size,
            "first": first,
            "step": scalars.place("step"),
            "ratio": self.layer.ratio,
            "scale": self.scale,
        }
        record.add(kind, arrays, numbers)
