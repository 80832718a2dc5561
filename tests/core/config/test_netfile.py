"""Net files: what is read, what is refused and how it is said, overrides, settings, and the way back."""

from __future__ import annotations

import ast
import math
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre.discovery.registry
import nacre.discovery.settings
from forging import trials
from nacre import (
    Component,
    ConfigError,
    ContractError,
    HostMemory,
    Identity,
    Layer,
    LayerState,
    Method,
    MethodState,
    Names,
    Net,
    open_backend,
    positive,
)
from nacre.config import dumps, load
from nacre.config.tables import requirements
from nacre.discovery.registry import Registry
from nacre.discovery.settings import settings as read_settings
from nacre.fields.tables import table_of, type_name
from nacre.files.toml import toml_text
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.neurons import Tanh
from nacre_solvers import Snapshot, TensorBoard
from page_tables import own_classes
from registries import NewRegistry

LENET = Path(__file__).resolve().parents[3] / "examples/digits/lenet.toml"
NET = """
name = "small"
seed = 3

[[layer]]
type = "Input"
name = "in"
tops = ["data"]
shape = 6
batch_size = 4

[[layer]]
type = "Input"
name = "truth"
tops = ["label"]
batch_size = 4

[[layer]]
type = "InnerProduct"
name = "ip1"
bottoms = ["data"]
tops = ["ip1"]
output_dim = 5
neuron = "Tanh"

[[layer]]
type = "InnerProduct"
bottoms = ["ip1"]
tops = ["scores.v2"]
output_dim = 3

[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["scores.v2", "label"]

[solver]
type = "SGD"
max_iter = 10
lr_policy = { type = "Step", base = 0.1, gamma = 0.5, stepsize = 4 }
momentum_policy = 0.9

[[callback]]
type = "TrainingSummary"
every_n_iter = 5
"""


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> Path:
    """Run in a folder of its own, without the settings and with a registry that may be changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("NACRE_BACKEND", raising=False)
    new_registry()
    return tmp_path


def write(text: str = NET, name: str = "small.toml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(text: str = NET, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(write(text), overrides)
    return str(caught.value)


def test_the_example_says_what_it_means() -> None:
    file = load(LENET)
    assert [layer.name for layer in file.layers][:3] == ["train", "test", "conv1"]
    conv = file.layers[2]
    assert (conv.n_filter, conv.kernel, repr(conv.neuron)) == (20, (3,), "ReLU()")
    solver = file.solver()
    assert solver.max_iter == 1500
    assert (solver.lr_policy.gamma, solver.momentum_policy.base) == (0.1, 0.9)
    assert [type_name(type(callback)) for callback in solver.callbacks] == [
        "TrainingSummary",
        "ValidationPerformance",
        "Snapshot",
        "LearningCurve",
    ]


def test_nets_of_one_file_share_layers_and_options() -> None:
    file = load(write(f'dtype = "float64"\ninsert_splits = true\n{NET}'))
    net, other = file.net("train"), file.net("test", seed=4, allocate=False)
    assert (net.name, net.seed, net.dtype, net.phase) == ("small", 3, "float64", "train")
    assert (other.seed, other.phase) == (4, "test")
    assert net.layers == other.layers == file.layers
    again = file.net("test")
    assert np.array_equal(net.parameters["ip1/weight"].value, again.parameters["ip1/weight"].value)
    net.parameters["ip1/weight"].value = np.ones((5, 6))
    assert again.parameters["ip1/weight"].value.all()


def test_the_file_gives_the_name_of_a_net_without_one() -> None:
    assert load(write(NET.replace('name = "small"\n', "", 1))).name == "small"


def test_keys_of_the_solver_table_go_to_solver_or_method() -> None:
    class Heavy(Method):
        mass: Annotated[float, positive, "how heavy"]
        friction: float = 0.5

        def setup(self, backend: Any, spans: Any) -> MethodState:
            return MethodState(self, backend, spans)

    nacre.discovery.registry.register(Heavy)
    text = NET.replace('type = "SGD"', 'type = "Heavy"\nmass = 2.0')
    solver = load(write(text)).solver()
    assert (solver.method.mass, solver.method.friction, solver.max_iter) == (2.0, 0.5, 10)
    assert "[solver]: unknown field 'fricton' (did you mean 'friction'?)" in refused(
        f"{NET}", "solver.type=Heavy", "solver.fricton=1", "solver.mass=1"
    )
    assert "[solver]: mass=-1.0, but it must be above 0" in refused(text, "solver.mass=-1.0")


def test_an_algorithm_that_is_none_is_named_with_its_file() -> None:
    path = write(NET.replace('type = "SGD"', 'type = "SGD"\nalgorithm = 5'))
    assert "[solver]: algorithm=5, but it must be an algorithm: an object" in refused(path.read_text(encoding="utf-8"))
    with pytest.raises(ConfigError, match=r"small\.toml: \[solver\] algorithm=5, but it must be an algorithm"):
        load(path, to_train=False).net("train")


def test_each_solver_has_new_policies() -> None:
    file = load(write())
    assert file.solver().lr_policy is not file.solver().lr_policy
    assert file.solver(max_iter=3).max_iter == 3


def test_a_file_without_a_solver_says_what_to_add() -> None:
    file = load(write(NET.partition("[solver]")[0]))
    assert not file.has_solver
    with pytest.raises(ConfigError, match=r"\[solver\]"):
        file.solver()


def test_a_neuron_is_a_layer_by_its_name() -> None:
    class Leaky(Identity):
        slope: float = 0.01

    nacre.discovery.registry.register(Leaky)
    text = NET + '[[layer]]\ntype = "Leaky"\nname = "act"\nbottoms = ["ip1"]\ntops = ["act"]\nslope = 0.2\n'
    layer = load(write(text)).layers[-1]
    assert type_name(type(layer)) == "Activation"
    assert (layer.name, layer.neuron.slope) == ("act", 0.2)
    assert "act: unknown field 'slpe' (did you mean 'slope'?)" in refused(text.replace("slope", "slpe"))
    assert "act: slope='a', but it must be a number" in refused(text.replace("0.2", '"a"'))


def test_any_kind_may_have_a_layer() -> None:
    class Stamp(Component, kind="test_stamp"):
        ink: float = 1.0

    class StampLayer(Layer):
        bottoms: Names
        tops: Names
        test_stamp: Stamp

    nacre.discovery.registry.register(Stamp, "Red")
    nacre.discovery.registry.register(StampLayer, "Stamping")
    nacre.discovery.registry.register(StampLayer, "test_stamp", "layer_of")
    text = NET + '[[layer]]\ntype = "Red"\nbottoms = "ip1"\ntops = "stamped"\nink = 0.5\n'
    layer = load(write(text)).layers[-1]
    assert isinstance(layer, StampLayer) and layer.test_stamp.ink == 0.5


def test_the_core_names_no_layer_that_it_makes() -> None:
    class Plain(Identity):
        pass

    here = nacre.discovery.registry.registry()
    here.register(Plain)
    text = NET + '[[layer]]\ntype = "Plain"\nbottoms = "ip1"\ntops = "plain"\n'
    assert type_name(type(load(write(text)).layers[-1])) == "Activation"
    (offer,) = here.offers("layer_of", "neuron")
    here._withdraw(next(plugin for plugin in here.plugins() if offer in plugin.offers), [offer])
    assert "no layer 'Plain'" in refused(text)


def test_none_takes_a_default_away() -> None:
    file = load(write(), ["layer.ip1.weight_regu=none"])
    assert file.layers[2].weight_regu is None
    assert 'weight_regu = "none"' in dumps(file)


def test_none_is_nothing_in_every_field_that_may_be_without(clean: Path) -> None:
    """From Python as from a file, whatever the words of the field's type (there is a "str" in "Constraint")."""
    fields = [field for cls in own_classes() for field in cls.fields() if may_be_none(field)]
    assert {"weight_regu", "weight_cons", "bias_regu", "ignore_label"} <= {field.name for field in fields}
    texts = [field for field in fields if "str" in field.type.split(" | ")]  # of which "none" may be one
    assert [field for field in fields if field not in texts and field.convert("none") is not None] == []
    layer = InnerProductLayer(name="ip", bottoms="a", tops="b", output_dim=2, weight_regu="none", bias_cons="none")
    assert (layer.weight_regu, layer.bias_cons) == (None, None)
    assert load(write(), ["layer.ip1.weight_cons=none"]).layers[2].weight_cons is None
    with pytest.raises(ConfigError, match="no regularizer 'non'"):
        InnerProductLayer(name="ip", bottoms="a", tops="b", output_dim=2, weight_regu="non")


