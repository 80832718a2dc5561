"""Batches of several ranks: which part of each is a rank's, for all frameworks in which ranks have the whole net."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from nacre import Algorithm, Communicator, ConfigError, Framework, Layer, Layers, Part, Step, Training, part_of


class SharedBatches(Framework):
    """A framework whose workers read parts of the same batches.

    Raises:
        ConfigError: a batch cannot be divided among the workers, or the gradients of the solver's algorithm do not add
            up.
    """

    batch: Annotated[
        Literal["whole", "each"], "whether the batch_size of a source is that of all workers together, or of each"
    ] = "whole"
    uneven: ClassVar[bool] = False
    """Whether the workers' parts of a batch may differ by a row."""

    def workers(self, ranks: int) -> int:
        """Return how many of so many ranks train batches; they are the first ones."""
        return ranks

    def rate_share(self, groups: int) -> float:
        """Return which part of the rate an update has, if so many groups update the same parameters by themselves."""
        return 1.0 if self.batch == "each" else 1 / groups

    def layers(self, layers: Sequence[Layer], communicator: Communicator) -> list[Layer]:
        if self.batch == "each":
            return list(layers)
        workers, rank = self.workers(communicator.size), communicator.rank
        return [
            self._divided(layer, rank, workers, communicator.size) if layer.is_source else layer for layer in layers
        ]

    def _divided(self, layer: Layer, rank: int, workers: int, ranks: int) -> Layer:
        count = ranks if "train" in layer.exclude else workers
        who = "ranks" if count == ranks else "workers"
        return divided(layer, rank, count, uneven=self.uneven, who=who)


def divided(
    layer: Layer,
    rank: int,
    ranks: int,
    *,
    uneven: bool = True,
    trains: bool | None = None,
    who: str = "ranks",
) -> Layer:
    """Return a source that feeds one rank's part of each batch, also if it is made of other sources.

    Where parts of training batches may not be `uneven`, those that cannot be divided evenly are refused. Outside of
    training a batch may have fewer rows than there are ranks: then some have none, and feed one that does not count.
    `trains` says whether training batches come from it, if its own phases do not: those of a source made of it.
    A rank that is not among so many reads what the last one reads; of batches that are divided unevenly it has no row.

    Raises:
        ConfigError: a batch of the training cannot be divided.
    """
    fields: dict[str, Any] = {}
    part: Part | None = None
    trains = "train" not in layer.exclude if trains is None else trains
    for field in type(layer).fields():
        if field.takes(Layers):
            how: dict[str, Any] = {"uneven": uneven, "trains": trains, "who": who}
            inside = [divided(one, rank, ranks, **how) for one in getattr(layer, field.name)]
            fields[field.name] = inside
            part = next((found for one in inside if (found := one.batch_part) is not None), part)
    sizes = getattr(layer, "batch_size", None)
    if sizes is not None:
        every = list(sizes) if isinstance(sizes, Sequence) else [sizes]
        odd, mixed = any(size % ranks for size in every), len(set(every)) > 1
        if odd and mixed and not trains:
            parts = [-(-size // ranks) for size in every]
        else:
            if trains and (min(every) < ranks or (odd and (mixed or not uneven))):
                right = f"{ranks} or more" if uneven and not mixed else f"a multiple of {ranks}"
                raise ConfigError(
                    f"{layer.name}: batch_size={sizes} cannot be divided among {ranks} {who}",
                    f'use {right}; or let it be that of each rank: batch = "each" in [cluster], or in the framework of '
                    "[solver]",
                )
            place = min(rank, ranks - 1)
            bounds = [part_of(size, place, ranks) if rank < ranks or not size % ranks else (0, 0) for size in every]
            parts = [max(stop - start, 1) for start, stop in bounds]
            part = Part(0, place, ranks, every[0], *bounds[0])
        fields["batch_size"] = parts if isinstance(sizes, Sequence) else parts[0]
    if not fields:
        return layer
    made = replace(layer, **fields)
    return made if part is None else made.as_part_of(layer, part)


def named(ranks: Sequence[int]) -> str:
    """Return ranks in words."""
    *others, last = map(str, ranks)
    return f"ranks {', '.join(others)} and {last}" if others else f"rank {last}"


def communicator_of(framework: Framework, training: Training) -> Communicator:
    """Return what connects the ranks of a training.

    Raises:
        ConfigError: there is nothing, or the algorithm has gradients of its own that do not add up.
    """
    own, algorithm = type(framework).__name__, training.solver.algorithm
    name = type(algorithm).__name__
    if type(algorithm).rewrite is not Algorithm.rewrite and not algorithm.adds_up:
        raise ConfigError(
            f"{own}: the algorithm {name} has gradients of its own, which several ranks cannot add up",
            "train with one process, or with another algorithm",
        )
    if training.net.communicator is None:
        raise ConfigError(f"{own}: the net has no communicator", "make it with Net(..., communicator=...)")
    return training.net.communicator


def need_group(framework: Framework, training: Training) -> None:
    """Raise ConfigError if a net was not made for the groups of a framework."""
    if training.net.group is None:
        raise ConfigError(
            f"{type(framework).__name__}: the net was made for ranks that do everything together",
            "make it with Net(..., communicator=ranks, group=framework.group(ranks))",
        )


def rows_of(training: Training, workers: int) -> tuple[int, int]:
    """Return how many rows of a batch a rank has, and all together; 1 of `workers`, if all have as many."""
    part = training.net.target.part
    return (1, workers) if part is None else (part.stop - part.start, part.length)


def adding_up(training: Training) -> Step:
    """Return the step that replaces the gradients by the sums of those of all ranks that train a batch together."""
    arenas = {id(slot.placed.arena): slot.placed.arena for slot in training.slots if slot.placed is not None}
    view = training.net.view()

    def add_up() -> None:
        for arena in arenas.values():
            view.add_up(arena)

    return Step("all-reduce", "gradients", add_up)
