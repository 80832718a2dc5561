"""The commands that look: explain, layers, backends, plugins."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import nacre.discovery.registry
from command_line import run
from fake_backends import BlockedBackend, BlockedInnerProduct
from nacre import HostMemory, Layer, MethodState, NacreError, Names, Neuron
from nacre.config import load
from nacre.protocols.layer import TRAITS


def named(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (one,) = [entry for entry in found if entry["name"] == name]
    return one


# explain


def test_explain_names_every_choice() -> None:
    told = run("explain", "small.toml", "--json").json
    assert (told["net"], told["phase"], told["backend"], told["copies"]) == ("small", "train", "numpy", [])
    assert [layer["name"] for layer in told["layers"] if "/" not in layer["name"]] == [
        "train",
        "ip1",
        "drop1",
        "ip2",
        "loss",
    ]
    ip2 = named(told["layers"], "ip2")
    assert (ip2["type"], ip2["distribution"]) == ("InnerProduct", "nacre")
    assert ip2["kernel"].startswith("nacre_numpy.") and ip2["from"].startswith("nacre ")
    assert ip2["why"] == "nacre owns the backend numpy"
    assert named(told["layers"], "drop1")["kernel"] is None
    assert (told["solver"]["type"], told["solver"]["distribution"]) == ("SGD", "nacre")
    out = run("explain", "small.toml").out
    assert "ip2: InnerProduct of nacre " in out
    assert "drop1: Dropout of nacre " in out and "its own code, because no kernel serves it on numpy" in out
    assert "without a kernel, the most costly first" in out
    assert out.endswith("no copies between memories\n")


DIVIDED = """
name = "divided"
[[layer]]
type = "Input"
tops = ["x"]
shape = 6
batch_size = 4
partition_dim = -1
[[layer]]
type = "InnerProduct"
bottoms = ["x"]
tops = ["y"]
output_dim = 8
partition_dim = 1
[[layer]]
type = "SquareLoss"
name = "loss"
bottoms = ["y", "y"]
partition_dim = -1
"""


def test_explain_and_graph_show_a_net_on_its_ranks(tmp_path: Path) -> None:
    file = tmp_path / "divided.toml"
    file.write_text("insert_splits = true\n" + DIVIDED)
    told = json.loads(run("explain", str(file), "--ranks", "2", "--json").out)
    assert [[layer["name"] for layer in rank["layers"]] for rank in told["ranks"]] == [["x", "y", "loss"], ["y"]]
    assert [rank["parameters"] for rank in told["ranks"]] == [28, 28]
    keys = ("blob", "from", "to", "shape", "forward", "backward")
    assert [[one[key] for key in keys] for one in told["bridges"]] == [
        ["x@all[1]", 0, 1, [4, 6], 96, 0],
        ["y", 1, 0, [4, 4], 64, 64],
    ]
    text = run("explain", str(file), "--ranks", "2").out
    assert "y: by features, 28 parameters" in text and "in an iteration 224 B go over all bridges" in text
    drawn = run("graph", str(file), "--ranks", "2", "--format", "dot").out
    dashed = [line.split(" [")[0].strip() for line in drawn.splitlines() if "style=dashed" in line]
    assert dashed == [
        '"bridge_src(x@all[1], 0->1)@0" -> "bridge_dst(x@all[1], 0->1)@1"',
        '"bridge_src(y, 1->0)@1" -> "bridge_dst(y, 1->0)@0"',
    ]
    colours = {
        line.split("fillcolor=")[1].split(",")[0] for line in drawn.splitlines() if "@1" in line and "fill" in line
    }
    assert len(colours) == 1, "all layers of rank 1 have one colour"
    svg = run("graph", str(file), "--ranks", "2").out
    assert svg.count('stroke-dasharray="6 4"') == 2
    png = tmp_path / "net.png"
    run("graph", str(file), "--ranks", "2", "--out", str(png))
    assert png.read_bytes()[:4] == b"\x89PNG"


def test_explain_orders_the_layers_without_a_kernel_by_their_cost() -> None:
    pieces = [
        '[[layer]]\ntype = "Input"\ntops = ["data"]\nshape = [8, 6, 6]\nbatch_size = 2\n',
        '[[layer]]\ntype = "Reshape"\nbottoms = ["data"]\ntops = ["same"]\nshape = [8, 36]\n',
        '[[layer]]\ntype = "Softmax"\nname = "large"\nbottoms = ["data"]\ntops = ["large"]\n',
        '[[layer]]\ntype = "InnerProduct"\nname = "fast"\nbottoms = ["large"]\ntops = ["fast"]\noutput_dim = 4\n',
        '[[layer]]\ntype = "Softmax"\nname = "small"\nbottoms = ["fast"]\ntops = ["small"]\n',
        '[[layer]]\ntype = "Convolution"\nname = "work"\nbottoms = ["data"]\ntops = ["work"]\nn_filter = 3\n'
        'neuron = "Tanh"\n',
    ]
    Path("cost.toml").write_text('name = "cost"\ndtype = "float64"\n' + "\n".join(pieces), encoding="utf-8")
    told = run("explain", "cost.toml", "--phase", "predict", "--backend", "numpy", "--json").json["without_kernel"]
    assert [one["name"] for one in told] == ["large", "work/Tanh", "small"], "not those that only read another shape"
    assert (told[0]["numbers"], told[0]["multiplications"]) == (2 * 2 * 8 * 36, 0)


def test_explain_names_losers_decliners_and_neurons() -> None:
    here = nacre.discovery.registry.registry()

    class Fast:
        pass

    here.register_kernel(Fast, "InnerProduct", "numpy", "acme")
    told = run("explain", "small.toml", "--set", "dtype=float64", "--json").json
    (lost,) = named(told["layers"], "ip2")["lost"]
    assert lost["from"] == "acme"
    assert 'pin = { "kernel:InnerProduct@numpy" = "acme" }' in lost["reason"]
    assert "lost: " in run("explain", "small.toml").out
    Path("mine.py").write_text(
        "from nacre import Neuron\nclass Mine(Neuron):\n"
        "    def forward(self, backend, x, y): ...\n    def backward(self, backend, x, y, dy, dx): ...\n"
    )
    told = run("explain", "small.toml", "--plugin", "mine.py", "--set", "layer.ip1.neuron=Mine", "--json").json
    assert named(told["layers"], "ip1/Mine")["type"] == "Mine"


def test_explain_gives_the_solver_that_a_training_would_have() -> None:
    class Single(MethodState):
        """Pinned, so that it would serve if it could."""

        dtypes = ("float32",)

        @classmethod
        def supports(cls, method: Any, inputs: Any) -> str | None:
            assert {str(span.value.dtype) for span in inputs} == {"float32"}
            return "not with these rates" if {span.rate for span in inputs} == {1.0} else None

        def update(self) -> None: ...

    nacre.discovery.registry.registry().register_kernel(Single, "solver/SGD", "numpy", "acme")
    pin = 'plugins.pin={ "kernel:solver/SGD@numpy" = "acme" }'
    for dtype, reason in (("float64", "computes in float32, not float64"), ("float32", "not with these rates")):
        told = run("explain", "small.toml", "--set", f"dtype={dtype}", "--set", pin, "--json").json["solver"]
        assert [one["reason"] for one in told["declined"]] == [reason]
        file = load("small.toml", [f"dtype={dtype}", pin])
        with file.net() as net, file.solver(callbacks=[]).start(net) as training:
            assert training.choice.as_dict().items() <= told.items()


def test_the_first_line_says_for_whom_copies_are_made() -> None:
    here = nacre.discovery.registry.registry()
    here.register(BlockedBackend, "blocked", "backend", "blocked")
    here.register_kernel(BlockedInnerProduct, "InnerProduct", "blocked", "blocked")
    told = run("explain", "small.toml", "--backend", "blocked").out.splitlines()[0]
    assert "2 of 4 layers run through kernels made for it; drop1, loss through their general code" in told
    assert told.endswith(" copies per step for ip1/Tanh, drop1, loss")
    assert run("explain", "small.toml").out.splitlines()[0].endswith("general code")


def test_explain_tells_regularisers_and_constraints() -> None:
    assert run("explain", "small.toml", "--json").json["components"] == []
    told = run("explain", "small.toml", "--set", "solver.regu_coef=0.1", "--json").json["components"]
    assert named(told, "regularizer.ip1/weight")["type"] == "L2"
    assert "regularizer.ip1/weight: L2 of nacre" in run("explain", "small.toml", "--set", "solver.regu_coef=0.1").out


# layers, backends, plugins


def test_layers_are_listed_by_their_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run("layers").out
    groups = dict(part.split("\n", 1) for part in out.split("\n\n")[:-1])
    assert groups[f"nacre_layers.convolution (nacre {nacre.__version__})"] == "  Convolution, Deconvolution, Im2col"
    names = [name.strip() for text in groups.values() for name in text.replace("\n", " ").split(",")]
    assert sorted(names) == sorted(nacre.discovery.registry.registry().names("layer"))
    assert max(map(len, out.splitlines())) <= 80


def test_listing_layers_imports_none() -> None:
    code = "import sys; from nacre.cli.app import nacre\ntry: nacre.main(['layers'])\nexcept SystemExit: pass\n"
    code += "print([name for name in sys.modules if name.startswith('nacre_layers.') or name == 'numpy'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("components\n[]\n")


def test_layers_are_listed_with_a_sentence_about_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("layers", "--long").out.splitlines()
    assert lines[0].split() == ["kind", "name", "what", "it", "is"]
    (line,) = [line for line in lines if line.split()[1:2] == ["SquareLoss"]]
    assert "loss = weight" in line
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:2] == ["neuron", "ReLU"] for line in run("layers", "--all", "--long").out.splitlines())


def test_every_component_is_listed_and_has_a_page() -> None:
    rows = [line.split() for line in run("layers", "--all").out.splitlines()]
    for row in (
        ["layer", "Pooling"],
        ["callback", "Snapshot"],
        ["store", "HDF5"],
        ["snapshot", "store"],
        ["backend", "numpy"],
    ):
        assert row in [one[:2] for one in rows]
    found = run("layers", "--all", "--json").json
    assert [one for one in found if one["problem"]] == []
    assert len(found) == len(rows) - 2


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("store/HDF5", "HDF5: store of nacre"),
        ("snapshot store/HDF5", "HDF5: snapshot store of nacre"),
        ("numpy", "numpy: backend of nacre"),
        ("momentum policy/Staged", "Staged: momentum policy of nacre"),
        ("StagedMomentum", "Staged: momentum policy of nacre"),
        ("ConvolutionLayer", "Convolution: layer of nacre"),
    ],
)
def test_pages_by_every_name(name: str, head: str) -> None:
    assert run("layers", name).out.startswith(head)


def test_a_strangers_layer_does_not_hide_the_neuron_that_its_name_means() -> None:
    class ReLULayer(Layer):
        """Not nacre's."""

    nacre.register(ReLULayer)
    assert run("layers", "ReLU").out.startswith("ReLU: neuron of nacre ")
    assert run("layers", "local:ReLU").out.startswith("ReLU: layer of local ")
    assert "\n  local:ReLU\n" in run("layers").out


