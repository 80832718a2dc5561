"""Members: what works in a training, as its snapshots and its provenance see it."""

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
    """Whatever has something that must survive a restart."""

    def memory(self) -> Mapping[str, Any]:
        """Return it, as arrays, numbers and texts."""
        ...

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take back what `memory` gave."""
        ...


@dataclass(frozen=True)
class Members:
    """What works in a training.

    `settings` are the solver's fields, `method` is at work on `spans`; `owners` have a memory, by the names that a
    restart gives them again; `working` is all whose code and kernels a snapshot records.
    """

    net: Net
    settings: Configured
    method: MethodState
    spans: Sequence[Span]
    owners: Mapping[str, Remembers]
    working: Working

    @property
    def solver(self) -> str:
        """The name of the method's class: a snapshot is resumed by the same."""
        return type(self.working["solver"][0]).__name__

    def provenance(self) -> dict[str, Any]:
        """Return whose code this training is, and on what it runs: `parts`, `origins` and `environment`."""
        return {
            "parts": parts_of(self.working),
            "origins": origins_of([*self.net.layers, self.settings]),
            "environment": environment(self.net.backends()),
        }
