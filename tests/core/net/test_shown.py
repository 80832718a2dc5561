"""What objects say of themselves: `print` and notebooks."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from nacre import InputLayer, Net, Solver
from nacre.config import load
from nacre_layers import BatchNormLayer, InnerProductLayer, SoftmaxLossLayer
from nacre_solvers import SGD
from registries import NewRegistry


def small(**options: object) -> Net:
    layers = [
        InputLayer(name="x", tops="x", shape=4, batch_size=3),
        InputLayer(name="y", tops="y", batch_size=3),
        InnerProductLayer(name="one", bottoms="x", tops="h", output_dim=5),
        BatchNormLayer(name="norm", bottoms="h", tops="n"),
        InnerProductLayer(name="two", bottoms="n", tops="s", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["s", "y"]),
    ]
    net = Net("small", layers, **{"backend": "numpy", "freeze": ["two"], **options})
    if net.allocated:
        net.write("x", np.arange(12).reshape(3, 4))
        net.write("y", [0, 1, 2])
    return net


def test_parameters_are_a_table() -> None:
    net = small()
    net.parameters["one/weight"].value = [[0, 1, 2, 3]] * 5
    net.parameters["norm/scale"].value = [1, 2, np.inf, -np.inf, 3]
    head, _, first, *others = repr(net.parameters).splitlines()
    assert head.split() == ["parameter", "shape", "numbers", "mean", "deviation", "least", "largest"]
    assert first.split() == ["one/weight", "5", "x", "4", "20", "1.5", "1.12", "0", "3"]
    assert [line.split()[0] for line in others] == [*net.parameters][1:]
    assert others[1].split()[-4:] == ["nan", "nan", "-inf", "inf"]
    assert "buffer" in others[3]
    assert "frozen" in others[5]
    assert str(net.parameters) == repr(net.parameters)


def test_parameters_without_memory_are_a_table_of_shapes() -> None:
    head, _, first, *_ = repr(small(allocate=False).parameters).splitlines()
    assert head.split() == ["parameter", "shape", "numbers"]
    assert first.split() == ["one/weight", "5", "x", "4", "20"]
    with Net("none", [InputLayer(tops="x")], backend="numpy") as net:
        assert repr(net.parameters) == "net 'none' has no parameters"


def test_a_parameter_says_what_is_in_it() -> None:
    net = small()
    net.parameters["one/weight"].value = [[0, 1, 2, 3]] * 5
    assert repr(net.parameters["one/weight"]) == (
        "<parameter one/weight 5 x 4 float32, mean 1.5, deviation 1.12, least 0, largest 3>"
    )
    assert repr(net.parameters["two/bias"]).startswith("<parameter two/bias 3 float32, frozen, mean 0,")
    assert ", buffer, mean" in repr(net.parameters["norm/mean"])


def test_a_training_and_its_snapshot_say_how_far_they_are() -> None:
    net = small()
    with Solver(SGD(), max_iter=3).start(net) as training:
        assert repr(training) == "<Training of net 'small' by SGD: 0 iterations>"
        training.run()
        assert repr(training) == f"<Training of net 'small' by SGD: 3 iterations, loss {training.loss:.4g}>"
        assert repr(training.snapshot()) == "<Snapshot of net 'small' after 3 iterations, 12 arrays>"
        training.stopped = "enough"
        assert repr(training).endswith(", stopped: enough>")


def test_a_net_file_and_a_layer_say_what_they_are() -> None:
    path = Path(__file__).resolve().parents[3] / "examples/digits/lenet.toml"
    assert repr(load(path)) == f"<NetFile {path}: net 'lenet', {len(load(path).layers)} layers>"
    assert repr(small().layers[4]) == "InnerProductLayer(name='two', bottoms=('n',), tops=('s',), output_dim=3)"


def test_a_notebook_shows_the_drawing_and_the_table() -> None:
    net = small()
    html = net._repr_html_()
    assert (net._repr_svg_() or "none") in html
    parts = ElementTree.fromstring(f"<all>{html}</all>")
    cells = [[cell.text or "" for cell in row] for row in parts.iter("tr")]
    head, rows, _ = net.summary().table()
    assert cells == [head, *rows]
    assert "&#x27;small&#x27; in phase train" in html
    assert net.summary()._repr_html_() == net.summary().html()


def test_without_a_drawing_it_shows_the_table(new_registry: NewRegistry) -> None:
    net = small()
    new_registry(environ={"NACRE_DISABLE_PLUGINS": "nacre-commands"})
    assert "<svg" not in net._repr_html_()
    assert "<table>" in net._repr_html_()


def test_nothing_in_a_name_is_markup() -> None:
    summary = small().summary()
    odd = type(summary)(**{**vars(summary), "name": "<b>&"})
    assert "<b>" not in odd.html()
