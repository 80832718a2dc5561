"""OneHot: see one_hot.cu."""

from __future__ import annotations

from typing import Any

from nacre import Array, Own
from nacre_layers.losses.classes import no_whole_number
from nacre_layers.shapes.one_hot import REMEDY, OneHotLayer, OneHotState

from .launch import LANES, NUMBERS, TYPES, CudaKernel, is_image, scalars, too_large, unknown_numbers


class OneHotKernel(CudaKernel, reads=""):
    """Vectors with a single 1, in bf16 too, unless there are bottoms of a floating type: these would be rounded."""

    in_bf16 = True
    same_dtype = False

    @classmethod
    def supports(cls, layer: OneHotLayer, inputs: list[Any]) -> str | None:
        return unknown_numbers("numbers", inputs) or too_large([(*one.shape, layer.n_class) for one in inputs])

    def __init__(self, layer: OneHotLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = OneHotState(layer, backend, inputs, diffs).blobs
        # images may lie in another order
        self.on_plain = any("float" in one.dtype for one in inputs) or any(is_image(one.shape) for one in self.blobs)

    def ready(self) -> None:
        self.known = scalars(self.backend)

    def forward(self, inputs: list[Own]) -> None:
        view, classes = self.backend, self.layer.n_class
        for number, (x, y) in enumerate(zip(inputs, self.blobs, strict=True)):
            right, kind = view.scratch((x.size,), "bool"), TYPES[y.dtype]
            items = y.size // (LANES[kind] if classes % LANES[kind] == 0 else 1)
            given = x.memory, NUMBERS.index(x.dtype), y.memory, right, x.size, x.shape[0], classes
            self.launch("one_hot", f"one_hot<{kind}>", items, *given, self.known, view.scalars.place("rows"))
            view.require((self.layer.name, number), right, lambda x=x.memory: self._wrong(x))

    def _wrong(self, x: Array) -> Exception:
        return no_whole_number(self.layer, self.backend, x, self.layer.n_class, what="number", remedy=REMEDY)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Write no gradient but 0: a whole number has none."""
        for dx in diffs:
            if dx is not None:
                dx.memory[...] = 0