def may_be_none(field: Any) -> bool:
    try:
        return field.convert(None) is None
    except (ValueError, TypeError):
        return False


def test_paths_start_from_the_net_file(clean: Path) -> None:
    text = '[[layer]]\ntype = "HDF5Data"\nname = "d"\nbatch_size = 2\nsource = ["a/train.h5", "/far/b.h5"]\n'
    file = load(write(text, "nets/one.toml"))
    assert file.layers[0].source == (str(clean / "nets/a/train.h5"), "/far/b.h5")
    assert 'source = ["a/train.h5", "/far/b.h5"]' in dumps(file)
    assert 'source = ["nets/a/train.h5", "/far/b.h5"]' in dumps(file, clean)


@pytest.mark.parametrize("given", ["{}", "[{}]"])
def test_what_a_person_fetches_from_needs_no_permission_and_what_a_file_says_does(clean: Path, given: str) -> None:
    source = given.format('"https://data.example.org/x.h5"')
    text = f'[[layer]]\ntype = "HDF5Data"\nname = "d"\nbatch_size = 2\nsource = {source}\n'
    (in_file,), (said,) = (load(write(text), some).layers[0].source for some in ([], [f"layer.d.source={source}"]))
    assert in_file.permission is not None and said.permission is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            NET.replace("seed = 3", "sed = 3"),
            "small.toml: unknown key 'sed' (did you mean 'seed'?); known keys: name, seed,",
        ),
        (NET.replace("seed = 3", "seed = true"), "small.toml: seed=True, but it must be a whole number"),
        (NET.replace("seed = 3", 'fallback = "maybe"'), 'fallback=\'maybe\', but it must be "warn" or "error"'),
        (
            NET.replace("seed = 3", 'dtype = "float16"'),
            "small.toml: dtype='float16', but it must be float32 or float64",
        ),
        ('layer = "ip"', "layer='ip', but it must be an array of tables: [[layer]]"),
        ("[layer]\ntype = 'ReLU'", "[layer] must be an array of tables: write [[layer]]"),
        (NET.replace("[[callback]]", "[callback]"), "[callback] must be an array of tables: write [[callback]]"),
        (NET.replace('"InnerProduct"', "3"), "ip1: type=3, but it must be a string"),
        (NET.replace('"Tanh"', '"tanh"'), "ip1: neuron: no neuron 'tanh' (did you mean 'Tanh'?)"),
        (NET.replace('"SGD"', '"sgd"'), "[solver]: no solver 'sgd' (did you mean 'SGD'?)"),
        ("layer = [1]", "layer must be an array of tables: [[layer]]"),
        ('name = "empty"', "there is no [[layer]]"),
        ('[[layer]]\nname = "a"', "a: type is missing"),
        (
            '[[layer]]\ntype = "Convolutoin"',
            "layer 1 (Convolutoin): no layer 'Convolutoin' (did you mean 'Convolution'?)",
        ),
        (NET.replace("output_dim = 5", "output_dim = 0"), "ip1: output_dim=0, but it must be above 0"),
        (NET.replace("output_dim = 5", 'output_dim = "5"'), "ip1: output_dim='5', but it must be a whole number"),
        (NET.replace("output_dim = 3", "outputs = 3"), "scores.v2: unknown field 'outputs'"),
        (NET.replace("output_dim = 3\n", ""), "scores.v2: output_dim is missing"),
        (
            NET.replace(", stepsize = 4 }", " }").replace(", gamma = 0.5", ""),
            "[solver]: lr_policy: Step: stepsize is missing",
        ),
        (NET.replace('"Tanh"', '"Tanhh"'), "ip1: neuron: no neuron 'Tanhh' (did you mean 'Tanh'?)"),
        (NET.replace('"Tanh"', '{ type = "Tanh", a = 1 }'), "ip1: neuron: Tanh: unknown field 'a'"),
        (
            NET.replace('"Tanh"', "3"),
            "ip1: neuron=3, but it must be a neuron: an object, a name, or a table with 'type'",
        ),
        (NET.replace("max_iter = 10", "max_itr = 10"), "[solver]: unknown field 'max_itr' (did you mean 'max_iter'?)"),
        (NET.replace("max_iter = 10", "max_iter = -1"), "[solver]: max_iter=-1, but it must be above 0"),
        (NET.replace('"SGD"', '"SDG"'), "[solver]: no solver 'SDG' (did you mean 'SGD'?)"),
        (NET.replace("stepsize = 4", "step = 4"), "unknown field 'step'"),
        (NET.replace("every_n_iter", "every"), "[[callback]] TrainingSummary: unknown field 'every'"),
        (NET.replace('type = "TrainingSummary"', ""), "[[callback]] 1: type is missing"),
        (NET + "[plugins]\nrequired = []", "unknown key 'plugins.required' (did you mean 'require'?)"),
        (NET + "[plugins]\nrequire = [1]", "plugins.require must be a list of strings"),
        (
            NET + '[plugins.pin]\n"layer:X" = 1',
            "plugins.pin: 'layer:X'=1, but it must be the name of a distribution",
        ),
        *(
            (
                NET + f'[plugins.pin]\n"{key}" = "nacre"',
                f"plugins.pin: '{key}' is not a valid key: it must be kind:Name or kernel:Name@backend",
            )
            for key in ("Gain", "kernel:Gain", "layer:Gain@numpy", "layer:", "")
        ),
        (
            NET + '[plugins]\nrequire = ["no-such-thing>=2"]',
            "requirements that are not met: no-such-thing>=2 (not installed)",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_and_place(text: str, complaint: str) -> None:
    told = refused(text)
    assert complaint in told
    assert told.startswith("small.toml: ")


def test_all_complaints_come_at_once() -> None:
    told = refused(NET.replace("output_dim", "output").replace("max_iter", "iterations"))
    assert told.count("unknown field 'output'") == 2
    assert "unknown field 'iterations'" in told


def test_what_is_required_tells_what_to_install() -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(NET + '[plugins]\nrequire = ["no-such-thing>=2"]'))
    assert caught.value.remedy == 'pip install "no-such-thing>=2"'


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no such file"),
        (b"name = \xff", "not a text file: invalid start byte at byte 7"),
        (b"name = ", "not TOML: Invalid value (at end of document)"),
        (b"name = 1\nname = 2\n", "not TOML: Cannot overwrite a value (at line 2, column 9)"),
        (b"a = " + b"[" * 5000, "too many tables and lists stand inside each other"),
        (b"seed = " + b"9" * 5000, "not TOML"),
    ],
)
def test_a_file_that_cannot_be_read(content: bytes | None, complaint: str) -> None:
    path = Path("bad.toml")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"bad.toml: {complaint}")


