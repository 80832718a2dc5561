"""Drawings of a net, as dot for GraphViz and as SVG: layers are boxes, blobs are lines.

The SVG's layout is that of Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system
structures", 1981), simplified: a layer is one rank below the lowest layer that it reads, a source directly above its
first reader; a blob that passes a rank gets a place in it; the places of a rank are ordered by the mean of their
neighbours, and then moved towards it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from nacre import BlobSummary, Curve, Drawing, LayerSummary, NetSummary

from .curves import curves_svg
from .matrix import matrix_svg
from .raster import png
from .svg import document, text

SWEEPS = 12
CHARACTER = 6.7  # mean width of a character of 12 pixels, in pixels
MARGIN, BETWEEN, BOX_HEIGHT, RANK_HEIGHT = 24.0, 28.0, 58.0, 110.0
LABEL_HEIGHT = 13.0
AROUND = 16.0  # from the layers in a container to the box around them
EDGE = "#999999"
LINE_WIDTH = 14.0  # free space for a passing line
COLOURS = {
    "source": ("#e8f1fb", "#3b6ea5"),
    "loss": ("#fbe9e7", "#b4503c"),
    "parameters": ("#eef6ea", "#4f7f3a"),
    "other": ("#f5f5f5", "#777777"),
}
OF_RANKS = (
    ("#fdeaea", "#c0392b"),
    ("#e8f1fb", "#2f6db0"),
    ("#eef6ea", "#4f7f3a"),
    ("#fdf3dc", "#b9770e"),
    ("#f3eafa", "#7d3c98"),
    ("#e3f5f3", "#138d75"),
    ("#f5eee6", "#7e5109"),
    ("#eceff4", "#34495e"),
)
"""The colours of the layers of a rank, where a net is drawn on several; the ninth has those of the first."""


@dataclass(eq=False)
class Box:
    """A place in a rank: a layer's box, or the point where a line passes (no `title`) or ends (no `subtitle`).

    `x`, `y` is its middle; `left` and `right` are the free space that it needs on both sides of the middle. `storey` is
    the height of a rank, and `top` that above the first. `containers` are those around it: (name, title).
    """

    rank: int
    title: str = ""
    subtitle: str = ""
    details: str = ""
    colour: str = "other"
    left: float = LINE_WIDTH / 2
    right: float = LINE_WIDTH / 2
    width: float = 0.0
    x: float = 0.0
    top: float = MARGIN
    storey: float = RANK_HEIGHT
    containers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    above: list[Box] = field(default_factory=list["Box"])
    below: list[Box] = field(default_factory=list["Box"])

    @property
    def y(self) -> float:
        return self.top + BOX_HEIGHT / 2 + self.rank * self.storey


@dataclass(eq=False)
class Line:
    """The line of one version of a blob from a layer to another, and the places on its way."""

    blob: str
    label: str
    places: list[Box]
    bridge: bool = False


class Dot(Drawing):
    """A drawing for GraphViz, in files with the ending dot or gv."""

    def draw(self, net: NetSummary) -> str:
        return dot(net)


class Svg(Drawing):
    """A drawing as SVG, for browsers and notebooks."""

    def draw(self, net: NetSummary) -> str:
        return svg(net)

    def draw_matrix(self, title: str, classes: Sequence[str], matrix: Sequence[Sequence[float]]) -> str:
        return matrix_svg(title, classes, matrix)

    def draw_curves(self, title: str, panels: Mapping[str, Mapping[str, Curve]]) -> str:
        return curves_svg(title, panels)


class Png(Drawing):
    """A drawing as PNG, made of the SVG by Pillow."""

    def draw(self, net: NetSummary) -> bytes:
        return png(svg(net))

    def draw_matrix(self, title: str, classes: Sequence[str], matrix: Sequence[Sequence[float]]) -> bytes:
        return png(matrix_svg(title, classes, matrix))

    def draw_curves(self, title: str, panels: Mapping[str, Mapping[str, Curve]]) -> bytes:
        return png(curves_svg(title, panels))


def dot(net: NetSummary) -> str:
    """Return a net as text for GraphViz."""
    lines = [f"digraph {json.dumps(net.name)} {{", '  node [shape=box, style="rounded,filled", fontname="sans-serif"]']
    lines.append('  edge [fontname="sans-serif", fontsize=10]')
    lines += _dot_boxes(net.layers, 0)
    for blob in net.blobs:
        label = json.dumps(f"{blob.name}\n{_shape(blob)}", ensure_ascii=False)
        producer = json.dumps(net.layers[blob.producer].name)
        for consumer in blob.consumers:
            style = ", style=dashed" if blob.bridge else ""
            lines.append(f"  {producer} -> {json.dumps(net.layers[consumer].name)} [label={label}{style}]")
        if not blob.consumers:
            end = json.dumps(f"blob {blob.name}")
            lines += [f"  {end} [shape=plaintext, style=solid, label={label}]", f"  {producer} -> {end}"]
    return "\n".join([*lines, "}", ""])


def _dot_boxes(layers: Sequence[LayerSummary], depth: int) -> list[str]:
    """Return the boxes of layers, and around those of each container at this depth a box."""
    groups: dict[str, list[LayerSummary]] = {}
    for layer in layers:
        groups.setdefault(layer.group(depth + 1), []).append(layer)
    indent, lines = "  " * (depth + 1), list[str]()
    for name, members in groups.items():
        layer = members[0]
        if len(layer.containers) > depth:
            label = json.dumps(_container_title(name, layer.containers[depth]), ensure_ascii=False)
            lines.append(f"{indent}subgraph {json.dumps(f'cluster {name}')} {{")
            lines.append(f'{indent}  label={label}; labeljust=l; style=rounded; color="{EDGE}"; fontname="sans-serif"')
            lines += [*_dot_boxes(members, depth + 1), f"{indent}}}"]
        else:
            fill, edge = _colours(_colour(layer))
            words = [_own_name(layer), _subtitle(layer), *([layer.details] if layer.details else [])]
            label = json.dumps("\n".join(words), ensure_ascii=False)
            lines.append(f'{indent}{json.dumps(layer.name)} [label={label}, fillcolor="{fill}", color="{edge}"]')
    return lines


def svg(net: NetSummary) -> str:
    """Return a net as SVG, for browsers and notebooks."""
    boxes, lines = _places(net)
    ranks: list[list[Box]] = [[] for _ in range(max((box.rank for box in boxes), default=0) + 1)]
    for box in boxes:
        ranks[box.rank].append(box)
    _order(ranks)
    _pull(ranks)
    width = max((box.x + box.right for box in boxes), default=0.0) + MARGIN
    last = Box(len(ranks) - 1) if not boxes else replace(boxes[0], rank=len(ranks) - 1)
    height = last.y + BOX_HEIGHT / 2 + last.top
    parts = [
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0.5 L8 4 L0 7.5 z" fill="#555"/></marker></defs>',
    ]
    parts += _draw_containers(boxes)
    parts += _draw_lines(lines)
    parts += [_draw_box(box) for box in boxes if box.title and box.subtitle]
    return document(f"{net.name}, {net.phase}", width, height, parts)


# From the net to places


def _places(net: NetSummary) -> tuple[list[Box], list[Line]]:
    """Return the boxes with their ranks, the places where lines pass ranks, and the lines."""
    boxes: list[Box] = []
    producers: list[list[int]] = [[] for _ in net.layers]
    readers: list[list[int]] = [[] for _ in net.layers]
    for blob in net.blobs:
        readers[blob.producer] += blob.consumers
        for consumer in blob.consumers:
            producers[consumer].append(blob.producer)
    for index, layer in enumerate(net.layers):
        rank = max((boxes[producer].rank + 1 for producer in producers[index]), default=0)
        box = Box(rank, _own_name(layer), _subtitle(layer), layer.details, _colour(layer))
        box.containers = [
            (layer.group(depth), _container_title(layer.group(depth), kind))
            for depth, kind in enumerate(layer.containers, start=1)
        ]
        box.width = max(len(box.title), len(box.subtitle), len(box.details)) * CHARACTER + 24
        box.left = box.right = box.width / 2 + AROUND * len(layer.containers)
        boxes.append(box)
    for index, box in enumerate(boxes):
        if not producers[index] and readers[index]:
            box.rank = min(boxes[reader].rank for reader in readers[index]) - 1
    lines: list[Line] = []
    passing: list[Box] = []
    joined: set[tuple[int, int]] = set()
    for blob in net.blobs:
        label = f"{blob.name} {_shape(blob)}"
        start = boxes[blob.producer]
        ends = [boxes[consumer] for consumer in blob.consumers]
        if not ends:  # no layer reads it: its name is at the end of its line
            ends = [Box(start.rank + 1, blob.name)]
            passing += ends
        trunk = [Box(rank) for rank in range(start.rank + 1, max(end.rank for end in ends))]
        passing += trunk
        for end in ends:
            line = Line(blob.name, label, [start, *trunk[: end.rank - start.rank - 1], end], blob.bridge)
            for one, other in pairwise(line.places):
                if (id(one), id(other)) not in joined:
                    joined.add((id(one), id(other)))
                    one.below.append(other)
                    other.above.append(one)
            lines.append(line)
    _make_room(lines)
    deepest = max((len(layer.containers) for layer in net.layers), default=0)
    for box in boxes + passing:
        box.top, box.storey = MARGIN + AROUND * deepest, RANK_HEIGHT + 2 * AROUND * deepest
    return boxes + passing, lines


def _make_room(lines: Sequence[Line]) -> None:
    """Give every box the free space that the labels of its lines need on both sides."""
    for leaving in _together(lines, 0):
        start, labels = leaving[0].places[0], list(dict.fromkeys(line.label for line in leaving))
        start.right = max(start.right, len(labels[-1]) * CHARACTER + 12)
        if len(labels) == 2:
            start.left = max(start.left, len(labels[0]) * CHARACTER + 12)


def _together(lines: Sequence[Line], end: int) -> list[list[Line]]:
    """Return the lines that begin (`end` = 0) or end (-1) in one place, for every such place."""
    found: dict[int, list[Line]] = {}
    for line in lines:
        found.setdefault(id(line.places[end]), []).append(line)
    return list(found.values())


def _subtitle(layer: LayerSummary) -> str:
    return f"{layer.type} + {layer.neuron}" if layer.neuron else layer.type


def _own_name(layer: LayerSummary) -> str:
    return layer.name.rpartition("/")[2]


def _container_title(name: str, kind: str) -> str:
    return f"{name.rpartition('/')[2]}: {kind}"


def _colour(layer: LayerSummary) -> str:
    if layer.rank is not None:
        return str(layer.rank)
    return layer.role or ("parameters" if layer.parameters or layer.shared else "other")


def _colours(name: str) -> tuple[str, str]:
    """Return the colours inside and around a box: those of a rank, if the name is its number."""
    return OF_RANKS[int(name) % len(OF_RANKS)] if name.isdecimal() else COLOURS[name]


def _shape(blob: BlobSummary) -> str:
    return " × ".join(map(str, blob.shape))


# Order and position


def _order(ranks: list[list[Box]]) -> None:
    """Order the places of every rank by the mean of their neighbours' places, downwards and upwards in turn."""
    positions = {id(box): float(index) for rank in ranks for index, box in enumerate(rank)}
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for rank in ranks if downwards else reversed(ranks):
            means = {
                id(box): _mean(
                    [positions[id(one)] for one in (box.above if downwards else box.below)], positions[id(box)]
                )
                for box in rank
            }
            _sort_rank(rank, means)
            positions |= {id(box): float(index) for index, box in enumerate(rank)}


