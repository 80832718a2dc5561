"""Dropout: random elements become 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from nacre import Array, LayerState, Names, exactly, fraction

from ..cutting import OnNumbers


class DropoutLayer(OnNumbers, can_do_bp=True, is_inplace=True):
    """In phase `train` each element becomes 0 with probability `ratio`; the others are divided by 1 - ratio.

    y = x · [u ≥ ratio] / (1 - ratio), with a uniform u for each element; in all other phases y = x.

    The bottom, of any shape, is changed in place. In all other phases nothing is done. The mask is a function of the
    seed, the layer's name and the iteration: an element stays if its Philox uniform (`nacre.random`, float32, C order)
    is `ratio` or more. Srivastava et al., "Dropout", 2014; after Mocha.jl's `DropoutLayer`.

    Example:
        [[layer]]
        type = "Dropout"
        bottoms = ["ip1"]  # (8, 500)
        ratio = 0.2
    """

    shown = ("ratio",)
    elsewhere: ClassVar[Mapping[str, str]] = {"p": "ratio", "rate": "ratio"}

    bottoms: Annotated[Names, exactly(1), "the blob, changed in place"]
    ratio: Annotated[float, fraction, "probability to become 0"] = 0.5
    auto_scale: Annotated[bool, "divide the other elements by 1 - ratio"] = True


class DropoutState(LayerState, of=DropoutLayer, reads=""):
    """`DropoutLayer`, and every layer with its `ratio` and `auto_scale`, of any number of bottoms, on any backend."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.acts = self.phase == "train"  # though an algorithm may run passes in other phases
        self.blobs = [backend.blob(one.shape) if self.acts else backend.alias(one) for one in inputs]
        self.intermediates = [backend.blob(one.shape) for one in inputs] if self.acts else []  # the masks
        self.random = backend.random(layer.name)
        self.boxes = [one.box for one in inputs]
        self.scale = 1 / (1 - layer.ratio) if layer.auto_scale else 1.0

    def forward(self, inputs: list[Array]) -> None:
        if not self.acts:
            return
        xp = self.backend.xp
        for draw, (x, y, mask) in enumerate(zip(inputs, self.blobs, self.intermediates, strict=True)):
            if self.phase != "train":
                xp.copyto(y, x)
                continue
            uniform = self.backend.scratch(mask.shape, "float32")
            box = self.boxes[draw]
            self.random.uniform(uniform, draw, **({} if box is None else {"whole": box.whole, "start": box.start}))
            xp.greater_equal(uniform, self.layer.ratio, out=mask)
            xp.multiply(mask, self.scale, out=mask)
            xp.multiply(x, mask, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        if not self.acts:
            return
        for mask, dy, dx in zip(self.intermediates, self.blobs_diff, diffs, strict=True):
            if dx is not None and self.phase != "train":
                self.backend.xp.copyto(dx, dy)
            elif dx is not None:
                self.backend.xp.multiply(dy, mask, out=dx)
