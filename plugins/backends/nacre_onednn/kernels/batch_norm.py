"""BatchNorm over the channels of axis 1 by the helper, with ReLU in one: see batch_norm.c."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from nacre import Own
from nacre_layers.neurons import is_relu
from nacre_layers.normalisation.batch_norm import BatchNormLayer, BatchNormState

from ..dnnl.primitives import BLOCKED, CHANNELS_LAST, Call, HelperCall, block
from ..helper.native import CONSTANTS, LANES
from ..record import ALIGNMENT, rounded_up
from ..rewrite import fold_of, sum_of
from .base import Layouts, OnednnKernel, describe_blob, unserved

MOMENTS, SUMS = CONSTANTS["BATCH_NORM_MOMENTS"], CONSTANTS["BATCH_NORM_SUMS"]
"""Bytes for each lane of a register while the helper adds up."""


KEPT = 28
"""Bytes that are kept for each channel."""


TASKS = 32
"""The least number of tasks, if there are enough pixels: more than most machines have threads."""


PIXELS = 64
"""The least number of pixels of a task, whatever the number of threads."""


class BatchNormKernel(OnednnKernel, reads="inputs"):
    """BatchNorm; applies ReLU itself, and computes again in backward where it was open.

    In phase predict the filters below compute it, if nobody else reads their top, which is its own then.
    """

    PASSES: ClassVar = {"forward": ("forward", "frozen forward"), "backward": ("data", "frozen data")}
    LIES, ALIKE = "as below", True
    leaves_its_top = False
    """Whether the sum behind it computes its top."""

    @classmethod
    def supports(cls, layer: BatchNormLayer, inputs: list[Any]) -> str | None:
        if reason := unserved(inputs):
            return reason
        shape = inputs[0].shape
        if not 2 <= len(shape) <= 5 or layer.axis not in (1, 1 - len(shape)):
            return "serves blobs of two to five axes, the channels being axis 1"
        if layer.sync:
            return "serves the mean and variance of each rank: sync=False"
        if layer.use_batch:
            return "outside of training it serves the running mean and variance: use_batch=False"
        return None

    def __init__(self, layer: BatchNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.plain = BatchNormState(layer, backend, inputs, diffs)
        self.parameters, self.blobs = self.plain.parameters, self.plain.blobs
        self.relu = is_relu(layer.neuron)
        fold = fold_of(layer)
        self.filters = fold.below if fold is not None and fold.below and fold.below.take_over(self) else None
        """The layer below, if that computes it."""
        if self.filters is not None:
            self.blobs = [backend.alias(inputs[0])]
        if (joined := sum_of(layer)) is not None:
            joined.norm = self

    def stages(self) -> list[str]:
        if self.filters is not None:
            return []
        learns = any(one.gradient is not None for one in self.plain.learned.values())
        wanted = self.blobs_diff[0] is not None and (learns or self.diffs[0] is not None)
        kind = "frozen " if not self.plain.follows else ""
        return [f"{kind}forward", *([f"{kind}data"] if wanted else [])]

    def ready(self) -> None:
        super().ready()
        self.made_to_follow = self.plain.follows

    def forward(self, inputs: list[Own]) -> None:
        self._fit_phase()
        super().forward(inputs)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        self._fit_phase()
        super().backward(inputs, diffs)

    def _fit_phase(self) -> None:
        """Make the calls anew if they were made for another phase, such as one of an algorithm's own."""
        if self.made_to_follow != self.plain.follows:
            self.ready()

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        blob, layer, learned = self.inputs[0], self.layer, self.plain.learned
        whole, channels = describe_blob(blob, layouts).bytes, blob.shape[1]
        forward, few = stage.endswith("forward"), 4 * channels
        sizes = self.sizes(layouts)
        lanes = sizes["parts"] * sizes["groups"] * rounded_up(sizes["width"], LANES)
        sums = lanes * (MOMENTS if forward else SUMS)
        kept, scratch = KEPT * channels, rounded_up(12 * channels, ALIGNMENT) + sums
        buffers = {"x": ("x", whole), "kept": ("Moments", kept), "scratch": ("scratch", scratch)}
        if forward:
            top = "" if self.leaves_its_top else "y"
            buffers |= {"y": (top, whole), "running_mean": ("mean", few), "running_variance": ("variance", few)}
            names = list(learned)
        else:
            buffers |= {"dy": ("dy", whole), "dx": ("dx" if self.diffs[0] is not None else "", whole)}
            names = [name for name in learned if name == "scale"]
            names += [f"d{name}" for name, one in learned.items() if one.gradient is not None]
        buffers |= {name: (name, few) for name in names}
        flags = {"relu": self.relu, "follows": self.plain.follows, "narrow": blob.dtype == "bf16"}
        numbers = {**sizes, **flags, "epsilon": layer.epsilon, "decay": layer.decay}
        return [HelperCall(buffers, "batch_norm" if forward else "batch_norm_gradient", numbers)]

    def sizes(self, layouts: Layouts) -> dict[str, int]:
        """Return the sizes of `batch_norm` in operations.h."""
        blob = self.inputs[0]
        images, parts, pixels, width = _lies(blob.shape, layouts(blob))
        groups = max(1, min(-(-TASKS // parts), images * pixels // PIXELS))
        return {"images": images, "parts": parts, "pixels": pixels, "width": width, "groups": groups}


def _lies(shape: tuple[int, ...], layout: str) -> tuple[int, int, int, int]:
    """Return a blob as batch_norm.c reads it: (images, parts of the channels, pixels, channels side by side)."""
    images, channels, pixels = shape[0], shape[1], prod(shape[2:])
    width = block() if layout == BLOCKED else 1
    if layout == CHANNELS_LAST or pixels == 1 or width == channels:  # all pixels of the batch lie in a row
        return 1, 1, images * pixels, channels
    return images, channels // width, pixels, width
