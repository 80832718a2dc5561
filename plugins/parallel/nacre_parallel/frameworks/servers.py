"""Servers: ranks that hold and update the parameters, and workers that compute gradients for them.

What Sandblaster and Downpour have in common, after SINGA's server groups (Ooi and others, "SINGA: a distributed deep
learning platform", 2015) and the parameter servers of Dean and others, "Large scale distributed deep networks", 2012.
The parameters are dealt out whole, so that regularisers and constraints see them so. In each iteration a group of
workers adds up its gradients, clips them, and pushes each server's slice; the server updates at once, by the solver's
method, and answers with the new values as soon as the group may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from nacre import (
    Communicator,
    ConfigError,
    FrameworkState,
    Group,
    RankError,
    Request,
    Role,
    Step,
    Training,
    positive,
)

from .batches import SharedBatches, adding_up, communicator_of, named, need_group
from .flat import buffers_of, gradients_of, values_of

PUSH, GRADIENT, VERSION, VALUES = range(1, 5)
"""Tags: what a push is about, its gradients; the version that it has made, and the values of the parameters."""
MEETING = -1
"""What a push has instead of its iteration when all ranks come together."""


class Served(SharedBatches):
    """A framework in which the last ranks are servers, and the others workers in groups of one size."""

    servers: Annotated[int, positive, "how many ranks, the last ones, update the parameters; each has some of them"] = 1

    @property
    def n_groups(self) -> int:
        """The number of groups of workers."""
        return 1

    @property
    def n_warmup(self) -> int:
        """In how many iterations at the beginning only the first group trains."""
        return 0

    @property
    def ahead(self) -> int:
        """How many iterations a group may be ahead of the slowest one."""
        return 0

    @property
    def decides(self) -> int:
        """After how many iterations, at most, all ranks wait for each other."""
        return 1

    def workers(self, ranks: int) -> int:
        workers, groups = ranks - self.servers, self.n_groups
        if workers < groups or workers % groups:
            name, several = type(self).__name__, f" in {groups} groups of one size" if groups > 1 else ""
            raise ConfigError(
                f"{name}: of {ranks} ranks {self.servers} are servers, so there are {max(workers, 0)} workers, but "
                f"there must be 1 or more{several}",
                f"start {self.servers + groups} ranks, or {self.servers + 2 * groups}, and so on",
            )
        return workers

    def group(self, communicator: Communicator) -> Group:
        workers = self.workers(communicator.size)
        size, rank = workers // self.n_groups, communicator.rank
        together = communicator.split(rank // size if rank < workers else None)
        return Group(together, rank if rank < workers else 0, workers)

    def roles(self, parameters: Mapping[str, int], ranks: int) -> list[Role]:
        workers = self.workers(ranks)
        size = workers // self.n_groups
        slices = dealt([*parameters], self.servers, parameters.__getitem__)
        counts = [sum(parameters[name] for name in names) for names in slices]
        found: list[Role] = []
        for rank in range(workers):
            number, place = divmod(rank, size)
            together = range(number * size, (number + 1) * size)
            others = [one for one in together if one != rank]
            sends = {f"gradients, which {named(together)} add up": sum(counts)} if others else {}
            for server, count in enumerate(counts):
                if server % size == place:
                    sends[f"gradients to rank {workers + server}"] = count
                    if others:
                        sends[f"values of rank {workers + server} to {named(others)}"] = count
            found.append(Role("worker" if self.n_groups == 1 else f"worker of group {number}", (), sends))
        for server, (names, count) in enumerate(zip(slices, counts, strict=True)):
            talking = [group * size + server % size for group in range(self.n_groups)]
            found.append(Role("server", names, {f"values to rank {one}": count for one in talking}, trains=False))
        return found

    def start(self, training: Training) -> FrameworkState:
        communicator = communicator_of(self, training)
        need_group(self, training)
        is_worker = communicator.rank < self.workers(communicator.size)
        return WorkerState(self, training) if is_worker else ServerState(self, training)


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
    """A worker or a server in one training. `staleness` counts updates by how many others a gradient did not know."""

    def __init__(self, framework: Served, training: Training) -> None:
        super().__init__(framework, training)
        self.settings = framework
        self.communicator = communicator_of(framework, training)
        self.workers = self.updater = framework.workers(self.communicator.size)
        self.apart = framework.decides
        self.size = self.workers // framework.n_groups
        self.rate_share = framework.rate_share(framework.n_groups)
        net = training.net
        self.slices = dealt(training.slots, framework.servers, lambda slot: slot.storage.size)
        self.values = [values_of(net, slots) for slots in self.slices]
        self.buffers = buffers_of(net)
        self.version, self.versions = 0, [0] * framework.servers
        self.passes = 0
        self.staleness: dict[str, int] = {}

    @property
    def epoch(self) -> int:
        return self.passes

    def begin(self) -> None:
        self.passes = self.communicator.share(self.training.net.epoch)
        self._agree()

    def meet(self) -> None:
        self.close_messages()
        for number, values in enumerate(self.values):
            server = self.workers + number
            if self.communicator.rank == server:
                values.take()
            self.communicator.bcast(values.numbers, server)
            values.put()
        ordered = self.training.net.deterministic
        self.buffers.average(self.communicator, ordered=ordered, weight=int(self.trains), total=self.workers)
        self._agree()

    def close_messages(self) -> None:
        """Let no message be waited for while all ranks are together."""
        raise NotImplementedError

    def _agree(self) -> None:
        """Let all know the versions of the servers' parameters, which all have now."""
        self.versions = self.communicator.gather(self.version)[self.workers :]
        self.staleness = self.communicator.share(self.staleness, self.workers)

    def told(self) -> dict[str, Any]:
        if self.settings.n_groups == 1:
            return {}
        return {"staleness": {key: self.staleness[key] for key in sorted(self.staleness, key=int)}}


