"""What commands do with snapshots: whose store reads them, and what they tell where a plugin is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

import nacre.discovery.registry
from command_line import run
from nacre.cli.snapshots import load_snapshot
from nacre.snapshots.folder import SnapshotFolder
from nacre.snapshots.folder import load_snapshot as load
from nacre_data import HDF5Store
from registries import NewRegistry

KEEPER = """
from nacre import Callback, CallbackState, hookimpl
from nacre.errors import SnapshotError
from nacre.snapshots.folder import SnapshotFolder
from nacre_data import HDF5Store


class BackwardsStore(HDF5Store):
    suffix = ".5h"

    def encode(self, snapshot):
        return super().encode(snapshot)[::-1]

    def decode(self, data, where):
        return super().decode(bytes(data)[::-1], where)


class Keeper(Callback):
    place: str = "kept"

    def snapshots(self):
        return self.place, "Backwards"

    def start(self, training):
        return KeeperState(self, training)


class KeeperState(CallbackState):
    def finish(self):
        with SnapshotFolder(self.callback.place, BackwardsStore()) as folder:
            self.training.snapshot_path = str(folder.save(self.training.snapshot()))


@hookimpl
def offer_components():
    return {"callback": {"Keeper": Keeper}, "snapshot_store": {"Backwards": BackwardsStore}}
"""

PLUS = """
from nacre import Layer, LayerState, Names


class PlusLayer(Layer, is_inplace=True, can_do_bp=True):
    bottoms: Names

    def setup(self, backend, inputs, diffs):
        return PlusState(self, backend, inputs, diffs)


class PlusState(LayerState, reads=""):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0])]

    def forward(self, inputs):
        self.blobs[0][...] = inputs[0] + 1

    def backward(self, inputs, diffs):
        diffs[0][...] = self.blobs_diff[0]

    def shutdown(self):
        pass
