"""LayerTests: what every layer has to do, on every backend that can be used here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from ..errors import ContractError, NacreError
from ..fields.tables import table_of
from ..graph.containers import inner_layers, names_in
from ..protocols.array import DTYPES
from ..protocols.backend import HostMemory, open_backend
from ..protocols.blob import Blob
from ..protocols.layer import PHASES, Phase, layer_type, statistic_of_classes
from ..protocols.making import fresh
from ..protocols.state import LayerState, SourceState
from ..random import Random
from .close import (
    GRADIENT_TOLERANCES,
    KERNEL_TOLERANCES,
    NARROW_TOLERANCE,
    assert_close,
    assert_near,
    assert_near_above,
    both_zero,
)
from .gradients import ENTRIES, numerical_gradient, worst_error
from .parts import check_partition, why_uncut
from .states import (
    CONTAINER,
    COUNTS,
    CUT,
    DRAWS_EXAMPLES,
    HAS_GRADIENTS,
    ONE_STATE,
    READS,
    REPORTS,
    ROOTS,
    Look,
    StateTests,
    after,
    in_reverse,
)
from .suite import Suite, only
from .trial import Example, Trial, offered_kernels

NARROW = ("uint8", "int8", "bool")
"""The types in which sums and products of numbers that they hold are easily too large."""

CANCELLED = 1 / 40
"""The share of the norm of its terms below which a parameter's gradient, such as a bias's, is what roundings leave of a
sum whose terms cancel; it is compared as if it were so large."""

CANCELLED_NARROW = 1 / 4
"""The same in types of fewer digits than float32."""


class LayerTests(StateTests):
    """The tests of a layer.

    An author gives examples and a naive reference:

        class TestDouble(LayerTests):
            layer = DoubleLayer

            def examples(self):
                yield Example(fields={"factor": 3.0}, inputs=[(4, 2)])

            def reference(self, layer, inputs, parameters):
                return [layer.factor * x for x in inputs]

    and pytest runs all methods `test_...` below, on every backend that can be used here, in float64 and float32, for
    every example. The layer runs by its own state; its kernels are compared with that in `test_kernels`.

    Tests that do not apply to a layer of its traits do not exist (a layer that cannot do back-propagation has no
    gradient tests; a container has tests of its own instead of those of one state); none can be switched off, but
    `expected_failures = {"rows": "the reason"}` lets one fail: see `Checks`.

    Attributes:
        layer: the class.
        dtypes: the types it works in.
        is_random: whether it draws random numbers in phase `train`.
        tolerances: see `nacre.testing.TOLERANCES`.
        entries: numbers of each gradient that are compared with central differences; all, of up to so many.
        phase: while `reference` runs, the phase of the net.
        max_examples: how many examples `strategy` gives.
    """

    is_random: ClassVar[bool] = False
    entries: ClassVar[int] = ENTRIES
    phase: Phase = "train"
    IN_TURNS = frozenset(
        f"test_{name}"
        for name in (
            *("traits", "shapes", "plans_without_memory", "shutdown", "memory", "random_numbers", "memory_is_shared"),
            *("forward_twice", "inputs_are_left_alone", "without_gradients", "whole_numbers"),
            *("gradients_are_written", "unwanted_gradients", "reads"),
            *(
                "partition",
                "scratch",
                "moved_memory",
                "two_instances",
                "frozen_parameters",
                "elementwise",
                "growth",
                "global_state",
            ),
        )
    )
    OF_THE_FIRST = frozenset({"test_growth", "test_global_state", "test_partition", "test_two_instances"})

    def reference(self, layer: Any, inputs: list[np.ndarray], parameters: dict[str, np.ndarray]) -> Any:
        """Compute the layer's results naively: a list of tops, a loss, a dict of statistics, or a tuple of these.

        Args:
            layer: the layer.
            inputs: what the bottoms hold; floating ones are float64.
            parameters: by their names in the layer, as before the pass.

        `self.phase` is the net's, `self.random` gives the numbers that the layer draws (`nacre.random.Random`).
        """
        raise ContractError(f"{type(self).__name__} does not define reference()")

    random: Random

    # What must hold

    @only(ONE_STATE)
    def test_examples(self, backend: str) -> None:
        """The examples show what the class promises: parameters, gradients that can be checked, and parts."""
        parameters = numbers = 0
        uncut: list[str | None] = []
        for example in self.examples():
            with self.trial(example, backend, self.dtypes[0]) as trial:
                uncut.append(why_uncut(trial, 2))
                parameters += len(trial.op.state.parameters)
                if trial.differentiates:
                    trial.forward()
                    numbers += sum(one.size for one in trial.gradients().values())
        assert parameters or not self.layer.has_param, "has_param is declared, but no example has a parameter"
        assert numbers or not self.layer.can_do_bp, "can_do_bp is declared, but no example has a gradient to check"
        if CUT.holds(type(self)):
            assert None in uncut, f"partition is defined, but no example can be cut: {'; '.join(map(str, uncut))}"

    @only(ONE_STATE)
    def test_traits(self, backend: str, dtype: str, example: Example) -> None:
        """The state does what the class line declares."""
        with self.trial(example, backend, dtype) as trial:
            loss, state, layer = trial.forward(), trial.op.state, trial.layer
            assert np.isfinite(loss), f"the loss of the net is {loss}"
            if layer.has_loss:
                assert isinstance(trial.loss(), float)
            if layer.has_stats:
                statistics = state.dump_statistics()
                assert statistics, "has_stats, but dump_statistics gives nothing"
                assert all(isinstance(value, float | int) for value in statistics.values()), statistics
                declared = not layer.statistics or any(statistic_of_classes(layer, one)[0] for one in statistics)
                assert declared, (
                    f"dump_statistics gives {', '.join(statistics)}, but the class line declares "
                    f"{', '.join(layer.statistics)}: use the same names"
                )
            if isinstance(state, SourceState):
                assert all(0 < state.rows <= one.shape[0] for one in trial.results()), f"rows is {state.rows}"
                state.rewind()
                trial.forward()
            if layer.is_inplace:
                above, below = (
                    [(one.shape, one.dtype) for one in values] for values in (trial.op.outputs, trial.op.inputs)
                )
                assert above == below, f"in place, but makes {above} of {below}"
            if not layer.can_do_bp:
                state.backward(trial.op.input_arrays, [None] * len(trial.arrays))
            names = [parameter.name for parameter in state.parameters]
            assert len(set(names)) == len(names), f"two parameters have one name: {names}"

    def test_shapes(self, backend: str, dtype: str, example: Example) -> None:
        """The blobs have the shapes and types that `setup` declared, and those of the reference."""
        with self.trial(example, backend, dtype, allocate=False) as planned:
            declared = [
                (value.shape, value.dtype) for value in map(planned.net.memory.final.get, planned.tops) if value
            ]
        with self.trial(example, backend, dtype) as trial:
            expected = self._expected(trial)
            trial.forward()
            real = [(one.shape, str(one.dtype)) for one in trial.results()]
        assert declared == real, f"setup declared {declared}, but the tops are {real}"
        for part in expected:
            if isinstance(part, list):
                shapes = [np.shape(one) for one in part]
                assert [shape for shape, _ in real] == shapes, f"the tops are {real}, but the reference gives {shapes}"

    def test_forward(self, backend: str, dtype: str, example: Example) -> None:
        """Tops, loss and statistics are those of the reference, in all four phases."""
        with self.naming_faults(backend, dtype, example):
            for phase in PHASES:
                with self.trial(example, backend, dtype, phase=phase) as trial:
                    if not trial.ops:
                        continue
                    before = trial.parameters()
                    self._check_forward(trial, f"phase {phase}")
                    if phase == "train":
                        self._check_changed(trial)
                    else:
                        self._check_buffers(trial, before)

    @only(HAS_GRADIENTS)
    def test_gradients(self, backend: str, dtype: str, example: Example) -> None:
        """Gradients are those of central differences; in other types than float64, those of float64."""
        with self.naming_faults(backend, dtype, example):
            if dtype == "float64":
                self._check_gradients(backend, example, self.entries)
                return
            with self.trial(example, backend, dtype) as coarse, self.trial(example, backend, "float64") as fine:
                if fine.differentiates:
                    coarse.forward()
                    fine.forward()
                    exact = fine.gradients()
                    for name, gradient in coarse.gradients().items():
                        if not both_zero(gradient, exact[name], exact.values()):
                            assert_close(gradient, exact[name], f"gradient of {name}", GRADIENT_TOLERANCES[dtype])

    @only(HAS_GRADIENTS)
    @after(*ROOTS)
    def test_unwanted_gradients(self, backend: str, dtype: str, example: Example) -> None:
        """An entry of `diffs` that is None is left alone, and the other gradients are the same."""
        indices = example.differentiable()
        with self.trial(example, backend, dtype) as whole:
            if not whole.differentiates:
                return
            whole.forward()
            expected = whole.gradients()
        subsets = itertools.chain.from_iterable(itertools.combinations(indices, size) for size in range(len(indices)))
        for wanted in subsets if len(indices) <= 4 else [indices[:1], indices[1:], ()]:
            with self.trial(example, backend, dtype, wanted=wanted) as trial:
                trial.forward()
                if not trial.differentiates:
                    continue
                given = trial.gradients()
                assert set(given) == {name for name in expected if name[:6] != "input " or int(name[6:]) in wanted}
                self._compare(given, expected, f"where only the gradients of inputs {list(wanted)} are wanted")

    @only(ONE_STATE, REPORTS, READS)
    @after(*ROOTS, "forward")
    def test_joined(self, backend: str, dtype: str, example: Example) -> None:
        """Statistics that `collected` gives are the same after `join`, also beside a rank that has counted nothing."""
        with self.trial(example, backend, dtype) as trial:
            trial.forward()
            state = trial.op.state
            every: list[dict[str, np.ndarray]] = []
            expected = state.dump_statistics()
            for _ in range(2):
                if (found := state.collected()) is None:
                    pytest.skip("its statistics cannot be joined")
                every.append({name: np.array(one) for name, one in found.items()})
                state.reset_statistics()
            for one in reversed(every):
                state.join(one)
            found = state.dump_statistics()
            assert found == pytest.approx(expected, nan_ok=True), (
                f"statistics were {expected}, and after collected and join they are {found}: collect all of which they "
                "are made, and let join add it"
            )

    @only(READS)
    @after(*ROOTS, "forward")
    def test_batch_of_one(self, backend: str, dtype: str, example: Example) -> None:
        """A batch of one record works."""
        one = example.cut(1)
        with self.trial(one, backend, dtype) as trial:
            self._check_forward(trial, "batch of one")
            if dtype == "float64" and trial.differentiates:
                self._check_slopes(trial, min(20, self.entries))

    @only(ONE_STATE, COUNTS, READS)
    @after(*ROOTS, "forward")
    def test_rows(self, backend: str, dtype: str, example: Example) -> None:
        """Losses and statistics count real rows only, and the others have no gradient."""
        rows = min(len(one) for one in example.arrays()) - 1
        assert rows, "the example has a batch of one: give it more rows"
        with self.trial(example, backend, dtype) as full, self.trial(example.cut(rows), backend, dtype) as few:
            arrays = [one[:rows] for one in full.arrays]
            full.forward(arrays)
            expected = self._expected(few)
            expected[:] = [part for part in expected if not isinstance(part, list)]  # tops have rows that do not count
            self._check_results(
                full, expected, f"only {rows} of {rows + 1} rows are real: count those below backend.rows"
            )
            if full.differentiates:
                few.forward()
                slopes = few.gradients()
                for name, gradient in full.gradients().items():
                    if name.startswith("input "):
                        assert_close(
                            gradient[rows:],
                            0 * gradient[rows:],
                            f"gradient of {name} in rows that do not count, which must be 0 (backend.rows)",
                        )
                        gradient = gradient[:rows]
                    assert_close(gradient, slopes[name], f"gradient of {name}, with {rows} real rows")

    @after(*ROOTS, "forward")
    def test_without_gradients(self, backend: str, dtype: str, example: Example) -> None:
        """The layer works in a net that has no loss above it and wants no gradient."""
        with self.trial(example, backend, dtype, wanted=(), probe=False, keep="all") as trial:
            self._check_forward(trial, "without gradients")

    @only(ONE_STATE, READS)
    @after(*ROOTS, "forward")
    def test_whole_numbers(self, backend: str, dtype: str, example: Example) -> None:
        """Inputs of narrow whole types, unless refused, give what the same numbers give as floats; by kernels too."""
        whole, floats = (
            {kind: one for kind in NARROW if (one := example.of_whole_numbers(kind, given))} for given in ("", dtype)
        )
        if not whole:
            pytest.skip("the example has no input with fractions")
        for kernel in (None, *offered_kernels(self.layer, "layer", backend)):
            by = f" by {kernel[0].__qualname__}" if kernel else ""
            with np.errstate(all="ignore"):  # the numbers are larger than some functions are made for
                seen = {kind: self._seen([one], backend, dtype, kernel)[0] for kind, one in whole.items()}
                taken = {kind: one for kind, one in seen.items() if one}
                same = self._seen([floats[kind] for kind in taken], backend, dtype, kernel)
                for (kind, found), expected in zip(taken.items(), same, strict=True):
                    for name, value in expected.items():
                        what = f"{name} of inputs in {kind}{by}, beside that of the same numbers as floats"
                        tolerance = 1e-3 if name.startswith("gradient") else None  # little is left of what saturates
                        assert_near_above(1.0, found[name].astype(dtype), value.astype(dtype), what, tolerance)

    def _seen(
        self, examples: list[Example], backend: str, dtype: str, kernel: tuple[type, str] | None
    ) -> list[dict[str, np.ndarray]]:
        """Return what a pass over each example shows, in one net that begins anew with each: see `_shown`.

        Nothing is seen where the inputs are refused, nor by a kernel that declines them.
        """
        seen: list[dict[str, np.ndarray]] = [{} for _ in examples]
        if not examples:
            return seen
        with suppress(NacreError), self.trial(examples[0], backend, dtype, wanted=(), kernel=kernel) as trial:
            state, before = trial.op.state, trial.parameters()
            memory = dict(state.memory())
            for place, one in enumerate(examples if kernel is None or trial.op.kernel else ()):
                with suppress(NacreError):
                    seen[place] = _shown(trial, one.arrays())
                for name, value in before.items():
                    trial.set_parameter(name, value)
                state.remember(memory)
        return seen

    def test_plans_without_memory(self, backend: str, dtype: str, example: Example) -> None:
        """`setup` only declares: no array is made before `ready`."""
        opened = open_backend(backend)
        attributes = vars(opened)

        def refuse(*_: Any) -> Any:
            raise AssertionError("setup makes an array: do it in ready()")

        attributes["empty"] = refuse
        try:
            with self.trial(example, backend, dtype, allocate=False) as trial:
                for state in (op.state for op in trial.ops):
                    made = [type(one).__name__ for one in state.blobs if not isinstance(one, Blob)]
                    assert self.layer.is_source or not made, f"setup gives {made} instead of backend.blob(shape)"
                    assert all(parameter.blob is None for parameter in state.parameters), "a parameter has memory"
        finally:
            del attributes["empty"]

    @only(ONE_STATE)
    @after(*ROOTS)
    def test_memory(self, backend: str, dtype: str, example: Example) -> None:
        """`remember` takes back what `memory` gives: the next pass is the same; after `rewind` it is the first."""
        with self.trial(example, backend, dtype) as one, self.trial(example, backend, dtype) as other:
            before = one.parameters()
            one.forward()
            first = one.results()
            one.op.state.advance()
            memory = dict(one.op.state.memory())
            for key, value in memory.items():
                assert isinstance(value, int | float | str | bool | np.ndarray), f"memory['{key}'] is {type(value)}"
            other.op.state.remember(memory)
            for name, value in one.parameters().items():
                other.set_parameter(name, value)
            again = dict(other.op.state.memory())
            assert list(again) == list(memory)
            for key, value in memory.items():
                assert np.array_equal(np.asarray(again[key]), np.asarray(value)), f"memory['{key}'] is not remembered"
            for trial in (one, other):
                trial.net.scalars["step"] = 1
                trial.forward()
            for name, there, here in zip(one.tops, other.results(), one.results(), strict=True):
                assert_close(there, here, f"top '{name}' after remember()", 0.0)
            if isinstance(one.op.state, SourceState) or type(one.op.state).advance is LayerState.advance:
                return
            for name, value in before.items():
                one.set_parameter(name, value)
            one.net.scalars["step"] = 0
            one.net.rewind()
            one.forward()
            for name, here, there in zip(one.tops, one.results(), first, strict=True):
                assert_close(here, there, f"top '{name}' after rewind(), beside that of the first batch", 0.0)

    def test_random_numbers(self, backend: str, dtype: str, example: Example) -> None:
        """The same seed and step give the same results; others give different ones if, and only if, `is_random`."""

        def tops(seed: int, *steps: int) -> Generator[tuple[tuple[int, int], list[np.ndarray]]]:
            with self.trial(example, backend, dtype, seed=seed) as trial:
                for step in steps:
                    trial.net.scalars["step"] = step
                    trial.forward()
                    yield (seed, step), [*trial.results(), np.array(trial.net.loss())]

        (_, first), *others = tops(3, *([0] if self.layer.is_source else [0, 1]))
        for (seed, step), found in (*others, *tops(3, 0), *tops(4, 0)):
            same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, first, strict=True))
            where = f"seed {seed}, step {step} against seed 3, step 0"
            if (seed, step) == (3, 0) or not self.is_random:
                assert same, f"{where}: other numbers"
            else:
                assert not same, f"{where}: the same numbers, though the class declares is_random"

    @only(READS)
    def test_elementwise(self, dtype: str, example: Example) -> None:
        """A state that declares `elementwise` computes the same where the elements of blobs lie in another order."""
        with in_reverse() as backend, self.trial(example, backend, dtype, above=True) as trial:
            mine = [op for op in trial.net.ops if op.layer is trial.layer or op in trial.ops]
            if not any(op.on_elements for op in mine):
                pytest.skip("the state does not declare elementwise")
            where = "where the axes of blobs lie in reverse order, as channels-last images: it is not elementwise"
            try:
                found = Look.at(trial)
            except NacreError as error:
                raise AssertionError(f"{where}, and then: {error}") from error
            with self.trial(example, HostMemory.shared(), dtype, above=True) as plain:
                self._check_same(found, Look.at(plain), plain, where)
                if all(len(one) > 1 for one in trial.arrays):
                    fewer = [one[:-1] for one in trial.arrays]
                    self._check_same(Look.at(trial, fewer), Look.at(plain, fewer), plain, f"with a row less, {where}")

    @only(ONE_STATE)
    def test_shutdown(self, backend: str, dtype: str, example: Example) -> None:
        """A state can be shut down twice, before and after it has run."""
        for runs in (False, True):
            with self.trial(example, backend, dtype) as trial:
                if runs:
                    trial.forward()
                for time in ("first", "second"):
                    try:
                        trial.op.state.shutdown()
                    except Exception as error:
                        when = "after it has run" if runs else "before it has run"
                        raise AssertionError(f"the {time} shutdown(), {when}, raises {error!r}") from error

    @only(ONE_STATE)
    def test_kernels(
        self, backend: str, dtype: str, example: Example, record_property: Callable[[str, object], None]
    ) -> None:
        """Every kernel that is offered for the layer on this backend gives what the layer's own state gives."""
        kernels = offered_kernels(self.layer, "layer", backend)
        if not kernels:
            pytest.skip(f"no kernel is offered for {layer_type(self.layer)} on '{backend}'")
        for kernel, owner in kernels:
            self.used = (kernel, owner)
            with self.naming_faults(backend, dtype, example):
                reason = check_kernel(self, self.used, backend, dtype, example, phases=not self.layer.is_source)
            record_property(f"{kernel.__qualname__}@{owner}", reason or "checked")

    @only(READS)
    @after(*ROOTS)
    def test_phase_of_an_algorithm(self, backend: str) -> None:
        """In a phase of an algorithm's own a layer does what it does outside of training; then it trains as before.

        It is tried with the first example; `test_kernels` tries kernels with each.
        """
        example, dtype = next(iter(self.examples())), self.dtypes[0]
        with (
            self.trial(example, backend, dtype) as train,
            self.trial(example, backend, dtype, phase="validation") as outside,
            self.trial(example, backend, dtype) as own,
        ):
            train.forward()
            before = train.results()
            outside.forward()
            back = put_in_phase(own, "positive")
            own.forward()
            for name, here, there in zip(own.tops, own.results(), outside.results(), strict=True):
                assert_close(here, there, f"top '{name}' in phase positive", self.tolerances[dtype])
            for name, value in own.parameters().items():
                assert_close(value, outside.parameters()[name], f"parameter {name} after phase positive", 0.0)
            other = any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(own.results(), before, strict=True))
            if own.differentiates and other and dtype == "float64":
                self._check_slopes(own, 5)
            back()
            own.forward()
            for name, here, there in zip(own.tops, own.results(), before, strict=True):
                assert_close(here, there, f"top '{name}' in phase train after phase positive", self.tolerances[dtype])

    @only(DRAWS_EXAMPLES, READS)
    def test_random_shapes(self, backend: str) -> None:
        """Forward and gradients are right for the examples that `strategy` draws, and those of the kernels too."""
        kernels = offered_kernels(self.layer, "layer", backend)

        def check(example: Example) -> None:
            exact = "float64" in self.dtypes
            with self.trial(example, backend, "float64" if exact else self.dtypes[0]) as trial:
                self._check_forward(trial, "")
                if exact and trial.differentiates:
                    self._check_slopes(trial, 10)
            for kernel, dtype in itertools.product(kernels, self.dtypes):
                check_kernel(self, kernel, backend, dtype, example, variants=False)

        run_strategy(self, check)

    @only(ONE_STATE, CUT)
    @after(*ROOTS, "forward")
    def test_partition(self, backend: str, dtype: str, example: Example) -> None:
        """Cut along its features for two or three ranks, it gives what it gives whole, with the same first values."""
        with self.naming_faults(backend, dtype, example):
            for parts in (2, 3):
                check_partition(self, backend, dtype, example, parts)

    # Containers

    @only(CONTAINER)
    def test_container_is_expanded_once(self, backend: str, example: Example) -> None:
        """A container keeps its layers: they are the same in every net, with shared parameters; a copy has its own."""
        layer = self.make(example)
        opened = open_backend(backend)
        with (
            self.trial(example, opened, self.dtypes[0], made=layer) as one,
            self.trial(example, opened, self.dtypes[0], made=layer) as other,
            self.trial(example, opened, self.dtypes[0], made=fresh(layer)) as copy,
        ):
            assert all(here is there for here, there in zip(inner_layers(layer), inner_layers(layer), strict=True))
            names = list(one.net.parameters)
            assert list(other.net.parameters) == names == list(copy.net.parameters)
            for name in names:
                storage = one.net.parameters[name].storage
                assert other.net.parameters[name].storage is storage, f"another net has another '{name}'"
                assert copy.net.parameters[name].storage is not storage, f"a copy of the layer shares '{name}'"

    @only(CONTAINER)
    def test_container_survives_a_file(self, backend: str, example: Example) -> None:
        """What is written of the container makes the same layers again."""
        layer = self.make(example)
        table = table_of(layer)
        again = type(layer)(**{name: value for name, value in table.items() if name != "type"})
        assert table_of(again) == table
        assert list(names_in([again])) == list(names_in([layer]))

    # How it is checked

    def _expected(self, trial: Trial) -> list[list[Any] | Mapping[str, float] | float]:
        self.phase, self.random = trial.net.phase, trial.random()
        inputs = [one.astype(np.float64) if one.dtype.kind == "f" else one for one in trial.arrays]
        result = self.reference(trial.layer, inputs, trial.parameters())
        parts: list[Any] = list(cast("tuple[Any, ...]", result)) if isinstance(result, tuple) else [result]
        numbers = any(not isinstance(one, list | Mapping) for one in parts)
        for promised, given, what in (
            (trial.layer.has_loss, numbers, "a loss (has_loss), but its reference gives none: return it, a number"),
            (
                trial.layer.has_stats,
                any(isinstance(one, Mapping) for one in parts),
                "statistics (has_stats), but its reference gives none: return them, a dict",
            ),
        ):
            if promised and not given:
                raise ContractError(f"{type(self).__name__}: the layer has {what}, beside the list of tops")
        return parts

    def _check_forward(self, trial: Trial, where: str) -> None:
        expected = self._expected(trial)
        trial.forward()
        self._check_results(trial, expected, where)

    def _check_changed(self, trial: Trial) -> None:
        """Check a pass with other parameters: what was made of the first ones may not be kept."""
        if change_parameters(trial):
            for op in trial.ops:
                if op.layer.has_stats:
                    op.state.reset_statistics()
            self._check_forward(trial, "with other parameters, in the same net")

    @staticmethod
    def _check_buffers(trial: Trial, before: Mapping[str, np.ndarray]) -> None:
        """Check that a pass outside of training has left all buffers alone."""
        for name, value in trial.parameters().items():
            what = f"forward changes '{name}' in phase {trial.net.phase}; only in phase train a buffer may change"
            assert_close(value, before[name], what, 0.0)

    def _check_results(self, trial: Trial, expected: list[list[Any] | Mapping[str, float] | float], where: str) -> None:
        tolerance = self.tolerances[trial.net.dtype]
        where = f" ({where})" if where else ""
        for part in expected:
            if isinstance(part, Mapping):
                statistics = trial.op.state.dump_statistics()
                assert set(statistics) == set(part), f"statistics {list(statistics)} instead of {list(part)}{where}"
                for name, value in part.items():
                    assert_close(statistics[name], value, f"statistic '{name}'{where}", tolerance)
            elif isinstance(part, list):
                assert len(part) == len(trial.tops), (
                    f"the reference gives {len(part)} tops, the layer {len(trial.tops)}"
                )
                for name, actual, top in zip(trial.tops, trial.results(), part, strict=True):
                    assert_close(actual, top, f"top '{name}'{where}", tolerance)
            else:
                assert_close(trial.loss(), part, f"loss{where}", tolerance)

    def _check_gradients(self, backend: str, example: Example, entries: int) -> None:
        with self.trial(example, backend, "float64") as trial:
            if trial.differentiates:
                self._check_slopes(trial, entries)

    def _check_slopes(self, trial: Trial, entries: int) -> None:
        loss = trial.forward()
        for name, gradient in trial.gradients().items():
            value, objective = self._objective(trial, name)
            indices, slopes = numerical_gradient(objective, value, entries=entries)
            error, index = worst_error(gradient, indices, slopes, loss)
            if error > GRADIENT_TOLERANCES["float64"]:
                where = tuple(int(one) for one in np.unravel_index(index, gradient.shape))
                slope = slopes[int(np.searchsorted(indices, index))]
                raise AssertionError(
                    f"gradient of {name} of shape {gradient.shape}: worst at {where}, where backward gives "
                    f"{gradient[where]:.9g} and central differences {slope:.9g}; relative error {error:.2g}, "
                    f"allowed {GRADIENT_TOLERANCES['float64']:.2g}"
                )

    @staticmethod
    def _objective(trial: Trial, name: str) -> tuple[np.ndarray, Callable[[np.ndarray], float]]:
        if name.startswith("input "):
            index = int(name[6:])
            arrays = list(trial.arrays)

            def move_input(moved: np.ndarray) -> float:
                arrays[index] = moved
                return trial.forward(arrays)

            return trial.arrays[index], move_input
        value = trial.parameters()[name]

        def move_parameter(moved: np.ndarray) -> float:
            trial.set_parameter(name, moved)
            loss = trial.forward()
            trial.set_parameter(name, value)
            return loss

        return value, move_parameter


