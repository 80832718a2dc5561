"""partition: from one graph to one a rank, by the complete table of SINGA, with the cases that SINGA lost."""

from __future__ import annotations

import itertools
from collections import deque

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from nacre import ConfigError, ContractError, Layer, Names, TopologyError
from nacre.graph.gradients import wanted_gradients
from nacre.graph.partition import CONNECTORS, Declared, is_divided, partition
from nacre.graph.wiring import sort, wire
from nacre.protocols.graph import Graph
from nacre.protocols.part import part_of
from nacre_layers import BridgeDstLayer, BridgeSrcLayer, ConcatLayer, SliceLayer, SplitLayer

CLASSES = dict(zip(CONNECTORS, (SliceLayer, ConcatLayer, SplitLayer, BridgeSrcLayer, BridgeDstLayer), strict=True))
ROWS, COLUMNS = 12, 9


class Feed(Layer, is_source=True, can_do_bp=True, has_param=True):
    """A blob that has a gradient; where it is cut along its features, it makes these."""

    tops: Names
    batch_size: int = ROWS

    def partition(self, part, parts):
        return self


class One(Layer, can_do_bp=True):
    """y = Σ 2 x + 1, number by number."""

    bottoms: Names
    tops: Names
    feature_axis = None

    def partition(self, part, parts):
        return self


class InPlace(Layer, can_do_bp=True, is_inplace=True):
    """x = x + 3."""

    bottoms: Names
    feature_axis = None

    def partition(self, part, parts):
        return self


class All(Layer, can_do_bp=True, connection="one_to_all"):
    """y = Σ x M, with a fixed matrix: every feature of y needs all of x."""

    bottoms: Names
    tops: Names

    def partition(self, part, parts):
        return self


class Pair(Layer, can_do_bp=True, connection=("one_to_one", "one_to_all")):
    """y = x + the sum of all features of z."""

    bottoms: Names
    tops: Names

    def partition(self, part, parts):
        return self


class Uncut(Layer, can_do_bp=True):
    """A layer that does not say how it can be cut."""

    bottoms: Names
    tops: Names


class Together(One):
    """A layer whose records must be together."""

    def not_by_records(self):
        return "it compares the records of a batch"


class Loss(Layer, has_loss=True, can_do_bp=True, is_sink=True):
    """The end of a net."""

    bottoms: Names


def divided(layers, parts=2, default=0, shapes=None, *, end=True):
    """Return the partition of a net in which every blob is (12, 9), or has the given shape."""
    if end:
        layers = [*layers, Loss(name="loss", bottoms=layers[-1].tops[:1], partition_dim=-1)]
    wiring = wire(sort(Graph.of(layers)))
    declared = [Declared((shapes or {}).get(one.name, (ROWS, COLUMNS)), "float64") for one in wiring.wires]
    return partition(wiring, declared, wanted_gradients(wiring), parts, CLASSES, default)


def pair(source, reader, connection, **options):
    """Return the names of the layers on each of two ranks, for a blob x and its reader y that are divided so."""
    kind = One if connection == "one_to_one" else All
    made = divided(
        [Feed(tops=["x"], partition_dim=source), kind(bottoms=["x"], tops=["y"], partition_dim=reader)],
        end=False,
        **options,
    )
    return [[node.name for node in graph.nodes] for graph in made.graphs]


DIRECT = [["x", "y"], ["x", "y"]]
ONE_TO_ONE, ONE_TO_ALL = "one_to_one", "one_to_all"


def from_one(step, piece):
    """Return the layers where rank 0 has x, and both ranks need of it what `step` makes."""
    return [
        ["x", f"{step}(x@{piece})", f"bridge_src(x@{piece}[1], 0->1)", "y"],
        [f"bridge_dst(x@{piece}[1], 0->1)", "y"],
    ]


