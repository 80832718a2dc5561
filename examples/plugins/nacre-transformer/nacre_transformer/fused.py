"""The kernel of DotProductAttention for cupy: cuDNN computes it, and scores are never stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nacre import Own

from .dot_product import DotProductAttentionLayer, DotProductAttentionState

NAMES = ("q", "k", "v", "y", "levels", "dy", "dq", "dk", "dv")
TENSORS = {name: number for number, name in enumerate(NAMES, 1)}
"""The numbers by which cuDNN's graphs know their arrays."""
MOST = 128
"""Numbers of a head, at most: cuDNN takes multiples of 8."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of an attention; `widths` are how far it is from position to position, of q, k and v."""

    images: int
    heads: int
    rows: int
    keys: int
    head: int
    widths: tuple[int, int, int]
    scale: float
    causal: bool
    deterministic: bool


def graph_of(cudnn: Any, one: Sizes, way: str, dtype: str, **where: Any) -> Any:
    """Return cuDNN's graph of attention in bf16, forward or of all its gradients; `levels` is what backward needs."""
    narrow, wide = cudnn.data_type.BFLOAT16, cudnn.data_type.FLOAT
    graph = cudnn.pygraph(io_data_type=narrow, intermediate_data_type=wide, compute_data_type=wide, **where)
    lengths = {"q": one.rows, "y": one.rows, "k": one.keys, "v": one.keys}
    widths = dict(zip("qkv", one.widths, strict=True)) | {"y": one.heads * one.head}

    def shape(name: str) -> tuple[list[int], list[int]]:
        if name == "levels":
            return [one.images, one.heads, one.rows, 1], [one.heads * one.rows, one.rows, 1, 1]
        length, width = lengths[name[-1]], widths[name[-1]]
        return [one.images, one.heads, length, one.head], [length * width, one.head, width, 1]

    def tensor(name: str) -> Any:
        dim, stride = shape(name)
        made = graph.tensor(name=name, dim=dim, stride=stride, data_type=wide if name == "levels" else narrow)
        made.set_uid(TENSORS[name])
        return made

    def output(made: Any, name: str) -> None:
        dim, stride = shape(name)
        made.set_output(True).set_dim(dim).set_stride(stride).set_data_type(wide if name == "levels" else narrow)
        made.set_uid(TENSORS[name])

    how = {"attn_scale": one.scale, "use_causal_mask": one.causal}
    given = {name: tensor(name) for name in "qkv"}
    if way == "forward":
        made = graph.sdpa(**given, generate_stats=True, **how)
    else:
        more = {"o": tensor("y"), "dO": tensor("dy"), "stats": tensor("levels")}
        made = graph.sdpa_backward(**given, **more, use_deterministic_algorithm=one.deterministic, **how)
    names = ("y", "levels") if way == "forward" else ("dq", "dk", "dv")
    for name, result in zip(names, made, strict=True):
        output(result, name)
    return graph


class FusedKernel(DotProductAttentionState, reads="inputs blobs", dtypes=("float32", "float64"), on_plain=True):
    """Attention by cuDNN in nets that compute in bf16, if it can; else the layer's own state."""

    same_dtype = True

    @classmethod
    def supports(cls, layer: DotProductAttentionLayer, inputs: list[Any]) -> str | None:
        """Decline what cuDNN is not asked for."""
        if layer.masked or layer.rotary or layer.carry:
            return "serves no mask, no rotary positions and no carry"
        return None

    def __init__(self, layer: DotProductAttentionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.inputs, self.diffs = inputs, diffs
        self.sizes = Sizes(
            images=self.images,
            heads=layer.heads,
            rows=self.rows,
            keys=self.keys,
            head=self.head,
            widths=(self.parts.q.width, self.parts.k.width, self.parts.v.width),
            scale=self.scale,
            causal=layer.causal,
            deterministic=backend.deterministic,
        )
        self.made = self._made() if backend.compute == "bf16" and self.head % 8 == 0 and self.head <= MOST else {}
        self.in_bf16 = self.capturable = bool(self.made)
        self.on_plain = not self.made
        if self.made:
            self.intermediates = [backend.blob((self.images, layer.heads, self.rows), "float32")]

    def _made(self) -> dict[str, Any]:
        """Return what computes it, and its gradients; nothing if cuDNN is missing, or cannot."""
        device: Any = self.backend.backend
        wanted = any(one is not None for one in self.diffs)
        if device.dnn is None:
            return {}
        with device.here:
            found = {
                way: device.dnn.computation(graph_of, self.sizes, way, "bf16", deterministic=self.sizes.deterministic)
                for way in ("forward", *(["backward"] if wanted else []))
            }
        return {} if None in found.values() else found

    def heads(self, part: Any) -> Any:
        """Read a blob, or some columns of one, by its heads."""
        return super().heads(part.memory if isinstance(part, Own) else part)

    def ready(self) -> None:
        """Make what the layer's own state needs, or room for gradients that nobody wants."""
        if not self.made:
            super().ready()
            return
        unread = [one is None for one in self.diffs]
        self.unread = [
            self.backend.empty(one.shape, "uint16") if alone and not all(unread) else None
            for one, alone in zip(self.inputs, unread, strict=True)
        ]

    def forward(self, inputs: list[Own]) -> None:
        """Compute the top."""
        arrays = [one.memory for one in inputs]
        if self.made:
            self._enqueue("forward", arrays)
        else:
            super().forward(arrays)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Compute all gradients."""
        wanted = [None if one is None else one.memory for one in diffs]
        if not self.made:
            super().backward([one.memory for one in inputs], wanted)
        elif "backward" in self.made:
            gradients = [own if one is None else one for one, own in zip(wanted, self.unread, strict=True)]
            more = {f"d{name}": part.of(gradients) for name, part in self._parts().items()}
            self._enqueue("backward", [one.memory for one in inputs], dy=self.blobs_diff[0].memory, **more)

    def _parts(self) -> dict[str, Any]:
        return {"q": self.parts.q, "k": self.parts.k, "v": self.parts.v}

    def _enqueue(self, way: str, arrays: list[Any], **more: Any) -> None:
        made = self.made[way]
        given = {name: part.of(arrays) for name, part in self._parts().items()}
        given |= {"y": self.blobs[0].memory, "levels": self.intermediates[0], **more}
        workspace = self.backend.scratch((max(1, made.plan.workspace),), "uint8")
        made.enqueue({TENSORS[name]: array for name, array in given.items()}, workspace)
