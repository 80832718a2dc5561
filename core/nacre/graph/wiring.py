"""The sorted graph of a net and its wires, made from the names of blobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ..errors import TopologyError, nearest
from ..protocols.graph import Node
from ..protocols.layer import layer_type, tops_of

if TYPE_CHECKING:
    from ..protocols.graph import Graph
    from ..protocols.layer import Layer


OTHER_TOP = "give the top of '{}' another name; the net reuses the bottom's memory anyway where it can"


@dataclass
class Wire:
    """One version of a blob: a producer writes it, consumers read it; an in-place layer makes the next version."""

    name: str
    producer: int
    top: int
    consumers: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    last: bool = True


@dataclass(frozen=True)
class Wiring:
    """A sorted graph and its wires; `inputs[i]` and `outputs[i]` are the wires of node i."""

    nodes: tuple[Node, ...]
    wires: tuple[Wire, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]


def sort(graph: Graph, layers: Iterable[Layer] = (), phase: str = "") -> Graph:
    """Sort a graph so that every layer comes after those whose tops it reads.

    Layers keep their order where the blobs leave a choice; in-place layers come before the other readers of their blob.
    `layers` are those of the net, of which an error names one that would write a blob, but is absent in the phase.

    Raises:
        TopologyError: two layers have one name, two write one blob, a blob is missing, or there is a cycle.
    """
    nodes = graph.nodes
    producer = _producers(nodes)
    latest = dict(producer)  # the last writer of a blob: each in-place layer waits for the one before
    before: list[set[int]] = [set() for _ in nodes]
    for index, node in enumerate(nodes):
        for bottom in node.bottoms:
            if bottom not in producer:
                raise _missing(node.name, bottom, producer, layers, phase)
            if node.in_place:
                before[index] |= {latest[bottom]} - {index}
                latest[bottom] = index
    for index, node in enumerate(nodes):
        if not node.in_place:
            before[index] = {latest[bottom] for bottom in node.bottoms}
    order = sorted_by(before)
    if len(order) < len(nodes):
        raise _cycle(nodes, before, {*range(len(nodes))} - {*order})
    return graph.with_nodes(nodes[index] for index in order)


def sorted_by(before: Sequence[Collection[int]]) -> list[int]:
    """Return the numbers below `len(before)`, each behind those that are before it, and else as they are.

    Those of a cycle are left out, and those behind it.
    """
    behind: list[list[int]] = [[] for _ in before]
    for number, some in enumerate(before):
        for one in some:
            behind[one].append(number)
    waits = [len(some) for some in before]
    order: list[int] = []
    ready = [number for number, count in enumerate(waits) if not count]  # in order, so a heap
    while ready:
        order.append(number := heappop(ready))
        for one in behind[number]:
            waits[one] -= 1
            if not waits[one]:
                heappush(ready, one)
    return order


def _cycle(nodes: Sequence[Node], before: Sequence[Collection[int]], stuck: Collection[int]) -> TopologyError:
    """Return the error for a cycle; `stuck` are the layers in cycles, and those behind them."""
    walk = [min(stuck)]  # against the wires, until a layer comes again
    while (above := min(one for one in before[walk[-1]] if one in stuck)) not in walk:
        walk.append(above)
    ring = walk[walk.index(above) :][::-1]
    ring = ring[(first := ring.index(min(ring))) :] + ring[:first]
    names = [f"'{nodes[one].name}'" for one in ring]
    reads = [
        next(f"'{bottom}'" for bottom in nodes[one].bottoms if bottom in nodes[other].tops)
        for other, one in zip([ring[-1], *ring], ring, strict=False)
    ]
    wanted = next((f'"{name}"' for one in sorted(stuck) if (name := nodes[one].layer.needs_algorithm)), "")
    remedy = f"let {names[0]} read another blob than {reads[0]}"
    if wanted:
        remedy = f"write algorithm = {wanted} in [solver], or Net(..., algorithm={wanted})"
    if len(ring) == 1:
        return TopologyError(f"layer {names[0]} reads its own top {reads[0]}", remedy)
    edges = ", ".join(f"{name} reads {blob}" for name, blob in zip(names, reads, strict=True))
    message = f"the layers {', '.join(names)} wait for each other's blobs: the net has a cycle, in which {edges}"
    return TopologyError(message, remedy)


def _missing(reader: str, blob: str, known: Collection[str], layers: Iterable[Layer], phase: str) -> TopologyError:
    """Return the error for a blob that is read, but not written."""
    absent = (layer for layer in layers if phase in layer.exclude and not layer.is_inplace)
    writers = [layer for layer in absent if blob in tops_of(layer)]
    if not writers:
        message = f"layer '{reader}' reads blob '{blob}', which no layer writes{nearest(blob, known)}"
        return TopologyError(message, f"the blobs in this phase are {', '.join(known) or 'none'}")
    names = " and ".join(f"'{layer.name}'" for layer in writers)
    remedy = f"exclude '{reader}' from this phase too, or let {names} be in it"
    if all(layer.is_source for layer in writers):
        remedy = f"use another phase, or let a source write '{blob}' in this one"
    several = "s" * (len(writers) > 1)
    message = f"layer '{reader}' reads blob '{blob}' of layer{several} {names}, absent in phase '{phase}'"
    return TopologyError(message, remedy)


def _producers(nodes: Sequence[Node]) -> dict[str, int]:
    producer: dict[str, int] = {}
    names: set[str] = set()
    for index, node in enumerate(nodes):
        if node.name in names:
            again = next((top for top in node.tops if top in node.bottoms), "")
            if again == node.name and not node.user.given_name:  # as in Caffe: the layer is named after its top
                kind = layer_type(type(node.user))
                raise TopologyError(
                    f"a layer ({kind}) writes the blob '{again}' that it reads", OTHER_TOP.format(again)
                )
            raise TopologyError(f"two layers are called '{node.name}'; give each a name of its own")
        names.add(node.name)
        if node.in_place:
            continue
        for top in node.tops:
            if top in producer:
                one, other = nodes[producer[top]].name, node.name
                where = f"layer '{one}' twice" if one == other else f"the layers '{one}' and '{other}' both"
                remedy = "give the top of one another name, or exclude each from the phases of the other (exclude)"
                if top in node.bottoms:
                    remedy = OTHER_TOP.format(other)
                raise TopologyError(f"blob '{top}' is written by {where}", remedy)
            producer[top] = index
    return producer


def wire(graph: Graph) -> Wiring:
    """Return the wires of a sorted graph."""
    wires: list[Wire] = []
    current: dict[str, int] = {}
    inputs: list[tuple[int, ...]] = []
    outputs: list[tuple[int, ...]] = []
    for index, node in enumerate(graph.nodes):
        inputs.append(tuple(current[bottom] for bottom in node.bottoms))
        for position, number in enumerate(inputs[-1]):
            wires[number].consumers.append((index, position))
        made: list[int] = []
        for position, top in enumerate(node.tops):
            if top in current:
                wires[current[top]].last = False
            made.append(len(wires))
            current[top] = len(wires)
            wires.append(Wire(top, index, position))
        outputs.append(tuple(made))
    return Wiring(graph.nodes, tuple(wires), tuple(inputs), tuple(outputs))


def check_names(net: str, wiring: Wiring, names: Iterable[str]) -> None:
    """Raise a TopologyError if a net has no blob of one of these names."""
    known = {wire.name for wire in wiring.wires}
    for name in names:
        if name not in known:
            raise TopologyError(f"net '{net}' has no blob '{name}'{nearest(name, known)}")


def results(wiring: Wiring) -> set[str]:
    """Return the names of the blobs that losses read, and of those that nobody reads."""
    losses = {name for node in wiring.nodes if node.layer.has_loss for name in node.bottoms}
    final = {wire.name: wire for wire in wiring.wires}
    return losses | {name for name, wire in final.items() if not wire.consumers}


def ancestors(graph: Graph, names: Sequence[str], given: Sequence[str] = ()) -> list[Node]:
    """Return the nodes that the blobs `names` depend on, in the graph's order; the blobs `given` need no producer.

    Raises:
        TopologyError: no layer writes one of the names.
    """
    writers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for top in node.tops:
            writers.setdefault(top, []).append(node)
    needed: set[int] = set()
    todo = list(names)
    seen = set(given)
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in writers:
            raise TopologyError(
                f"no layer writes blob '{name}' in this phase{nearest(name, writers)}",
                f"the blobs are {', '.join(dict.fromkeys([*given, *writers])) or 'none'}",
            )
        for node in writers[name]:
            needed.add(id(node))
            todo.extend(node.bottoms)
    used = set(given) & (set(names) | _read(graph, needed))
    for node in graph.nodes:  # in-place layers on a given blob act on it as well
        if node.in_place and used.issuperset(node.bottoms):
            needed.add(id(node))
    return [node for node in graph.nodes if id(node) in needed]


def _read(graph: Graph, needed: set[int]) -> set[str]:
    return {bottom for node in graph.nodes if id(node) in needed for bottom in node.bottoms}