def test_a_mark_of_byte_order_is_passed_over() -> None:
    Path("marked.toml").write_bytes(b"\xef\xbb\xbf" + NET.encode())
    assert load("marked.toml").table == load(write()).table


def test_a_folder_and_a_giant_are_no_net_files(clean: Path) -> None:
    with pytest.raises(ConfigError, match="not a file"):
        load(clean)
    with Path("giant.toml").open("wb") as file:
        file.truncate(2**40)  # takes no room
    with pytest.raises(ConfigError, match=r"giant\.toml: larger than 4 MiB"):
        load("giant.toml")


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("seed=7", lambda file: file.table["seed"], 7),
        (" seed = 7 ", lambda file: file.table["seed"], 7),
        ("name=/tmp/x", lambda file: file.table["name"], "/tmp/x"),
        ("name=./x", lambda file: file.table["name"], "./x"),
        ("name=../x/y-1.h5", lambda file: file.table["name"], "../x/y-1.h5"),
        ("name=~/x", lambda file: file.table["name"], "~/x"),
        ("backend=numpy", lambda file: file.table["backend"], "numpy"),
        ("layer.ip1.output_dim=9", lambda file: file.layers[2].output_dim, 9),
        ("layer.scores.v2.output_dim=9", lambda file: file.layers[3].output_dim, 9),
        ("layer.ip1.neuron=ReLU", lambda file: repr(file.layers[2].neuron), "ReLU()"),
        ('layer.ip1.exclude=["test"]', lambda file: file.layers[2].exclude, ("test",)),
        ("layer.ip1.weight_init.std=2.0", lambda file: file.layers[2].weight_init.std, 2.0),
        ("layer.ip1.bias_init.value=0.5", lambda file: file.layers[2].bias_init.value, 0.5),
        ("solver.max_iter=100", lambda file: file.solver().max_iter, 100),
        ("solver.lr_policy.base=0.2", lambda file: file.solver().lr_policy.base, 0.2),
        ("solver.lr_policy=0.3", lambda file: file.solver().lr_policy.base, 0.3),
        ("callback.TrainingSummary.every_n_iter=2", lambda file: file.solver().callbacks[0].every_n_iter, 2),
        ('plugins.pin={ "layer:Softmax" = "nacre" }', lambda file: file.pins, {"layer:Softmax": "nacre"}),
    ],
)
def test_overrides(override: str, read: Any, value: Any) -> None:
    text = NET.replace('neuron = "Tanh"', 'neuron = "Tanh"\nweight_init = "Gaussian"\nbias_init = "Constant"')
    assert read(load(write(text), [override])) == value


