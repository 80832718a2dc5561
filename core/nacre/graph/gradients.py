"""Which gradients back-propagation needs, and whether it can go through a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import TopologyError

if TYPE_CHECKING:
    from ..protocols.layer import Layer
    from .wiring import Wire, Wiring


def wanted_gradients(wiring: Wiring, input_gradients: Sequence[str] = ()) -> list[bool]:
    """Return for each wire whether back-propagation needs its gradient.

    `input_gradients` names blobs of sources. A layer back-propagates if it can, and has parameters or a bottom whose
    gradient is needed.
    """
    asked = set(input_gradients)
    wanted = [one.name in asked and wiring.nodes[one.producer].layer.is_source for one in wiring.wires]
    for index, node in enumerate(wiring.nodes):
        needs = node.layer.has_param or node.layer.crosses_ranks
        if node.layer.can_do_bp and (needs or any(wanted[wire] for wire in _passed_on(wiring, index))):
            constant = node.tops_without_gradient()
            for number in wiring.outputs[index]:
                wanted[number] = wiring.wires[number].name not in constant
    if any(_needs_no_loss(node.layer) or node.part is not None for node in wiring.nodes):
        reached = _reach_a_loss(wiring, wanted)
        wanted = [one and other for one, other in zip(wanted, reached, strict=True)]
    return wanted


def _needs_no_loss(layer: Layer) -> bool:
    """Return whether gradients come to this layer without a loss: from another rank, or by an algorithm."""
    return layer.can_do_bp and (bool(layer.needs_algorithm) or layer.crosses_ranks)


def _reach_a_loss(wiring: Wiring, wanted: Sequence[bool]) -> list[bool]:
    """Return for each wire whether a gradient comes to it: where some need no loss, others need not reach one.

    Of a rank's part of a net, layers that bring a blob to a metric reach none, and get no gradient.
    """
    reached = [False] * len(wiring.wires)
    for index in reversed(range(len(wiring.nodes))):
        layer = wiring.nodes[index].layer
        from_above = any(wanted[number] and reached[number] for number in wiring.outputs[index])
        if layer.can_do_bp and (layer.has_loss or from_above or layer.crosses_ranks):
            for number in _passed_on(wiring, index):
                reached[number] = True
    return reached


def _passed_on(wiring: Wiring, index: int) -> list[int]:
    """Return the wires of a node's bottoms, except of those that it has no gradient for."""
    without = wiring.nodes[index].without_gradient
    return [number for position, number in enumerate(wiring.inputs[index]) if position not in without]


def back_propagates(wiring: Wiring, wanted: Sequence[bool], index: int) -> bool:
    """Return whether `backward` of a node is called."""
    layer, tops = wiring.nodes[index].layer, wiring.outputs[index]
    if tops and not (layer.has_loss or any(wanted[number] for number in tops)):
        return False
    needs = layer.has_param or layer.crosses_ranks
    return layer.can_do_bp and (needs or any(wanted[number] for number in _passed_on(wiring, index)))


def why_no_backward(
    net: str, phase: str, wiring: Wiring, wanted: Sequence[bool], insert_splits: bool
) -> TopologyError | None:
    """Return the error of whoever wants to go backward through a net, or None if that is possible."""
    if phase != "train":
        return TopologyError(f"net '{net}' is in phase '{phase}', so it goes forward only")
    try:
        check_bp_topology(wiring, wanted, insert_splits=insert_splits)
    except TopologyError as error:
        return error.with_traceback(None)  # the net keeps it, and would keep what the callers' frames hold
    return None


def check_bp_topology(wiring: Wiring, wanted: Sequence[bool], *, insert_splits: bool = False) -> None:
    """Check that back-propagation can go through a net.

    Raises:
        TopologyError: a blob feeds several back-propagating layers, or needs a gradient but reaches no loss.
    """
    if not any((node.layer.has_loss and node.layer.can_do_bp) or _needs_no_loss(node.layer) for node in wiring.nodes):
        raise TopologyError(
            "the net has no loss layer, so there is nothing to back-propagate",
            "add one that compares what the net computes with what is wanted; `nacre layers` lists the losses",
        )
    going_back = [back_propagates(wiring, wanted, index) for index in range(len(wiring.nodes))]
    for number, one in enumerate(wiring.wires):
        users = [
            index
            for index, position in one.consumers
            if going_back[index] and position not in wiring.nodes[index].without_gradient
        ]
        outside = _outside(wiring, one, users)
        if wanted[number] and len(outside) > 1 and not insert_splits and not _in_one_container(wiring, outside):
            names = ", ".join(f"'{wiring.nodes[index].name}'" for index in users)
            raise TopologyError(
                f"blob '{one.name}' feeds several layers that back-propagate: {names}",
                "split it with a SplitLayer, or make the net with insert_splits=True; "
                'in a net file, add a [[layer]] with type = "Split", or insert_splits = true',
            )
    reached = [False] * len(wiring.wires)
    for index in reversed(range(len(wiring.nodes))):
        node = wiring.nodes[index]
        if not going_back[index]:
            continue
        if not (node.layer.has_loss and node.layer.is_sink):
            for number in wiring.outputs[index]:
                if wanted[number] and not reached[number]:
                    wire = wiring.wires[number]
                    readers = [
                        wiring.nodes[one].name for one, at in wire.consumers if at in wiring.nodes[one].without_gradient
                    ]
                    because = f": layer '{readers[0]}', which reads it, has no gradient for it" if readers else ""
                    remedy = f"exclude layer '{node.name}' from this phase (exclude = ['train'])"
                    if not wire.consumers and len(node.tops) > 1:  # the others are needed
                        remedy = (
                            "if nothing needs it, let a Silence layer read it: Net(name, [..., L.Silence()(top)]); "
                            f"in a net file, add a [[layer]] with type = \"Silence\", bottoms = ['{wire.name}']"
                        )
                    raise TopologyError(
                        f"blob '{wire.name}' of layer '{node.name}' needs a gradient but reaches no loss{because}",
                        f"connect it to a loss, or {remedy}",
                    )
        for number in _passed_on(wiring, index):
            reached[number] = True


def _outside(wiring: Wiring, wire: Wire, indices: Sequence[int]) -> list[int]:
    """Return those nodes that are not in the container which writes a blob: that it reads its top, too, nobody sees."""
    writer = wiring.nodes[wire.producer]
    if writer.inside is None:
        return list(indices)
    return [index for index in indices if wiring.nodes[index].outermost is not writer.outermost]


def _in_one_container(wiring: Wiring, indices: Sequence[int]) -> bool:
    """Return whether these nodes are in one container: to the net it is one layer, which may read a blob twice."""
    nodes = [wiring.nodes[index] for index in indices]
    return all(node.inside is not None and node.outermost is nodes[0].outermost for node in nodes)
