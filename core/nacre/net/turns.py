"""Only one thread at a time may use a net."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock, get_ident
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from ..arguments import refuse_call
from ..discovery.blame import blamed
from ..errors import NacreError
from ..threads import after_fork

P = ParamSpec("P")
R = TypeVar("R")


class Turns:
    """Lets one thread at a time use a net and the nets derived from it; this thread may enter again, as callbacks do.

    There are three ways to enter:

    * `alone`, for a call that belongs together with others, such as write, forward and backward: an error if another
      thread is inside, because waiting would not keep the calls of one thread together.
    * `whole`, for a call that is complete in itself, such as `predict`: it waits for its turn, in order of arrival.
    * `training`, for a call that is complete in itself but meant for one thread, such as a training's step: it waits
      while the thread inside entered by `whole`; otherwise it is an error.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entrance, self.room = Lock(), Lock()
        self.inside, self.depth = 0, 0
        self.soon_over = True  # whether no thread is inside, or one that entered by `whole`
        self.alone, self.whole, self.training = _Way(self), _Way(self, waits=True), _Way(self, waits_for_whole=True)
        _every.add(self)

    def forget_others(self) -> None:
        """Let in who comes, in a forked child: it does not have the other threads that were inside or waited."""
        self._entrance = Lock()
        if self.inside != get_ident():
            self.room, self.inside, self.depth, self.soon_over = Lock(), 0, 0, True

    def pass_the_entrance(self, wait: bool) -> None:
        """Lock the room; who waits for it stands at the entrance, behind which one that has just left queues, too.

        Raises:
            NacreError: another thread is inside, or at the entrance.
        """
        if wait:
            with self._entrance:
                self.room.acquire()
        elif self._entrance.locked() or not self.room.acquire(False):
            raise NacreError(
                f"another thread is using net '{self._name}', or a net derived from it",
                "use it from one thread only (any thread may call net.predict, which waits for its turn), or make a "
                "net for each thread: Net(..., share=net)",
            )


_every: WeakSet[Turns] = WeakSet()


def _forget_others() -> None:
    for turns in list(_every):
        turns.forget_others()


after_fork(_forget_others)


class _Way:
    """One way to enter a net, for `with`."""

    def __init__(self, turns: Turns, *, waits: bool = False, waits_for_whole: bool = False) -> None:
        self.turns, self.waits, self.waits_for_whole = turns, waits, waits_for_whole

    def __enter__(self) -> None:
        thread, turns = get_ident(), self.turns
        if turns.inside != thread:
            turns.pass_the_entrance(self.waits or (self.waits_for_whole and turns.soon_over))
            turns.inside, turns.soon_over = thread, self.waits
        turns.depth += 1

    def __exit__(self, *_: object) -> None:
        turns = self.turns
        turns.depth -= 1
        if turns.depth == 0:
            turns.inside, turns.soon_over = 0, True
            turns.room.release()


class HasTurns(Protocol):
    """A net, or an object that uses one."""

    turns: Turns


Has = TypeVar("Has", bound=HasTurns)


def in_turn(
    way: Literal["alone", "whole", "training"], how_to_call: str = ""
) -> Callable[[Callable[Concatenate[Has, P], R]], Callable[Concatenate[Has, P], R]]:
    """Return a decorator for methods: they enter their object's net in one of the ways, and leave it at the end.

    Whoever calls them with wrong arguments is told how to call them: by default, their names and parameters.
    """

    def decorate(method: Callable[Concatenate[Has, P], R]) -> Callable[Concatenate[Has, P], R]:
        @wraps(method)
        def call(self: Has, *args: P.args, **kwargs: P.kwargs) -> R:
            with getattr(self.turns, way):
                try:
                    return method(self, *args, **kwargs)
                except BaseException as error:
                    if isinstance(error, TypeError):
                        refuse_call(method, (self, *args), kwargs, how_to_call, owner=type(self).__name__.lower())
                    if (found := blamed(error)) is not None:
                        raise found from error
                    raise

        return call

    return decorate
