"""What a net file may write: nothing outside the working folder, and nothing over what something else wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import h5py
import numpy as np
import pytest

from nacre import Callback, CallbackState, ConfigError, OutputPath, Training, may_overwrite
from nacre.config import NetFile, load
from nacre.discovery.settings import settings
from nacre.errors import SnapshotError
from nacre.files.durable import FolderLock, atomic_write
from registries import NewRegistry

NET = """
[[layer]]
type = "HDF5Data"
source = "train.h5"
batch_size = 4

[[layer]]
type = "InnerProduct"
bottoms = "data"
tops = "score"
output_dim = 2

[[layer]]
type = "SoftmaxLoss"
bottoms = ["score", "label"]
{layer}
[solver]
type = "SGD"
max_iter = 1
{callback}
"""

CALLBACKS = {
    "JSONLog": 'type = "JSONLog"\npath = "{}"',
    "LearningCurve": 'type = "LearningCurve"\npath = "{}.png"',
    "StatisticsStore": 'type = "StatisticsStore"\npath = "{}"\nif_exists = "overwrite"',
    "Snapshot": 'type = "Snapshot"\nfolder = "{}"',
    "TensorBoard": 'type = "TensorBoard"\npath = "{}"',
    "Note": 'type = "Note"\nto = "{}"',
}
OUTPUT = '[[layer]]\ntype = "HDF5Output"\nname = "out"\nbottoms = "score"\nfilename = "{}"\nforce_overwrite = true\n'
WRITERS = [*CALLBACKS, "HDF5Output"]
FOLDERS = ("Snapshot", "TensorBoard")
MINE = b"alias ls=ls\n"


class Note(Callback):
    """A stranger's, which opens files by itself: it is checked before it comes to that."""

    to: Annotated[OutputPath, "the file"]

    def start(self, training: Training) -> CallbackState:
        Path(self.to).write_text("written")
        return NoteState(self, training)


