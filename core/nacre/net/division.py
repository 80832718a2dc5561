"""Division: the whole net as it is planned on every rank, and the graph of each rank that is made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from ..discovery.registry import registry
from ..engine.ops import Op
from ..engine.parameters import Slot
from ..engine.setup import set_up
from ..errors import ConfigError, TopologyError
from ..fields.configured import inside
from ..graph.gradients import wanted_gradients, why_no_backward
from ..graph.partition import CONNECTORS, Bridge, Declared, Partition, partition
from ..graph.wiring import Wiring, check_names, wire
from ..protocols.graph import Graph, Node
from ..protocols.layer import Layer
from ..protocols.part import BATCH, FEATURES, NONE, Cut, Part
from ..protocols.state import LayerState, SourceState
from ..protocols.view import Scalars

if TYPE_CHECKING:
    import numpy as np

    from ..engine.target import Target
    from ..protocols.communicator import Communicator


@dataclass(frozen=True, eq=False)
class Division:
    """A net that is divided among ranks.

    `wiring` is that of the whole net, `parameters` has the shapes of its parameters, `sizes` how many numbers those
    have that are not buffers, and `problem` is why it cannot be trained, or None. `endless` says whether no source, on
    any rank, has data with an end.
    """

    wiring: Wiring
    partition: Partition
    parameters: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    problem: TopologyError | None
    endless: bool

    def elsewhere(self, slots: Iterable[Slot]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters that only other ranks have, from the memory of those that are here."""
        here = {name for slot in slots for name in slot.names()}
        return {name: shape for name, shape in self.parameters.items() if name not in here}

    def owned_nodes(self) -> list[tuple[str, Node]]:
        """Return the nodes that have parameters, on any rank, each behind the layer that these are named after."""
        keys: dict[Layer, str] = {}
        owners: dict[str, str] = {}
        nodes = [node for node in self.wiring.nodes if node.layer.has_param]
        named = [(keys.setdefault(node.layer.origin, node.key), node) for node in nodes]
        return [(owners.setdefault(key, node.owner), node) for key, node in named]

    def learns(self, frozen: Collection[str]) -> bool:
        """Return whether any rank has a parameter that learns, if these layers are frozen."""
        learn = {name.rpartition("/")[0] for name in self.sizes}
        return any(owner not in frozen for owner, node in self.owned_nodes() if node.owner in learn)

    @property
    def losses(self) -> dict[str, str]:
        """The names of the layers with a loss, on any rank: each with that of the layer of whole batches."""
        return {node.name: node.whole_name for node in self.wiring.nodes if node.layer.has_loss}

    @property
    def counting(self) -> list[str]:
        """The names of the layers of whole batches with statistics, on any rank."""
        return [*dict.fromkeys(node.whole_name for node in self.wiring.nodes if node.layer.has_stats)]

    @property
    def bridges(self) -> tuple[Bridge, ...]:
        """The bridges between ranks, in the order in which data cross."""
        return self.partition.bridges


def how_divided(node: Node) -> str:
    """Return how the layer of a node is divided among ranks, in words; without a part, every rank has its records."""
    return {NONE: "whole", BATCH: "by records", FEATURES: "by features"}[node.part.dim if node.part else BATCH]


def part_of_batches(net: str, graph: Graph) -> Part | None:
    """Return this rank's part of each batch, if the ranks have not all as many rows.

    Raises:
        ConfigError: two sources have batches that are divided differently.
    """
    parts = {node.name: part for node in graph.nodes if (part := node.layer.batch_part) is not None}
    uneven = [name for name, part in parts.items() if part.length % part.count]
    if not uneven:
        return None
    part = parts[uneven[0]]
    if others := [name for name, other in parts.items() if other.length != part.length]:
        raise ConfigError(
            f"net '{net}': '{uneven[0]}' has batches of {part.length} records and '{others[0]}' of "
            f"{parts[others[0]].length}, which {part.count} ranks cannot divide in the same way",
            f"use multiples of {part.count}, or batches of one size",
        )
    return part


