"""KernelTests: what every kernel has to do: give what the layer's own state gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from ..discovery.registry import registry
from ..errors import ContractError
from ..protocols.array import DTYPES
from ..protocols.backend import open_backend
from ..protocols.state import LayerState
from .layers import check_kernel, check_narrow, check_phases, run_strategy
from .states import DRAWS_EXAMPLES, READS, StateTests, after
from .suite import When, only
from .trial import Example

FUSES = When("kernels with `fuses`", lambda suite: bool(suite.kernel.fuses))
NARROWER = When("kernels whose `dtypes` has narrower types, such as bf16", lambda suite: bool(_narrower(suite.kernel)))


def _narrower(kernel: type[LayerState]) -> list[str]:
    return [name for name in kernel.dtypes if name not in DTYPES]


class KernelTests(StateTests):
    """The tests of a kernel, whether it is offered or not.

    An author gives examples of the layer:

        class TestSwirlKernel(KernelTests):
            layer = SwirlLayer
            kernel = SwirlKernel
            backend_name = "numpy"

            def examples(self):
                yield Example(fields={"angle": 0.5}, inputs=[(4, 2, 8, 8)])

            def strategy(self):  # optional, with hypothesis
                return st.builds(lambda n: Example(inputs=[(n, 2, 5, 5)]), st.integers(1, 6))

    Tops, losses, statistics and gradients must be those of the layer's own state on the same backend: to 1e-10 of
    their norm in float64, 1e-5 in float32, and 2e-2 in a narrower type that its `dtypes` has. What the kernel declines
    (`dtypes`, `supports`) is no failure; it is counted and recorded with the reason (`pytest -rP` shows it), and a
    kernel that declines everything fails.

    Attributes:
        layer: the class of the layer.
        kernel: the class of the kernel.
        backend_name: the backend whose kernel it is; those for which it is offered unless given.
    """

    kernel: ClassVar[type[LayerState]]
    backend_name: ClassVar[str] = ""

    def kernel_on(self, backend: Any) -> tuple[type[LayerState], str]:
        return self.kernel, str(backend)

    def backends(self) -> list[str]:
        if self.backend_name:
            return [self.backend_name]
        here = registry()
        offers = [offer for offer in here.offers("kernel") if here.opens_to(offer, self.kernel)]
        if not offers:
            told = f"{type(self).__name__} does not say whose kernel {self.kernel.__name__} is, which nobody offers"
            raise ContractError(told, 'name the backend in the class: backend_name = "..."')
        return sorted({offer.name.rpartition("@")[2] for offer in offers})

    def test_against_state(self, backend: str, dtype: str, example: Example) -> None:
        """The kernel gives what the layer's own state gives, for every example that it does not decline."""
        with self.naming_faults(backend, dtype, example):
            reason = check_kernel(self, (self.kernel, backend), backend, dtype, example)
        if reason:
            pytest.skip(f"the kernel declines: {reason}")

    @only(NARROWER)
    @after("against_state")
    def test_narrow(self, backend: str, example: Example) -> None:
        """In a net that computes in a narrower type, the kernel gives what the layer's own state gives in float32."""
        opened = open_backend(backend)
        for dtype in _narrower(self.kernel):
            if dtype not in opened.computes:
                pytest.skip(opened.lacks.get(dtype, f"{backend} does not compute in {dtype}"))
            if reason := check_narrow(self, (self.kernel, backend), backend, dtype, example):
                pytest.skip(f"the kernel declines: {reason}")

    @only(READS)
    @after("against_state")
    def test_phases(self, backend: str, dtype: str, example: Example) -> None:
        """The kernel does in every phase what the layer's own state does, and in those that an algorithm defines."""
        with self.tried(example, backend, dtype) as fast, self.trial(example, backend, dtype) as own:
            check_phases(fast, own, self.kernel.__qualname__)

    def test_serves(self, backend: str, record_property: Callable[[str, object], None]) -> None:
        """The kernel serves at least one example."""
        served, declined = 0, list[str]()
        for dtype in self.dtypes:
            for number, example in enumerate(self.examples()):
                with self.trial(example, backend, dtype, kernel=(self.kernel, backend)) as trial:
                    if trial.op.kernel:
                        served += 1
                    else:
                        reasons = "; ".join(reason for _, reason in trial.op.choice.declined)
                        declined.append(f"{dtype}, example {example.label or number}: {reasons}")
        record_property("served", served)
        record_property("declined", declined)
        print(f"{self.kernel.__qualname__}: served {served}, declined {len(declined)}", *declined, sep="\n  ")  # noqa: T201 - the report
        assert served, "the kernel declines every example:\n  " + "\n  ".join(declined)

    @only(FUSES)
    def test_fused_neurons(self, backend: str, dtype: str) -> None:
        """The kernel applies each neuron that it names in `fuses`, as the neuron itself does."""
        for name, example in itertools.product(self.kernel.fuses, self.examples()):
            fused = replace(example, fields={**example.fields, "neuron": name})
            check_kernel(self, (self.kernel, backend), backend, dtype, fused, variants=False)

    @only(DRAWS_EXAMPLES)
    def test_random_shapes(self, backend: str, dtype: str) -> None:
        """The kernel gives what the layer's own state gives, for the examples that `strategy` draws."""
        served = 0

        def check(example: Example) -> None:
            nonlocal served
            served += check_kernel(self, (self.kernel, backend), backend, dtype, example, variants=False) is None

        run_strategy(self, check)
        declares = self.kernel.dtypes
        assert served or (declares and dtype not in declares), "the kernel declines all that the strategy draws"
