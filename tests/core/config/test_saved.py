"""Nets as values: one file, read again without the data; copies and pickles with parameters of their own."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import h5py
import numpy as np
import pytest

import nacre
from command_line import full_disk
from forging import forge, pack, trials
from nacre import (
    ConfigError,
    InputLayer,
    L,
    Layer,
    NacreError,
    Names,
    Net,
    Paths,
    Phase,
    Snapshot,
    SnapshotError,
    Solver,
    Transformer,
    at_least,
    default,
    load_parameters,
    load_snapshot,
)
from nacre.config import NetFile, dumps
from nacre.config import load as load_file
from nacre.config.saved import content, encoded, unpickled
from nacre.config.savedfile import FORM
from nacre.snapshots.folder import default_snapshot_store
from nacre.testing.trial import backends
from nacre_data import (
    Categories,
    Crop,
    FillMissing,
    HDF5DataLayer,
    IterableDataLayer,
    MemoryDataLayer,
    PrefetchLayer,
    RandomNormalLayer,
    RGBImage,
    RGBImageLayer,
    Scale,
    Standardize,
    SubMean,
)
from nacre_layers import (
    AccuracyLayer,
    BatchNormLayer,
    ConvolutionLayer,
    ElementWiseLayer,
    InfogainLossLayer,
    InnerProductLayer,
    LSTMLayer,
    PoolingLayer,
    SequentialLayer,
    SoftmaxLayer,
    SoftmaxLossLayer,
    SquareLossLayer,
)
from nacre_solvers import SGD
from nacre_solvers import Snapshot as SnapshotCallback
from registries import NewRegistry
from small_layers import CountLayer, HalveLayer, data, fill

ROOT = Path(__file__).resolve().parents[3]
RECORDS = np.random.default_rng(0).normal(size=(23, 5))
OWN: dict[str, Any] = {"backend": "numpy", "dtype": "float64"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


FITTED = {"data": {"Standardize/mean": np.zeros(5), "Standardize/deviation": np.ones(5)}}


def ip(name: str, bottoms: Any = "data", output_dim: int = 3, **fields: Any) -> Layer:
    return InnerProductLayer(name=name, bottoms=bottoms, tops=name, output_dim=output_dim, **fields)


def source(*transformers: Any, **fields: Any) -> Layer:
    images = np.random.default_rng(1).normal(3, 2, size=(23, 5))
    given = {"data": [images, np.arange(23) % 3], "classes": {"label": ["cat", "dog", "eel"]}, "batch_size": 4}
    return MemoryDataLayer(name="train", transformers=[["data", one] for one in transformers], **given | fields)


def classifier(*transformers: Any, **fields: Any) -> list[Layer]:
    return [
        source(*transformers, **fields),
        ip("scores"),
        SoftmaxLossLayer(name="loss", bottoms=["scores", "label"], exclude="predict"),
        AccuracyLayer(name="accuracy", bottoms=["scores", "label"], exclude=["predict", "train"]),
        SoftmaxLayer(name="prob", bottoms="scores", tops="prob", exclude="train"),
    ]


def trained(layers: list[Layer] | None = None, **options: Any) -> Net:
    net = Net("net", layers or classifier(Standardize()), **OWN | options)
    Solver(SGD(), max_iter=5, lr_policy=0.1).solve(net)
    return net


def again(net: Net, **options: Any) -> Net:
    net.save("net.nacre")
    return nacre.load("net.nacre", **options)


def check_equal(one: Net, other: Net) -> None:
    """Check that two nets have the same parameters, in memory of their own."""
    assert [*one.parameters] == [*other.parameters]
    for name, handle in one.parameters.items():
        twin, before = other.parameters[name], np.array(handle.value)
        np.testing.assert_array_equal(before, twin.value)
        handle.value = before + 1
        np.testing.assert_array_equal(before, twin.value)
        handle.value = before


# What comes back


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predictions_are_the_same_bit_for_bit(backend: str, dtype: str) -> None:
    net = trained(backend=backend, dtype=dtype, deterministic=True)
    back = again(net)
    check_equal(net, back)
    np.testing.assert_array_equal(net.predict(RECORDS, "prob"), back.predict(RECORDS, "prob"))
    assert (back.backend, back.dtype, back.seed, back.phase) == (net.backend, dtype, net.seed, "train")
    assert back.name == "net"
    assert back.deterministic
    assert back.parameters.iterations == net.parameters.iterations == 5
    assert back.classes["scores"] == ("cat", "dog", "eel")


@pytest.mark.parametrize(("max_iter", "n_accumulate"), [(1, 1), (7, 1), (3, 4)])
def test_the_number_of_iterations_is_the_solvers(max_iter: int, n_accumulate: int) -> None:
    net = Net("net", classifier(), **OWN)
    callbacks = [SnapshotCallback(folder="folder")]
    Solver(SGD(), max_iter=max_iter, n_accumulate=n_accumulate, callbacks=callbacks).solve(net, quiet=True)
    assert content(net).iteration == content(net.derive("test")).iteration == max_iter
    assert again(again(net)).step == max_iter
    restarted = Net("net", classifier(), **OWN)
    load_parameters(restarted, load_snapshot("folder"))
    assert content(restarted).iteration == max_iter
    loaded = Net("net", classifier(), **OWN)
    loaded.load("folder")
    assert content(loaded).iteration == max_iter
    net.reset()
    assert content(net).iteration == 0


def test_a_loop_of_ones_own_counts_by_itself() -> None:
    net = Net("net", classifier(), **OWN)
    net.step = 8
    assert content(net).iteration == 8


def test_options_come_back() -> None:
    layers = [data(5), ip("hidden"), ip("other", "hidden"), SquareLossLayer(name="loss", bottoms=["other", "hidden"])]
    options = {"seed": 3, "keep": "hidden", "freeze": ["hidden"], "insert_splits": True, "phase": "train"}
    net = Net("net", layers, input_gradients=["data"], **OWN | options)
    back = again(net)
    assert (back.seed, back.frozen, back.insert_splits, back.phase) == (3, {"hidden"}, True, "train")
    assert back.readable() == net.readable() == (("hidden",), ("data",))
    tested = again(back, phase="test", seed=4)
    assert (tested.seed, tested.phase, again(tested).phase) == (4, "test", "test")
    assert again(Net("net", layers, keep="all", **OWN, insert_splits=True)).readable()[0] is None


def test_without_its_data_in_another_process() -> None:
    with h5py.File("train.h5", "w") as file:
        file["data"], file["label"] = RECORDS, np.arange(23) % 3
    with h5py.File("mean.h5", "w") as file:
        file["mean"] = np.linspace(0, 1, 5)
    layers = classifier()
    layers[0] = HDF5DataLayer(
        name="train", source="train.h5", batch_size=4, transformers=[["data", SubMean(mean_file="mean.h5")]]
    )
    net = trained(layers)
    net.save("net.nacre")
    np.save("wanted.npy", net.predict(RECORDS, "prob"))
    Path("train.h5").unlink()
    Path("mean.h5").unlink()
    code = "import nacre, numpy as np; net = nacre.load('net.nacre'); x = np.random.default_rng(0).normal(size=(23, 5))"
    code += "; assert (net.predict(x, 'prob') == np.load('wanted.npy')).all()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


FULL = np.where(np.arange(23 * 5).reshape(23, 5) % 7, RECORDS, np.nan)


@pytest.mark.parametrize(
    "transformers",
    [
        [Scale(scale=0.3)],
        [FillMissing(), Standardize()],
        [SubMean(mean=np.linspace(0, 1, 5)), Standardize(), Scale(scale=[1, 2, 3, 4, 5])],
    ],
    ids=["scale", "fitted", "array"],
)
def test_what_was_done_to_the_records_is_done_again(transformers: list[Transformer]) -> None:
    records = FULL if any(isinstance(one, FillMissing) for one in transformers) else RECORDS
    net = trained(classifier(*transformers, data=[records, np.arange(23) % 3]))
    back = again(net)
    np.testing.assert_array_equal(net.predict(records, "prob"), back.predict(records, "prob"))
    assert back.fitted.keys() == net.fitted.keys()
    assert [layer.name for layer in again(back).layers] == [layer.name for layer in back.layers]  # and once more
    np.testing.assert_array_equal(net.predict(records, "prob"), again(back).predict(records, "prob"))


def test_pictures_are_cut_and_shifted_as_in_training() -> None:
    pictures = np.random.default_rng(0).uniform(0, 255, (9, 3, 8, 8))
    with h5py.File("mean.h5", "w") as file:
        file["mean"] = pictures.mean(0)
    with h5py.File("train.h5", "w") as file:
        file["data"], file["label"] = pictures, np.arange(9) % 3
    tail = [
        ConvolutionLayer(name="conv", bottoms="rgb", tops="conv", n_filter=2, kernel=3),
        BatchNormLayer(name="norm", bottoms="conv", tops="norm"),
        PoolingLayer(name="pool", bottoms="norm", tops="pool", kernel=2, stride=2),
        *(ip(name, "pool") for name in ["scores"]),
        SoftmaxLossLayer(name="loss", bottoms=["scores", "label"], exclude="predict"),
    ]
    own = HDF5DataLayer(
        tops=["rgb", "label"],
        transformers=[["rgb", RGBImage(mean_file="mean.h5", crop_size=6)], ["rgb", Crop(size=5)]],
        source="rgb.h5",
        batch_size=3,
        name="read",
    )  # fmt: skip
    with h5py.File("rgb.h5", "w") as file:
        file["rgb"], file["label"] = pictures, np.arange(9) % 3
    ahead = PrefetchLayer(
        name="ahead",
        tops=["rgb", "label"],
        layer=[
            HDF5DataLayer(source="train.h5", batch_size=3, name="read"),
            RGBImageLayer(bottoms="data", tops="rgb", mean_file="mean.h5", crop_size=6),
        ],
    )
    for first in (own, ahead):
        with trained([first, *tail]) as net, again(net) as back:
            np.testing.assert_array_equal(net.predict(pictures, "scores"), back.predict(pictures, "scores"))


def test_categories_keep_their_numbers() -> None:
    layers = [
        MemoryDataLayer(
            tops="colour", data=[np.array([0, 2, 2, 0])], classes={"colour": ["blue", "green", "red"]}, batch_size=2,
            transformers=[["colour", Categories(unknown="own")]],
        ),
        L.Embedding(bottoms="colour", tops="y", input_dim=3, output_dim=2),
    ]  # fmt: skip
    net = Net("net", layers, **OWN)
    found = again(net).predict(np.array([0, 1, 2]), "y")
    np.testing.assert_array_equal(found, net.predict(np.array([0, 1, 2]), "y"))


def test_sources_become_inputs_and_outputs_are_left_out() -> None:
    layers = [
        CountLayer(name="a", tops=["data", "label"], count=9, batch_size=4, exclude=["validation", "test", "predict"]),
        CountLayer(name="b", tops=["data", "label"], count=9, batch_size=2, exclude=["train", "predict"]),
        CountLayer(name="c", tops=["unread", "neither"], count=9, batch_size=2),
        RandomNormalLayer(tops="noise", output_dims=3, batch_size=4),
        ip("label-is-taken", "data"),
        ip("label", "label-is-taken"),
        ElementWiseLayer(bottoms=["label", "noise"], tops="sum", operation="Add"),
        SquareLossLayer(name="loss", bottoms=["sum", "label-is-taken"], exclude="predict"),
        L.HDF5Output(name="out", bottoms="sum", filename="out.h5", exclude="train"),
    ]
    layers[5] = InnerProductLayer(name="label", bottoms="label-is-taken", tops="scores", output_dim=3)
    layers[6] = ElementWiseLayer(bottoms=["scores", "noise"], tops="sum", operation="Add")
    layers.insert(7, AccuracyLayer(name="accuracy", bottoms=["sum", "label"], exclude=["train", "predict"]))
    back = again(Net("net", layers, **OWN))
    inputs = [layer for layer in back.layers if isinstance(layer, InputLayer)]
    assert [(one.name, one.tops, one.exclude, one.shape, one.batch_size) for one in inputs] == [
        ("data", ("data",), (), (2,), 4),
        ("label2", ("label",), ("train", "predict"), (), 4),
    ]
    assert [one.dtype for one in inputs] == ["", "int64"]
    assert all(not one.instead_of for one in inputs)  # these sources change nothing
    assert [layer.name for layer in back.layers[2:]] == [
        "noise", "label-is-taken", "label", "sum", "accuracy", "loss"
    ]  # fmt: skip


def test_blobs_of_other_phases_have_their_inputs_too() -> None:
    others: list[Phase] = ["train", "predict", "test"]
    layers = [
        *classifier(),
        CountLayer(name="c", tops=["more", "kind"], count=9, batch_size=4, width=5, exclude=others),
        SquareLossLayer(name="also", bottoms=["more", "data"], exclude=others),
    ]
    back = again(trained(layers))
    (more,) = [layer for layer in back.layers if isinstance(layer, InputLayer) and layer.tops == ("more",)]
    assert (more.shape, more.batch_size, more.exclude) == ((5,), 4, ("train", "test", "predict"))
    assert "also" in again(trained(layers), phase="validation").node_ops


def test_a_shape_that_is_not_known_is_told() -> None:
    absent = HDF5DataLayer(name="v", source="none.h5", tops="more", batch_size=4, exclude=["train", "predict", "test"])
    reader = ip("scored", "more", exclude=["train", "predict", "test"])
    net = trained([*classifier(), absent, reader])
    with pytest.raises(ConfigError, match=r"the shape of blob 'more' is not known: v: none.h5: no such file"):
        net.save("net.nacre")


def test_a_saved_net_can_be_trained_again() -> None:
    net = trained()
    back = again(net)
    x, y = back.fitted["data"]["Standardize/mean"] + RECORDS[:4], [0, 1, 2, 0]
    back.write("data", x)
    back.write("label", y)
    before = back.parameters["scores/weight"].value
    Solver(SGD(), max_iter=2, lr_policy=0.1).solve(back)
    assert (back.parameters["scores/weight"].value != before).any()
    with pytest.raises(NacreError, match="nothing was written to"):
        Solver(SGD(), max_iter=2).solve(again(net))


@pytest.mark.parametrize("transformers", [[Standardize(), Scale(scale=0.5)], [SubMean(mean=np.ones(5))]], ids=len)
def test_arrays_for_a_loaded_net_are_those_that_its_source_read(transformers: list[Transformer]) -> None:
    layers = classifier(*transformers)
    assert isinstance(layers[0], MemoryDataLayer)
    x, y = layers[0].data
    net = trained(layers)
    with net.derive("test") as tested:
        loss, accuracy = tested.forward_epoch(), tested.statistics()["accuracy"]["accuracy"]
    back = again(net)
    found = back.evaluate(x, y)
    assert (found["loss"], found["accuracy/accuracy"]) == (pytest.approx(loss, rel=1e-12), accuracy)
    assert back.evaluate(x, np.array(["cat", "dog", "eel"])[y]) == found
    back.fit(x, y, epochs=20, lr=0.05, quiet=True)
    assert back.evaluate(x, y)["loss"] < loss
    assert set(again(back).predict(x, "prob", classes=True)) <= {"cat", "dog", "eel"}


def test_arrays_are_cut_as_the_source_cut_its_pictures() -> None:
    pictures = np.random.default_rng(0).normal(size=(9, 1, 6, 6))
    read = MemoryDataLayer(data=[pictures, np.arange(9) % 3], batch_size=3, transformers=[["data", Crop(size=4)]])
    loss = SoftmaxLossLayer(name="loss", bottoms=["scores", "label"])
    back = again(Net("net", [read, ip("scores"), loss], **OWN))
    cut = Net("net", [data(1, 4, 4), data(top="label"), ip("scores"), loss], **OWN)
    assert back.evaluate(pictures, np.arange(9) % 3) == cut.evaluate(pictures[:, :, 1:5, 1:5], np.arange(9) % 3)
    with pytest.raises(ConfigError, match=r"Crop: size=\(4, 4\) is larger than the pictures, which have \(7, 3\)"):
        back.evaluate(np.ones((2, 1, 7, 3)), [0, 1])


def test_arrays_cannot_be_changed_as_a_strangers_source_changes_records(new_registry: NewRegistry) -> None:
    new_registry()
    nacre.register(Shifted)
    layers = [Shifted(name="s", tops=["data", "label"], by=2), ip("y"), SoftmaxLossLayer(bottoms=["y", "label"])]
    back = again(Net("net", layers, **OWN))
    with pytest.raises(ConfigError, match=r"s: Shifted changes records of 'data', which cannot be done to arrays"):
        back.evaluate(RECORDS, np.zeros(23, int))


# Kinds of nets


def calls() -> Net:
    x, y = nacre.Input((1, 8, 8), name="x", batch_size=2), nacre.Input((1, 8, 8), name="y", batch_size=2)
    tower = L.Convolution(n_filter=2, kernel=3, neuron="ReLU")
    end = L.InnerProduct(output_dim=3)
    one, other = end(tower(x)), end(tower(y))
    return Net("siamese", [L.SquareLoss()(one, other), one, other], **OWN)


def recurrent() -> Net:
    layers = [data(6, 4), data(6, top="lengths"), LSTMLayer(bottoms="data", tops="h", output_dim=3, carry=True)]
    return Net("recurrent", [layers[0], layers[2], SquareLossLayer(name="loss", bottoms=["h", "h"])][:2], **OWN)


def containers() -> Net:
    block = [{"type": "InnerProduct", "name": "ip", "output_dim": 4, "neuron": "Tanh"}, {"type": "Dropout"}]
    layers = [data(4), SequentialLayer(name="block", bottoms="data", tops="y", layer=block)]
    layers += [L.Repeat(name="more", bottoms="y", tops="z", times=2, layer=[block[0]])]
    return Net("containers", layers, **OWN)


def shared() -> Net:
    layers = [data(4), ip("one", output_dim=4, param_key="k"), ip("two", "one", output_dim=4, param_key="k")]
    return Net("shared", layers, **OWN)


def machine() -> Net:
    layers = load_file(ROOT / "examples/digits/lenet.toml").layers
    return Net("digits", layers, backend="numpy")


@pytest.mark.parametrize("make", [calls, recurrent, containers, shared, machine], ids=lambda make: make.__name__)
def test_every_kind_of_net_comes_back(make: Any) -> None:
    with make() as net, unpickled(encoded(net)) as back:
        check_equal(net, back)
        assert back.parameters.sharers() == net.parameters.sharers()
        for one in (net, back):
            if make is machine:
                one.write("data", np.ones((1, 1, 8, 8)))
                one.write("label", [1])
            else:
                fill(one)
        if not net.unwritten():
            assert net.forward() == back.forward()
            outputs = list(net.readable()[0] or ()) or ["two"] * (make is shared)
            for name in outputs:
                if name in net.memory.final:
                    np.testing.assert_array_equal(net.blob(name), back.blob(name))
        assert encoded(back) == encoded(net)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/*.toml")), ids=lambda path: path.stem)
def test_the_nets_of_the_examples_can_be_written(path: Path) -> None:
    """As text: the larger ones have hundreds of megabytes of parameters."""
    file = load_file(path)
    layers = [layer.standalone() for layer in file.layers]
    assert len(layers) == len(file.layers)


def test_data_in_python_and_files_that_losses_read() -> None:
    np.save("matrix.npy", np.eye(3) + 0.1)
    records = [{"data": row, "label": number % 3} for number, row in enumerate(RECORDS)]
    layers = [
        IterableDataLayer(
            name="train", data=records, batch_size=4, transformers=[["data", Standardize()]], shuffle=True
        ),
        ip("scores"),
        InfogainLossLayer(name="loss", bottoms=["scores", "label"], source="matrix.npy", exclude="predict"),
    ]
    net = Net("net", layers, **OWN)
    back = again(net)
    np.testing.assert_array_equal(net.predict(RECORDS, "scores"), back.predict(RECORDS, "scores"))
    loss = back.layers[-1]
    assert isinstance(loss, InfogainLossLayer)
    assert np.array(loss.matrix).tolist() == (np.eye(3) + 0.1).tolist()


# Third parties


class Shifted(Layer, is_source=True):
    """A stranger's source, which changes what it reads, and reads a file."""

    tops: Annotated[Names, at_least(1)] = default("data")
    source: Annotated[Paths, "its data"] = default(())
    by: Annotated[float, "what is added"] = 0.0

    def setup(self, backend: Any, inputs: Any, diffs: Any) -> Any:
        return CountLayer(tops=["data", "label"], count=9, batch_size=3, width=5).setup(backend, inputs, diffs)

    def prepare(self, top: str, records: Any, random: Any, phase: str, fitted: Any, classes: Any = ()) -> Any:
        return records + self.by


