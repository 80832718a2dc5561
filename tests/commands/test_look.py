"""The commands that look at a net: summary, graph, time, gradcheck."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from command_line import full_disk, run, terminal


def named(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (one,) = [entry for entry in found if entry["name"] == name]
    return one


# summary, graph


def test_summary() -> None:
    out = run("summary", "small.toml").out
    lines = out.splitlines()
    assert lines[0] == "net 'small' in phase train, float32 on numpy"
    assert any(line.split()[:6] == ["ip1", "InnerProduct", "+", "Tanh", "ip1", "10x12"] for line in lines)
    assert any(line.startswith("147 parameters") for line in lines)
    told = run("summary", "small.toml", "--phase", "test", "--json").json
    assert [layer["name"] for layer in told["layers"]] == ["test", "ip1", "drop1", "ip2", "loss", "accuracy"]
    assert told["bytes"]["gradients"] == 0


def test_phase_predict_has_inputs_in_place_of_the_sources() -> None:
    told = run("summary", "small.toml", "--phase", "predict", "--json").json
    assert [layer["name"] for layer in told["layers"]] == ["predict-data", "ip1", "drop1", "ip2", "prob"]
    assert "10 × 2 × 4" in run("graph", "small.toml", "--phase", "predict").out
    assert run("time", "small.toml", "--phase", "predict", "--runs", 1, "--json").json["forward_ms"] > 0
    assert run("explain", "small.toml", "--phase", "predict", "--json").json["phase"] == "predict"
    for name in ("train.h5", "test.h5"):
        Path(name).unlink()
    done = run("graph", "small.toml", "--phase", "predict", code=2)
    told = "the shape of 'data' is not known, because the data of small.toml are missing\n  copy the data here, or "
    assert told in done.err


def test_summary_of_a_giant_allocates_nothing() -> None:
    told = run("summary", "small.toml", "--set", "layer.ip1.output_dim=1000000000000", "--json").json
    assert told["bytes"]["parameters"] > 2**45


def test_graph_is_svg_or_dot() -> None:
    assert ET.fromstring(run("graph", "small.toml").out).tag.endswith("svg")
    assert run("graph", "small.toml", "--format", "dot").out.startswith('digraph "small" {')
    assert run("graph", "small.toml", "--out", "net.svg").out == "wrote net.svg\n"
    assert Path("net.svg").read_text(encoding="utf-8") == run("graph", "small.toml").out
    run("graph", "small.toml", "--out", "net.dot", "--phase", "test")
    assert '"accuracy"' in Path("net.dot").read_text(encoding="utf-8")
    before = Path("net.svg").read_bytes()
    with full_disk():
        assert "net.svg: cannot be written: No space left" in run("graph", "small.toml", "--out", "net.svg", code=2).err
    assert Path("net.svg").read_bytes() == before
    assert (
        "net.pdf: the ending of a drawing must be .dot " in run("graph", "small.toml", "--out", "net.pdf", code=2).err
    )
    assert (
        "no/net.svg: cannot be written: No such file or directory"
        in run("graph", "small.toml", "--out", "no/net.svg", code=2).err
    )


# time, gradcheck


def test_time_of_each_layer_and_of_the_step() -> None:
    told = run("time", "small.toml", "--runs", 2, "--json").json
    assert [row["name"] for row in told["layers"]] == ["train", "ip1", "drop1", "ip2", "loss"]
    ip1 = named(told["layers"], "ip1")
    assert ip1["forward_ms"] > 0 and ip1["backward_ms"] > 0
    assert named(told["layers"], "train")["backward_ms"] is None
    assert told["forward_ms"] == pytest.approx(sum(row["forward_ms"] for row in told["layers"]))
    assert told["step_ms"] > 0 and told["iteration_ms"] > 0 and told["images_per_second"] > 0
    times = {row["name"]: (row["forward_ms"] or 0) + (row["backward_ms"] or 0) for row in told["layers"]}
    assert list(told["without_kernel"]) == sorted(["drop1", "loss"], key=lambda name: -times[name])
    assert ip1["kernel"] and named(told["layers"], "loss")["kernel"] is None
    assert not Path("snapshots").exists()
    lines = run("time", "small.toml", "--runs", 1).out.splitlines()
    assert lines[0].split() == ["layer", "type", "forward", "ms", "backward", "ms"]
    assert lines[-4].startswith("without a kernel, the slowest first: ")
    assert lines[-2].startswith("forward and backward in one call: ")
    assert lines[-1].startswith("a whole iteration of SGD: ")


@pytest.mark.parametrize("batches", [1, 5])
def test_time_counts_the_images_of_every_batch_of_an_iteration(batches: int) -> None:
    told = run("time", "small.toml", "--runs", 1, "--json", "--set", f"solver.n_accumulate={batches}").json
    assert told["images_per_second"] * told["iteration_ms"] / 1000 == pytest.approx(10 * batches)


def test_time_of_a_net_that_only_goes_forward() -> None:
    told = run("time", "small.toml", "--runs", 1, "--phase", "test", "--json").json
    assert (told["backward_ms"], told["iteration_ms"], told["passes"]) == (None, None, "forward")
    assert "forward in one call" in run("time", "small.toml", "--runs", 1, "--phase", "test").out


OUTPUT = """
from nacre import Layer, LayerState, Names


