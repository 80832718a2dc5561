"""FrameworkTests: the suite of a framework, whose ranks run as threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest

from ..fields.checks import positive
from ..fields.types import Names, default
from ..net.net import Net
from ..protocols.backend import open_backend
from ..protocols.communicator import Communicator
from ..protocols.layer import Layer
from ..protocols.state import SourceState
from ..training.framework import Framework
from ..training.solver import Solver
from ..training.training import Training
from .close import assert_close
from .components import ComponentTests
from .crew import crew, own_backend, together
from .suite import When, only
from .toys import WIDE, Descent, LineLayer, MeanSquareLayer
from .trial import Example, backends

BATCH = 12
ITERATIONS = 6
LONG = 80
"""Iterations after which the loss must be much smaller."""
EXACT = 1e-10


class DrawnLayer(Layer, is_source=True):
    """Records without end, whose targets are a linear function of them; ranks read parts of the same batches."""

    tops: Annotated[Names, ""] = default(("numbers", "target"))
    batch_size: Annotated[int, positive] = BATCH


class DrawnState(SourceState, of=DrawnLayer, host_only=True):
    """The state of `DrawnLayer`; `fed` counts its batches."""

    endless = True

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((layer.batch_size, WIDE)), backend.blob((layer.batch_size, 1))]
        self.factors = np.random.default_rng(0).normal(size=(WIDE, 1))
        self.fed = 0

    def forward(self, inputs: list[Any]) -> None:
        size = self.layer.batch_size
        first, every = self.backend.joined(size)
        numbers = np.random.default_rng([1, self.fed]).normal(size=(every, WIDE))[first : first + size]
        self.blobs[0][...], self.blobs[1][...] = numbers, numbers @ self.factors
        self.rows, self.fed = size, self.fed + 1

    def memory(self) -> Mapping[str, Any]:
        return {"fed": self.fed}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.fed = int(memory["fed"])


ALIKE = When("`exact`", lambda suite: suite.exact)


class FrameworkTests(ComponentTests):
    """The tests of a framework: its ranks, which are threads here, train a small net.

        class TestSandblaster(FrameworkTests):
            component = Sandblaster
            sizes = (2, 3)
            exact = True

            def examples(self):
                yield Example({"servers": 1})

    Attributes:
        component: the class.
        sizes: the numbers of ranks to test with.
        exact: whether the ranks learn what one process learns with the whole batches, but for the order of sums.
    """

    BASE = Framework
    sizes: ClassVar[Sequence[int]] = (2, 3)
    exact: ClassVar[bool] = False

    def test_ranks_are_alike(self, example: Example) -> None:
        """At the end all ranks have done the same iterations, and have the same parameters, buffers and loss."""
        for size in self.sizes:
            found = self._run(example, size, to_the_end)
            for rank, one in enumerate(found):
                assert one["iteration"] == ITERATIONS, f"rank {rank} of {size} has done {one['iteration']} iterations"
                _check_same(one, found[0], f"rank {rank} of {size}")

    def test_learns(self, example: Example) -> None:
        """The loss after many iterations is much smaller than at first."""
        size = self.sizes[-1]
        first = self._run(example, size, to_the_end, max_iter=1)[0]["loss"]
        last = self._run(example, size, to_the_end, max_iter=LONG)[0]["loss"]
        assert last < 0.2 * first, f"the loss is {first:g} at first, and still {last:g} after {LONG} iterations"

    @only(ALIKE)
    def test_exact(self, example: Example) -> None:
        """The ranks learn what one process learns with the whole batches."""
        with _training(None, None) as alone:
            alone.run()
            expected = _found(alone)
        for size in self.sizes:
            for rank, one in enumerate(self._run(example, size, to_the_end)):
                for name, value in expected["arrays"].items():
                    what = f"{name} on rank {rank} of {size}, beside that of one process"
                    assert_close(one["arrays"][name], value, what, EXACT)

    def test_roles(self, example: Example) -> None:
        """What `roles` says of who trains and who updates which parameters is what the ranks of a training do."""
        for size in self.sizes:
            with _training(None, None) as alone:
                parameters = {slot.name: slot.storage.size for slot in alone.slots}
            if not (roles := self.make_component(example).roles(parameters, size)):
                pytest.skip("the framework does not say what its ranks do (Framework.roles)")
            assert len(roles) == size, f"there are {len(roles)} roles, but {size} ranks"
            known: dict[int, tuple[bool, list[str]]] = {}

            def look(rank: int, training: Training) -> None:
                state = training.framework
                assert state is not None
                known[rank] = state.trains, [slot.name for slot in state.updated(training.slots)]  # noqa: B023
                training.run()

            self._run(example, size, look)
            for rank, role in enumerate(roles):
                trains, updates = known[rank]
                where = f"roles: rank {rank} of {size}"
                assert role.trains == trains, f"{where}: trains is {role.trains}, but the state's is {trains}"
                assert sorted(role.updates) == sorted(updates), (
                    f"{where}: updates is {sorted(role.updates)}, but the state updates {sorted(updates)}"
                )

    def test_stop(self, example: Example) -> None:
        """What stops one rank ends the training on all of them at the same iteration."""
        size = self.sizes[-1]

        def run(rank: int, training: Training) -> None:
            def stop(event: str, data: Mapping[str, Any]) -> None:
                if event == "step" and rank == size - 1 and data["iteration"] == 2:
                    training.stop("the test")

            training.listeners.append(stop)
            training.run()
            assert training.stopped == "the test", f"rank {rank} of {size} is not told why the training ends"

        found = self._run(example, size, run, max_iter=10 * LONG)
        ends = {one["iteration"] for one in found}
        assert len(ends) == 1, f"ranks end after {sorted(ends)} iterations"
        assert 2 <= min(ends) < 10 * LONG, f"the training ends after {min(ends)} iterations"

    def test_resume(self, example: Example) -> None:
        """A snapshot holds what all ranks need to go on from it."""
        for size in self.sizes:
            snapshots: dict[int, Any] = {}

            def save(rank: int, training: Training) -> None:
                for _ in range(ITERATIONS // 2):
                    training.step()
                snapshots[rank] = training.snapshot()  # noqa: B023 (the threads end before the next size)
                for _ in range(ITERATIONS // 2):
                    training.step()
                training.come_together()

            def go_on(rank: int, training: Training) -> None:
                training.restore(snapshots[rank])  # noqa: B023
                training.run()

            uninterrupted = self._run(example, size, save)
            resumed = self._run(example, size, go_on)
            for rank, one in enumerate(resumed):
                assert one["iteration"] == ITERATIONS, f"rank {rank} of {size} ends after {one['iteration']} iterations"
                _check_same(one, resumed[0], f"rank {rank} of {size}, resumed")
            if self.exact:
                _check_same(resumed[0], uninterrupted[0], f"the training of {size} ranks that was resumed")

    def _run(
        self, example: Example, size: int, work: Callable[[int, Training], object], max_iter: int = ITERATIONS
    ) -> list[dict[str, Any]]:
        """Let the ranks of a training work; return what each has in the end."""
        ranks, framework = crew(size), self.make_component(example)

        def run(rank: int) -> dict[str, Any]:
            with _training(ranks[rank], framework, max_iter) as training:
                work(rank, training)
                return _found(training)

        return together(ranks, run)


def on_host() -> str:
    """Return the name of a backend whose arrays are NumPy's."""
    return next(name for name in backends() if open_backend(name).on_host)


