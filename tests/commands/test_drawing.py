"""Drawings of nets: dot and SVG."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from command_line import run
from nacre import Drawing, InputLayer, Layer, Net, NetSummary
from nacre.config import load
from nacre_commands.drawing import dot, svg
from nacre_layers.containers.repeat import RepeatLayer
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.neurons import ReLU
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.split import SplitLayer
from registries import NewRegistry

LENET = Path(__file__).resolve().parents[2] / "examples/digits/lenet.toml"
SVG = "{http://www.w3.org/2000/svg}"


def branching(branches: int = 3, **options: object) -> Net:
    tops = [f"part{number}" for number in range(branches)]
    layers: list[Layer] = [
        InputLayer(name="in", tops=["data"], shape=[3, 16, 16], batch_size=4),
        InputLayer(name="truth", tops=["label"], batch_size=4),
        SplitLayer(name="split", bottoms=["data"], tops=tops),
        ConvolutionLayer(name="conv0", bottoms=["part0"], tops=["c0"], n_filter=8, neuron=ReLU()),
        PoolingLayer(name="pool", bottoms=["c0"], tops=["p"], kernel=3, pad=1),
        *(PoolingLayer(name=f"pool{top}", bottoms=[top], tops=[f"p{top}"], kernel=3, pad=1) for top in tops[1:]),
        ConcatLayer(name="join", bottoms=["p", *(f"p{top}" for top in tops[1:])], tops=["all"]),
        InnerProductLayer(name="ip", bottoms=["all"], tops=["ip"], output_dim=3),
        DropoutLayer(name="drop", bottoms=["ip"]),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["ip", "label"]),
        SoftmaxLayer(name="prob", bottoms=["ip"], tops=["prob"]),
    ]
    return Net("branching", layers, backend="numpy", **{"phase": "test", "allocate": False, **options})


def lenet() -> Net:
    return load(LENET).net(backend="numpy", allocate=False)


def boxes(drawing: str) -> dict[str, tuple[float, float, float, float]]:
    """Return left, top, right and bottom of each layer's box."""
    found: dict[str, tuple[float, float, float, float]] = {}
    for group in ET.fromstring(drawing).iter(f"{SVG}g"):
        rect, title = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert rect is not None and title is not None
        x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        found[title.text or ""] = (x, y, x + width, y + height)
    return found


def texts(drawing: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(drawing).iter(f"{SVG}text")]


@pytest.mark.parametrize("net", [lenet(), branching(), branching(9)], ids=["lenet", "branching", "wide"])
def test_every_layer_has_a_box_and_none_covers_another(net: Net) -> None:
    drawing = svg(net.summary())
    placed = boxes(drawing)
    assert list(placed) == [node.name for node in net.wiring.nodes]
    size = ET.fromstring(drawing).attrib
    for (name, one), (other_name, other) in itertools.combinations(placed.items(), 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, f"{name} and {other_name} overlap"
    for left, top, right, bottom in placed.values():
        assert left >= 0 and top >= 0 and right <= float(size["width"]) and bottom <= float(size["height"])


@pytest.mark.parametrize("net", [lenet(), branching(), branching(9)], ids=["lenet", "branching", "wide"])
def test_blobs_run_down_from_their_layer_to_their_readers(net: Net) -> None:
    drawing = svg(net.summary())
    placed, lines = boxes(drawing), []
    for path in ET.fromstring(drawing).iter(f"{SVG}path"):
        if path.attrib.get("marker-end"):
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.attrib["d"])]
            lines.append(((numbers[0], numbers[1]), (numbers[-2], numbers[-1])))
    assert len(lines) == sum(max(1, len(wire.consumers)) for wire in net.wiring.wires)
    for start, end in lines:
        assert start[1] < end[1]
        assert any(box[0] <= start[0] <= box[2] and box[3] == start[1] for box in placed.values())
    for wire in net.wiring.wires:
        for consumer, _ in wire.consumers:
            above, below = placed[net.wiring.nodes[wire.producer].name], placed[net.wiring.nodes[consumer].name]
            assert any(
                above[0] <= start[0] <= above[2] and below[0] <= end[0] <= below[2] and end[1] == below[1]
                for start, end in lines
            )


