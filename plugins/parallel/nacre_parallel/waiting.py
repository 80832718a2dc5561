"""Waiting for other ranks: a short while at full speed, then so that others may have the processor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

SPIN = 50e-6  # seconds
PATIENT = 1e-3  # seconds after which a waiting rank sleeps between two looks
NAP = 1e-4  # seconds
SHARE = 100  # a rank that has waited long sleeps for this part of it
LONGEST = 1e-2  # seconds of a nap


def wait_until(ready: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Return when `ready` is true; `meanwhile` is called now and then."""
    if ready():
        return
    begin = time.perf_counter()
    while time.perf_counter() - begin < SPIN:
        if ready():
            return
    while not ready():
        meanwhile()
        if time.perf_counter() - begin < PATIENT:
            os.sched_yield()
        else:
            time.sleep(min(max(NAP, (time.perf_counter() - begin) / SHARE), LONGEST))
