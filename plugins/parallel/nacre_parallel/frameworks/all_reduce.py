"""AllReduce: each rank has the whole net and a part of every batch; all add up their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np

from nacre import Algorithm, Communicator, ConfigError, Framework, FrameworkState, Layer, Layers, Step, Training


class AllReduce(Framework):
    """Every rank trains the whole net on its part of each batch; then they add up their gradients, and all update.

    The parameters are the same on all ranks, bit for bit. With ranks r = 0 to n - 1 and batches of b records, rank r
    reads the records r b / n to (r + 1) b / n of each, draws the masks and the shifts of these rows of the whole, and
    divides its losses by what counts on all ranks: so n ranks train as one process with the whole batch would, but for
    the order of sums. Batch norm uses the mean and the variance of a rank's own rows; its running ones, as all buffers,
    are the mean over the ranks. SINGA's framework of one worker group and one server group, synchronous; Dean and
    others, "Large scale distributed deep networks", 2012, compare others with it.

    Raises:
        ConfigError: a batch cannot be divided among the ranks, or the solver's algorithm does not follow a loss.
    """

    batch: Annotated[
        Literal["whole", "each"], "whether the batch_size of a source is that of all ranks together, or of each"
    ] = "whole"

    def layers(self, layers: Sequence[Layer], communicator: Communicator) -> list[Layer]:
        if self.batch == "each":
            return list(layers)
        return [divided(layer, communicator.size) if layer.is_source else layer for layer in layers]

    def start(self, training: Training) -> FrameworkState:
        return AllReduceState(self, training)


def divided(layer: Layer, ranks: int) -> Layer:
    """Return a source whose batches are those of one of so many ranks, also if it is made of other sources."""
    fields: dict[str, Any] = {}
    for field in type(layer).fields():
        if field.takes(Layers):
            fields[field.name] = [divided(one, ranks) for one in getattr(layer, field.name)]
    sizes = getattr(layer, "batch_size", None)
    if sizes is not None:
        every = list(sizes) if isinstance(sizes, Sequence) else [sizes]
        for size in every:
            if size % ranks and "train" not in layer.exclude:  # elsewhere each record counts once, in whatever batch
                raise ConfigError(
                    f"{layer.name}: batch_size={size} cannot be divided among {ranks} ranks",
                    f"use a multiple of {ranks}; or let it be that of each rank: framework = "
                    '{ type = "AllReduce", batch = "each" } in [solver]',
                )
        parts = [-(-size // ranks) for size in every]
        fields["batch_size"] = parts if isinstance(sizes, Sequence) else parts[0]
    return replace(layer, **fields) if fields else layer


class AllReduceState(FrameworkState):
    """`AllReduce` in one training: it works on the arrays in which all gradients lie."""

    def __init__(self, framework: AllReduce, training: Training) -> None:
        super().__init__(framework, training)
        net = training.net
        if type(training.solver.algorithm).rewrite is not Algorithm.rewrite:
            name = type(training.solver.algorithm).__name__
            raise ConfigError(
                f"AllReduce: the algorithm {name} has gradients of its own, which several ranks cannot join",
                "train with one process, or with another algorithm",
            )
        if net.communicator is None:
            raise ConfigError("AllReduce: the net has no communicator", "make it with Net(..., communicator=...)")
        self.communicator = net.communicator
        self.view, self.backend = net.view(), net.backend
        arenas = {id(slot.placed.arena): slot.placed.arena for slot in training.slots if slot.placed is not None}
        self.arenas = list(arenas.values())
        self.buffers = [slot.storage for slot in net.slots if not slot.trainable]
        sizes = [storage.size for storage in self.buffers]
        self.means = np.empty(sum(sizes), net.dtype)
        ends = np.cumsum([0, *sizes])
        self.parts = [self.means[begin:end] for begin, end in pairwise(ends)]

    def steps(self) -> list[Step]:
        steps = [Step("all-reduce", "gradients", self.add_up)]
        return [*steps, Step("average", "buffers", self.average)] if self.buffers else steps

    def add_up(self) -> None:
        """Replace the gradients by the sums of those of all ranks."""
        for arena in self.arenas:
            self.view.add_up(arena)

    def average(self) -> None:
        """Replace the buffers by their means over all ranks."""
        for storage, part in zip(self.buffers, self.parts, strict=True):
            part[...] = self.backend.to_host(storage.array).reshape(-1)
        self.communicator.allreduce(self.means, ordered=self.view.deterministic)
        self.means /= self.communicator.size
        for storage, part in zip(self.buffers, self.parts, strict=True):
            self.backend.from_host(part.reshape(storage.shape), storage.array)
            storage.version += 1
