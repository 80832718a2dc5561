"""Nets as they are divided among ranks, for `graph` and `explain`: planned, rank by rank, in this process."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..config.netfile import NetFile
    from ..net.net import Net
    from ..net.summary import NetSummary
    from ..protocols.layer import Phase


@contextmanager
def nets_of_ranks(file: NetFile, phase: Phase, ranks: int, backend: str | None) -> Generator[list[Net]]:
    """Plan the net of each rank, and shut them down in the end.

    Raises:
        NacreError: as `Net`.
    """
    options: dict[str, Any] = {"backend": backend, "allocate": False, "fallback": "warn", "ranks": ranks}
    with ExitStack() as stack:
        yield [stack.enter_context(file.net(phase, rank=rank, **options)) for rank in range(ranks)]


def summary_of_ranks(file: NetFile, phase: Phase, ranks: int, backend: str | None) -> NetSummary:
    """Return one summary of a net as it is divided among ranks.

    Raises:
        NacreError: as `Net`.
    """
    from ..net.summary import of_ranks

    with nets_of_ranks(file, phase, ranks, backend) as nets:
        division = nets[0].division
        return of_ranks([net.summary() for net in nets], division.bridges if division else ())