class TellLayer(Layer, is_sink=True):
    bottoms: Names

    def setup(self, backend, inputs, diffs):
        return TellState(self, backend, inputs, diffs)


class TellState(LayerState, reads=""):
    def forward(self, inputs):
        open("told", "a").close()

    def backward(self, inputs, diffs):
        pass

    def shutdown(self):
        pass
"""


def test_who_only_looks_writes_nothing() -> None:
    Path("tell.py").write_text(OUTPUT)
    outputs = (
        '[[layer]]\ntype = "HDF5Output"\nbottoms = ["ip2"]\nfilename = "scores.h5"\nforce_overwrite = true\n'
        '[[layer]]\ntype = "Tell"\nname = "tell"\nbottoms = ["ip2"]\n'
    )
    text = Path("small.toml").read_text()
    Path("outputs.toml").write_text(text.replace("[solver]", outputs + "[solver]", 1))
    Path("scores.h5").write_bytes(b"a finished result")
    plugin = ("--plugin", "tell.py")
    told = run("time", "outputs.toml", "--runs", 1, "--json", *plugin).json
    assert [row["name"] for row in told["layers"]] == ["train", "ip1", "drop1", "ip2", "loss"]
    assert run("gradcheck", "outputs.toml", "--entries", 2, "--json", *plugin).json["right"]
    assert Path("scores.h5").read_bytes() == b"a finished result"
    assert not Path("told").exists()


def test_gradients_are_right() -> None:
    told = run("gradcheck", "small.toml", "--entries", 20, "--json").json
    assert told["right"]
    assert list(told["parameters"]) == ["ip1/weight", "ip1/bias", "ip2/weight", "ip2/bias"]
    assert max(told["parameters"].values()) < 1e-5
    assert run("gradcheck", "small.toml", "--entries", 5).out.endswith("all gradients are right\n")
    for tolerance in ("nan", "-1"):
        done = run("gradcheck", "small.toml", f"--tolerance={tolerance}", code=2)
        assert "must be 0 or more" in done.err


def test_the_gradient_that_is_being_checked_is_shown() -> None:
    shown = terminal("gradcheck", "small.toml", "--entries", "20")
    assert "ip2/bias" in shown.partition("relative error")[0]
    assert "\x1b" not in run("gradcheck", "small.toml", "--entries", 5).err


def test_a_gradient_that_is_zero_everywhere_is_not_called_right() -> None:
    Path("still.py").write_text(
        "from nacre import Neuron\n"
        "class Still(Neuron):\n"
        "    def forward(self, backend, x, y):\n"
        "        y[...] = 1\n"
        "    def backward(self, backend, x, y, dy, dx):\n"
        "        dx[...] = 0\n"
    )
    change = ("gradcheck", "small.toml", "--plugin", "still.py", "--set", "layer.ip1.neuron=Still", "--entries", 5)
    lines = run(*change).out.splitlines()
    told = {line.split()[0]: line.split(maxsplit=2)[2] for line in lines if line.startswith("ip")}
    nothing = "nothing checked: the gradient is zero everywhere"
    assert told == {"ip1/weight": nothing, "ip1/bias": nothing, "ip2/weight": "right", "ip2/bias": "right"}
    assert lines[-1] == "all other gradients are right"
    assert run(*change, "--json").json["zero"] == ["ip1/weight", "ip1/bias"]


def test_a_wrong_gradient_is_found() -> None:
    Path("wrong.py").write_text(
        "from nacre import Neuron\n"
        "class Wrong(Neuron):\n"
        "    def forward(self, backend, x, y):\n"
        "        backend.xp.multiply(x, 2, out=y)\n"
        "    def backward(self, backend, x, y, dy, dx):\n"
        "        backend.xp.multiply(dy, 2.001, out=dx)\n"
    )
    change = ("gradcheck", "small.toml", "--plugin", "wrong.py", "--set", "layer.ip1.neuron=Wrong", "--entries", 5)
    assert run(*change, code=1).out.endswith("2 of 4 gradients are wrong\n")
    told = run(*change, "--json", code=1).json
    assert not told["right"]
    assert [name for name, error in told["parameters"].items() if error > told["tolerance"]] == [
        "ip1/weight",
        "ip1/bias",
    ]
    assert run(*change, "--tolerance", "0.1").code == 0