def test_a_strangers_source_needs_nothing_but_what_predict_asks_of_it(new_registry: NewRegistry) -> None:
    new_registry()
    nacre.register(Shifted)
    layer = Shifted(name="s", tops=["data", "label"], source=["deep/in/data.bin", "https://host/x.bin?key=1"], by=2)
    net = Net("net", [layer, ip("y")], **OWN)
    back = again(net)
    np.testing.assert_array_equal(net.predict(RECORDS, "y"), back.predict(RECORDS, "y"))
    text = nacre.load_snapshot("net.nacre").state["net_file"]
    assert "data.bin" in text
    assert "deep" not in text
    assert "key=1" not in text
    assert str(Path.cwd()) not in text


def test_a_strangers_layer_with_the_name_of_a_neuron_is_not_taken_for_it(new_registry: NewRegistry) -> None:
    new_registry()
    nacre.register(HalveLayer, "ReLU")
    net = Net("net", [data(5), HalveLayer(name="half", bottoms="data"), ip("y")], **OWN)
    assert 'type = "local:ReLU"' in dumps(net)
    np.testing.assert_array_equal(again(net).predict(-RECORDS, "y"), net.predict(-RECORDS, "y"))


def test_what_a_file_cannot_hold_is_told() -> None:
    class Reads(Transformer):
        table: Annotated[Paths, "a file"] = default(())

    class Calls(Transformer):
        function: Annotated[Any, "a function"] = None

    class UnknownLayer(HalveLayer):
        pass

    net = Net("net", classifier(Reads(table="t.csv")), **OWN)
    with pytest.raises(ConfigError, match=r"Reads: table=\('t.csv',\) is a file, but a saved net has no files"):
        net.save("a.nacre")
    net = Net("net", classifier(Calls(function=print)), **OWN)
    with pytest.raises(ConfigError, match=r"an object \(builtin_function_or_method\), which a net file cannot hold"):
        net.save("a.nacre")
    net = Net("net", [data(5), UnknownLayer(name="half", bottoms="data"), ip("y")], **OWN)
    with pytest.raises(ConfigError, match=r"half: no plugin offers UnknownLayer"):
        copy.deepcopy(net)
    assert not Path("a.nacre").exists()


