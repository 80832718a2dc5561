"""Partners: workers and servers in one training, and what they tell each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nacre import FrameworkState, RankError, Request, Step, Training

from .batches import adding_up, communicator_of, rows_of
from .flat import buffers_of, gradients_of, histories_of, values_of
from .replicas import added, mean_with_neighbours

if TYPE_CHECKING:
    from .servers import Served

PUSH, GRADIENT, VERSION, VALUES = range(1, 5)
"""Tags: what a push is about, its gradients; the version that it has made, and the values of the parameters."""
MEETING = -1
"""What a push has instead of its iteration when all ranks come together."""


def dealt(things: Sequence[Any], count: int, size: Callable[[Any], int]) -> list[list[Any]]:
    """Deal out parameters of some sizes to so many servers: the largest first, each to the one that has least."""
    slices: list[list[int]] = [[] for _ in range(count)]
    sizes = [0] * count
    for number in sorted(range(len(things)), key=lambda number: -size(things[number])):
        least = sizes.index(min(sizes))
        slices[least].append(number)
        sizes[least] += size(things[number])
    return [[things[number] for number in sorted(one)] for one in slices]


class PartnerState(FrameworkState):
    """A worker or a server in one training, with the partners of its group of servers.

    `communicator` connects these partners, and `settings` are theirs; `everybody` connects all ranks. `peers` connects
    a server with those of other groups that update the same parameters, if there are any. `staleness` counts a server's
    updates by how many others a gradient did not know.
    """

    def __init__(self, framework: Served, training: Training) -> None:
        super().__init__(framework, training)
        self.everybody = everybody = communicator_of(framework, training)
        several = framework.server_groups > 1
        number, place = framework.place_of(everybody.rank, everybody.size)
        communicator = everybody.split(number) if several else everybody
        assert communicator is not None
        self.communicator = communicator
        self.settings = framework.of_one_server_group()
        self.servers = self.settings.server_ranks(communicator.size)
        self.peers = everybody.split(place if place in self.servers else None) if several else None
        self.updater = framework.server_groups_of(everybody.size)[0][self.servers.start]
        self.apart, self.sync_freq, self.neighbours = framework.decide_every, framework.sync_freq, framework.neighbours
        self.workers, self.n_groups = framework.workers(everybody.size), framework.worker_groups
        self.size = self.settings.workers(communicator.size) // self.settings.worker_groups
        self.rate_share = framework.rate_share(self.settings.worker_groups)
        net = training.net
        self.slices = dealt(training.slots, framework.servers, lambda slot: slot.storage.size)
        self.values = [values_of(net, slots) for slots in self.slices]
        self.buffers = buffers_of(net)
        self.version, self.versions = 0, [0] * framework.servers
        self.passes = 0
        self.staleness = Counter[str]()
        self.all_staleness: list[Counter[str]] = []

    @property
    def epoch(self) -> int:
        return self.passes

    def begin(self) -> None:
        self.passes = self.everybody.share(self.training.net.epoch)
        self._agree()

    def meet(self) -> None:
        self.close_messages()
        if self.peers is not None:
            for one in (self.values[self.servers.index(self.communicator.rank)], histories_of(self.training)):
                one.average(self.peers, ordered=True)
        for server, values in zip(self.servers, self.values, strict=True):
            if self.communicator.rank == server:
                values.take()
            self.communicator.bcast(values.numbers, server)
            values.put()
        rows, total = rows_of(self.training, self.workers)
        ordered = self.training.net.deterministic
        self.buffers.average(self.everybody, ordered=ordered, weight=rows * self.trains, total=total)
        self._agree()

    def close_messages(self) -> None:
        """Let no message be waited for while all ranks are together."""
        raise NotImplementedError

    def _agree(self) -> None:
        """Let all know the versions of the servers' parameters, which all have now."""
        versions = self.communicator.gather(self.version)
        self.versions = [versions[server] for server in self.servers]
        first = self.communicator.rank == self.servers.start  # what it has counted is what the others have, or nearly
        self.all_staleness = self.everybody.gather(self.staleness if first else {})

    def close(self) -> None:
        if self.peers is not None:
            self.peers.close()
        if self.communicator is not self.everybody:
            self.communicator.close()

    def told(self) -> dict[str, Any]:
        return {"staleness": added(self.all_staleness)} if self.n_groups > 1 else {}


