"""Components: the small interchangeable parts of a net and its training, each of a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ..fields.checks import non_negative, positive
from ..fields.component import Component, Written

if TYPE_CHECKING:
    from ..random import Random
    from .array import Array
    from .view import View


class Neuron(Component, kind="neuron"):
    """An activation function, applied by the net to the tops of a layer, element by element.

    `x` and `y` may be the same array, and so may `dy` and `dx`. Arrays are of any shape and of the backend's memory;
    `backend` is the net's view of the backend. A neuron whose gradient cannot be computed from its output declares
    `needs_input = True`; `x` is None for all others.
    """

    needs_input: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: Neuron | Written) -> None: ...

    def forward(self, backend: View, x: Array, y: Array) -> None:
        """Write f(x) into y."""
        raise NotImplementedError

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        """Write dy f'(x) into dx."""
        raise NotImplementedError


class Identity(Neuron):
    """f(x) = x: nothing is computed."""

    def forward(self, backend: View, x: Array, y: Array) -> None:
        if x is not y:
            backend.xp.copyto(y, x)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        if dx is not dy:
            backend.xp.copyto(dx, dy)


class Initializer(Component, kind="initializer"):
    """Gives a parameter its first values."""

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: Initializer | Written | float) -> None: ...

    def values(self, random: Random, shape: tuple[int, ...]) -> Array:
        """Return a NumPy float64 array of `shape`; `random` is a `nacre.random.Random` of the parameter's own.

        Axis 0 of a shape counts the outputs; the product of the others is the fan-in.
        """
        raise NotImplementedError


class Regularizer(Component, kind="regularizer"):
    """Adds the gradient of a penalty on a parameter."""

    coef: Annotated[float, non_negative, "multiplies the solver's regu_coef"] = 1.0

    def add_gradient(self, backend: View, value: Array, gradient: Array, coefficient: float) -> None:
        """Add `coefficient` times the penalty's gradient at `value` to `gradient`, both flat arrays."""
        raise NotImplementedError


class Constraint(Component, kind="constraint"):
    """Moves a parameter back to where it may be, after an update."""

    every_n_iter: Annotated[int, positive, "number of updates from one use to the next"] = 1

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise ConfigError if this cannot constrain a parameter of `shape`; called when a net is made."""

    def constrain(self, backend: View, value: Array) -> None:
        """Change `value`, of the parameter's shape, in place."""
        raise NotImplementedError


class ComponentKernel:
    """A faster regulariser or constraint on one backend: made as `Kernel(component, backend)`, with the same methods.

    Offered for ("regularizer/L1", backend) or ("constraint/L2", backend). `dtypes` are the types that it computes in,
    all by default; `supports` returns None, or the reason why it cannot be used for a component on arrays of these
    shapes.
    """

    dtypes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, component: Any, backend: View) -> None:
        self.component = component
        self.backend = backend

    @classmethod
    def supports(cls, component: Any, inputs: list[Any]) -> str | None:
        return None


class Transformer(Component, kind="transformer"):
    """Changes a batch on its way from a source into the net."""

    def transform(self, batch: Array, random: Random, phase: str) -> None:
        """Change `batch`, a NumPy array of the blob's shape, in place."""
        raise NotImplementedError