# Copies


def test_parameters_without_their_net_are_not_copied() -> None:
    net = Net("net", classifier(), **OWN)
    for one in (net.parameters, net.parameters["scores/weight"]):
        for copied in (copy.deepcopy, copy.copy, pickle.dumps):
            with pytest.raises(ConfigError, match="cannot be copied or pickled") as caught:
                copied(one)
            assert "net.parameters.items()" in caught.value.remedy


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda net: pickle.loads(pickle.dumps(net))])  # noqa: S301
def test_a_copy_owns_its_parameters(copied: Any) -> None:
    net = trained(seed=5)
    made: Net = copied(net)
    check_equal(net, made)
    assert (made.backend, made.phase, made.seed) == (net.backend, "train", 5)
    before = net.predict(RECORDS, "prob")
    made.parameters["scores/weight"].value = 0 * made.parameters["scores/weight"].value
    np.testing.assert_array_equal(net.predict(RECORDS, "prob"), before)
    assert (made.predict(RECORDS, "prob") != before).any()


def test_several_copies_and_what_they_are_in() -> None:
    net = trained()
    several = copy.deepcopy({"best": net, "list": [net, net]})
    assert several["best"] is several["list"][0] is several["list"][1]
    assert several["best"] is not net


# Files that are not what they should be