def test_an_override_finds_a_layer_by_the_name_that_it_chooses_itself() -> None:
    text = '[[layer]]\ntype = "Input"\nshape = 6\nbatch_size = 4\n[[layer]]\ntype = "Dropout"\nbottoms = "data"\n'
    file = load(write(text), ["layer.data.batch_size=2", "layer.Dropout-data.ratio=0.25"])
    assert [layer.name for layer in file.layers] == ["data", "Dropout-data"]
    assert file.layers[0].batch_size == 2
    assert file.layers[1].ratio == 0.25


def test_layers_whose_names_are_unknown_are_not_listed() -> None:
    assert "; there are: in\n" in refused('[[layer]]\ntype = "Nothing"\n[[layer]]\nname = "in"\n', "layer.x.y=3")


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("seed", "it must be like solver.max_iter=100"),
        ("=3", "it must be like solver.max_iter=100"),
        ("solver..x=3", "it must be like solver.max_iter=100"),
        ("seed=[1", "'[1' is not a TOML value"),
        ("seed=1\nname='x'", "it must be one value"),
        ("layer.ip=3", "it must be like layer.NAME.FIELD=VALUE"),
        (
            "layer.ip2.output_dim=3",
            "there is no layer 'ip2' (did you mean 'ip1'?); there are: in, truth, ip1, scores.v2",
        ),
        ("callback.Snapshot.keep=3", "there is no callback 'Snapshot'"),
        ("solver.momentum_policy.base=0.5", "'momentum_policy' is 0.9, so it has no field 'base'"),
        ("solver.max_itr=3", "unknown field 'max_itr' (did you mean 'max_iter'?)"),
        ("solver.lr=3", "unknown field 'lr' (did you mean 'lr_policy'?)"),
        ("max_iter=3", "unknown key 'max_iter'; known keys: name"),
        ("max_iter=3", "  write max_iter below [solver], or --set solver.max_iter=..."),
        ("epochs=3", "  write max_epoch below [solver], or --set solver.max_epoch=..."),
        ("sede=3", "unknown key 'sede' (did you mean 'seed'?)"),
        ("ip1.output_dim=3", "'ip1' is a layer, not a key of the net file\n  write --set layer.ip1.output_dim=3"),
    ],
)
def test_overrides_that_mean_nothing(override: str, complaint: str) -> None:
    assert complaint in refused(NET, override)


def test_an_override_of_one_of_two_is_refused() -> None:
    text = NET + '[[callback]]\ntype = "TrainingSummary"\n'
    assert "there are 2 callbacks 'TrainingSummary'" in refused(text, "callback.TrainingSummary.every_n_iter=2")


def test_settings_win_in_their_order(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = load(write())
    assert file.backend() == ""
    write(
        'backend = "users"\n[plugins.pin]\n"x:A" = "users"\n"x:B" = "users"\n"x:C" = "users"', "config/nacre/nacre.toml"
    )
    assert file.backend() == "users"
    write('backend = "folders"\n[plugins.pin]\n"x:A" = "folders"\n"x:B" = "folders"', "nacre.toml")
    assert file.backend() == "folders"
    monkeypatch.setenv("NACRE_BACKEND", "environments")
    assert file.backend() == "environments"
    file = load(write(NET.replace("seed", 'backend = "files"\nseed') + '[plugins.pin]\n"x:A" = "files"\n'))
    assert file.backend() == "files"
    assert file.pins == {"x:A": "files", "x:B": "folders", "x:C": "users"}
    assert file.backend("given") == "given"


def test_settings_hold_for_python_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[plugins.pin]\n"x:A" = "users"\n"x:B" = "users"', "config/nacre/nacre.toml")
    write('backend = "mine"\n[plugins.pin]\n"x:B" = "folders"', "nacre.toml")

    class Mine(HostMemory):
        name, lineage = "mine", ("mine",)

    nacre.discovery.registry.register(Mine, "mine", "backend")
    assert isinstance(open_backend(), Mine)
    layers = load(write()).layers
    net = Net("n", layers, allocate=False, pins={"x:A": "given"})
    assert isinstance(net.backend, Mine)
    assert net.pins == {"x:A": "given", "x:B": "folders"}
    monkeypatch.setenv("NACRE_BACKEND", "numpy")
    assert open_backend().name == Net("n", layers, allocate=False).backend.name == "numpy"


def test_settings_are_read_once_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path | None] = []

    def look() -> Path | None:
        looks.append(users_own())
        return looks[-1]

    users_own = nacre.discovery.settings._users_own
    monkeypatch.setattr(nacre.discovery.settings, "_users_own", look)
    load(write())
    assert len(looks) == 1


