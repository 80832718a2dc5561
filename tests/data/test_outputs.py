"""HDF5Output and MemoryOutput: the rows that count, of every pass, and a file that is complete or not there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import nacre.discovery.registry
from nacre import Component, ConfigError, DataError, InputLayer, Net, Solver, default
from nacre.config.tables import file_table
from nacre.fields.types import Paths
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_data import HDF5DataLayer, HDF5OutputLayer, MemoryDataLayer, MemoryOutputLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_solvers import ValidationPerformance
from registries import NewRegistry

X = np.arange(15, dtype=np.float32).reshape(5, 3)
LABEL = np.arange(5)


class TestMemoryOutput(LayerTests):
    layer = MemoryOutputLayer

    def examples(self):
        yield Example({}, [(3, 2), (2, 1, 2, 2)])
        yield Example({}, [np.arange(4)], label="whole numbers")

    def reference(self, layer, inputs, parameters):
        return []


def make(sink: Any, phase: str = "test") -> Net:
    source = MemoryDataLayer(name="d", tops=["x", "label"], data=[X, LABEL], batch_size=2)
    return Net("t", [source, sink], backend="numpy", phase=phase)


def to_file(path: Path, **fields: Any) -> HDF5OutputLayer:
    return HDF5OutputLayer(**{"name": "out", "bottoms": ["x", "label"], "filename": path, **fields})


# MemoryOutput


def test_memory_keeps_a_copy_of_the_rows_that_count() -> None:
    net = make(MemoryOutputLayer(name="out", bottoms=["x", "label"]))
    state = net.node_ops["out"].state
    for _ in range(2):
        net.forward_epoch()
        x, label = state.outputs
        assert [one.tolist() for one in label] == [[0, 1], [2, 3], [4]]
        assert [one.shape for one in x] == [(2, 3), (2, 3), (1, 3)]
        np.testing.assert_array_equal(np.concatenate(x), X)
        state.reset_outputs()
        assert state.outputs == [[], []]


def test_memory_is_there_after_shutdown() -> None:
    net = make(MemoryOutputLayer(name="out", bottoms="label"))
    net.forward()
    net.shutdown()
    assert net.node_ops["out"].state.outputs[0][0].tolist() == [0, 1]


def test_nothing_to_keep() -> None:
    with pytest.raises(ConfigError, match=r"out: bottoms=.*, but at least 1 must be given"):
        MemoryOutputLayer(name="out", bottoms=[])


# HDF5Output


@pytest.mark.parametrize("names", [(), ("scores", "a-label")])
def test_a_file_has_the_rows_that_count(tmp_path: Path, names: Any) -> None:
    path = tmp_path / "out.h5"
    with make(to_file(path, datasets=names)) as net:
        net.forward_epoch()
    with h5py.File(path) as file:
        assert list(file) == sorted(names or ("x", "label"))
        x, label = (file[name] for name in names or ("x", "label"))
        assert (x.dtype, label.dtype) == ("float32", "int64")
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(label, LABEL)


def test_fewer_rows_are_written_by_hand(tmp_path: Path) -> None:
    layers = [InputLayer(tops="x", shape=3, batch_size=4), to_file(tmp_path / "a.h5", bottoms="x")]
    with Net("t", layers, backend="numpy") as net:
        for rows in (4, 1, 3):
            net.write("x", np.full((rows, 3), rows))
            net.forward()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][:, 0].tolist() == [4] * 4 + [1] + [3] * 3


def test_the_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    path.write_bytes(b"what was there")
    net = make(to_file(path, force_overwrite=True))
    net.forward()
    net.forward()
    assert path.read_bytes() == b"what was there"
    net.shutdown()
    with h5py.File(path) as file:
        assert file["label"][:].tolist() == [0, 1, 2, 3]
    assert list(tmp_path.iterdir()) == [path]
    net.shutdown()


@pytest.mark.parametrize("runs", [False, True])
def test_a_net_that_never_ran_writes_nothing(tmp_path: Path, runs: bool) -> None:
    net = make(to_file(tmp_path / "out.h5"))
    if runs:
        net.forward()
    net.shutdown()
    assert (tmp_path / "out.h5").exists() == runs


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    path.write_bytes(b"precious")
    with pytest.raises(DataError, match=r"out: .*out\.h5 .*\n.*force_overwrite"):
        make(to_file(path))
    assert path.read_bytes() == b"precious"


def test_a_file_that_came_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    net = make(to_file(path))
    net.forward()
    path.write_bytes(b"precious")
    with pytest.raises(DataError, match=r"out: .*out\.h5 exists"):
        net.shutdown()
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("old", [False, True])
def test_a_run_that_ends_by_an_error_leaves_what_was_there(tmp_path: Path, old: bool) -> None:
    path = tmp_path / "out.h5"
    if old:
        path.write_bytes(b"precious")

    def run() -> None:
        with make(to_file(path, force_overwrite=True)) as net:
            net.forward()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == ({path: b"precious"} if old else {})


def test_a_pass_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = make(to_file(tmp_path / "out.h5"))
    net.forward()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.Dataset, "resize", full)
    with pytest.raises(DataError, match=r"^out: .*out\.h5: cannot be written: No space left on device"):
        net.forward()
    net.shutdown()
    assert not list(tmp_path.iterdir())


def test_an_error_from_before_the_run_does_not_end_it(tmp_path: Path) -> None:
    try:
        raise ValueError
    except ValueError:
        with make(to_file(tmp_path / "out.h5")) as net:
            net.forward()
    assert [one.name for one in tmp_path.iterdir()] == ["out.h5"]


@pytest.mark.parametrize(
    ("phase", "remedy"),
    [("validation", r'exclude = \["validation"\]'), ("test", "shut that net down first")],
)
def test_two_nets_do_not_write_one_file(tmp_path: Path, phase: str, remedy: str) -> None:
    sink = to_file(tmp_path / "out.h5", force_overwrite=True)
    with make(sink) as net:
        with pytest.raises(DataError, match=rf"out: .*layer 'out' .* phase 'test'\n.*{remedy}"):
            make(sink, phase)
        net.forward()
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["label"][:].tolist() == [0, 1]
    make(sink, phase).shutdown()


def test_a_training_that_would_write_one_file_twice_does_not_begin(tmp_path: Path) -> None:
    layers = [
        MemoryDataLayer(name="d", tops=["x", "label"], data=[X, LABEL], batch_size=2),
        InnerProductLayer(bottoms="x", tops="y", output_dim=5),
        SoftmaxLossLayer(bottoms=["y", "label"]),
        to_file(tmp_path / "out.h5", bottoms="x"),
    ]
    solver = Solver("SGD", max_iter=1, callbacks=[ValidationPerformance(every_n_iter=1)])
    with (
        Net("t", layers, backend="numpy", insert_splits=True) as net,
        pytest.raises(DataError, match=r'exclude = \["validation"\]'),
    ):
        solver.solve(net)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exclude", [(), ("test",)])
@pytest.mark.parametrize("link", [False, True])
def test_what_another_layer_reads_is_not_replaced(tmp_path: Path, exclude: Any, link: bool) -> None:
    path, named = tmp_path / "d.h5", tmp_path / "link.h5"
    with h5py.File(path, "w") as file:
        file["x"] = X
    named.symlink_to(path)
    source = HDF5DataLayer(name="d", tops="x", source=path, batch_size=2, exclude=exclude)
    rows = InputLayer(tops="z", shape=3, batch_size=2)
    out = to_file(named if link else path, bottoms="z", force_overwrite=True)
    with pytest.raises(ConfigError, match=r"out: filename='.*', .*layer 'd' "):
        Net("t", [source, rows, out], backend="numpy", phase="test")


class Folders(Paths):
    """A field type of a stranger's."""


