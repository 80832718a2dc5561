"""Servers: ranks that hold and update the parameters, and workers that compute gradients for them.

What Sandblaster and Downpour have in common, after SINGA's server groups (Ooi and others, "SINGA: a distributed deep
learning platform", 2015) and the parameter servers of Dean and others, "Large scale distributed deep networks", 2012.
The parameters are dealt out whole, so that regularisers and constraints see them so. In each iteration a group of
workers adds up its gradients, clips them, and pushes each server's slice; the server updates at once, by the solver's
method, and answers with the new values as soon as the group may go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from nacre import Communicator, ConfigError, FrameworkState, Group, Role, Training, positive

from .batches import SharedBatches, communicator_of, named, need_group
from .partners import ServerState, WorkerState, WorkingServerState, dealt


class Served(SharedBatches):
    """A framework in which some ranks are servers: the last ones, or workers of the first group.

    The workers are in groups of one size.
    """

    servers: Annotated[
        int, positive, "ranks that update parameters, each some of them: the last, if that is all they do"
    ] = 1

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

    @property
    def n_apart(self) -> int:
        """How many ranks are servers alone; the servers are workers, too, if there are none."""
        return self.servers

    def workers(self, ranks: int) -> int:
        apart, groups = self.n_apart, self.n_groups
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
        size, rank = workers // self.n_groups, communicator.rank
        together = communicator.split(rank // size if rank < workers else None)
        return Group(together, rank if rank < workers else 0, workers)

    def roles(self, parameters: Mapping[str, int], ranks: int) -> list[Role]:
        workers, servers = self.workers(ranks), self.server_ranks(ranks)
        size = workers // self.n_groups
        slices = dealt([*parameters], self.servers, parameters.__getitem__)
        counts = [sum(parameters[name] for name in names) for names in slices]
        found: list[Role] = []
        for rank in range(workers):
            number, place = divmod(rank, size)
            together = range(number * size, (number + 1) * size)
            others = [one for one in together if one != rank]
            sends = {f"gradients, which {named(together)} add up": sum(counts)} if others else {}
            for number_of_it, (server, count) in enumerate(zip(servers, counts, strict=True)):
                if number_of_it % size == place:
                    if server != rank:
                        sends[f"gradients to rank {server}"] = count
                    if others:
                        sends[f"values of rank {server} to {named(others)}"] = count
            found.append(Role("worker" if self.n_groups == 1 else f"worker of group {number}", (), sends))
        for number, (server, names, count) in enumerate(zip(servers, slices, counts, strict=True)):
            talking = [one for group in range(self.n_groups) if (one := group * size + number % size) != server]
            values = {f"values to rank {one}": count for one in talking}
            if self.n_apart:
                found.append(Role("server", names, values, trains=False))
            else:
                found[server] = Role(f"{found[server].name}, and server", names, {**found[server].sends, **values})
        return found

    def start(self, training: Training) -> FrameworkState:
        communicator = communicator_of(self, training)
        need_group(self, training)
        trains = communicator.rank < self.workers(communicator.size)
        if communicator.rank not in self.server_ranks(communicator.size):
            return WorkerState(self, training)
        return WorkingServerState(self, training) if trains else ServerState(self, training)