def test_a_pin_in_the_settings_settles_who_serves_a_net() -> None:
    class Slow(LayerState):
        def forward(self, inputs: Any) -> None: ...
        def backward(self, inputs: Any, diffs: Any) -> None: ...

    nacre.discovery.registry.registry().register_kernel(Slow, "InnerProduct", "numpy", "acme")
    layers = load(write()).layers
    key = "kernel:InnerProduct@numpy"
    assert Net("n", layers, backend="numpy", allocate=False).node_ops["ip1"].choice.offer.distribution == "nacre"
    write(f'[plugins]\npin = {{ "{key}" = "acme" }}\n', "nacre.toml")
    with pytest.raises(ContractError, match="Slow"):  # so it was taken
        Net("n", layers, backend="numpy", allocate=False)
    Net("n", layers, backend="numpy", allocate=False, pins={key: "nacre"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("backnd = 'numpy'", "nacre.toml: unknown key 'backnd' (did you mean 'backend'?)"),
        ("backend = 3", "nacre.toml: backend=3, but it must be a string"),
        ("[plugins]\nrequire = []", "nacre.toml: unknown key 'plugins.require'"),
        ('[plugins.pin]\n"x:A" = 1', "nacre.toml: plugins.pin: 'x:A'=1"),
        ('[plugins.pin]\nA = "nacre"', "nacre.toml: plugins.pin: 'A' is not a valid key"),
        ("[", "nacre.toml: not TOML"),
    ],
)
def test_bad_settings(text: str, complaint: str) -> None:
    write(text, "nacre.toml")
    with pytest.raises(ConfigError) as caught:
        read_settings()
    assert str(caught.value).startswith(complaint)


def test_a_pin_settles_the_names_in_a_file() -> None:
    class Mine(Identity):
        pass

    here = nacre.discovery.registry.registry()
    here.register(Mine, "Tanh", distribution="acme")
    assert type(load(write()).layers[2].neuron) is Tanh  # what nacre offers keeps its name
    file = load(write(NET + '[plugins.pin]\n"neuron:Tanh" = "acme"\n'))
    assert type(file.layers[2].neuron) is Mine
    assert here.pins == {}
    assert table_of(file.layers[2])["neuron"] == "acme:Tanh"
    assert type(load(write(dumps(file))).layers[2].neuron) is Mine
    net = Net("n", load(write()).layers, allocate=False, pins={"neuron:Tanh": "acme"})
    assert type(load(write(dumps(net))).layers[2].neuron) is Tanh  # written by its whole name


def test_enabled_kernels_of_a_file_come_back() -> None:
    write('[plugins]\nkernels = ["nacre-slow"]\n', "nacre.toml")
    file = load(write(NET + '[plugins]\nkernels = ["Nacre_Fast"]\n'))
    assert file.kernels == ("nacre-slow", "Nacre_Fast")
    assert tomllib.loads(dumps(file))["plugins"] == {"kernels": ["Nacre_Fast"]}
    net = file.net(allocate=False)
    assert net.kernels == file.kernels
    assert tomllib.loads(dumps(net))["plugins"] == {"kernels": ["nacre-slow", "Nacre_Fast"]}
    assert "plugins.kernels must be a list of distributions" in refused(NET + "[plugins]\nkernels = [1]\n")


def test_a_name_of_nacres_means_nacres_also_where_a_stranger_has_a_layer_of_it() -> None:
    here = nacre.discovery.registry.registry()
    stranger = type("TanhLayer", (Layer,), {"__module__": __name__})
    for name in ("Tanh", "InnerProduct"):
        here.register(stranger, name, distribution="acme")
    here.register(stranger, "initializer", "layer_of", distribution="acme")
    here.register(type("Tanh", (Component,), {}, kind="initializer"), "Tanh", distribution="acme")
    text = NET + '[[layer]]\ntype = "Tanh"\nbottoms = ["ip1"]\ntops = ["y"]\n'
    layers = load(write(text)).layers
    assert [type(layer).__module__.partition(".")[0] for layer in layers].count("nacre_layers") == len(layers) - 2
    assert type(layers[-1].neuron) is Tanh


def test_two_strangers_of_one_layers_name_clash_whatever_their_kinds() -> None:
    here = nacre.discovery.registry.registry()
    here.register(type("TwirlLayer", (Layer,), {"__module__": __name__}), distribution="acme")
    here.register(type("Twirl", (Identity,), {}), distribution="bits")
    text = NET + '[[layer]]\ntype = "Twirl"\nbottoms = ["ip1"]\ntops = ["y"]\n'
    assert "layer 'Twirl' is offered by acme and bits" in refused(text)
    pinned = load(write(text + '[plugins.pin]\n"neuron:Twirl" = "bits"\n'))
    assert type(pinned.layers[-1].neuron).__name__ == "Twirl"


# The way back


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize("text", [NET, LENET.read_text(encoding="utf-8")])
def test_what_is_written_is_read_back(clean: Path, text: str) -> None:
    file = load(write(text))
    again = load(write(dumps(file), "again.toml"))
    assert all(map(same, file.layers, again.layers)) and len(file.layers) == len(again.layers)
    assert repr(file.solver()) == repr(again.solver()).replace("again", file.path.stem)  # in the paths of outputs
    assert dumps(again) == dumps(file)


def test_what_a_training_writes_is_named_after_the_net_file(clean: Path) -> None:
    outputs = {
        "Snapshot": ("folder", "snapshots/pets"),
        "TensorBoard": ("path", "runs/pets"),
        "LearningCurve": ("path", "pets-learning-curve.png"),
        "StatisticsStore": ("path", "pets-statistics.json"),
        "JSONLog": ("path", "pets-training.jsonl"),
    }
    callbacks = "".join(f'[[callback]]\ntype = "{name}"\n' for name in outputs)
    file = load(write(f"{NET.partition('[[callback]]')[0]}{callbacks}", "pets.toml"))
    for callback in file.solver().callbacks:
        field, path = outputs[type(callback).__name__]
        assert getattr(callback, field) == path and getattr(callback, field).permission is not None
    given = load(file.path, ['callback.Snapshot.folder="mine"', 'callback.TensorBoard.path="mine"']).solver().callbacks
    assert [str(getattr(one, outputs[type(one).__name__][0])) for one in given[:2]] == ["mine", "mine"]
    assert (Snapshot().folder, TensorBoard().path) == ("snapshots", "runs")  # in Python