def test_an_unknown_name_may_be_that_of_any_component() -> None:
    done = run("layers", "Snapshto", code=2)
    assert done.err.startswith(
        "error: there is no layer and no component 'Snapshto' (did you mean 'Snapshot'?)\n  `nacre layers --"
    )


def test_layers_json_has_the_keys_that_programs_rely_on() -> None:
    found = run("layers", "--json").json
    assert {layer["name"] for layer in found} == set(nacre.discovery.registry.registry().names("layer"))
    for layer in found:
        wanted = {"name", "distribution", "version", "module", "summary", "traits", "fields", "problem"}
        assert wanted <= set(layer)
        assert set(layer["traits"]) == set(TRAITS)
        assert layer["problem"] is None
        assert layer["summary"], layer["name"]
        for field in layer["fields"]:
            assert {"name", "type", "default", "doc"} <= set(field)
            assert field["doc"], (layer["name"], field["name"])
    convolution = named(found, "Convolution")
    assert convolution["module"] == "nacre_layers.convolution.convolution"
    assert convolution["traits"]["has_param"] and not convolution["traits"]["is_source"]
    fields = {field["name"]: field for field in convolution["fields"]}
    assert (fields["kernel"]["default"], fields["weight_init"]["default"], fields["bias_cons"]["default"]) == (
        [1],
        "Xavier",
        None,
    )
    assert fields["n_filter"]["required"] and not fields["bias_cons"]["required"]


