"""Mailboxes: messages between the ranks of one machine, through a ring of bytes for each sender and receiver.

A message is its head (communicator, tag, bytes, block) and its bytes, rounded up to words. The sender writes as far as
there is room and goes on when the receiver has read; whoever waits for anything lets all its messages make progress.
What arrives before it is asked for is kept aside, so that messages with other tags can pass it.

The bytes of a large message lie in a block of shared memory, and only its head goes through the ring: so it has gone at
once, and whoever waits for it need not wait until the sender, which computes meanwhile, waits for something too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from nacre import Request

from .local import check_bytes
from .segment import LINE, Segment, ordered

RING = 1 << 18  # bytes that may be on their way
LARGE = RING // 4  # bytes: a message of more lies in a block
ON_THEIR_WAY = 1 << 28  # bytes in blocks from one rank to another, before the next message waits
HEAD = 4  # words: communicator, tag, bytes, where the block begins or 0
BOX = 2 * LINE + RING  # how many bytes were written, how many were read, and the ring


class Ring:
    """The bytes on their way from one rank to another, and this rank's end of it."""

    def __init__(self, memory: memoryview) -> None:
        self.written, self.read = memory[:8].cast("Q"), memory[LINE : LINE + 8].cast("Q")
        self.bytes = np.frombuffer(memory, np.uint8)[2 * LINE :]

    def put(self, data: np.ndarray) -> int:
        """Write bytes as far as there is room; return how many."""
        begin = self.written[0]
        count = min(len(data), RING - (begin - self.read[0]))
        if count:
            self._copy(begin % RING, data[:count], into_ring=True)
            ordered()
            self.written[0] = begin + count
        return count

    def take(self, out: np.ndarray) -> int:
        """Read bytes as far as they have been written; return how many."""
        begin = self.read[0]
        count = min(len(out), self.written[0] - begin)
        if count:
            ordered()
            self._copy(begin % RING, out[:count], into_ring=False)
            ordered()
            self.read[0] = begin + count
        return count

    def _copy(self, place: int, data: np.ndarray, *, into_ring: bool) -> None:
        first = min(len(data), RING - place)
        for ring, part in ((self.bytes[place : place + first], data[:first]), (self.bytes, data[first:])):
            if len(part):
                ring = ring[: len(part)]
                np.copyto(*((ring, part) if into_ring else (part, ring)))


class Block:
    """Shared memory for one large message at a time: a word that says how many bytes are taken, and the bytes."""

    def __init__(self, segment: Segment, start: int, size: int) -> None:
        self.start = start
        memory = memoryview(segment.map(start, LINE + size))
        self.taken = memory[:8].cast("Q")
        self.bytes = np.frombuffer(memory, np.uint8)[LINE:]