class One(Paths):
    """A field type that gives a single path."""

    @staticmethod
    def convert(value: Any) -> Any:
        return Paths.convert(value)[0]


class Reads(Component, kind="reads_for_a_test"):
    file: Paths


class Stranger(nacre.Layer, is_source=True):
    """Reads files in fields of all forms."""

    tops: nacre.Names
    derived: Folders = default(())
    maybe: Paths | None = None
    single: One | None = None
    deep: Reads | None = None


@pytest.mark.parametrize("field", ["derived", "maybe", "single", "deep"])
def test_what_a_stranger_reads_is_not_replaced_whatever_its_field_is_typed(tmp_path: Path, field: str) -> None:
    read = str(tmp_path / "d.h5")
    stranger = Stranger(name="s", tops="x", **{field: Reads(file=read) if field == "deep" else read})
    rows = InputLayer(tops="z", shape=3, batch_size=2)
    with pytest.raises(ConfigError, match="but layer 's' reads this file"):
        Net("t", [stranger, rows, to_file(Path(read), bottoms="z")], backend="numpy", allocate=False)


@pytest.mark.parametrize("field", ["derived", "maybe", "single"])
def test_such_paths_are_written_relative_to_the_net_file(tmp_path: Path, new_registry: NewRegistry, field: str) -> None:
    new_registry().register(Stranger)
    stranger = Stranger(name="s", tops="x", **{field: str(tmp_path / "d.h5")})
    table = file_table(stranger, tmp_path)
    assert table[field] == ("d.h5" if field == "single" else ["d.h5"])
    assert file_table(Stranger(name="s", tops="x"), tmp_path).keys() == {"type", "name", "tops"}


