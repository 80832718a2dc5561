"""Threads: how many a backend may use, locks between them, and waits for another one, which a signal may end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

from .errors import NacreError

MOST = 8
"""Most threads per processor of the machine: with more, one step takes minutes."""


def number_of_threads() -> int:
    """Return NACRE_NUM_THREADS, else OMP_NUM_THREADS, else the number of processors that this process may use.

    The processors are limited by affinity and cgroup.

    Raises:
        NacreError: NACRE_NUM_THREADS is not a whole number from 1 to 8 per processor. OMP_NUM_THREADS is not checked,
            because other libraries read it too: a larger number is reduced to this limit.
    """
    most = MOST * (os.cpu_count() or 1)
    for name in ("NACRE_NUM_THREADS", "OMP_NUM_THREADS"):
        first = os.environ.get(name, "").split(",")[0].strip()  # OpenMP allows a list, one number for each level
        count = int(first[:9]) if first.isdecimal() else 0  # nine digits are enough to see that it is too large
        if 0 < count <= most or (count and name == "OMP_NUM_THREADS"):
            return min(count, most)
        if first and name == "NACRE_NUM_THREADS":
            message = f"NACRE_NUM_THREADS={os.environ[name]:.40}, but it must be a whole number from 1 to {most}"
            raise NacreError(f"{message} ({MOST} for each processor)", "set it to a number such as 4, or unset it")
    affinity = getattr(os, "sched_getaffinity", None)
    processors = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(processors, _cgroup_limit() or processors))


def _cgroup_limit() -> int | None:
    """Return how many whole processors the container's quota allows, or None without a quota."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()  # version 2
    except (OSError, ValueError):
        try:
            quota = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()  # version 1
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return max(1, int(quota) // int(period)) if quota.isdecimal() and int(period) > 0 else None


# Locks


def after_fork(call: Callable[[], object]) -> None:
    """Call a function in every process that is forked from this one, before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=call)


_locks: WeakSet[Any] = WeakSet()


def process_lock() -> threading.RLock:
    """Return a lock between the threads of this process, which the one that has it may take again.

    Of the threads of a process only the one that forks it goes on in the child, with the locks that it has; those that
    other threads have are free there, where a lock of `threading` would be held for ever. So what such a lock guards
    must be whole, or be made anew, wherever a thread may be cut off.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_locks() -> None:
    for lock in list(_locks):
        if lock.acquire(blocking=False):  # nobody's, or this thread's
            lock.release()
        else:
            lock._at_fork_reinit()  # as Python's own modules do with theirs


after_fork(_free_locks)


# Waits


class WaitInterrupted(KeyboardInterrupt):
    """A signal that is to end the work came during a wait for another thread."""


class _Waits(threading.local):  # signals are the main thread's, and only its own waits concern it
    waits = False

    @staticmethod
    def to_end() -> bool:
        return False


_waits = _Waits()


@contextmanager
def interruptible() -> Generator[None]:
    """Wait for another thread in the block, which `WaitInterrupted` may end at any place."""
    _waits.waits = True
    try:
        end_wait()
        yield
    finally:
        _waits.waits = False


class EndingWaits:
    """Lets waits in the block end as soon as `to_end` returns true; whoever changes that calls `end_wait`.

    It may be entered again and again: a training does so for every batch.
    """

    def __init__(self, to_end: Callable[[], bool]) -> None:
        self.to_end = to_end

    def __enter__(self) -> None:
        _waits.to_end = self.to_end

    def __exit__(self, *_: object) -> None:
        del _waits.to_end


def end_wait() -> None:
    """Raise WaitInterrupted if this thread is in a wait that is to end; for a signal's handler."""
    if _waits.waits and _waits.to_end():
        raise WaitInterrupted
