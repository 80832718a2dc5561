"""What lies outside of a state: snapshots, open files and threads, global random numbers, memory in use."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import random
import sys
import threading
import tracemalloc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

LATE = 10.0
"""Seconds that threads and processes may take to end after `shutdown`."""
DESCRIPTORS = Path("/dev/fd")


def saved(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as it comes back from a snapshot's file.

    Raises:
        AssertionError: it holds what no file can hold.
    """
    found: dict[str, Any] = {}
    for key, value in memory.items():
        if isinstance(value, bool | int | float | str):
            finite = not isinstance(value, float) or isfinite(value)
            assert finite, f"memory['{key}'] is {value}, but numbers must be finite"
            found[key] = json.loads(json.dumps(value))
        else:
            array = np.array(value)
            assert array.dtype.kind in "biuf", (
                f"memory['{key}'] is of type {type(value).__name__}, but a snapshot holds arrays, numbers and texts"
            )
            found[key] = array
    return found


def check_unchanged(memory: Mapping[str, Any], before: Mapping[str, Any], what: str) -> None:
    """Raise AssertionError if what `memory` returned has changed since: then it is no copy."""
    now = saved(memory)
    for key, value in before.items():
        assert np.array_equal(np.asarray(now.get(key)), np.asarray(value)), (
            f"memory['{key}'] is changed by {what}: return a copy"
        )
    assert set(now) == set(before), f"the memory has other keys after {what}: return a copy"


def refusal(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> str:
    """Return the message of an error of this kind that a call raises; "" if it raises none."""
    try:
        call()
    except kind as error:
        return str(error.args[0]) if error.args else type(error).__name__
    return ""


@contextmanager
def global_state(seed: int) -> Generator[None]:
    """Seed `random` and `numpy.random` in the block.

    Raises:
        AssertionError: the block has drawn from one of them, or changed a setting of NumPy.
    """
    ours, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002 (those that nobody may use)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        before = _drawn()
        with np.errstate(all="warn", under="ignore"), np.printoptions(precision=7):
            settings, printing = np.geterr(), np.get_printoptions()
            yield
            for name, old, new in (
                ("np.seterr", settings, np.geterr()),
                ("np.set_printoptions", printing, np.get_printoptions()),
            ):
                assert new == old, f"NumPy behaves otherwise in the whole process, after {name}: use `with np.errstate`"
        assert _drawn() == before, "the state of the global random numbers has changed: draw from nacre.random.Random"
    finally:
        random.setstate(ours)
        np.random.set_state(numpys)  # noqa: NPY002


def _drawn() -> tuple[Any, ...]:
    numpys: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return random.getstate(), numpys["state"]["pos"], numpys["state"]["key"].tobytes()


@dataclass
class Things:
    """What this process holds of the system: the number of open files, threads and processes."""

    files: int
    threads: Sequence[threading.Thread]
    processes: Sequence[Any]

    @classmethod
    def open(cls) -> Things:
        """Return what is open now; files are not counted where the system does not list them."""
        files = len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.is_dir() else 0
        return cls(files, threading.enumerate(), multiprocessing.active_children())

    def besides(self, before: Things, *, files: bool = True) -> str:
        """Return what is open that was not before, once threads and processes had time to end; "" for nothing."""
        for one in (*self.threads, *self.processes):
            if one not in before.threads and one not in before.processes:
                one.join(LATE)
        now = Things.open()
        if files and now.files > before.files:
            return f"{now.files - before.files} more files are open than before"
        for what, ones, earlier in (
            ("thread", now.threads, before.threads),
            ("process", now.processes, before.processes),
        ):
            if more := [str(one) for one in ones if one not in earlier]:
                return f"a {what} is still there: {more[0]}"
        return ""


def growth(work: Callable[[], object], allowed: int) -> int:
    """Return how many bytes more are in use after some work than before it: of seven rounds the first that is allowed.

    Threads and libraries grow now and then; what is kept of each batch grows in every round.
    """
    tracemalloc.start()
    try:
        before, more = 0, 0
        for number in range(8):
            work()
            gc.collect()
            now = tracemalloc.get_traced_memory()[0]
            before, more = now, now - before
            if number and more <= allowed:
                break
    finally:
        tracemalloc.stop()
    return more


def _held_by_python() -> list[object]:
    """Return as many floats, lists, dicts and short tuples as Python may hold for the next ones."""
    small = [[[number + 0.5], {number: number}] for number in range(100)]
    return [small, [((number,), (number, number), (number, number, number)) for number in range(2000)]]


def keeps_objects(work: Callable[[], object], allowed: int) -> bool:
    """Return whether more than so many of Python's blocks of memory are kept in each round of some work.

    This is a quick look, without tracing, and only new garbage is collected, but in the last round; `growth` measures.
    Python itself holds some numbers and lists, and up to 2,000 tuples of each length, for the next ones: only when all
    garbage is collected does it give them back. Those that it holds before are in use meanwhile, so that what is kept
    is new.
    """
    enabled = gc.isenabled()
    gc.disable()  # else old garbage would go in the midst of a round
    try:
        for generation in (0, 1, 1, 2):
            gc.collect(generation)  # it may have been garbage
            in_use = _held_by_python()
            before = sys.getallocatedblocks()
            work()
            gc.collect(generation)
            more = sys.getallocatedblocks() - before
            del in_use
            if more <= allowed:
                return False
    finally:
        if enabled:
            gc.enable()
    return True
