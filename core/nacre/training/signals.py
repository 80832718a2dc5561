"""Signals (SIGINT, SIGTERM, SIGHUP) that end a training after the current iteration."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def on_signals(interrupt: Callable[[str], None]) -> Generator[None]:
    """Call `interrupt` with the name of the first SIGINT, SIGTERM or SIGHUP; a later SIGINT raises KeyboardInterrupt.

    Others that come again do nothing. SIGHUP comes when the terminal is closed, often twice, from the system and from
    the shell; SIGTERM comes to a rank from its launcher, and also from a system that ends all processes of a service. A
    SIGHUP that is ignored (nohup) stays ignored.
    """
    interrupted = False

    def stop(number: int, _: object) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            interrupt(signal.Signals(number).name)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    hang_up: int | None = getattr(signal, "SIGHUP", None)  # Windows has none
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        numbers.append(signal.Signals(hang_up))
    before: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
            for number in numbers:
                before[number] = signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            # None: a handler that was not set from Python, and cannot be set again by it
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
