"""Members: the objects at work in a training, as its snapshots and its provenance need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..fields.configured import Configured
from ..net.net import Net
from ..snapshots.environment import environment
from ..snapshots.provenance import Working, origins_of, parts_of
from .method import MethodState
from .spans import Span


class Remembers(Protocol):
    """An object with a memory that must survive a restart."""

    def memory(self) -> Mapping[str, Any]:
        """Return it, as arrays, numbers and strings."""
        ...

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        """Restore what `memory` returned; return a sentence that a person should read, or None."""
        ...


@dataclass(frozen=True)
class Members:
    """The objects at work in a training.

    `settings` are the solver's fields, `method` works on `spans`; `owners` have a memory, under names that are the same
    after a restart; `working` are the objects whose code and kernels a snapshot records. `updater` is the first rank
    that updates parameters, if ranks update different ones, so that each has a part of the histories.
    """

    net: Net
    settings: Configured
    method: MethodState
    spans: Sequence[Span]
    owners: Mapping[str, Remembers]
    working: Working
    updater: int | None = None

    @property
    def solver(self) -> str:
        """The name of the method's class: a snapshot is resumed by the same."""
        return type(self.working["solver"][0]).__name__

    def provenance(self) -> dict[str, Any]:
        """Return the code that this training uses, and what it runs on: `parts`, `origins` and `environment`."""
        return {
            "parts": parts_of(self.working),
            "origins": origins_of([*self.net.layers, self.settings]),
            "environment": environment(self.net.backends()),
        }