def test_a_net_that_is_only_planned_may_have_its_file(tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    path.write_bytes(b"precious")
    layers = [InputLayer(tops="x", shape=3, batch_size=4), to_file(path, bottoms="x")]
    Net("t", layers, backend="numpy", allocate=False).shutdown()
    assert path.read_bytes() == b"precious"


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".out.h5.tmp").write_bytes(b"half a file")
    with make(to_file(tmp_path / "out.h5")) as net:
        net.forward()
    assert [one.name for one in tmp_path.iterdir()] == ["out.h5"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    net = make(to_file(tmp_path / "none/out.h5"))
    with pytest.raises(DataError, match=r"^out: .*none/out\.h5: cannot be written: No such file or directory\n"):
        net.forward()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bottoms": []}, "out: bottoms=.*, but at least 1 must be given"),
        ({"filename": ["a", "b"]}, "out: filename=.*, but it must be a path"),
        ({"datasets": ["a"]}, r"out: datasets=\('a',\), but there must be as many as bottoms, 2"),
        ({"datasets": ["a", "a"]}, "out: datasets="),
    ],
)
def test_bad_fields(fields: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        to_file(Path("out.h5"), **fields)


def test_ranks_that_share_batches_do_not_write_one_file(tmp_path: Path) -> None:
    source = MemoryDataLayer(name="d", tops=["x"], data=[X], batch_size=2, partition_dim=-1)
    output = HDF5OutputLayer(name="out", bottoms=["x"], filename=tmp_path / "x.h5")
    with pytest.raises(ConfigError, match=r"^out: 3 ranks that share each batch would all write .*x\.h5"):
        Net("net", [replace(source, partition_dim=None), output], phase="validation", rank=0, ranks=3, backend="numpy")
    whole = [
        source,
        InnerProductLayer(name="ip", bottoms=["x"], tops=["y"], output_dim=6, partition_dim=1),
        HDF5OutputLayer(name="out", bottoms=["y"], filename=tmp_path / "x.h5", partition_dim=-1),
    ]  # on one rank of a net that is divided
    Net("net", whole, phase="validation", rank=0, ranks=3, allocate=False, backend="numpy").shutdown()
