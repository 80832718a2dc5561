"""Downpour: servers update the parameters, for groups of workers that do not wait for each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from nacre import non_negative, positive

from .servers import Served


class Downpour(Served):
    """The last ranks are servers; the others are workers in groups, which train parts of each batch by themselves.

    Each group pushes the gradients of its part to the servers, which update the parameters at once, and then goes on
    with the newest values. The rate is that of the group's own iteration, divided by the number of groups, as they
    share each batch; with `batch="each"`, where each group has batches of its own, all of it. Others may have updated
    them since it had read those that its gradients are for: how many times is the gradient's staleness, which the end
    of the training counts. A group that is more than `staleness` iterations ahead of the slowest waits for it; with 0,
    none begins an iteration before all have done the one before. With one group the numbers are those of `Sandblaster`,
    and with one worker in it those of one process, bit for bit.

    Without `separate` the servers are workers of the first group, one for each server. They serve the others between
    their own iterations: so a group that is faster than the first waits for it, and a slower one is waited for as
    `staleness` says.

    Several groups of servers have parameters of their own, which their part of the groups of workers trains. After
    every `sync_freq` iterations a group of servers replaces its parameters by the mean of them and its neighbours'.
    Servers that are ranks of their own do so when all their groups have done these iterations; servers that are
    workers, too, at the end of their own iteration. For a validation or a snapshot all get the mean of all, of
    histories, too. The rate is divided by the number of groups that update the same parameters.

    SINGA's framework of several worker groups; with several server groups, a form of its distributed Hogwild. Dean and
    others, "Large scale distributed deep networks", 2012; the bound after Ho and others, "More effective distributed ML
    via a stale synchronous parallel parameter server", 2013.

    Raises:
        ConfigError: the workers cannot be divided into groups, or a batch among the workers, or the groups of workers
            among those of servers; or the gradients of the solver's algorithm do not add up.
    """

    worker_groups: Annotated[int, positive, "groups of workers, which do not wait for each other"] = 2
    server_groups: Annotated[int, positive, "groups of servers, each with parameters of its own, which take means"] = 1
    separate: Annotated[bool, "whether servers are ranks of their own, the last ones, or the first workers, too"] = True
    sync_freq: Annotated[int, positive, "iterations after which groups of servers take the means with the others"] = 1
    neighbours: Annotated[
        int, non_negative, "how many groups of servers before and behind it, in a ring, are one's neighbours; 0 for all"
    ] = 0
    staleness: Annotated[int, non_negative, "iterations that a group may be ahead of the slowest with its servers"] = 4
    warmup_steps: Annotated[
        int, non_negative, "iterations at the beginning in which only the first group of each group of servers trains"
    ] = 0
    decide_every: Annotated[
        int,
        positive,
        "iterations after which, at the latest, all ranks wait for each other and decide if to stop",
    ] = 10

    def complaints(self) -> Any:
        yield from super().complaints()
        if self.worker_groups % self.server_groups:
            yield f"worker_groups={self.worker_groups} cannot be divided among server_groups={self.server_groups}"
        for name in ("sync_freq", "neighbours") if self.server_groups == 1 else ():
            if name in self.given():
                yield f"{name}={getattr(self, name)}, but with one group of servers there are no means"

    def of_one_server_group(self) -> Downpour:
        groups = self.worker_groups // self.server_groups
        return replace(self, worker_groups=groups, server_groups=1, sync_freq=1, neighbours=0)
