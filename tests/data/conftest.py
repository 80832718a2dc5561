"""What several tests of data need."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Check that the threads that a test started end with it; those of the backend stay."""
    before = threading.enumerate()
    yield
    gc.collect()  # a net that nobody holds ends its threads
    for thread in threading.enumerate():
        if thread not in before and thread.name != "nacre-worker":
            thread.join(60)
            assert not thread.is_alive(), thread.name
