"""Updates of parameters in one pass over memory, by the helper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import Array, ComponentKernel, MethodState, Span

from ..helper.native import MISSING, helper
from ..record import Record, recorder


class SGDKernel(MethodState):
    """SGD with momentum, and the product of values and gradients."""

    dtypes = ("float32",)

    @classmethod
    def supports(cls, method: Any, spans: Sequence[Span]) -> str | None:
        return None if helper() is not None else MISSING

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.velocity = self.history("velocity")
        self.products = np.zeros((len(spans), backend.backend.threads))

    def update(self) -> None:
        scalars, record = self.backend.scalars, recorder(self.backend).record
        indices = {name: scalars.place(name) for name in ("rate", "momentum")}
        for span, v, products in zip(self.spans, self.velocity, self.products, strict=True):
            copied = self._copied(span, record)
            arrays = {"w": span.value, "g": span.gradient, "v": v, "products": products, "copied": copied}
            numbers = {"size": span.value.size, "n_copied": len(copied), "factor": span.rate, **indices}
            record.add("update", {**arrays, "scalars": record.read(scalars)}, numbers)

    def _copied(self, span: Span, record: Record) -> Array:
        """Return a row for each parameter that has a copy in bf16: the fields of `copied` in operations.h, in order."""
        found: list[tuple[int, int, int]] = []
        for piece in span.pieces:
            if (narrow := recorder(self.backend).narrow_of(piece.storage)) is not None:
                found.append((piece.offset, piece.end, narrow.array.ctypes.data))
                record.written.append(narrow)
        return np.array(found, np.int64).reshape(-1, 3)

    def product(self) -> float:
        return sum(self.products.ravel().tolist())  # a few numbers: half the time of NumPy's sum


class AdamKernel(MethodState):
    """Adam and AdamW, and the product of values and gradients."""

    dtypes = ("float32",)

    @classmethod
    def supports(cls, method: Any, spans: Sequence[Span]) -> str | None:
        return None if helper() is not None else MISSING

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.plain = method.setup(backend, spans)  # has the histories, and counts
        self.histories = self.plain.histories
        self.advance, self.memory, self.remember = self.plain.advance, self.plain.memory, self.plain.remember
        self.products = np.zeros((len(spans), backend.backend.threads))

    def update(self) -> None:
        method, scalars, record = self.method, self.backend.scalars, recorder(self.backend).record
        names = {"rate": "rate", "correction": "adam_factor", "epsilon": "adam_epsilon"}
        numbers: dict[str, float] = {field: scalars.place(name) for field, name in names.items()}
        numbers |= {"inside": method.epsilon_place == "inside", "beta1": method.beta1, "beta2": method.beta2}
        histories = (self.histories[name] for name in ("mean", "square"))
        for span, m, v, products in zip(self.spans, *histories, self.products, strict=True):
            arrays = {"w": span.value, "g": span.gradient, "m": m, "v": v, "products": products}
            sizes = {"size": span.value.size, "factor": span.rate}
            record.add("adam", {**arrays, "scalars": record.read(scalars)}, {**numbers, **sizes})

    def product(self) -> float:
        return sum(self.products.ravel().tolist())  # a few numbers: half the time of NumPy's sum


class L2Kernel(ComponentKernel):
    """Adds a multiple of a parameter to its gradient."""

    dtypes = ("float32",)

    @classmethod
    def supports(cls, component: Any, inputs: list[Any]) -> str | None:
        return None if helper() is not None else MISSING

    def add_gradient(self, backend: Any, value: Array, gradient: Array, coefficient: float) -> None:
        numbers = {"size": value.size, "coefficient": coefficient}
        recorder(backend).record.add("decay", {"w": value, "g": gradient}, numbers)
