"""The cupy backend's updates, on the processor, against the methods' own states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cuda_bench import near
from cuda_on_host import ShimBackend, missing
from nacre import HostMemory, Method, Span
from nacre.protocols.view import Scalars, View
from nacre_cupy.kernels import update
from nacre_solvers import SGD, AdaDelta, AdaGrad, Adam, AdaMax, AdamW, Nesterov, RMSProp

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

METHODS: list[tuple[Method, type[update.UpdateKernel]]] = [
    (SGD(), update.SGDKernel),
    (Nesterov(), update.NesterovKernel),
    (AdaGrad(), update.AdaGradKernel),
    (AdaGrad(epsilon_place="inside", epsilon=1e-3), update.AdaGradKernel),
    (RMSProp(rho=0.9), update.RMSPropKernel),
    (RMSProp(centered=True, epsilon=1e-3), update.RMSPropKernel),
    (AdaDelta(), update.AdaDeltaKernel),
    (Adam(), update.AdamKernel),
    (Adam(epsilon_place="inside", bias_correction=False), update.AdamKernel),
    (AdamW(epsilon_place="uncorrected"), update.AdamKernel),
    (AdaMax(), update.AdaMaxKernel),
]
SIZES = (1, 37, 20_000, 64)
"""Of the spans: some are no whole vector, and one is several chunks."""


def at_work(kernel: Any, method: Method, backend: Any, dtype: str, spans: Sequence[Span]) -> tuple[Any, Scalars]:
    scalars = Scalars()
    view = View(backend, phase="train", dtype=dtype, seed=0, scalars=scalars)
    return (kernel(method, view, spans) if kernel else method.setup(view, spans)), scalars


def updated(state: Any) -> None:
    """Update, after the scalars were sent to where a kernel reads them."""
    if isinstance(state, update.UpdateKernel):
        state.backend.backend.scalars(state.backend)
    state.update()


def make_spans(backend: Any, dtype: str, values: Sequence[Any]) -> list[Span]:
    def on(array: Any) -> Any:
        made = backend.empty(array.shape, dtype)
        made[...] = array
        return made

    return [Span(on(one), on(np.zeros_like(one)), 0.5 + number, ()) for number, one in enumerate(values)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("method", "kernel"), METHODS, ids=repr)
def test_method(method: Method, kernel: type, dtype: str) -> None:
    random = np.random.default_rng(0)
    values = [random.normal(size=size) for size in SIZES]
    backend = ShimBackend()
    sides = []
    for made, where in ((kernel, backend), (None, HostMemory.shared())):
        spans = make_spans(where, dtype, values)
        state, scalars = at_work(made, method, where, dtype, spans)
        sides.append((state, scalars, spans))
    for turn in range(4):
        gradients = [random.normal(size=size) * 10.0**-turn for size in SIZES]
        for state, scalars, spans in sides:
            scalars["rate"], scalars["momentum"] = 0.1 / (turn + 1), 0.9 - 0.1 * turn
            for span, gradient in zip(spans, gradients, strict=True):
                span.gradient[...] = gradient
            state.advance()
            updated(state)
        (fast, _, ours), (own, _, theirs) = sides
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            near(one.value, other.value, dtype, f"value {number} after {turn + 1} updates")
            assert (one.gradient == other.gradient).all()
            for name, arrays in own.histories.items():
                near(fast.histories[name][number], arrays[number], dtype, f"{name} {number}")
        assert fast.product() == pytest.approx(own.product(), rel=1e-4, abs=1e-6)
        assert fast.memory() == own.memory()
    backend.check_guards()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("method", "kernel"), METHODS, ids=repr)
def test_numbers_that_are_not_ordinary(method: Method, kernel: type, dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    every = np.array([0.0, 1.0, largest, -largest, np.inf, np.nan, 1e-30, -2.0])
    values, gradients = np.repeat(every, 8), np.tile(every, 8)
    states = []
    for made, where in ((kernel, ShimBackend()), (None, HostMemory.shared())):
        spans = make_spans(where, dtype, [values])
        state, scalars = at_work(made, method, where, dtype, spans)
        scalars["rate"], scalars["momentum"] = 0.1, 0.5
        spans[0].gradient[...] = gradients
        with np.errstate(all="ignore"):
            for _ in range(2):
                state.advance()
                updated(state)
        states.append(spans[0].value)
    near(*states, dtype, "value", each=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_product_tells_what_is_not_finite(dtype: str) -> None:
    for place, bad in ((0, np.nan), (19_999, np.inf), (9_000, -np.inf)):
        for where in ("value", "gradient"):
            spans = make_spans(backend := ShimBackend(), dtype, [np.ones(7), np.ones(20_000)])
            state, scalars = at_work(update.SGDKernel, SGD(), backend, dtype, spans)
            scalars["rate"] = 0.5
            getattr(spans[1], where)[place] = bad
            updated(state)
            assert not np.isfinite(state.product())
            assert np.isfinite(np.delete(spans[1].value, place)).all()


def test_without_parameters_nothing_is_launched() -> None:
    state, _ = at_work(update.AdamKernel, Adam(), ShimBackend(), "float32", [])
    state.update()
    assert state.product() == 0