def _shown(trial: Trial, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return what a pass shows, by name: tops, loss, statistics of it alone, and gradients of parameters."""
    if trial.layer.has_stats:
        trial.op.state.reset_statistics()
    look = Look.at(trial, arrays)
    shown = {f"top {index}": top for index, top in enumerate(look.tops)}
    shown |= {f"gradient of {name}": gradient for name, gradient in look.gradients.items()}
    shown["loss"] = np.array(look.loss)
    if trial.layer.has_stats:
        told = trial.op.state.dump_statistics()
        shown |= {f"statistic '{name}'": np.array(value) for name, value in told.items()}
    return shown


def change_parameters(trial: Trial) -> bool:
    """Give the trainable parameters of a trial other values; return whether there are any."""
    changed = False
    for name, value in trial.parameters().items():
        if trial.parameter(name).parameter.trainable:
            trial.set_parameter(name, value / 2 + 0.25)
            changed = True
    return changed


def put_in_phase(trial: Trial, phase: str) -> Callable[[], None]:
    """Let the passes of a trial's net run in another phase, as an algorithm does; return what puts them back."""
    net = trial.net
    forward = net.compile(net.in_phase(phase, net.steps("forward")))
    replaced: dict[str, Any] = {}

    def run() -> float:
        net.feed()
        forward()
        return net.count_losses()

    replaced["forward"] = run
    if trial.differentiates:
        replaced["backward"] = net.compile(net.in_phase(phase, net.steps("backward")))
    vars(net).update(replaced)

    def back() -> None:
        for name in replaced:
            del vars(net)[name]

    return back


def check_kernel(
    suite: Suite,
    kernel: tuple[type, str],
    backend: str,
    dtype: str,
    example: Example,
    *,
    variants: bool = True,
    phases: bool = False,
) -> str | None:
    """Compare a kernel with the layer's own state; return the reason if the kernel declines, or None.

    Compared are tops, loss, statistics, the gradients of inputs and parameters, and the buffers after the pass; with
    `variants` also with a row less, where one of several parameters is frozen, in a later step with other parameters,
    in the next batch, after `rewind` and `remember`, and in nets for a batch of one, of other phases, and of which some
    gradients are unwanted; with `phases` also as `check_phases` does.

    Raises:
        AssertionError: they differ by more than `KERNEL_TOLERANCES`; the message names what and where.
    """
    name = kernel[0].__qualname__
    with suite.trial(example, backend, dtype, kernel=kernel) as fast:
        if not fast.op.kernel:
            return "; ".join(reason for _, reason in fast.op.choice.declined)
        with suite.trial(example, backend, dtype) as own:
            _compare_trials(fast, own, name)
            if variants and example.inputs:
                _compare_with_a_row_less(fast, own, name)
            if phases:
                check_phases(fast, own, name)
            if variants and example.inputs:
                _compare_frozen(fast, own, name)
                _compare_later(fast, own, name)
    if not variants or not example.inputs:
        return None
    wanted = example.differentiable()
    nets: list[tuple[str, Example, dict[str, Any]]] = [
        ("batch of one", example.cut(1), {}),
        ("phase validation", example, {"phase": "validation"}),
        *((f"batch of one, phase {phase}", example.cut(1), {"phase": phase}) for phase in ("test", "predict")),
        *((f"only input {index} wanted", example, {"wanted": (index,)}) for index in wanted if len(wanted) > 1),
        *(("no input wanted", example, {"wanted": ()}) for _ in wanted[:1]),
    ]
    for where, one, options in nets:
        with suite.trial(one, backend, dtype, kernel=kernel, **options) as fast:
            if fast.op.kernel:
                with suite.trial(one, backend, dtype, **options) as own:
                    _compare_trials(fast, own, f"{name}, {where}")
    return None


def check_narrow(suite: Suite, kernel: tuple[type, str], backend: str, dtype: str, example: Example) -> str | None:
    """Compare a kernel in a net that computes in a narrower type with the layer's own state in float32.

    Returns:
        The reason if the kernel declines, or None.

    Raises:
        AssertionError: they differ by more than `NARROW_TOLERANCE`; the message names what and where.
    """
    example = example.of_few_digits()
    for one in (example, example.cut(1)) if example.inputs else (example,):
        with suite.trial(one, backend, dtype, kernel=kernel) as fast:
            if not fast.op.kernel:
                return "; ".join(reason for _, reason in fast.op.choice.declined)
            with suite.trial(one, backend, "float32") as own:
                _compare_trials(fast, own, f"{kernel[0].__qualname__}, in {dtype}")
    return None


def check_phases(fast: Trial, own: Trial, name: str) -> None:
    """Compare a kernel with the layer's own state in passes of other phases, and of one that an algorithm defines.

    Raises:
        AssertionError: they differ by more than `KERNEL_TOLERANCES`; the message has `name` and the phase.
    """
    for phase in (*PHASES[1:], "positive"):
        backs = [put_in_phase(trial, phase) for trial in (own, fast)]
        fast.spoil(fast.computing.state.blobs)
        _compare_trials(fast, own, f"{name}, phase {phase}")
        for back in backs:
            back()
    _compare_trials(fast, own, f"{name}, phase train after other phases")


def _compare_with_a_row_less(fast: Trial, own: Trial, name: str) -> None:
    """Compare them without the first row, so that all rows have other numbers, and with spoilt tops."""
    rows = min(len(one) for one in own.arrays)
    if rows > 1:
        fast.spoil(fast.computing.state.blobs)
        _compare_trials(fast, own, f"{name}, with a row less", [one[1:rows] for one in own.arrays])


def _compare_frozen(fast: Trial, own: Trial, name: str) -> None:
    """Compare them where one of several parameters is frozen, each in turn."""
    every = [[slot for slot in trial.slots() if slot.trainable] for trial in (own, fast)]
    for slots in zip(*every, strict=True) if len(every[0]) > 1 and own.differentiates else ():
        for trial, slot in zip((own, fast), slots, strict=True):
            trial.net.withhold([slot])
        _compare_trials(fast, own, f"{name}, {slots[0].name} frozen")


def _compare_later(fast: Trial, own: Trial, name: str) -> None:
    """Compare them in a later step with other parameters, in the next batch, and where all begins anew."""
    for trial in (own, fast):
        change_parameters(trial)
        trial.net.step = 3
        if trial.layer.has_stats:
            trial.op.state.reset_statistics()
    _compare_trials(fast, own, f"{name}, in step 3 with other parameters")
    if type(own.op.state).advance is LayerState.advance:
        return
    for trial in (own, fast):
        trial.net.advance()
    _compare_trials(fast, own, f"{name}, in the batch after advance()")
    memory = dict(own.op.state.memory())
    for trial in (own, fast):
        trial.net.rewind()
    _compare_trials(fast, own, f"{name}, after rewind()")
    for trial in (own, fast):
        trial.op.state.remember(memory)
    _compare_trials(fast, own, f"{name}, after remember() of what the layer's own state has in memory()")


def _compare_trials(fast: Trial, own: Trial, where: str, arrays: list[np.ndarray] | None = None) -> None:
    for trial in (own, fast):
        trial.forward(arrays)
    narrow = fast.net.compute_dtype not in DTYPES
    tolerance = NARROW_TOLERANCE if narrow else KERNEL_TOLERANCES[fast.net.dtype]
    for name, one, other in zip(own.tops, fast.results(), own.results(), strict=True):
        assert_near(one, other, f"{where}: top '{name}'", tolerance)
    if own.layer.has_loss:
        dtype = own.net.dtype
        assert_near(np.array(fast.loss(), dtype), np.array(own.loss(), dtype), f"{where}: loss", tolerance)
    if own.layer.has_stats:
        about = pytest.approx(own.op.state.dump_statistics(), rel=tolerance if narrow else None)
        assert fast.op.state.dump_statistics() == about, where
    if own.differentiates:
        op = fast.computing
        fast.spoil(op.diff_arrays, [one.gradient for one in op.state.parameters])
        expected = own.gradients()
        terms = sum(float(np.sum(one**2)) for one in own.probe_weights())
        for name, gradient in fast.gradients().items():
            if not both_zero(gradient, expected[name], expected.values()):
                cancelled = CANCELLED_NARROW if narrow else CANCELLED
                least = 0.0 if name.startswith("input ") else cancelled * terms**0.5
                assert_near_above(least, gradient, expected[name], f"{where}: gradient of {name}", tolerance)
    found = fast.parameters()
    for name, value in own.parameters().items():
        assert_near(found[name], value, f"{where}: parameter {name} after the pass", tolerance)


def run_strategy(suite: Suite, check: Callable[[Example], None]) -> None:
    """Call `check` with the examples of a suite's strategy: the same ones in every run."""
    import hypothesis

    strategy = suite.strategy()
    once = hypothesis.settings(
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],  # nor does this look at the clock
        max_examples=suite.max_examples,
        print_blob=False,
    )
    once(hypothesis.given(strategy)(check))()