def forged(net: Net, **state: Any) -> bytes:
    """Return the file of a net whose state says something else."""
    found = content(net)
    header = {"iteration": 3, "arrays": list(found.arrays), "state": {**found.state, **state}}
    return pack(header, found.arrays)


@pytest.mark.parametrize("number", range(trials(40, 2000)))
def test_whatever_a_file_says_ends_in_a_sentence_or_in_a_net(number: int) -> None:
    net = Net("small", classifier(SubMean(mean=np.ones(5)), Standardize()), **OWN, fitted=FITTED)
    data, told = forge(content(net), number)
    Path("net.nacre").write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nacre.load("net.nacre").shutdown()
        except NacreError:
            return  # a sentence; anything else fails
    assert told


def test_every_changed_byte_is_noticed() -> None:
    net = Net("small", [data(2), ip("y", output_dim=1)], **OWN)
    whole = encoded(net)
    unpickled(whole).shutdown()
    for place in [*range(200), *range(200, len(whole), 97), len(whole) - 1]:
        wrong = bytearray(whole)
        wrong[place] ^= 1
        with pytest.raises(SnapshotError, match=r"^the pickled net.nacre: "):
            unpickled(bytes(wrong))
    for end in (0, 1, 100, 511, 600, len(whole) - 1):
        with pytest.raises(SnapshotError, match=r"truncated|empty"):
            unpickled(whole[:end])


