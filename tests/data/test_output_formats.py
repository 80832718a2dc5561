"""The layers that write files, in every format: what is written is complete, and can be read again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, DataError, Field, InputLayer, Net, Store, Writer
from nacre.config import load
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_data import (
    CSVOutputLayer,
    DataLayer,
    HDF5OutputLayer,
    JSONLOutputLayer,
    LMDBDataLayer,
    LMDBOutputLayer,
    MemoryDataLayer,
    NumpyOutputLayer,
    OutputLayer,
    ShardDataLayer,
    ShardOutputLayer,
)
from registries import NewRegistry

X = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
LABEL = np.array([3, 0, 2, 1, 3])
LAYERS: dict[str, tuple[type[Any], str]] = {
    "CSVOutput": (CSVOutputLayer, "out.csv"),
    "HDF5Output": (HDF5OutputLayer, "out.h5"),
    "JSONLOutput": (JSONLOutputLayer, "out.jsonl"),
    "LMDBOutput": (LMDBOutputLayer, "out.mdb"),
    "NumpyOutput, one array": (NumpyOutputLayer, "out.npy"),
    "NumpyOutput": (NumpyOutputLayer, "out.npz"),
    "Output": (OutputLayer, "out.hdf5"),
    "ShardOutput": (ShardOutputLayer, "out.kvfile"),
}
"""Each layer, with the name of a file."""

every_layer = pytest.mark.parametrize(("layer", "filename"), LAYERS.values(), ids=LAYERS)


class OfFiles(LayerTests):
    """The tests of a layer that writes a file."""

    ending = ".h5"

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder, self.made = tmp_path, 0

    def make(self, example):
        self.made += 1  # the tests have several at a time
        filename = self.folder / f"{self.made}{self.ending}"
        return self.layer(name="tested", bottoms=["bottom0", "bottom1"], filename=filename, **example.fields)

    def examples(self):
        yield Example({}, [(4, 2), np.arange(4)])
        yield Example({"names": ["a", "b"]}, [(2, 1, 2, 2), (2,)], label="other names")

    def reference(self, layer, inputs, parameters):
        return []


class TestOutput(OfFiles, LayerTests):
    layer = OutputLayer


class TestCSVOutput(OfFiles, LayerTests):
    layer = CSVOutputLayer
    ending = ".csv"


class TestJSONLOutput(OfFiles, LayerTests):
    layer = JSONLOutputLayer
    ending = ".jsonl"


class TestLMDBOutput(OfFiles, LayerTests):
    layer = LMDBOutputLayer
    ending = ".lmdb"


class TestShardOutput(OfFiles, LayerTests):
    layer = ShardOutputLayer
    ending = ".shard"


class TestHDF5Output(OfFiles, LayerTests):
    layer = HDF5OutputLayer

    def examples(self):
        yield Example({}, [(3, 2), np.arange(4)])
        yield Example({"datasets": ["a", "b"]}, [(2, 1, 2, 2), (3,)], label="other names")


class TestNumpyOutput(OfFiles, LayerTests):
    layer = NumpyOutputLayer
    ending = ".npz"


def blobs(path: Any) -> list[str]:
    """Return the bottoms of a layer that writes this file."""
    return ["x"] if str(path).endswith(".npy") else ["x", "label"]


def net_with(sink: Any, phase: str = "test") -> Net:
    source = MemoryDataLayer(name="d", tops=["x", "label"], data=[X, LABEL], batch_size=2)
    return Net("t", [source, sink], backend="numpy", phase=phase)


def make(layer: type[Any], path: Path, **fields: Any) -> Net:
    return net_with(layer(name="out", bottoms=blobs(path), filename=path, **fields))


def read(path: Path, tops: list[str], count: int = 5) -> dict[str, np.ndarray]:
    """Return what the source `Data` reads from a file."""
    layers = [DataLayer(name="d", tops=tops, source=path, batch_size=count)]
    with Net("t", layers, backend="numpy", phase="test", keep="all") as net:
        net.forward()
        return {top: net.blob(top).copy() for top in tops}


@every_layer
def test_what_is_written_is_read_again(layer: type[Any], filename: str, tmp_path: Path) -> None:
    """The last batch has one real row."""
    path = tmp_path / filename
    with make(layer, path) as net:
        net.forward_epoch()
    assert list(tmp_path.iterdir()) == [path]
    found, written = read(path, blobs(path)), {"x": X, "label": LABEL}
    for name, array in found.items():
        np.testing.assert_array_equal(array, written[name])


@every_layer
def test_fields_have_the_names_that_are_given(layer: type[Any], filename: str, tmp_path: Path) -> None:
    path = tmp_path / filename
    names = ["scores", "number"][: len(blobs(path))]
    with make(layer, path, **{layer.named_by: names}) as net:
        net.forward_epoch()
    np.testing.assert_array_equal(read(path, names)["scores"], X)


@every_layer
def test_a_file_that_exists_is_replaced_only_if_told(layer: type[Any], filename: str, tmp_path: Path) -> None:
    path = tmp_path / filename
    path.write_bytes(b"precious")
    with pytest.raises(DataError, match=r"^out: .*exists already\n.*force_overwrite"):
        make(layer, path)
    with make(layer, path, force_overwrite=True) as net:
        net.forward_epoch()
        assert path.read_bytes() == b"precious"
    np.testing.assert_array_equal(read(path, ["x"])["x"], X)
    assert list(tmp_path.iterdir()) == [path]


@every_layer
def test_a_file_that_came_meanwhile_stays_and_nothing_else(layer: type[Any], filename: str, tmp_path: Path) -> None:
    path = tmp_path / filename
    net = make(layer, path)
    net.forward()
    path.write_bytes(b"precious")
    with pytest.raises(DataError, match=r"^out: .*exists already"):
        net.shutdown()
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == {path: b"precious"}


@every_layer
def test_an_error_leaves_nothing_behind(layer: type[Any], filename: str, tmp_path: Path) -> None:
    def run() -> None:
        with make(layer, tmp_path / filename) as net:
            net.forward()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert list(tmp_path.iterdir()) == []


@every_layer
def test_a_folder_that_is_missing(layer: type[Any], filename: str, tmp_path: Path) -> None:
    path = tmp_path / "none" / filename
    net = make(layer, path)
    with pytest.raises(DataError, match=r"^out: .*cannot be written: No such file or directory\n") as caught:
        net.forward()
    assert str(path) in str(caught.value)
    net.shutdown()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("layer", "source", "codec", "name", "file"),
    [
        (LMDBOutputLayer, LMDBDataLayer, "Datum", "out.lmdb", "data.mdb"),
        (ShardOutputLayer, ShardDataLayer, "SingleLabelImageRecord", "out.shard", "shard.dat"),
    ],
    ids=["LMDB", "Shard"],
)
def test_a_database_is_a_folder_that_caffe_or_singa_reads(
    layer: Any, source: Any, codec: str, name: str, file: str, tmp_path: Path
) -> None:
    pictures = np.arange(30, dtype=np.float32).reshape(5, 1, 2, 3)
    data = MemoryDataLayer(name="d", tops=["x", "label"], data=[pictures, LABEL], batch_size=2)
    out = layer(name="out", bottoms=["x", "label"], filename=tmp_path / name, codec=codec)
    with Net("t", [data, out], backend="numpy", phase="test") as net:
        net.forward_epoch()
        assert not (tmp_path / name).exists()
    assert [*tmp_path.iterdir()] == [tmp_path / name]
    assert [*(tmp_path / name).iterdir()] == [tmp_path / name / file]
    given = source(name="d", tops=["x", "label"], source=str(tmp_path / name), batch_size=5, codec=codec)
    with Net("t", [given], backend="numpy", phase="test", keep="all") as net:
        net.forward()
        assert net.blob("label").tolist() == LABEL.tolist()
        assert net.blob("x").tolist() == pictures.tolist()
    with pytest.raises(DataError, match=r"^out: .*exists already"):
        make(layer, tmp_path / name)


# Other processes

CHILD = """
import os, resource, signal, sys
import numpy as np
import nacre
from nacre import Net
from nacre_data import MemoryDataLayer