def test_a_broken_class_is_listed_with_its_problem() -> None:
    here = nacre.discovery.registry.registry()

    class OddLayer:
        nacre_kind = "layer"

    here.register(OddLayer)
    offers = here.offers("layer", "Odd")[0]
    Path("broken.py").write_text(
        "from nacre import hookimpl\n@hookimpl\ndef offer_layers():\n    return {'Gone': 'no_such_module:GoneLayer'}\n"
    )
    found = run("layers", "--json", "--plugin", "broken.py").json
    gone = named(found, "Gone")
    assert gone["distribution"] == "broken"
    assert gone["traits"] == dict.fromkeys(TRAITS)
    assert "no_such_module" in gone["problem"]
    assert "AttributeError" in named(found, offers.name)["problem"]
    assert "no_such_module (broken)\n  Gone\n" in run("layers").out
    assert "no_such_module" in next(line for line in run("layers", "--long").out.splitlines() if " Gone " in line)
    assert "cannot be opened: " in run("layers", "Gone").out


def test_the_page_of_a_layer() -> None:
    out = run("layers", "Convolution").out
    assert out.startswith("Convolution: layer of nacre ")
    assert "After Mocha.jl's" in out
    assert "traits: has_param, has_neuron, can_do_bp" in out
    assert any(line.split()[:3] == ["n_filter", "int", "required"] for line in out.splitlines())
    assert any(line.split()[:5] == ["bias_cons", "Constraint", "|", "None", '"none"'] for line in out.splitlines())
    assert "  numpy: nacre_numpy." in out.partition("kernels, if none declines (elsewhere its own code runs):\n")[2]
    (page,) = run("layers", "nacre:Convolution", "--json").json
    assert "numpy" in [one["backend"] for one in page["kernels"]]
    assert "kernels: none, its own code runs on every backend" in run("layers", "Flatten").out
    assert "kernels: those of the layers that it is made of" in run("layers", "Residual").out