def test_what_is_no_saved_net_is_told() -> None:
    net = trained()
    for text, message in {
        b"": "this file is empty",
        b"PK" * 99: "this is no file of nacre's, or its beginning is damaged",
        forged(net, saved=FORM + 1): f"saved in form {FORM + 1}, but this nacre reads only up to {FORM}",
        forged(net, saved="1"): "state/saved is '1'",
        forged(net, net_file="layer = 3"): "layer=3, but it must be an array of tables",
        forged(net, net_file="][]"): "its net file cannot be read",
        forged(net, net_file='layer = [{ "nacre.array" = 12 }]'): "its net file cannot be read",
        forged(net, net_file="a" + ".a" * 99 + " = 1"): "its net file cannot be read",
        forged(net, options={"phase": "noon"}): "phase='noon'",
        forged(net, options={"keep": [3]}): "state/options/keep/0 is 3",
        forged(net, aliases={"a": "b"}): "",
    }.items():  # fmt: skip
        Path("net.nacre").write_bytes(text)
        if not message:
            nacre.load("net.nacre").shutdown()
            continue
        with pytest.raises(NacreError) as caught:
            nacre.load("net.nacre")
        assert message in str(caught.value)
        assert "net.nacre" in str(caught.value) or "phase" in message
    with pytest.raises(SnapshotError, match=r"none.nacre: no such file"):
        nacre.load("none.nacre")
    Path("s.nacre").write_bytes(default_snapshot_store().encode(Snapshot(3, {}, {})))
    with pytest.raises(SnapshotError, match=r"s.nacre: this is a snapshot of a training, not a saved net"):
        nacre.load("s.nacre")


