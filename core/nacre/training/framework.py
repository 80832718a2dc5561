"""Framework: how several ranks train one net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ..discovery.fitting import required
from ..fields.component import Component
from ..protocols.communicator import Communicator
from ..protocols.layer import Layer

if TYPE_CHECKING:
    from ..protocols.backend import Step
    from .training import Training


class Framework(Component, kind="framework"):
    """What the ranks of a training do together, after SINGA's frameworks.

    Every rank has a net of its own, with `layers`, connected by a communicator (`Net(communicator=...)`).
    """

    def layers(self, layers: Sequence[Layer], communicator: Communicator) -> list[Layer]:
        """Return the layers of one rank's net, from those of the whole."""
        return list(layers)

    @required()
    def start(self, training: Training) -> FrameworkState:
        """Return the state of this framework in a training, whose net has a communicator."""
        raise NotImplementedError


class FrameworkState:
    """A framework at work in one training of one rank."""

    acts_for: ClassVar[str] = "framework"

    def __init__(self, framework: Framework, training: Training) -> None:
        self.framework = framework
        self.training = training

    def steps(self) -> list[Step]:
        """Return the steps between the gradients of an iteration and their use: after them all ranks have the same.

        The solver compiles them together with its own. What they work on are `training.spans`, and `training.slots`.
        """
        raise NotImplementedError