def test_boxes_say_types_and_lines_say_shapes() -> None:
    found = texts(svg(lenet().summary()))
    assert {"conv1", "Convolution + ReLU", "SoftmaxLoss", "data 64 × 1 × 8 × 8", "conv2 64 × 50 × 8 × 8"} <= set(found)
    assert found.count("label 64") == 2  # the halo, and the text
    assert {"kernel 3", "Max, kernel 2, stride 2"} <= set(found)
    add = ElementWiseLayer(bottoms=["a", "b"], tops="sum", operation="Multiply")
    inputs = [InputLayer(name=name, tops=name, shape=(2, 9, 9)) for name in "ab"]
    pool = PoolingLayer(bottoms="sum", tops="p", kernel=(2, 3), pooling="Mean")
    drawn = Net("n", [*inputs, add, pool], backend="numpy", phase="test").summary()
    assert {"Multiply", "Mean, kernel 2×3"} <= set(texts(svg(drawn)))
    assert '"p" [label="p\\nPooling\\nMean, kernel 2×3"' in dot(drawn)


def test_what_nobody_reads_ends_in_its_name() -> None:
    drawing = svg(branching().summary())
    assert texts(drawing).count("prob") == 2  # the layer, and the end of the line
    assert 'font-style="italic">prob</text>' in drawing


def test_a_drawing_is_always_the_same() -> None:
    assert svg(branching().summary()) == svg(branching().summary())


def test_notebooks_show_the_drawing_that_is_offered() -> None:
    net = branching()
    assert net._repr_svg_() == svg(net.summary())


def test_notebooks_show_the_text_where_no_drawing_is_offered(new_registry: NewRegistry) -> None:
    net = branching()
    new_registry(environ={"NACRE_DISABLE_PLUGINS": "nacre-commands"})
    assert net._repr_svg_() is None


class Names(Drawing):
    """The names of the layers."""

    def draw(self, net: NetSummary) -> str:
        return ", ".join(layer.name for layer in net.layers)


def test_a_stranger_may_draw_in_another_way(new_registry: NewRegistry) -> None:
    here = new_registry()
    for kind in ("svg", "names"):
        here.register(Names, kind, "drawing", "acme")
    assert run("graph", LENET, "--format", "names").out.startswith("train, conv1, conv2, pool2, ip1")
    assert run("graph", LENET, "--out", "net.names").out == "wrote net.names\n"
    assert branching()._repr_svg_() == svg(branching().summary())  # nacre's own stays
    assert str(branching(pins={"drawing:svg": "acme"})._repr_svg_()).startswith("in, truth, split")


def test_the_net_file_is_not_replaced_by_its_drawing() -> None:
    Path("net.toml").write_text(Path(LENET).read_text())
    told = run("graph", "net.toml", "--format", "dot", "--out", "net.toml", code=2).err
    assert told == "error: net.toml: it is the net file\n  use another name for --out\n"
    assert Path("net.toml").read_text() == Path(LENET).read_text()


def test_dot_names_boxes_lines_and_ends() -> None:
    text = dot(branching().summary())
    assert text.startswith('digraph "branching" {\n')
    assert text.endswith("}\n")
    assert '"conv0" [label="conv0\\nConvolution + ReLU", ' in text
    assert '"split" -> "conv0" [label="part0\\n4 × 3 × 16 × 16"]' in text
    assert '"ip" -> "drop" [label="ip\\n4 × 3"]' in text
    assert '"drop" -> "loss" [label="ip\\n4 × 3"]' in text
    assert '"prob" -> "blob prob"' in text
    assert text.count(" -> ") == sum(max(1, len(wire.consumers)) for wire in branching().wiring.wires)


