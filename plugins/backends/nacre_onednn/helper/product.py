"""Products of matrices of float32 by the helper: see product.c."""

from __future__ import annotations

from collections.abc import Mapping

from nacre import number_of_threads

from ..dnnl.primitives import Call, HelperCall
from ..record import rounded_up
from .native import CONSTANTS, LANES, lanes

DEPTH, TOGETHER = CONSTANTS["PRODUCT_DEPTH"], CONSTANTS["PRODUCT_TOGETHER"]


class PanelProduct:
    """The stages of y = x Wᵀ + b over plain buffers: x (rows, features), W (outputs, features), y (rows, outputs).

    Args:
        keeps: whether the panels of the weights are kept from pass to pass.
    """

    def __init__(self, rows: int, features: int, outputs: int, *, keeps: bool) -> None:
        self.rows, self.features, self.outputs, self.keeps = rows, features, outputs, keeps

    @property
    def usual(self) -> bool:
        """Whether it can be computed here."""
        return lanes() > 0

    def forward(self, x: str, weight: str, bias: str, y: str, *, relu: bool = False) -> list[Call]:
        """Return the calls of y; `bias` is "" where there is none. `relu`: with ReLU behind it."""
        panels, laying = self._weight(weight, {"inner": self.features, "columns": self.outputs, "turned": 1})
        sizes = {"rows": self.rows, "inner": self.features, "columns": self.outputs, "relu": relu}
        return [laying, self._product(x, panels, y, sizes, bias)]

    def data(self, dy: str, weight: str, dx: str) -> list[Call]:
        """Return the calls of dx = dy W."""
        panels, laying = self._weight(weight, {"inner": self.outputs, "columns": self.features})
        sizes = {"rows": self.rows, "inner": self.outputs, "columns": self.features}
        return [laying, self._product(dy, panels, dx, sizes)]

    def weights(self, x: str, dy: str, dw: str) -> list[Call]:
        """Return the calls of dW = dyᵀ x."""
        sizes = {"inner": self.rows, "columns": self.features}
        product = {"rows": self.outputs, **sizes, "turned": 1}
        return [_panels(x, "panels", sizes, self.features), self._product(dy, "panels", dw, product)]

    def _weight(self, weight: str, sizes: Mapping[str, int]) -> tuple[str, Call]:
        """Return the buffer of the panels of the weights, and the call that makes them."""
        turned = sizes.get("turned", 0)
        panels = f"{'Panels' if self.keeps else 'panels'} of {weight}{' turned' if turned else ''}"
        return panels, _panels(weight, panels, sizes, self.features, once=self.keeps)

    def _product(self, a: str, panels: str, c: str, sizes: Mapping[str, int], bias: str = "") -> Call:
        rows, inner, columns = sizes["rows"], sizes["inner"], sizes["columns"]
        workers = number_of_threads()
        apart = rows if sizes.get("turned") else inner
        buffers = {
            "a": (a, 4 * rows * inner),
            "panels": (panels, _bytes(inner, columns)),
            "bias": (bias, 4 * columns),
            "c": (c, 4 * rows * columns),
            "scratch": ("scratch", 4 * workers * TOGETHER * (DEPTH * lanes() + LANES)),
        }
        return HelperCall(buffers, "product", {**sizes, "apart": apart}, workers)


def _panels(b: str, panels: str, sizes: Mapping[str, int], apart: int, *, once: bool = False) -> Call:
    """Return the call that lays a matrix into panels."""
    inner, columns = sizes["inner"], sizes["columns"]
    buffers = {"b": (b, 4 * inner * columns), "panels": (panels, _bytes(inner, columns))}
    return HelperCall(buffers, "product_panels", {**sizes, "apart": apart}, once=once)


def _bytes(inner: int, columns: int) -> int:
    return 4 * inner * rounded_up(columns, 2 * lanes())