@pytest.mark.parametrize("name", ["parameters/scores/bias", "parameters/scores/more"])
def test_a_file_with_a_parameter_less_or_more_is_refused(name: str) -> None:
    found = content(trained())
    arrays = {**found.arrays}
    if arrays.pop(name, None) is None:
        arrays[name] = np.ones(3)
    Path("net.nacre").write_bytes(default_snapshot_store().encode(Snapshot(3, arrays, found.state)))
    with pytest.raises(SnapshotError, match=name.removeprefix("parameters/")):
        nacre.load("net.nacre")


def test_a_name_says_what_a_file_is() -> None:
    net = trained()
    with pytest.raises(ConfigError, match=r"net.h5: the name of a saved net ends in .nacre\n  write net.nacre"):
        net.save("net.h5")
    with pytest.raises(ConfigError, match=r"net.toml: the name of a saved net ends in .nacre\n.*nacre.config.load"):
        nacre.load("net.toml")
    with pytest.raises(SnapshotError, match=r"none/net.nacre: cannot be written: No such file"):
        net.save("none/net.nacre")


def test_a_stranger_cannot_name_code_or_write_files() -> None:
    net = trained()
    for layer, message in {
        "type = 'os:system'": "os:system",
        "type = 'CSVData'\nsource = '/tmp/x.csv'\nbatch_size = 1": "reads data, which no layer of a saved net does",
        "type = 'HDF5Output'\nbottoms = ['scores']\nfilename = '/tmp/x.h5'": "writes files, which no layer",
    }.items():
        text = f"{content(net).state['net_file']}\n[[layer]]\n{layer}\n"
        Path("net.nacre").write_bytes(forged(net, net_file=text))
        with pytest.raises(NacreError, match=message):
            nacre.load("net.nacre")