def test_a_page_has_an_example_for_the_net_file() -> None:
    before, _, after = run("layers", "Pooling").out.partition("\nExample:\n")
    table = tomllib.loads(after.partition("\n\n")[0])
    assert table["layer"][0]["type"] == "Pooling" and "Pool every channel" in before
    assert "[[layer]]" not in run("layers", "SGD").out


def test_a_page_tells_what_each_field_may_be() -> None:
    lines = run("layers", "Pooling").out.splitlines()
    fields = {line.split()[0]: line for line in lines[lines.index("") :] if line}
    assert fields["rounding"].endswith("(one of 'ceil', 'floor')")
    assert fields["stride"].endswith("in pixels (above 0)")
    assert fields["Sizes"] == "  Sizes            a whole number, or one for each direction"
    assert fields["PoolingFunction"].endswith(" (Max, Mean, Stochastic)")
    assert not {"bool", "str", "int"} & set(fields)
    (page,) = run("layers", "Pooling", "--json").json
    pooling = named(page["fields"], "pooling")
    assert pooling["choices"] == ["Max", "Mean", "Stochastic"] and pooling["wants"].startswith("a pooling: ")
    assert named(page["fields"], "rounding")["help"] == fields["rounding"].split(maxsplit=3)[3]


def test_a_page_gives_required_fields_first_and_inherited_ones_last() -> None:
    (page,) = run("layers", "InnerProduct", "--json").json
    names = [field["name"] for field in page["fields"]]
    assert names[:4] == ["bottoms", "tops", "output_dim", "axis"]
    assert names[-4:] == ["name", "exclude", "partition_dim", "location"]
    assert names.index("transpose") < names.index("weight_init") < names.index("bias_init")