def among_all(step, piece):
    """Return the layers where both ranks have a part of x, and both need of it what `step` and Concat make."""
    bridge = "bridge_{}(x@" + piece + "[{}], {}->{})"
    return [
        [
            "x",
            f"{step}(x@{piece})",
            bridge.format("dst", 0, 1, 0),
            f"concat(x@{piece})",
            bridge.format("src", 1, 0, 1),
            "y",
        ],
        [
            "x",
            f"{step}(x@{piece})",
            bridge.format("src", 0, 1, 0),
            bridge.format("dst", 1, 0, 1),
            f"concat(x@{piece})",
            "y",
        ],
    ]


TO_ONE = [
    ["x", "bridge_dst(x, 1->0)", "concat(x@whole)", "y"],
    ["x", "bridge_src(x, 1->0)"],
]
TABLE = [
    # what rank 0 has alone, the rows that SINGA had lost since 0.1
    (-1, 0, ONE_TO_ONE, from_one("slice", "rows")),
    (-1, 0, ONE_TO_ALL, from_one("slice", "rows")),
    (-1, 1, ONE_TO_ONE, from_one("slice", "features")),
    (-1, 1, ONE_TO_ALL, from_one("split", "all")),
    (0, -1, ONE_TO_ONE, TO_ONE),
    (0, -1, ONE_TO_ALL, TO_ONE),
    (1, -1, ONE_TO_ONE, TO_ONE),
    (1, -1, ONE_TO_ALL, TO_ONE),
    # the eight rows of SINGA 0.3
    (0, 0, ONE_TO_ONE, DIRECT),
    (1, 1, ONE_TO_ONE, DIRECT),
    (0, 0, ONE_TO_ALL, DIRECT),
    (1, 0, ONE_TO_ONE, among_all("slice", "rows")),
    (0, 1, ONE_TO_ONE, among_all("slice", "features")),
    (1, 0, ONE_TO_ALL, among_all("slice", "rows")),
    (0, 1, ONE_TO_ALL, among_all("split", "all")),
    (1, 1, ONE_TO_ALL, among_all("split", "all")),
]


@pytest.mark.parametrize(
    ("source", "reader", "connection", "names"), TABLE, ids=lambda one: str(one) if not isinstance(one, list) else ""
)
def test_each_row_of_the_table(source, reader, connection, names):
    assert pair(source, reader, connection) == names


@pytest.mark.parametrize("connection", [ONE_TO_ONE, ONE_TO_ALL])
def test_what_is_not_divided_is_on_one_rank(connection):
    with pytest.raises(TopologyError, match="of 2 ranks number 1 has no layer"):
        pair(-1, -1, connection)


def test_a_pipeline_crosses_one_bridge_in_each_direction():
    layers = [Feed(tops=["x"], location=0), One(bottoms=["x"], tops=["y"], location=1)]
    made = divided([*layers, One(bottoms=["y"], tops=["z"], location=0)])
    assert [[node.name for node in graph.nodes] for graph in made.graphs] == [
        ["x", "bridge_src(x, 0->1)", "bridge_dst(y, 1->0)", "z", "loss"],
        ["bridge_dst(x, 0->1)", "y", "bridge_src(y, 1->0)"],
    ]
    assert [(one.blob, one.start, one.end, one.gradient) for one in made.bridges] == [
        ("x", 0, 1, True),
        ("y", 1, 0, True),
    ]


def test_bridges_stand_between_ranks_only():
    """SINGA 0.1 compared a node with itself, so that it inserted no bridge anywhere."""
    made = divided([Feed(tops=["x"], partition_dim=1), All(bottoms=["x"], tops=["y"], partition_dim=1)], parts=3)
    crossing = [(one.start, one.end) for one in made.bridges if one.blob.startswith("x@all")]
    assert sorted(crossing) == [(i, j) for i, j in itertools.product(range(3), repeat=2) if i != j]
    assert all(one.start != one.end for one in made.bridges)


def test_concat_and_slice_work_along_the_right_axis():
    """SINGA 0.1 had Concat and Slice along the batch only."""
    made = divided([Feed(tops=["x"], partition_dim=1), One(bottoms=["x"], tops=["y"], partition_dim=0)])
    slices = [node.layer for graph in made.graphs for node in graph.nodes if isinstance(node.layer, SliceLayer)]
    assert [(one.axis, one.points) for one in slices] == [(0, (6,)), (0, (6,))]
    concats = {node.name: node.layer.axis for graph in made.graphs for node in graph.nodes if node.name[:6] == "concat"}
    assert concats == {"concat(x@rows)": 1, "concat(y@whole)": 0}