class Blocks:
    """The blocks of the messages from one rank to another; each is used again when its message was read."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.known: dict[int, Block] = {}

    def put(self, data: np.ndarray) -> Block | None:
        """Copy bytes into a block that is free; return None if too many are on their way."""
        on_their_way, size = sum(block.taken[0] for block in self.known.values()), _room(len(data))
        if on_their_way and on_their_way + len(data) > ON_THEIR_WAY:
            return None
        block = next((one for one in self.known.values() if len(one.bytes) == size and not one.taken[0]), None)
        block = block or self.at(self.segment.allocate(LINE + size), len(data))
        ordered()
        block.taken[0] = len(data)
        np.copyto(block.bytes[: len(data)], data)
        return block

    def at(self, start: int, size: int) -> Block:
        """Return the block of so many bytes that begins there."""
        if start not in self.known:
            self.known[start] = Block(self.segment, start, _room(size))
        return self.known[start]


def _room(size: int) -> int:
    """Return how many bytes a block for so many has: a power of two, so that few sizes serve all messages."""
    return 1 << (size - 1).bit_length()


class Message(Request):
    """A message that is sent or received; `left` has what of it is still to go through the ring."""

    def __init__(self, box: Mailbox, key: tuple[int, int], data: np.ndarray) -> None:
        self.box, self.key, self.data = box, key, data
        self.left: deque[np.ndarray] = deque()
        self.complete = False

    def done(self) -> bool:
        if not self.complete:
            self.box.progress()
        return self.complete

    def wait(self) -> None:
        self.box.wait(self.done)


class Received(Message):
    """A message that is waited for; `size` is that of the one that came."""

    size = -1
    source = 0

    def done(self) -> bool:
        if done := super().done():
            check_bytes(self.size, self.data, self.key[1], self.source)
        return done


class Mailbox:
    """All messages of this rank of `ranks` in a segment; `start` is where the rings are.

    `wait` is given what has to become true.
    """

    def __init__(self, segment: Segment, start: int, rank: int, ranks: int) -> None:
        self.wait: Callable[[Callable[[], bool]], None] = segment.wait
        segment.progress = self.progress
        memory = memoryview(segment.map(start, ranks * ranks * BOX))
        places = [[(one * ranks + other) * BOX for other in range(ranks)] for one in range(ranks)]
        self.out = [_Outgoing(Ring(memory[place : place + BOX]), Blocks(segment)) for place in places[rank]]
        incoming = [memory[row[rank] : row[rank] + BOX] for row in places]
        self.into = [_Incoming(Ring(ring), Blocks(segment), source) for source, ring in enumerate(incoming)]

    @staticmethod
    def size(ranks: int) -> int:
        """Return how many bytes the rings of so many ranks have."""
        return ranks * ranks * BOX

    def send(self, data: np.ndarray, to: int, key: tuple[int, int]) -> Message:
        """Begin to send numbers to a rank; `key` is the communicator and the tag."""
        message = Message(self, key, data)
        self.out[to].waiting.append(message)
        self.progress()
        return message

    def receive(self, data: np.ndarray, source: int, key: tuple[int, int]) -> Message:
        """Begin to receive numbers from a rank."""
        message = Received(self, key, data)
        message.source = source
        self.into[source].expect(message)
        self.progress()
        return message

    def progress(self) -> None:
        """Move all messages as far as possible."""
        for out in self.out:
            if out.waiting:
                out.progress()
        for into in self.into:
            into.progress()


class _Outgoing:
    def __init__(self, ring: Ring, blocks: Blocks) -> None:
        self.ring, self.blocks = ring, blocks
        self.waiting: deque[Message] = deque()

    def progress(self) -> None:
        while self.waiting:
            message = self.waiting[0]
            if not message.left and not self._begin(message):
                return
            while message.left:
                piece = message.left[0]
                count = self.ring.put(piece)
                if count < len(piece):
                    message.left[0] = piece[count:]
                    return
                message.left.popleft()
            message.complete = True
            self.waiting.popleft()

    def _begin(self, message: Message) -> bool:
        """Find out what of a message goes through the ring; return whether it may go now."""
        data, block = message.data.view(np.uint8), None
        if len(data) > LARGE and (block := self.blocks.put(data)) is None:
            return False
        message.left.append(np.array([*message.key, len(data), block.start if block else 0], np.uint64).view(np.uint8))
        if block is None:
            message.left.extend(piece for piece in (data, np.zeros(-len(data) % 8, np.uint8)) if len(piece))
        return True


class _Early:
    """A message that came, or is coming; `taker` is who waits for it."""

    def __init__(self, key: tuple[int, int], size: int, block: Block | None) -> None:
        self.key, self.size, self.block = key, size, block
        self.bytes = np.empty(-(-size // 8) * 8, np.uint8) if block is None else block.bytes[:size]
        self.filled = 0 if block is None else size
        self.taker: Received | None = None

    def give(self) -> None:
        """Hand it over, if all of it is there and someone waits for it."""
        if self.taker is not None and self.filled == len(self.bytes):
            taker = self.taker
            taker.size, taker.complete = self.size, True
            if self.size == taker.data.nbytes:
                taker.data.view(np.uint8)[...] = self.bytes[: self.size]
            if self.block is not None:
                ordered()
                self.block.taken[0] = 0


class _Incoming:
    def __init__(self, ring: Ring, blocks: Blocks, source: int) -> None:
        self.ring, self.blocks, self.source = ring, blocks, source
        self.expected: list[Received] = []
        self.early: list[_Early] = []
        self.head = np.zeros(HEAD * 8, np.uint8)
        self.filled = 0  # bytes of the head
        self.coming: _Early | None = None

    def expect(self, message: Received) -> None:
        found = next((one for one in self.early if one.key == message.key), None)
        if found is None and self.coming and self.coming.taker is None and self.coming.key == message.key:
            found = self.coming
        if found is None:
            self.expected.append(message)
            return
        found.taker = message
        if found in self.early:
            self.early.remove(found)
            found.give()

    def progress(self) -> None:
        while True:
            if self.coming is None:
                self.filled += self.ring.take(self.head[self.filled :])
                if self.filled < len(self.head):
                    return
                self.filled = 0
                communicator, tag, size, start = self.head.view(np.uint64).tolist()
                self.coming = _Early((communicator, tag), size, self.blocks.at(start, size) if start else None)
                for message in self.expected:
                    if message.key == self.coming.key:
                        self.coming.taker = message
                        self.expected.remove(message)
                        break
            coming = self.coming
            coming.filled += self.ring.take(coming.bytes[coming.filled :])
            if coming.filled < len(coming.bytes):
                return
            self.coming = None
            if coming.taker is None:
                self.early.append(coming)
            coming.give()