class WorkerState(PartnerState):
    """A worker: it trains batches with its group, and each of the group talks to some of the servers."""

    def __init__(self, framework: Served, training: Training) -> None:
        super().__init__(framework, training)
        assert training.net.group is not None and training.net.group.communicator is not None
        self.together = training.net.group.communicator
        self.number = self.communicator.rank // self.size
        self.mine = [one for one in range(framework.servers) if one % self.size == self.together.rank]
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
        counts = self.number == 0 or iteration >= self.settings.n_warmup
        versions = {one: np.zeros(1, np.int64) for one in self.mine}
        requests: list[Request] = []
        for one in self.mine:
            server = self.workers + one
            requests.append(self.communicator.irecv(versions[one], server, VERSION))
            requests.append(self.communicator.irecv(self.values[one].numbers, server, VALUES))
        for one in self.mine:
            requests.append(self._send(one, iteration, int(counts)))
            if counts:
                self.gradients[one].take()
                requests.append(self.communicator.isend(self.gradients[one].numbers, self.workers + one, GRADIENT))
        for request in requests:
            request.wait()
        for one, version in versions.items():
            self.versions[one] = int(version[0])
        for one, values in enumerate(self.values):
            if self.size > 1:
                self.together.bcast(values.numbers, one % self.size)
            values.put()

    def _send(self, server: int, iteration: int, counts: int = 0) -> Request:
        told = np.array([iteration, self.epoch, self.versions[server], counts], np.int64)
        return self.communicator.isend(told, self.workers + server, PUSH)

    def close_messages(self) -> None:
        for one in self.mine:
            self._send(one, MEETING).wait()


class ServerState(PartnerState):
    """A server: in an iteration it serves the groups until each of them has done it."""

    trains = False

    def __init__(self, framework: Served, training: Training) -> None:
        super().__init__(framework, training)
        self.number = self.communicator.rank - self.workers
        self.own = self.values[self.number]
        self.gradients = gradients_of(training.net, self.slices[self.number])
        self.clocks = [0] * framework.n_groups
        """How many iterations each group has done."""
        self.waiting: list[int] = []
        """The groups that wait for an answer."""
        self.met: set[int] = set()
        """The groups that have come to a meeting, for which others are still to come."""
        self.pushes: dict[int, tuple[np.ndarray[Any, Any], Request]] = {}
        self.passes_after: dict[int, int] = {}

    def updated(self, slots: Sequence[Any]) -> Sequence[Any]:
        return self.slices[self.number]

    def iteration_steps(self, clip: Iterable[Step], update: Iterable[Step]) -> list[Step]:
        return [Step("serve", "workers", self.serve)]

    def begin(self) -> None:
        super().begin()
        self.clocks = [self.training.iteration] * len(self.clocks)

    def serve(self) -> None:
        """Serve until all groups have done the iteration; some may be ahead then."""
        iteration = self.training.iteration
        while min(self.clocks) <= iteration:
            self._serve_next()
        self.passes = self.passes_after.pop(iteration)

    def worker(self, group: int) -> int:
        """Return the worker of a group that talks to this server."""
        return group * self.size + self.number % self.size

    def _serve_next(self) -> None:
        """Wait for what any group tells, and do what it asks for."""
        for group in range(len(self.clocks)):
            if group not in self.pushes and group not in self.met:
                told = np.zeros(4, np.int64)
                self.pushes[group] = told, self.communicator.irecv(told, self.worker(group), PUSH)
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
            self.communicator.recv(self.gradients.numbers, self.worker(group), GRADIENT)
            self.gradients.put()
            self.training.update(iteration)
            stale = str(self.version - version)
            self.staleness[stale] = self.staleness.get(stale, 0) + 1
            self.version += 1
        self.passes_after[iteration] = passes
        self.clocks[group] += 1
        self.waiting.append(group)
        self._answer()

    def _answer(self) -> None:
        """Send the values to the groups that may go on: those that are not too far ahead of the slowest one."""
        slowest, warmup = min(self.clocks), self.settings.n_warmup
        ahead = {group: self.settings.ahead if self.clocks[group] > warmup else 0 for group in self.waiting}
        ready = [group for group in self.waiting if self.clocks[group] - slowest <= ahead[group]]
        self.waiting = [group for group in self.waiting if group not in ready]
        if ready:
            self.own.take()
        for group in ready:
            self.communicator.send(np.array([self.version], np.int64), self.worker(group), VERSION)
            self.communicator.send(self.own.numbers, self.worker(group), VALUES)

    def close_messages(self) -> None:
        while len(self.met) < len(self.clocks):
            self._serve_next()
        self.met.clear()
