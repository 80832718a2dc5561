"""Messages between two mailboxes in one process, step by step."""

from __future__ import annotations

import sys

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("Windows cannot hand memory on to other processes", allow_module_level=True)

from nacre_parallel.mailbox import LARGE, Mailbox
from nacre_parallel.segment import Segment, make_segment


@pytest.fixture
def boxes() -> list[Mailbox]:
    descriptor = make_segment()
    start = Segment(descriptor).allocate(Mailbox.size(2))
    return [Mailbox(Segment(descriptor), start, rank, 2) for rank in range(2)]


def test_the_memory_of_a_large_message_that_was_read_is_used_again(boxes: list[Mailbox]) -> None:
    out = np.zeros(LARGE + 1, np.uint8)
    for number in range(1, 6):
        boxes[0].send(np.full_like(out, number), 1, (0, 3))
        assert boxes[1].receive(out, 0, (0, 3)).done()
        assert (out == number).all()
    assert len(boxes[0].out[1].blocks.known) == 1


def test_who_waits_for_the_message_that_is_coming_gets_it_before_others(boxes: list[Mailbox]) -> None:
    """Four messages nearly fill the ring, so that the next one has only begun to come."""
    size = LARGE - 100
    sent = [boxes[0].send(np.full(size, number, np.uint8), 1, (0, number // 4)) for number in range(6)]
    boxes[1].progress()
    found = [np.zeros(size, np.uint8) for _ in range(2)]
    waited = [boxes[1].receive(one, 0, (0, 1)) for one in found]
    assert not any(one.complete for one in waited)
    boxes[0].progress()
    boxes[1].progress()
    assert all(one.done() for one in (*sent, *waited))
    assert [one[-1] for one in found] == [4, 5]
