"""Hogwild: workers update the same parameters in shared memory, without waiting for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from nacre import (
    Communicator,
    ConfigError,
    FrameworkState,
    Group,
    Role,
    Step,
    Training,
    non_negative,
    positive,
)

from ..waiting import wait_until
from .batches import SharedBatches, communicator_of, named, need_group
from .flat import buffers_of, histories_of, values_of
from .replicas import added, mean_with_neighbours, means_sent


class Hogwild(SharedBatches):
    """Every rank trains its part of each batch by itself, and changes parameters that all on its node share.

    A rank reads the parameters as they are, computes its gradients, updates what it has read by them, and adds the
    change to the parameters that all share; no rank waits for another, and no lock keeps one from writing while others
    read. How many times others have changed them meanwhile is the staleness of a gradient, which the end of the
    training counts. Histories, such as those of momentum, are each rank's own. Niu and others, "Hogwild: a lock-free
    approach to parallelizing stochastic gradient descent", 2011; SINGA's in-memory Hogwild.

    Each of n ranks that share parameters updates by a part of every batch, so it takes the n-th part of the solver's
    rate; with `batch="each"`, where its batch is a whole one, all of it.

    Ranks that share memory are a node. Of several nodes each has its own parameters, and after every `sync_freq`
    iterations its first rank replaces them by the mean of its own and those of its neighbours; with `sync_freq=1` and
    one rank on each node that is model averaging. This is SINGA's distributed Hogwild.

    Where all ranks come together, for a validation or a snapshot, all nodes get the mean of all, and all ranks the mean
    of the buffers and the histories.

    Raises:
        ConfigError: the ranks cannot be divided into nodes, or a batch among the ranks; or the gradients of the
            solver's algorithm do not add up.
    """

    nodes: Annotated[int, non_negative, "groups of ranks that share parameters; 0 for one on each machine"] = 0
    sync_freq: Annotated[int, positive, "iterations after which a node takes the mean with its neighbours"] = 1
    neighbours: Annotated[
        int, non_negative, "how many nodes before and behind it, in a ring, are a node's neighbours; 0 for all"
    ] = 0
    staleness: Annotated[
        int | None, non_negative, "iterations that a rank may be ahead of the slowest on its node; None for any"
    ] = None
    warmup_steps: Annotated[
        int, non_negative, "iterations at the beginning in which all take what the first rank has learned"
    ] = 0
    decide_every: Annotated[
        int,
        positive,
        "iterations after which, at the latest, all ranks wait for each other and decide if to stop",
    ] = 10

    def group(self, communicator: Communicator) -> Group:
        return Group(communicator.split(communicator.rank), communicator.rank, communicator.size)

    def roles(self, parameters: Mapping[str, int], ranks: int) -> list[Role]:
        """Return what each of so many ranks does; without `nodes` as if all were on one machine."""
        nodes, count = self.nodes or 1, sum(parameters.values())
        of_node: list[list[int]] = [[] for _ in range(nodes)]
        for rank in range(ranks):
            of_node[self._node_of(rank, ranks)].append(rank)
        found: list[Role] = []
        for rank in range(ranks):
            node = self._node_of(rank, ranks)
            sends = {f"changes to memory that {named(of_node[node])} share": count}
            if rank == of_node[node][0]:
                leaders = [members[0] for members in of_node]
                sends |= means_sent(node, leaders, self.neighbours, self.sync_freq, count)
            found.append(Role("worker" if nodes == 1 else f"worker of node {node}", [*parameters], sends))
        return found

    def start(self, training: Training) -> FrameworkState:
        communicator_of(self, training)
        need_group(self, training)
        return HogwildState(self, training)

    def node(self, communicator: Communicator) -> int:
        """Return the number of this rank's node; collective.

        Raises:
            ConfigError: the ranks cannot be divided into so many.
        """
        if not self.nodes:
            return min(communicator.on_this_machine())
        return self._node_of(communicator.rank, communicator.size)

    def _node_of(self, rank: int, ranks: int) -> int:
        """Return the number of a rank's node, if their number is known; else 0."""
        nodes = self.nodes or 1
        if ranks % nodes:
            raise ConfigError(
                f"Hogwild: {ranks} ranks cannot be divided into nodes={nodes}",
                f"start {nodes} ranks, or {2 * nodes}, and so on",
            )
        return rank * nodes // ranks


