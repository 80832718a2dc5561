"""The errors of the core, as a person reads them: how each is provoked, and its full text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import pytest

import nacre
from nacre import (
    Blob,
    Component,
    InputLayer,
    Layer,
    LayerState,
    Names,
    Net,
    Parameter,
    Snapshot,
    SnapshotFolder,
    Solver,
    exactly,
    load_snapshot,
)
from nacre.config import load
from nacre.discovery.registry import Registry
from nacre.files import Watched, atomic_write
from nacre.net.records import store_to_write
from nacre.testing import check_net_gradients
from nacre_data import HDF5Store, MemoryDataLayer
from nacre_layers import ActivationLayer, InnerProductLayer, PoolingLayer, SoftmaxLossLayer
from nacre_solvers import SGD, Adam
from nacre_solvers import Snapshot as SaveSnapshot
from provoked import Message, check_message


class FadeLayer(Layer):
    """A layer with a state of its own."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]


class FadeState(LayerState, of=FadeLayer):
    """The state of `FadeLayer`."""


NET = """name = "small"
[[layer]]
type = "Input"
tops = "data"
shape = 4
batch_size = 2

[[layer]]
type = "InnerProduct"
bottoms = "data"
tops = "ip1"
output_dim = 3
"""
TRAINED = [
    MemoryDataLayer(data=[np.eye(4), np.arange(4) % 3], batch_size=2),
    InnerProductLayer(bottoms="data", tops="ip1", output_dim=3),
    SoftmaxLossLayer(name="loss", bottoms=["ip1", "label"]),
]


def trained(*layers: Layer, **options: Any) -> Net:
    return Net("small", layers or TRAINED, **options)


def load_text(text: str, *overrides: str, **options: Any) -> Any:
    Path("net.toml").write_text(text)
    return load("net.toml", overrides, **options)


def solve(solver: Solver, net: Net | None = None, **options: Any) -> Any:
    with net or trained() as made:
        return solver.solve(made, **options)


def saved(solver: Solver | None = None) -> Snapshot:
    """Return a snapshot of a short training in ./snapshots."""
    solve(Solver(SGD(), max_iter=1, callbacks=[SaveSnapshot()]))
    return load_snapshot("snapshots")


def registry(*offers: tuple[str, str]) -> Registry:
    """Return a registry in which distributions offer layers: (distribution, name)."""
    made = Registry(discover=False)
    for distribution, name in offers:
        made.register(FadeLayer, name, "layer", distribution)
    return made


def nested(count: int) -> Any:
    """Make a net of so many containers, one inside the other."""
    inner = '{ type = "ReLU" }'
    for _ in range(count - 1):
        inner = f'{{ type = "Sequential", layer = [{inner}] }}'
    box = f'name = "box"\ntype = "Sequential"\nbottoms = "data"\ntops = "y"\nlayer = [{inner}]\n'
    return load_text(f'[[layer]]\ntype = "Input"\n[[layer]]\n{box}').net()


def in_settings(text: str) -> Any:
    Path("nacre.toml").write_text(text)
    return load_text(NET)


def writing(callback: str) -> Any:
    """Train from a net file with a callback that writes."""
    text = '[solver]\ntype = "SGD"\nmax_iter = 1\n[[callback]]\n' + callback
    file = load_text(NET.replace("[[layer]]", "[[layer]]", 1) + text)
    with trained() as net:
        return file.solver().solve(net)


def two_states() -> Any:
    class OtherState(LayerState, of=FadeLayer):
        """Another state."""

    return OtherState


def source_with_bottoms() -> Any:
    class WrongLayer(Layer, is_source=True):
        """A source that reads."""

        bottoms: Names

    return WrongLayer


def without_state() -> Any:
    class BareLayer(Layer):
        """A layer without a state."""

        bottoms: Names
        tops: Names

    return trained(InputLayer(tops="x", shape=2, batch_size=1), BareLayer(bottoms="x", tops="y"))


def lonely() -> Any:
    class Lonely(Component):
        """A component without a kind."""

    return Lonely


def cut() -> None:
    path = Path("data.bin")
    path.write_bytes(bytes(100))
    with path.open("r+b") as file, Watched(file.fileno(), "data.bin").reading("record 3"):
        file.truncate(40)


def locked() -> Any:
    with SnapshotFolder("here", HDF5Store()):
        return SnapshotFolder("here", HDF5Store()).lock()


