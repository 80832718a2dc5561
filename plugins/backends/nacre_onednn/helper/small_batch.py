"""Kernels of the helper for inner products of few images, where memory is what takes time: see small_batch.c.

They are ways beside those of oneDNN, taken where they are faster.
"""

from __future__ import annotations

from ..dnnl.primitives import Call, HelperCall
from ..record import rounded_up
from .direct import LANES
from .native import SMALL_BATCH, SMALL_BATCH_DATA, SMALL_BATCH_WEIGHTS, has_avx512

MOST_IMAGES = 32
EIGHT, LINE, BLOCK = 8, 64, 32
"""Of small_batch.c: images that go together, bytes of a register, and features that go together."""


class SmallBatchProduct:
    """The parts of y = x Wᵀ + b for few images, over plain buffers of float32 or of bf16."""

    def __init__(self, images: int, outputs: int, features: int, dtype: str, *, relu: bool) -> None:
        self.images, self.outputs, self.features = images, outputs, features
        self.narrow = dtype == "bf16"
        self.numbers = (images, outputs, features, int(self.narrow), int(relu))
        self.size = 2 if self.narrow else 4
        self.padded = rounded_up(images, EIGHT)

    @property
    def usual(self) -> bool:
        """Whether it can be computed here."""
        return has_avx512() and self.images <= MOST_IMAGES

    def _bytes(self, rows: int, columns: int) -> int:
        return rows * columns * self.size

    def forward(self, x: str, weight: str, bias: str, y: str) -> list[Call]:
        """Return the calls of y, with ReLU behind it where that was asked for; `bias` is "" where there is none."""
        lines = rounded_up(self._bytes(1, self.features), LINE)
        buffers = {
            x: self._bytes(self.images, self.features),
            weight: self._bytes(self.outputs, self.features),
            bias: 4 * self.outputs,
            y: self._bytes(self.images, self.outputs),
            "small batch": self.padded * (lines + 4 * rounded_up(self.outputs, 2)),
        }
        return [HelperCall(buffers, SMALL_BATCH, self.numbers)]

    def data(self, dy: str, weight: str, dx: str) -> list[Call]:
        """Return the calls of dx = dy W."""
        tops = -(-self.outputs // 2) if self.narrow else self.outputs
        buffers = {
            dy: self._bytes(self.images, self.outputs),
            weight: self._bytes(self.outputs, self.features),
            dx: self._bytes(self.images, self.features),
            "small batch": 4 * (rounded_up(tops * self.padded, LANES) + rounded_up(self.features, BLOCK) * self.padded),
        }
        return [HelperCall(buffers, SMALL_BATCH_DATA, self.numbers)]

    def weights(self, x: str, dy: str, dw: str, db: str) -> list[Call]:
        """Return the calls of dw = dyᵀ x and of db, all of float32; `db` is "" where there is none."""
        buffers = {
            x: 4 * self.images * self.features,
            dy: 4 * self.images * self.outputs,
            dw: 4 * self.outputs * self.features,
            db: 4 * self.outputs,
        }
        return [HelperCall(buffers, SMALL_BATCH_WEIGHTS, self.numbers)]
