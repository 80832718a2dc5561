"""Components: the small interchangeable parts of a net and its training, each of a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from ..discovery.blame import answered
from ..discovery.fitting import required
from ..errors import ConfigError, DataError
from ..fields.checks import finite, non_negative, positive
from ..fields.component import Component, Written

if TYPE_CHECKING:
    import numpy as np

    from ..random import Random, RecordRandom
    from .array import Array
    from .view import View


class Neuron(Component, kind="neuron"):
    """An activation function, applied by the net to the tops of a layer, element by element.

    `x` and `y` may be the same array, and so may `dy` and `dx`. Arrays are of any shape and of the backend's memory;
    `backend` is the net's view of the backend. A neuron whose gradient cannot be computed from its output declares
    `needs_input = True`; `x` is None for all others. One that says `capturable = True` only calls functions of
    `backend.xp`, and looks at no number of an array, so that a device may record its calls and replay them.
    """

    needs_input: ClassVar[bool] = False
    capturable: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: Neuron | Written) -> None: ...

    else:

        def __call__(self, *_: object) -> None:
            name = type(self).__name__
            raise ConfigError(f"{name} is a neuron, not a layer, so it cannot be called", f"write L.{name}()(x)")

    @required()
    def forward(self, backend: View, x: Array, y: Array) -> None:
        """Write f(x) into y."""
        raise NotImplementedError

    @required()
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

    def without_files(self, field: str, paths: Any) -> Any:
        """Return the files: a saved net has its parameters, and never needs them."""
        return paths

    @required()
    def values(self, random: Random, shape: tuple[int, ...]) -> Array:
        """Return a NumPy float64 array of `shape`; `random` is a `nacre.random.Random` of the parameter's own.

        Axis 0 of a shape counts the outputs; the product of the others is the fan-in.
        """
        raise NotImplementedError


class Regularizer(Component, kind="regularizer"):
    """Adds the gradient of a penalty on a parameter."""

    coef: Annotated[float, non_negative, finite, "multiplies the solver's regu_coef"] = 1.0

    @required()
    def add_gradient(self, backend: View, value: Array, gradient: Array, coefficient: float) -> None:
        """Add `coefficient` times the penalty's gradient at `value` to `gradient`, both flat arrays."""
        raise NotImplementedError


class Constraint(Component, kind="constraint"):
    """Moves a parameter back to where it may be, after an update."""

    every_n_iter: Annotated[int, positive, "number of updates from one use to the next"] = 1

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise ConfigError if this cannot constrain a parameter of `shape`; called when a net is made."""

    def divides(self, shape: tuple[int, ...], axis: int) -> bool:
        """Return whether parts of a parameter, cut along an axis, can each be constrained alone, on several ranks."""
        return False

    @required()
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
    acts_for: ClassVar[str] = "component"

    def __init__(self, component: Any, backend: View) -> None:
        self.component = component
        self.backend = backend

    @classmethod
    def supports(cls, component: Any, inputs: list[Any]) -> str | None:
        return None


@dataclass(frozen=True)
class Blocks:
    """The records of a top that a net is trained on, in blocks (records, *shape), anew whenever they are iterated.

    Args:
        count: the number of records.
        shape: of one record.
        classes: names of the classes that the numbers count, if they do.
        read: returns an iterator over the blocks: float64 arrays. The next block may use the same memory.
    """

    count: int
    shape: tuple[int, ...]
    classes: Sequence[str]
    read: Callable[[], Iterator[np.ndarray]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.read()


class Transformer(Component, kind="transformer"):
    """Changes a batch on its way from a source into the net.

    One that has to be fitted to the training data defines `fit` too. What that returns is kept with the net and in
    snapshots, and handed to the transformers of all other phases: `self.fitted`.

    Most define `transform` alone, which works in place and in the blob's type. One that changes the shape of records
    defines `shape_of` and `transform_into` too. What is drawn by `random.each` belongs to the records, whatever their
    batches, and however many ranks and threads there are.
    """

    keeps_type: ClassVar[bool] = False
    """Whether records may be of any type of numbers, such as bytes; they become the blob's type only after it."""
    by_record: ClassVar[bool] = False
    """Whether it changes each record by itself, without `random`; a batch may then be handed over in parts."""

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the records that come out, for those of `shape`; called before `fit`."""
        return shape

    def checked_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return what `shape_of` returns, for a source. Raises PluginError if it is no shape."""
        found: Any = self.shape_of(shape)
        right = type(found) is tuple and all(isinstance(one, int) for one in cast("tuple[Any, ...]", found))
        return answered(self, "shape_of", found, tuple if right else (), "the shape of a record, a tuple of numbers")

    def checked_fit(self, blocks: Blocks) -> Mapping[str, Any]:
        """Return what `fit` returns, for a source. Raises PluginError if it is no dict."""
        return answered(self, "fit", self.fit(blocks), Mapping, "a dict of arrays and of what JSON can hold")

    @required("transform_into")
    def transform(self, batch: Array, random: RecordRandom, phase: str) -> None:
        """Change `batch`, a NumPy array (records, *shape), in place; called where shape and type stay the same."""
        raise NotImplementedError

    def transform_into(self, given: Array, out: Array, random: RecordRandom, phase: str) -> None:
        """Write the changed records of `given` into `out`, an array of the shape and the type that come out."""
        out[...] = given
        self.transform(out, random, phase)

    def fit(self, blocks: Blocks) -> Mapping[str, Any]:
        """Return what has to be known of the training data: finite arrays, and what JSON can hold.

        `blocks` are the records as the transformers before this one have changed them.
        """
        raise NotImplementedError

    @property
    def needs_fit(self) -> bool:
        """Whether it has to be fitted; by default if it defines `fit`."""
        return type(self).fit is not Transformer.fit

    def with_fitted(self, fitted: Mapping[str, Any], classes: Sequence[str] = ()) -> Transformer:
        """Return this transformer with what `fit` returned; `classes` are the names that the batches' numbers count."""
        made = copy(self)
        object.__setattr__(made, "fitted", fitted)
        return made

    def fitted_array(self, key: str, shape: Sequence[int]) -> Array:
        """Return an array that `fit` returned. Raises DataError if it is not there, or has another shape."""
        array = vars(self).get("fitted", {}).get(key)
        found = getattr(array, "shape", None)
        if found != tuple(shape):
            has = "there is none" if found is None else f"it was fitted to records of shape {found}"
            raise DataError(
                f"{type(self).__name__}: '{key}' is needed for records of shape {tuple(shape)}, but {has}",
                "fit it to training data of this shape",
            )
        return array
