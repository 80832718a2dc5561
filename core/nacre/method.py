"""What an iteration is made of: the algorithm of a batch, the method that updates parameters, and their policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from .engine.arena import ALIGNMENT
from .engine.parameters import Slot
from .fields.component import Component, make_component
from .protocols.array import Array

if TYPE_CHECKING:
    from .net.net import Net
    from .protocols.backend import Step
    from .protocols.parameter import Storage
    from .protocols.view import View
    from .solver import Training


class LrState(Protocol):
    """A learning-rate policy at work in one training."""

    def rate(self, iteration: int) -> float:
        """Give the learning rate of an iteration, counted from 0."""
        ...

    def memory(self) -> Mapping[str, Any]:
        """Give what must survive a restart, as arrays, numbers and texts."""
        ...

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take back what `memory` gave."""
        ...


class LrPolicy(Component, kind="lr_policy"):
    """Gives the learning rate of an iteration; a bare number is the policy `Fixed`."""

    @classmethod
    def from_number(cls, number: float) -> LrPolicy:
        return make_component(LrPolicy, {"type": "Fixed", "base": number})

    def start(self, training: Training) -> LrState:
        """Make what gives the rates of one training: this policy itself, unless it has to remember something."""
        return self

    def rate(self, iteration: int) -> float:
        """Give the learning rate of an iteration, counted from 0."""
        raise NotImplementedError


class MomentumState(Protocol):
    """A momentum policy at work in one training."""

    def momentum(self, iteration: int) -> float:
        """Give the momentum of an iteration, counted from 0."""
        ...

    def memory(self) -> Mapping[str, Any]:
        """Give what must survive a restart, as arrays, numbers and texts."""
        ...

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take back what `memory` gave."""
        ...


class MomentumPolicy(Component, kind="momentum_policy"):
    """Gives the momentum of an iteration; a bare number is the policy `Fixed`."""

    @classmethod
    def from_number(cls, number: float) -> MomentumPolicy:
        return make_component(MomentumPolicy, {"type": "Fixed", "base": number})

    def start(self, training: Training) -> MomentumState:
        """Make what gives the momenta of one training: this policy itself, unless it has to remember something."""
        return self

    def momentum(self, iteration: int) -> float:
        """Give the momentum of an iteration, counted from 0."""
        raise NotImplementedError


@dataclass
class Span:
    """A stretch of contiguous memory that a method updates in one pass: values and gradients, flat.

    `rate` multiplies the learning rate. `parts` tells where each parameter lies: (name, offset, size), and `storages`
    whose memory it is. Padding between parameters is zero, and stays zero.
    """

    value: Array
    gradient: Array
    rate: float
    parts: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    storages: list[Storage] = field(default_factory=list["Storage"])


def make_spans(slots: Sequence[Slot]) -> list[Span]:
    """Join parameters that lie one behind the other, in value and in gradient, and learn at one rate."""
    runs: list[list[Slot]] = []
    for slot in slots:
        if runs and _follows(runs[-1][-1], slot):
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return [_span(run) for run in runs]


def _follows(one: Slot, other: Slot) -> bool:
    """Say whether `other` begins where `one` ends, but for padding: a frozen parameter between them is larger."""
    step = ALIGNMENT // (8 if one.storage.dtype == "float64" else 4)
    gap = other.storage.offset - one.storage.offset - one.storage.size
    return (
        other.storage.arena is one.storage.arena
        and other.arena is one.arena
        and 0 <= gap < step
        and gap == other.offset - one.offset - one.storage.size
        and other.parameters[0].lr == one.parameters[0].lr
    )


def _span(run: Sequence[Slot]) -> Span:
    first, last = run[0], run[-1]
    length = last.offset + last.storage.size - first.offset
    value = first.storage.arena[first.storage.offset : first.storage.offset + length]
    gradient = first.arena[first.offset : first.offset + length]
    parts = [(slot.name, slot.offset - first.offset, slot.storage.size) for slot in run]
    return Span(value, gradient, first.parameters[0].lr, parts, [slot.storage for slot in run])


class Method(Component, kind="solver"):
    """A rule that updates parameters: SGD, Adam, ...

    On the class: `has_momentum = False` says that it has no use for a momentum policy; `decoupled = True` that a
    regulariser moves the parameters themselves, by the learning rate, and leaves their gradients alone.
    """

    has_momentum: ClassVar[bool] = True
    decoupled: ClassVar[bool] = False

    def setup(self, backend: View, spans: Sequence[Span]) -> MethodState:
        """Make the state of this method for the spans of a net."""
        raise NotImplementedError


class MethodState:
    """A method at work. A kernel for ("solver/SGD", backend) is made in the same way: `Kernel(method, backend, spans)`.

    `histories` names the arrays that the method keeps, one of each span's size for each span; they are saved by
    parameter. The rate of the iteration is `backend.scalars["rate"]`, its momentum `backend.scalars["momentum"]`.
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

    def advance(self) -> None:
        """Write into `backend.scalars` what differs in the next update beside rate and momentum: called before it."""

    def update(self) -> None:
        """Change the values of all spans by their gradients."""
        raise NotImplementedError

    def product(self) -> float:
        """Give the product of all values and gradients after an update: not finite if any number of the two is not.

        A kernel that has them in cache gives it for nothing.
        """
        return sum(float(self.backend.xp.dot(span.value, span.gradient)) for span in self.spans)

    def memory(self) -> Mapping[str, Any]:
        """Give what must survive a restart beside the histories, as arrays, numbers and texts."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take back what `memory` gave."""


class Algorithm(Component, kind="algorithm"):
    """Trains one batch: says which passes of a net an iteration is made of."""

    def train_one_batch(self, net: Net) -> list[Step]:
        """Give the steps that compute the gradients of one batch: `net.steps("feed")`, `"forward"`, `"backward"`.

        Called once; the solver compiles the steps together with its own.
        """
        raise NotImplementedError
