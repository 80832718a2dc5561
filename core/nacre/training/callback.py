"""Callbacks: code that runs between the iterations of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Never, cast

from ..arguments import check_class_line
from ..discovery.blame import answered, blaming
from ..discovery.fitting import required
from ..fields.checks import non_negative
from ..fields.component import Component, Written, make_component
from ..fields.types import Converted

if TYPE_CHECKING:
    from .training import Training


class Callback(Component, kind="callback"):
    """Does something every n iterations, or every n passes over the data (Mocha's coffee break).

    Callbacks run in the order of their list; those with `runs_last = True` come after all others, because they save
    what the others did.
    """

    runs_last: ClassVar[bool] = False
    validates: ClassVar[bool] = False
    """Whether it reports "validation", with a loss and statistics, for the phase in its field `phase`."""
    summarises: ClassVar[bool] = False
    """Whether it reports "summary", with the loss and the statistics of the training since the last one."""
    on_every_rank: ClassVar[bool] = True
    """Whether each of several ranks needs it. One that only shows or writes what others report runs on rank 0 alone."""
    outputs: ClassVar[tuple[str, ...]] = ()
    """Fields of type `OutputPath` that a command may set, if the net file does not, to write into another folder."""

    every_n_iter: Annotated[int, non_negative, "iterations from one run to the next; 0 for never"] = 0
    every_n_epoch: Annotated[int, non_negative, "passes over the data from one run to the next; 0 for never"] = 0

    @required()
    def start(self, training: Training) -> CallbackState:
        """Make the state of this callback for one training."""
        raise NotImplementedError

    def snapshots(self) -> tuple[str, str] | None:
        """Return the folder where it saves snapshots and the name of their store, or None if it saves none.

        `--resume auto` finds them by it: a `SnapshotFolder` of that store reads the folder.
        """
        return None


def snapshot_place(callback: Callback) -> tuple[str, str] | None:
    """Return what a callback's `snapshots` returns. Raises PluginError if it is neither a pair nor None."""
    with blaming(callback):  # a StopIteration would end the caller's generator
        found: Any = callback.snapshots()
    right = found is None or (isinstance(found, tuple) and len(cast("tuple[Any, ...]", found)) == 2)
    return answered(callback, "snapshots", found, object if right else (), "None, or (folder, name of a store)")


def is_due(state: CallbackState, epochs: int) -> bool:
    """Return what a callback's `due` returns. Raises PluginError if it is neither true nor false."""
    found: Any = state.due(epochs)
    if found is True or found is False:
        return found
    return bool(answered(state, "due", found, object if getattr(found, "ndim", 0) == 0 else (), "True or False"))


def is_regular(state: CallbackState, epochs: int) -> bool:
    """Return whether a callback is due by its numbers of iterations and passes alone, which every rank knows."""
    training, callback = state.training, state.callback
    n_iter, n_epoch = callback.every_n_iter, callback.every_n_epoch
    return bool(
        (n_iter and training.iteration % n_iter == 0) or (n_epoch and training.epochs // n_epoch > epochs // n_epoch)
    )


class CallbackState:
    """A callback at work in one training: `begin`, then `run` when it is due, `finish`, and at last `shutdown`."""

    acts_for: ClassVar[str] = "callback"

    def __init_subclass__(cls, **others: Never) -> None:
        check_class_line(cls, others, "start(training) of the callback returns its state")
        super().__init_subclass__()

    def __init__(self, callback: Any, training: Training) -> None:
        self.callback = callback
        self.training = training

    def begin(self) -> None:
        """Called when the training begins, at `training.iteration`, which is above 0 if it is resumed."""

    def due(self, epochs: int) -> bool:
        """Return whether to run after this iteration; `epochs` passes over the data were complete before it.

        Ranks that are not always together come together where `every_n_iter` or `every_n_epoch` says so, and only there
        callbacks that run on every rank are asked.
        """
        return is_regular(self, epochs)

    def run(self) -> None:
        """Do the work of this callback, after an iteration."""
        raise NotImplementedError

    def finish(self) -> None:
        """Called when the training has ended, or was stopped, after a whole iteration."""

    def shutdown(self) -> None:
        """Release what `start` took; always called, perhaps twice."""

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart, as arrays, numbers and strings; numbers must be finite."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""


class Callbacks(Converted[Sequence[Callback | Written], tuple[Callback, ...]]):
    """Callbacks, in the order in which they run."""

    wants = "a list of callbacks"

    @staticmethod
    def convert(value: Any) -> tuple[Callback, ...]:
        if isinstance(value, str | Mapping):
            raise ValueError
        return tuple(one if isinstance(one, Callback) else make_component(Callback, one) for one in value)


@dataclass(frozen=True)
class Score:
    """How good a training was after an iteration: it decides which snapshot is the best."""

    iteration: int
    value: float
    higher_better: bool = True

    def beats(self, value: float | None) -> bool:
        """Return whether this is better than `value`; a score that is not finite never is."""
        if value is None or not isfinite(value) or not isfinite(self.value):
            return isfinite(self.value)
        return self.value > value if self.higher_better else self.value < value