def test_a_name_cannot_break_out() -> None:
    net = Net('<b>"x', [InputLayer(name="in", tops=["x"], shape=[2])], backend="numpy", allocate=False)
    assert ET.fromstring(svg(net.summary())).find(f"{SVG}title") is not None
    assert dot(net.summary()).startswith('digraph "<b>\\"x" {')


# Containers


def stages() -> Net:
    conv = {"type": "Convolution", "n_filter": 4, "kernel": 3, "pad": 1}
    block = {"type": "Residual", "layer": [conv, "ReLU"], "projection": [{"type": "Convolution", "n_filter": 4}]}
    repeat = RepeatLayer(name="stage", bottoms="x", tops="y", times=2, layer=[block])
    layers: list[Layer] = [InputLayer(tops="x", shape=(3, 8, 8), batch_size=2), repeat]
    return Net("n", [*layers, PoolingLayer(name="pool", bottoms="y", tops="p")], backend="numpy", allocate=False)


CONTAINERS = {
    "stage: Repeat": 8,
    "1: Sequential": 4,
    "2: Sequential": 4,
    "Residual1: Residual": 4,
    "projection: Sequential": 1,
}
"""How many layers are in each container of this title."""


def test_dot_has_a_box_around_the_layers_of_a_container() -> None:
    text = dot(stages().summary())
    assert text.count("subgraph") == 7 == text.count("labeljust")
    assert text.count("{") == text.count("}")
    assert 'subgraph "cluster stage/2/Residual1/projection"' in text
    assert '"stage/1/Residual1/Convolution1" [label="Convolution1\\nConvolution\\nkernel 3"' in text
    assert '"stage/1/Residual1/Convolution1" -> "stage/1/Residual1/Activation1"' in text


def rectangles(text: str) -> tuple[list[tuple[str, list[float]]], list[tuple[str, list[float]]]]:
    """Return the containers and the layers of a drawing, each with its title, and its left, top, right and bottom."""
    found: tuple[list[tuple[str, list[float]]], list[tuple[str, list[float]]]] = ([], [])
    for group in ET.fromstring(text).findall(f"{SVG}g"):
        box, title = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert box is not None and title is not None
        x, y, width, height = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        found[box.get("stroke-dasharray") is None].append((title.text or "", [x, y, x + width, y + height]))
    return found


def holds(outer: list[float], inner: list[float]) -> bool:
    return outer[0] < inner[0] and outer[1] < inner[1] and outer[2] > inner[2] and outer[3] > inner[3]


def apart(one: list[float], other: list[float]) -> bool:
    return one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]


def test_svg_has_a_box_around_the_layers_of_a_container() -> None:
    text = svg(stages().summary())
    containers, layers = rectangles(text)
    assert sorted(title for title, _ in containers) == sorted(
        [*CONTAINERS, "Residual1: Residual", "projection: Sequential"]
    )
    for title, sides in containers:
        assert sum(holds(sides, layer) for _, layer in layers) == CONTAINERS[title], title
        assert all(holds(sides, layer) or apart(sides, layer) for _, layer in layers), title
    for (_, one), (_, other) in itertools.combinations(containers, 2):
        assert holds(one, other) or holds(other, one) or apart(one, other)
    width, height = (float(ET.fromstring(text).get(name, "")) for name in ("width", "height"))
    assert all(holds([0, 0, width, height], sides) for _, sides in containers)


def test_a_drawing_at_a_depth_shows_containers_as_layers(tmp_path: Path) -> None:
    summary = stages().summary().at_depth(1)
    assert dot(summary).count("subgraph") == 0
    assert re.findall(r'^  ("\w+") ->', dot(summary), re.M) == ['"x"', '"stage"', '"pool"']
    containers, layers = rectangles(svg(stages().summary().at_depth(2)))
    assert [title for title, _ in containers] == ["stage: Repeat"]
    assert [title for title, _ in layers] == ["x", "1", "2", "pool"]
    net = LENET.parent / "resnet20.toml"
    out = tmp_path / "net.dot"
    run("graph", str(net), "--depth", "1", "--out", str(out))
    assert out.read_text(encoding="utf-8").count("label=") == 3 + 3