class HogwildState(FrameworkState):
    """`Hogwild` in one training. `shared` are the parameters of the node, and `read` what this rank has read of them.

    `clocks` counts the iterations that each rank of the node has done.
    """

    def __init__(self, framework: Hogwild, training: Training) -> None:
        super().__init__(framework, training)
        self.settings = framework
        self.communicator = communicator_of(framework, training)
        self.apart = framework.decide_every
        node = self.communicator.split(framework.node(self.communicator))
        assert node is not None
        self.node = node
        self.rate_share = framework.rate_share(node.size)
        self.leaders = self.communicator.split(None if self.node.rank else 0)
        net = training.net
        self.values, self.buffers = values_of(net, training.slots), buffers_of(net)
        self.shared = self.node.shared_array((self.values.numbers.size,), net.dtype)
        self.clocks = self.node.shared_array((self.node.size,), "int64")
        self.read = np.zeros_like(self.shared)
        self.known = 0
        self.staleness = Counter[str]()
        self.all_staleness: list[Counter[str]] = []

    def iteration_steps(self, clip: Iterable[Step], update: Iterable[Step]) -> list[Step]:
        return [*clip, *update, Step("share", "parameters", self.share)]

    def begin(self) -> None:
        self.values.take()
        self.shared[...] = self.values.numbers  # the same on all ranks
        self.clocks[self.node.rank] = self.training.iteration
        self.communicator.barrier()
        self._read()
        self.communicator.barrier()

    def share(self) -> None:
        """Add what this rank has changed to the parameters of the node, and read those that the others have changed."""
        iteration = self.training.iteration
        self.values.take()
        if iteration < self.settings.warmup_steps:
            self.communicator.bcast(self.values.numbers)
            self.shared[...] = self.values.numbers  # all write the same
            self.clocks[self.node.rank] += 1
            self.communicator.barrier()
        else:
            self.staleness[str(int(self.clocks.sum()) - self.known)] += 1
            change(self.shared, self.read, self.values.numbers)
            self.clocks[self.node.rank] += 1
            if self.leaders is not None and self.leaders.size > 1 and (iteration + 1) % self.settings.sync_freq == 0:
                self._take_means(self.leaders)
            self._wait_for_the_slowest()
        self._read()

    def _take_means(self, leaders: Communicator) -> None:
        """Replace the parameters of the node by the means of its own and those of its neighbours."""
        own = self.shared.copy()
        change(self.shared, own, mean_with_neighbours(leaders, own, self.settings.neighbours))

    def _wait_for_the_slowest(self) -> None:
        if self.settings.staleness is not None:
            least = int(self.clocks[self.node.rank]) - self.settings.staleness
            wait_until(lambda: int(self.clocks.min()) >= least)

    def _read(self) -> None:
        self.known = int(self.clocks.sum())
        np.copyto(self.read, self.shared)
        np.copyto(self.values.numbers, self.read)
        self.values.put()

    def meet(self) -> None:
        self.communicator.barrier()  # all have added what they have changed
        if self.leaders is not None and self.leaders.size > 1:
            self.shared[...] = mean_with_neighbours(self.leaders, self.shared, 0)
        self.communicator.barrier()
        self._read()
        self.buffers.average(self.communicator, ordered=True)
        histories_of(self.training).average(self.communicator, ordered=True)
        self.all_staleness = self.communicator.gather(self.staleness)

    def close(self) -> None:
        self.shared, self.clocks = self.shared.copy(), self.clocks.copy()  # the node's memory can be released
        for one in filter(None, (self.leaders, self.node)):
            one.close()

    def told(self) -> dict[str, Any]:
        return {"staleness": added(self.all_staleness)}


def change(shared: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
    """Change numbers that others may change too, by the difference of two; to `after`, bit for bit, if nobody has."""
    changed = np.where(shared == before, after, shared + (after - before))
    np.copyto(shared, changed)
