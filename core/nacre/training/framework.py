"""Framework: how several ranks train one net."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Never

from ..arguments import check_class_line
from ..discovery.fitting import required
from ..fields.component import Component
from ..protocols.communicator import Communicator, Group
from ..protocols.layer import Layer

if TYPE_CHECKING:
    from ..engine.parameters import Slot
    from ..protocols.backend import Step
    from .training import Training


@dataclass(frozen=True)
class Role:
    """What one rank does in a framework, for `nacre explain --ranks`.

    `name` says what it is, such as "server"; `updates` are the names of the parameters that it updates, and `trains` is
    whether it trains batches. `sends` has how many numbers it sends in an iteration, by what they are and where they
    go: {"gradients to rank 2": 21}.
    """

    name: str
    updates: Sequence[str] = ()
    sends: Mapping[str, int] = field(default_factory=dict[str, int])
    trains: bool = True


class Framework(Component, kind="framework"):
    """What the ranks of a training do together, after SINGA's frameworks.

    Every rank has a net of its own, with `layers`, connected by a communicator: `Net(layers, communicator=ranks,
    group=framework.group(ranks))`.
    """

    @property
    def meant(self) -> Framework:
        """The framework that this one stands for, such as that of some numbers of groups; by default itself."""
        return self

    def layers(self, layers: Sequence[Layer], communicator: Communicator) -> list[Layer]:
        """Return the layers of one rank's net, from those of the whole."""
        return list(layers)

    def group(self, communicator: Communicator) -> Group | None:
        """Return which ranks train each batch together with this one; None if all do everything together. Collective.

        Losses are those of a group, until all ranks come together.
        """
        return None

    def roles(self, parameters: Mapping[str, int], ranks: int) -> list[Role]:
        """Return what each of so many ranks does, for `nacre explain --ranks`; [] if this framework does not say.

        `parameters` has how many numbers are in each parameter that learns. Where there are roles, `layers` is also
        called with the communicators of ranks that are only planned, which know `rank` and `size`, and nothing else.
        """
        return []

    @required()
    def start(self, training: Training) -> FrameworkState:
        """Return the state of this framework in a training, whose net has a communicator."""
        raise NotImplementedError


class FrameworkState:
    """A framework at work in one training of one rank.

    By default all ranks are together after every iteration: they have the same parameters, and know the losses of all.
    Those of other frameworks say on their class or in their constructor:

    Attributes:
        apart: after how many iterations, at most, all ranks wait for each other and decide whether to stop; 0 means
            that they are never apart. They also come together (`meet`) before callbacks that every rank runs, before
            snapshots, and at the end, so all ranks do the same number of iterations.
        trains: whether this rank trains batches; one that does not, such as a server, has no loss.
        updater: if ranks update different parameters, the first rank that updates any; else None.
        updates_by_call: whether a rank that trains changes its parameters by `training.update` alone, and not by the
            `update` of its iteration's steps.
        rate_share: which part of the solver's rate an update has: where each of n groups updates the same parameters by
            its n-th part of a batch, 1 / n, so that the updates of a batch go as far together as the one of all would.
    """

    acts_for: ClassVar[str] = "framework"
    apart: int = 0
    trains: bool = True
    updater: int | None = None
    updates_by_call: bool = False
    rate_share: float = 1.0

    def __init_subclass__(cls, **others: Never) -> None:
        check_class_line(cls, others, "start(training) of the framework returns its state")
        super().__init_subclass__()

    def __init__(self, framework: Framework, training: Training) -> None:
        self.framework = framework
        self.training = training

    def updated(self, slots: Sequence[Slot]) -> Sequence[Slot]:
        """Return the parameters, of all that learn, that this rank updates; histories are made for these alone."""
        return slots

    def steps(self) -> list[Step]:
        """Return the steps between the gradients of an iteration and their use: after them all ranks have the same.

        The solver compiles them together with its own. What they work on are `training.spans`, and `training.slots`.
        """
        return []

    def iteration_steps(self, clip: Iterable[Step], update: Iterable[Step]) -> list[Step]:
        """Return all steps of an iteration behind the gradients; on a rank that trains no batches, all steps of it.

        `clip` clips the gradients, and `update` changes the `updated` parameters by them: regularisation, the method,
        constraints. A rank that does so for others' gradients, at other times, leaves `update` out and calls
        `training.update(iteration)`.
        """
        return [*self.steps(), *clip, *update]

    def begin(self) -> None:
        """Called before the first iteration, and again after a snapshot was restored: all ranks are alike. Collective.

        They have the same parameters, buffers and histories, and `training.iteration` is the same.
        """

    def meet(self) -> None:
        """Make parameters, buffers and histories the same on all ranks, which have all done `training.iteration`.

        Called only where ranks are `apart`. Collective.
        """

    def close(self) -> None:
        """Release what it holds, such as communicators of its own, at the end of a training. Collective.

        It is not called after an error, which ends all ranks.
        """

    @property
    def epoch(self) -> int:
        """The number of complete passes over the data; a rank that reads none has to be told."""
        return self.training.net.epoch

    def told(self) -> dict[str, Any]:
        """Return what is worth knowing at the end, which JSON can hold: {"staleness": {"0": 120, "1": 80}}."""
        return {}
