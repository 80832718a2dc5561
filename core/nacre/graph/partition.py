"""Nets divided among ranks: from one graph to one a rank, with Slice, Split, Bridges and Concat where they are needed.

A layer is whole on one rank (its `partition_dim` is -1), or cut along the batch (0), or along its features (1). What
stands between a blob and its reader depends on how both are divided, and on whether a feature of the reader needs all
features of the blob (`one_to_all`) or one. This is the table of Apache SINGA 0.3 (`neuralnet.cc`,
`AddPartitionConnectionLayers`), and the rows with -1, which it had lost since 0.1:

| blob | reader | connection | what stands between |
|---|---|---|---|
| -1 | -1 | any | nothing; a bridge between two locations |
| -1 | 0, or 1 one to one | | Slice |
| -1 | 1 | one to all | Split |
| 0, 1 | -1 | any | Concat |
| 0 | 0 | any | nothing |
| 1 | 1 | one to one | nothing |
| 1 | 0 | any | Slice along the batch, Concat of the features |
| 0 | 1 | one to one | Slice along the features, Concat of the batch |
| 0, 1 | 1 | one to all | Split, Concat |

Every part that another rank reads crosses a bridge: a BridgeSrc where it was made, and a BridgeDst where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConfigError, TopologyError
from ..protocols.graph import Graph, Inside, Node
from ..protocols.layer import Layer
from ..protocols.part import BATCH, FEATURES, NONE, Box, Part, part_of
from .gradients import back_propagates

if TYPE_CHECKING:
    from .wiring import Wiring

CONNECTORS = ("slice", "concat", "copies", "bridge_src", "bridge_dst")
"""The layers that are inserted, by the names under which a plugin offers them: `layer_of` each."""


class Declared(NamedTuple):
    """The shape and the type of a blob of the whole net."""

    shape: tuple[int, ...]
    dtype: str


class Bridge(NamedTuple):
    """A blob that goes from one rank to another; with `gradient` its gradient comes back."""

    blob: str
    start: int
    end: int
    shape: tuple[int, ...]
    dtype: str
    gradient: bool

    @property
    def layers(self) -> tuple[str, str]:
        """The names of the BridgeSrc and the BridgeDst."""
        way = f"({self.blob}, {self.start}->{self.end})"
        return f"bridge_src{way}", f"bridge_dst{way}"


@dataclass(frozen=True)
class Partition:
    """A net divided among ranks: a graph for each, and the bridges between them, in the order in which data cross."""

    graphs: tuple[Graph, ...]
    bridges: tuple[Bridge, ...]


@dataclass(frozen=True)
class _Form:
    """How a blob lies on the ranks: divided by `dim`, or whole on rank `place`. Features are cut at `cuts` of `axis`.

    The axis is that of the features also where the blob is divided in another way.
    """

    dim: int
    axis: int
    place: int = 0
    cuts: tuple[int, ...] = ()


class _Need(NamedTuple):
    """What a layer needs of a blob: all of it on these ranks (`dim` -1), or on every rank its part along an axis."""

    dim: int
    axis: int
    ranks: tuple[int, ...]
    cuts: tuple[int, ...] = ()


def is_divided(nodes: Iterable[Node], default: int) -> bool:
    """Return whether a layer is not just divided by records, as where every rank runs the whole graph."""
    return any(_dim(node, default) != BATCH for node in nodes)


def partition(
    wiring: Wiring,
    declared: Sequence[Declared],
    wanted: Sequence[bool],
    parts: int,
    connectors: Mapping[str, type[Any]],
    default: int = BATCH,
) -> Partition:
    """Return the graphs of a net that is divided among ranks.

    Args:
        wiring: that of the whole net.
        declared: shape and type of each of its wires.
        wanted: for each wire whether its gradient is needed.
        parts: the number of ranks.
        connectors: the classes of `CONNECTORS`.
        default: how layers are divided that do not say it: -1, 0 or 1.

    Raises:
        ConfigError: a layer cannot be divided in this way; it names all of them.
        TopologyError: layers that share parameters are divided differently, or a rank has no layer.
    """
    dims, places = _dims(wiring, parts, default)
    divider = _Divider(wiring, declared, wanted, parts, connectors, dims, places)
    divider.run()
    for rank, nodes in enumerate(divider.nodes):
        if not nodes:
            raise TopologyError(
                f"of {parts} ranks number {rank} has no layer", "use fewer, or place a layer there (location)"
            )
    graphs = tuple(Graph(tuple(nodes)) for nodes in divider.nodes)
    return Partition(graphs, tuple(divider.bridges))


# How each layer is divided


def _said(node: Node, name: str) -> Any:
    """Return what a layer says of its division, or the innermost container around it that does; or None."""
    around = node.inside.containers if node.inside else ()
    return next((value for one in (node.user, *reversed(around)) if (value := getattr(one, name)) is not None), None)


def _dim(node: Node, default: int) -> int:
    dim = _said(node, "partition_dim")
    if dim is None:
        return default if _said(node, "location") is None else NONE
    return dim


def _dims(wiring: Wiring, parts: int, default: int) -> tuple[list[int], list[int]]:
    """Return for each node how it is divided, and its rank if it is not."""
    dims = [_dim(node, default) for node in wiring.nodes]
    given = [_said(node, "location") for node in wiring.nodes]
    complaints: dict[str, str] = {}  # by their names in the file, where each is once
    for node, dim, location in zip(wiring.nodes, dims, given, strict=True):
        if location is not None and dim != NONE:
            complaints[node.owner] = f"location={location}, but with partition_dim={dim} it is on every rank"
        elif (location or 0) >= parts:
            complaints[node.owner] = f"location={location}, but there are {parts} ranks, counted from 0"
    if complaints:
        raise ConfigError(_lines(complaints))
    places = [location or 0 for location in given]
    first: dict[str, int] = {}
    for index, node in enumerate(wiring.nodes):
        other = first.setdefault(node.key, index) if node.layer.has_param else index
        if (dims[other], places[other]) != (dims[index], places[index]):
            raise TopologyError(
                f"layers '{wiring.nodes[other].owner}' and '{node.owner}' share their parameters, but are divided "
                "differently among ranks",
                "give both the same partition_dim and location",
            )
    return dims, places


def _lines(complaints: Mapping[str, str]) -> str:
    return "\n".join(f"{layer}: {complaint}" for layer, complaint in complaints.items())


# The graphs


class _Divider:
    """Makes the graphs, layer by layer in the order of the whole net, so that no rank waits for one that waits for it.

    `names[wire, need]` has the name under which ranks have a blob in a form; the wire's own form has the blob's name.
    """

    def __init__(
        self,
        wiring: Wiring,
        declared: Sequence[Declared],
        wanted: Sequence[bool],
        parts: int,
        connectors: Mapping[str, type[Any]],
        dims: Sequence[int],
        places: Sequence[int],
    ) -> None:
        self.wiring, self.declared, self.wanted, self.parts = wiring, declared, wanted, parts
        self.connectors, self.dims, self.places = connectors, dims, places
        self.forms: dict[int, _Form] = {}
        self.own: dict[int, dict[int, str]] = {}  # wire -> rank -> its name in its own form
        self.brought: dict[tuple[int, _Need], dict[int, str]] = {}
        self.nodes: list[list[Node]] = [[] for _ in range(parts)]
        self.bridges: list[Bridge] = []
        self.cuts: dict[int, tuple[int, ...]] = {}  # node -> where its features are cut
        self.complaints: dict[str, str] = {}
        self.remedies: list[str] = []
        self.needs = [self._needs_of(index) for index in range(len(wiring.nodes))]
        if self.complaints:
            raise ConfigError(_lines(self.complaints), "; ".join(dict.fromkeys(self.remedies)))
        self.gradients = self._gradients()

    def run(self) -> None:
        for index, node in enumerate(self.wiring.nodes):
            bottoms = [
                self._bring(number, need)
                for number, need in zip(self.wiring.inputs[index], self.needs[index], strict=True)
            ]
            ranks = self._ranks(index)
            for rank in ranks:
                names = tuple(names[rank] for names in bottoms)
                tops = names if node.in_place else node.tops
                self.nodes[rank].append(self._node(index, rank, names, tops))
                for number, top in zip(self.wiring.outputs[index], tops, strict=True):
                    self.own.setdefault(number, {})[rank] = top

    def _ranks(self, index: int) -> range:
        place = self.places[index]
        return range(place, place + 1) if self.dims[index] == NONE else range(self.parts)

    def _node(self, index: int, rank: int, bottoms: tuple[str, ...], tops: tuple[str, ...]) -> Node:
        node, dim = self.wiring.nodes[index], self.dims[index]
        if (bottoms, tops) != (node.bottoms, node.tops):
            node = node.again(node.name, bottoms, tops)
        boxes = tuple(self._box(number, (self.forms[number], rank)) for number in self.wiring.outputs[index])
        if dim == NONE:
            return replace(node, part=Part(NONE, 0, 1, tops=boxes))
        part = Part(dim, rank, self.parts, tops=boxes)
        if dim == BATCH:
            shape = self.declared[[*self.wiring.outputs[index], *self.wiring.inputs[index]][0]].shape
            length, (start, stop) = shape[0], part_of(shape[0], rank, self.parts)
            if node.layer.is_source:
                node = replace(node, layer=node.layer.with_batch(stop - start))
        else:
            cuts = self.cuts[index]
            length, start, stop = cuts[-1], cuts[rank], cuts[rank + 1]
            node = replace(node, layer=node.layer.partition(rank, self.parts))
        return replace(node, part=replace(part, length=length, start=start, stop=stop))

    def _box(self, number: int, *divisions: tuple[_Form | _Need, int]) -> Box:
        """Return which box of a blob of the whole net lies in all of these parts: those of ranks in some form."""
        shape = self.declared[number].shape
        start, stop = [0] * len(shape), list(shape)
        for form, rank in divisions:
            if form.dim == BATCH:
                start[0], stop[0] = part_of(shape[0], rank, self.parts)
            elif form.dim == FEATURES:
                start[form.axis], stop[form.axis] = form.cuts[rank : rank + 2]
        return Box(shape, tuple(start), tuple(end - begin for begin, end in zip(start, stop, strict=True)))

    # What layers need, and what they make

    def _needs_of(self, index: int) -> list[_Need]:
        """Return what a layer needs of its bottoms, and note the forms of its tops."""
        node, dim = self.wiring.nodes[index], self.dims[index]
        inputs, outputs, every = self.wiring.inputs[index], self.wiring.outputs[index], tuple(range(self.parts))
        axis = self._axis(node, inputs, outputs)
        if dim == FEATURES:
            needs, cuts = self._feature_needs(index, axis)
        else:
            if dim == BATCH and (reason := self._why_not_by_records(index)):
                complaint = f"{reason}, so it cannot be divided by records (partition_dim=0)"
                self.complaints.setdefault(node.owner, complaint)
                self.remedies.append("set its partition_dim to -1: then it is whole on one rank")
            one = _Need(dim, 0, every if dim == BATCH else (self.places[index],))
            needs, cuts = [one] * len(inputs), dict[int, tuple[int, ...]]()
        for number in outputs:
            self.forms[number] = _Form(dim, axis.get(number, 1), self.places[index], cuts.get(number, ()))
        return needs

    def _axis(self, node: Node, inputs: Sequence[int], outputs: Sequence[int]) -> dict[int, int]:
        """Return the axis of the features for each top that has it."""
        axes: dict[int, int] = {}
        for number in outputs:
            count, axis = len(self.declared[number].shape), node.layer.feature_axis
            if axis is None:
                first = inputs[0] if inputs else number
                axis = self.forms[first].axis if inputs and len(self.declared[first].shape) == count else 1
            axes[number] = axis + count if axis < 0 else axis
        return axes

    def _why_not_by_records(self, index: int) -> str:
        node = self.wiring.nodes[index]
        inputs, outputs = self.wiring.inputs[index], self.wiring.outputs[index]
        if node.layer.needs_algorithm:
            return f"it is trained by {node.layer.needs_algorithm}"
        if reason := node.not_by_records():
            return reason
        if not inputs and not node.layer.is_source:
            return "its tops are made of no records"
        rows = {self.declared[number].shape[0] for number in (*inputs, *outputs) if self.declared[number].shape}
        if len(rows) > 1:
            return f"its blobs have {' and '.join(map(str, sorted(rows)))} rows"
        if min(rows, default=self.parts) < self.parts:
            return f"a batch of {min(rows)} records is too small for {self.parts} ranks"
        return ""

    def _feature_needs(self, index: int, axis: Mapping[int, int]) -> tuple[list[_Need], dict[int, tuple[int, ...]]]:
        """Return what a layer that is cut along its features needs, and where its tops are cut."""
        node, inputs = self.wiring.nodes[index], self.wiring.inputs[index]
        try:
            node.layer.partition(0, self.parts)
            needs, cuts = self._cut(node, inputs, self.wiring.outputs[index], axis)
        except ConfigError as error:
            self.complaints.setdefault(node.owner, str(error.args[0]).removeprefix(f"{node.layer.name}: "))
            self.remedies += [error.remedy] if error.remedy else []
            everything = _Need(NONE, 0, tuple(range(self.parts)))
            return [everything] * len(inputs), {}
        every = [*cuts.values(), *(need.cuts for need in needs if need.cuts), tuple(range(self.parts + 1))]
        self.cuts[index] = every[0]
        return needs, cuts

    def _cut(
        self, node: Node, inputs: Sequence[int], outputs: Sequence[int], axis: Mapping[int, int]
    ) -> tuple[list[_Need], dict[int, tuple[int, ...]]]:
        every, connection = tuple(range(self.parts)), node.layer.connection
        needs: list[_Need] = []
        leads: list[_Need] = []  # the bottoms that are cut as the tops are
        for position, number in enumerate(inputs):
            if connection[min(position, len(connection) - 1)] == "one_to_all":
                needs.append(_Need(NONE, 0, every))
                continue
            form, shape = self.forms[number], self.declared[number].shape
            own = node.layer.feature_axis
            along = form.axis if own is None else own + len(shape) if own < 0 else own
            if form.dim == FEATURES and form.axis != along:
                raise ConfigError(
                    f"blob '{self._name(number)}' is cut along axis {form.axis}, but must be along {along}"
                )
            cuts = form.cuts if form.dim == FEATURES and form.cuts else self._even(number, along)
            needs.append(_Need(FEATURES, along, every, cuts))
            leads.append(needs[-1])
        in_pairs = len(leads) == len(inputs) == len(outputs)  # a top for each bottom
        if not in_pairs and len(different := {one.cuts for one in leads}) > 1:
            raise ConfigError(f"its bottoms are cut differently, at {' and '.join(map(str, different))}")
        made: dict[int, tuple[int, ...]] = {}
        for place, number in enumerate(outputs):
            if not leads:
                made[number] = self._even(number, axis[number])
                continue
            lead = leads[place if in_pairs else 0]
            length, whole = self.declared[number].shape[axis[number]], lead.cuts[-1]
            if length % whole:
                raise ConfigError(f"it makes {length} features of {whole}, which cannot be cut alike")
            made[number] = tuple(cut * (length // whole) for cut in lead.cuts)
        return needs, made

    def _even(self, number: int, axis: int) -> tuple[int, ...]:
        """Return where a blob is cut into nearly equal parts along an axis."""
        shape = self.declared[number].shape
        if not 0 < axis < len(shape):
            raise ConfigError(f"blob '{self._name(number)}' of shape {shape} has no features to cut")
        if shape[axis] < self.parts:
            raise ConfigError(
                f"the {shape[axis]} features of blob '{self._name(number)}' cannot be cut into {self.parts} parts",
                "use fewer ranks, or set the partition_dim of its layer to 0 (by records) or -1 (not at all)",
            )
        return tuple(part_of(shape[axis], part, self.parts)[0] for part in range(self.parts + 1))

    def _name(self, number: int) -> str:
        return self.wiring.wires[number].name

    def _gradients(self) -> dict[tuple[int, _Need], bool]:
        """Return for each need whether the gradient of what is brought comes back."""
        found: dict[tuple[int, _Need], bool] = {}
        for index, node in enumerate(self.wiring.nodes):
            going = back_propagates(self.wiring, self.wanted, index)
            for position, (number, need) in enumerate(zip(self.wiring.inputs[index], self.needs[index], strict=True)):
                back = going and self.wanted[number] and position not in node.without_gradient
                found[number, need] = found.get((number, need), False) or back
        return found

    # What stands between a blob and its readers

    def _bring(self, number: int, need: _Need) -> dict[int, str]:
        """Return the name of a blob, in the form that is needed, on every rank that needs it."""
        form, own = self.forms[number], self.own[number]
        fits = need.dim == NONE and form.dim == NONE and need.ranks == (form.place,)
        if fits or (need.dim == form.dim != NONE):
            return own
        if (number, need) not in self.brought:
            self.brought[number, need] = self._connect(number, need)
        return self.brought[number, need]

    def _connect(self, number: int, need: _Need) -> dict[int, str]:
        """Insert what makes a blob available in another form: Slice or Split, bridges, Concat."""
        form, own, blob = self.forms[number], self.own[number], self._title(number)
        holders = tuple(own)
        what = f"{blob}@{self._called(form, need)}"
        gradient = self.gradients[number, need]
        names: dict[int, str] = {}
        pieces: dict[tuple[int, int], str] = {}  # (from, to) -> name where it was made
        for holder in holders:
            if need.dim == NONE and len(need.ranks) == 1:
                pieces[holder, need.ranks[0]] = own[holder]
                continue
            tops = tuple(what if len(holders) == 1 and rank == holder else f"{what}[{rank}]" for rank in need.ranks)
            pieces |= {(holder, rank): top for rank, top in zip(need.ranks, tops, strict=True)}
            boxes = tuple(self._box(number, (form, holder), (need, rank)) for rank in need.ranks)
            if need.dim == NONE:
                self._insert(holder, "copies", f"split({what})", (own[holder],), tops, boxes)
            else:
                points = tuple(self._box(number, (need, rank)).start[need.axis] for rank in need.ranks[1:])
                fields = {"axis": need.axis, "points": points}
                self._insert(holder, "slice", f"slice({what})", (own[holder],), tops, boxes, **fields)
        for rank in need.ranks:
            parts = [
                self._cross(number, need, piece, holder, rank, gradient, what if len(holders) == 1 else "")
                for (holder, end), piece in pieces.items()
                if end == rank
            ]
            if len(holders) == 1:
                names[rank] = parts[0]
                continue
            axis = form.axis if form.dim == FEATURES else 0
            boxes = (self._box(number, (need, rank)),)
            self._insert(rank, "concat", f"concat({what})", tuple(parts), (what,), boxes, axis=axis)
            names[rank] = what
        return names

    @staticmethod
    def _called(form: _Form, need: _Need) -> str:
        """Return what a form is called in the names of blobs."""
        if need.dim == NONE:
            return "whole" if len(need.ranks) == 1 else "all"
        return "rows" if need.dim == BATCH else "features" if need.axis == form.axis else f"features{need.axis}"

    def _title(self, number: int) -> str:
        """Return the name of a blob, with a mark for each version before it that an in-place layer has changed."""
        wires = self.wiring.wires
        return self._name(number) + "'" * sum(one.name == wires[number].name for one in wires[:number])

    def _cross(self, number: int, need: _Need, piece: str, start: int, end: int, gradient: bool, name: str) -> str:
        """Insert the bridge over which a piece goes to another rank; return its name there."""
        if start == end:
            return piece
        name = name or f"{piece} of {start}"
        box, dtype = self._box(number, (self.forms[number], start), (need, end)), self.declared[number].dtype
        bridge = Bridge(piece, start, end, box.shape, dtype, gradient)
        src, dst = bridge.layers
        self._insert(start, "bridge_src", src, (piece,), (), (), peer=end, gradient=gradient)
        blob = {"shape": box.shape, "dtype": dtype}
        self._insert(end, "bridge_dst", dst, (), (name,), (box,), peer=start, gradient=gradient, **blob)
        self.bridges.append(bridge)
        return name

    def _insert(
        self,
        rank: int,
        kind: str,
        name: str,
        bottoms: tuple[str, ...],
        tops: tuple[str, ...],
        boxes: tuple[Box, ...],
        **fields: Any,
    ) -> None:
        """Add a layer that moves blobs to a rank's graph; `boxes` are those of its tops."""
        own = {
            "bottoms": [f"bottom{n}" for n in range(len(bottoms))],
            "tops": [f"top{n}" for n in range(len(tops))],
        }
        made: Layer = self.connectors[kind](name=kind, **own, **fields)
        inside = Inside((), name, bottoms, tops, name, name)
        self.nodes[rank].append(Node(made, made, inside, Part(NONE, 0, 1, inserted=True, tops=boxes)))
