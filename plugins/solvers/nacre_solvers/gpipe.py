"""GPipe: a batch in several parts, which follow each other through a pipeline of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from nacre import ConfigError, Graph, Micro, Node, positive, registry

from .algorithms import BP


class GPipe(BP):
    """Back-propagation in micro-batches: forward with one after the other, then backward, the last one first.

    For a net whose layers are on several ranks (`location`): while a rank works on one micro-batch, the next rank works
    on the one before. The batches of the sources are cut into `micro_batches` parts of equal length; the layer conv1
    becomes conv1#0, conv1#1, ..., with the same parameters, whose gradients are added up. Losses and statistics have
    the names of the layers without parts: a loss is the sum of those of the parts, each multiplied by 1 /
    micro_batches, or by its share of what the loss counts, unless nothing divides it. Masks of dropout are those of the
    whole batch, the statistics of a batch norm those of each micro-batch. All other phases are as they are without it.
    Huang and others, "GPipe: efficient training of giant neural networks using pipeline parallelism", 2019.

    Raises:
        ConfigError: a batch cannot be cut so; or a loss that divides by what it counts is also divided by records.
    """

    micro_batches: Annotated[int, positive, "parts of a batch"] = 4

    def rewrite(self, graph: Graph, phase: str) -> Graph:
        if phase != "train" or self.micro_batches == 1:
            return graph
        sources = [node for node in graph.nodes if node.layer.is_source]
        others = [node for node in graph.nodes if not node.layer.is_source]
        cut = [slices for source in sources for slices in self._cut(source)]
        copies = [self._copy(node, number) for number in range(self.micro_batches) for node in others]
        return graph.with_nodes([*sources, *cut, *copies])

    def _cut(self, source: Node) -> Iterator[Node]:
        """Yield the layers that cut the tops of a source, where this is."""
        size = getattr(source.layer, "batch_size", None)
        if isinstance(size, int) and size % self.micro_batches:
            raise ConfigError(
                f"{source.name}: batch_size={size} cannot be cut into {self.micro_batches} parts of equal length",
                f"use a multiple of {self.micro_batches}, or other micro_batches of GPipe",
            )
        slice_of = registry().open("layer_of", "slice")
        division = {"partition_dim": source.layer.partition_dim, "location": source.layer.location}
        for top in source.tops:
            parts = [f"part{number}" for number in range(self.micro_batches)]
            layer = slice_of(name=source.name, bottoms=["batch"], tops=parts, axis=0, **division)
            tops = [f"{top}#{number}" for number in range(self.micro_batches)]
            yield _Cut(layer, layer).again(f"slice({top})", [top], tops)

    def _copy(self, node: Node, number: int) -> Node:
        """Return a layer for one micro-batch."""
        names = ([f"{blob}#{number}" for blob in blobs] for blobs in (node.bottoms, node.tops))
        part = Micro(node.name, number, self.micro_batches)
        return replace(node.again(f"{node.name}#{number}", *names), micro=part)


@dataclass(frozen=True)
class _Cut(Node):
    """The layer that cuts a top of a source, and has its name."""

    def not_by_records(self) -> str:
        return f"GPipe cuts its batches into {len(self.tops)} parts"
