"""Board: where ranks on one machine lay out arrays for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import ContractError, RankError

from .mailbox import Mailbox
from .segment import LINE, PAGE, Segment, ordered

METHODS = "barrier", "allreduce", "reduce_scatter", "allgather", "bcast"
BLOCK = 1 << 20  # bytes that a rank lays out for the others at a time


class Board:
    """The arrays that the ranks of a communicator lay out for each other: each has a counter and two blocks.

    The blocks take turns: who writes into one has waited for all others since they read it.
    """

    def __init__(self, segment: Segment, start: int, rank: int, size: int) -> None:
        self.start, self.rank, self.size, self.block = start, rank, size, BLOCK
        self._wait = segment.wait
        memory = memoryview(segment.map(start, self.bytes(size)))
        self._lines = [memory[LINE * one : LINE * (one + 1)].cast("Q") for one in range(size)]
        blocks = np.frombuffer(memory, np.uint8)[-(-LINE * size // PAGE) * PAGE :]
        self._blocks = [[blocks[(2 * one + turn) * BLOCK :][:BLOCK] for one in range(size)] for turn in (0, 1)]
        self._count = self._turn = 0

    def _need_memory(self) -> None:
        if not self._lines:
            raise ContractError("this communicator is closed")

    def close(self) -> None:
        """Let go of the memory: nothing can be laid out any more."""
        self._lines.clear()
        self._blocks = [[], []]

    @staticmethod
    def bytes(size: int) -> int:
        """Return how many bytes it takes for so many ranks."""
        return -(-LINE * size // PAGE) * PAGE + 2 * size * BLOCK

    def turn(self, kind: np.dtype[Any]) -> list[np.ndarray]:
        """Return the next blocks of all ranks, as numbers of a type."""
        self._need_memory()
        self._turn = 1 - self._turn
        return [block.view(kind) for block in self._blocks[self._turn]]

    def meet(self, what: int = 0, size: int = 0) -> None:
        """Wait for all ranks: what they wrote before can be read. `what` they do, and the size of it, must be the same.

        Raises:
            RankError: ranks called different methods, or with different arrays.
        """
        self._need_memory()
        self._count = count = self._count + 1
        sign, place = (size << 8) + what, 1 + count % 2  # another rank may be one ahead
        self._lines[self.rank][place] = sign
        ordered()
        self._lines[self.rank][0] = count
        for other in self._lines:
            if other[0] < count:
                self._wait(lambda other=other: other[0] >= count)
        ordered()
        for rank, other in enumerate(self._lines):
            if other[place] != sign:
                raise RankError(
                    f"ranks {self.rank} and {rank} talk about different things: {told(sign)} and {told(other[place])}",
                    "all ranks must call the collective methods of a communicator in the same order",
                )


def told(sign: int) -> str:
    """Return in words what a rank has come to do."""
    return f"{METHODS[sign & 255]} of {sign >> 8} bytes"


def lay_out(segment: Segment, size: int) -> None:
    """Take the memory of the communicator of all ranks, and of their messages, in a new segment."""
    segment.allocate(Board.bytes(size))
    segment.allocate(Mailbox.size(size))
