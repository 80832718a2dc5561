"""The flash kernel of DotProductAttention for onednn: scores are computed in blocks, and never stored."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from nacre import Own

from .dot_product import DotProductAttentionLayer, DotProductAttentionState, Part
from .rotary import Rotation

VERSION = 2
BEST = 2  # of the instructions that flash.h counts
MASKS = {"uint8": 0, "int32": 1, "int64": 2, "float32": 3}
"""Types of masks, as flash.h counts them."""
NUMBERS = (
    *("images", "heads", "rows", "keys", "size", "padded"),
    *("q_row", "q_image", "k_row", "k_image", "v_row", "v_image"),
    *("mask_type", "mask_row", "mask_image", "causal", "room", "bytes"),
)


class Flash(ctypes.Structure):
    """The `flash` of flash.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "dy", "y", "dq", "dk", "dv", "levels")),
        *((name, ctypes.c_void_p) for name in ("cosines", "sines", "mask", "cleared", "scratch")),
        *((name, ctypes.c_int64) for name in NUMBERS),
        ("scale", ctypes.c_double),
    )


@cache
def library() -> Any:
    """Return the compiled code, or None if there is none."""
    try:
        found = ctypes.CDLL(str(Path(__file__).parent / "native" / "_flash.so"))
        for function in (found.nacre_transformer_version, found.nacre_transformer_room, found.nacre_transformer_use):
            function.restype = ctypes.c_int64
    except (OSError, AttributeError):
        return None
    if found.nacre_transformer_version() != VERSION:
        return None
    found.nacre_transformer_use(ctypes.c_int64(BEST))
    return found


class FlashKernel(DotProductAttentionState, reads="inputs blobs", dtypes=("float32",), on_plain=True):
    """Attention in blocks of 64 queries and 64 keys; memory grows with the length, not with its square."""

    @classmethod
    def supports(cls, layer: DotProductAttentionLayer, inputs: list[Any]) -> str | None:
        """Decline what the code does not read."""
        if library() is None:
            return "needs its native code, which was not compiled when nacre-transformer was built"
        if any(one.dtype != "float32" for one in inputs[: len(inputs) - layer.masked]):
            return "serves bottoms of float32"
        if layer.masked and inputs[-1].dtype not in MASKS:
            return f"serves masks of {', '.join(MASKS)}, not {inputs[-1].dtype}"
        return None

    def __init__(self, layer: DotProductAttentionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.capturable = not self.carries
        if not self.carries:  # what backward needs of forward is a number for each query
            shape = (self.images, layer.heads, self.rows)
            self.intermediates = [backend.blob(shape)] if any(one is not None for one in diffs) else []

    def ready(self) -> None:
        """Find the numbers that forward leaves for backward."""
        if self.carries:
            super().ready()
            return
        self.levels = self.intermediates[0] if self.intermediates else None
        longest = max(self.rows, self.keys)
        self.rotation = Rotation(self.backend, longest, self.head) if self.layer.rotary else None

    def forward(self, inputs: list[Own]) -> None:
        """Compute the top: block by block, or for one batch after another as the layer's own state does."""
        if self.carries:
            self.look([one.memory for one in inputs], self.blobs[0].memory)
        else:
            self._run(inputs, {})

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Compute the scores again, block by block, and all gradients from them."""
        arrays = [None if one is None else one.memory for one in diffs]
        parts = {"dq": self.parts.q, "dk": self.parts.k, "dv": self.parts.v}
        wanted = {name: address(part, arrays) for name, part in parts.items()}
        if self.layer.masked and arrays[-1] is not None:
            wanted |= {"cleared": arrays[-1].ctypes.data, "bytes": arrays[-1].nbytes}
        if any(wanted.values()):
            self._run(inputs, {**wanted, "dy": self.blobs_diff[0].memory.ctypes.data})

    def _run(self, inputs: list[Own], more: dict[str, int | None]) -> None:
        arrays, parts, code = [one.memory for one in inputs], self.parts, library()
        padded = -(-self.head // 16) * 16
        room = code.nacre_transformer_room(*map(ctypes.c_int64, (self.rows, self.keys, padded)))
        backend: Any = self.backend.backend
        scratch = self.backend.scratch((backend.threads, room))
        pointers = {
            **{name: address(part, arrays) for name, part in (("q", parts.q), ("k", parts.k), ("v", parts.v))},
            "y": self.blobs[0].memory.ctypes.data,
            "scratch": scratch.ctypes.data,
        }
        if self.levels is not None:
            pointers["levels"] = self.levels.ctypes.data
        if self.rotation is not None:
            pointers |= {"cosines": self.rotation.cos.ctypes.data, "sines": self.rotation.sin.ctypes.data}
        numbers = {"images": self.images, "heads": self.layer.heads, "rows": self.rows, "keys": self.keys}
        numbers |= {"size": self.head, "padded": padded, "causal": self.layer.causal, "room": room}
        for name, part in (("q", parts.q), ("k", parts.k), ("v", parts.v)):
            numbers |= {f"{name}_row": part.width, f"{name}_image": part.shape[1] * part.width}
        if self.layer.masked:
            mask = arrays[-1]
            pointers["mask"] = mask.ctypes.data
            by_row = self.keys if mask.ndim == 3 else 0
            numbers |= {"mask_type": MASKS[str(mask.dtype)], "mask_row": by_row}
            numbers["mask_image"] = self.keys * (self.rows if by_row else 1)
        flash = Flash(**pointers, **more, **numbers, scale=self.scale)
        keep = (self.levels, self.rotation, scratch)
        backend.share(code.nacre_transformer_flash, flash, self.images * self.layer.heads, keep=keep)


def address(part: Part, arrays: list[Any]) -> int | None:
    """Return where a part of one of several arrays begins, or None."""
    found = part.of(arrays)
    return None if found is None else found.ctypes.data