def to_the_end(rank: int, training: Training) -> None:
    """Train to the end."""
    training.run()


def _training(communicator: Communicator | None, framework: Framework | None, max_iter: int = ITERATIONS) -> Training:
    layers: list[Layer] = [DrawnLayer(name="drawn"), LineLayer(name="line"), MeanSquareLayer(name="loss")]
    options: dict[str, Any] = {}
    if communicator is not None and framework is not None:
        layers = framework.layers(layers, communicator)
        options = {"communicator": communicator, "group": framework.group(communicator)}
    net = Net("framework", layers, backend=own_backend(on_host()), dtype="float64", **options)
    return Solver(Descent(), lr_policy=0.1, max_iter=max_iter, framework=framework).start(net)


def _found(training: Training) -> dict[str, Any]:
    arrays = {name: np.array(handle.value) for name, handle in training.net.parameters.items()}
    return {"iteration": training.iteration, "loss": training.loss, "arrays": arrays}


def _check_same(one: Mapping[str, Any], other: Mapping[str, Any], who: str) -> None:
    for name, value in one["arrays"].items():
        assert np.array_equal(value, other["arrays"][name]), f"{who}: {name} is {value}, not {other['arrays'][name]}"
    assert one["loss"] == other["loss"], f"{who}: the loss is {one['loss']}, not {other['loss']}"
