"""Parameter: what a layer learns. The layer computes the gradient; the net and the solver do the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any, ClassVar

from ..errors import ConfigError, ContractError
from ..text import with_article
from .array import Array
from .components import Constraint, Initializer, Regularizer
from .part import Cut


def fits(shape: tuple[int, ...], needed: tuple[int, ...]) -> bool:
    """Return whether a value of `shape` fits a parameter; a single number may have any number of axes."""
    return shape == needed or prod(shape) == prod(needed) == 1


class Parameter:
    """A parameter, declared in `setup`: `Parameter("weight", (500, 800), init=Xavier())`.

    From `ready()` on, `blob` is the array of the backend that holds the value, and `gradient` the one that the layer's
    `backward` writes; None if it is not needed (no training, or frozen).

    Args:
        name: unique within the layer.
        shape: axis 0 counts the outputs.
        init: gives the first values.
        regu, cons: regulariser and constraint, or None.
        lr: multiplies the learning rate.
        trainable: False makes it a buffer, shared and saved like a parameter, but never touched by the solver.
        tied: "layer/parameter" of another layer of the net: this one uses its value, and adds to its gradient.
        transposed: a tied parameter uses the other's transpose.
        blocks: how many blocks of equal length it has along the axis that counts features, such as an LSTM's four
            gates; where the layer is cut along its features, each block is.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        init: Initializer | None = None,
        regu: Regularizer | None = None,
        cons: Constraint | None = None,
        lr: float = 1.0,
        trainable: bool = True,
        tied: str = "",
        transposed: bool = False,
        blocks: int = 1,
    ) -> None:
        if init is None and not tied:
            raise ConfigError(f"parameter '{name}' needs an initializer (init=...)")
        given = ("init", init, Initializer), ("regu", regu, Regularizer), ("cons", cons, Constraint)
        for field, value, kind in given:
            if value is not None and not isinstance(value, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
                found, wanted = with_article(type(value).__name__), with_article(kind.__name__)
                raise ContractError(f"parameter '{name}': {field} is {found}, but must be {wanted} or None")
        self.name = name
        try:
            self.shape = tuple(index(length) for length in shape)
        except TypeError:
            raise ContractError(
                f"parameter '{name}': its shape is {shape!r}, but must be a tuple of whole numbers"
            ) from None
        self.init = init
        self.regu = regu
        self.cons = cons
        self.lr = lr
        self.trainable = trainable
        self.tied = tied
        self.transposed = transposed
        self.blocks = blocks
        self.blob: Array = None
        self.gradient: Array | None = None
        self.frozen = False  # whether its net does not change it, even if it is a buffer
        self.storage: Storage | None = None  # where the value lies, once the net knows

    @classmethod
    def of(cls, layer: Any, name: str, shape: tuple[int, ...]) -> Parameter:
        """Return the parameter that the layer's fields `<name>_init`, `_regu`, `_cons` and `_lr` describe.

        Raises:
            ConfigError: the constraint does not fit the shape.
        """
        try:
            if (constraint := getattr(layer, f"{name}_cons")) is not None:
                constraint.check(shape)
        except ConfigError as error:
            raise ConfigError(f"{layer.name}: {name}_cons: {error.args[0]}", error.remedy) from error
        return cls(
            name,
            shape,
            init=getattr(layer, f"{name}_init"),
            regu=getattr(layer, f"{name}_regu"),
            cons=getattr(layer, f"{name}_cons"),
            lr=getattr(layer, f"{name}_lr"),
        )

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.shape})"


@dataclass(frozen=True, eq=False)
class Placed:
    """A parameter's value, or its gradient: an array that begins at `offset` of a flat `arena`, if it lies in one."""

    array: Array
    arena: Array = None
    offset: int = 0


_counted = itertools.count(1)


class Storage:
    """The memory of one parameter, shared by everything that uses it: layers of a net, and nets of a layer.

    `array` holds the value; it is None, and so is `placed`, in a net that only plans. `version` grows with every
    change, so that a packed or narrower copy knows when it is out of date: by one with an update, and by one more if a
    constraint follows. `cut` says which part of the whole net's parameter it is, if it is not all of it.
    """

    changes: ClassVar[int] = 0
    """Another number after every change of any storage: while it stays, so do all versions."""

    # an iteration reads all versions: the less memory, the less of it a batch has evicted
    __slots__ = ("__weakref__", "_version", "cut", "dtype", "name", "placed", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, cut: Cut | None = None) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.cut = cut
        self.placed: Placed | None = None
        self._version = 0

    @property
    def version(self) -> int:
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self._version = version
        Storage.changes = next(_counted)

    @staticmethod
    def note_changes(storages: Iterable[Storage]) -> None:
        """Raise the version of several by one."""
        for storage in storages:
            storage._version += 1
        Storage.changes = next(_counted)

    @property
    def array(self) -> Array:
        return None if self.placed is None else self.placed.array

    @property
    def size(self) -> int:
        return prod(self.shape)