def refuse_across_records(ops: Iterable[Op], layers: Iterable[Layer]) -> None:
    """Raise a ConfigError for each of some layers that needs whole batches, of which sources feed a rank's part.

    Layers that an algorithm or a container puts into the net have no records but those that it gives them.
    """
    ops = list(ops)
    parts = {op.outputs[0].shape[0]: part for op in ops if op.is_source and (part := op.node.layer.batch_part)}
    if not parts:
        return
    given = {id(one) for layer in layers for one in inside(layer)}
    complaints: list[str] = []
    for op in ops:
        reads = op.neuron is None and id(op.node.user) in given and any(one.shape[:1] for one in op.inputs)
        if reads and op.inputs[0].shape[0] in parts and (reason := op.node.layer.not_by_records()):
            ranks = parts[op.inputs[0].shape[0]].count
            complaints.append(f"{op.name}: {reason}, so its batches cannot be divided among {ranks} ranks")
    if complaints:
        raise ConfigError(
            "\n".join(complaints), 'train with one process, or let each rank have whole batches (batch = "each")'
        )


def divide(
    net: str,
    target: Target,
    graph: Graph,
    parts: int,
    default: int,
    input_gradients: Sequence[str] = (),
    *,
    insert_splits: bool = False,
) -> Division:
    """Plan a sorted graph as a whole, on this rank alone and without memory, and divide it among ranks.

    Raises:
        ConfigError: a layer cannot be divided as it says.
        TopologyError: layers that share parameters are divided differently, or a blob's name is not known.
    """
    wiring = wire(graph)
    check_names(net, wiring, graph.keep)
    wanted = wanted_gradients(wiring, input_gradients)
    problem = why_no_backward(net, target.phase, wiring, wanted, insert_splits)
    alone: dict[str, Any] = {
        "scalars": Scalars(),
        "views": {},
        "on_devices": [],
        "components": [],
        "rank": 0,
        "ranks": 1,
        "communicator": None,
    }
    with ExitStack() as stack:
        ops = set_up(replace(target, **alone), wiring, wanted, stack, trains=problem is None)
        at_work = {op.name: op for op in ops if op.neuron is None}
    made = [at_work[node.name] for node in wiring.nodes]
    declared = [
        Declared(value.shape, value.dtype) for one in wiring.wires for value in [made[one.producer].outputs[one.top]]
    ]
    every = {f"{op.node.owner}/{one.name}": one for op in made for one in op.state.parameters if not one.tied}
    parameters = {name: one.shape for name, one in every.items()}
    sizes = {name: prod(one.shape) for name, one in every.items() if one.trainable}
    counted = replace(wiring, nodes=tuple(op.node for op in made))
    layers = {name: registry().open("layer_of", name) for name in CONNECTORS}
    divided = partition(counted, declared, wanted, parts, layers, default)
    return Division(wiring, divided, parameters, sizes, problem, has_no_end(op.state for op in made))


def has_no_end(states: Iterable[LayerState]) -> bool:
    """Return whether no source among some states has data with an end, so that there are no passes over them."""
    return all(state.endless for state in states if isinstance(state, SourceState))


def whole_arrays(
    between: Communicator, arrays: Mapping[str, np.ndarray], cuts: Mapping[str, Cut | None]
) -> dict[str, np.ndarray]:
    """Return the arrays of the whole net, on every rank, from those that each has: `cuts` says which part it holds.

    Of one that several ranks have whole, that of the first counts.
    """
    import numpy as np

    described = {name: None if (cut := cuts[name]) is None else astuple(cut) for name in arrays}
    found: dict[str, np.ndarray] = {}
    complete = set[str]()
    for _, name, array, part in between.each_array(arrays, described, lambda _, name: name not in complete):
        if part is None:
            found[name] = array
            complete.add(name)
        else:
            whole, *rest = part
            cut = Cut(tuple(whole), *rest)
            if name not in found:
                found[name] = np.zeros(cut.whole, array.dtype)
            cut.put(array, found[name])
    return found
