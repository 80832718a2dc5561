"""Connections: how the layers of one step of an Unroll read blobs of other steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from nacre import Component, Converted, Shape, Written, default, make_component, positive, whole


class Connection(Component, kind="connection"):
    """Brings a blob of other steps to the layers of each step, under a name of its own.

    Where there is no such step, as before the first one, the step reads `initial`, or zeros of `shape`.
    """

    name: Annotated[str, "the blob's name in the layers that read it"]
    blob: Annotated[str, "the blob that it brings: of the layers, or a bottom that is a sequence"]
    initial: Annotated[str, "what a step without source reads: a bottom, or the name of another connection"] = ""
    shape: Annotated[Shape, positive, "shape of the zeros that it reads otherwise, without images"] = default(())

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: Connection | Written) -> None: ...

    def source(self, step: int, steps: int) -> int | Sequence[int]:
        """Return the step from which `step` reads, counted from 1; of several it reads a Stack: (images, steps, ...).

        A number that is no step means `initial`.
        """
        raise NotImplementedError


class OneToOne(Connection):
    """Each step reads the step that is `shift` before it; with a negative `shift`, after it.

    After SINGA's `kUnrollOneToOne`.
    """

    shift: Annotated[int, "how many steps before"] = 1

    def source(self, step: int, steps: int) -> int:
        return step - self.shift


class OneToAll(Connection):
    """Each step reads all steps, as one blob (images, steps, ...). After SINGA's `kUnrollOneToAll`."""

    def source(self, step: int, steps: int) -> Sequence[int]:
        return range(1, steps + 1)


class FirstToLast(Connection):
    """The first step reads the last one's blob, and the others `initial`. After SINGA's `kUnrollFirstToLast`."""

    def source(self, step: int, steps: int) -> int:
        return steps if step == 1 else 0


class Sources(Converted["Sequence[int | Sequence[int]]", "tuple[int | tuple[int, ...], ...]"]):
    """For each step the number of a step, or a list of them."""

    wants = "a list that has a step, or a list of steps, for each step: [0, 1, [1, 2]]"

    @staticmethod
    def convert(value: Any) -> tuple[int | tuple[int, ...], ...]:
        return tuple(tuple(whole(one) for one in entry) if isinstance(entry, list | tuple) else whole(entry)
                     for entry in value)  # fmt: skip


class Customised(Connection):
    """Each step reads the steps that a list has for it. After SINGA's `kUnrollCustomized`."""

    sources: Annotated[Sources, "for each step the one that it reads, from 1, or a list of them; 0 means `initial`"]

    def complaints(self) -> Iterator[str]:
        if any(one == () or (isinstance(one, tuple) and min(one) < 1) for one in self.sources):
            yield f"sources={self.sources}, but a list in it must have steps, counted from 1"

    def source(self, step: int, steps: int) -> int | Sequence[int]:
        return self.sources[step - 1]


class Connections(Converted["Sequence[Connection | Mapping[str, Any]]", "tuple[Connection, ...]"]):
    """Connections between steps."""

    wants = "a list of connections, each with a type, a name and a blob"

    @staticmethod
    def convert(value: Any) -> tuple[Connection, ...]:
        if isinstance(value, str | Mapping):
            raise ValueError
        return tuple(one if isinstance(one, Connection) else make_component(Connection, one) for one in value)
