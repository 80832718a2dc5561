"""A bias with a ReLU behind it, its gradient, and that below the ReLU: see bias.cu."""

from __future__ import annotations

from typing import Any

from nacre import Array

from .blobs import kind_of
from .launch import LANES, THREADS, function, launch

MOST_PARTS = 128
"""Parts in which a channel is summed up, at most."""
ROWS = 16
"""Numbers of a channel that a thread adds up, at least, before there is another part."""


def add_bias(view: Any, y: Array, bias: Array | None, channels: int, *, relu: bool) -> None:
    """Add a bias of float32, if there is one, to an array (rows, channels), and set to 0 what is below it (`relu`)."""
    kind = kind_of(y)
    items = -(-y.size // (LANES[kind] if channels % LANES[kind] == 0 else 1))
    launch(view, "bias", f"bias_add<{kind}>", items, y, bias, y.size, channels, int(relu))


class BiasGradient:
    """Sums over the rows of arrays (rows, channels), such as images with the channels last."""

    def __init__(self, view: Any, rows: int, channels: int) -> None:
        self.view, self.shape = view, (rows, channels)
        self.n_parts = parts_of(rows, channels)
        self.parts = view.empty((self.n_parts, channels), "float64")

    def enqueue(self, dy: Array, gradient: Array | None, y: Array | None = None, below: Array | None = None) -> None:
        """Write the sums of `dy` into `gradient`; with `y`, of what is left of it in `below`: dy where y is above 0.

        Sums that nobody wants (None) are not written.
        """
        (rows, channels), kind = self.shape, kind_of(dy)
        blocks = -(-channels // THREADS) * self.n_parts
        given = tuple(0 if one is None else one for one in (y, dy, below))
        run = function(self.view, "bias", f"bias_parts<{kind}>")
        run((blocks,), (THREADS,), (*given, self.parts, self.n_parts, rows, channels))
        if gradient is not None:
            total(self.view, self.parts, gradient)


def parts_of(rows: int, channels: int, most: int = MOST_PARTS) -> int:
    """Return in how many parts the rows of an array (rows, channels) are summed up."""
    lines = THREADS // min(channels, THREADS)
    return max(1, min(-(-rows // (lines * ROWS)), most))


def total(view: Any, parts: Array, gradient: Array) -> None:
    """Add up parts (parts, channels) of float64, each of which may be a sum over some rows."""
    n_parts, channels = parts.shape
    name = f"bias_total<{kind_of(gradient)}>"
    launch(view, "bias", name, -(-channels // 32) * THREADS, parts, gradient, n_parts, channels)
