"""A net as text and as data."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from nacre import Input, InputLayer, L, Net
from nacre.config import load
from nacre.text import align, short, size
from nacre_layers.containers.repeat import RepeatLayer
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.recurrent.lstm import LSTMLayer
from small_layers import SquareLossLayer

LENET = Path(__file__).resolve().parents[3] / "examples/digits/lenet.toml"


def named(described: dict[str, list[dict[str, object]]], name: str) -> dict[str, object]:
    (one,) = [layer for layer in described["layers"] if layer["name"] == name]
    return one


def net(**options: object) -> Net:
    layers = [
        InputLayer(name="in", tops=["x"], shape=[6], batch_size=4),
        InputLayer(name="truth", tops=["label"], batch_size=4),
        InnerProductLayer(name="one", bottoms=["x"], tops=["y"], output_dim=6, param_key="same", neuron=Tanh()),
        InnerProductLayer(name="two", bottoms=["y"], tops=["z"], output_dim=6, param_key="same"),
        BatchNormLayer(name="norm", bottoms=["z"], tops=["n"]),
        ActivationLayer(name="act", bottoms=["n"], tops=["a"], neuron="ReLU"),
        ActivationLayer(name="more", bottoms=["a"], tops=["b"], neuron=ReLU()),
        SoftmaxLossLayer(name="loss", bottoms=["b", "label"]),
    ]
    return Net("shown", layers, backend="numpy", **{"allocate": False, **options})


def test_the_example_is_described() -> None:
    described = load(LENET).net(backend="numpy", allocate=False).summary().describe()
    assert (described["name"], described["phase"], described["backend"]) == ("lenet", "train", "numpy")
    assert named(described, "conv2") == {
        "name": "conv2",
        "type": "Convolution",
        "neuron": "ReLU",
        "bottoms": ["conv1"],
        "tops": ["conv2"],
        "shapes": [[64, 50, 8, 8]],
        "parameters": 50 * 20 * 3 * 3 + 50,
        "shared": [],
        "kernel": "ConvolutionKernel",
        "buffers": 0,
        "frozen": False,
        "multiplications": 64 * 50 * 8 * 8 * 20 * 3 * 3,
        "bytes": 4 * (64 * 50 * 8 * 8 + 9_050),
        "details": "kernel 3",
    }
    assert [named(described, name)["details"] for name in ("pool2", "drop1")] == ["Max, kernel 2, stride 2", ""]
    assert named(described, "ip1")["multiplications"] == 64 * 800 * 128
    assert named(described, "drop1")["multiplications"] is None and named(described, "drop1")["bytes"] == 4 * 64 * 128
    assert named(described, "drop1")["tops"] == ["ip1"]
    assert named(described, "drop1")["kernel"] is None
    assert described["parameters"] == 200 + 9_050 + 800 * 128 + 128 + 1_290
    count = described["bytes"]
    assert count["parameters"] == count["gradients"] == 4 * described["parameters"]
    assert 0 < count["blobs"] <= count["blobs_unshared"]
    assert count["total"] == count["parameters"] + count["gradients"] + count["blobs"]
    assert count["own"] == 0


def test_shared_parameters_count_once_and_buffers_apart() -> None:
    described = net().summary().describe()
    assert named(described, "one")["parameters"] == 42
    assert (named(described, "two")["parameters"], named(described, "two")["shared"]) == (0, ["one"])
    assert described["buffers"] > 0
    for count in ("parameters", "buffers"):
        assert (
            described[count]
            == sum(layer[count] for layer in described["layers"])
            == {"parameters": 54, "buffers": 12}[count]
        )


def test_a_layer_is_told_with_its_neuron() -> None:
    described = net().summary().describe()
    assert [(named(described, name)["type"], named(described, name)["neuron"]) for name in ("one", "act", "more")] == [
        ("InnerProduct", "Tanh"),
        ("Activation", "ReLU"),
        ("Activation", "ReLU"),
    ]


def test_a_net_without_a_backward_pass_has_no_gradients() -> None:
    assert net(phase="test").summary().describe()["bytes"]["gradients"] == 0


def test_the_text_has_a_line_for_each_layer() -> None:
    lines = str(net()).splitlines()
    assert lines[0] == "net 'shown' in phase train, float32 on numpy"
    assert lines[2].split() == ["layer", "type", "tops", "parameters", "buffers", "products", "memory"]
    assert lines[6].split() == ["one", "InnerProduct", "+", "Tanh", "y", "4x6", "42", "144", "264", "B"]
    assert "(as one)" in lines[7]
    assert lines[8].split() == ["norm", "BatchNorm", "n", "4x6", "12", "12", "288", "B"]
    assert any(line.startswith(f"{42 + 12} parameters, 12 numbers in buffers") for line in lines)


def test_a_column_without_numbers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Input(4)
    score = L.InnerProduct(output_dim=3)(L.InnerProduct(output_dim=8, neuron="ReLU")(x))
    made = Net("t", [L.SoftmaxLoss()(score, Input(dtype="int64"))], allocate=False)
    monkeypatch.setenv("COLUMNS", "80")
    lines = str(made).splitlines()
    assert lines[2].split() == ["layer", "type", "tops", "parameters", "products", "memory"]
    assert lines[5].startswith("inner_product1 "), "no name is broken"
    assert max(map(len, lines)) <= 80


def test_layers_with_weights_tell_their_multiplications() -> None:
    layers = [
        InputLayer(tops=["x"], shape=[4, 5, 5], batch_size=2),
        InputLayer(tops=["s"], shape=[3, 6], batch_size=7),
        ConvolutionLayer(bottoms="x", tops="c", n_filter=6, kernel=3, n_group=2),
        DeconvolutionLayer(bottoms="c", tops="d", n_filter=2, kernel=4, stride=2),
        InnerProductLayer(bottoms="d", tops="y", output_dim=3, transpose=True),
        LSTMLayer(bottoms="s", tops="h", output_dim=5, n_layer=2),
    ]
    made = Net("n", layers, backend="numpy", phase="test", allocate=False).summary()
    known = {layer.name: layer.multiplications for layer in made.layers}
    assert known["c"] == 2 * 6 * 3 * 3 * (4 // 2) * 3 * 3
    assert known["d"] == 2 * 6 * 3 * 3 * 2 * 4 * 4
    assert known["y"] == 2 * (2 * 8 * 8) * 3
    assert known["h"] == 7 * 3 * (20 * 6 + 20 * 5 + 2 * 20 * 5)


def test_frozen_layers_are_marked() -> None:
    summary = net(freeze=["norm"]).summary()
    assert [layer.name for layer in summary.layers if layer.frozen] == ["norm"]
    assert "BatchNorm (frozen)" in str(summary) and "54 parameters (12 frozen), 12 numbers in buffers" in str(summary)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1000, "1.00 K"), (99_949, "99.9 K"), (999_700, "1.00 M"), (2 * 10**15, "2000 T")],
)
def test_large_numbers_are_short(count: int, text: str) -> None:
    assert short(count) == text


def test_a_summary_fits_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("lenet", "resnet20"):
        lines = str(load(LENET.parent / f"{name}.toml").net(backend="numpy", allocate=False)).splitlines()
        table = lines[2 : lines.index("", 3)]
        assert max(map(len, table)) <= 80


def test_a_large_net_takes_no_memory() -> None:
    layers = [
        InputLayer(tops=["x"], shape=[100_000], batch_size=10_000),
        InnerProductLayer(name="ip", bottoms=["x"], tops=["y"], output_dim=1_000_000),
    ]
    tracemalloc.start()
    try:
        text = str(Net("large", layers, backend="numpy", allocate=False))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert "100,001,000,000 parameters" in text
    assert "GiB" in text


def test_the_first_line_names_who_has_no_kernel() -> None:
    layers = [
        InputLayer(tops=["x"], shape=[6], batch_size=4),
        InnerProductLayer(name="ip", bottoms=["x"], tops=["y"], output_dim=6),
        SquareLossLayer(name="loss", bottoms=["y"]),
    ]
    assert Net("n", layers, backend="numpy", allocate=False).summary().first_line() == (
        "backend numpy: 1 of 2 layers run through kernels made for it; loss through its general code"
    )


@pytest.mark.parametrize(
    ("count", "named"), [(5, "m0, m1, m2, m3, m4 through"), (6, "m0, m1, m2, m3 and 2 more through")]
)
def test_the_first_line_names_a_few(count: int, named: str) -> None:
    layers = [InputLayer(tops=["x"], shape=[6], batch_size=4)]
    layers += [SoftmaxLayer(name=f"m{place}", bottoms=["x"], tops=[f"m{place}"]) for place in range(count)]
    assert f"; {named} their general code" in Net("n", layers, backend="numpy", phase="test").summary().first_line()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (150 * 1024, "150 KiB"), (3 * 2**40, "3072 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_long_cells_are_wrapped() -> None:
    rows = [("a", "some words that are too long"), ("b", "few")]
    assert align(("name", "what"), rows, width=20) == [
        "name  what",
        "----  --------------",
        "a     some words",
        "      that are too",
        "      long",
        "b     few",
    ]


def test_columns_stand_below_each_other() -> None:
    assert align(("a", "n"), [("xyz", "1"), ("", "100")], right=(1,)) == [
        "a      n",
        "---  ---",
        "xyz    1",
        "     100",
    ]


def test_a_summary_at_a_depth_shows_containers_as_one_layer() -> None:
    summary = load(LENET.parent / "resnet20.toml").net(backend="numpy", allocate=False).summary()
    one, two = summary.at_depth(1), summary.at_depth(2)
    assert [(layer.name, layer.type) for layer in one.layers] == [
        ("train", "HDF5Data"),
        ("net", "Sequential"),
        ("loss", "SoftmaxLoss"),
    ]
    whole = one.layers[1]
    assert (whole.bottoms, whole.tops, whole.shapes) == (["data"], ["scores"], [[64, 10]])
    assert whole.parameters == sum(layer.parameters for layer in summary.layers)
    assert [(blob.name, blob.producer, blob.consumers) for blob in one.blobs] == [
        ("data", 0, (1,)),
        ("label", 0, (2,)),
        ("scores", 1, (2,)),
    ]
    stage = next(layer for layer in two.layers if layer.name == "net/stage3")
    assert (stage.type, stage.bottoms, stage.tops) == ("Repeat", ["net/stage3_1"], ["net/stage3"])
    assert next(layer for layer in two.layers if layer.name == "net/conv1") in summary.layers
    assert summary.at_depth(9) == summary
    assert two.totals() == summary.totals()


def test_parameters_shared_within_a_container_belong_to_it() -> None:
    layer = RepeatLayer(
        name="r", bottoms="x", tops="y", times=3, shared=True, layer=[{"type": "InnerProduct", "output_dim": 4}]
    )
    summary = Net("n", [InputLayer(tops="x", shape=4), layer], backend="numpy").summary()
    assert [one.parameters for one in summary.layers] == [0, 20, 0, 0]
    assert [one.shared for one in summary.layers][1:] == [[], ["r/InnerProduct1"], ["r/InnerProduct1"]]
    whole = summary.at_depth(1).layers[1]
    assert (whole.parameters, whole.shared) == (20, [])