def damaged() -> Any:
    saved()
    path = Path("snapshots/snapshot-000001.h5")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return load_snapshot(path)


DATA = InputLayer(name="in", tops="data", shape=4, batch_size=2)


def ip(name: str, bottom: str, **fields: Any) -> Layer:
    return InnerProductLayer(**{"name": name, "bottoms": bottom, "tops": name, "output_dim": 3, **fields})


LOSS = SoftmaxLossLayer(name="loss", bottoms=["a", "label"])
LABEL = InputLayer(name="labels", tops="label", batch_size=2)
Pooling: Any = PoolingLayer  # as a file gives fields, of any type
InnerProduct: Any = InnerProductLayer

MESSAGES: list[Message] = [
    (
        lambda: Pooling(bottoms="x", tops="pool1", kernel=(0, 2)),
        "pool1: kernel=(0, 2), but every number must be above 0",
    ),
    (
        lambda: Pooling(bottoms="x", tops="pool1", kernel="two"),
        "pool1: kernel='two', but it must be a whole number, or one for each direction",
    ),
    (
        lambda: Pooling(bottoms="x", tops="pool1", kernl=2),
        (
            "pool1: unknown field 'kernl' (did you mean 'kernel'?)\n"
            "  the fields of PoolingLayer are name, exclude, partition_dim, location, bottoms, tops, kernel, stride, "
            "pad, axes, whole, rounding, pooling, neuron"
        ),
    ),
    (
        lambda: InnerProduct(bottoms="x", tops="ip1"),
        "ip1: output_dim is missing: number of outputs for one image, or the blob of classes",
    ),
    (
        lambda: SoftmaxLossLayer(name="loss", bottoms=["x", "y"], normalize="all"),
        "loss: normalize='all', but it must be one of 'valid', 'full', 'batch', 'none'",
    ),
    (
        lambda: ActivationLayer(name="relu", bottoms=["a", "b"], tops="c", neuron="ReLU"),
        "relu: tops=('c',), but there must be as many as bottoms, 2",
    ),
    (
        lambda: SoftmaxLossLayer(name="loss", bottoms="x"),
        "loss: bottoms=('x',), but 2 or 3 must be given",
    ),
    (
        lambda: ActivationLayer(name="my relu", bottoms="a", tops="b", neuron="ReLU"),
        "my relu: name='my relu', but it must consist of letters, digits, '_', '-' and '.'",
    ),
    (
        lambda: ActivationLayer(bottoms="a", tops="b", exclude="testing", neuron="ReLU"),
        "b: exclude='testing', but it must be a list of phases: train, validation, test, predict",
    ),
    (
        lambda: ip("ip1", "x", weight_init="Xaver"),
        (
            "ip1: weight_init: no initializer 'Xaver' (did you mean 'Xavier'?); installed: ...\n"
            "  use one of these, or install a plugin that offers it; `nacre layers --all` lists them all"
        ),
    ),
    (
        lambda: ip("ip1", "x", weight_init={"type": "Uniform", "low": 2, "high": 1}),
        "ip1: weight_init: Uniform: low=2.0, but it must not be above high=1.0",
    ),
    (
        lambda: ip("ip1", "x", neuron=3),
        "ip1: neuron=3, but it must be a neuron: an object, a name, or a table with 'type'",
    ),
    (
        lambda: trained(
            InputLayer(tops="x", shape=(1, 4, 4), batch_size=1), PoolingLayer(bottoms="x", tops="p", kernel=(1, 2, 3))
        ),
        "p: kernel=(1, 2, 3), but there are 2 directions",
    ),
    (
        source_with_bottoms,
        "WrongLayer declares is_source, so it must not have a field 'bottoms'",
    ),
    (
        two_states,
        "FadeState and OtherState are both declared as the state of FadeLayer",
    ),
    (
        without_state,
        (
            "layer 'y' (Bare): setup: BareLayer has no state: no class declares of=BareLayer, and BareLayer does not "
            "define setup [LINE]\n  correct it there"
        ),
    ),
    (
        lonely,
        "Lonely: a component needs a kind: class Lonely(Component, kind='...')",
    ),
    (
        lambda: type("Odd", (LayerState,), {"reads": "outputs"}),
        "Odd: reads='outputs', but only 'inputs' and 'blobs' are allowed",
    ),
    (
        lambda: Parameter("w", (2, 3)),
        "parameter 'w' needs an initializer (init=...)",
    ),
    (
        lambda: Blob((3, 0), "float32"),
        "a blob of shape (3, 0) is empty; every axis must be 1 or longer",
    ),
    (
        lambda: trained(DATA, ip("a", "date")),
        (
            "layer 'a' reads blob 'date', which no layer writes (did you mean 'data'?)\n"
            "  the blobs in this phase are data, a"
        ),
    ),
    (
        lambda: trained(ip("a", "b"), ip("b", "a")),
        (
            "the layers 'a', 'b' wait for each other's blobs: the net has a cycle, in which "
            "'a' reads 'b', 'b' reads 'a'\n  let 'a' read another blob than 'b'"
        ),
    ),
    (
        lambda: trained(DATA, ip("a", "data"), ip("a", "data", tops="b")),
        "two layers are called 'a'; give each a name of its own",
    ),
    (
        lambda: trained(DATA, ip("a", "data"), ip("b", "data", tops="a")),
        (
            "blob 'a' is written by the layers 'a' and 'b' both\n"
            "  give the top of one another name, or exclude each from the phases of the other (exclude)"
        ),
    ),
    (
        lambda: trained(DATA, ip("a", "data"), ActivationLayer(bottoms="a", tops="a", neuron="ReLU")),
        (
            "a layer (Activation) writes the blob 'a' that it reads\n"
            "  give the top of 'a' another name; the net reuses the bottom's memory anyway where it can"
        ),
    ),
    (
        lambda: solve(Solver("SGD"), trained(DATA, LABEL, ip("x", "data"), ip("a", "x"), ip("b", "x"), LOSS)),
        (
            "blob 'x' feeds several layers that back-propagate: 'a', 'b'\n"
            "  split it with a SplitLayer, or make the net with insert_splits=True; in a net file, add a "
            '[[layer]] with type = "Split", or insert_splits = true'
        ),
    ),
    (
        lambda: solve(Solver("SGD"), trained(DATA, LABEL, ip("a", "data"), ip("b", "data"), LOSS)),
        (
            "blob 'b' of layer 'b' needs a gradient but reaches no loss\n"
            "  connect it to a loss, or exclude layer 'b' from this phase (exclude = ['train'])"
        ),
    ),
    (
        lambda: solve(Solver("SGD"), trained(DATA, ip("a", "data"))),
        (
            "the net has no loss layer, so there is nothing to back-propagate\n"
            "  add one that compares what the net computes with what is wanted; `nacre layers` lists the losses"
        ),
    ),
    (
        lambda: (Path("lenet.toml").write_text(""), load("lenett.toml")),
        ("lenett.toml: no such file\n  did you mean lenet.toml?"),
    ),
    (
        lambda: (Path("net.toml").mkdir(), load("net.toml")),
        ("net.toml: not a file\n  give the path of a TOML file"),
    ),
    (
        lambda: nested(101),
        (
            "in container 'box' stand 100 containers, one inside the other, and the last makes one more, but the most "
            "is 100\n"
            "  put fewer into each other; an `expand` that makes its own kind again never ends"
        ),
    ),
    (
        lambda: load_text("[[layer]\n"),
        "net.toml: not TOML: Expected ']]' at the end of an array declaration (at line 1, column 8): '[[layer]'\n"
        "  write [[layer]] each time; [layer] may stand only once",
    ),
    (
        lambda: load_text(NET.replace("name =", "nam =")),
        (
            "net.toml: unknown key 'nam' (did you mean 'name'?); known keys: name, seed, backend, dtype, "
            "compute, fallback, deterministic, insert_splits, partition_dim, freeze, layer, solver, cluster, callback, "
            "plugins\n"
            "  correct the name 'nam', or remove the line"
        ),
    ),
    (
        lambda: load_text("[layer]\ntype = 'ReLU'"),
        "net.toml: [layer] must be an array of tables: write [[layer]]",
    ),
    (
        lambda: load_text('seed = "one"\n' + NET),
        "net.toml: seed='one', but it must be a whole number",
    ),
    (
        lambda: load_text('name = "empty"'),
        ('net.toml: it has no layers: there is no [[layer]]\n  add one: [[layer]], and below it type = "..."'),
    ),
    (
        lambda: load_text(NET.replace("InnerProduct", "InerProduct")),
        (
            "net.toml: ip1: no layer 'InerProduct' (did you mean 'InnerProduct'?); installed: ...\n"
            "  use one of these, or install a plugin that offers it; `nacre layers` lists them all"
        ),
    ),
    (
        lambda: load_text(NET.replace("output_dim = 3", "output = 3")),
        (
            "net.toml: ip1: unknown field 'output' (did you mean 'output_dim'?)\n"
            "net.toml: ip1: output_dim is missing: number of outputs for one image, or the blob of classes\n"
            "  the fields of InnerProductLayer are name, exclude, partition_dim, location, param_key, bias_init, "
            "bias_regu, bias_cons, bias_lr, bias, weight_init, weight_regu, weight_cons, weight_lr, bottoms, tops, "
            "output_dim, axis, transpose, neuron"
        ),
    ),
    (
        lambda: load_text(NET.replace('type = "InnerProduct"\n', "")),
        'net.toml: ip1: type is missing\n  add type = "...", the name of a layer; `nacre layers` lists them all',
    ),
    (
        lambda: load_text(NET.replace('type = "InnerProduct"', 'kind = "InnerProduct"')),
        ('net.toml: ip1: type is missing\n  write type = "InnerProduct" instead of kind = "InnerProduct"'),
    ),
    (
        lambda: load_text(NET.replace('"InnerProduct"', "3")),
        ("net.toml: ip1: type=3, but it must be a string\n  write the name of a layer in quotes"),
    ),
    (
        lambda: load_text(NET).solver(),
        (
            "net.toml has no table [solver], so the net cannot be trained\n"
            '  add [solver] with type = "...", the name of a solver, and max_iter = 1000; '
            "`nacre layers --all` lists them all"
        ),
    ),
    (
        lambda: load_text(NET + '[solver]\ntype = "SGD"\nmaxiter = 3'),
        (
            "net.toml: [solver]: unknown field 'maxiter' (did you mean 'max_iter'?)\n"
            "  the fields are algorithm, check_finite, clip_norm, clip_value, framework, lr_policy, max_epoch, "
            "max_iter, momentum_policy, n_accumulate, regu_coef"
        ),
    ),
    (
        lambda: load_text(NET + '[plugins]\nrequire = ["no-such-thing>=2"]'),
        ('net.toml: requirements that are not met: no-such-thing>=2 (not installed)\n  pip install "no-such-thing>=2"'),
    ),
    (
        lambda: load_text(NET + '[plugins]\nrequire = ["swirl=1"]'),
        "net.toml: require: 'swirl=1': '=1' must be like '>=1.2'",
    ),
    (
        lambda: load_text(NET + '[plugins]\npin = { "Gain" = "acme" }'),
        (
            "net.toml: plugins.pin: 'Gain' is not a valid key: it must be kind:Name or kernel:Name@backend\n"
            '  write a key like "layer:Gain", "kernel:Pooling@numpy" or "kernel:neuron/ReLU@numpy"'
        ),
    ),
    (
        lambda: load_text(NET, "seed"),
        "--set seed: it must be like solver.max_iter=100, layer.conv1.n_filter=30 or seed=3",
    ),
    (
        lambda: load_text(NET, "layer.ip2.output_dim=3"),
        (
            "--set layer.ip2.output_dim=3: there is no layer 'ip2' (did you mean 'ip1'?); there are: data, ip1\n"
            "  write layer.NAME.FIELD, with a layer's name"
        ),
    ),
    (
        lambda: load_text(NET, "seed=[1"),
        (
            "--set seed=[1: '[1' is not a TOML value: Unclosed array (at end of document)\n"
            "  an array has commas between its entries, and ] at its end"
        ),
    ),
    (
        lambda: load_text(NET, "name=a b"),
        (
            "--set name=a b: 'a b' is not a TOML value: Invalid value (at line 1, column 9)\n"
            "  a text needs both pairs of quotes: --set 'name=\"TEXT\"'"
        ),
    ),
    (
        lambda: load_text(NET, "layer.data.scale=-.5"),
        (
            "--set layer.data.scale=-.5: '-.5' is not a TOML value: Invalid value (at line 1, column 9)\n"
            "  write -0.5: in TOML a number has digits on both sides of its point"
        ),
    ),
    (
        lambda: nacre.config.dumps(trained()),
        (
            "data: data is an array, which a net file cannot hold\n"
            "  write it to a file, and read the file with a data source"
        ),
    ),
    (
        lambda: writing('type = "JSONLog"\npath = "/elsewhere/log"'),
        (
            "a net file may write only in the working folder, HERE, but this one names '/elsewhere/log'\n"
            "  if you trust the file, allow it with --allow-writes /elsewhere (in Python load(..., "
            "allow_writes=[...]), for every net allow_writes in your own nacre.toml), or use another path"
        ),
    ),
    (
        lambda: (Path("log").write_text("dear diary"), writing('type = "JSONLog"\npath = "log"')),
        (
            "log: the file exists and carries no mark that this writer wrote it, so a net file may not change it\n"
            "  move it away, use another path, or allow it: --overwrite log"
        ),
    ),
    (
        lambda: (Path("made").mkdir(), Path("made/x").write_text(""), writing('type = "Snapshot"\nfolder = "made"')),
        (
            "made: the folder exists and something else wrote files in it, so a net file may not use it\n"
            "  use another folder, or allow it: --overwrite made"
        ),
    ),
    (
        lambda: in_settings('allow_writes = ["/data"]'),
        (
            "HERE/nacre.toml: allow_writes is not allowed in the nacre.toml of a working folder\n"
            "  remove it there: write it into your own settings file, HERE/config/nacre/nacre.toml, "
            "or train with --allow-writes DIR"
        ),
    ),
    (
        lambda: atomic_write("runs/log", b""),
        (
            "runs/log: cannot be written: No such file or directory\n"
            "  check the folder and its permissions, or use another one"
        ),
    ),
    (
        cut,
        (
            "data.bin: the file was cut while record 3 was read: 40 of 100 bytes are left\n"
            "  do not change a file while it is read: write a new one, and rename it to this name when it is "
            "complete"
        ),
    ),
    (
        lambda: nacre.registry().open("neuron", "RelU6"),
        (
            "no neuron 'RelU6' (did you mean 'ReLU'?); installed: ...\n"
            "  use one of these, or install a plugin that offers it; `nacre layers --all` lists them all"
        ),
    ),
    (
        lambda: nacre.registry().open("layr", "Pooling"),
        (
            "no layr 'Pooling': nothing of this kind is installed (did you mean 'layer'?)\n"
            "  install a plugin that offers it"
        ),
    ),
    (
        lambda: registry(("acme", "Fade"), ("beta", "Fade")).find("layer", "Fade"),
        (
            "layer 'Fade' is offered by acme and beta\n"
            "  write 'acme:Fade' or 'beta:Fade', or add a pin: pin = { \"layer:Fade\" = \"acme\" } under [plugins] "
            "in the net file or in nacre.toml"
        ),
    ),
    (
        lambda: registry(("acme", "Fade")).find("layer", "Fade", {"layer:Fade": "beta"}),
        ("'layer:Fade' is pinned to 'beta', which offers no such layer\n  pip install beta, or remove the pin"),
    ),
    (
        lambda: registry().register(FadeLayer(bottoms="a", tops="b"), "Fade", "layer"),
        (
            "layer Fade: FadeLayer(name='b', bottoms=('a',), tops=('b',)), but it must be a class, or a string "
            "like 'package.module:Class'"
        ),
    ),
    (
        lambda: registry().register(int),
        ("<class 'int'> is not a layer, a component or a backend\n  pass its kind: kind=..."),
    ),
    (
        lambda: registry().load_file("layers.py"),
        ("layers.py: no such file\n  nacre looked for it in HERE"),
    ),
    (
        lambda: store_to_write(Path("data.xls")),
        (
            "data.xls: no store is installed for files that end in '.xls'; known endings: ...\n"
            "  rename it, name its store (field store; for nacre data --store or --to-store), or install a plugin "
            "for it"
        ),
    ),
    (
        lambda: Snapshot(-1, {}, {}),
        "iteration=-1, but it must be a whole number, 0 or more",
    ),
    (
        lambda: Snapshot(1, {}, {"a": {3: 1}}),
        ("state/a: key 3 is not a string\n  use a string: JSON would turn the key into one"),
    ),
    (
        lambda: Snapshot(1, {}, {"a": {1, 2}}),
        ("state/a: JSON cannot hold a set\n  make it an array or a number"),
    ),
    (
        lambda: Snapshot(1, {"a": np.zeros(1), "a/b": np.zeros(1)}, {}),
        ("array 'a' has the name of a folder of array 'a/b'\n  rename one of the two"),
    ),
    (
        lambda: Snapshot(1, {}, {"layers": 3}),
        "state/layers is 3, but in a snapshot it must be a list",
    ),
    (
        lambda: SnapshotFolder("here", HDF5Store(), keep=0),
        "snapshot folder here: keep=0, but at least 1 must be kept",
    ),
    (
        lambda: (Path("here").mkdir(), load_snapshot("here")),
        "here: no snapshot-*.h5 in this folder",
    ),
    (
        locked,
        (
            "here: another training in this process saves its snapshots here (PROCESS)\n"
            "  wait until it ends, stop it, or use another folder"
        ),
    ),
    (
        lambda: SnapshotFolder("here", HDF5Store()).write_run({}),
        "here: a snapshot folder must be locked for writing: `with folder:`",
    ),
    (
        damaged,
        "snapshots/snapshot-000001.h5: damaged: its bytes do not match its digest",
    ),
    (
        lambda: (Path("a.txt").write_text(""), load_snapshot("a.txt")),
        "a.txt: no installed store reads files with this ending; known endings: ...",
    ),
    (
        lambda: (saved(), trained(*TRAINED[:1], ip("ip1", "data", output_dim=5), TRAINED[2]).load("snapshots")),
        (
            "snapshots does not fit net 'small':\n"
            "parameter\n"
            "----------  --------------------------------------------------------------------\n"
            "ip1/weight  its shape is (3, 4) in snapshots/snapshot-000001.h5, but (5, 4) here\n"
            "ip1/bias    its shape is (3,) in snapshots/snapshot-000001.h5, but (5,) here\n"
            "  rename layers or parameters (rename={'there': 'here'}), or load only what fits (strict=False)"
        ),
    ),
    (
        lambda: (saved(), trained().load("snapshots", rename={"ip1": "ip9"})),
        (
            "rename: 'ip1' cannot become 'ip9': net 'small' has no such layer or parameter (did you mean 'ip1'?)\n"
            "  names that can be loaded: ip1, ip1/bias, ip1/weight"
        ),
    ),
    (
        lambda: Solver("SGD").start(cast("Any", "net.toml")),
        ("net='net.toml', but a solver trains a Net\n  for a file use load(path).net()"),
    ),
    (
        lambda: Solver(Adam(), momentum_policy=0.9),
        "Solver: momentum_policy=FixedMomentum(base=0.9), but Adam does not use momentum",
    ),
    (
        lambda: Solver("SGD", callbacks=[SaveSnapshot(folder="/s"), SaveSnapshot(folder="/s")]),
        "Solver: callbacks: two of them save snapshots in the folder /s; each needs a folder of its own",
    ),
    (
        lambda: solve(Solver("SGD"), trained(freeze=["ip1"])),
        ("net 'small': every layer that could learn is frozen: ip1\n  remove one of them from freeze, or unfreeze it"),
    ),
    (
        lambda: solve(Solver("SGD"), trained(allocate=False)),
        ("net 'small' was made with allocate=False, so it cannot be trained\n  make the net without allocate=False"),
    ),
    (
        lambda: (found := saved(), solve(Solver(Adam()), resume=found)),
        (
            "the snapshot was made by the solver SGD, but this training uses Adam\n"
            "  train with SGD, or let the new solver begin anew: --reset-solver (reset_solver=True)"
        ),
    ),
    (
        lambda: solve(Solver("SGD"), reset_solver=True),
        ("reset_solver=True is only for a resumed training\n  pass resume too, or remove it"),
    ),
    (
        lambda: solve(Solver("SGD"), resume=Snapshot(3, {}, {})),
        (
            "the snapshot holds parameters, but no training to resume\n"
            "  begin a new training with its parameters: --weights (net.load)"
        ),
    ),
    (
        lambda: solve(Solver("SGD", lr_policy=1e39, max_iter=9)),
        (
            "iteration 0: a number is not finite; first seen in the value of parameter 'ip1/bias' of layer 'ip1'\n"
            "  try a smaller learning rate, or check the data; nacre train --find-nan (net.find_nan) names the layer"
        ),
    ),
    (
        lambda: check_net_gradients(trained()),
        (
            "net 'small' is of type float32, which is too coarse for central differences\n"
            "  make the net with dtype='float64'"
        ),
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[1].partition("\n")[0][:60])
def test_the_text_of_an_error(message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_message(message, tmp_path, monkeypatch)