def test_a_clash_that_is_settled_shows_as_settled() -> None:
    here = nacre.discovery.registry.registry()

    class Swirl(Layer):
        bottoms: Names
        tops: Names

    class Curl(Neuron):
        pass

    class Frill(Neuron):
        pass

    for kind, thing in (("layer", Swirl), ("neuron", Curl)):
        for distribution in ("acme", "bits"):
            here.register(thing, "Twist", kind, distribution)
    assert "is offered by acme and bits" in run("layers", "Twist", code=2).err
    Path("nacre.toml").write_text('[plugins]\npin = { "layer:Twist" = "acme", "neuron:Twist" = "bits" }\n')
    assert [page["distribution"] for page in run("layers", "Twist", "--json").json] == ["acme"]
    assert [page["distribution"] for page in run("layers", "neuron/Twist", "--json").json] == ["bits"]
    here.register(Frill, "Frill", "neuron", "acme")
    here.register(Frill, "Frill", "neuron", "bits")
    assert "is offered by acme and bits" in run("layers", "Frill", code=2).err


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("SGD", ["SGD: solver of nacre"]),
        ("neuron/ReLU", ["ReLU: neuron of nacre"]),
        ("ReLU", ["ReLU: neuron of nacre"]),
        ("Fixed", ["Fixed: lr policy of nacre", "Fixed: momentum policy of nacre"]),
        ("Scale", ["Scale: layer of nacre"]),
        ("transformer/Scale", ["Scale: transformer of nacre"]),
        ("Snapshot", ["Snapshot: callback of nacre"]),
    ],
)
def test_everything_that_a_net_file_names_has_a_page(name: str, heads: list[str]) -> None:
    out = run("layers", name).out
    assert all(head in out for head in heads)
    assert out.count(" of nacre ") >= len(heads)


def test_backends() -> None:
    class Broken(HostMemory):
        name, lineage = "broken", ("broken",)

        @classmethod
        def unusable(cls) -> str | None:
            return "there is no such device"

    class Raising(HostMemory):
        name, lineage = "raising", ("raising",)

        @classmethod
        def unusable(cls) -> str | None:
            raise OSError("no driver")

    class Refused(HostMemory):
        name, lineage = "refused", ("refused",)

        def environment(self) -> dict[str, object]:
            raise NacreError("THREADS=0, but one is needed", "set it to 1")

    here = nacre.discovery.registry.registry()
    here.register(Broken, "broken", "backend", "acme")
    here.register(Raising, "raising", "backend", "acme")
    here.register(Refused, "refused", "backend", "acme")
    Path("gone.py").write_text(
        "from nacre import hookimpl\n@hookimpl\ndef offer_backends():\n    return {'gone': 'no_such_module:Gone'}\n"
    )
    found = run("backends", "--json", "--plugin", "gone.py").json
    assert all({"name", "usable", "reason", "distribution"} <= set(one) for one in found)
    assert (named(found, "numpy")["usable"], named(found, "numpy")["reason"]) == (True, None)
    assert named(found, "numpy")["environment"]["threads"] > 0
    assert named(found, "broken")["reason"] == "there is no such device"
    assert named(found, "raising")["reason"] == "checking it raised OSError: no driver"
    assert named(found, "refused")["reason"] == "THREADS=0, but one is needed; set it to 1"
    assert "No module named 'no_such_module'" in named(found, "gone")["reason"]
    assert not any(named(found, name)["usable"] for name in ("broken", "raising", "refused", "gone"))
    lines = [line.split() for line in run("backends").out.splitlines()]
    assert ["broken", "no", "acme", "there", "is", "no", "such", "device"] in lines


def test_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_DISABLE_PLUGINS", "nacre_solvers,unheard-of")
    found = run("plugins", "--json").json
    keys = {"distribution", "version", "status", "problem", "offers"}
    assert all(keys <= set(one) for one in found)
    by_module = {one["module"]: one for one in found}
    assert by_module["nacre_layers"]["status"] == "active"
    assert "Convolution" in by_module["nacre_layers"]["offers"]["layer"]
    off = by_module["nacre_solvers"]
    assert (off["status"], off["offers"]) == ("disabled", {})
    assert "NACRE_DISABLE_PLUGINS" in off["problem"] and "NACRE_DISABLE_PLUGINS" in off["remedy"]
    assert {one["status"] for one in found} == {"active", "disabled", "failed"}
    (unknown,) = [one for one in found if one["distribution"] == "unheard-of"]
    assert unknown["status"] == "failed" and "no such plugin is installed" in unknown["problem"]
    out = run("plugins").out
    assert "no such plugin is installed" in out
    count = f" {len(by_module['nacre_layers']['offers']['layer'])} layers"
    assert any(line.startswith("nacre (nacre_layers)") and count in line for line in out.splitlines())


def test_json_has_no_numbers_that_json_lacks() -> None:
    from nacre.files.json import finite

    assert json.dumps(finite({"a": [float("nan"), 1.0, {"b": float("inf")}]})) == '{"a": [null, 1.0, {"b": null}]}'