def test_a_net_is_written_as_well() -> None:
    net = load(write()).net("train", dtype="float64", allocate=False)
    again = load(write(dumps(net), "again.toml"))
    assert all(map(same, net.layers, again.layers))
    assert again.net(allocate=False).dtype == "float64"

    class Narrow(HostMemory):
        computes = ("bf16",)

    options = {"compute": "bf16", "deterministic": True, "insert_splits": True, "partition_dim": -1}
    net = Net("n", net.layers, backend=Narrow(), allocate=False, **options)
    assert tomllib.loads(dumps(net)).items() >= options.items()


def test_a_backend_is_written_if_somebody_has_named_it() -> None:
    layers = load(write()).layers
    for net in (Net("n", layers, allocate=False), load(write()).net(allocate=False)):
        assert "backend" not in tomllib.loads(dumps(net))
        assert "backend" not in tomllib.loads(dumps(net.derive("test", allocate=False)))
    for backend in ("numpy", open_backend("numpy")):
        for net in (
            Net("n", layers, backend=backend, allocate=False),
            load(write()).net(backend=backend, allocate=False),
            load(write(NET.replace("seed", 'backend = "numpy"\nseed'))).net(allocate=False),
        ):
            assert tomllib.loads(dumps(net))["backend"] == "numpy"
            assert tomllib.loads(dumps(net.derive("test", allocate=False)))["backend"] == "numpy"


def test_what_is_written_requires_whose_layers_and_components_it_has() -> None:
    class Mine(Identity):
        pass

    class Rule(Method):
        def setup(self, backend: Any, spans: Any) -> Any: ...

    here = nacre.discovery.registry.registry()
    for thing, kind, distribution, version in (
        (Mine, "neuron", "acme-neurons", "1.2.0rc1"),
        (Rule, "solver", "acme-rules", "3.1"),
    ):
        here.register(thing, distribution=distribution)
        (offer,) = here.offers(kind, thing.__name__)
        vars(offer.provenance)["version"] = version  # as if it were installed
    file = load(write(), ["layer.ip1.neuron=Mine", "solver.type=Rule"])
    assert 'require = ["acme-neurons>=1.2.0", "acme-rules>=3.1"]' in dumps(file)
    net = file.net(allocate=False)
    assert 'require = ["acme-neurons>=1.2.0"]' in dumps(net)
    assert "require" not in dumps(load(write()))
    assert requirements(["Acme_Neurons>=1,<2"], file.layers) == ["Acme_Neurons>=1,<2"]


def test_what_no_file_can_hold_is_refused() -> None:
    from nacre_data import MemoryDataLayer
    from small_layers import SquareLossLayer

    data = MemoryDataLayer(name="d", tops=["x"], data=[np.zeros((3, 2))], batch_size=1)
    assert table_of(data)["data"] == ["array of shape (3, 2), float64"]
    net = Net("n", [data, SquareLossLayer(bottoms=["x"])], allocate=False)
    with pytest.raises(ConfigError, match="d: data is an array, which a net file cannot hold"):
        dumps(net)
    with pytest.raises(ConfigError, match="no plugin offers SquareLossLayer"):
        dumps(Net("n", [load(write()).layers[0], SquareLossLayer(bottoms=["data"])], allocate=False))


