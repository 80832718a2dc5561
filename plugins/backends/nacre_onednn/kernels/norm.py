"""LayerNorm and RMSNorm by the helper: see norm.c."""

from __future__ import annotations

from math import prod
from typing import Any

from nacre_layers.axes import axis_of
from nacre_layers.normalisation.layer_norm import LayerNormState
from nacre_layers.normalisation.rms_norm import RMSNormState

from ..dnnl.primitives import Call, HelperCall, describe
from ..helper.native import CONSTANTS
from .base import Layouts, OnednnKernel, unserved


class NormKernel(OnednnKernel, reads="inputs"):
    """A layer that normalises rows; of a row it keeps three numbers, and computes the rest again in backward."""

    state: type[LayerNormState] | type[RMSNormState]

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if reason := unserved(inputs):
            return reason
        images = len(inputs[0].shape) == 4
        return "serves no blobs of four axes, which may lie with their channels last" if images else None

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        own = self.state(layer, backend, inputs, diffs)
        self.learned, self.parameters, self.blobs = own.learned, own.parameters, own.blobs
        self.workers: int = backend.backend.threads

    def stages(self) -> list[str]:
        learns = any(one.gradient is not None for one in self.parameters)
        wanted = self.blobs_diff[0] is not None and (learns or self.diffs[0] is not None)
        return ["forward", *(["data"] if wanted else [])]

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        blob, layer = self.inputs[0], self.layer
        axis = axis_of(layer, blob.shape)
        rows, size = prod(blob.shape[:axis]), prod(blob.shape[axis:])
        whole = describe(blob.shape, layouts(blob), blob.dtype).bytes
        together = CONSTANTS["NORM_TOGETHER"] if size <= CONSTANTS["NORM_SHORT"] else 1
        scratch = ("scratch", 4 * 2 * together * self.workers * size)
        buffers: dict[str, tuple[str, int]] = {"x": ("x", whole), "kept": ("Kept", 12 * rows), "scratch": scratch}
        if stage == "forward":
            buffers |= {"y": ("y", whole), **{name: (name, 4 * size) for name in self.learned}}
        else:
            buffers |= {"dy": ("dy", whole), "dx": ("dx" if self.diffs[0] is not None else "", whole)}
            names = [name for name in self.learned if name == "scale"]
            names += [f"d{name}" for name, one in self.learned.items() if one.gradient is not None]
            buffers |= {"sums": ("sums", 8 * self.workers * size), **{name: (name, 4 * size) for name in names}}
        numbers = {"rows": rows, "size": size, "centred": self.state is LayerNormState, "epsilon": layer.epsilon}
        kind = "norm" if stage == "forward" else "norm_gradient"
        return [HelperCall(buffers, kind, {**numbers, "narrow": blob.dtype == "bf16"}, self.workers)]


class LayerNormKernel(NormKernel):
    """LayerNorm of blobs that are no images."""

    state = LayerNormState


class RMSNormKernel(NormKernel):
    """RMSNorm of blobs that are no images."""

    state = RMSNormState
