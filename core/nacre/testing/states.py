"""StateTests: what the state of every layer has to do, and every kernel too: where it writes, and what it keeps."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, ParamSpec

import numpy as np
import pytest

from ..engine.ops import Value
from ..errors import NacreError
from ..protocols import backend as backends
from ..protocols.backend import Backend, HostMemory, Own
from ..protocols.layer import Layer, is_container, is_identity, is_output
from ..protocols.state import LayerState
from .bench import plain_copy
from .close import TOLERANCES, assert_close, both_zero
from .outside import global_state, growth, keeps_objects
from .suite import Suite, When, defines, only
from .trial import NAME, Example, ThroughLayer, Trial, with_kernel

ONE_STATE = When("no containers", lambda suite: not is_container(suite.layer))
"""The layers of a container have these tests themselves."""
CONTAINER = When("containers", lambda suite: is_container(suite.layer))
BACK_PROPAGATES = When("`can_do_bp`", lambda suite: suite.layer.can_do_bp)
HAS_GRADIENTS = When("`can_do_bp`, or a container", lambda suite: suite.layer.can_do_bp or is_container(suite.layer))
COUNTS = When("`has_loss` or `has_stats`", lambda suite: suite.layer.has_loss or suite.layer.has_stats)
REPORTS = When("`has_stats`", lambda suite: suite.layer.has_stats)
READS = When("no `is_source`", lambda suite: is_container(suite.layer) or not suite.layer.is_source)
OWN_MEMORY = When("no `is_inplace`", lambda suite: not suite.layer.is_inplace)
LEARNS = When("`has_param`, or a container", lambda suite: suite.layer.has_param or is_container(suite.layer))
CUT = When("with `partition`", lambda suite: suite.layer.partition is not Layer.partition)
"""The layer says how it is cut along its features."""
FORGETS = When("no outputs, which keep what they read", lambda suite: not is_output(suite.layer))
DRAWS_EXAMPLES = defines("strategy")

EARLY = 10
"""Steps before memory is looked at."""
FEW, MANY = 100, 1000
"""Steps after which it is looked at, and those over which it is measured where that is suspicious."""
KEPT = 8
"""Bytes that may be in use besides for each step."""


@dataclass
class Look:
    """What a pass has given: the loss, the tops, the gradients by name, and the parameters and buffers after it."""

    loss: float
    tops: list[np.ndarray]
    gradients: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]

    @classmethod
    def at(cls, trial: Trial, arrays: Sequence[np.ndarray] | None = None) -> Look:
        """Run forward, and backward if there is any gradient to compute."""
        loss, tops = trial.forward(arrays), trial.results()
        return cls(loss, tops, trial.gradients() if trial.differentiates else {}, trial.parameters())


ROOTS = ("shapes", "inputs_are_left_alone", "forward_twice", "gradients_are_written")
"""Checks whose faults show in most others."""
FAULTS = (*ROOTS, "scratch", "moved_memory", "reads", "memory_is_shared")
"""Checks whose faults show in forward and gradients, the likeliest first."""
P = ParamSpec("P")


def after(*checks: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Let a check that fails be skipped if one of these fails too: that is the fault, and is told there."""

    def mark(test: Callable[P, None]) -> Callable[P, None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            given = signature.bind(*args, **kwargs).arguments
            suite: StateTests = given["self"]
            try:
                test(*args, **kwargs)
            except (AssertionError, NacreError):
                example = given["example"] if "example" in given else next(iter(suite.examples()))
                backend = given["backend"] if "backend" in given else suite.backends()[0]
                if check := suite.fault(backend, given.get("dtype", suite.dtypes[0]), example, checks)[0]:
                    pytest.skip(f"fails because of what the check '{check}' finds")
                raise

        return run

    return mark


class StateTests(Suite):
    """What `LayerTests` and `KernelTests` both check of a state: it writes where it may, and keeps nothing it may not.

    Attributes:
        tolerances: see `nacre.testing.TOLERANCES`.
    """

    tolerances: ClassVar[Mapping[str, float]] = TOLERANCES
    used: tuple[type[LayerState], str] | None = None
    """The kernel that is tested, and its backend; None for the layer's own state."""

    def kernel_on(self, backend: str | Backend) -> tuple[type[LayerState], str] | None:
        """Return the kernel that is tested on a backend."""
        return self.used

    @contextmanager
    def tried(self, example: Example, backend: str | Backend, dtype: str, **options: Any) -> Generator[Trial]:
        """Run an example as `trial` does, with the kernel if one is tested; skip the test if that declines."""
        with self.trial(example, backend, dtype, kernel=self.kernel_on(backend), **options) as trial:
            if self.kernel_on(backend) and not trial.op.kernel:
                pytest.skip("the kernel declines: " + "; ".join(reason for _, reason in trial.op.choice.declined))
            yield trial

    # Where it writes

    @only(OWN_MEMORY, READS)
    @after("shapes")
    def test_inputs_are_left_alone(self, backend: str, dtype: str, example: Example) -> None:
        """A pass writes into tops and gradients only: not into inputs, gradients of tops, or parameters."""
        with self.tried(example, backend, dtype, keep="all") as trial:
            before = trial.parameters()
            trial.forward()
            self._check_untouched(trial, before, "forward")
            if trial.differentiates:
                trial.net.backward()
                self._check_untouched(trial, before, "backward")
                self._check_gradients_of_tops(trial)

    def _check_untouched(self, trial: Trial, before: Mapping[str, np.ndarray], method: str) -> None:
        for index, (bottom, array) in enumerate(zip(trial.layer.bottoms, trial.arrays, strict=True)):
            what = f"{method} writes into its input {index} ('{bottom}'), which other layers read"
            _exactly(trial.net.blob(bottom), array, what)
            for own in _own(trial, trial.computing.inputs, trial.computing.input_arrays, bottom, array):
                _exactly(own, array, what)
        frozen = {name for name, handle in trial.net.parameters.items() if handle.parameter.trainable}
        for name, value in trial.parameters().items():
            if f"{trial.layer.name}/{name}" in frozen:
                _exactly(value, before[name], f"{method} changes the parameter '{name}', which only the solver may")

    def _check_gradients_of_tops(self, trial: Trial) -> None:
        """Check what the net reads of the gradients of tops, and what a kernel sees, unless a neuron may change it."""
        state, outputs = trial.computing.state, trial.computing.outputs
        shares = any(op.aliases for op in trial.ops)
        applies = trial.layer.has_neuron and not is_identity(trial.layer.neuron)
        for index, (top, weights) in enumerate(zip(trial.tops, trial.probe_weights(), strict=True)):
            what = f"backward writes into blobs_diff[{index}], the gradient of top '{top}'"
            what = f"{what}, but it may only write into diffs"
            if not shares and top not in trial.layer.tops_without_gradient():
                _exactly(trial.net.gradient(top), weights, what)
            for own in () if applies else _own(trial, outputs, state.blobs_diff, top, weights):
                _exactly(own, weights, what)

    @only(READS)
    @after("shapes")
    def test_forward_twice(self, backend: str, dtype: str, example: Example) -> None:
        """The same inputs give the same results, bit for bit, whatever the tops held before."""
        with self.tried(example, backend, dtype) as trial:
            first = trial.forward(), trial.results()
            self._check_again(trial, first, "a second pass over the same inputs gives others: forward keeps something")
            if not trial.layer.is_inplace and not is_container(self.layer):
                trial.spoil(trial.computing.state.blobs)
                self._check_again(trial, first, "forward reads what its tops held before, or leaves a part unwritten")

    def _check_again(self, trial: Trial, first: tuple[float, list[np.ndarray]], what: str) -> None:
        loss, tops = trial.forward(), trial.results()
        _exactly(loss, first[0], f"loss: {what}")
        for name, one, other in zip(trial.tops, tops, first[1], strict=True):
            _exactly(one, other, f"top '{name}': {what}")

    @only(ONE_STATE, BACK_PROPAGATES)
    @after("shapes")
    def test_gradients_are_written(self, backend: str, dtype: str, example: Example) -> None:
        """Gradients are written, not added to what was there; `backward` may run again after one `forward`."""
        with self.tried(example, backend, dtype, keep="all") as trial:
            if not trial.differentiates:
                pytest.skip("the example has no gradient")
            op = trial.op
            arrays = [*op.diff_arrays, *(one.gradient for one in op.state.parameters)]
            found: list[dict[str, np.ndarray]] = []
            for number in (np.nan, 0.0, 1.0):
                trial.forward()
                trial.fill(arrays, number)
                found.append(trial.gradients())
            for name, spoiled in found[0].items():
                zero, one = found[1][name], found[2][name]
                if np.array_equal(spoiled, zero, equal_nan=True) and np.array_equal(zero, one, equal_nan=True):
                    continue
                added = zero.size and np.allclose(one - zero, 1.0, atol=1e-3, equal_nan=True)
                wrong = int((np.isnan(spoiled) & ~np.isnan(zero)).sum())
                how = (
                    "adds to the gradient of {}: write it, the net adds up what several layers give"
                    if added
                    else f"leaves {wrong} of {zero.size} numbers of the gradient of {{}} unwritten, or adds to them"
                )
                raise AssertionError(f"backward {how.format(name)}; with NaN there before, NaN is in the result")
            for name, gradient in trial.gradients().items():
                what = f"gradient of {name} where backward runs again after one forward: it changes what it reads"
                _exactly(gradient, found[-1][name], what)

    @only(ONE_STATE, BACK_PROPAGATES)
    @after(*ROOTS)
    def test_reads(self, backend: str, dtype: str, example: Example) -> None:
        """`backward` reads no more than `reads` declares: the rest is overwritten before it runs."""
        with self.tried(example, backend, dtype, keep="all") as trial:
            if not trial.differentiates:
                pytest.skip("the example has no gradient")
            trial.forward()
            expected = trial.gradients()
            op, reads = trial.op, trial.op.state.reads.split()
            neurons = [one for one in trial.net.ops if one.neuron is not None and one.name.startswith(f"{op.name}/")]
            neuron_reads = any("inputs" in one.state.reads for one in neurons)  # what stands before it: the blobs
            one_memory = bool(op.aliases) and (bool(reads) or neuron_reads)
            spoiled = {"inputs": op.input_arrays, "blobs": op.state.blobs}
            for what, arrays in spoiled.items():
                if what in reads or one_memory or (what == "blobs" and neuron_reads):
                    continue
                trial.forward()
                trial.spoil(arrays)
                line = f"reads={op.state.reads!r} on the class line does not declare that"
                where = f"where {what} are overwritten before backward: it reads them, but {line}"
                self._compare(trial.gradients(), expected, where)

    @after(*ROOTS)
    def test_memory_is_shared(self, backend: str, dtype: str, example: Example) -> None:
        """A net that shares memory between blobs has the same results as one that does not, also in place."""
        with (
            self.tried(example, backend, dtype, above=True) as sharing,
            self.tried(example, backend, dtype, above=True, keep="all") as keeping,
        ):
            self._check_same(Look.at(sharing), Look.at(keeping), sharing, "in a net that shares memory")

    # What it keeps

    @only(READS)
    @after(*ROOTS)
    def test_scratch(self, backend: str, dtype: str, example: Example) -> None:
        """What `backend.scratch` returns holds nothing from call to call: other states use the same memory."""
        with self.tried(example, backend, dtype) as trial:
            first = Look.at(trial)
            where = "where backend.scratch was overwritten between calls: keep nothing in it"
            trial.spoil_scratch()
            trial.forward()
            self._check_tops(trial.results(), first.tops, trial, where)
            if trial.differentiates:
                trial.spoil_scratch()
                self._compare(trial.gradients(), first.gradients, where)

    @only(READS)
    @after(*ROOTS)
    def test_moved_memory(self, backend: str, dtype: str, example: Example) -> None:
        """When the blobs have moved in memory, and `ready` was called again, passes are the same."""
        with self.tried(example, backend, dtype) as trial:
            first, old = Look.at(trial), trial.memories()
            trial.net.reallocate()
            trial.spoil(old)
            where = "after the net's memory has moved: take addresses and views in ready(), every time it is called"
            self._check_same(Look.at(trial), first, trial, where)

    @only(READS)
    @after(*ROOTS)
    def test_two_instances(self, backend: str, dtype: str, example: Example) -> None:
        """Two layers of the class at work at once are what each is alone: nothing is kept in class or module."""
        with self.tried(example, backend, dtype) as one, self.tried(example, backend, dtype, seed=1) as other:
            alone = Look.at(one)
            tops = one.forward(), one.results()
            other.forward([array[::-1] for array in other.arrays])
            where = "beside another layer of the class: keep what belongs to a state in `self`"
            if one.differentiates:
                self._compare(one.gradients(), alone.gradients, where)
                other.gradients()
            self._check_tops(one.results(), alone.tops, one, where)
            _exactly(tops[0], alone.loss, f"loss {where}")

    @only(LEARNS)
    @after(*ROOTS)
    def test_frozen_parameters(self, backend: str, dtype: str, example: Example) -> None:
        """Where parameters are frozen, their gradients are None, and all other gradients are the same."""
        with self.tried(example, backend, dtype) as trial:
            slots = [slot for slot in trial.slots() if slot.trainable]
            if not slots:
                pytest.skip("the example has no parameter")
            first = Look.at(trial)
            each = [[slot] for slot in slots] if len(slots) > 1 else []
            for frozen in (slots, *each, []):
                trial.net.withhold(frozen)
                trial.spoil(slot.gradient for slot in slots)
                names = ", ".join(slot.name.removeprefix(f"{NAME}/") for slot in frozen)
                where = f"where {names} is frozen: its gradient is None" if frozen else "after parameters were frozen"
                try:
                    now = Look.at(trial)
                except NacreError as error:
                    raise AssertionError(f"{where}, and then: {error}") from error
                if not frozen:
                    self._check_tops(now.tops, first.tops, trial, where)
                # frozen, a batch normalisation computes something else: with its running values
                if all(
                    np.allclose(one, other, equal_nan=True) for one, other in zip(now.tops, first.tops, strict=True)
                ):
                    self._compare(now.gradients, first.gradients, where)
                for slot in frozen:
                    name = slot.name.removeprefix(f"{NAME}/")
                    assert name not in now.gradients, f"{name} has a gradient, {where}"

    @only(FORGETS, READS)
    @after(*ROOTS)
    def test_growth(self, backend: str, dtype: str, example: Example) -> None:
        """After ten steps no array of the backend is made, and no more memory is in use, however many follow."""
        with self.tried(example, backend, dtype) as trial:
            passes = [trial.net.forward, *([trial.net.backward] if trial.differentiates else []), trial.net.advance]
            trial.forward()

            def run(count: int) -> None:
                for _ in range(count):
                    trial.net.step += 1
                    for call in passes:
                        call()
                for op in trial.ops:
                    if op.layer.has_stats:
                        op.state.reset_statistics()

            run(EARLY)
            opened: Backend = trial.ops[0].backend if trial.ops else trial.net.backend
            with _no_arrays(opened):
                if keeps_objects(lambda: run(FEW), FEW // 3):
                    more = growth(lambda: run(MANY), MANY * KEPT)
                    told = f"in {MANY} steps {more:,} bytes more are in use: what is kept of each step?"
                    assert more <= MANY * KEPT, told

    @only(READS)
    @after(*ROOTS)
    def test_global_state(self, backend: str, dtype: str, example: Example) -> None:
        """A layer neither reads nor changes the random numbers of `numpy.random` and `random`, nor NumPy's settings."""
        found: list[Look] = []
        for seed in (1, 2):
            with global_state(seed), self.tried(example, backend, dtype) as trial:
                found.append(Look.at(trial))
                where = "depends on the global random numbers: draw from backend.random(layer.name)"
                self._check_same(found[-1], found[0], trial, where)

    # How it is checked

    def _check_tops(self, actual: list[np.ndarray], expected: list[np.ndarray], trial: Trial, where: str) -> None:
        tolerance = self.tolerances[trial.net.dtype]
        for name, one, other in zip(trial.tops, actual, expected, strict=True):
            assert_close(one, other, f"top '{name}' {where}", tolerance)

    def _check_same(self, actual: Look, expected: Look, trial: Trial, where: str) -> None:
        self._check_tops(actual.tops, expected.tops, trial, where)
        assert_close(actual.loss, expected.loss, f"loss {where}", self.tolerances[trial.net.dtype])
        self._compare(actual.gradients, expected.gradients, where)

    def _compare(self, actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], where: str) -> None:
        for name, gradient in actual.items():
            tolerance = self.tolerances[str(gradient.dtype)]
            if not both_zero(gradient, expected[name], expected.values()):
                assert_close(gradient, expected[name], f"gradient of {name}, {where}", tolerance)

    @contextmanager
    def naming_faults(self, backend: str, dtype: str, example: Example) -> Generator[None]:
        """Let an error of the block begin with the fault behind it, if one of the checks of states finds it."""
        try:
            yield
        except AssertionError as error:
            check, fault = self.fault(backend, dtype, example, FAULTS)
            if check:
                raise AssertionError(f"{fault} (check '{check}')\nIt shows as: {error}") from error
            raise

    def fault(self, backend: str, dtype: str, example: Example, checks: Sequence[str]) -> tuple[str, str]:
        """Return the first of these checks that fails on an example, and its error; "" for none."""
        for name in checks:
            test: Callable[..., None] | None = getattr(self, f"test_{name}", None)
            try:
                if test is not None:
                    test(backend, dtype, example)
            except AssertionError as error:
                return name, str(error)
            except (Exception, pytest.skip.Exception):  # no promise that was found broken; that test tells it
                continue
        return "", ""


def _own(
    trial: Trial, values: Sequence[Value], arrays: Sequence[Any], name: str, plain: np.ndarray
) -> Generator[np.ndarray]:
    """Yield what stands of a blob in the backend's own layout, which the net's plain copy does not show."""
    for value, array in zip(values, arrays, strict=True):
        if value.name == name and isinstance(array, Own) and array.dtype == str(plain.dtype):
            yield plain_copy(trial.computing.backend, array)


def _exactly(actual: Any, expected: Any, what: str) -> None:
    assert_close(actual, expected, what, 0.0)


@contextmanager
def _no_arrays(backend: Backend) -> Generator[None]:
    """Raise AssertionError where the block makes an array of the backend."""
    attributes = vars(backend)
    usual = backend.empty
    asked: dict[tuple[int, ...], int] = {}

    def note(shape: Sequence[int], dtype: str) -> Any:
        asked[tuple(shape)] = asked.get(tuple(shape), 0) + 1
        return usual(shape, dtype)

    attributes["empty"] = note
    try:
        yield
    finally:
        del attributes["empty"]
    for shape, count in asked.items():
        raise AssertionError(
            f"after {EARLY} steps {count} arrays of shape {shape} are made: make what is needed once, in ready()"
        )


# Blobs in another order


class Transposed(HostMemory):
    """A backend whose own blobs have their axes in reverse order, so that the batch is no longer in front."""

    name = "transposed"
    lineage = ("transposed",)
    elementwise = True

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return len(shape) < 2

    def elements(self, blob: Own) -> Any:
        return blob.memory

    def pack(self, array: Any, blob: Own) -> None:
        blob.memory[...] = array.T

    def unpack(self, blob: Own, array: Any) -> None:
        array[...] = blob.memory.T

    def arrange(self, kernels: Sequence[LayerState], blobs: Sequence[Own], plan: dict[str, Any]) -> None:
        for blob in blobs:
            blob.layout = "transposed"

    def place(self, blob: Own, array: Any) -> None:
        blob.memory = self.view(array, blob.shape[::-1])


class ThroughKernel(LayerState, reads=""):
    """A kernel of `ThroughLayer`, which makes own blobs stand below and above what is tested."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(one.shape, one.dtype) for one in inputs]

    def forward(self, inputs: list[Any]) -> None:
        for x, y in zip(inputs, self.blobs, strict=True):
            y.memory[...] = x.memory

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dy, dx in zip(self.blobs_diff, diffs, strict=True):
            if dx is not None:
                dx.memory[...] = dy.memory


@contextmanager
def in_reverse() -> Generator[Backend]:
    """Open `Transposed` for the block, with own blobs below and above what is tested."""
    opened: dict[str, Backend] = vars(backends)["_opened"]
    backend = opened[Transposed.name] = Transposed()
    try:
        with with_kernel(ThroughLayer, ThroughKernel, Transposed.name):
            yield backend
    finally:
        del opened[Transposed.name]
