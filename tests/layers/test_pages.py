"""The page of every layer and component (`nacre layers NAME`): help for every field, and an example that runs."""

import inspect
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import nacre
import nacre_layers
from nacre import ConfigError, Net
from nacre.cli.app import nacre as command
from nacre.config import load
from nacre.testing.trial import backends
from nacre_data import LMDB, Pictures, Shard, Tar
from page_examples import example_of, fed, shapes_of

LAYERS = [offer for offer in nacre.registry().offers("layer") if offer.distribution == "nacre"]
MEANINGS = ("layer_of", "number_of", "default_of")
"""Kinds whose names are those of other kinds, and whose classes have other names too."""
KINDS = [kind for kind in nacre.registry().kinds() if kind not in ("backend", "command", "kernel", *MEANINGS)]
PAGES = [offer for kind in KINDS for offer in nacre.registry().offers(kind) if offer.distribution == "nacre"]
CAFFE = Path(__file__).resolve().parents[2] / "docs/from-caffe.md"
WHOLE = ("label", "index")
"""Bottoms of these names hold whole numbers."""
DISTRIBUTIONS = ("prob", "target")
"""Rows of bottoms of these names add up to 1."""


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Work in a folder that has what the examples of sources read."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("train.h5", "w") as file:
        file["data"] = np.random.default_rng(0).random((20, 3, 8, 8), np.float32)
        file["label"] = np.arange(20) % 10
    fields = {"data": nacre.Field((3, 9, 8), "uint8"), "label": nacre.Field((), "int64", ("cat", "dog"))}
    with Pictures().create(tmp_path / "train", fields) as writer:
        writer.append({"data": np.zeros((9, 3, 9, 8), np.uint8), "label": np.arange(9) % 2})
    rows = {"data": np.zeros((9, 3, 8, 8), np.uint8), "label": np.arange(9) % 2}
    kinds = {"data": nacre.Field((3, 8, 8), "uint8"), "label": fields["label"]}
    np.savez("train.npz", **rows)
    for store, name in ((LMDB(), "train.lmdb"), (Shard(), "train.shard")):
        with store.create(tmp_path / name, kinds) as writer:
            writer.append(rows)
    with Pictures().open(tmp_path / "train") as reader, Tar().create(tmp_path / "train.tar", reader.fields) as writer:
        for _, some in nacre.blocks(reader):
            writer.append(some)
    (tmp_path / "iris.csv").write_text("a,b,c,d,species\n" + "5.1,3.5,1.4,0.2,setosa\n7,3.2,4.7,1.4,versicolor\n" * 10)
    (tmp_path / "text.txt").write_text("a text of a few words, over and over again\n" * 50)
    return tmp_path


@pytest.mark.parametrize("offer", LAYERS, ids=lambda offer: offer.name)
def test_the_example_runs(offer, data):
    cls = nacre.registry().open_offer(offer)
    text = example_of(cls)
    if not text.startswith("[[layer]]"):  # its fields hold what no file can say
        made = {}
        exec(text, made)
        assert any(type(one) is cls for one in made.values())
        return
    (data / "net.toml").write_text(text)
    layers = load("net.toml").layers
    assert type(layers[-1]) is cls
    bottoms, tops = shapes_of(text, "bottoms"), shapes_of(text, "tops")
    blobs = {*getattr(layers[-1], "bottoms", ()), *getattr(layers[-1], "tops", ())}
    assert blobs <= {*bottoms, *tops}, "tell the shapes of bottoms and tops behind them"
    inputs = fed(text, layers)
    algorithm = cls.needs_algorithm or None
    with Net("example", [*inputs, *layers], backend="numpy", keep="all", algorithm=algorithm) as net:
        random = np.random.default_rng(0)
        for name in (one.tops[0] for one in inputs):
            shape = bottoms[name]
            values = random.integers(0, 2, shape) if name.startswith(WHOLE) else random.uniform(0.1, 0.9, shape)
            net.write(name, values / values.sum(-1, keepdims=True) if name in DISTRIBUTIONS else values)
        net.feed()
        net.forward()
        assert {name: net.blob(name).shape for name in tops} == tops


