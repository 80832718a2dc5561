"""Batches of several ranks: which part of each is a rank's, for all frameworks in which ranks have the whole net."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from nacre import Algorithm, Array, Communicator, ConfigError, Framework, Layer, Layers, Training


class SharedBatches(Framework):
    """A framework whose workers read parts of the same batches.

    Raises:
        ConfigError: a batch cannot be divided among the workers, or the solver's algorithm does not follow a loss.
    """

    batch: Annotated[
        Literal["whole", "each"], "whether the batch_size of a source is that of all workers together, or of each"
    ] = "whole"

    def workers(self, ranks: int) -> int:
        """Return how many of so many ranks train batches; they are the first ones."""
        return ranks

    def layers(self, layers: Sequence[Layer], communicator: Communicator) -> list[Layer]:
        workers = self.workers(communicator.size)
        if self.batch == "each":
            return list(layers)
        parts = {layer: communicator.size if "train" in layer.exclude else workers for layer in layers}
        return [divided(one, parts[one], type(self).__name__) if one.is_source else one for one in layers]


def divided(layer: Layer, ranks: int, framework: str = "AllReduce") -> Layer:
    """Return a source whose batches are those of one of so many ranks, also if it is made of other sources."""
    fields: dict[str, Any] = {}
    for field in type(layer).fields():
        if field.takes(Layers):
            fields[field.name] = [divided(one, ranks, framework) for one in getattr(layer, field.name)]
    sizes = getattr(layer, "batch_size", None)
    if sizes is not None:
        every = list(sizes) if isinstance(sizes, Sequence) else [sizes]
        for size in every:
            if size % ranks and "train" not in layer.exclude:  # elsewhere each record counts once, in whatever batch
                raise ConfigError(
                    f"{layer.name}: batch_size={size} cannot be divided among {ranks} ranks",
                    f"use a multiple of {ranks}; or let it be that of each rank: framework = "
                    f'{{ type = "{framework}", batch = "each" }} in [solver]',
                )
        parts = [-(-size // ranks) for size in every]
        fields["batch_size"] = parts if isinstance(sizes, Sequence) else parts[0]
    return replace(layer, **fields) if fields else layer


def communicator_of(framework: Framework, training: Training) -> Communicator:
    """Return what connects the ranks of a training.

    Raises:
        ConfigError: there is nothing, or the algorithm has gradients of its own.
    """
    own, algorithm = type(framework).__name__, training.solver.algorithm
    name = type(algorithm).__name__
    if type(algorithm).rewrite is not Algorithm.rewrite:
        raise ConfigError(
            f"{own}: the algorithm {name} has gradients of its own, which several ranks cannot join",
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


def gradient_arenas(training: Training) -> list[Array]:
    """Return the arrays in which all gradients lie."""
    arenas = {id(slot.placed.arena): slot.placed.arena for slot in training.slots if slot.placed is not None}
    return list(arenas.values())