def test_unequal_parts():
    """Where the ranks do not divide the features, the parts differ by one at most."""
    made = divided([Feed(tops=["x"], partition_dim=1), One(bottoms=["x"], tops=["y"], partition_dim=0)], parts=4)
    shapes = {(one.start, one.end): one.shape for one in made.bridges if one.blob.startswith("x@rows")}
    for (start, end), shape in shapes.items():
        rows, columns = (part_of(length, rank, 4) for length, rank in ((ROWS, end), (COLUMNS, start)))
        assert shape == (rows[1] - rows[0], columns[1] - columns[0])


def test_several_readers_share_what_was_brought():
    layers = [Feed(tops=["x"], partition_dim=0)]
    layers += [All(bottoms=["x"], tops=[f"y{n}"], partition_dim=1) for n in range(3)]
    made = divided([*layers, One(bottoms=["y0", "y1", "y2"], tops=["z"], partition_dim=1)])
    assert sum(one.blob.startswith("x@all") for one in made.bridges) == 2


def test_gradients_come_back_only_where_they_are_needed():
    class Look(Layer, is_sink=True):
        bottoms: Names

    layers = [Feed(tops=["x"], partition_dim=0), One(bottoms=["x"], tops=["y"], partition_dim=0)]
    made = divided([*layers, Loss(bottoms=["y"], partition_dim=0), Look(bottoms=["y"], partition_dim=-1)], end=False)
    assert [(one.blob, one.gradient) for one in made.bridges] == [("y", False)]


def test_an_in_place_layer_on_another_rank_makes_the_next_version():
    layers = [
        Feed(tops=["x"], location=0),
        InPlace(name="change", bottoms=["x"], location=1),
        One(bottoms=["x"], tops=["y"], location=0),
    ]
    made = divided(layers)
    assert [[(node.name, node.bottoms, node.tops) for node in graph.nodes] for graph in made.graphs] == [
        [
            ("x", (), ("x",)),
            ("bridge_src(x, 0->1)", ("x",), ()),
            ("bridge_dst(x@whole, 1->0)", (), ("x'@whole",)),
            ("y", ("x'@whole",), ("y",)),
            ("loss", ("y",), ()),
        ],
        [
            ("bridge_dst(x, 0->1)", (), ("x@whole",)),
            ("change", ("x@whole",), ("x@whole",)),
            ("bridge_src(x@whole, 1->0)", ("x@whole",), ()),
        ],
    ]


def test_the_default_of_the_net_and_of_containers():
    layers = [Feed(tops=["x"]), One(bottoms=["x"], tops=["y"])]
    nodes = Graph.of(layers).nodes
    assert not is_divided(nodes, 0)
    assert is_divided(nodes, 1)
    made = divided(layers, default=1)
    assert {node.part.dim for node in made.graphs[1].nodes if node.name in "xy"} == {1}


def test_what_cannot_be_divided_is_named():
    layers = [Feed(tops=["x"]), Uncut(bottoms=["x"], tops=["y"], partition_dim=1)]
    layers += [Together(bottoms=["y"], tops=["z"], partition_dim=0)]
    with pytest.raises(ConfigError) as caught:
        divided(layers)
    assert "y: Uncut cannot be cut along its features (partition_dim=1)" in str(caught.value)
    assert "z: it compares the records of a batch, so it cannot be divided by records" in str(caught.value)