@pytest.mark.parametrize("offer", LAYERS, ids=lambda offer: offer.name)
def test_a_net_with_the_example_is_saved_and_loaded(offer, data):
    """Without the data; what comes back has the same parameters, and is saved as the same bytes."""
    cls = nacre.registry().open_offer(offer)
    text = example_of(cls)
    if not text.startswith("[[layer]]"):
        made = {}
        exec(text, made)
        layers = [one for one in made.values() if isinstance(one, nacre.Layer)]
    else:
        (data / "net.toml").write_text(text)
        layers = load("net.toml").layers
    readers = [nacre.InputLayer(name="more", tops=["more"], shape=(2,), batch_size=3)]
    for top in dict.fromkeys(top for one in layers if one.is_source for top in one.tops):
        readers.append(nacre_layers.ReshapeLayer(bottoms=top, tops=f"{top}-again", shape=(-1,)))
    algorithm = cls.needs_algorithm or None
    with Net("example", [*fed(text, layers), *layers, *readers], backend="numpy", algorithm=algorithm) as net:
        net.save("net.nacre")
    shutil.rmtree("train", ignore_errors=True)
    for path in [one for one in data.iterdir() if one.is_file() and one.suffix != ".nacre"]:
        path.unlink()
    with nacre.load("net.nacre") as back:
        assert {name: one.value.tobytes() for name, one in back.parameters.items()} == {
            name: one.value.tobytes() for name, one in net.parameters.items()
        }
        back.save("again.nacre")
    same = Path("again.nacre").read_bytes() == Path("net.nacre").read_bytes()
    assert same or h5py.version.hdf5_version_tuple < (2,), "older HDF5 writes the time into a file"


AXES = [offer for offer in LAYERS if "axis" in [field.name for field in nacre.registry().open_offer(offer).fields()]]


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("axis", [7, -7])
@pytest.mark.parametrize("offer", AXES, ids=lambda offer: offer.name)
def test_an_axis_that_is_not_there_is_refused(offer, axis, backend, data):
    """By a kernel as by the layer's own code; the error names layer and field."""
    text = re.sub(r"^(axis|n_axes) = .*\n", "", example_of(nacre.registry().open_offer(offer)) + "\n", flags=re.M)
    (data / "net.toml").write_text(f"{text}axis = {axis}\n")
    layers = load("net.toml").layers
    with pytest.raises(ConfigError, match=rf"{layers[-1].name}: .*axis={axis}"):
        Net("n", [*fed(text, layers), *layers], backend=backend)


@pytest.mark.parametrize("offer", LAYERS, ids=lambda offer: offer.name)
def test_the_page_of_a_layer_has_all_its_sections(offer):
    page = CliRunner().invoke(command, ["layers", f"layer/{offer.name}"]).output
    prose = re.sub(r"`[^`]*`", "", page.partition("\nExample:\n")[0])
    assert re.search(r"\w(\[[^\]\n]*\])* = \S", prose), "there is no formula: y = ..."
    for section in ("Example:", "traits: ", "field +type +default +what it is", "types:", "kernels[:,] "):
        assert re.search(rf"^{section}", page, re.M), f"there is no '{section}'"
    assert re.search(r"\(\w+(, \w+)*,?\)", page), "there are no shapes"


@pytest.mark.parametrize("offer", PAGES, ids=lambda offer: f"{offer.kind}/{offer.name}")
def test_the_page_says_what_a_reader_asks(offer):
    cls = nacre.registry().open_offer(offer)
    doc = inspect.cleandoc(vars(cls)["__doc__"])
    assert doc.partition("\n")[0].endswith((".", ":")), "the first line is no sentence"
    assert [field.name for field in getattr(cls, "fields", tuple)() if not field.doc] == [], "fields without help"
    listed = re.search(r"^([-+*]|#+|\d+[.)]) .*", doc, re.M)
    assert not listed, f"Markdown would make a list of this line: {listed[0]}"


def refuses_the_batchs_axis(offer, folder):
    """Return whether no net can be made with axis 0 of a layer because of the axis."""
    text = re.sub(r"^(axis|n_axes) = .*\n", "", example_of(nacre.registry().open_offer(offer)) + "\n", flags=re.M)
    (folder / "net.toml").write_text(f"{text}axis = 0\n")
    try:
        layers = load("net.toml").layers
        Net("n", [*fed(text, layers), *layers], backend="numpy", allocate=False).shutdown()
    except ConfigError as error:
        return "axis=0" in str(error)
    return False


def test_which_layers_may_name_the_batchs_axis_is_told(data):
    told = re.search(r"Axis 0 is the batch axis(.*?);(.*?)\n\* ", CAFFE.read_text(encoding="utf-8"), re.S).groups()
    always, with_a_second_bottom = (set(re.findall(r"`(\w+)`", part)) for part in told)
    accepted = {offer.name for offer in AXES if not refuses_the_batchs_axis(offer, data)}
    assert always <= accepted <= always | with_a_second_bottom
