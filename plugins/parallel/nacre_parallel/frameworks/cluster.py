"""Cluster: a framework by the numbers of its groups, as SINGA's files have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from nacre import (
    Communicator,
    ConfigError,
    Framework,
    FrameworkState,
    Group,
    Layer,
    Role,
    Training,
    non_negative,
    positive,
)

from .all_reduce import AllReduce
from .downpour import Downpour
from .hogwild import Hogwild
from .sandblaster import Sandblaster


class Cluster(Framework):
    """The framework that SINGA's numbers of groups mean, for exactly so many ranks (`ClusterProto` of v0.1 to v0.3).

    A group of workers trains each batch together; groups do not wait for each other. A group of servers has all
    parameters, divided among its servers.

    | worker groups | server groups | separate | framework |
    |---|---|---|---|
    | 1 | 1 | no | `AllReduce`: each worker does a server's part, too |
    | 1 | 1 | yes | `Sandblaster` |
    | more | 1 | yes | `Downpour` |
    | more, of more workers | 1 | no | `Downpour` without `separate`: workers of the first group are servers, too |
    | more, of 1 worker | 1 | no | `Hogwild` in the memory of one machine |
    | more, of 1 worker | more, of 1 server | no | `Hogwild` of as many nodes as there are server groups |
    | more | more | yes | `Downpour` of several server groups |
    | more, of more workers | more | no | `Downpour` of several, without `separate` |

    Raises:
        ConfigError: no framework is meant by the numbers; or there is another number of ranks.
    """

    nworker_groups: Annotated[int, positive, "groups of workers"] = 1
    nserver_groups: Annotated[int, positive, "groups of servers"] = 1
    nworkers_per_group: Annotated[int, positive, "workers in each group, which train each batch together"] = 1
    nservers_per_group: Annotated[int, positive, "servers in each group, among which the parameters are divided"] = 1
    server_worker_separate: Annotated[bool, "whether servers are ranks of their own, or workers too"] = False
    sync_freq: Annotated[int, positive, "iterations after which groups of servers take the means with the others"] = 1
    warmup_steps: Annotated[int, non_negative, "as `Downpour` and `Hogwild` say"] = 0
    staleness: Annotated[int | None, non_negative, "as `Downpour` and `Hogwild` say; None for their own"] = None
    batch: Annotated[
        Literal["whole", "each"], "whether the batch_size of a source is that of all workers together, or of each"
    ] = "whole"

    def complaints(self) -> Any:
        yield from super().complaints()
        if problem := self._problem():
            yield problem
            return
        ignored = {name: getattr(self, name) for name in self._ignored() if name in self.given()}
        for name, value in ignored.items():
            yield f"{name}={value}, but it means nothing for {type(self.meant).__name__}, which these numbers mean"

    def _problem(self) -> str:
        if self.nserver_groups > 1 and self.nworker_groups % self.nserver_groups:
            return f"nworker_groups={self.nworker_groups} cannot be divided among nserver_groups={self.nserver_groups}"
        working = self.nworker_groups > 1 and not self.server_worker_separate
        if working and self.nservers_per_group > self.nworkers_per_group:
            return (
                f"nservers_per_group={self.nservers_per_group}, but servers that are workers, too, are in the first "
                f"group that they serve, which has nworkers_per_group={self.nworkers_per_group}"
            )
        return ""

    def _ignored(self) -> list[str]:
        """Return the fields that the framework which is meant does not read."""
        if self.nworker_groups == 1:
            return ["sync_freq", "warmup_steps", "staleness"]
        return [] if self.nserver_groups > 1 else ["sync_freq"]

    @property
    def meant(self) -> Framework:
        """The framework that the numbers mean."""
        asynchronous: dict[str, Any] = {"batch": self.batch, "warmup_steps": self.warmup_steps}
        asynchronous |= {} if self.staleness is None else {"staleness": self.staleness}
        if self.nworker_groups == 1:
            if self.server_worker_separate:
                return Sandblaster(servers=self.nservers_per_group, batch=self.batch)
            return AllReduce(batch=self.batch)
        if self.server_worker_separate or self.nworkers_per_group > 1:
            asynchronous |= {"servers": self.nservers_per_group, "separate": self.server_worker_separate}
            asynchronous |= {"server_groups": self.nserver_groups, "sync_freq": self.sync_freq}
            return Downpour(worker_groups=self.nworker_groups, **asynchronous)
        return Hogwild(nodes=self.nserver_groups, sync_freq=self.sync_freq, **asynchronous)

    @property
    def ranks(self) -> int:
        """How many ranks there have to be."""
        servers = self.nserver_groups * self.nservers_per_group if self.server_worker_separate else 0
        return self.nworker_groups * self.nworkers_per_group + servers

    def _check(self, ranks: int) -> None:
        """Raise ConfigError if these numbers do not describe so many ranks."""
        if ranks != self.ranks:
            kind = type(self.meant).__name__
            raise ConfigError(
                f"[cluster] describes {self.ranks} ranks ({kind}), but there are {ranks}",
                f"start {self.ranks}: nacre train --workers {self.ranks}",
            )

    def layers(self, layers: Sequence[Layer], communicator: Communicator) -> list[Layer]:
        self._check(communicator.size)
        return self.meant.layers(layers, communicator)

    def roles(self, parameters: Mapping[str, int], ranks: int) -> list[Role]:
        self._check(ranks)
        return self.meant.roles(parameters, ranks)

    def group(self, communicator: Communicator) -> Group | None:
        return self.meant.group(communicator)

    def start(self, training: Training) -> FrameworkState:
        return self.meant.start(training)
