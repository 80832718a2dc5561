"""Products of matrices by the helper: of float32, see product.c and product_amx.c; gradients in bf16, see pairs.c."""

from __future__ import annotations

from collections.abc import Mapping

from nacre import number_of_threads

from ..dnnl.primitives import Call, HelperCall
from ..record import rounded_up
from .native import CONSTANTS, LANES, lanes

DEPTH, SHALLOW, TOGETHER = (CONSTANTS[f"PRODUCT_{name}"] for name in ("DEPTH", "SHALLOW", "TOGETHER"))

MOST_PARTS, LEAST_ROWS = 8, 1024
"""Parts of the rows whose products are added up apart from each other, at most, and the rows of one, at least."""


class PanelProduct:
    """The stages of y = x Wᵀ + b over plain buffers: x (rows, features), W (outputs, features), y (rows, outputs).

    Args:
        keeps: whether the panels of the weights are kept from pass to pass.
        split: whether AMX multiplies, numbers as three of bf16 each.
    """

    def __init__(self, rows: int, features: int, outputs: int, *, keeps: bool, split: bool = False) -> None:
        self.rows, self.features, self.outputs, self.keeps, self.split = rows, features, outputs, keeps, split

    def forward(self, x: str, weight: str, bias: str, y: str, added: str = "", *, relu: bool = False) -> list[Call]:
        """Return the calls of y + added, with ReLU behind if `relu`; a name is "" where there is none."""
        panels, laying = self._weight(weight, {"inner": self.features, "columns": self.outputs, "turned": 1})
        sizes = {"rows": self.rows, "inner": self.features, "columns": self.outputs, "relu": relu}
        return [laying, self._product(x, panels, y, sizes, bias, added)]

    def data(self, dy: str, weight: str, dx: str) -> list[Call]:
        """Return the calls of dx = dy W."""
        panels, laying = self._weight(weight, {"inner": self.outputs, "columns": self.features})
        sizes = {"rows": self.rows, "inner": self.outputs, "columns": self.features}
        return [laying, self._product(dy, panels, dx, sizes)]

    def weights(self, x: str, dy: str, dw: str, db: str = "") -> list[Call]:
        """Return the calls of dW = dyᵀ x, and of db, the sum of the rows of dy, if it is wanted.

        Rows are added up in parts, whose number does not depend on that of the threads, so that the bits do not either.
        """
        workers, size = number_of_threads(), 4 * self.outputs * self.features
        parts = max(1, min(MOST_PARTS, self.rows // LEAST_ROWS))
        apart = parts > 1 or self.features < self.outputs
        buffers = {
            "x": (x, 4 * self.rows * self.features),
            "dy": (dy, 4 * self.rows * self.outputs),
            "dw": (dw, size),
            "db": (db, 4 * self.outputs),
            "scratch": ("scratch", workers * (self._room + (0 if self.split else 4 * 2 * SHALLOW * lanes()))),
            "sums": ("sums" if apart else "", parts * (size + 4 * self.outputs)),
        }
        sizes = {"rows": self.rows, "outputs": self.outputs, "features": self.features, "parts": parts}
        return [HelperCall(buffers, "product_gradient", {**sizes, "split": self.split}, workers)]

    def _weight(self, weight: str, sizes: Mapping[str, int]) -> tuple[str, Call]:
        """Return the buffer of the panels of the weights, and the call that makes them."""
        turned = sizes.get("turned", 0)
        kind = f"{'Panels' if self.keeps else 'panels'}{' in parts' if self.split else ''}"
        panels = f"{kind} of {weight}{' turned' if turned else ''}"
        inner, columns = sizes["inner"], sizes["columns"]
        buffers = {"b": (weight, 4 * inner * columns), "panels": (panels, self._bytes(inner, columns))}
        numbers = {**sizes, "apart": self.features, "split": self.split}
        return panels, HelperCall(buffers, "product_panels", numbers, once=self.keeps)

    def _product(self, a: str, panels: str, c: str, sizes: Mapping[str, int], bias: str = "", added: str = "") -> Call:
        rows, inner, columns = sizes["rows"], sizes["inner"], sizes["columns"]
        workers = number_of_threads()
        buffers = {
            "a": (a, 4 * rows * inner),
            "panels": (panels, self._bytes(inner, columns)),
            "bias": (bias, 4 * columns),
            "other": (added, 4 * rows * columns),
            "c": (c, 4 * rows * columns),
            "scratch": ("scratch", workers * self._room),
        }
        return HelperCall(buffers, "product", {**sizes, "split": self.split}, workers)

    @property
    def _room(self) -> int:
        """How many bytes the tiles take on which a thread works at a time."""
        return 2 * CONSTANTS["SPLIT_ROOM"] if self.split else 4 * TOGETHER * (DEPTH * lanes() + LANES)

    def _bytes(self, inner: int, columns: int) -> int:
        if self.split:
            side = CONSTANTS["SPLIT_SIDE"]
            return 6 * rounded_up(inner, side) * rounded_up(columns, side)
        return 4 * inner * rounded_up(columns, 2 * lanes())


def weights_in_pairs(x: str, dy: str, dw: str, db: str, *, rows: int, features: int, outputs: int) -> list[Call]:
    """Return the calls of dW = dyᵀ x, and of db, the sum of the rows of dy, if it is wanted; x and dy are of bf16."""
    workers = number_of_threads()
    buffers = {
        "x": (x, 2 * rows * features),
        "dy": (dy, 2 * rows * outputs),
        "dw": (dw, 4 * outputs * features),
        "db": (db, 4 * outputs),
        "scratch": ("scratch", workers * CONSTANTS["PAIRS_ROOM"]),
    }
    return [HelperCall(buffers, "pairs_gradient", {"rows": rows, "outputs": outputs, "features": features}, workers)]
