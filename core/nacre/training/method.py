"""Method: the rule that updates parameters, and its state in one training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Never

from ..arguments import check_class_line
from ..discovery.fitting import required
from ..fields.component import Component
from ..protocols.array import Array

if TYPE_CHECKING:
    from ..protocols.view import View
    from .spans import Span


class Method(Component, kind="solver"):
    """A rule that updates parameters: SGD, Adam, ...

    On the class: `has_momentum = False` means that it does not use a momentum policy; `decoupled = True` that a
    regulariser changes the parameters directly, by the learning rate, and not their gradients.
    """

    besides = "rate and momentum are the Solver's: Solver('SGD', lr_policy=0.1, momentum_policy=0.9)"

    has_momentum: ClassVar[bool] = True
    decoupled: ClassVar[bool] = False

    @required()
    def setup(self, backend: View, spans: Sequence[Span]) -> MethodState:
        """Make the state of this method for the spans of a net."""
        raise NotImplementedError


class MethodState:
    """A method at work. A kernel for ("solver/SGD", backend) is made in the same way: `Kernel(method, backend, spans)`.

    `histories` are the arrays that the method keeps, by name, one of each span's size for each span; they are saved by
    parameter. The rate of the iteration is `backend.scalars["rate"]`, its momentum `backend.scalars["momentum"]`.
    """

    dtypes: ClassVar[tuple[str, ...]] = ()
    acts_for: ClassVar[str] = "method"

    def __init_subclass__(cls, **others: Never) -> None:
        check_class_line(cls, others, "setup(backend, spans) of the method returns its state")
        super().__init_subclass__()

    def __init__(self, method: Any, backend: View, spans: Sequence[Span]) -> None:
        self.method = method
        self.backend = backend
        self.spans = list(spans)
        self.histories: dict[str, list[Array]] = {}

    @classmethod
    def supports(cls, method: Any, spans: Sequence[Span]) -> str | None:
        """Return None, or the reason why this kernel cannot be used for `method`."""
        return None

    def history(self, name: str) -> list[Array]:
        """Make the arrays of a history, filled with zeros."""
        self.histories[name] = [self.backend.empty(span.value.shape) for span in self.spans]
        return self.histories[name]

    def advance(self) -> None:
        """Write into `backend.scalars` what changes in the next update besides rate and momentum; called before it."""

    @required()
    def update(self) -> None:
        """Change the values of all spans by their gradients."""
        raise NotImplementedError

    def product(self) -> float:
        """Return the product of all values and gradients after an update: not finite if any number of the two is not.

        A kernel that has them in the cache gets it almost for free.
        """
        return sum(float(self.backend.xp.dot(span.value, span.gradient)) for span in self.spans)

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart besides the histories, as arrays, numbers and strings."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""