@pytest.mark.parametrize(
    ("layers", "shapes", "words"),
    [
        (
            [("x", 0), ("y", 1)],
            {"x": (6, 1), "y": (6, 1)},
            "y: the 1 features of blob 'x' cannot be cut into 2 parts\n  use fewer ranks, or set the partition_dim",
        ),
        ([("x", 0), ("y", 0)], {"x": (1, 9), "y": (1, 9)}, "x: a batch of 1 records is too small for 2 ranks"),
        ([("x", 0), ("y", 0)], {"x": (6, 9), "y": (3, 9)}, "y: its blobs have 3 and 6 rows"),
        ([("x", 0), ("y", 1)], {"x": (6, 9), "y": (6, 4)}, "y: it makes 4 features of 9, which cannot be cut alike"),
        ([("x", 0), ("y", 1)], {"x": (6,), "y": (6,)}, "y: blob 'x' of shape (6,) has no features to cut"),
    ],
    ids=["few features", "few records", "other rows", "other features", "no features"],
)
def test_shapes_that_cannot_be_divided(layers, shapes, words):
    (x, one), (y, other) = layers
    with pytest.raises(ConfigError) as caught:
        divided([Feed(tops=[x], partition_dim=one), One(bottoms=[x], tops=[y], partition_dim=other)], shapes=shapes)
    assert words in str(caught.value)


def test_locations():
    with pytest.raises(ConfigError, match="x: location=2, but there are 2 ranks"):
        divided([Feed(tops=["x"], location=2)])
    with pytest.raises(ConfigError, match="x: location=0, but with partition_dim=0 it is on every rank"):
        divided([Feed(tops=["x"], location=0, partition_dim=0)])


def test_sharers_must_be_divided_alike():
    class Shared(One, has_param=True):
        pass

    layers = [Feed(tops=["x"]), Shared(bottoms=["x"], tops=["y"], param_key="w", partition_dim=1)]
    with pytest.raises(TopologyError, match="'y' and 'z' share their parameters, but are divided differently"):
        divided([*layers, Shared(bottoms=["y"], tops=["z"], param_key="w", partition_dim=0)])


def test_a_connection_must_be_known():
    with pytest.raises(ContractError, match="connection='one_to_many'"):
        type("Odd", (One,), {}, connection="one_to_many")


@pytest.mark.parametrize(
    ("value", "wanted"), [(-1, -1), ("whole", -1), ("batch", 0), ("features", 1), (1, 1), (None, None), ("none", None)]
)
def test_how_partition_dim_is_written(value, wanted):
    assert One(bottoms=["x"], tops=["y"], partition_dim=value).partition_dim == wanted


@pytest.mark.parametrize("value", [2, "rows", True, 0.5])
def test_other_values_of_partition_dim_are_refused(value):
    with pytest.raises(ConfigError, match="partition_dim"):
        One(bottoms=["x"], tops=["y"], partition_dim=value)


# Random nets: what the ranks compute together is what the whole computes


MATRIX = np.random.default_rng(0).normal(size=(COLUMNS, COLUMNS))


def compute(layer, part, inputs, source):
    """Return the top of one layer, or of a part of it."""
    columns = slice(part.start, part.stop) if part is not None and part.dim == 1 else slice(None)
    rows = slice(part.start, part.stop) if part is not None and part.dim == 0 else slice(None)
    if isinstance(layer, Feed):
        return source[rows, columns]
    if isinstance(layer, InPlace):
        return inputs[0] + 3
    if isinstance(layer, All):
        return sum(inputs) @ MATRIX[:, columns]
    if isinstance(layer, Pair):
        return inputs[0] + inputs[1].sum(axis=1, keepdims=True)
    return sum(2 * one for one in inputs) + 1


def run_whole(wiring, source):
    found = {}
    for index, node in enumerate(wiring.nodes):
        if not isinstance(node.layer, Loss):
            inputs = [found[number] for number in wiring.inputs[index]]
            found[wiring.outputs[index][0]] = compute(node.layer, None, inputs, source)
    return found


