"""A net as data and as text: its layers, shapes, parameters, kernels and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..fields.tables import type_name
from ..protocols.layer import is_identity
from ..text import align, listed, size

if TYPE_CHECKING:
    from ..discovery.kernels import Choice
    from ..engine.ops import Op
    from ..engine.parameters import Slot
    from ..protocols.graph import Node
    from .net import Net


HEAD = ("layer", "type", "tops", "parameters", "kernel")


def describe(net: Net) -> dict[str, Any]:
    """Give what there is to know of a net, as JSON-able data; nothing is allocated for it."""
    slots = {id(one): slot for slot in net.slots for one in slot.parameters}
    layers = [_describe_layer(net, node, slots) for node in net.wiring.nodes]
    itemsize = 8 if net.dtype == "float64" else 4
    trainable = sum(slot.storage.size for slot in net.slots if slot.trainable)
    buffers = sum(slot.storage.size for slot in net.slots if not slot.trainable)
    blobs = net.schedule.planned_bytes()
    counted = {
        "parameters": (trainable + buffers) * itemsize,
        "gradients": trainable * itemsize if net.trains else 0,
        "blobs": blobs["planned"],
        "blobs_unshared": blobs["blobs"],
        "blobs_peak": blobs["peak"],
    }
    counted["total"] = counted["parameters"] + counted["gradients"] + counted["blobs"]
    return {
        "name": net.name,
        "phase": net.phase,
        "backend": net.backend.name,
        "dtype": net.dtype,
        "compute": net.compute_dtype,
        "layers": layers,
        "parameters": trainable,
        "buffers": buffers,
        "bytes": counted,
        "copies": len(net.schedule.copies),
    }


def _describe_layer(net: Net, node: Node, slots: Mapping[int, Slot]) -> dict[str, Any]:
    op = net.node_ops[node.name]
    layer = node.user
    neuron = getattr(layer, "neuron", None) if layer.has_neuron else None
    kind = type_name(type(layer))
    neuron = "" if neuron is None or is_identity(neuron) else repr(neuron).removesuffix("()")
    used = [slots[id(parameter)] for parameter in op.state.parameters]
    own = {slot.name: slot.storage.size for slot in used if slot.layer == node.name}
    return {
        "name": node.name,
        "type": kind,
        "neuron": neuron if neuron not in ("", kind) else None,  # a ReLU layer's is said already
        "bottoms": list(node.bottoms),
        "tops": list(node.tops),
        "shapes": [list(value.shape) for value in op.outputs],
        "parameters": sum(own.values()),
        "shared": sorted({slot.layer for slot in used} - {node.name}),
        "kernel": kernel_name(op),
    }


def kernel_name(op: Op) -> str | None:
    """Give the class of an op's kernel, or None where the layer's own state runs."""
    return type(op.state).__name__ if op.kernel else None


def first_line(net: Net) -> str:
    """Say in one line on what a net runs: its backend, how many layers have kernels, which have not, and the copies."""
    ops = [net.node_ops[node.name] for node in net.wiring.nodes]
    work = [op for op in ops if not op.is_source]
    own = [op.name for op in work if not op.kernel]
    parts = [f"{len(work) - len(own)} of {len(work)} layers run through kernels made for it"]
    if own:
        parts.append(f"{listed(own)} through {'its' if len(own) == 1 else 'their'} general code")
    copies = len(net.schedule.copies)
    if copies:
        parts.append(f"{'1 copy' if copies == 1 else f'{copies} copies'} a step for {listed(_copied_for(net))}")
    narrow = f" in {net.compute_dtype}" if net.compute_dtype != net.dtype else ""
    return f"backend {net.backend.name}{narrow}: {'; '.join(parts)}"


def not_enabled(choices: Iterable[Choice]) -> str:
    """Say in one line which installed kernels were not asked for, and how to enable them; "" where there are none."""
    things: dict[str, dict[str, None]] = {}
    for choice in choices:
        for offer, _ in choice.not_enabled:
            things.setdefault(str(offer.provenance), {})[choice.thing] = None
    told = "; ".join(f"{whose} for {listed(list(names))}" for whose, names in things.items())
    return f"kernels that are installed but not enabled: {told} (nacre plugins enable NAME)" if told else ""


def _copied_for(net: Net) -> list[str]:
    """Name the layers whose own code, which works in other memory than the kernels, makes copies necessary."""
    copied = {blob for blob, _, _ in net.schedule.copies}
    touching = [op for op in net.ops if copied & {value.name for value in (*op.inputs, *op.outputs)}]
    own = [op for op in touching if not op.kernel]
    work = [op for op in own if not op.is_source]
    return [op.name for op in work or own or touching]


def rows(described: dict[str, Any]) -> list[tuple[str, ...]]:
    """Give the cells of the table of layers, without its head."""
    table: list[tuple[str, ...]] = []
    for layer in described["layers"]:
        tops = ", ".join(
            f"{name} {'x'.join(map(str, shape))}" for name, shape in zip(layer["tops"], layer["shapes"], strict=True)
        )
        shared = f" (as {', '.join(layer['shared'])})" if layer["shared"] else ""
        count = f"{layer['parameters']:,}" if layer["parameters"] or not shared else ""
        kind = f"{layer['type']} + {layer['neuron']}" if layer["neuron"] else layer["type"]
        table.append((layer["name"], kind, tops, f"{count}{shared}".strip(), layer["kernel"] or "-"))
    return table


def totals(described: dict[str, Any]) -> list[str]:
    """Give the lines below the table: parameters and bytes."""
    count = described["bytes"]
    parts = [f"{described['parameters']:,} parameters"]
    if described["buffers"]:
        parts.append(f"{described['buffers']:,} numbers in buffers")
    return [
        ", ".join(parts),
        f"{size(count['total'])}: parameters {size(count['parameters'])}, gradients {size(count['gradients'])}, "
        f"blobs {size(count['blobs'])} ({size(count['blobs_unshared'])} if each had memory of its own; "
        f"{size(count['blobs_peak'])} live at one time)",
    ]


def head(net: Net) -> str:
    """Say in what a net computes, and on what."""
    narrow = f" computed in {net.compute_dtype}" if net.compute_dtype != net.dtype else ""
    return f"net '{net.name}' in phase {net.phase}, {net.dtype}{narrow} on {net.backend.name}"


def text(net: Net) -> str:
    """Give a net as text: one line for each layer, and the totals."""
    described = describe(net)
    return "\n".join([head(net), "", *align(HEAD, rows(described), right=(3,)), "", *totals(described)])