# What a layer of each type cannot do without; all else is drawn.
NEEDED: dict[str, dict[str, Any]] = {
    "Accuracy": {"bottoms": ["a", "b"]},
    "Activation": {"bottoms": ["a"], "tops": ["t"], "neuron": "ReLU"},
    "AsyncHDF5Data": {"source": ["x.h5", "sub/y.h5"], "batch_size": 3},
    "AveragePrecision": {"bottoms": ["a", "b"]},
    "AdaptivePooling": {"bottoms": ["a"], "tops": ["t"], "size": [3, 2]},
    "BinaryAccuracy": {"bottoms": ["a", "b"]},
    "BinaryCrossEntropyLoss": {"bottoms": ["a", "b"]},
    "CSVOutput": {"bottoms": ["a"], "filename": "sub/out.csv"},
    "CalibrationError": {"bottoms": ["a", "b"]},
    "ClassSoftmaxLoss": {"bottoms": ["a", "b"], "n_label": 9},
    "Clip": {"bottoms": ["a"], "tops": ["t"], "low": -0.5, "high": 2.0},
    "Concat": {"bottoms": ["a", "b"], "tops": ["t"]},
    "ConfusionMatrix": {"bottoms": ["a", "b"]},
    "ContrastiveLoss": {"bottoms": ["a", "b", "c"]},
    "Convolution": {"bottoms": ["a"], "tops": ["t"], "n_filter": 4},
    "Crop": {"bottoms": ["a"], "tops": ["t"], "crop_size": 4},
    "CropLike": {"bottoms": ["a", "b"], "tops": ["t"]},
    "Deconvolution": {"bottoms": ["a"], "tops": ["t"], "n_filter": 4},
    "Dropout": {"bottoms": ["a"]},
    "ElementWise": {"bottoms": ["a", "b"], "tops": ["t"]},
    "Embedding": {"bottoms": ["a"], "tops": ["t"], "input_dim": 9, "output_dim": 4},
    "GRU": {"bottoms": ["a"], "tops": ["t"], "output_dim": 4},
    "GaussianKLLoss": {"bottoms": ["a", "b"]},
    "CSVData": {"source": ["a.csv", "sub/b.tsv"], "batch_size": 2},
    "CharText": {"source": ["a.txt", "sub/b.txt"], "batch_size": 2},
    "Data": {"source": "a.h5", "tops": ["u"], "batch_size": 2},
    "HDF5Data": {"source": ["x.h5", "sub/y.h5"], "batch_size": 3},
    "HDF5Output": {"bottoms": ["a"], "filename": "sub/out.h5"},
    "HingeLoss": {"bottoms": ["a", "b"]},
    "ImageData": {"source": ["cats", "sub/dogs"], "batch_size": 3, "new_height": 4, "new_width": 5},
    "HuberLoss": {"bottoms": ["a", "b"]},
    "Im2col": {"bottoms": ["a"], "tops": ["t"], "kernel": [3, 2]},
    "Index2Onehot": {"bottoms": ["a"], "tops": ["t"], "n_class": 4},
    "InfogainLoss": {"bottoms": ["a", "b"], "matrix": [[1, 0.5], [0, 2]]},
    "InnerProduct": {"bottoms": ["a"], "tops": ["t"], "output_dim": 4},
    "Input": {"tops": ["t"]},
    "KLDivergenceLoss": {"bottoms": ["a", "b"]},
    "MatMul": {"bottoms": ["a", "b"], "tops": ["t"]},
    "Pad": {"bottoms": ["a"], "tops": ["t"], "pad": [3, 2]},
    "Resize": {"bottoms": ["a"], "tops": ["t"], "factor": 2.0},
    "IoU": {"bottoms": ["a", "b"]},
    "JSONLOutput": {"bottoms": ["a"], "filename": "sub/out.jsonl"},
    "LMDBData": {"source": ["a.lmdb", "sub/b.mdb"], "batch_size": 2},
    "LMDBOutput": {"bottoms": ["a"], "filename": "sub/out.lmdb"},
    "LSTM": {"bottoms": ["a"], "tops": ["t"], "output_dim": 4},
    "Label": {"bottoms": ["a"], "tops": ["t"]},
    "RBMHidden": {"bottoms": ["a"], "tops": ["t"], "output_dim": 4},
    "RBMVisible": {"bottoms": ["a", "b"], "tops": ["t"]},
    "MeanAbsoluteError": {"bottoms": ["a", "b"]},
    "MemoryOutput": {"bottoms": ["a", "b"]},
    "MnistImage": {"bottoms": ["a"], "tops": ["t"]},
    "MultinomialLogisticLoss": {"bottoms": ["a", "b"]},
    "NumpyData": {"source": ["a.npz", "sub/b.npz"], "batch_size": 2},
    "NumpyOutput": {"bottoms": ["a"], "filename": "sub/out.npz"},
    "OneHot": {"bottoms": ["a"], "tops": ["t"], "n_class": 4},
    "Output": {"bottoms": ["a"], "filename": "sub/out.h5"},
    "Parameter": {"tops": ["t"], "shape": [2, 3]},
    "Perplexity": {"bottoms": ["a", "b"]},
    "PrecisionRecall": {"bottoms": ["a", "b"]},
    "R2": {"bottoms": ["a", "b"]},
    "RNN": {"bottoms": ["a"], "tops": ["t"], "output_dim": 4},
    "Prefetch": {
        "layer": [
            {"type": "HDF5Data", "source": ["sub/x.h5"], "batch_size": 3, "tops": ["a", "b"]},
            {"type": "RGBImage", "bottoms": ["a"], "tops": ["t"]},
        ]
    },
    "ROCAUC": {"bottoms": ["a", "b"]},
    "RandomMask": {"bottoms": ["a", "b"]},
    "RGBImage": {"bottoms": ["a"], "tops": ["t"]},
    "RandomNormal": {"tops": ["t"], "batch_size": 3},
    "Repeat": {"bottoms": ["a"], "tops": ["t"], "times": 2, "layer": [{"type": "ReLU"}]},
    "Reshape": {"bottoms": ["a"], "tops": ["t"], "shape": [2, -1]},
    "Residual": {"bottoms": ["a"], "tops": ["t"], "layer": [{"type": "ReLU"}]},
    "SPP": {"bottoms": ["a"], "tops": ["t"], "pyramid_height": 2},
    "Sequential": {"bottoms": ["a"], "tops": ["t"], "layer": ["Tanh", {"type": "ReLU", "name": "r"}]},
    "ShardData": {"source": ["a.shard", "sub/b.kvfile"], "batch_size": 2},
    "ShardOutput": {"bottoms": ["a"], "filename": "sub/out.shard"},
    "SigmoidCrossEntropyLoss": {"bottoms": ["a", "b"]},
    "Silence": {"bottoms": ["a", "b"]},
    "Slice": {"bottoms": ["a"], "tops": ["t", "u"], "points": [2]},
    "SoftlabelSoftmaxLoss": {"bottoms": ["a", "b"]},
    "SoftmaxLoss": {"bottoms": ["a", "b"]},
    "Split": {"bottoms": ["a"], "tops": ["t", "u"]},
    "SquareLoss": {"bottoms": ["a", "b"]},
    "SumLoss": {"bottoms": ["a"]},
    "TarData": {"source": ["a.tar", "sub/b.tar"], "batch_size": 2},
    "TiedInnerProduct": {"bottoms": ["a"], "tops": ["t"], "tied": "ip", "output_dim": 4},
    "Tile": {"bottoms": ["a"], "tops": ["t"], "tiles": 2},
    "TopKAccuracy": {"bottoms": ["a", "b"]},
    "Unroll": {
        "bottoms": ["a"],
        "tops": ["t"],
        "steps": 2,
        "layer": [{"type": "ReLU"}],
        "connections": [],
        "last": [],
        "whole": [],
    },
    "WassersteinLoss": {"bottoms": ["a", "b"], "cost": [[1, 0.5], [0, 2]], "sharpness": 2.5},
    "WordText": {"source": "a.txt", "batch_size": 2},
}
PAIRS = st.one_of(st.integers(0, 4), st.tuples(st.integers(0, 4), st.integers(0, 4)).map(list))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers(-3, 10**12),
    "bool | None": st.sampled_from(["none", True, False]),
    "int | str": st.sampled_from([0, 3, "", "größe"]),
    "int | None": st.one_of(st.just("none"), st.integers(-3, 255)),
    "float": st.floats(allow_nan=False),
    "float | None": st.one_of(st.just("none"), st.floats(0.1, 10)),
    "str": st.sampled_from(["", "key", "größe", "a\"b\\c'd\n\x7f"]),
    "Columns": st.sampled_from([[], "u", 3, ["u", 2]]),
    "Texts": st.sampled_from([[], "", "NA", ["-", "größe"]]),
    "Names": st.one_of(st.just("u"), st.lists(st.sampled_from(["u", "v.2", "w-3"]), max_size=3)),
    "Part": st.sampled_from([[0.0, 1.0], [0.25, 0.5]]),
    "Paths": st.sampled_from(["x.npy", ["sub/x.csv"], "/far/x.h5"]),
    "Phases": st.lists(st.sampled_from(["train", "validation", "test", "predict"]), unique=True),
    "PartitionDim": st.sampled_from([-1, 0, 1, "whole", "batch", "features"]),
    "Pair": PAIRS,
    "Ends": PAIRS,
    "BatchSizes": st.one_of(st.integers(0, 4), st.lists(st.integers(0, 4), min_size=1, max_size=3)),
    "Sizes": st.one_of(st.integers(0, 4), st.lists(st.integers(0, 4), min_size=1, max_size=3)),
    "Split": st.sampled_from([{}, {"part": "a", "fractions": {"a": 0.5, "b": 0.25}, "group": "g", "seed": 2}]),
    "ClassNames": st.sampled_from([{}, {"label": ["cat", "dog"]}]),
    "Sampling": st.sampled_from(["balanced", {"balanced": "b"}, {"weights": "w"}]),
    "Shape": st.lists(st.integers(0, 4), max_size=3),
    "Colour": st.sampled_from([0, 255, [1, 2, 3], []]),
    "PerChannel": st.sampled_from([0, 0.5, [1, 2.5, 3]]),
    "Means": st.sampled_from([[], 0.5, [1, 2.5, 3]]),
    "NumberLists": st.sampled_from([[], [1, 2.5], [[0.5, 0], [1, 1e-3]]]),
    "Neuron": st.sampled_from(["Identity", "ReLU", {"type": "Tanh"}, {"type": "LReLU", "slope": 0.25}]),
    "Initializer": st.sampled_from(["Xavier", {"type": "Constant", "value": 0.25}, {"type": "Gaussian", "std": 1e-3}]),
    "Regularizer | None": st.sampled_from(["L1", "L2", "none"]),
    "Constraint | None": st.sampled_from(["none", {"type": "L2Norm", "threshold": 2.0, "every_n_iter": 3}]),
    "Layers": st.sampled_from([["Tanh"], [{"type": "Dropout"}, {"type": "Power", "power": 2.0, "name": "p"}]]),
    "Store | None": st.sampled_from(["none", "HDF5", {"type": "NPY"}]),
    "PoolingFunction": st.sampled_from(["Max", "Stochastic", {"type": "Mean", "divide_by": "image"}]),
    "ElementWiseFunction": st.sampled_from(["Maximum", {"type": "Add", "coefficients": [1, -0.5]}]),
    "Transformers": st.sampled_from([[], [["data", "RandomShift"], ["data", {"type": "Scale", "scale": 0.5}]]]),
}