class Rank:
    """One rank that runs its graph; a bridge waits for its other end, as a message without a buffer does."""

    def __init__(self, number, graph, source):
        self.number, self.todo, self.blobs, self.source = number, deque(sort(graph).nodes), {}, source

    def step(self, others):
        """Run the next layer, if it has not to wait; return whether it ran."""
        node = self.todo[0]
        layer, inputs = node.layer, [self.blobs[name] for name in node.bottoms]
        if isinstance(layer, BridgeSrcLayer):
            there = others[layer.peer].todo
            if not there or not isinstance(there[0].layer, BridgeDstLayer) or there[0].layer.peer != self.number:
                return False
            taker = there.popleft()
            assert inputs[0].shape == taker.layer.shape
            others[layer.peer].blobs[taker.tops[0]] = inputs[0]
        elif isinstance(layer, BridgeDstLayer):
            return False  # the other end does it
        elif isinstance(layer, SliceLayer):
            parts = np.split(inputs[0], layer.points, axis=layer.axis)
            self.blobs |= zip(node.tops, parts, strict=True)
        elif isinstance(layer, ConcatLayer):
            self.blobs[node.tops[0]] = np.concatenate(inputs, axis=layer.axis)
        elif isinstance(layer, SplitLayer):
            self.blobs |= dict.fromkeys(node.tops, inputs[0])
        elif not isinstance(layer, Loss):
            self.blobs[node.tops[0]] = compute(layer, node.part, inputs, self.source)
            box = node.part.tops[0]
            at = tuple(slice(s, s + n) for s, n in zip(box.start, self.blobs[node.tops[0]].shape, strict=True))
            self.made = getattr(self, "made", [])
            self.made.append((node.name, at, self.blobs[node.tops[0]]))
        self.todo.popleft()
        return True


@strategies.composite
def nets(draw):
    """Return layers in which everything may be divided in any way, and a number of ranks."""
    parts = draw(strategies.integers(2, 4))

    def division():
        return draw(
            strategies.sampled_from(
                [{"partition_dim": 0}, {"partition_dim": 1}, *({"location": rank} for rank in range(parts))]
            )
        )

    layers, blobs = [Feed(tops=["b0"], **division())], ["b0"]
    for number in range(1, draw(strategies.integers(1, 6)) + 1):
        kind = draw(strategies.sampled_from([One, All, Pair, InPlace]))
        count = {Pair: 2, InPlace: 1}.get(kind, draw(strategies.integers(1, 2)))
        bottoms = [draw(strategies.sampled_from(blobs)) for _ in range(count)]
        if kind is InPlace:
            layers.append(kind(name=f"l{number}", bottoms=bottoms, **division()))
            continue
        layers.append(kind(name=f"l{number}", bottoms=bottoms, tops=[f"b{number}"], **division()))
        blobs.append(f"b{number}")
    layers.append(Loss(name="loss", bottoms=[blobs[-1]], **draw(strategies.sampled_from([{}, {"location": 0}]))))
    return layers, parts


@hypothesis.given(nets())
@hypothesis.settings(max_examples=150, derandomize=True)
def test_the_ranks_compute_together_what_the_whole_computes(net):
    layers, parts = net
    wiring = wire(sort(Graph.of(layers)))
    declared = [Declared((ROWS, COLUMNS), "float64") for _ in wiring.wires]
    try:
        made = partition(wiring, declared, wanted_gradients(wiring), parts, CLASSES)
    except TopologyError as error:
        hypothesis.reject() if "has no layer" in str(error) else None
        raise
    source = np.random.default_rng(1).normal(size=(ROWS, COLUMNS))
    ranks = [Rank(number, graph, source) for number, graph in enumerate(made.graphs)]
    while waiting := [rank for rank in ranks if rank.todo]:
        ran = sum(rank.step(ranks) for rank in waiting if rank.todo)
        assert ran, [rank.todo[0].name for rank in waiting]
    whole = run_whole(wiring, source)
    outputs = {node.name: wiring.outputs[index] for index, node in enumerate(wiring.nodes)}
    covered = {name: np.zeros((ROWS, COLUMNS), bool) for name in outputs}
    for rank in ranks:
        for name, at, found in getattr(rank, "made", ()):
            np.testing.assert_allclose(found, whole[outputs[name][0]][at], err_msg=f"{name} on rank {rank.number}")
            covered[name][at] = True
    assert all(one.all() for name, one in covered.items() if name != "loss")
    crossings = [(one.blob, one.start, one.end) for one in made.bridges]
    assert len(set(crossings)) == len(crossings)
