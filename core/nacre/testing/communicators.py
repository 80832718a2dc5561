"""CommunicatorTests: the suite of a communicator, whose ranks run as processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..errors import ContractError
from ..protocols.communicator import Communicator
from . import ranks
from .suite import Checks

LIMIT = 300.0  # seconds for all checks of a group: then they are taken to hang


@dataclass(frozen=True)
class Group:
    """So many ranks that are started together."""

    size: int

    @property
    def label(self) -> str:
        """The name of the group's cases."""
        return str(self.size)


class CommunicatorTests(Checks):
    """The suite of a communicator.

    `communicator` is its class; `launcher(size)` gives the words that start a program as so many ranks, such as
    `["mpiexec", "-n", "2"]`. All checks of a group run in one start of it, each rank of which imports the class.
    """

    SUBJECT = "communicator"
    OF_THE_FIRST = frozenset({"test_abort", "test_uncaught", "test_killed", "test_leaves"})
    communicator: ClassVar[type[Communicator]]
    sizes: ClassVar[Sequence[int]] = (2, 1, 3, 8)
    """The numbers of ranks to test with; those that end in a wrong way are the first of them."""
    _outcomes: ClassVar[dict[int, Mapping[str, str]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._outcomes = {}

    @classmethod
    def check_subject(cls) -> None:
        found: Any = cls.communicator
        if not (isinstance(found, type) and issubclass(found, Communicator)):
            raise ContractError(f"{cls.__name__}: communicator={found!r}, but it must be a subclass of Communicator")

    def launcher(self, size: int) -> Sequence[str]:
        """Return the words that stand before a program to start it as so many ranks; none for a single process."""
        if size > 1:
            raise ContractError(f"{type(self).__name__} does not define launcher(size)")
        return ()

    def examples(self) -> Iterable[Group]:
        return [Group(size) for size in self.sizes]

    def test_name(self) -> None:
        """The class has a name, and does not take a process for a rank that was not started as one."""
        assert self.communicator.name, "it has no name"
        assert self.communicator.ranks_here() in (0, 1), "ranks_here() takes this process for one of several ranks"

    def test_place(self, example: Group) -> None:
        """Each rank has a number of its own."""
        self._check("place", example)

    def test_allreduce(self, example: Group) -> None:
        """Every reduction of every type and size is right, with the same bits on all ranks and in the next call."""
        self._check("allreduce", example)

    def test_ordered(self, example: Group) -> None:
        """An ordered reduction has the bits of the sum in the order of the ranks."""
        self._check("ordered", example)

    def test_not_numbers(self, example: Group) -> None:
        """A minimum, a maximum and a sum with a NaN are NaN, wherever it comes from."""
        self._check("not_numbers", example)

    def test_reduce_scatter(self, example: Group) -> None:
        """Each rank gets its part of every reduction."""
        self._check("reduce_scatter", example)

    def test_allgather(self, example: Group) -> None:
        """Arrays of one size, and the parts of sizes that divide nothing, come together in the order of the ranks."""
        self._check("allgather", example)

    def test_bcast(self, example: Group) -> None:
        """Every rank can be the one whose array the others get."""
        self._check("bcast", example)

    def test_messages(self, example: Group) -> None:
        """Arrays of every type and size go round, also while all send at once, and may change when they have gone."""
        self._check("messages", example)

    def test_tags(self, example: Group) -> None:
        """Messages with one tag come in their order; those with other tags may be received before them."""
        self._check("tags", example)

    def test_not_kept(self, example: Group) -> None:
        """A message arrives whose request and array the sender has not kept."""
        self._check("not_kept", example)

    def test_to_all(self, example: Group) -> None:
        """Every rank sends to every other one, and to itself, while all of them meet."""
        self._check("to_all", example)

    def test_any_of_several(self, example: Group) -> None:
        """Whoever waits for any of several messages gets those that have come, while others are still to come."""
        self._check("any_of_several", example)

    def test_wrong_size(self, example: Group) -> None:
        """A message of another size than is expected is a RankError."""
        self._check("wrong_size", example)

    def test_split(self, example: Group) -> None:
        """Ranks of one colour have a communicator of their own, in the order of the keys; those of None have none."""
        self._check("split", example)

    def test_closing(self, example: Group) -> None:
        """Communicators of splits are made and closed again and again; what they share lives as long as it is used."""
        self._check("closing", example)

    def test_shared(self, example: Group) -> None:
        """What a rank writes into a shared array can be read by all others behind a barrier."""
        self._check("shared", example)

    def test_values(self, example: Group) -> None:
        """What JSON can hold comes together, of any length, and goes from one to all."""
        self._check("values", example)

    def test_refused(self, example: Group) -> None:
        """Arrays that cannot be sent, unknown reductions and ranks are a ContractError, before anything is sent."""
        self._check("refused", example)

    def test_abort(self, example: Group) -> None:
        """A rank that aborts ends all of them, and its number and message are told."""
        told = self._fail("abort", example)
        assert ranks.TOLD in told and f"rank {example.size - 1}" in told, f"it is told otherwise: {told}"

    def test_uncaught(self, example: Group) -> None:
        """An error that a rank does not handle ends all of them, and is told."""
        told = self._fail("uncaught", example)
        assert ranks.TOLD in told, f"it is told otherwise: {told}"

    def test_killed(self, example: Group) -> None:
        """All ranks end when one is killed."""
        self._fail("killed", example)

    def test_leaves(self, example: Group) -> None:
        """All ranks end when one ends before it has closed its communicator."""
        self._fail("leaves", example)

    # How it is checked

    def _check(self, name: str, group: Group) -> None:
        if group.size not in self._outcomes:
            self._outcomes[group.size] = self._run(group)
        outcome = self._outcomes[group.size].get(name, "it was not run, because of what was checked before it")
        assert not outcome, outcome

    def _run(self, group: Group) -> dict[str, str]:
        """Run all checks; return what is wrong, or "", for each that was begun."""
        with tempfile.TemporaryDirectory() as folder:
            done = self._start(group, folder)
            found: dict[str, str] = {}
            for file in sorted(Path(folder).glob("rank*.json")):
                for name, outcome in json.loads(file.read_text()).items():
                    if (outcome and "Traceback" in outcome) or name not in found:
                        found[name] = outcome
        told = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        if not found:
            raise AssertionError(f"no rank has begun: {told}")
        for name, outcome in found.items():
            if outcome:
                found[name] = f"{outcome}\n{told}"
        if done.returncode and not any(found.values()):
            raise AssertionError(f"every check is right, but then: {told}")
        return found

    def _fail(self, way: str, group: Group) -> str:
        with tempfile.TemporaryDirectory() as folder:
            done = self._start(group, folder, way)
        assert done.returncode, f"the exit code is 0, although a rank failed: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _start(self, group: Group, *arguments: str) -> subprocess.CompletedProcess[str]:
        cls = self.communicator
        words = [sys.executable, "-m", ranks.__name__, f"{cls.__module__}:{cls.__qualname__}", *arguments]
        command = [*self.launcher(group.size), *words]
        try:
            return subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired as error:
            message = f"{' '.join(command)} has not ended after {LIMIT:g} s: {error.stdout!r} {error.stderr!r}"
            raise AssertionError(message) from error
