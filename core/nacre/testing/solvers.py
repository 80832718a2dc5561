"""SolverTests: what every method, policy, callback and algorithm of a training has to do."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import ContractError, NotFiniteError
from ..fields.component import Component
from ..graph.containers import expand
from ..net.net import Net
from ..protocols.algorithm import Algorithm
from ..protocols.backend import HostMemory
from ..protocols.graph import Graph
from ..protocols.layer import Layer
from ..training.callback import Callback
from ..training.method import Method
from ..training.policies import LrPolicy, MomentumPolicy
from ..training.solver import Solver
from ..training.training import Training
from .bench import spoil
from .close import assert_close, assert_near
from .components import ComponentTests
from .outside import Things, check_unchanged, global_state, growth, refusal, saved
from .suite import When, defines, only
from .toys import (
    SIZES,
    TURNS,
    Descent,
    Momenta,
    NumbersLayer,
    NumbersState,
    PulledLayer,
    Rates,
    Recorder,
    RecorderState,
    pulling,
    toy_layers,
)
from .trial import Example, offered_kernels, with_kernel, without_kernels

FORMS: Mapping[str, type[Component]] = {
    "method": Method,
    "lr_policy": LrPolicy,
    "momentum_policy": MomentumPolicy,
    "callback": Callback,
    "algorithm": Algorithm,
}
ITERATIONS = 5
"""Of the trainings that are resumed, and that callbacks follow."""
STEPS = 5
"""Updates whose results are compared."""
EXACT = {"float64": 1e-9, "float32": 1e-4}
"""How much a parameter may differ from the reference after these updates."""
LONG = 20_000
"""Numbers of the parameter of which no copy may be made in a step."""
MEMBERS = {"method": "solver"}
"""Names of members of a training in its snapshots, where they are others than those of `FORMS`."""


METHOD = When("methods", lambda suite: suite.form() == "method")
POLICY = When("policies", lambda suite: suite.form() in ("lr_policy", "momentum_policy"))
CALLBACK = When("callbacks", lambda suite: suite.form() == "callback")
NO_CALLBACK = When("no callbacks", lambda suite: suite.form() != "callback")
ALGORITHM = When("algorithms", lambda suite: suite.form() == "algorithm")
REFERENCE = defines("reference")
LOOKS_ON = When("not `changes_training`", lambda suite: not suite.changes_training)


class SolverTests(ComponentTests):
    """The tests of a method, a policy of the learning rate or the momentum, a callback, or an algorithm.

    An author gives the class, and fields to try it with:

        class TestLion(SolverTests):
            component = Lion

            def examples(self):
                yield Example({"beta1": 0.9})

            def reference(self, method, value, gradients, rates, momenta):  # optional, of a method
                mean = 0.0
                for gradient, rate in zip(gradients, rates):
                    value = value - rate * np.sign(method.beta1 * mean + (1 - method.beta1) * gradient)
                    mean = method.beta2 * mean + (1 - method.beta2) * gradient
                return value

    and pytest runs the methods `test_...` below that apply to its kind. Callbacks work in a folder of the test's.

    Attributes:
        component: the class.
        dtypes: the types that a method works in.
        changes_training: whether a callback changes or ends the training; else parameters must be the same without it.
    """

    changes_training: ClassVar[bool] = False
    IN_TURNS = frozenset({"test_method_joined"})
    OF_THE_FIRST = frozenset({"test_method_not_finite"})

    def reference(
        self,
        method: Any,
        value: np.ndarray,
        gradients: Sequence[np.ndarray],
        rates: Sequence[float],
        momenta: Sequence[float],
    ) -> np.ndarray:
        """Return the value of a parameter after these updates, computed naively; `momenta` are 0 if it has none."""
        raise ContractError(f"{type(self).__name__} does not define reference()")

    def layers(self, example: Example) -> list[Layer]:
        """Return the net that is trained; by default a small one, with a source for every phase."""
        return toy_layers()

    def callbacks(self, example: Example) -> Sequence[Callback]:
        """Return other callbacks of the training, such as one that validates; none by default."""
        return ()

    @classmethod
    def check_subject(cls) -> None:
        cls.form()

    @classmethod
    def form(cls) -> str:
        """Return the name of the component's kind in `FORMS`."""
        found = [name for name, base in FORMS.items() if issubclass(cls.component, base)]
        if not found:
            raise ContractError(
                f"{cls.__name__}: component={cls.component.__name__}, but it must be a method, a policy, a callback or "
                "an algorithm",
                "LayerTests test layers, SourceTests sources",
            )
        return found[0]

    # Trainings

    @contextmanager
    def training(
        self,
        example: Example,
        *,
        layers: Sequence[Layer] | None = None,
        callbacks: Sequence[Callback] | None = None,
        solver: Mapping[str, Any] | None = None,
        **net: Any,
    ) -> Generator[Training]:
        """Begin a training in which the component works; `solver` are further fields, other options the net's."""
        component, form = self.make_component(example), self.form()
        fields: dict[str, Any] = {"method": Descent(), "lr_policy": Rates(), "max_iter": ITERATIONS}
        if form != "callback":
            fields[form] = component
        if fields["method"].has_momentum:
            fields.setdefault("momentum_policy", Momenta())
        others = [*self.callbacks(example), *([component] if form == "callback" else ())]
        fields["callbacks"] = others if callbacks is None else callbacks
        fields |= solver or {}
        options: dict[str, Any] = {"backend": HostMemory.shared(), "dtype": "float64", **net}
        if form == "algorithm":
            options["algorithm"] = component
        made = Net("test", self.layers(example) if layers is None else layers, **options)
        with made, Solver(**fields).start(made, [_unseen]) as training:
            yield training

    def part(self, training: Training) -> Any:
        """Return the component at work in a training."""
        form = self.form()
        if form == "callback":
            return next(state for state in training.callbacks if isinstance(state.callback, self.component))
        states = {"method": training.method, "lr_policy": training.rate.policy, "momentum_policy": training.momentum}
        return {**states, "algorithm": training.algorithm}[form]

    @contextmanager
    def recorded(self, example: Example, folder: Path) -> Generator[tuple[Training, RecorderState]]:
        """Begin a training in a folder, with a recorder behind all callbacks."""
        folder.mkdir(parents=True, exist_ok=True)
        component = [self.make_component(example)] if self.form() == "callback" else []
        every = [*self.callbacks(example), *component, Recorder()]
        with chdir(folder), self.training(example, callbacks=every) as training:
            recorder = next(state for state in training.callbacks if isinstance(state, RecorderState))
            recorder.watched = self.part(training)
            yield training, recorder

    # All forms

    def test_resume(self, example: Example, tmp_path: Path) -> None:
        """A training that is resumed after any iteration goes on bit for bit as the one that was not interrupted."""
        own = MEMBERS.get(self.form(), self.form())
        if own == "callback":
            own = f"callback.{self.component.__name__}"
        with self.recorded(example, tmp_path / "whole") as (training, recorder):
            recorder.copies = tmp_path
            training.run()
            whole = recorder.notes
        for done in range(1, len(whole)):
            with self.recorded(example, tmp_path / str(done)) as (training, recorder):
                training.restore(whole[done - 1].snapshot)
                training.run()
                notes = recorder.notes
            for number, (note, other) in enumerate(zip(notes, whole[done:], strict=False), done + 1):
                wrong = note.differs(other, own)
                assert not wrong, f"resumed after {done} iterations: after {number} of them {wrong}"
            assert len(notes) == len(whole) - done, (
                f"resumed after {done} iterations, the training has {len(notes)} more instead of {len(whole) - done}"
            )

    def test_memory(self, example: Example, tmp_path: Path) -> None:
        """`memory` gives arrays, finite numbers and texts, which do not change later; `remember` takes them back.

        Policies of the rate and callbacks get earlier ones too, also empty ones: a training may go back.
        """
        with self.recorded(example, tmp_path) as (training, recorder):
            training.run()
            for memory, before in recorder.memories:
                check_unchanged(memory, before, "later iterations")
        with self.recorded(example, tmp_path / "again") as (training, _):
            part, goes_back = self.part(training), self.form() in ("lr_policy", "callback")
            earlier = [saved(part.memory()), *(before for _, before in recorder.memories)]
            for before in (*earlier, *earlier[::-1]):
                if before or (goes_back and part.memory()):
                    part.remember(before)
                    check_unchanged(part.memory(), before, "remember()")

    @only(NO_CALLBACK)
    def test_two_trainings(self, example: Example) -> None:
        """Two trainings at once, of one and the same object, are what each is alone."""
        made = self.make_component(example)

        def numbers(training: Training) -> tuple[float, float, bytes]:
            scalars = training.net.scalars
            values = b"".join(handle.value.tobytes() for handle in training.net.parameters.values())
            return scalars["rate"], scalars["momentum"], values

        form = self.form()
        with ExitStack() as stack:
            alone, one, other = (
                stack.enter_context(self.training(example, solver={form: made}, seed=seed)) for seed in (0, 0, 1)
            )
            expected: list[Any] = []
            for _ in range(4):
                alone.step()
                expected.append(numbers(alone))
            for number, wanted in enumerate(expected):
                one.step()
                other.step()
                assert numbers(one) == wanted, (
                    f"iteration {number}: rate, momentum or parameters are others beside a second training: keep what "
                    "belongs to a training in its state"
                )

    def test_global_state(self, example: Example, tmp_path: Path) -> None:
        """It neither reads nor changes the random numbers of `numpy.random` and `random`, nor NumPy's settings."""
        own, found = MEMBERS.get(self.form(), self.form()), list[Any]()
        for seed in (1, 2):
            with self.recorded(example, tmp_path / str(seed)) as (training, recorder), global_state(seed):
                training.run()
            found.append(recorder.notes)
        for note, other in zip(*found, strict=True):
            wrong = note.differs(other, own)
            assert not wrong, f"after {note.iteration} iterations {wrong} with other global random numbers"

    # Methods

    @only(METHOD, REFERENCE)
    def test_method_update(self, backend: str, dtype: str, example: Example) -> None:
        """After five updates every number is what the reference says."""
        with self.pulled(example, backend=backend, dtype=dtype) as training:
            method = training.solver.method
            before = values_of(training)
            _steps(training)
            scalars = [(Rates().rate(turn), Momenta().momentum(turn)) for turn in range(STEPS)]
            rates, momenta = (list(one) for one in zip(*scalars, strict=True))
            momenta = momenta if method.has_momentum else [0.0] * STEPS
            for number, (name, value) in enumerate(values_of(training).items()):
                gradients = [pulling(number, turn, SIZES[number]) for turn in range(STEPS)]
                expected = self.reference(method, before[name].astype(np.float64), gradients, rates, momenta)
                assert_close(value, np.asarray(expected), f"'{name}' after {STEPS} updates", EXACT[dtype])

    @only(METHOD)
    def test_method_joined(self, backend: str, dtype: str, example: Example) -> None:
        """Parameters that lie beside each other in one span become what each becomes alone."""
        with self.pulled(example, backend=backend, dtype=dtype) as joined:
            _steps(joined)
            together = values_of(joined)
        for number in range(len(SIZES)):
            with self.pulled(example, [number], backend=backend, dtype=dtype) as alone:
                _steps(alone)
                (name, value), *_ = values_of(alone).items()
                assert_close(
                    together[name], value, f"'{name}' of {SIZES[number]} numbers, beside others in a span", EXACT[dtype]
                )

    @only(METHOD)
    def test_method_padding(self, example: Example) -> None:
        """What lies between the parameters of a span stays zero: it is no parameter."""
        with self.pulled(example) as training:
            _steps(training)
            assert any(len(span.pieces) > 1 for span in training.spans)
            for span in training.spans:
                host = np.array(training.net.backend.to_host(span.value))
                for piece in span.pieces:
                    piece.of(host)[...] = 0
                assert not host.any(), f"a span is {host[host != 0][0]:.6g} between two parameters"

    @only(METHOD)
    def test_method_histories(self, example: Example) -> None:
        """A history has an array for each span, of its length and type."""
        with self.pulled(example) as training:
            for name, arrays in training.method.histories.items():
                found = [(tuple(one.shape), str(one.dtype)) for one in arrays]
                wanted = [(tuple(span.value.shape), str(span.value.dtype)) for span in training.spans]
                assert found == wanted, f"history '{name}' has arrays of {found} for spans of {wanted}"

    @only(METHOD)
    def test_method_paces(self, example: Example) -> None:
        """The rate of a parameter multiplies the learning rate, and other parameters are left at theirs."""
        layers = [
            NumbersLayer(name="numbers"),
            PulledLayer(name="slow", parts=(3,)),
            PulledLayer(name="fast", parts=(3,), pace=2),
        ]
        twice = {"lr_policy": Rates(each=tuple(2 * rate for rate in Rates().each))}
        with (
            self.training(example, layers=layers) as training,
            self.pulled(example, [3]) as slow,
            self.pulled(example, [3], solver=twice) as fast,
        ):
            for one in (training, slow, fast):
                _steps(one)
            both = values_of(training)
            for name, rate, alone in (("slow", 1, slow), ("fast", 2, fast)):
                wanted = values_of(alone)["pull/w3"]
                assert_close(
                    both[f"{name}/w3"], wanted, f"a parameter whose rate is {rate} (Span.rate)", EXACT["float64"]
                )

    @only(METHOD)
    def test_method_frozen(self, example: Example) -> None:
        """Frozen parameters and buffers keep their bits, and the others go on as they would without them."""
        layers = [
            NumbersLayer(name="numbers"),
            *(PulledLayer(name=name, parts=(part,)) for name, part in (("one", 1), ("cold", 2), ("two", 3))),
        ]
        with self.training(example, layers=layers, freeze=["cold"]) as training:
            before = values_of(training)
            _steps(training)
            after = values_of(training)
            assert after["cold/w2"].tobytes() == before["cold/w2"].tobytes(), "a frozen parameter has changed"
            for name, number in (("one/w1", 1), ("two/w3", 3)):
                with self.pulled(example, [number]) as alone:
                    _steps(alone)
                    wanted = next(iter(values_of(alone).values()))
                assert_close(after[name], wanted, f"'{name}' beside a frozen parameter", EXACT["float64"])

    @only(METHOD)
    def test_method_gradients(self, example: Example) -> None:
        """An update does not change the gradients, which callbacks may read after it."""
        with self.pulled(example) as training:
            _steps(training, 2)
            host = training.net.backend.to_host
            before: list[np.ndarray] = [
                np.linspace(-1, 1, span.gradient.shape[0], dtype=np.float64) for span in training.spans
            ]
            for span, gradient in zip(training.spans, before, strict=True):
                training.net.backend.from_host(gradient, span.gradient)
            training.method.advance()
            training.method.update()
            for span, gradient in zip(training.spans, before, strict=True):
                same = host(span.gradient).tobytes() == gradient.tobytes()
                assert same, f"update() changes the gradient of '{span.pieces[0].name}'"

    @only(METHOD)
    def test_method_scalars(self, example: Example) -> None:
        """An update goes by the learning rate of its iteration, and by its momentum if, and only if, it has one."""

        def end(**solver: Any) -> bytes:
            with self.pulled(example, solver=solver) as training:
                _steps(training)
                return b"".join(value.tobytes() for value in values_of(training).values())

        first = end()
        assert end(lr_policy=Rates(each=(0.05, 0.02, 0.5))) != first, "another learning rate makes no difference"
        with self.pulled(example, solver={"lr_policy": Rates(each=(0.0,))}) as training:
            before = values_of(training)
            _steps(training)
            for name, value in values_of(training).items():
                assert np.array_equal(value, before[name]), f"with the learning rate 0 '{name}' changes"
        if self.component.has_momentum:
            assert end(momentum_policy=Momenta(each=(0.5, 0.8))) != first, (
                "another momentum makes no difference: declare has_momentum = False"
            )

    @only(METHOD)
    def test_method_failed_batch(self, example: Example) -> None:
        """`remember` undoes `advance`: a batch that cannot be read is as if it had not been tried."""
        with self.pulled(example) as training, self.pulled(example) as other:
            for one in (training, other):
                _steps(one, 2)
            before = training.method.memory()
            training.method.advance()
            training.method.remember(before)
            for one in (training, other):
                _steps(one, 2)
            for name, value in values_of(training).items():
                assert np.array_equal(value, values_of(other)[name]), (
                    f"'{name}' has other numbers after a batch that failed: memory() must hold what advance() changes"
                )

    @only(METHOD)
    def test_method_not_finite(self, backend: str, example: Example) -> None:
        """A parameter or gradient that is not finite ends the training: `product` tells, also that of a kernel."""
        kernels = [None, *offered_kernels(self.component, "solver", backend)]
        number = len(SIZES) - 1
        for kernel, what in itertools.product(kernels, ("value", "gradient")):
            served = with_kernel(self.component, *kernel) if kernel else without_kernels(self.component)
            with served, self.pulled(example, backend=backend, dtype=self.dtypes[-1]) as training:
                bad = np.full(SIZES[number], 0.5, self.dtypes[-1])
                bad[-1] = np.nan
                if what == "value":
                    training.net.parameters[f"pull/w{number}"].value = bad
                else:
                    pulled: Any = training.net.node_ops["pull"].state
                    training.net.backend.from_host(bad, pulled.pulls[number][0])
                told = refusal(NotFiniteError, training.step)
                name = type(training.method).__qualname__
                assert told, f"{name}: with NaN in a {what} the training goes on: product() must not be finite"

    @only(METHOD)
    def test_method_memory_in_use(self, example: Example) -> None:
        """A step makes no copy of a parameter, and the hundredth needs no more memory than the tenth."""
        with self.pulled(example, [LONG]) as training:
            _steps(training, 3)
            tracemalloc.start()
            try:
                before = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
                _steps(training, 2)
                most = tracemalloc.get_traced_memory()[1] - before
            finally:
                tracemalloc.stop()
            assert most < 2 * LONG, (
                f"a step allocates {most:,} bytes for a parameter of {8 * LONG:,}: make arrays in the state's "
                "constructor, or use backend.scratch"
            )
            more = growth(lambda: _steps(training, 30), 30 * 50)
            assert more <= 30 * 50, f"30 steps more, and {more:,} bytes more are in use"

    @only(METHOD)
    def test_method_kernels(self, backend: str, dtype: str, example: Example) -> None:
        """Every kernel that is offered for the method gives what its own state gives, and keeps the same."""
        for kernel, owner in offered_kernels(self.component, "solver", backend):
            with without_kernels(self.component), self.pulled(example, backend=backend, dtype=dtype) as own:
                _steps(own)
                wanted, kept = values_of(own), _histories(own)
                with (
                    with_kernel(self.component, kernel, owner),
                    self.pulled(example, backend=backend, dtype=dtype) as fast,
                ):
                    if fast.choice.kernel is None:
                        continue
                    _steps(fast)
                    name = kernel.__qualname__
                    found = _histories(fast)
                    assert set(found) == set(kept), f"{name} keeps {sorted(found)} instead of {sorted(kept)}"
                    memories = [set(one.method.memory()) for one in (fast, own)]
                    assert memories[0] == memories[1], f"{name} has the memory {memories[0]} instead of {memories[1]}"
                    for what, value in values_of(fast).items():
                        assert_near(value, wanted[what], f"{name}: '{what}'")
                    for what, value in found.items():
                        assert_near(value, kept[what], f"{name}: {what}")

    @contextmanager
    def pulled(self, example: Example, parts: Sequence[int] = range(len(SIZES)), **options: Any) -> Generator[Training]:
        """Begin a training of parameters with given gradients."""
        layers = [NumbersLayer(name="numbers"), PulledLayer(name="pull", parts=tuple(parts))]
        with self.training(example, layers=layers, **options) as training:
            yield training

    # Policies

    @only(POLICY)
    def test_policy_values(self, example: Example) -> None:
        """The value of each iteration is a finite number, 0 or more."""
        with self.training(example) as training:
            value = self._value(training)
            for iteration in (*range(60), 10**4, 10**6):
                found = value(iteration)
                assert isinstance(found, Real), f"iteration {iteration}: {found!r} is no number"
                assert isfinite(found) and float(found) >= 0, (
                    f"iteration {iteration}: {found}, but it must be 0 or more"
                )

    @only(POLICY)
    def test_policy_is_pure(self, example: Example) -> None:
        """The value is a function of the iteration and of what the training has reported: asking changes nothing."""
        with self.training(example) as training:
            for _ in range(3):
                value, before = self._value(training), saved(self.part(training).memory())
                first = {iteration: value(iteration) for iteration in range(20)}
                for order in (range(20), range(19, -1, -1)):
                    for iteration in order:
                        found = value(iteration)
                        assert found == first[iteration], (
                            f"iteration {iteration}: {found} instead of {first[iteration]}, which was said before"
                        )
                assert saved(self.part(training).memory()) == before, "asking for a value changes the memory"
                training.step()

    @only(POLICY)
    def test_policy_reaches_the_training(self, example: Example) -> None:
        """The training uses the value of each iteration, counted from 0."""
        name = "rate" if self.form() == "lr_policy" else "momentum"
        with self.training(example) as training:
            for iteration in range(4):
                wanted = self._value(training)(iteration)
                training.step()
                found = training.net.scalars[name]
                assert found == wanted, f"iteration {iteration} has the {name} {found} instead of {wanted}"

    def _value(self, training: Training) -> Any:
        return self.part(training).rate if self.form() == "lr_policy" else self.part(training).momentum

    # Callbacks

    @only(CALLBACK, LOOKS_ON)
    def test_callback_leaves_the_training_alone(self, example: Example, tmp_path: Path) -> None:
        """A training has the same parameters, rates and losses with the callback and without it."""
        with self.recorded(example, tmp_path) as (training, recorder):
            training.run()
        with self.training(example, callbacks=[*self.callbacks(example), Recorder()]) as bare, chdir(tmp_path):
            bare.run()
        other = next(state for state in bare.callbacks if isinstance(state, RecorderState))
        assert len(recorder.notes) == len(other.notes), (
            f"the training has {len(recorder.notes)} iterations, and {len(other.notes)} without the callback: if it is "
            "to end trainings, say changes_training = True"
        )
        for note, without in zip(recorder.notes, other.notes, strict=True):
            wrong = note.differs(without, "nothing")
            assert not wrong, f"after {note.iteration} iterations {wrong}, because of the callback"

    @only(CALLBACK)
    def test_callback_life(self, example: Example, tmp_path: Path) -> None:
        """It may be shut down at any time and twice, also where it never ran, and then holds nothing open."""
        for number, how in enumerate(("runs", "never begins", "ends at once", "fails", "runs again")):
            before = Things.open()
            with self.recorded(example, tmp_path / how) as (training, recorder):
                if how == "ends at once":
                    training.stop("at once")
                if how == "fails":
                    recorder.watched = _Failing()
                if how != "never begins":
                    try:
                        training.run()
                    except _FailedError:
                        assert how == "fails"
                state = self.part(training)
                state.shutdown()
                state.shutdown()
            left = Things.open().besides(before, files=number > 0)  # the first time libraries open files of their own
            assert not left, f"after a training that {how}, and shutdown, {left}"

    @only(CALLBACK)
    def test_callback_is_due(self, example: Example, tmp_path: Path) -> None:
        """It runs after the iterations that `every_n_iter` says, and not before the first one."""
        with self.recorded(example, tmp_path) as (training, _):
            state, ran = self.part(training), list[int]()
            every, due = state.callback.every_n_iter, state.due
            if state.callback.every_n_epoch or not every:
                return

            def noted(epochs: int) -> bool:
                if due(epochs):
                    ran.append(training.iteration)
                    return True
                return False

            state.due = noted
            training.run()
            wanted = [iteration for iteration in range(1, training.iteration + 1) if iteration % every == 0]
            assert ran == wanted, f"every_n_iter={every}, but it ran after the iterations {ran} instead of {wanted}"

    # Algorithms

    @only(ALGORITHM)
    def test_algorithm_gradients(self, example: Example) -> None:
        """A batch writes every gradient: finite numbers, whatever was there before."""
        with self.training(example) as clean, self.training(example) as spoiled:
            steps = [one.net.compile(one.solver.algorithm.start(one.net).train_one_batch()) for one in (clean, spoiled)]
            for _ in range(2):
                spoil(spoiled.net.backend, [slot.gradient for slot in spoiled.slots])
                for run in steps:
                    run()
                found, wanted = (
                    {name: one.gradient for name, one in training.net.parameters.items() if one.gradient is not None}
                    for training in (spoiled, clean)
                )
                for name, gradient in found.items():
                    assert np.isfinite(gradient).all(), f"the gradient of '{name}' is not written by the batch"
                    same = np.array_equal(gradient, wanted[name])
                    assert same, f"the gradient of '{name}' depends on what was there before: write it, do not add"
                assert any(gradient.any() for gradient in found.values()), "every gradient is zero"

    @only(ALGORITHM)
    def test_algorithm_batches(self, example: Example) -> None:
        """An iteration takes one batch of each source."""
        with self.training(example) as training:
            sources = [op.state for op in training.net.ops if isinstance(op.state, NumbersState)]
            for number in range(1, 4):
                training.step()
                fed = [state.fed for state in sources]
                assert set(fed) <= {number}, f"after {number} iterations the sources have fed {fed} batches"

    @only(ALGORITHM)
    def test_algorithm_rewrite(self, example: Example) -> None:
        """`rewrite` leaves the graph that it is given as it is, and returns the same graph each time."""
        made = self.make_component(example)
        for phase in ("train", "validation", "predict"):
            layers = [layer for layer in self.layers(example) if phase not in layer.exclude]
            graph = expand(Graph.of(layers), phase)
            before = _drawn(graph)
            first, second = (_drawn(made.rewrite(graph, phase)) for _ in range(2))
            assert _drawn(graph) == before, f"phase {phase}: rewrite changes the graph that it is given"
            assert first == second, f"phase {phase}: rewrite returns another graph the second time"


class _FailedError(Exception):
    """Raised by the kit in the middle of a training."""


class _Failing:
    def memory(self) -> Mapping[str, Any]:
        """Raise an error."""
        raise _FailedError


def _unseen(event: str, data: dict[str, Any]) -> None:
    """Show nothing of a training."""


def values_of(training: Training) -> dict[str, np.ndarray]:
    """Return the values of all parameters and buffers."""
    return {name: handle.value for name, handle in training.net.parameters.items()}


def _histories(training: Training) -> dict[str, np.ndarray]:
    """Return the histories of the method, parameter by parameter."""
    return {
        f"history '{name}' of '{piece.name}'": np.array(piece.of(training.net.backend.to_host(array)))
        for name, arrays in training.method.histories.items()
        for span, array in zip(training.spans, arrays, strict=True)
        for piece in span.pieces
    }


def _steps(training: Training, count: int = STEPS) -> None:
    for _ in range(count):
        training.step()


def _drawn(graph: Graph) -> list[Any]:
    return [(node.name, type(node.layer).__name__, tuple(node.bottoms), tuple(node.tops)) for node in graph.nodes]


assert STEPS <= TURNS