class NoteState(CallbackState):
    def run(self) -> None:
        """There is nothing to do."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_bytes(MINE)
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    new_registry().register(Note, distribution="acme")
    with h5py.File("train.h5", "w") as file:
        file["data"] = np.ones((4, 3))
        file["label"] = np.arange(4) % 2


def net_file(writer: str, place: str, *overrides: str, **options: Any) -> NetFile:
    text = OUTPUT if writer == "HDF5Output" else f"[[callback]]\n{CALLBACKS[writer]}"
    text = text.format(place)
    parts = {"layer": text, "callback": ""} if writer == "HDF5Output" else {"layer": "", "callback": text}
    Path("net.toml").write_text(NET.format(**parts))
    return load("net.toml", overrides, **options)


def train(file: NetFile) -> None:
    with file.net(backend="numpy") as net:
        file.solver().solve(net)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_places(elsewhere: Path) -> dict[str, str]:
    """Return paths that lead out of the working folder, by their kind."""
    Path("sub").mkdir()
    Path("out").symlink_to(elsewhere)
    Path("sub/again").symlink_to("../out")
    Path("file").symlink_to(elsewhere / "mine")
    Path("file.png").symlink_to(elsewhere / "mine")
    Path("dangling").symlink_to(elsewhere / "new")
    Path("dangling.png").symlink_to(elsewhere / "new")
    return {
        "absolute": str(elsewhere / "new"),
        "above": "../elsewhere/new",
        "above, by a detour": "sub/../../elsewhere/new",
        "by a link": "out/new",
        "by two links": "sub/again/new",
        "a link to a file": "file",
        "a link to nothing": "dangling",
        "the folder above": "../",
    }


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_outside(writer: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    places = make_places(elsewhere)
    before = tree(elsewhere)
    for place in places.values():
        file = net_file(writer, place)
        with pytest.raises(ConfigError, match="working folder") as caught:
            train(file)
        assert "--allow-writes" in caught.value.remedy
    assert tree(elsewhere) == before
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "here"]


@pytest.mark.parametrize("writer", WRITERS)
def test_what_the_person_allows(writer: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    key = {"HDF5Output": "layer.out.filename", "Snapshot": "callback.Snapshot.folder"}.get(
        writer, f"callback.{writer}.{'to' if writer == 'Note' else 'path'}"
    )
    train(net_file(writer, "inside"))
    train(net_file(writer, str(elsewhere / "allowed"), allow_writes=[elsewhere]))
    train(net_file(writer, "inside", f"{key}={elsewhere / 'said.png'}"))
    (tmp_path / "config" / "nacre").mkdir(parents=True)
    (tmp_path / "config" / "nacre" / "nacre.toml").write_text(f'allow_writes = ["{elsewhere}"]')
    train(net_file(writer, str(elsewhere / "set")))
    assert {name.split("/")[0].removesuffix(".png") for name in tree(elsewhere)} == {"mine", "allowed", "said", "set"}


def test_a_working_folder_allows_nothing(tmp_path: Path) -> None:
    """It may have come with the net file."""
    Path("nacre.toml").write_text(f'allow_writes = ["{tmp_path}"]')
    with pytest.raises(ConfigError, match="allow_writes") as caught:
        net_file("JSONLog", "log")
    assert str(tmp_path / "config" / "nacre" / "nacre.toml") in caught.value.remedy


def test_the_persons_own_settings_hold_in_their_own_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "config" / "nacre"
    own.mkdir(parents=True)
    (own / "nacre.toml").write_text(f'allow_writes = ["{tmp_path}"]')
    monkeypatch.chdir(own)
    assert settings().allow_writes == (str(tmp_path),)
    (own / "nacre.toml").write_text('allow_writes = ["data"]')
    with pytest.raises(ConfigError, match="allow_writes has 'data', which is relative"):
        settings()


@pytest.mark.parametrize("writer", [one for one in WRITERS if one not in ("TensorBoard", "Note")])
def test_what_something_else_wrote_stays(writer: str) -> None:
    place = Path("mine.png" if writer == "LearningCurve" else "mine")
    if writer in FOLDERS:
        place.mkdir()
    theirs = place / "theirs" if writer in FOLDERS else place
    theirs.write_bytes(MINE)
    with pytest.raises(ConfigError, match=f"{place}: the file exists|{place}: the folder exists") as caught:
        train(net_file(writer, "mine"))
    assert f"--overwrite {place}" in caught.value.remedy
    assert theirs.read_bytes() == MINE
    train(net_file(writer, "mine", overwrite=[place]))
    assert writer in FOLDERS or theirs.read_bytes() != MINE


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.filterwarnings("ignore:the snapshots? of another training")
def test_what_it_wrote_itself_it_writes_again(writer: str) -> None:
    for _ in range(3):
        train(net_file(writer, "mine"))
    for path in Path().rglob("mine*"):
        if path.is_file():
            path.write_bytes(b"")  # an empty file is nobody's
    train(net_file(writer, "mine"))


@pytest.mark.parametrize("writer", ["JSONLog", "LearningCurve", "StatisticsStore", "HDF5Output"])
def test_a_pipe_is_not_waited_for(writer: str) -> None:
    os.mkfifo("mine.png" if writer == "LearningCurve" else "mine")
    with pytest.raises(ConfigError, match="the file exists"):
        train(net_file(writer, "mine"))


def test_a_log_with_another_name_elsewhere_is_not_appended_to(tmp_path: Path) -> None:
    train(net_file("JSONLog", "log"))
    (tmp_path / "elsewhere" / "log").hardlink_to("log")
    before = Path("log").read_bytes()
    with pytest.raises(ConfigError, match=r"log: .*hard link"):
        train(net_file("JSONLog", "log"))
    assert Path("log").read_bytes() == before


@pytest.mark.filterwarnings("ignore:the snapshots? of another training")
@pytest.mark.parametrize("names", [["snapshot-000001.h5", "notes.txt"], ["aside-1", "run.json", ".lock"], []])
def test_a_folder_of_snapshots_from_before_the_mark(names: list[str]) -> None:
    train(net_file("Snapshot", "saved"))
    Path("saved/.nacre").unlink()
    for name in set(os.listdir("saved")) - set(names):
        Path("saved", name).unlink()
    for name in set(names) - set(os.listdir("saved")):
        Path("saved", name).mkdir() if name == "aside-1" else Path("saved", name).touch()
    train(net_file("Snapshot", "saved"))
    assert Path("saved/.nacre").is_file()


def test_a_link_that_appears_while_a_training_runs(tmp_path: Path) -> None:
    file = net_file("Snapshot", "saved")
    with file.net(backend="numpy") as net, file.solver().start(net) as training:
        Path("saved").rename("other")
        Path("saved").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ConfigError, match="working folder"):
            training.run()
    assert tree(tmp_path / "elsewhere") == {"mine": MINE}


def test_what_may_be_replaced_is_the_file_that_was_there(tmp_path: Path) -> None:
    """Not what a link leads to that has taken its name since, although its path is the one that was allowed."""
    mine = tmp_path.resolve() / "here" / "out.h5"
    mine.write_bytes(MINE)
    place = net_file("HDF5Output", str(mine), overwrite=[mine]).layers[-1].filename
    assert may_overwrite(place)
    mine.unlink()
    mine.symlink_to(tmp_path / "elsewhere" / "mine")
    assert not may_overwrite(place)


# The core's own writing goes through no link that lies ready for it


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_half_written_file_is_no_link(link: Any, tmp_path: Path) -> None:
    mine = tmp_path / "elsewhere" / "mine"
    link(Path(".a.tmp"), mine)
    atomic_write("a", b"new")
    assert (Path("a").read_bytes(), mine.read_bytes()) == (b"new", MINE)
    link(Path(".mine.tmp"), mine)
    train(net_file("HDF5Output", "mine"))
    assert mine.read_bytes() == MINE


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_lock_is_no_link(link: Any, tmp_path: Path) -> None:
    link(Path(".lock"), tmp_path / "elsewhere" / "mine")
    with pytest.raises(SnapshotError, match="lock"):
        FolderLock(Path())
    assert (tmp_path / "elsewhere" / "mine").read_bytes() == MINE


def test_a_path_with_a_nul_is_none() -> None:
    with pytest.raises(ConfigError, match="it must be a path"):
        net_file("JSONLog", "a\\u0000b")
