"""Who works with a net: one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar

from ..errors import NacreError

P = ParamSpec("P")
R = TypeVar("R")


class Turns:
    """One thread at a time in a net, and in the nets derived from it; that thread may come in again, as callbacks do.

    There are three ways in:

    * `alone`, for a call that belongs to others before and after it, such as write, forward and backward: an error
      where another thread is inside, for waiting would not keep the calls of one thread together.
    * `whole`, for what is complete in itself, such as `predict`: it waits, and whoever waits comes next.
    * `training`, for what is complete in itself but meant for one thread, such as a training's step: it waits for those
      who came in by `whole`; any other is an error.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entrance, self._room = threading.Lock(), threading.Lock()
        self._inside, self._depth = 0, 0
        self._soon_over = True  # whether nobody is inside but by `whole`
        self.alone, self.whole, self.training = _Way(self), _Way(self, waits=True), _Way(self, waits_for_whole=True)

    def enter(self, way: _Way) -> None:
        """Come in.

        Raises:
            NacreError: another thread is inside.
        """
        thread = threading.get_ident()
        if self._inside != thread:
            self._pass_the_entrance(wait=way.waits or (way.waits_for_whole and self._soon_over))
            self._inside, self._soon_over = thread, way.waits
        self._depth += 1

    def _pass_the_entrance(self, *, wait: bool) -> None:
        """Lock the room, and the entrance as long as that takes: who has left goes behind those who wait."""
        if self._entrance.acquire(blocking=wait):
            try:
                if self._room.acquire(blocking=wait):
                    return
            finally:
                self._entrance.release()
        raise NacreError(
            f"another thread is at work with net '{self._name}', or with one derived from it",
            "let one thread alone work with it: net.predict, which takes turns, may be called from any thread; or make "
            "a net for each thread: Net(..., share=net)",
        )

    def leave(self) -> None:
        """Go out."""
        self._depth -= 1
        if self._depth == 0:
            self._inside, self._soon_over = 0, True
            self._room.release()


class _Way:
    """A way in, which `with` takes."""

    def __init__(self, turns: Turns, *, waits: bool = False, waits_for_whole: bool = False) -> None:
        self.turns, self.waits, self.waits_for_whole = turns, waits, waits_for_whole

    def __enter__(self) -> None:
        self.turns.enter(self)

    def __exit__(self, *_: object) -> None:
        self.turns.leave()


class HasTurns(Protocol):
    """A net, or who works with one."""

    turns: Turns


Has = TypeVar("Has", bound=HasTurns)


def in_turn(
    way: Literal["alone", "whole", "training"],
) -> Callable[[Callable[Concatenate[Has, P], R]], Callable[Concatenate[Has, P], R]]:
    """Let a method go into its object's net in one of the ways, and out at its end."""

    def decorate(method: Callable[Concatenate[Has, P], R]) -> Callable[Concatenate[Has, P], R]:
        @wraps(method)
        def call(self: Has, *args: P.args, **kwargs: P.kwargs) -> R:
            with getattr(self.turns, way):
                return method(self, *args, **kwargs)

        return call

    return decorate
