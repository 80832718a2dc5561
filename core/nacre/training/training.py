"""Training: the loop over iterations, with its events, its snapshots and the checks for finite numbers."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from math import nan
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ..arguments import how_to_call
from ..discovery.blame import answered, blamed, blaming
from ..engine.kernels import check_method_alike, is_foreign
from ..errors import ConfigError, ContractError, DataError, NacreError, NotFiniteError, brief
from ..fields.outputs import check_places
from ..fields.tables import table_of
from ..fields.whole import count_in
from ..net.access import counted_statistics
from ..net.division import has_no_end
from ..net.finite import first_bad_array, first_bad_blob, first_bad_parameter
from ..net.turns import in_turn
from ..protocols.algorithm import Algorithm, AlgorithmState
from ..protocols.backend import Step
from ..protocols.communicator import any_rank
from ..protocols.parameter import Storage
from ..threads import WaitInterrupted, end_wait
from .agreement import check_agreement, facts_of, fingerprint
from .answers import check_method, number_of, policy_of, started, steps_of
from .callback import CallbackState, Score, is_due, is_regular, snapshot_place
from .checkpoint import first_not_finite, make_snapshot, restore
from .framework import FrameworkState
from .gradients import clip_steps, iteration_steps, norm_of_ranks
from .history import History, Last
from .members import Members, Remembers
from .method import MethodState
from .penalties import choose_penalties, constrain_steps, regularise_steps
from .policies import Rate
from .signals import on_signals
from .spans import make_spans
from .waiting import Waiting

if TYPE_CHECKING:
    import numpy as np

    from ..net.net import Net
    from ..snapshots.snapshot import Snapshot
    from .callback import Callback
    from .solver import Solver


Report = Callable[[str, dict[str, Any]], None]
"""Called with the name and the data of each event: start, step, summary, validation, snapshot, warning and end."""


class Training:
    """One training: its state and results, also for callbacks.

    Attributes:
        iteration: number of completed iterations.
        epochs: number of completed passes over the data.
        resumed_from: the iteration of the snapshot from which it was resumed, or None.
        resumed_path: the file of that snapshot, or "" if it was not read from one.
        seconds, step_seconds: since `run` began: in all, and in iterations alone.
        waiting: for the data: its `seconds` are a part of `step_seconds`.
        images: how many were trained on since then.
        loss_total, loss_count: sum and number of the losses fetched: every one, unless `check_finite=False`. A resumed
            training goes on with those of its snapshot, so take differences from a callback's `begin` on.
        stopped: why it stopped before `max_iter` and `max_epoch`: a signal's name, or what a callback said; else "".
        interrupted: whether it was stopped by a signal, so that callbacks must be quick.
        statistics: of each phase: {phase: {layer: {statistic: value}}}: of the last validation in it; of "train", over
            the iterations between the last two calls of `take_statistics` (a callback may call it, and `run` does at
            the end). A resumed training has those of its snapshot; what was counted since then begins anew.
        judged: statistics that validation callbacks will report, by phase and layer; values are placeholders:
            {phase: {layer: {statistic: any value}}}.
        snapshot_path: the file saved last, or "".
        info: notes of the program that runs the training (`command`) and of callbacks (`curve`).
        listeners: policies and callbacks that get each event, before the reports. An event "validation" with
            `final=True` comes only at the end: nothing in the training may depend on it, or a training that continues
            from there would not be the same.
    """

    def __init__(
        self, solver: Solver, net: Net, reports: Sequence[Report] = (), callbacks: Sequence[Callback] = ()
    ) -> None:
        self.solver = solver
        self.net = net
        self.turns = net.turns
        self.iteration = 0
        self.epochs = 0
        self.resumed_from: int | None = None
        self.resumed_path = ""
        self.seconds = self.step_seconds = 0.0
        self.images = 0
        self.loss_total, self.loss_count = 0.0, 0
        self.stopped = ""
        self.interrupted = False
        self.statistics: dict[str, dict[str, dict[str, float]]] = {}
        self.judged: dict[str, dict[str, dict[str, float]]] = {}
        self.curves = History()
        self._score: Score | None = None
        self.snapshot_path = ""
        self.info: dict[str, Any] = {}
        self.listeners: list[Report] = []
        self._reports = list(reports)
        self._loss: float | None = 0.0  # None: that of the net's last pass, which is not fetched yet
        self._back: Snapshot | None = None
        self._holding: list[Callable[[Snapshot], object]] = []
        self._signal = ""
        self._failed: Exception | None = None  # of several ranks, after which this one does nothing with the others
        self._epoch = net.epoch
        self._taken = 0
        self._begun = False  # whether the framework has, and all ranks with it
        self._together = True  # whether all ranks have the same parameters, and know the losses of all
        self._parted = 0.0, 0  # sum and number of the losses since then
        self.framework: FrameworkState | None = None
        if not net.allocated:
            message = f"net '{net.name}' was made with allocate=False, so it cannot be trained"
            raise ConfigError(message, "make the net without allocate=False")
        self._refuse_closed()
        check_places(solver)
        # of several ranks, all end a training at the same iteration: a wait of one is no reason to leave it
        self.waiting = Waiting(lambda: self.interrupted and net.communicator is None)
        self._refuse_other_algorithm()
        self._refuse_framework()
        self._refuse_epochs(callbacks)
        self.algorithm = started(solver.algorithm, "start", solver.algorithm.start(net), AlgorithmState)
        batch = self.waiting.measured(steps_of(self.algorithm))
        self.slots = [slot for slot in net.slots if slot.placed is not None and not slot.frozen]
        elsewhere = net.division is not None and net.division.learns(net.frozen)
        if not (self.slots or elsewhere) and (idle := sorted({slot.layer for slot in net.slots if slot.trainable})):
            names = ", ".join(idle)
            if any(slot.frozen for slot in net.slots):
                message = f"net '{net.name}': every layer that could learn is frozen: {names}"
                raise ConfigError(message, "remove one of them from freeze, or unfreeze it")
            message = f"net '{net.name}': {names} cannot learn by {type(solver.algorithm).__name__}"
            raise ConfigError(message, "choose another algorithm, or add layers that back-propagate")
        self.spans = make_spans(self.slots)
        if net.communicator is not None and net.division is None:  # the passes of a divided net do all of it
            framework = solver.framework_of(net.communicator)
            self.framework = started(framework, "start", framework.start(self), FrameworkState)
        updated = self.slots if self.framework is None else list(self.framework.updated(self.slots))
        self._updated = self.spans if len(updated) == len(self.slots) else make_spans(updated)
        with net.enough_memory():
            self.method = self._make_method()
        self.rate = Rate(policy_of(solver.lr_policy, "rate", solver.lr_policy.start(self)))
        self.momentum = policy_of(solver.momentum_policy, "momentum", solver.momentum_policy.start(self))
        decoupled, view = solver.method.decoupled, net.view()
        self.choices = choose_penalties(net, self.slots, solver.regu_coef, decoupled=decoupled)
        clip = clip_steps(view, self.spans, solver.clip_value, solver.clip_norm, norm_of_ranks(net, self.slots))
        self._update_steps = [
            *regularise_steps(net, updated, self.choices, solver.regu_coef, decoupled=decoupled),
            Step("update", type(solver.method).__name__, self.method.update, self.method_backend),
            *constrain_steps(net, updated, self.choices, lambda: self._updating),
        ]
        self._updating = 0
        self._compiled_update: Callable[[], None] | None = None
        behind = [*clip, *self._update_steps]
        if self.framework is not None:
            behind = self.framework.iteration_steps(clip, self._update_steps)
        self.trains = self.framework is None or self.framework.trains
        self._advances = self.framework is None or (self.trains and not self.framework.updates_by_call)
        lists = iteration_steps(batch, behind, view, self.spans, solver.n_accumulate) if self.trains else [behind]
        # nobody waits for the device within an iteration: what it has found is looked at in the next one
        self._looks_back = not solver.check_finite and net.communicator is None
        self._sent: tuple[int, Callable[[], DataError | None]] | None = None
        compiled = net.compile_ahead if self._looks_back else net.compile
        self._calls = [compiled(steps) for steps in lists]
        net.trainings.add(self)
        constrained = [slot.storage for slot in self.slots if f"constraint.{slot.name}" in self.choices]
        self._buffers = [slot for slot in net.slots if not slot.trainable]
        self._flat = [net.backend.view(slot.storage.array, (slot.storage.size,)) for slot in self._buffers]
        self._changed = [*(slot.storage for slot in self.slots), *constrained]
        if not self.trains:
            self._loss = nan  # until the others tell theirs
        self.callbacks: list[CallbackState] = []
        if net.communicator is not None:  # before callbacks talk to each other
            check_agreement(net.communicator, facts_of(self.members()))
        try:
            for callback in sorted([*callbacks, *solver.callbacks], key=lambda callback: callback.runs_last):
                if net.rank and not callback.on_every_rank:
                    continue
                self.callbacks.append(started(callback, "start", callback.start(self), CallbackState))
        except BaseException:
            self.shutdown()
            raise

    def _make_method(self) -> MethodState:
        net, method = self.net, self.solver.method
        self.choice = net.target.choose_kernel(method, self.spans)
        spans = self._updated
        if self.choice.kernel is None or not spans:
            self.method_backend = None  # plain Python, for every backend
            state = started(method, "setup", method.setup(net.view(), spans), MethodState)
        else:
            self.method_backend = net.target.backend_of(self.choice)
            state = self.choice.kernel(method, net.view(self.method_backend), spans)
            if is_foreign(self.choice):
                check_method_alike(type(method).__name__, self.choice, state, method.setup(net.view(), spans))
        check_method(method, state, spans)
        return state

    # Running

    @property
    def loss(self) -> float:
        """The loss of the last iteration, before its update: the mean of its batches'.

        With `check_finite=False` it is that of the last batch, computed when it is read. A training that is resumed has
        that of its snapshot; before the first iteration it is 0.
        """
        if self._loss is None:
            self._look_back()
            self._loss = self.net.count_losses()
        return self._loss

    @property
    def images_per_second(self) -> float:
        """Images per second of iterations since `run` began; time in callbacks does not count."""
        return self.images / self.step_seconds if self.step_seconds else 0.0

    @property
    def data_share(self) -> float:
        """For how much of the time in iterations, from 0 to 1, the training waited for batches of its sources."""
        return self.waiting.seconds / self.step_seconds if self.step_seconds else 0.0

    def report(self, event: str, **data: Any) -> None:
        """Send an event to all listeners and reports (screen, log file).

        Without reports a "warning" becomes a Python warning.
        """
        data = {"iteration": self.iteration, "epoch": self.epochs, **data}
        if event != "step":
            self.curves.on_event(event, data)
        for listen in (*self.listeners, *self._reports):
            if not callable(listen):
                raise ConfigError(
                    f"training.listeners has {brief(cast('object', listen))}, but its entries must be functions",
                    "append a function of the name and the data of an event",
                )
            listen(event, dict(data))
        if event == "warning" and not self._reports and not self.net.rank:
            warnings.warn(str(data.get("message", "")), stacklevel=3)

    def warn(self, message: str) -> None:
        """Report a warning; without reports it becomes a Python warning."""
        self.report("warning", message=message)

    def take_statistics(self) -> dict[str, dict[str, float]]:
        """Return the statistics of the training net since they were taken last, and start them anew.

        Taken again at the same iteration they are the same.
        """
        if self.iteration != self._taken:
            self._taken = self.iteration
            if found := counted_statistics(self.net):
                self.statistics["train"] = found
            self.net.reset_statistics()
        return self.statistics.get("train", {})

    @property
    def history(self) -> dict[str, dict[str, np.ndarray]]:
        """The training's loss and statistics as arrays of one length in each phase: {phase: {name: array}}.

        The names are "iteration", "epoch", "loss" and "layer/statistic"; `pandas.DataFrame(training.history["train"])`
        is a table. Phase "train" has a row for each summary, other phases have one for each validation. There are at
        most 1000 rows: then every second one goes, and so on. A resumed training continues those of its snapshot.
        """
        return self.curves.columns()

    @property
    def lr(self) -> float:
        """The learning rate of the next iteration. One that is set is used from there on, instead of the policy's.

        Snapshots keep it. None gives the rate back to the policy.
        """
        return self.rate.rate(self.iteration)

    @lr.setter
    def lr(self, rate: float | None) -> None:
        self.rate.set(rate)

    @property
    def score(self) -> Score | None:
        """How good the net is, which decides which snapshot is the best; None until a validation has said it.

        Raises:
            ContractError: what is set is neither a Score, of numbers, nor None.
        """
        return self._score

    @score.setter
    def score(self, score: Score | None) -> None:
        if not isinstance(score, Score | None) or (score and not isinstance(score.value, Real)):  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"training.score is set to {brief(score)}, but it must be a Score of a number, or None"
            raise ContractError(message, "set nacre.Score(training.iteration, value)")
        self._score = score

    @property
    def endless(self) -> bool:
        """Whether no source of the net has data with an end, so that there are no passes over them."""
        return self.net.division.endless if self.net.division else has_no_end(op.state for op in self.net.ops)

    @property
    def complete(self) -> bool:
        """Whether the solver's `max_iter` or `max_epoch` is reached."""
        most = self.solver.max_epoch
        return self.iteration >= self.solver.n_iter or (most is not None and self.epochs >= most)

    @how_to_call("training.stop(reason)")
    def stop(self, reason: str) -> None:
        """End the training after this iteration. Raises ContractError if the reason is no text, or an empty one."""
        if not isinstance(reason, str) or not reason.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"training.stop({brief(reason)}), but the reason must be a text, which says why it was stopped"
            raise ContractError(message, 'write training.stop("the loss is low enough")')
        self.stopped = self.stopped or reason

    @in_turn("training")
    def step(self) -> None:
        """Train one batch, or `n_accumulate` of them, and update the parameters once.

        Raises:
            NotFiniteError: names the layer and the blob; `iteration` is still that of the batch.
            NacreError: the net was shut down.
        """
        self._hold()
        self._step()

    def _step(self) -> None:
        """Do what `step` does, of which little is Python: the caches, which a batch has filled, have lost all of it."""
        self._refuse_closed()
        begin = time.perf_counter()
        iteration, epochs, net = self.iteration, self.epochs, self.net
        scalars, count = net.scalars, self.solver.n_accumulate if self.trains else 1
        if not self._begun:
            self._begin_framework()
        self._find_rates(iteration)
        before = self.method.memory()
        if self._advances:
            self.method.advance()
        self.waiting.begin()
        losses, images = 0.0, 0
        for number in range(count):
            call = self._calls[-1 if number + 1 == count else min(number, 1)]
            scalars["step"] = iteration * count + number  # every batch draws its own random numbers
            try:
                call()
            except WaitInterrupted:
                self.method.remember(before)
                raise
            except DataError as error:
                self.method.remember(before)
                net.tell(error, f"iteration {iteration}, the batch")
                raise
            finally:  # also after an error: it is not known how far the update came
                if number + 1 == count:
                    Storage.note_changes(self._changed)
            if self._looks_back:
                earlier, self._sent = self._sent, (iteration, net.target.send_required())
                self._raise_sent(earlier)
            if self.trains:
                images += net.rows
                if self.solver.check_finite or net.communicator is not None:
                    losses += self._finite_loss()
            if number + 1 < count:
                net.advance()
        if self.trains:
            self._loss = None
        if self.solver.check_finite:
            self._check_finite(losses / count)
        elif net.communicator is not None and self.trains:
            self._loss = losses / count  # now, when all ranks compute it
        net.advance()
        self.iteration = net.parameters.iterations = iteration + 1
        epoch = self._passes_done()
        self.epochs += epoch - self._epoch
        self._epoch = epoch
        self.images += images
        if self.framework is not None and self.framework.apart:
            self._together = False
            if self.complete or any(
                state.callback.on_every_rank and is_regular(state, epochs) for state in self.callbacks
            ):
                self.come_together()
        self.step_seconds += time.perf_counter() - begin

    def _look_back(self) -> None:
        """Raise the error of the last batch, if a layer did not take it and that was not looked at yet."""
        sent, self._sent = self._sent, None
        self._raise_sent(sent)

    def _raise_sent(self, sent: tuple[int, Callable[[], DataError | None]] | None) -> None:
        if sent is not None and (error := sent[1]()) is not None:
            self.net.tell(error, f"iteration {sent[0]}, the batch")
            raise error

    def update(self, iteration: int) -> None:
        """Update the parameters of this rank by their gradients, with the rates of an iteration: for frameworks.

        Raises:
            NacreError: a rate cannot be computed.
        """
        if self._compiled_update is None:
            self._compiled_update = self.net.compile(self._update_steps)
        self._find_rates(iteration)
        self.method.advance()
        self._compiled_update()
        Storage.note_changes(self._changed)

    def _find_rates(self, iteration: int) -> None:
        scalars = self.net.scalars
        self._updating = iteration
        try:
            try:
                rate, momentum = self.rate.rate(iteration), self.momentum.momentum(iteration)
            except ArithmeticError as error:  # of a plugin's policy it says where it was raised
                if (blame := blamed(error)) is not None:
                    raise blame from error
                raise
            share = 1.0 if self.framework is None else self.framework.rate_share
            scalars["rate"] = share * number_of(self.solver.lr_policy, "rate", rate)
            scalars["momentum"] = number_of(self.solver.momentum_policy, "momentum", momentum)
        except ArithmeticError as error:
            raise NacreError(
                f"iteration {iteration}: the learning rate or the momentum cannot be computed: {error}",
                "change the fields of lr_policy or momentum_policy",
            ) from error

    # Of several ranks that are not always together

    def _begin_framework(self) -> None:
        """Let the framework begin, once all ranks are alike; collective."""
        if self.framework is not None and not self._begun:
            self.framework.begin()
            self._epoch = self._passes_done()
        self._begun = True

    def _passes_done(self) -> int:
        return self.net.epoch if self.framework is None else self.framework.epoch

    def come_together(self) -> None:
        """Let all ranks have the same parameters, and the mean of their losses; collective.

        Who calls `step`, and not `run`, calls this on all ranks before the pass of another net, such as a validation.
        """
        communicator, framework = self.net.communicator, self.framework
        if self._together or communicator is None or framework is None:
            return
        import numpy as np

        framework.meet()
        found = np.array([1.0, self.loss, *self._parted]) if self.trains else np.zeros(4)
        communicator.allreduce(found, ordered=True)
        ranks, loss, total, count = found.tolist()
        self._loss = loss / ranks
        self.loss_total += total / ranks
        self.loss_count += round(count / ranks)
        self._parted = 0.0, 0
        self._together = True

    def _decides(self) -> bool:
        """Return whether all ranks decide together now whether to stop."""
        apart = self.framework.apart if self.framework is not None else 0
        return self._together or not apart or self.iteration % apart == 0

    def run(self) -> None:
        """Train to the end, a signal (see `solve`) or a callback's `stop`; then let the callbacks finish.

        A signal ends a wait for a batch that a thread makes: the iteration is not done then.

        Raises:
            DataError: an `Input` blob has not been written.
            NotFiniteError: names the layer and the blob; the callbacks do not finish, so no snapshot has such numbers.
        """
        import numpy as np

        self._refuse_closed()
        self.net.refuse_unwritten()
        begin, states = time.perf_counter(), self.callbacks
        # NumPy's warnings come before our own check, and say less
        quiet = np.errstate(all="ignore" if self.solver.check_finite else None)
        try:
            with on_signals(self._interrupt), quiet, blaming():
                if self.net.communicator is not None:
                    check_agreement(self.net.communicator, fingerprint(self.members(), self.iteration))
                    self._begin_framework()
                self.report("start", **self.solver.limits())
                self.net.reset_statistics()
                self._taken = self.iteration
                # callbacks that save snapshots move old ones away: only after all others have begun without an error
                for state in sorted(states, key=lambda state: snapshot_place(state.callback) is not None):
                    state.begin()
                asked = [state for state in states if not _waits_for_passes(state)]
                while not (self.complete or self._is_stopped()):
                    epochs = self.epochs
                    try:
                        with self.turns.training:
                            self._hold()
                            self._step()
                    except WaitInterrupted:  # before anything of this iteration was done
                        break
                    self.seconds = time.perf_counter() - begin
                    self.report("step")
                    for state in states if self.epochs != epochs else asked:
                        if not (self._together or not state.callback.on_every_rank):
                            continue
                        if self._back is None and is_due(state, epochs):
                            self._look_back()
                            self._run_callback(state)
                    if self._back is not None:
                        self._turn_back(self._back)
                self._look_back()
                self.come_together()
                with ExitStack() as stack:  # an error in one must not keep the others from finishing
                    for state in reversed(states):
                        stack.callback(self._finish_callback, state)
            self.take_statistics()
            self.seconds = time.perf_counter() - begin
            self.report("end", seconds=self.seconds, stopped=self.stopped, **self.told())
        finally:
            self.shutdown()

    def told(self) -> dict[str, Any]:
        """Return what the framework of several ranks has to tell at the end, such as how stale gradients were."""
        return {} if self.framework is None else self.framework.told()

    def __repr__(self) -> str:
        done = f"{self.iteration} iterations"
        loss = f", loss {self.loss:.4g}" if self.iteration and self._loss is not None else ""
        stopped = f", stopped: {self.stopped}" if self.stopped else ""
        return f"<Training of net '{self.net.name}' by {type(self.solver.method).__name__}: {done}{loss}{stopped}>"

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "a training cannot be copied or pickled: it is at work on its net",
            "keep its history, save its net (net.save), or save a snapshot, from which a training goes on",
        )

    def _interrupt(self, name: str) -> None:
        if self.net.communicator is None:
            self.interrupted, self.stopped = True, name
        else:
            self._signal = name  # all ranks agree after the iteration
        end_wait()

    def _is_stopped(self) -> bool:
        """Return whether the training is to end before `max_iter`; of several ranks, whether any is to."""
        communicator = self.net.communicator
        if communicator is not None and not self._decides():
            return False
        if communicator is not None and any_rank(communicator, bool(self.stopped or self._signal)):
            told = communicator.gather([self._signal, self.stopped])
            signals, reasons = ([one for one in some if one] for some in zip(*told, strict=True))
            self.interrupted = self.interrupted or bool(signals)
            self.stopped = (signals or reasons)[0]
        return bool(self.stopped)

    def _run_callback(self, state: CallbackState) -> None:
        """Run a callback; if it fails, let the others save snapshots of the iteration, which was all right."""
        try:
            state.run()
        except NotFiniteError:
            raise
        except Exception as error:
            if self.net.communicator is not None:  # the other ranks know nothing of it, and would save something else
                self._failed = error
                raise
            with suppress(NacreError):  # the first error is the one to report
                for other in self.callbacks:
                    if other is not state and snapshot_place(other.callback) is not None:
                        other.finish()
            raise

    def _finish_callback(self, state: CallbackState) -> None:
        if self._failed is None:
            try:
                state.finish()
            except Exception as error:
                if self.net.communicator is not None:
                    self._failed = error
                raise

    def _refuse_other_algorithm(self) -> None:
        """Raise a ConfigError if the net's graph is not the one that the solver's algorithm trains."""
        own, nets = self.solver.algorithm, self.net.algorithm
        rewrites = any(one and type(one).rewrite is not Algorithm.rewrite for one in (own, nets))
        if rewrites and (nets is None or table_of(nets) != table_of(own)):
            was = "without an algorithm" if nets is None else f"for the algorithm {type(nets).__name__}"
            raise ConfigError(
                f"net '{self.net.name}' was made {was}, but the solver trains with {type(own).__name__}",
                "give both the same: Net(..., algorithm=...) and Solver(..., algorithm=...)",
            )

    def _refuse_framework(self) -> None:
        """Raise a ConfigError if ranks have a framework and a net that is divided among them."""
        if self.net.division is not None and self.solver.framework is not None:
            raise ConfigError(
                f"framework={type(self.solver.framework).__name__}, but net '{self.net.name}' is divided among its "
                "ranks, which do everything together",
                "leave framework and [cluster] out, or do not divide the net",
            )

    def _refuse_epochs(self, callbacks: Sequence[Callback]) -> None:
        """Raise a ConfigError if the training, or a callback, waits for passes over data that have no end."""
        waits = [("", "max_epoch", "max_iter", self.solver.max_epoch)]
        waits += [
            (f"{type(one).__name__}: ", "every_n_epoch", "every_n_iter", one.every_n_epoch)
            for one in (*callbacks, *self.solver.callbacks)
        ]
        for who, field, other, number in waits:
            if number and self.endless:
                message = f"{who}{field}={number}, but no source of net '{self.net.name}' has an end, so there are no"
                raise ConfigError(f"{message} passes over its data", f"use {other}")

    def _refuse_closed(self) -> None:
        if self.net.closed:
            raise NacreError(f"net '{self.net.name}' is shut down: it cannot be trained", "make a new net")

    def shutdown(self) -> None:
        """Let the callbacks release what they hold; calling it twice is harmless."""
        self.net.trainings.discard(self)
        with ExitStack() as stack:
            for state in reversed(self.callbacks):
                stack.callback(_shut_down, state)

    def __enter__(self) -> Training:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self.framework is not None:
            self.come_together()
            self.framework.close()
        self.shutdown()

    # Numbers that are not finite

    def _finite_loss(self) -> float:
        loss = self.net.count_losses()
        if loss - loss != 0:
            self._loss = loss
            where = first_bad_blob(self.net.memory, self.net.losses())
            if (group := self.net.target.communicator) is not None:  # a blob of any rank says more than the loss of all
                every: list[str] = group.gather(where)
                where = next((one for one in every if one.startswith("blob")), where)
            raise self.not_finite(f"iteration {self.iteration}: the loss is {loss}", where)
        return loss

    def _check_finite(self, loss: float) -> None:
        if self.trains:
            self._loss = loss
            if self.framework is not None and self.framework.apart:
                self._parted = self._parted[0] + loss, self._parted[1] + 1
            else:
                self.loss_total += loss
                self.loss_count += 1
        product: Any = self.method.product()
        if type(product) is not float:
            product = float(answered(self.method, "product", product, Real, "a number"))
        if self._flat:
            dot = self.net.backend.xp.dot
            product += float(sum(dot(buffer, buffer) for buffer in self._flat))
        # A product of finite numbers may be too large as well.
        if product - product != 0 and (where := first_bad_parameter(self.net.memory, [*self.slots, *self._buffers])):
            raise self.not_finite(f"iteration {self.iteration}: a number is not finite", where)

    def first_bad_number(self) -> str:
        """Return where a parameter, buffer, gradient or history is not finite, the first of them; "" if all are."""
        memory = self.net.memory
        histories = (
            (f"the history '{name}' of parameter '{piece.name}'", piece.of(array))
            for name, arrays in self.method.histories.items()
            for span, array in zip(self._updated, arrays, strict=True)
            for piece in span.pieces
        )
        return first_bad_parameter(memory, self.net.slots) or first_bad_array(memory, histories)

    def not_finite(self, what: str, where: str) -> NotFiniteError:
        """Return the error for a number that is not finite: what was found, and where."""
        advice = "try a smaller learning rate, or check the data; nacre train --find-nan (net.find_nan) names the layer"
        if self.snapshot_path:
            advice += f"; the last snapshot before it is {self.snapshot_path}"
        return NotFiniteError(f"{what}; first seen in {where}", advice)

    # Snapshots

    @in_turn("whole")
    def snapshot(self) -> Snapshot:
        """Return everything that a restart needs, as it is after the last batch."""
        self._look_back()
        self.come_together()
        snapshot = make_snapshot(self.members(), self.iteration, self.epochs)
        if where := first_not_finite(snapshot):
            what = f"after {self.iteration} iterations: a number is not finite, so no snapshot is saved"
            raise self.not_finite(what, where)
        return snapshot

    def members(self) -> Members:
        """Return the objects at work in this training, as snapshots need them."""
        solver = self.solver
        configured = {name: getattr(solver, name) for name in ("algorithm", "lr_policy", "momentum_policy")}
        owners: dict[str, Remembers] = self.net.owners()
        owners |= {"solver": self.method, "algorithm": self.algorithm}
        owners |= {"lr_policy": self.rate, "momentum_policy": self.momentum, "history": self.curves}
        owners["history.last"] = Last(self._found, self._find)
        seen: dict[str, int] = {}
        for state in self.callbacks:
            kind = type(state.callback).__name__
            seen[kind] = seen.get(kind, 0) + 1
            owners[f"callback.{kind}" if seen[kind] == 1 else f"callback.{kind}.{seen[kind]}"] = state
        working = {
            **self.net.working(),
            **self.choices,
            "solver": (solver.method, self.choice),
            **{name: (one, None) for name, one in configured.items()},
            **{f"callback.{type(one).__name__}": (one, None) for one in solver.callbacks},
        }
        updater = None if self.framework is None else self.framework.updater
        return Members(self.net, solver, self.method, self._updated, owners, working, updater)

    def _found(self) -> dict[str, Any]:
        """Return what policies and callbacks may read of the iterations so far."""
        loss = sum(self.net.losses().values()) if self._loss is None else self._loss
        score = self.score and (self.score.iteration, self.score.value, self.score.higher_better)
        sums = {"loss_total": self.loss_total, "loss_count": self.loss_count}
        return {"loss": loss, **sums, "statistics": self.statistics, "score": score}

    def _find(self, found: dict[str, Any]) -> None:
        """Restore what `_found` returned."""
        self._loss = None if found["loss"] is None else float(found["loss"])
        self.loss_total, self.loss_count = float(found["loss_total"]), count_in(found, "loss_count")
        self.statistics = dict(found["statistics"])
        self.score = found["score"] and Score(*found["score"])

    @in_turn("training")
    def restore(self, snapshot: Snapshot | str | os.PathLike[str], *, reset_solver: bool = False) -> None:
        """Resume a training from a snapshot, or from the path of one; warn of differences that may change the bits.

        With `reset_solver` the method and the policies begin anew, so that they may be different; parameters, data,
        iteration and callbacks continue.

        Raises:
            SnapshotError: it belongs to another net, or to another solver.
        """
        from ..snapshots.folder import snapshot_of

        snapshot = snapshot_of(snapshot)
        self._holding = []
        self.come_together()  # nobody waits any more for what another has to do in an iteration that is given up
        begun = self.iteration > 0
        for warning in restore(self.members(), snapshot, reset_solver=reset_solver, goes_back=begun):
            self.warn(warning)
        self.iteration = self.resumed_from = snapshot.iteration
        self.resumed_path = snapshot.path
        self.epochs = snapshot.state.get("epochs", 0)
        self.net.agree_on_epoch()
        self._epoch = self.net.epoch
        self._begun, self._together, self._parted = False, True, (0.0, 0)
        for phase, curve in self.curves.curves.items():
            if phase != "train" and curve.rows:
                self.statistics[phase] = curve.rows[-1].statistics
        if self.complete:
            name = "max_iter" if self.iteration >= self.solver.n_iter else "max_epoch"
            message = f"nothing is left to train: {name}={self.solver.limits()[name]} is already reached"
            self.warn(f"{message}; a larger one continues (--set solver.{name}=...)")

    @how_to_call("training.hold(keep)")
    def hold(self, keep: Callable[[Snapshot], object]) -> None:
        """Call `keep` with a snapshot of this training when all callbacks of the iteration have run.

        So it has what those remember that come after the one that asks. The call comes before the next iteration. A
        snapshot that is saved before has to remember that it was asked for: whoever asks says so in its `memory`, and
        asks again in `remember`.
        """
        if not callable(keep):
            message = f"training.hold({brief(cast('object', keep))}), but it needs a function of a snapshot"
            raise ContractError(message, "write training.hold(self.keep)")
        self._holding.append(keep)

    def _hold(self) -> None:
        """Make the snapshots that were asked for."""
        holding, self._holding = self._holding, []
        for keep in holding:
            keep(self.snapshot())

    @how_to_call("training.go_back(snapshot)")
    def go_back(self, snapshot: Snapshot) -> None:
        """Make `run` continue from an earlier snapshot of this training once the current callback has returned.

        The callbacks after it are skipped, because the state that they would use is gone.
        """
        self._back = snapshot

    def _turn_back(self, snapshot: Snapshot) -> None:
        begun, self._back = (self.resumed_from, self.resumed_path), None
        self.restore(snapshot)
        (self.resumed_from, self.resumed_path), self._taken = begun, self.iteration
        self.net.reset_statistics()


def _waits_for_passes(state: CallbackState) -> bool:
    """Return whether a callback can only be due after a complete pass over the data."""
    return type(state).due is CallbackState.due and not state.callback.every_n_iter


def _shut_down(state: CallbackState) -> None:
    with blaming(state):
        state.shutdown()