def _sort_rank(rank: list[Box], means: Mapping[int, float]) -> None:
    """Sort the places of a rank by their means; those in one container stay side by side."""
    inside: dict[str, list[float]] = {}
    for box in rank:
        for name, _ in box.containers:
            inside.setdefault(name, []).append(means[id(box)])
    middle = {name: sum(some) / len(some) for name, some in inside.items()}
    rank.sort(key=lambda box: [*((middle[name], name) for name, _ in box.containers), (means[id(box)], "")])


def _pull(ranks: list[list[Box]]) -> None:
    """Move places towards the mean of their neighbours, as far as there is room."""
    for rank in ranks:
        x = 0.0
        for box in rank:
            box.x = x + box.left
            x = box.x + box.right + BETWEEN
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for rank in ranks if downwards else reversed(ranks):
            _settle(rank, [_mean([one.x for one in (box.above if downwards else box.below)], box.x) for box in rank])
    least = min((box.x - box.left for rank in ranks for box in rank), default=0.0)
    for rank in ranks:
        for box in rank:
            box.x += MARGIN - least


def _settle(rank: Sequence[Box], wishes: Sequence[float]) -> None:
    """Put boxes side by side, as near to their wishes as possible: those that would overlap move as one block."""
    offsets: list[float] = []
    for number, box in enumerate(rank):
        offsets.append(offsets[-1] + rank[number - 1].right + BETWEEN + box.left if number else 0.0)
    blocks: list[list[float]] = []  # the sum of its boxes' wishes for the block, and their number
    for wish, offset in zip(wishes, offsets, strict=True):
        blocks.append([wish - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    starts = [total / count for total, count in blocks for _ in range(int(count))]
    for box, start, offset in zip(rank, starts, offsets, strict=True):
        box.x = start + offset


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


# Drawing


def _draw_box(box: Box) -> str:
    fill, edge = _colours(box.colour)
    x, y = box.x - box.width / 2, box.y - BOX_HEIGHT / 2
    first = box.y - (12 if box.details else 4)
    texts = text(box.x, first, box.title, 'text-anchor="middle" font-weight="bold"')
    texts += text(box.x, first + 17, box.subtitle, 'text-anchor="middle" fill="#444"')
    if box.details:
        texts += text(box.x, first + 33, box.details, 'text-anchor="middle" font-size="11" fill="#666"')
    return (
        f'<g><rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{BOX_HEIGHT:.0f}" rx="6" fill="{fill}" '
        f'stroke="{edge}"/>{texts}</g>'
    )


def _draw_containers(boxes: Sequence[Box]) -> list[str]:
    """Draw a box around the layers of each container, the outermost first."""
    members: dict[tuple[str, str], list[Box]] = {}
    heights: dict[str, int] = {}
    for box in boxes:
        for depth, container in enumerate(box.containers, start=1):
            members.setdefault(container, []).append(box)
            heights[container[0]] = max(heights.get(container[0], 0), len(box.containers) - depth + 1)
    parts: list[str] = []
    style = f'font-size="10" fill="{EDGE}"'
    for (name, title), some in members.items():
        around = AROUND * heights[name]
        x, y = min(box.x - box.width / 2 for box in some) - around, min(box.y for box in some) - BOX_HEIGHT / 2 - around
        width = max(box.x + box.width / 2 for box in some) + around - x
        height = max(box.y for box in some) + BOX_HEIGHT / 2 + around - y
        parts.append(
            f'<g><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8" fill="none" '
            f'stroke="{EDGE}" stroke-dasharray="4 3"/>{text(x + 6, y + 11, title, style)}</g>'
        )
    return parts


def _draw_lines(lines: Sequence[Line]) -> list[str]:
    """Draw the lines, and each blob's label once, at the beginning of its line."""
    paths: list[str] = []
    labels: dict[str, None] = {}
    # Lines of one blob leave from one point; the lines into a box end side by side, in the order they come from.
    blobs_of = {id(some[0].places[0]): list(dict.fromkeys(one.label for one in some)) for some in _together(lines, 0)}
    number_of: dict[int, tuple[int, int]] = {}
    for some in _together(lines, -1):
        for number, line in enumerate(sorted(some, key=lambda one: one.places[-2].x)):
            number_of[id(line)] = number, len(some)
    for line in lines:
        start, end = line.places[0], line.places[-1]
        blobs, (number, count) = blobs_of[id(start)], number_of[id(line)]
        x = _port(start, blobs.index(line.label), len(blobs))
        points = [(x, start.y + BOX_HEIGHT / 2)]
        points += [(place.x, place.y) for place in line.places[1:-1]]
        points.append((_port(end, number, count), end.y - (BOX_HEIGHT / 2 if end.subtitle else 8)))
        dashes = ' stroke-dasharray="6 4"' if line.bridge else ""
        paths.append(f'<path d="{_curve(points)}" fill="none" stroke="#555"{dashes} marker-end="url(#tip)"/>')
        on_left = len(blobs) == 2 and line.label == blobs[0]  # of two, one to each side; of more, where they arrive
        y = start.y + BOX_HEIGHT / 2 + 15
        if len(blobs) > 2:
            x, y = points[1][0], points[1][1] - 8 - LABEL_HEIGHT * (number if len(points) == 2 else 0)
        x, anchor = (x - 6, "end") if on_left else (x + 6, "start")
        for style in ('fill="none" stroke="white" stroke-width="3"', 'fill="#333"'):  # a halo, then the text
            labels[text(x, y, line.label, f'text-anchor="{anchor}" font-size="11" {style}')] = None
    return [*paths, *labels, *_loose_ends(lines)]


def _loose_ends(lines: Sequence[Line]) -> list[str]:
    ends = [line.places[-1] for line in lines if not line.places[-1].subtitle]
    style = 'text-anchor="middle" font-style="italic"'
    return [text(end.x, end.y + 6, end.title, style) for end in ends]


def _port(box: Box, number: int, count: int) -> float:
    """Return where the line of this number meets a box."""
    return box.x + (number - (count - 1) / 2) * min(24.0, box.width / count)


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through points that leaves and reaches each of them vertically."""
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        path += f" C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return path
