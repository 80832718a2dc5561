"""Inner products of few images by the helper, where reading the weights takes most of the time: see small_batch.c.

They are alternatives to oneDNN's, taken where they are faster.
"""

from __future__ import annotations

from ..dnnl.primitives import Call, HelperCall
from ..record import ALIGNMENT, rounded_up
from .native import CONSTANTS, LANES, has_avx512

MOST_IMAGES = 32
EIGHT, BLOCK = CONSTANTS["SMALL_BATCH_IMAGES"], CONSTANTS["SMALL_BATCH_FEATURES"]
"""Images, and features, that go together."""


class SmallBatchProduct:
    """The stages of y = x Wᵀ + b for few images, over plain buffers of float32 or of bf16."""

    def __init__(self, images: int, outputs: int, features: int, dtype: str, *, relu: bool) -> None:
        self.images, self.outputs, self.features = images, outputs, features
        self.narrow = dtype == "bf16"
        sizes = {"images": images, "outputs": outputs, "features": features}
        self.numbers = {**sizes, "narrow": self.narrow, "relu": relu}
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
        lines = rounded_up(self._bytes(1, self.features), ALIGNMENT)
        buffers = {
            "x": (x, self._bytes(self.images, self.features)),
            "w": (weight, self._bytes(self.outputs, self.features)),
            "bias": (bias, 4 * self.outputs),
            "y": (y, self._bytes(self.images, self.outputs)),
            "scratch": ("scratch", self.padded * (lines + 4 * rounded_up(self.outputs, 2))),
        }
        return [HelperCall(buffers, "small_batch", self.numbers)]

    def data(self, dy: str, weight: str, dx: str) -> list[Call]:
        """Return the calls of dx = dy W."""
        tops = -(-self.outputs // 2) if self.narrow else self.outputs
        scratch = 4 * (rounded_up(tops * self.padded, LANES) + rounded_up(self.features, BLOCK) * self.padded)
        buffers = {
            "dy": (dy, self._bytes(self.images, self.outputs)),
            "w": (weight, self._bytes(self.outputs, self.features)),
            "dx": (dx, self._bytes(self.images, self.features)),
            "scratch": ("scratch", scratch),
        }
        return [HelperCall(buffers, "small_batch_data", self.numbers)]

    def weights(self, x: str, dy: str, dw: str, db: str) -> list[Call]:
        """Return the calls of dw = dyᵀ x and of db, all of float32; `db` is "" where there is none."""
        buffers = {
            "x": (x, 4 * self.images * self.features),
            "dy": (dy, 4 * self.images * self.outputs),
            "dw": (dw, 4 * self.outputs * self.features),
            "db": (db, 4 * self.outputs),
        }
        return [HelperCall(buffers, "small_batch_weights", self.numbers)]
