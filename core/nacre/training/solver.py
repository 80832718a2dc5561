"""Solver: the configuration of a training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Annotated, ClassVar

from ..arguments import how_to_call
from ..discovery.blame import blaming
from ..errors import ConfigError, brief
from ..fields.checks import finite, non_negative, positive, same_numbers
from ..fields.component import Maybe, Written, default_of, need_default_of
from ..fields.configured import Configured
from ..fields.types import default
from ..protocols.algorithm import Algorithm
from .callback import Callback, Callbacks, snapshot_place
from .framework import Framework
from .method import Method
from .policies import LrPolicy, MomentumPolicy
from .training import Training

if TYPE_CHECKING:
    from ..net.net import Net
    from ..protocols.communicator import Communicator
    from ..snapshots.snapshot import Snapshot
    from .training import Report


class Solver(Configured):
    """Trains a net: method, policies, regularisation, constraints, callbacks, and the algorithm of a batch.

    `Solver(SGD(), max_iter=1000, lr_policy=0.01, momentum_policy=0.9).solve(net)`. The training ends after `max_iter`
    iterations or `max_epoch` passes over the data, whichever comes first.

    An iteration is one update. It takes the mean gradient of `n_accumulate` batches, as of one larger batch whose loss
    is a mean; clips every number of it to `clip_value`; multiplies it by clip_norm / norm if its norm is above
    `clip_norm` (Caffe, which clips before it divides by the number of batches; PyTorch divides by norm + 1e-6);
    regularisation; the update; constraints.
    """

    unnamed = ("method",)
    elsewhere: ClassVar[Mapping[str, str]] = {
        "lr": "lr_policy", "learning_rate": "lr_policy", "epochs": "max_epoch", "momentum": "momentum_policy"
    }  # fmt: skip

    method: Annotated[Method, "the rule that updates parameters"]
    algorithm: Annotated[Algorithm, "the passes that train a batch"] = default("")
    max_iter: Annotated[
        int | None, positive, same_numbers, "number of iterations; by default 1000, or as many as max_epoch needs"
    ] = None
    max_epoch: Annotated[int | None, positive, same_numbers, "number of passes over the data; by default any"] = None
    lr_policy: Annotated[LrPolicy, "learning rate of an iteration"] = default(0.01)
    momentum_policy: Annotated[MomentumPolicy, "momentum of an iteration"] = default(0.0)
    regu_coef: Annotated[float, non_negative, finite, "multiplies every regulariser's own coefficient"] = 0.0
    n_accumulate: Annotated[int, positive, "number of batches in an iteration; the update uses their mean gradient"] = 1
    clip_value: Annotated[float, non_negative, "clip gradients to this absolute value; 0 for no clipping"] = 0.0
    clip_norm: Annotated[float, non_negative, "scale gradients down to this joint L2 norm; 0 for no scaling"] = 0.0
    callbacks: Annotated[Callbacks, same_numbers, "what runs between iterations"] = default(())
    framework: Annotated[Maybe[Framework], "how several ranks train the net; by default AllReduce"] = default(None)
    check_finite: Annotated[bool, same_numbers, "stop if a loss, gradient, parameter or buffer is not finite"] = True

    if TYPE_CHECKING:  # what the fields say, and `method` may stand without its name

        def __init__(
            self,
            method: Method | Written,
            *,
            algorithm: Algorithm | Written = ...,
            max_iter: int | None = ...,
            max_epoch: int | None = ...,
            lr_policy: LrPolicy | Written | float = ...,
            momentum_policy: MomentumPolicy | Written | float = ...,
            regu_coef: float = ...,
            n_accumulate: int = ...,
            clip_value: float = ...,
            clip_norm: float = ...,
            callbacks: Sequence[Callback | Written] = ...,
            framework: Framework | Written | None = ...,
            check_finite: bool = ...,
        ) -> None: ...

    def complaints(self) -> Iterator[str]:
        if not self.method.has_momentum and "momentum_policy" in self.given():
            method = type(self.method).__name__
            yield f"momentum_policy={self.momentum_policy!r}, but {method} does not use momentum"

        folders = [os.path.realpath(place[0]) for one in self.callbacks if (place := snapshot_place(one))]
        if twice := next((one for one in folders if folders.count(one) > 1), ""):
            yield f"callbacks: two of them save snapshots in the folder {twice}; each needs a folder of its own"

    @property
    def n_iter(self) -> float:
        """The largest number of iterations; infinite if only `max_epoch` limits it."""
        return self.max_iter or (1000 if self.max_epoch is None else inf)

    def framework_of(self, communicator: Communicator) -> Framework:
        """Return how the ranks of a communicator train: `framework`, or what a plugin offers as the default."""
        return self.framework or need_default_of("framework")()

    def limits(self) -> dict[str, int]:
        """Return what ends a training: `max_iter`, `max_epoch` or both."""
        limits = {"max_iter": self.n_iter, "max_epoch": self.max_epoch or inf}
        return {name: int(limit) for name, limit in limits.items() if limit < inf}

    @how_to_call("solver.start(net, reports=...)")
    def start(self, net: Net, reports: Sequence[Report] = (), callbacks: Sequence[Callback] = ()) -> Training:
        """Return a training of `net`: `run` runs it to the end, `step` one iteration. Shut it down, or use `with`.

        It shows nothing, unless `callbacks`, which run besides the solver's own, or `reports` do.

        Raises:
            TopologyError: back-propagation cannot go through the net.
            SnapshotError: another training saves its snapshots in the same folder.
        """
        from ..net.net import Net

        if not isinstance(reports, Sequence) or not all(map(callable, reports)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"reports={brief(reports)}, but it must be a list of functions", "write reports=[print]")
        if not isinstance(net, Net):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"net={net!r}, but a solver trains a Net", "for a file use load(path).net()")
        with blaming():
            return Training(self, net, reports, callbacks)

    def snapshot_place(self) -> tuple[str, str] | None:
        """Return the folder of the first callback that saves snapshots, and the name of its store."""
        return next((place for callback in self.callbacks if (place := snapshot_place(callback))), None)

    @how_to_call("solver.solve(net, resume=..., quiet=...); the solver itself has max_iter, lr_policy and callbacks")
    def solve(
        self,
        net: Net,
        *,
        resume: Snapshot | str | os.PathLike[str] | None = None,
        reset_solver: bool = False,
        reports: Sequence[Report] = (),
        quiet: bool | None = None,
    ) -> Training:
        """Train a net to the end, or until SIGINT, SIGTERM or SIGHUP; return the training, with the results.

        Unless it is `quiet`, or `reports` are given, it shows its progress, and lines with the loss and the statistics.
        These are also in the training's `history`: of each pass over the data if `max_epoch` ends the training, else of
        each hundredth of the iterations, or as a callback of the solver summarises.
        After a signal the iteration and the callbacks are finished, and there is a warning unless `reports` are given.
        `resume` is a snapshot, its file, a folder for the newest in it, or "best" or "latest" in the folder of this
        solver's callback; see `Training.restore`, also for `reset_solver`. Only a net made with
        `plan=snapshot.state["plan"]` follows the decisions of the backend then.

        Raises:
            TopologyError: back-propagation cannot go through the net.
            DataError: an `Input` blob has not been written.
            NotFiniteError: a loss, a gradient or a parameter is not finite.
            SnapshotError: `resume` belongs to another net or solver, or another training uses the snapshot folder.
        """
        from ..snapshots.folder import load_snapshot, meant
        from ..snapshots.snapshot import Snapshot

        if resume is None and reset_solver:
            raise ConfigError("reset_solver=True is only for a resumed training", "pass resume too, or remove it")
        if isinstance(resume, str | os.PathLike):
            place = self.snapshot_place()
            resume = load_snapshot(meant(os.fspath(resume), place), place[1] if place else "")
        if not isinstance(resume, Snapshot | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"resume={resume!r}, but it must be a snapshot, or the path of one")
        quiet = bool(reports) if quiet is None else quiet
        with self.start(net, reports, self._talking(quiet=quiet)) as training:
            if resume is not None:
                training.restore(resume, reset_solver=reset_solver)
            training.run()
        if training.interrupted and not reports:  # else the reports have it
            saved = f"; the snapshot is {training.snapshot_path}" if training.snapshot_path else ""
            warnings.warn(
                f"{training.stopped} ended the training after {training.iteration} iterations{saved}", stacklevel=2
            )
        return training

    def _talking(self, *, quiet: bool) -> list[Callback]:
        """Return the callbacks, as plugins offer them, by which a training is shown and its history is kept."""
        talking: list[Callback] = []
        if not any(one.summarises for one in self.callbacks) and (summary := default_of("summary")):
            often = {"every_n_iter": 0, "every_n_epoch": 1}
            if self.max_epoch is None:
                often = {"every_n_iter": max(1, int(self.n_iter) // 100)}
            talking.append(summary(**often))
        if not quiet and (progress := default_of("progress")):
            talking.append(progress())
        return talking
