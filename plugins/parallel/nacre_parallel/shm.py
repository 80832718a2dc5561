"""Shm: the communicator of processes on one machine, in memory that they share; it needs nothing but NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from nacre import Communicator, ConfigError, Launch, Request, check_op, flat_view, reduce_into

from .local import check_part
from .nccl import asked
from .sharing import SharedArrays

if TYPE_CHECKING:
    import numpy as np

    from .board import Board
    from .mailbox import Mailbox
    from .rank import Rank
    from .segment import Segment

ENVIRONMENT = "NACRE_SHM"
"""What the launcher tells a rank: descriptor of the segment, that of the line to the launcher, rank and size."""
ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BCAST = range(1, 5)  # as `board.METHODS` counts
GONE = 1 << 62
"""The tag by which ranks tell the first one of a communicator that they have closed it."""
SMALL = 1 << 13  # bytes up to which every rank reduces all of an array by itself


class ShmCommunicator(Communicator):
    """Ranks on one machine; the launcher (`nacre train --workers`) has started them, and ends them."""

    name = "shm"

    def __init__(
        self,
        process: Rank,
        segment: Segment,
        mailbox: Mailbox,
        board: Board,
        members: Sequence[int],
        *,
        world: bool = False,
    ) -> None:
        # `members` are its ranks, as the mailbox of this process counts them; `world` says that they are all
        self.process, self.segment, self.mailbox, self.board, self.members = process, segment, mailbox, board, members
        self.rank, self.size, self.world = board.rank, board.size, world
        self._shared, self._closed = SharedArrays(), False

    @classmethod
    def ranks_here(cls) -> int:
        return 0 if asked() else cls.started_here()

    @classmethod
    def started_here(cls) -> int:
        """Return of how many ranks a launcher says that this process is one, of whatever communicator; else 0."""
        return told()[3] if ENVIRONMENT in os.environ else 0

    @classmethod
    def start(cls, command: Sequence[str], ranks: int, *, env: Mapping[str, str] | None = None) -> Launch:
        from .launch import Ranks

        return Ranks(command, ranks, env=env)

    @classmethod
    def connect(cls) -> ShmCommunicator:
        if ENVIRONMENT not in os.environ:
            raise ConfigError(
                "this process was not started as a rank",
                "start it by python -m nacre_parallel -n 2 SCRIPT, or train by nacre train --workers 2",
            )
        descriptor, line, rank, size = told()
        del os.environ[ENVIRONMENT]
        for number in (descriptor, line):
            os.set_inheritable(number, False)
        from .board import Board
        from .mailbox import Mailbox
        from .rank import Rank
        from .segment import CONNECTED, PAGE, Segment

        segment = Segment(descriptor)
        process = Rank(segment, line, rank, size)
        mailboxes = PAGE + -(-Board.bytes(size) // PAGE) * PAGE
        mailbox = Mailbox(segment, mailboxes, rank, size)
        made = cls(process, segment, mailbox, Board(segment, PAGE, rank, size), range(size), world=True)
        segment.states[rank] = CONNECTED
        return made

    # Collective

    def split(self, color: int | None, key: int = 0) -> ShmCommunicator | None:
        from .board import Board

        every = self.gather([color, key])
        groups: dict[int, list[int]] = {}
        for rank in sorted(range(self.size), key=lambda rank: (every[rank][1], rank)):
            if every[rank][0] is not None:
                groups.setdefault(every[rank][0], []).append(rank)
        starts: dict[int, int] = {}
        if self.rank == 0:
            starts = {color: self.segment.allocate(Board.bytes(len(group))) for color, group in groups.items()}
        starts = dict(self.share(list(starts.items())))
        if color is None:
            return None
        group = groups[color]
        board = Board(self.segment, starts[color], group.index(self.rank), len(group))
        members = [self.members[rank] for rank in group]
        return ShmCommunicator(self.process, self.segment, self.mailbox, board, members)

    def allreduce(self, array: np.ndarray, op: Any = "sum", *, ordered: bool = False) -> None:
        import numpy as np

        flat = flat_view(array)
        check_op(op, flat)
        if flat.nbytes <= SMALL:
            blocks = [block[: len(flat)] for block in self.board.turn(flat.dtype)]
            np.copyto(blocks[self.rank], flat)
            self.board.meet(ALLREDUCE, flat.nbytes)
            reduce_into(blocks, op, flat)
            return
        step = self.board.block // flat.itemsize
        for start in range(0, len(flat), step):
            piece = flat[start : start + step]
            blocks = self.board.turn(flat.dtype)
            np.copyto(blocks[self.rank][: len(piece)], piece)
            self.board.meet(ALLREDUCE, flat.nbytes)
            mine = self.part(len(piece))
            reduce_into([block[mine] for block in blocks], op, blocks[self.rank][mine])
            self.board.meet(ALLREDUCE, flat.nbytes)
            for rank, block in enumerate(blocks):
                np.copyto(piece[self.part(len(piece), rank)], block[self.part(len(piece), rank)])

    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: Any = "sum", *, ordered: bool = False) -> None:
        import numpy as np

        flat, into = flat_view(array), flat_view(out, "out")
        check_op(op, flat)
        parts = [flat[self.part(len(flat), rank)] for rank in range(self.size)]
        check_part(into, flat, len(parts[self.rank]), "array")
        step = self.board.block // flat.itemsize // self.size
        for start in range(0, max(map(len, parts)), step):  # a piece of every rank's part
            blocks = self.board.turn(flat.dtype)
            for rank, part in enumerate(parts):
                piece = part[start : start + step]
                np.copyto(blocks[self.rank][rank * step :][: len(piece)], piece)
            self.board.meet(REDUCE_SCATTER, flat.nbytes)
            piece = into[start : start + step]
            reduce_into([block[self.rank * step :][: len(piece)] for block in blocks], op, piece)

    def allgather(self, array: np.ndarray, out: np.ndarray) -> None:
        import numpy as np

        given, into = flat_view(array, writes=False), flat_view(out, "out")
        parts = [into[self.part(len(into), rank)] for rank in range(self.size)]
        check_part(given, into, len(parts[self.rank]), "out")
        step = self.board.block // into.itemsize
        for start in range(0, max(map(len, parts)), step):
            blocks = self.board.turn(into.dtype)
            piece = given[start : start + step]
            np.copyto(blocks[self.rank][: len(piece)], piece)
            self.board.meet(ALLGATHER, into.nbytes)
            for part, block in zip(parts, blocks, strict=True):
                piece = part[start : start + step]
                np.copyto(piece, block[: len(piece)])

    def bcast(self, array: np.ndarray, root: int = 0) -> None:
        import numpy as np

        flat = flat_view(array)
        self.check_rank(root, "root")
        step = self.board.block // flat.itemsize
        for start in range(0, len(flat), step):
            piece = flat[start : start + step]
            block = self.board.turn(flat.dtype)[root][: len(piece)]
            if self.rank == root:
                np.copyto(block, piece)
            self.board.meet(BCAST, flat.nbytes)
            np.copyto(piece, block)

    def barrier(self) -> None:
        self.board.meet()

    def shared_array(self, shape: Sequence[int], dtype: str = "float64") -> np.ndarray:
        import numpy as np

        size = np.dtype(dtype).itemsize * prod(shape)
        start = self.share(self.segment.allocate(size) if self.rank == 0 else None)
        remove = partial(self.segment.remove, start, size) if self.rank == 0 else int  # others have only mapped it
        return self._shared.add(self.segment.array(start, shape, dtype), remove)

    # From one to another

    def isend(self, array: np.ndarray, to: int, tag: int = 0) -> Request:
        self.check_rank(to, "to")
        return self.mailbox.send(flat_view(array, writes=False), self.members[to], (self.board.start, tag))

    def irecv(self, array: np.ndarray, source: int, tag: int = 0) -> Request:
        self.check_rank(source, "source")
        return self.mailbox.receive(flat_view(array), self.members[source], (self.board.start, tag))

    def wait_any(self, requests: Sequence[Request]) -> int:
        if requests:
            self.segment.wait(lambda: any(one.done() for one in requests))
        return super().wait_any(requests)

    # Failure

    def abort(self, message: str, code: int = 1) -> NoReturn:
        self.process.abort(message, code)

    def on_failure(self, call: Callable[[str], object]) -> None:
        from .rank import on_failure

        on_failure(call)

    def close(self) -> None:
        if self.world:
            if not self.process.closed:
                self.barrier()
                self.process.close()
        elif not self._closed:
            self._shared.release(self)
            self._closed = True
            self.board.close()
            self._remove_board()

    def _remove_board(self) -> None:
        """Release the memory of a board, when no rank looks at what others have laid out there any more."""
        import numpy as np

        gone = np.zeros(1)
        if self.rank:
            self.send(gone, 0, GONE)
            return
        for other in range(1, self.size):
            self.recv(gone, other, GONE)
        self.segment.remove(self.board.start, self.board.bytes(self.size))


def told() -> tuple[int, int, int, int]:
    """Return what the launcher has told this process: the descriptors of the segment and of its line, rank and size.

    Raises:
        ConfigError: somebody else has set the variable of the environment.
    """
    text = os.environ[ENVIRONMENT]
    numbers = [int(one) for one in text.split(":") if one.isdecimal()]
    if len(numbers) != 4 or text.count(":") != 3:
        raise ConfigError(f"{ENVIRONMENT}={text!r}, but only nacre sets it, for the ranks that it starts", "unset it")
    descriptor, line, rank, size = numbers
    return descriptor, line, rank, size