name, filename, bottoms, end = sys.argv[1:]
data = MemoryDataLayer(name="d", tops=["x", "label"], data=[np.ones((100, 1000)), np.arange(100)], batch_size=10)
out = nacre.registry().open("layer", name)(name="out", bottoms=bottoms.split(), filename=filename, force_overwrite=True)
try:
    with Net("t", [data, out], backend="numpy", phase="test") as net:
        if end == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        net.forward_epoch()
        if end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
except nacre.DataError as error:
    sys.exit(str(error))
"""


def child(layer: type[Any], path: Path, end: str) -> subprocess.CompletedProcess[str]:
    """Write a file of 400 KB in another process, which ends by itself, by a full disk, or killed."""
    name = layer.__name__.removesuffix("Layer")
    command = [sys.executable, "-W", "error", "-c", CHILD, name, str(path), " ".join(blobs(path)), end]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limits of files")
@every_layer
def test_a_full_disk(layer: type[Any], filename: str, tmp_path: Path) -> None:
    path = tmp_path / filename
    path.write_bytes(b"what was there")
    done = child(layer, path, "full")
    assert done.returncode == 1
    told = "mdb_" if path.suffix == ".mdb" else "File too large\n  free some space"
    assert f"out: {path}: cannot be written: {told}" in done.stderr
    assert done.stderr.count("\n") == 2
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == {path: b"what was there"}


@pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGKILL")
@every_layer
def test_a_killed_process(layer: type[Any], filename: str, tmp_path: Path) -> None:
    """The file that was there stays; what is left of the new one is replaced by the next run."""
    path = tmp_path / filename
    path.write_bytes(b"what was there")
    assert child(layer, path, "killed").returncode == -signal.SIGKILL
    assert path.read_bytes() == b"what was there"
    assert {one.name for one in tmp_path.iterdir()} == {filename, f".{filename}.tmp"}
    assert child(layer, path, "").returncode == 0
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(read(path, ["x"], 100)["x"], np.ones((100, 1000)))


# Net files, which may come from anybody


@every_layer
def test_a_net_file_replaces_no_file_without_a_mark(
    layer: type[Any], filename: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.toml").write_text(f"""
