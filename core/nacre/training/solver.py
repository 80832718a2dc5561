"""Solver: the configuration of a training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from ..errors import ConfigError
from ..fields.checks import non_negative, positive, same_numbers
from ..fields.component import Written
from ..fields.configured import Configured
from ..fields.types import default
from ..protocols.algorithm import Algorithm
from .callback import Callback, Callbacks
from .method import Method
from .policies import LrPolicy, MomentumPolicy
from .training import Training

if TYPE_CHECKING:
    from ..net.net import Net
    from ..snapshots.snapshot import Snapshot
    from .training import Report


class Solver(Configured):
    """Trains a net: method, policies, regularisation, constraints, callbacks, and the algorithm of a batch.

    `Solver(SGD(), max_iter=1000, lr_policy=0.01, momentum_policy=0.9).solve(net)`.

    An iteration is one update. It takes the mean gradient of `n_accumulate` batches, as of one larger batch whose loss
    is a mean; clips every number of it to `clip_value`; multiplies it by clip_norm / norm if its norm is above
    `clip_norm` (Caffe, which clips before it divides by the number of batches; PyTorch divides by norm + 1e-6);
    regularisation; the update; constraints.
    """

    unnamed = ("method",)

    method: Annotated[Method, "the rule that updates parameters"]
    algorithm: Annotated[Algorithm, "the passes that train a batch"] = default("")
    max_iter: Annotated[int, positive, same_numbers, "number of iterations"] = 1000
    lr_policy: Annotated[LrPolicy, "learning rate of an iteration"] = default(0.01)
    momentum_policy: Annotated[MomentumPolicy, "momentum of an iteration"] = default(0.0)
    regu_coef: Annotated[float, non_negative, "multiplies every regulariser's own coefficient"] = 0.0
    n_accumulate: Annotated[int, positive, "number of batches in an iteration; the update uses their mean gradient"] = 1
    clip_value: Annotated[float, non_negative, "clip gradients to this absolute value; 0 for no clipping"] = 0.0
    clip_norm: Annotated[float, non_negative, "scale gradients down to this joint L2 norm; 0 for no scaling"] = 0.0
    callbacks: Annotated[Callbacks, same_numbers, "what runs between iterations"] = default(())
    check_finite: Annotated[bool, same_numbers, "stop if a loss, gradient, parameter or buffer is not finite"] = True

    if TYPE_CHECKING:  # what the fields say, and `method` may stand without its name

        def __init__(
            self,
            method: Method | Written,
            *,
            algorithm: Algorithm | Written = ...,
            max_iter: int = ...,
            lr_policy: LrPolicy | Written | float = ...,
            momentum_policy: MomentumPolicy | Written | float = ...,
            regu_coef: float = ...,
            n_accumulate: int = ...,
            clip_value: float = ...,
            clip_norm: float = ...,
            callbacks: Sequence[Callback | Written] = ...,
            check_finite: bool = ...,
        ) -> None: ...

    def complaints(self) -> Iterator[str]:
        if not self.method.has_momentum and "momentum_policy" in self.given():
            method = type(self.method).__name__
            yield f"momentum_policy={self.momentum_policy!r}, but {method} does not use momentum"

        folders = [os.path.realpath(place[0]) for one in self.callbacks if (place := one.snapshots())]
        if twice := next((one for one in folders if folders.count(one) > 1), ""):
            yield f"callbacks: two of them save snapshots in the folder {twice}; each needs a folder of its own"

    def start(self, net: Net, reports: Sequence[Report] = ()) -> Training:
        """Return a training of `net`: `run` runs it to the end, `step` one iteration. Shut it down, or use `with`.

        Raises:
            TopologyError: back-propagation cannot go through the net.
            SnapshotError: another training saves its snapshots in the same folder.
        """
        from ..net.net import Net

        if not isinstance(net, Net):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"net={net!r}, but a solver trains a Net", "for a file use load(path).net()")
        return Training(self, net, reports)

    def solve(
        self,
        net: Net,
        *,
        resume: Snapshot | str | os.PathLike[str] | None = None,
        reset_solver: bool = False,
        reports: Sequence[Report] = (),
    ) -> Training:
        """Train a net to the end, or until SIGINT, SIGTERM or SIGHUP; return the training, with the results.

        After a signal the iteration and the callbacks are finished, and there is a warning unless `reports` are given.
        `resume` is a snapshot, its file, or a folder for the newest in it; see `Training.restore`, also for
        `reset_solver`. Only a net made with `plan=snapshot.state["plan"]` follows the decisions of the backend then.

        Raises:
            TopologyError: back-propagation cannot go through the net.
            DataError: an `Input` blob has not been written.
            NotFiniteError: a loss, a gradient or a parameter is not finite.
            SnapshotError: `resume` belongs to another net or solver, or another training uses the snapshot folder.
        """
        from ..snapshots.folder import load_snapshot
        from ..snapshots.snapshot import Snapshot

        if resume is None and reset_solver:
            raise ConfigError("reset_solver=True is only for a resumed training", "pass resume too, or remove it")
        if isinstance(resume, str | os.PathLike):
            store = next((place[1] for one in self.callbacks if (place := one.snapshots())), "")
            resume = load_snapshot(os.fspath(resume), store)
        if not isinstance(resume, Snapshot | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"resume={resume!r}, but it must be a snapshot, or the path of one")
        with self.start(net, reports) as training:
            if resume is not None:
                training.restore(resume, reset_solver=reset_solver)
            training.run()
        if training.interrupted and not reports:  # else the reports have it
            saved = f"; the snapshot is {training.snapshot_path}" if training.snapshot_path else ""
            warnings.warn(
                f"{training.stopped} ended the training after {training.iteration} iterations{saved}", stacklevel=2
            )
        return training
