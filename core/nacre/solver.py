"""The training loop, and the protocols of what it is made of: method, policies, callbacks, algorithm."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from .checks import Configured, Converted, default, non_negative, positive
from .component import Array, Component, make_component
from .errors import NotFiniteError, SnapshotError
from .placement import Slot
from .schedule import Step

if TYPE_CHECKING:
    from .backend import View
    from .net import Net
    from .snapshot import Snapshot


class LrPolicy(Component, kind="lr_policy"):
    """Gives the learning rate of an iteration; a bare number is the policy `Fixed`."""

    @classmethod
    def from_number(cls, number: float) -> LrPolicy:
        return make_component(LrPolicy, {"type": "Fixed", "base": number})

    def rate(self, iteration: int) -> float:
        """Give the learning rate of an iteration, counted from 0."""
        raise NotImplementedError


class MomentumPolicy(Component, kind="momentum_policy"):
    """Gives the momentum of an iteration; a bare number is the policy `Fixed`."""

    @classmethod
    def from_number(cls, number: float) -> MomentumPolicy:
        return make_component(MomentumPolicy, {"type": "Fixed", "base": number})

    def momentum(self, iteration: int) -> float:
        """Give the momentum of an iteration, counted from 0."""
        raise NotImplementedError


@dataclass
class Span:
    """A stretch of contiguous memory that a method updates in one pass: values and gradients, flat.

    `rate` multiplies the learning rate. `parts` tells where each parameter lies: (name, offset, size). Padding between
    parameters is zero, and stays zero.
    """

    value: Array
    gradient: Array
    rate: float
    parts: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])


class Method(Component, kind="solver"):
    """A rule that updates parameters: SGD, Adam, ..."""

    def setup(self, backend: View, spans: Sequence[Span]) -> MethodState:
        """Make the state of this method for the spans of a net."""
        raise NotImplementedError


class MethodState:
    """A method at work. A kernel for ("solver/SGD", backend) is made in the same way: `Kernel(method, backend, spans)`.

    `histories` names the arrays that the method keeps, one of each span's size for each span; they are saved by parameter.
    The rate of the iteration is `backend.scalars["rate"]`, its momentum `backend.scalars["momentum"]`.
    """

    dtypes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, method: Any, backend: View, spans: Sequence[Span]) -> None:
        self.method = method
        self.backend = backend
        self.spans = list(spans)
        self.histories: dict[str, list[Array]] = {}

    @classmethod
    def supports(cls, method: Any, spans: Sequence[Span]) -> str | None:
        """Give None, or the reason why this kernel does not serve `method`."""
        return None

    def history(self, name: str) -> list[Array]:
        """Make the arrays of a history, filled with zeros."""
        self.histories[name] = [self.backend.empty(span.value.shape) for span in self.spans]
        return self.histories[name]

    def update(self) -> None:
        """Change the values of all spans by their gradients."""
        raise NotImplementedError


class Algorithm(Component, kind="algorithm"):
    """Trains one batch: says which passes of a net an iteration is made of."""

    def train_one_batch(self, net: Net) -> list[Step]:
        """Give the steps that compute the gradients of one batch: `net.steps("feed")`, `"forward"`, `"backward"`.

        Called once; the solver compiles the steps together with its own.
        """
        raise NotImplementedError


class Callback(Component, kind="callback"):
    """Does something every n iterations, or every n passes over the data (Mocha's coffee break)."""

    every_n_iter: Annotated[int, non_negative, "do it every so many iterations; 0 never"] = 0
    every_n_epoch: Annotated[int, non_negative, "do it every so many passes over the data; 0 never"] = 0

    def start(self, training: Training) -> CallbackState:
        """Make the state of this callback for one training."""
        raise NotImplementedError


class CallbackState:
    """A callback at work in one training."""

    def __init__(self, callback: Any, training: Training) -> None:
        self.callback = callback
        self.training = training

    def run(self) -> None:
        """Do it: called after the iterations that the callback asks for."""
        raise NotImplementedError

    def finish(self) -> None:
        """The training has ended, or was stopped, after a whole iteration."""

    def shutdown(self) -> None:
        """Give back what `start` took; called whatever happened."""

    def memory(self) -> Mapping[str, Any]:
        """Give what must survive a restart, as arrays and numbers."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take back what `memory` gave."""


class Callbacks(Converted["Sequence[Callback]", "tuple[Callback, ...]"]):
    """Callbacks, in the order in which they run."""

    wants = "a list of callbacks"

    @staticmethod
    def convert(value: Any) -> tuple[Callback, ...]:
        if isinstance(value, str | Mapping):
            raise ValueError
        return tuple(one if isinstance(one, Callback) else make_component(Callback, one) for one in value)


Report = Callable[[str, dict[str, Any]], None]


class Solver(Configured):
    """Trains a net: method, policies, regularisation, constraints, callbacks, and the algorithm of a batch.

    `Solver(SGD(), max_iter=1000, lr_policy=0.01, momentum_policy=0.9).solve(net)`.
    """

    method: Annotated[Method, "the rule that updates parameters"]
    algorithm: Annotated[Algorithm, "how a batch is trained"] = default("BP")
    max_iter: Annotated[int, positive, "iterations to train"] = 1000
    lr_policy: Annotated[LrPolicy, "learning rate of an iteration"] = default(0.01)
    momentum_policy: Annotated[MomentumPolicy, "momentum of an iteration"] = default(0.0)
    regu_coef: Annotated[float, non_negative, "multiplies every regulariser's own coefficient"] = 0.0
    callbacks: Annotated[Callbacks, "what is done between iterations"] = default(())
    check_finite: Annotated[bool, "stop where a loss or a gradient is not finite"] = True

    def __init__(self, method: Method | str, **fields: Any) -> None:
        cast("Any", super()).__init__(method=method, **fields)

    def start(self, net: Net, reports: Sequence[Report] = ()) -> Training:
        """Make a training of `net` by this solver; `Training.run` runs it, `Training.step` one iteration."""
        return Training(self, net, reports)

    def solve(self, net: Net, *, resume: Snapshot | None = None, reports: Sequence[Report] = ()) -> Training:
        """Train a net to the end, or until SIGINT or SIGTERM; give the training, whose fields tell how it went.

        Raises:
            TopologyError: back-propagation cannot go through the net.
            NotFiniteError: a loss, a gradient or a parameter is not finite.
            SnapshotError: `resume` belongs to another net.
        """
        training = self.start(net, reports)
        if resume is not None:
            training.restore(resume)
        training.run()
        return training


class Training:
    """One training: where it stands, and what it can tell callbacks.

    `iteration` counts the iterations that are done; `loss` is that of the last batch, before its update.
    """

    def __init__(self, solver: Solver, net: Net, reports: Sequence[Report] = ()) -> None:
        self.solver = solver
        self.net = net
        self.iteration = 0
        self.seconds = 0.0
        self.epochs = 0
        self.stopped = ""
        self.statistics: dict[str, dict[str, dict[str, float]]] = {}
        self.snapshot_path = ""
        self.info: dict[str, Any] = {}
        self._reports = list(reports)
        self._loss: float | None = None
        self._done = False
        self.slots = [slot for slot in net.slots if slot.trainable and slot.layer not in net.frozen]
        self.spans = make_spans(net, self.slots)
        self.method = self._make_method()
        steps = [
            *solver.algorithm.train_one_batch(net),
            *self._regularise(),
            Step("update", type(solver.method).__name__, self.method.update, net.backend if self.choice.kernel else None),
            *self._constrain(),
        ]
        self._call = net.compile(steps)
        self._losses = [op for op in net.ops if "/" not in op.name and op.layer.has_loss]
        self.callbacks = [callback.start(self) for callback in solver.callbacks]

    def _make_method(self) -> MethodState:
        from .registry import registry

        net, method = self.net, self.solver.method

        def accept(kernel: Any, offer: Any) -> str | None:
            if kernel.dtypes and net.dtype not in kernel.dtypes:
                return f"computes in {', '.join(kernel.dtypes)}, not {net.dtype}"
            return kernel.supports(method, self.spans)

        self.choice = registry().choose(type(method), "solver", net.backend.lineage, accept, net.pins)
        view = net.view(net.backend)
        return self.choice.kernel(method, view, self.spans) if self.choice.kernel else method.setup(view, self.spans)

    def _regularise(self) -> list[Step]:
        steps: list[Step] = []
        view = self.net.view(self.net.backend)
        for slot in self.slots:
            regularizer = slot.parameters[0].regu
            coefficient = self.solver.regu_coef * getattr(regularizer, "coef", 1.0)
            if regularizer is None or not coefficient:
                continue
            value = view.backend.view(slot.storage.array, (slot.storage.size,))
            gradient = view.backend.view(slot.gradient, (slot.storage.size,))

            def call(regularizer: Any = regularizer, value: Array = value, gradient: Array = gradient, c: float = coefficient) -> None:
                regularizer.add_gradient(view, value, gradient, c)

            steps.append(Step("regularise", slot.name, call))
        return steps

    def _constrain(self) -> list[Step]:
        steps: list[Step] = []
        view = self.net.view(self.net.backend)
        for slot in self.slots:
            constraint = slot.parameters[0].cons
            if constraint is not None:

                def call(constraint: Any = constraint, value: Array = slot.storage.array) -> None:
                    constraint.constrain(view, value)

                steps.append(Step("constrain", slot.name, call))
        return steps

    # Running

    @property
    def loss(self) -> float:
        """The loss of the last batch, before its update; fetched when it is asked for."""
        if self._loss is None:
            self._loss = self.net.loss()
        return self._loss

    def report(self, event: str, **data: Any) -> None:
        """Tell whoever listens (screen, log file) what happened."""
        for listen in self._reports:
            listen(event, {"iteration": self.iteration, **data})

    def stop(self, reason: str) -> None:
        """End the training after this iteration."""
        self.stopped = self.stopped or reason

    def step(self) -> None:
        """Train one batch.

        Raises:
            NotFiniteError: names the layer and the blob.
        """
        scalars, solver = self.net.scalars, self.solver
        scalars["step"] = self.iteration
        scalars["rate"] = solver.lr_policy.rate(self.iteration)
        scalars["momentum"] = solver.momentum_policy.momentum(self.iteration)
        self._call()
        self._loss = None
        for slot in self.slots:
            slot.storage.version += 1
        if solver.check_finite:
            self._check_finite()
        self.iteration += 1

    def _check_finite(self) -> None:
        xp = self.net.backend.xp
        total = self.loss
        if total - total != 0:
            raise NotFiniteError(self._culprit(f"the loss is {total}"), self._advice())
        for span in self.spans:
            square = float(xp.dot(span.gradient, span.gradient))
            if square - square != 0:
                raise NotFiniteError(self._culprit("a gradient is not finite"), self._advice())

    def _advice(self) -> str:
        return "try a smaller learning rate, or check the data; the last snapshot is from before this iteration"

    def _culprit(self, what: str) -> str:
        """Name the first layer and blob with a number that is not finite."""
        import numpy as np

        net = self.net
        where = f"iteration {self.iteration}: {what}"

        def bad(array: Any) -> bool:
            return not np.isfinite(net.backend.to_host(array)).all()

        for op in net.ops:
            for value in op.outputs:
                if not value.shared and value.space[0] != "own" and bad(net.schedule.array(value, value.space)):
                    return f"{where}; first in blob '{value.name}' of layer '{op.name}'"
        for name, loss in net.losses().items():
            if loss - loss != 0:
                return f"{where}; first in the loss of layer '{name}'"
        for slot in self.slots:
            if slot.gradient is not None and bad(slot.gradient):
                return f"{where}; first in the gradient of parameter '{slot.name}' of layer '{slot.layer}'"
        return where

    def run(self) -> None:
        """Train until `max_iter`, or until SIGINT, SIGTERM or a callback stops it; then let the callbacks finish."""
        start = time.perf_counter()
        epoch = self.net.epoch
        try:
            with _signals(self):
                self.report("start", max_iter=self.solver.max_iter)
                while self.iteration < self.solver.max_iter and not self.stopped:
                    self.step()
                    ended, epoch = self.net.epoch - epoch, self.net.epoch
                    self.epochs += ended
                    self.seconds = time.perf_counter() - start
                    self.report("step")
                    for state in self.callbacks:
                        if _due(state.callback, self.iteration, self.epochs if ended else 0):
                            state.run()
                for state in self.callbacks:
                    state.finish()
            self.seconds = time.perf_counter() - start
            self.report("end", seconds=self.seconds, stopped=self.stopped)
        finally:
            for state in self.callbacks:
                state.shutdown()

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Give all that a restart needs, as of the last batch consumed."""
        from .config import table_of
        from .snapshot import Snapshot, environment

        net = self.net
        arrays: dict[str, Any] = {f"parameters/{name}": handle.value for name, handle in net.parameters.items()}
        for name, histories in self.method.histories.items():
            for span, history in zip(self.spans, histories, strict=True):
                host = net.backend.to_host(history)
                for part, offset, size in span.parts:
                    arrays[f"history/{name}/{part}"] = host[offset : offset + size].reshape(net.parameters[part].shape)
        memories: dict[str, Any] = {}
        for name, owner in self._owners():
            for key, value in owner.memory().items():
                if isinstance(value, int | float | str | bool):
                    memories.setdefault(name, {})[key] = value
                else:
                    arrays[f"memory/{name}/{key}"] = value
        state = {
            "net": net.name,
            "layers": [table_of(layer) for layer in net.layers],
            "seed": net.seed,
            "dtype": net.dtype,
            "backend": net.backend.name,
            "solver": type(self.solver.method).__name__,
            "epochs": self.epochs,
            "memory": memories,
            "plan": net.plan,
            "environment": environment(),
        }
        return Snapshot(self.iteration, arrays, state)

    def _owners(self) -> list[tuple[str, Any]]:
        solver = self.solver
        return [
            *((f"layer.{op.name}", op.state) for op in self.net.ops if "/" not in op.name),
            ("lr_policy", solver.lr_policy),
            ("momentum_policy", solver.momentum_policy),
            *((f"callback.{number}", state) for number, state in enumerate(self.callbacks)),
        ]

    def restore(self, snapshot: Snapshot) -> None:
        """Take up a training where `snapshot` left it.

        Raises:
            SnapshotError: it belongs to another net, or to another solver.
        """
        net = self.net
        load_parameters(net, snapshot)
        state = snapshot.state
        name = type(self.solver.method).__name__
        if state["solver"] != name:
            raise SnapshotError(f"the snapshot was made by solver {state['solver']}, but this training uses {name}")
        for history, arrays in self.method.histories.items():
            for span, array in zip(self.spans, arrays, strict=True):
                host = net.backend.to_host(array)
                for part, offset, size in span.parts:
                    saved = snapshot.arrays.get(f"history/{history}/{part}")
                    if saved is None:
                        raise SnapshotError(f"the snapshot has no history '{history}' of parameter '{part}'")
                    host[offset : offset + size] = saved.reshape(-1)
                net.backend.from_host(host, array)
        for owner_name, owner in self._owners():
            start = f"memory/{owner_name}/"
            arrays = {key[len(start) :]: value for key, value in snapshot.arrays.items() if key.startswith(start)}
            owner.remember({**state["memory"].get(owner_name, {}), **arrays})
        self.iteration = snapshot.iteration
        self.epochs = state.get("epochs", 0)
        self._warn_of_differences(state)

    def _warn_of_differences(self, state: Mapping[str, Any]) -> None:
        from .snapshot import environment

        now = {**environment(), "backend": self.net.backend.name, "seed": self.net.seed, "dtype": self.net.dtype}
        then = {**state["environment"], "backend": state["backend"], "seed": state["seed"], "dtype": state["dtype"]}
        different = [f"{key} was {then[key]}, is {now[key]}" for key in now if key in then and then[key] != now[key]]
        if different:
            self.report("warning", message=f"resuming will not be bit for bit the same: {'; '.join(different)}")


def load_parameters(net: Net, snapshot: Snapshot) -> None:
    """Put a snapshot's parameters into a net.

    Raises:
        SnapshotError: names the parameters that are missing, left over, or of another shape.
    """
    start = "parameters/"
    saved = {key[len(start) :]: value for key, value in snapshot.arrays.items() if key.startswith(start)}
    complaints = [f"'{name}' is missing in it" for name in net.parameters if name not in saved]
    complaints += [f"'{name}' is not in the net" for name in saved if name not in net.parameters]
    complaints += [
        f"'{name}' has the shape {saved[name].shape} there, but {handle.shape} here"
        for name, handle in net.parameters.items()
        if name in saved and saved[name].shape != handle.shape
    ]
    if complaints:
        raise SnapshotError(f"the snapshot belongs to another net than '{net.name}': parameter {'; '.join(complaints)}")
    for name, handle in net.parameters.items():
        handle.value = saved[name]


def make_spans(net: Net, slots: Sequence[Slot]) -> list[Span]:
    """Join parameters that lie one behind the other, in value and gradient, and learn at one rate."""
    spans: list[Span] = []
    ends: tuple[Any, ...] = ()
    starts: list[tuple[Slot, int]] = []
    itemsize = 8 if net.dtype == "float64" else 4
    for slot in slots:
        padded = -(-slot.storage.size * itemsize // 64) * 64 // itemsize
        here = (id(slot.storage.arena), slot.storage.offset, id(slot.arena), slot.offset, slot.parameters[0].lr)
        if spans and here == ends:
            length = slot.storage.offset + slot.storage.size - starts[-1][0].storage.offset
            starts[-1] = (starts[-1][0], length)
        else:
            spans.append(Span(None, None, slot.parameters[0].lr))
            starts.append((slot, slot.storage.size))
        spans[-1].parts.append((slot.name, slot.storage.offset - starts[-1][0].storage.offset, slot.storage.size))
        ends = (here[0], here[1] + padded, here[2], here[3] + padded, here[4])
    for span, (first, length) in zip(spans, starts, strict=True):
        span.value = first.storage.arena[first.storage.offset : first.storage.offset + length]
        span.gradient = first.arena[first.offset : first.offset + length]
    return spans


def _due(callback: Any, iteration: int, epochs: int) -> bool:
    return bool(
        (callback.every_n_iter and iteration % callback.every_n_iter == 0)
        or (callback.every_n_epoch and epochs and epochs % callback.every_n_epoch == 0)
    )


class _signals:
    """Let SIGINT and SIGTERM end a training after its iteration; a second one ends it at once."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)

    def _stop(self, number: int, _: Any) -> None:
        if self._training.stopped:
            raise KeyboardInterrupt
        self._training.stop(signal.Signals(number).name)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


