"""Updates of all parameters of a net in one launch, for every method of nacre_solvers: see update.cu."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from nacre import MethodState, Span

from .launch import THREADS, function, scalars

CHUNK = 1 << 13
"""Numbers that a block changes: some 32 for each of its threads."""
KINDS = {"float32": "float", "float64": "double"}


class UpdateKernel(MethodState):
    """A method of nacre's; histories, counts and what is saved are those of its own state."""

    dtypes = tuple(KINDS)
    capturable = True
    name: str
    """That of the method in update.cu."""
    first: ClassVar[str] = ""
    """The scalar that multiplies the rate, if the method has one."""
    second: ClassVar[str] = ""
    """Another scalar of the method's."""

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.plain = method.setup(backend, spans)
        self.histories, self.advance = self.plain.histories, self.plain.advance
        rows = [row for number in range(len(self.spans)) for row in self._chunks(number)]
        rates = np.array([rate for rate, _ in rows])
        table = np.array([row for _, row in rows], np.int64).reshape(-1, 6)
        self.count = len(rows)
        self.rates, self.table = backend.constant(rates, "float64"), backend.constant(table, "int64")
        self.known = scalars(backend)
        self.products = backend.empty((max(1, self.count),), "float64")

    def coefficients(self) -> tuple[float, ...]:
        """Return up to three fields of the method, as update.cu has them."""
        return ()

    def _chunks(self, number: int) -> Iterator[tuple[float, list[int]]]:
        """Yield the rows of a span in the table, each after the span's rate."""
        span = self.spans[number]
        arrays = [span.value, span.gradient, *(array[number] for array in self.histories.values())]
        starts = [array.data.ptr for array in arrays] + [0] * (5 - len(arrays))
        size, item = span.value.shape[0], span.value.dtype.itemsize
        for start in range(0, size, CHUNK):
            yield span.rate, [*(one + item * start if one else 0 for one in starts), min(CHUNK, size - start)]

    def update(self) -> None:
        if not self.count:
            return
        places = [
            self.backend.scalars.place(name) if name else -1 for name in ("rate", "momentum", self.first, self.second)
        ]
        a, b, c, *_ = (*map(float, self.coefficients()), 0.0, 0.0, 0.0)
        inside = int(getattr(self.method, "epsilon_place", "") == "inside")
        kind = KINDS[str(self.spans[0].value.dtype)]
        arguments = (self.table, self.rates, self.count, self.products, self.known, *places, a, b, c, inside)
        function(self.backend, "update", f"update<{kind}, {self.name}>")((self.count,), (THREADS,), arguments)

    def product(self) -> float:
        return float(self.backend.xp.sum(self.products))

    def memory(self) -> Mapping[str, Any]:
        return self.plain.memory()

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.plain.remember(memory)


class SGDKernel(UpdateKernel):
    """SGD with momentum."""

    name = "SGD"


class NesterovKernel(UpdateKernel):
    """SGD that looks ahead."""

    name = "Nesterov"


class AdaGradKernel(UpdateKernel):
    """AdaGrad."""

    name = "AdaGrad"

    def coefficients(self) -> tuple[float, ...]:
        return (self.method.epsilon,)


class RMSPropKernel(UpdateKernel):
    """RMSProp, centered or not."""

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.name = "CenteredRMSProp" if method.centered else "RMSProp"

    def coefficients(self) -> tuple[float, ...]:
        return self.method.rho, self.method.epsilon


class AdaDeltaKernel(UpdateKernel):
    """AdaDelta."""

    name = "AdaDelta"

    def coefficients(self) -> tuple[float, ...]:
        return self.method.rho, self.method.epsilon


class AdamKernel(UpdateKernel):
    """Adam and AdamW."""

    name = "Adam"
    first, second = "adam_factor", "adam_epsilon"

    def coefficients(self) -> tuple[float, ...]:
        return self.method.beta1, self.method.beta2


class AdaMaxKernel(UpdateKernel):
    """AdaMax."""

    name = "AdaMax"
    first = "adamax_factor"

    def coefficients(self) -> tuple[float, ...]:
        return self.method.beta1, self.method.beta2, self.method.epsilon