class WorkerState(PartnerState):
    """A worker: it trains batches with its group, and each of the group talks to some of the servers."""

    def __init__(self, framework: Served, training: Training) -> None:
        super().__init__(framework, training)
        assert training.net.group is not None and training.net.group.communicator is not None
        self.together = training.net.group.communicator
        self.group = self.communicator.rank // self.size
        places = range(self.together.rank, framework.servers, self.size)
        self.mine = [one for one in places if self.servers[one] != self.communicator.rank]
        self.gradients = {one: gradients_of(training.net, self.slices[one]) for one in self.mine}

    @property
    def epoch(self) -> int:
        return self.training.net.epoch

    def iteration_steps(self, clip: Iterable[Step], update: Iterable[Step]) -> list[Step]:
        return [adding_up(self.training), *clip, Step("push", "gradients", self.push)]

    def updated(self, slots: Sequence[Any]) -> Sequence[Any]:
        return []

    def push(self) -> None:
        """Send the gradients to the servers, and wait for the values that they have made of them."""
        iteration = self.training.iteration
        counts = self.group == 0 or iteration >= self.settings.warmup_steps
        versions = {one: np.zeros(1, np.int64) for one in self.mine}
        requests: list[Request] = []
        for one in self.mine:
            server = self.servers[one]
            requests.append(self.communicator.irecv(versions[one], server, VERSION))
            requests.append(self.communicator.irecv(self.values[one].numbers, server, VALUES))
        for one in self.mine:
            requests.append(self._send(one, iteration, int(counts)))
            if counts:
                self.gradients[one].take()
                requests.append(self.communicator.isend(self.gradients[one].numbers, self.servers[one], GRADIENT))
        for request in requests:
            request.wait()
        for one, version in versions.items():
            self.versions[one] = int(version[0])
        self.spread()

    def spread(self) -> None:
        """Give all of the group the values that some of it have, and take them."""
        for one, values in enumerate(self.values):
            if self.size > 1:
                self.together.bcast(values.numbers, one % self.size)
            values.put()

    def _send(self, server: int, iteration: int, counts: int = 0) -> Request:
        told = np.array([iteration, self.epoch, self.versions[server], counts], np.int64)
        return self.communicator.isend(told, self.servers[server], PUSH)

    def close_messages(self) -> None:
        for one in self.mine:
            self._send(one, MEETING).wait()