"""


# Stores


def test_a_strangers_callback_and_store_are_found_by_what_they_say(new_registry: NewRegistry) -> None:
    Path("keeper.py").write_text(KEEPER)
    plugin = ("--plugin", "keeper.py")
    net = Path("small.toml")
    own = 'type = "Snapshot"\nevery_n_iter = 20\nfolder = "snapshots"'
    net.write_text(net.read_text().replace(own, 'type = "Keeper"'))
    done = run("train", net, *plugin, "--set", "solver.max_iter=25")
    assert "snapshot: kept/snapshot-000025.5h" in done.out
    assert "continuing from iteration 25" in run("train", net, *plugin, "--resume", "auto").out
    for command in (["test", net, "kept"], ["predict", net, "kept/snapshot-000060.5h", "test.h5"]):
        assert run(*command, *plugin).err == ""
    new_registry()
    told = run("test", net, "kept", code=2).err
    assert "no callback 'Keeper'" in told


def test_a_net_file_without_a_callback_takes_the_store_of_the_ending(trained: Path) -> None:
    text = Path("small.toml").read_text().partition("[solver]")[0]
    Path("net.toml").write_text(text)
    for place in (trained, trained / "snapshot-000060.h5"):
        assert run("test", "net.toml", place, "--json").json["iterations"] == 60


def test_any_installed_store_reads_its_own_files(trained: Path) -> None:
    nacre.discovery.registry.registry().load_file(_written("keeper.py", KEEPER))
    backwards = nacre.discovery.registry.registry().open("snapshot_store", "Backwards")()
    snapshot = load(trained)
    with SnapshotFolder("mixed", backwards) as folder:
        path = folder.save(snapshot)
    assert load(path).iteration == load("mixed").iteration == 60
    assert load(path, backwards).iteration == 60
    with SnapshotFolder("mixed", HDF5Store()) as folder:
        folder.save(load(trained / "snapshot-000020.h5"))
    assert load("mixed", "HDF5").iteration == 20
    assert load("mixed", "Backwards").iteration == 60


def test_stores_of_one_ending_are_tried_in_turn(trained: Path) -> None:
    nacre.discovery.registry.registry().load_file(_written("keeper.py", KEEPER.replace('".5h"', '".h5"')))
    assert load(trained / "snapshot-000060.h5", "Backwards").iteration == 60
    Path("bad.h5").write_bytes(b"bad")
    with pytest.raises(nacre.SnapshotError, match=r"bad\.h5"):
        load("bad.h5")


def test_a_file_that_no_store_reads() -> None:
    Path("net.xyz").write_bytes(b"")
    assert "no installed store reads files with this ending" in run("test", "small.toml", "net.xyz", code=2).err
    assert "known endings: .h5" in run("test", "small.toml", "net.xyz", code=2).err


def test_a_damaged_file_of_a_folder_is_a_warning(trained: Path) -> None:
    path = trained / "snapshot-000060.h5"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="it is skipped"):
        assert load(trained).iteration == 40
    assert "snapshot-000060.h5" in run("test", "small.toml", trained).err


# What is missing


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--resume", "auto"],
        ["train", "--resume", "snapshots"],
        ["train", "--resume", "snapshots/snapshot-000060.h5"],
        ["train", "--weights", "snapshots/snapshot-000060.h5"],
        ["test", "latest"],
        ["test", "snapshots"],
        ["predict", "snapshots", "test.h5"],
    ],
)
def test_a_plugin_file_that_is_missing_is_named(command: list[str], new_registry: NewRegistry) -> None:
    file, net = _written("plus.py", PLUS), _with_plus()
    run("train", net, "--plugin", file, "--json")
    new_registry()
    told = run(command[0], net, *command[1:], code=2).err
    assert "no layer 'Plus'" in told
    assert f"--plugin {file.resolve()} (the snapshot used its layer 'Plus')" in told
    run(command[0], net, *command[1:], "--plugin", file)


@pytest.mark.parametrize(
    "command", [["train", "--resume", "auto"], ["train", "--resume", "latest"], ["test", "latest"]]
)
def test_it_is_named_where_the_folder_is_named_after_the_net_file(
    command: list[str], new_registry: NewRegistry
) -> None:
    file, net = _written("plus.py", PLUS), _with_plus()
    net.write_text(net.read_text().replace('folder = "snapshots"\n', ""))
    run("train", net, "--plugin", file, "--json")
    assert Path("snapshots/small").is_dir()
    new_registry()
    assert "(the snapshot used its layer 'Plus')" in run(command[0], net, *command[1:], code=2).err


def test_callbacks_that_are_none_are_told_beside_a_snapshot(trained: Path) -> None:
    Path("small.toml").write_text("callback = 3\n" + Path("small.toml").read_text().partition("[[callback]]")[0])
    told = run("test", "small.toml", trained, code=2).err
    assert told.startswith("error: small.toml: callback=3, but it must be an array of tables")


def test_another_mistake_in_the_net_file_gets_no_such_advice(trained: Path) -> None:
    told = run("test", "small.toml", trained, "--set", "layer.ip1.outputs=3", code=2).err
    assert "outputs" in told
    assert "the snapshot had" not in told
    assert "no layer 'Plus'" in run("test", "small.toml", "nowhere", "--set", "layer.drop1.type=Plus", code=2).err
    assert "no layer 'Plus'" in run("train", "small.toml", "--set", "layer.drop1.type=Plus", code=2).err


def test_a_resumed_training_that_is_another_says_so(trained: Path) -> None:
    changes = ("--set", "layer.train.batch_size=5", "--set", "solver.max_iter=70")
    told = run("train", "small.toml", "--resume", "auto", *changes).err
    assert "trained with batch_size=10 of layer 'train', now 5" in told
    assert load_snapshot(trained).iteration == 70


def _written(name: str, text: str) -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def _with_plus() -> Path:
    net = Path("small.toml")
    net.write_text(net.read_text().replace('type = "Dropout"\nname = "drop1"', 'type = "Plus"\nname = "plus"'))
    net.write_text(net.read_text().replace("ratio = 0.25\n", ""))
    return net