def test_a_full_disk_leaves_the_file_that_was_there() -> None:
    net = trained()
    net.save("net.nacre")
    before = Path("net.nacre").read_bytes()
    net.parameters["scores/bias"].value = [1, 2, 3]
    with full_disk(), pytest.raises(SnapshotError, match=r"net.nacre: cannot be written: No space left on device"):
        net.save("net.nacre")
    assert Path("net.nacre").read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["net.nacre"]


def test_nothing_in_the_file_is_a_pickle_or_a_path() -> None:
    net = trained()
    net.save("net.nacre")
    whole = Path("net.nacre").read_bytes()
    assert b"pickle" not in whole
    assert os.fsencode(Path.cwd()) not in whole
    state = json.dumps(nacre.load_snapshot("net.nacre").state)
    assert "solver" not in state


def test_a_backend_that_is_not_here_is_replaced() -> None:
    net = trained()
    text = content(net).state["net_file"].replace('backend = "numpy"', 'backend = "cray"')
    Path("net.nacre").write_bytes(forged(net, net_file=text))
    with pytest.warns(UserWarning, match=r"net.nacre: its backend cannot be used, so another one is: .*cray"):
        back = nacre.load("net.nacre")
    assert back.backend.name != "cray"
    assert nacre.load("net.nacre", backend="numpy").backend.name == "numpy"


