"""A net as data and as text: its layers, shapes, parameters, kernels and bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from numbers import Integral
from typing import Any, ClassVar, cast

from ..discovery.blame import blaming, wrong
from ..discovery.fitting import required
from ..discovery.kernels import Choice
from ..engine.ops import Op, item_size, members, value_bytes
from ..engine.schedule import Schedule
from ..engine.target import Target
from ..errors import ConfigError, brief
from ..fields.component import Component
from ..fields.tables import type_name
from ..graph.partition import Bridge
from ..graph.wiring import Wiring, sorted_by
from ..protocols.graph import Node
from ..protocols.layer import Layer, is_identity
from ..text import align, listed, screen_width, short, size, with_containers

Curve = tuple[Sequence[float], Sequence[float]]
"""The iterations and the values of a curve."""


@dataclass(frozen=True)
class LayerSummary:
    """One layer of a net; `shapes` are those of its tops, `shared` the layers whose parameters it uses.

    `kernel` is the class of its kernel, or None if its own state runs. For drawings, `role` is source, loss or "", and
    `containers` has the types of the containers around it, the outermost first; its name has theirs in front.

    `parameters` counts what it learns, and `buffers` the other numbers that it keeps; `frozen` is true if it learns
    none of its parameters. `multiplications` are those of forward for a batch, None if they are not known, and `bytes`
    those of its tops, intermediates, parameters and buffers, though blobs may share memory, and of what it has made
    itself, once the net has memory. `details` are fields such as its kernel; `rank` is that of its process, where the
    summary is of several.
    """

    name: str
    type: str
    neuron: str | None
    bottoms: list[str]
    tops: list[str]
    shapes: list[list[int]]
    parameters: int
    shared: list[str]
    kernel: str | None
    role: str = ""
    containers: tuple[str, ...] = ()
    buffers: int = 0
    frozen: bool = False
    multiplications: int | None = None
    bytes: int = 0
    details: str = ""
    rank: int | None = None

    def group(self, depth: int) -> str:
        """Return the name of the container around it at a depth, or its own if there is none."""
        return "/".join(self.name.split("/")[:depth])


@dataclass(frozen=True)
class BlobSummary:
    """One version of a blob: the layer that writes it and those that read it, by their indices among the layers.

    With `bridge` it goes from one rank to another.
    """

    name: str
    shape: tuple[int, ...]
    producer: int
    consumers: tuple[int, ...]
    bridge: bool = False


@dataclass(frozen=True)
class NetSummary:
    """All facts about a net, for people and for programs; printed, it is a table.

    `parameters`, `frozen` ones among them, and `buffers` count numbers, `bytes` is divided by purpose: "blobs" are
    intermediates too, and "own" are the arrays that layers have made themselves, once the net has memory. `copied_for`
    has the names of the layers whose own code makes copies between memories necessary.
    """

    HEAD: ClassVar[tuple[str, ...]] = ("layer", "type", "tops", "parameters", "buffers", "products", "memory")
    """The head of the table of layers; products are multiplications."""
    RIGHT: ClassVar[tuple[int, ...]] = (3, 4, 5, 6)
    """The indices of its columns with numbers."""

    name: str
    phase: str
    backend: str
    dtype: str
    compute: str
    layers: tuple[LayerSummary, ...]
    blobs: tuple[BlobSummary, ...]
    parameters: int
    buffers: int
    bytes: Mapping[str, int]
    copies: int
    copied_for: tuple[str, ...]
    frozen: int = 0

    def describe(self) -> dict[str, Any]:
        """Return the summary as data for JSON."""
        described = asdict(self)
        for key in ("blobs", "copied_for"):
            del described[key]
        described["layers"] = [
            {key: value for key, value in one.items() if key not in ("role", "containers", "rank")}
            for one in described["layers"]
        ]
        return described

    def at_depth(self, depth: int) -> NetSummary:
        """Return a summary in which containers deeper than `depth` are one layer each; 1 shows the net's own layers."""
        groups: dict[str, list[int]] = {}
        for index, layer in enumerate(self.layers):
            groups.setdefault(layer.group(depth), []).append(index)
        place = {index: number for number, members in enumerate(groups.values()) for index in members}
        blobs: list[BlobSummary] = []
        for blob in self.blobs:
            producer = place[blob.producer]
            consumers = tuple(dict.fromkeys(place[index] for index in blob.consumers if place[index] != producer))
            if consumers or not blob.consumers:
                blobs.append(replace(blob, producer=producer, consumers=consumers))
        layers = tuple(
            self.layers[members[0]] if len(self.layers[members[0]].containers) < depth else self._joined(name, members)
            for name, members in groups.items()
        )
        return replace(self, layers=layers, blobs=tuple(blobs))

    def _joined(self, name: str, members: Sequence[int]) -> LayerSummary:
        """Return the summary of a container from those of the layers that it is made of."""
        own, depth = [self.layers[index] for index in members], name.count("/")

        def outside(blobs: Iterable[str]) -> list[str]:
            return [blob for blob in dict.fromkeys(blobs) if name not in with_containers(blob)[1:]]

        shapes = {top: shape for one in own for top, shape in zip(one.tops, one.shapes, strict=True)}
        tops, served = outside(shapes), sum(one.kernel is not None for one in own)
        return LayerSummary(
            name,
            own[0].containers[depth],
            None,
            [blob for blob in outside(blob for one in own for blob in one.bottoms) if blob not in tops],
            tops,
            [shapes[top] for top in tops],
            sum(one.parameters for one in own),
            sorted({other for one in own for other in one.shared if name not in with_containers(other)}),
            f"{served} of {len(own)}",
            "loss" if any(one.role == "loss" for one in own) else "",
            own[0].containers[:depth],
            sum(one.buffers for one in own),
            all(one.frozen for one in own if one.parameters) and any(one.frozen for one in own),
            _sum_known(one.multiplications for one in own),
            sum(one.bytes for one in own),
        )

    def first_line(self) -> str:
        """Return one line about how a net runs: its backend, the layers without kernels, and the copies."""
        work = [layer for layer in self.layers if layer.role != "source"]
        own = [layer.name for layer in work if layer.kernel is None]
        parts = [f"{len(work) - len(own)} of {len(work)} layers run through kernels made for it"]
        if own:
            parts.append(f"{listed(own)} through {'its' if len(own) == 1 else 'their'} general code")
        if self.copies:
            copies = "1 copy" if self.copies == 1 else f"{self.copies} copies"
            parts.append(f"{copies} per step for {listed(self.copied_for)}")
        narrow = f" in {self.compute}" if self.compute != self.dtype else ""
        return f"backend {self.backend}{narrow}: {'; '.join(parts)}"

    def head(self) -> str:
        """Return the line above the table: the net's phase, types and backend."""
        narrow = f" computed in {self.compute}" if self.compute != self.dtype else ""
        return f"net '{self.name}' in phase {self.phase}, {self.dtype}{narrow} on {self.backend}"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of the table of layers, without its head."""
        return [_row(layer) for layer in self.layers]

    def table(self) -> tuple[list[str], list[list[str]], list[int]]:
        """Return the head and the rows of the table of layers, and its columns with numbers; none of these is empty."""
        rows = self.rows()
        kept = [one for one in range(len(self.HEAD)) if one not in self.RIGHT or any(row[one] for row in rows)]
        return (
            [self.HEAD[one] for one in kept],
            [[row[one] for one in kept] for row in rows],
            [number for number, one in enumerate(kept) if one in self.RIGHT],
        )

    def totals(self) -> list[str]:
        """Return the lines below the table: parameters and bytes."""
        count = self.bytes
        parts = [f"{self.parameters:,} parameters"]
        if self.frozen:
            parts[0] += f" ({self.frozen:,} frozen)"
        if self.buffers:
            parts.append(f"{self.buffers:,} numbers in buffers")
        if known := _sum_known(layer.multiplications for layer in self.layers):
            parts.append(f"{short(known)} multiplications forward for a batch")
        return [
            ", ".join(parts),
            f"{size(count['total'])}: parameters {size(count['parameters'])}, gradients {size(count['gradients'])}, "
            f"blobs {size(count['blobs'])}" + (f", layers' own arrays {size(count['own'])}" if count["own"] else ""),
            f"(blobs: {size(count['blobs_unshared'])} without shared memory; "
            f"{size(count['blobs_peak'])} in use at the same time)",
        ]

    def html(self) -> str:
        """Return the same text for notebooks: a line, a table, and the lines below it."""

        def row(cells: Sequence[str], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

        head, rows, _ = self.table()
        table = "".join([row(head, "th"), *(row(cells, "td") for cells in rows)])
        below = "<br/>".join(map(escape, self.totals()))
        return f"<p>{escape(self.head())}</p><table>{table}</table><p>{below}</p>"

    _repr_html_ = html

    def __str__(self) -> str:
        return "\n".join([self.head(), "", *align(*self.table(), screen_width()), "", *self.totals()])


class Drawing(Component, kind="drawing"):
    """Draws a net; it is offered under the ending of its files: `{"drawing": {"svg": "nacre_curves:Svg"}}`.

    Notebooks show a net with the drawing `svg`. What can only draw nets defines `draw` alone.
    """

    @required()
    def draw(self, net: NetSummary) -> str | bytes:
        """Return the text or the bytes of the file."""
        raise NotImplementedError

    def draw_matrix(self, title: str, classes: Sequence[str], matrix: Sequence[Sequence[float]]) -> str | bytes:
        """Return a file with a confusion matrix: rows are the classes of labels, columns what these were taken for."""
        raise self._only_nets("matrices")

    def draw_curves(self, title: str, panels: Mapping[str, Mapping[str, Curve]]) -> str | bytes:
        """Return a file with curves over the iterations: {panel: {name: ([iteration, ...], [value, ...])}}."""
        raise self._only_nets("curves")

    def _only_nets(self, what: str) -> ConfigError:
        return ConfigError(f"{type(self).__name__} draws nets, but no {what}", "use the ending .svg or .png")


def of_ranks(summaries: Sequence[NetSummary], bridges: Iterable[Bridge]) -> NetSummary:
    """Return one summary of a net on all its ranks: a layer of rank 1 is called "conv1@1", and bridges are blobs."""
    layers: list[LayerSummary] = []
    blobs: list[BlobSummary] = []
    for rank, one in enumerate(summaries):
        before = len(layers)
        layers += [replace(layer, name=_on_rank(layer.name, rank), rank=rank) for layer in one.layers]
        blobs += [
            replace(
                blob,
                producer=blob.producer + before,
                consumers=tuple(consumer + before for consumer in blob.consumers),
            )
            for blob in one.blobs
        ]
    place = {layer.name: index for index, layer in enumerate(layers)}
    for bridge in bridges:
        ends = [
            place[_on_rank(name, rank)] for name, rank in zip(bridge.layers, (bridge.start, bridge.end), strict=True)
        ]
        blobs.append(BlobSummary(bridge.blob, bridge.shape, ends[0], (ends[1],), bridge=True))
    producers: list[set[int]] = [set() for _ in layers]
    for blob in blobs:
        for consumer in blob.consumers:
            producers[consumer].add(blob.producer)
    order = sorted_by(producers)
    place_of = {index: number for number, index in enumerate(order)}
    blobs = [
        replace(blob, producer=place_of[blob.producer], consumers=tuple(place_of[one] for one in blob.consumers))
        for blob in blobs
    ]
    first = summaries[0]
    return replace(
        first,
        layers=tuple(layers[index] for index in order),
        blobs=tuple(blobs),
        parameters=sum(one.parameters for one in summaries),
        buffers=sum(one.buffers for one in summaries),
        frozen=sum(one.frozen for one in summaries),
        bytes={key: sum(one.bytes[key] for one in summaries) for key in first.bytes},
        copies=sum(one.copies for one in summaries),
        copied_for=tuple(dict.fromkeys(name for one in summaries for name in one.copied_for)),
    )


def _on_rank(name: str, rank: int) -> str:
    """Return the name of a layer of one rank among those of all; containers differ from rank to rank, too."""
    first, slash, rest = name.partition("/")
    return f"{first}@{rank}{slash}{rest}"


def _row(layer: LayerSummary) -> tuple[str, ...]:
    container = layer.name[: layer.name.rfind("/") + 1]
    tops = ", ".join(
        f"{name.removeprefix(container)} {'x'.join(map(str, shape))}"
        for name, shape in zip(layer.tops, layer.shapes, strict=True)
    )
    shared = f" (as {', '.join(layer.shared)})" if layer.shared else ""
    count = f"{layer.parameters:,}" if layer.parameters else ""
    kind = f"{layer.type} + {layer.neuron}" if layer.neuron else layer.type
    return (
        layer.name,
        f"{kind} (frozen)" if layer.frozen else kind,
        tops,
        f"{count}{shared}".strip(),
        f"{layer.buffers:,}" if layer.buffers else "",
        "" if layer.multiplications is None else short(layer.multiplications),
        size(layer.bytes),
    )


def _sum_known(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the numbers that are known; None if none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def summarise(name: str, target: Target, wiring: Wiring, schedule: Schedule, *, trains: bool) -> NetSummary:
    """Return the summary of a net; nothing is allocated for it."""
    ops = {op.name: op for op in members(schedule.ops) if op.neuron is None}
    at_work = [ops[node.name] for node in wiring.nodes]
    trainable = sum(slot.storage.size for slot in schedule.slots if slot.trainable)
    buffers = sum(slot.storage.size for slot in schedule.slots if not slot.trainable)
    blobs = schedule.memory.planned_bytes()
    counted = {
        "parameters": (trainable + buffers) * item_size(target.dtype),
        "gradients": trainable * item_size(target.dtype) if trains else 0,
        "blobs": blobs["planned"],
        "own": sum(op.made for op in schedule.ops),
        "blobs_unshared": blobs["blobs"],
        "blobs_peak": blobs["peak"],
    }
    counted["total"] = sum(counted[one] for one in ("parameters", "gradients", "blobs", "own"))
    written = {id(value) for value in schedule.memory.values}  # not those between layers that one kernel computes
    return NetSummary(
        name,
        target.phase,
        target.backend.name,
        target.dtype,
        target.compute,
        tuple(_summarise_layer(node, op, schedule, written) for node, op in zip(wiring.nodes, at_work, strict=True)),
        tuple(
            BlobSummary(
                wire.name,
                at_work[wire.producer].outputs[wire.top].shape,
                wire.producer,
                tuple(consumer for consumer, _ in wire.consumers),
            )
            for wire in wiring.wires
        ),
        trainable,
        buffers,
        counted,
        len(schedule.copies),
        _copied_for(schedule),
        sum(slot.storage.size for slot in schedule.slots if slot.trainable and slot.frozen),
    )


def _summarise_layer(node: Node, op: Op, schedule: Schedule, written: Collection[int]) -> LayerSummary:
    layer, kind = node.user, type_name(type(node.user))
    neuron = getattr(layer, "neuron", None) if layer.has_neuron else None
    neuron = "" if neuron is None or is_identity(neuron) else repr(neuron).removesuffix("()")
    used = [slot for slot, _ in schedule.parameters[op]]
    own = {slot.name: slot for slot in used if slot.uses[0].op is op}.values()
    trainable = [slot for slot in own if slot.trainable]
    counts = [sum(slot.storage.size for slot in some) for some in (own, trainable)]
    aliases = {id(value) for _, value in op.aliases}
    tops = [value for value in op.outputs if id(value) in written and not (op.in_place or id(value) in aliases)]
    shapes = [[tuple(value.shape) for value in values] for values in (op.inputs, op.outputs)]
    parameters = {one.name: tuple(one.shape) for one in op.state.parameters}
    return LayerSummary(
        node.name,
        kind,
        neuron or None,
        list(node.bottoms),
        list(node.tops),
        [list(value.shape) for value in op.outputs],
        counts[1],
        sorted({slot.layer for slot in used if slot.uses[0].op is not op}),
        type(op.state).__name__ if op.kernel else None,
        "source" if node.layer.is_source else "loss" if node.layer.has_loss else "",
        () if node.inside is None else tuple(type_name(type(one)) for one in node.inside.containers),
        counts[0] - counts[1],
        bool(trainable) and all(slot.frozen for slot in trainable),
        _multiplications(node.layer, shapes[0], shapes[1], parameters),
        sum(map(value_bytes, [*tops, *op.intermediates]))
        + sum(slot.storage.size * item_size(slot.storage.dtype) for slot in own)
        + op.made,
        _details(layer),
    )


def _multiplications(layer: Layer, *shapes: Any) -> int | None:
    with blaming(layer):
        found: Any = layer.multiplications(*shapes)
    if found is not None and not isinstance(found, Integral):
        raise wrong(layer, f"multiplications returned {brief(found)}, but it must return a whole number, or None")
    return None if found is None else int(found)


def _details(layer: Layer) -> str:
    """Return the fields that a drawing shows: "Max, kernel 2, stride 2"; numbers only if they are not the defaults."""
    parts: list[str] = []
    for name in layer.shown:
        value = getattr(layer, name)
        field = next(field for field in type(layer).fields() if field.name == name)
        if isinstance(value, Component):
            parts.append(type_name(type(value)))
        elif isinstance(value, str):
            parts.append(value)
        elif field.required or value != field.convert(field.default):
            several = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
            parts.append(f"{name} {'×'.join(map(str, several if len({*several}) > 1 else several[:1]))}")
    return ", ".join(parts)


def _copied_for(schedule: Schedule) -> tuple[str, ...]:
    """Return the layers that make copies necessary, because their own code and the kernels use different memory."""
    copied = {blob for blob, _, _ in schedule.copies}
    touching = [op for op in schedule.ops if copied & {value.name for value in (*op.inputs, *op.outputs)}]
    own = [op for op in touching if not op.kernel]
    work = [op for op in own if not op.is_source]
    return tuple(op.name for op in work or own or touching)


def broken(choices: Iterable[Choice]) -> list[str]:
    """Return a sentence about each kernel that would be asked, but cannot be opened, or is none."""
    found = [reason for one in choices for offer, reason in one.declined if offer in one.broken]
    return list(dict.fromkeys(found))


def not_enabled(choices: Iterable[Choice]) -> str:
    """Return one line about installed kernels that are not enabled, and how to enable them; "" if there are none."""
    things: dict[str, dict[str, None]] = {}
    for choice in choices:
        for offer, _ in choice.not_enabled:
            things.setdefault(str(offer.provenance), {})[choice.thing] = None
    found = "; ".join(f"{whose} for {listed(list(names))}" for whose, names in things.items())
    return f"kernels that are installed but not enabled: {found} (nacre plugins enable NAME)" if found else ""