def values_of(field: Any) -> st.SearchStrategy[Any]:
    """Return values of a field's type; where it must be one of a few, those, as its help tells them."""
    choices = re.search(r"one of (.*)\)$", field.help)
    return st.sampled_from(ast.literal_eval(f"[{choices[1]}]")) if choices else FIELDS[field.type]


def layer_types() -> list[str]:
    return [
        name for name in Registry().names("layer") if name not in ("IterableData", "MemoryData")
    ]  # data stand in no file


@pytest.mark.parametrize("name", layer_types())
@settings(max_examples=trials(3, 30))
@given(data=st.data())
def test_every_layer_survives_the_way_through_a_file(name: str, data: st.DataObject) -> None:
    cls = nacre.discovery.registry.registry().open("layer", name)
    fields = {"name": "it", **NEEDED.get(name, {"bottoms": ["a"], "tops": ["t"]})}
    for field in cls.fields():
        if field.name in fields or not data.draw(st.booleans()):
            continue
        tried = {**fields, field.name: data.draw(values_of(field), field.name)}
        try:
            load(write(toml_text({"layer": [{"type": name, **tried}]}), "tried.toml"))
        except ConfigError:  # a check of the field's own
            continue
        fields = tried
    file = load(write(toml_text({"layer": [{"type": name, **fields}]}), "one.toml"))
    again = load(write(dumps(file), "two.toml"))
    assert same(file.layers[0], again.layers[0])
    assert table_of(file.layers[0]) == table_of(again.layers[0])


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))  # no half of a surrogate pair: no file can hold one
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), TEXTS),
    lambda below: st.one_of(st.lists(below), st.dictionaries(TEXTS, below)),
    max_leaves=10,
)


@settings(max_examples=trials(30, 300))
@given(st.dictionaries(TEXTS, VALUES))
def test_toml_that_is_written_is_read_back(table: dict[str, Any]) -> None:
    assert equal(tomllib.loads(toml_text(table)), table)


def test_toml_has_sections_where_people_expect_them() -> None:
    table = {"b": {"x": 1}, "a": 1, "c": [{"y": [1, 2]}, {"z": {"w": True}}]}
    assert toml_text(table) == "a = 1\n\n[b]\nx = 1\n\n[[c]]\ny = [1, 2]\n\n[[c]]\nz = { w = true }\n"
    with pytest.raises(ConfigError, match="cannot be written as TOML"):
        toml_text({"a": None})