[[layer]]
type = "Input"
tops = "x"
shape = [3]
batch_size = 2

[[layer]]
type = "{layer.__name__.removesuffix("Layer")}"
bottoms = "x"
filename = "{filename}"
force_overwrite = true
""")

    def write(**options: Any) -> None:
        with load("net.toml", **options).net(backend="numpy") as net:
            net.write("x", np.ones((2, 3)))
            net.forward()

    write()
    if layer is not HDF5OutputLayer:  # whose files have a mark
        with pytest.raises(ConfigError, match=f"^{filename}: the file exists and carries no mark .*\n.*--overwrite"):
            write()
    write(overwrite=[filename] if layer is not HDF5OutputLayer else [])
    Path(filename).write_bytes(b"precious")
    with pytest.raises(ConfigError, match=f"^{filename}: the file exists and carries no mark .*\n.*--overwrite"):
        write()
    assert Path(filename).read_bytes() == b"precious"


@every_layer
def test_the_user_lets_a_net_file_replace_a_file(
    layer: type[Any], filename: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--overwrite is enough: the net file need not say it too."""
    monkeypatch.chdir(tmp_path)
    Path("net.toml").write_text(f"""
[[layer]]
type = "Input"
tops = "x"
shape = [3]
batch_size = 2

[[layer]]
type = "{layer.__name__.removesuffix("Layer")}"
bottoms = "x"
filename = "{filename}"
""")
    Path(filename).write_bytes(b"precious")
    with load("net.toml", overwrite=[filename]).net(backend="numpy") as net:
        net.write("x", np.ones((2, 3)))
        net.forward()
    np.testing.assert_array_equal(read(Path(filename), ["x"], 2)["x"], np.ones((2, 3)))