def test_a_plugin_that_is_not_installed_is_named() -> None:
    net = trained()
    text = content(net).state["net_file"] + '\n[plugins]\nrequire = ["nacre-cuttlefish>=1.2"]\n'
    Path("net.nacre").write_bytes(forged(net, net_file=text))
    with pytest.raises(NacreError, match=r'net.nacre: requirements .*\n.*pip install "nacre-cuttlefish>=1.2"'):
        nacre.load("net.nacre")


# As a file of parameters, and as a net file


def test_a_saved_net_is_a_file_of_parameters_too() -> None:
    net = trained()
    net.save("net.nacre")
    other = Net("other", classifier(Standardize()), **OWN)
    assert other.load("net.nacre").complete
    check_equal(net, other)
    with pytest.raises(SnapshotError, match="the snapshot holds parameters, but no training to resume"):
        Solver(SGD(), max_iter=2).solve(other, resume="net.nacre")


def test_a_saved_net_is_a_net_file_too() -> None:
    net = trained()
    net.save("net.nacre")
    file = load_file("net.nacre", ["seed=9"])
    assert isinstance(file, NetFile)
    assert file.name == "net"
    with file.net("predict", backend="numpy") as made:
        assert made.seed == 9
        assert made.classes["prob"] == ("cat", "dog", "eel")
    with pytest.raises(ConfigError, match=r"net\.nacre is a saved net, which has no solver"):
        file.solver()


def test_the_text_can_be_read_by_people() -> None:
    net = trained(classifier())
    text = content(net).state["net_file"]
    assert text.startswith('name = "net"\nseed = 0\nbackend = "numpy"\ndtype = "float64"\n\n[[layer]]\ntype = "Input"')
    net.save("net.nacre")
    assert dumps(load_file("net.nacre")).startswith('name = "net"')


def test_fitted_values_of_strangers_are_kept(new_registry: NewRegistry) -> None:
    new_registry()

    class Ranged(Transformer):
        def fit(self, blocks: Any) -> Mapping[str, Any]:
            return {"largest": np.max([block.max() for block in blocks]), "note": "as JSON"}

        def transform(self, batch: Any, random: Any, phase: str) -> None:
            batch /= self.fitted_array("largest", ())

    nacre.register(Ranged)
    net = trained(classifier(Ranged()))
    np.testing.assert_array_equal(again(net).predict(RECORDS, "prob"), net.predict(RECORDS, "prob"))
