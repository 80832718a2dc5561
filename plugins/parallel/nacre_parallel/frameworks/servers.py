"""Servers: ranks that hold and update the parameters, and workers that compute gradients for them.

What Sandblaster and Downpour have in common, after SINGA's server groups (Ooi and others, "SINGA: a distributed deep
learning platform", 2015) and the parameter servers of Dean and others, "Large scale distributed deep networks", 2012.
The parameters are dealt out whole, so that regularisers and constraints see them so. In each iteration a group of
workers adds up its gradients, clips them, and pushes each server's slice; the server updates at once, by the solver's
method, and answers with the new values as soon as the group may go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from nacre import Communicator, ConfigError, FrameworkState, Group, Role, Training, part_of, positive

from .batches import SharedBatches, communicator_of, named, need_group
from .partners import ServerState, WorkerState, WorkingServerState, dealt
from .replicas import means_sent


class Served(SharedBatches):
    """A framework in which some ranks are servers: the last ones, or workers of the first group.

    The workers are in groups of one size. Several groups of servers each serve as many groups of workers.
    """

    servers: Annotated[
        int, positive, "ranks that update parameters, each some of them: the last, if that is all they do"
    ] = 1

    worker_groups, server_groups, separate = 1, 1, True
    staleness, warmup_steps, decide_every = 0, 0, 1
    sync_freq, neighbours = 1, 0
    """What `Downpour` has as fields: one group of workers and one of servers, which wait for each other."""

    @property
    def n_apart(self) -> int:
        """How many ranks are servers alone; the servers are workers, too, if there are none."""
        return self.server_groups * self.servers if self.separate else 0

    def of_one_server_group(self) -> Served:
        """Return the framework of one group of servers and the workers that it serves."""
        return self

    def server_groups_of(self, ranks: int) -> list[list[int]]:
        """Return the ranks of each group of servers: the workers that it serves, and then its servers."""
        workers, groups = self.workers(ranks), self.server_groups
        parts = [(part_of(workers, one, groups), part_of(ranks - workers, one, groups)) for one in range(groups)]
        return [[*range(*some), *(workers + one for one in range(*servers))] for some, servers in parts]

    def place_of(self, rank: int, ranks: int) -> tuple[int, int]:
        """Return the number of a rank's group of servers, and its place among the ranks of it."""
        groups = enumerate(self.server_groups_of(ranks))
        return next((number, members.index(rank)) for number, members in groups if rank in members)

    def workers(self, ranks: int) -> int:
        apart, groups = self.n_apart, self.worker_groups
        workers, least = ranks - apart, 1 if apart else self.servers
        if workers < least * groups or workers % groups:
            name, several = type(self).__name__, f" in {groups} groups of one size" if groups > 1 else ""
            who = f"of {ranks} ranks {apart} are servers, so there are" if apart else f"{ranks} ranks are"
            more = "" if apart else f", as {self.servers} of the first group are servers, too"
            raise ConfigError(
                f"{name}: {who} {max(workers, 0)} workers, but there must be {least * groups} or more{several}{more}",
                f"start {apart + least * groups} ranks, or {apart + (least + 1) * groups}, and so on",
            )
        return workers

    def server_ranks(self, ranks: int) -> range:
        """Return which of so many ranks are servers."""
        first = self.workers(ranks) if self.n_apart else 0
        return range(first, first + self.servers)

    def group(self, communicator: Communicator) -> Group:
        workers = self.workers(communicator.size)
        size, rank = workers // self.worker_groups, communicator.rank
        together = communicator.split(rank // size if rank < workers else None)
        return Group(together, rank if rank < workers else 0, workers)

    def roles(self, parameters: Mapping[str, int], ranks: int) -> list[Role]:
        found: dict[int, Role] = {}
        groups, one = self.server_groups_of(ranks), self.of_one_server_group()
        kinds = (
            [f"worker of group {group}" for group in range(self.worker_groups)]
            if self.worker_groups > 1
            else ["worker"]
        )
        for number, members in enumerate(groups):
            roles = one._roles(parameters, members, kinds[number * one.worker_groups :])
            found |= zip(members, roles, strict=True)
            for server in one.server_ranks(len(members)) if len(groups) > 1 else ():
                role, count = roles[server], sum(parameters[name] for name in roles[server].updates)
                peers = [every[server] for every in groups]
                sends = {**role.sends, **means_sent(number, peers, self.neighbours, self.sync_freq, count)}
                found[members[server]] = replace(role, name=f"{role.name} of group {number} of servers", sends=sends)
        return [found[rank] for rank in range(ranks)]

    def _roles(self, parameters: Mapping[str, int], members: Sequence[int], kinds: Sequence[str]) -> list[Role]:
        """Return what the members of one group of servers do; `kinds` says what workers of each group are called."""
        workers, servers = self.workers(len(members)), self.server_ranks(len(members))
        size = workers // self.worker_groups
        slices = dealt([*parameters], self.servers, parameters.__getitem__)
        counts = [sum(parameters[name] for name in names) for names in slices]
        found: list[Role] = []
        for worker in range(workers):
            number, place = divmod(worker, size)
            together = members[number * size : (number + 1) * size]
            others = [one for one in together if one != members[worker]]
            sends = {f"gradients, which {named(together)} add up": sum(counts)} if others else {}
            for number_of_it, (server, count) in enumerate(zip(servers, counts, strict=True)):
                if number_of_it % size == place:
                    if server != worker:
                        sends[f"gradients to rank {members[server]}"] = count
                    if others:
                        sends[f"values of rank {members[server]} to {named(others)}"] = count
            found.append(Role(kinds[number], (), sends))
        for number, (server, names, count) in enumerate(zip(servers, slices, counts, strict=True)):
            talking = [one for group in range(self.worker_groups) if (one := group * size + number % size) != server]
            values = {f"values to rank {members[one]}": count for one in talking}
            if self.n_apart:
                found.append(Role("server", names, values, trains=False))
            else:
                found[server] = Role(f"{found[server].name}, and server", names, {**found[server].sends, **values})
        return found

    def start(self, training: Training) -> FrameworkState:
        communicator = communicator_of(self, training)
        need_group(self, training)
        (_, place), one = self.place_of(communicator.rank, communicator.size), self.of_one_server_group()
        if place not in one.server_ranks(communicator.size // self.server_groups):
            return WorkerState(self, training)
        trains = communicator.rank < self.workers(communicator.size)
        return WorkingServerState(self, training) if trains else ServerState(self, training)