# What cannot be


@pytest.mark.parametrize(
    ("layer", "fields", "message"),
    [
        (OutputLayer, {"filename": "out.xyz"}, r"^out: out\.xyz: no store is installed for files that end in '\.xyz'"),
        (OutputLayer, {"filename": "out"}, r"^out: out: its name has no ending"),
        (NumpyOutputLayer, {"filename": "out.h5"}, r"^out: filename='out\.h5', but it must end in \.npy .*\.npz"),
        (NumpyOutputLayer, {"filename": "out.npy"}, r"^out: bottoms=.*, but a \.npy file holds one array: .*\.npz"),
        (NumpyOutputLayer, {"filename": "out.npz", "names": ["a"]}, r"^out: names=\('a',\), .* as many as bottoms, 2"),
        (CSVOutputLayer, {"filename": "out.csv", "separator": "ab"}, r"^out: separator='ab', but it must be one char"),
        (CSVOutputLayer, {"filename": "out.csv", "decimal": ","}, r"^out: decimal=',' and separator='', but "),
        (OutputLayer, {"filename": "out.h5", "names": ["a", "a"]}, r"^out: names=\('a', 'a'\), .*different"),
    ],
)
def test_bad_fields(layer: type[Any], fields: Any, message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        net_with(layer(name="out", bottoms=["x", "label"], **fields))


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with make(CSVOutputLayer, path, names=["data", "label"], separator=";", decimal=",") as net:
        net.forward()
    header, first, second = path.read_text().splitlines()
    assert header == "data.0.0;data.0.1;data.0.2;data.1.0;data.1.1;data.1.2;label"
    for line, x, label in ((first, X[0], 3), (second, X[1], 0)):
        *numbers, last = line.replace(",", ".").split(";")
        assert np.array_equal(np.float32(numbers), x.ravel())
        assert last == str(label)


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with make(JSONLOutputLayer, path) as net:
        net.forward_epoch()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [sorted(line) for line in lines] == [["label", "x"]] * 5
    assert [line["label"] for line in lines] == LABEL.tolist()
    np.testing.assert_array_equal(np.float32([line["x"] for line in lines]), X)


def test_a_store_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "records"
    with make(OutputLayer, path, store="NPZ") as net:
        net.forward_epoch()
    with np.load(path) as file:
        np.testing.assert_array_equal(file["x"], X)


class Lines(Store):
    """A stranger's format: a line of numbers for each record."""

    endings = (".lines",)

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        return LinesWriter(path)


class LinesWriter(Writer):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        columns = [values.reshape(len(values), -1) for values in rows.values()]
        self.lines += [" ".join(map(str, row)) for row in np.concatenate(columns, 1).tolist()]

    def close(self, commit: bool) -> None:
        if commit:
            self.path.write_text("\n".join(self.lines))


def test_a_store_of_a_strangers_is_found(tmp_path: Path, new_registry: NewRegistry) -> None:
    new_registry().register(Lines, "Lines", "store")
    with make(OutputLayer, tmp_path / "out.lines") as net:
        net.forward_epoch()
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out.lines"), np.column_stack([X.reshape(5, -1), LABEL]))


def test_bottoms_have_one_number_of_rows(tmp_path: Path) -> None:
    layers = [
        InputLayer(name="a", tops="x", shape=3, batch_size=4),
        InputLayer(name="b", tops="y", shape=3, batch_size=2),
        OutputLayer(name="out", bottoms=["x", "y"], filename=tmp_path / "out.h5"),
    ]
    with pytest.raises(ConfigError, match=r"^out: .* 'x' has 4, 'y' has 2\n.*HDF5Output"):
        Net("t", layers, backend="numpy")