class ServerState(PartnerState):
    """A server: in an iteration it serves the groups until each of them has done it."""

    trains = False

    def __init__(self, framework: Served, training: Training) -> None:
        super().__init__(framework, training)
        self.server = self.servers.index(self.communicator.rank)
        self.own = self.values[self.server]
        self.received = gradients_of(training.net, self.slices[self.server])
        self.clocks = [0] * self.settings.worker_groups
        """How many iterations each group has done."""
        self.waiting: list[int] = []
        """The groups that wait for an answer."""
        self.met: set[int] = set()
        """The groups that have come to a meeting, for which others are still to come."""
        self.pushes: dict[int, tuple[np.ndarray[Any, Any], Request]] = {}
        self.passes_after: dict[int, int] = {}

    def updated(self, slots: Sequence[Any]) -> Sequence[Any]:
        return self.slices[self.server]

    def iteration_steps(self, clip: Iterable[Step], update: Iterable[Step]) -> list[Step]:
        return [Step("serve", "workers", self.serve)]

    def begin(self) -> None:
        super().begin()
        self.clocks = [self.training.iteration] * len(self.clocks)

    def serve(self) -> None:
        """Serve until all groups have done the iteration; some may be ahead then."""
        iteration = self.training.iteration
        while min(self.clocks) <= iteration:
            self.serve_next()
        self.passes = self.passes_after.pop(iteration)

    def worker(self, group: int) -> int:
        """Return the worker of a group that talks to this server."""
        return group * self.size + self.server % self.size

    def listen(self) -> None:
        """Expect what each group tells next."""
        for group in range(len(self.clocks)):
            worker = self.worker(group)
            if group not in self.pushes and group not in self.met and worker != self.communicator.rank:
                told = np.zeros(4, np.int64)
                self.pushes[group] = told, self.communicator.irecv(told, worker, PUSH)

    def serve_next(self) -> None:
        """Wait for what any group tells, and do what it asks for."""
        self.listen()
        groups = list(self.pushes)
        group = groups[self.communicator.wait_any([self.pushes[one][1] for one in groups])]
        told, push = self.pushes.pop(group)
        push.wait()
        if told[0] == MEETING:
            self.met.add(group)
        else:
            self._take(group, *told.tolist())

    def _take(self, group: int, iteration: int, passes: int, version: int, counts: int) -> None:
        if iteration != self.clocks[group]:
            raise RankError(f"group {group} pushes iteration {iteration}, but it has done {self.clocks[group]}")
        if counts:
            self.communicator.recv(self.received.numbers, self.worker(group), GRADIENT)
            self.received.put()
            self.use(iteration, version)
        self.passes_after[iteration] = passes
        self.done(group)

    def use(self, iteration: int, version: int) -> None:
        """Update the parameters by gradients that are in place, and are for those of a version."""
        self.training.update(iteration)
        self.staleness[str(self.version - version)] += 1
        self.version += 1

    def done(self, group: int) -> None:
        """Let a group have done its iteration.

        Send the values to the groups that may go on: those that are not too far ahead of the slowest one.
        """
        before = min(self.clocks)
        self.clocks[group] += 1
        self.waiting.append(group)
        slowest, warmup = min(self.clocks), self.settings.warmup_steps
        if slowest > before:
            self.all_have_done(slowest)
        ahead = {group: self.settings.staleness if self.clocks[group] > warmup else 0 for group in self.waiting}
        ready = [group for group in self.waiting if self.clocks[group] - slowest <= ahead[group]]
        self.waiting = [group for group in self.waiting if group not in ready]
        if ready:
            self.own.take()
        for worker in map(self.worker, ready):
            if worker != self.communicator.rank:
                self.communicator.send(np.array([self.version], np.int64), worker, VERSION)
                self.communicator.send(self.own.numbers, worker, VALUES)

    def all_have_done(self, iterations: int) -> None:
        """Called when the slowest group has done so many iterations, before any is answered."""
        self.take_means(iterations)

    def take_means(self, iterations: int) -> None:
        """Take the means with the neighbours among the groups of servers, if they are due after so many iterations."""
        if self.peers is not None and iterations % self.sync_freq == 0:
            self.own.take()
            self.own.numbers[...] = mean_with_neighbours(self.peers, self.own.numbers, self.neighbours)
            self.own.put()

    def close_messages(self) -> None:
        expected = {group for group in range(len(self.clocks)) if self.worker(group) != self.communicator.rank}
        while self.met < expected:
            self.serve_next()
        self.met.clear()


class WorkingServerState(ServerState, WorkerState):
    """A worker of the first group that is a server, too: it serves the groups between its own iterations.

    Its exchange ends when its own group may go on, and nothing more has come. Nobody waits for ever:

    1. In the rest of an iteration a rank waits for its own group alone, so every rank comes to its exchange.
    2. Other groups wait there for servers, which come to theirs by 1, and answer whom the staleness lets go on.
    3. Whether it lets a group go on is decided by how many iterations the groups have pushed. What one server was told,
       the others will be: a group pushes to all its servers before it waits for any. So if one server lets the first
       group go on, all do, and those that wait for them in `spread`, and serve nobody, do not wait for ever.
    4. If the staleness holds the first group, its servers serve until a slower group has pushed, which it does by 2.
    5. All ranks wait for each other only in a meeting, before which the servers serve until all groups have come, and
       in a common decision, before which they serve until all groups have done the iteration.

    6. Means with other groups of servers are taken behind all that, in the same iterations of all first groups. The one
       that is behind comes there by 1 to 4, and needs none that waits there for it.

    A rank that fails ends all that wait, wherever that is.
    """

    trains = True
    updates_by_call = True

    def iteration_steps(self, clip: Iterable[Step], update: Iterable[Step]) -> list[Step]:
        return WorkerState.iteration_steps(self, clip, update)

    def push(self) -> None:
        """Update by the gradients of the own group, and serve the others."""
        iteration = self.training.iteration
        self.use(iteration, self.versions[self.server])
        self.done(0)
        all_decide = (iteration + 1) % self.apart == 0
        while 0 in self.waiting or (all_decide and min(self.clocks) <= iteration) or self._has_come():
            self.serve_next()
        self.take_means(iteration + 1)
        self.passes_after.clear()
        self.own.take()
        self.versions[self.server] = self.version
        self.spread()

    def all_have_done(self, iterations: int) -> None:
        """Leave the means to `push`: here servers would wait for others that wait for one of their own group."""

    def _has_come(self) -> bool:
        """Return whether a group has told something."""
        self.listen()
        return any(push.done() for _, push in self.pushes.values())
