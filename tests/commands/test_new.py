"""`nacre new`: what it writes works as it stands, and it never writes over anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from command_line import run
from nacre import __version__
from nacre.testing.plugin import FakeDistribution
from nacre_commands.new import KINDS

NAMES = {
    "layer": "TurnPairs",
    "kernel": "FastGLU",
    "backend": "strict",
    "store": "Rows",
    "source": "Waves",
    "solver": "Signs",
    "command": "sizes",
}
MINE = """
from typing import Annotated

from nacre import Layer, LayerState, Names, Neuron, exactly


class Half(Neuron):
    '''y = x / 2.'''

    def forward(self, backend, x, y):
        backend.xp.multiply(x, 0.5, out=y)

    def backward(self, backend, x, y, dy, dx):
        backend.xp.multiply(dy, 0.5, out=dx)


class CopyLayer(Layer):
    '''y = x.'''

    bottoms: Annotated[Names, exactly(1), "x"]
    tops: Annotated[Names, exactly(1), "y"]


class CopyState(LayerState, of=CopyLayer):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs):
        self.blobs[0][...] = inputs[0]

    def backward(self, inputs, diffs):
        pass
"""


def begun(kind: str, name: str, *options: object) -> Path:
    """Begin a package; return its folder, which the last line names."""
    done = run("new", kind, name, *options)
    folder = Path(done.out.splitlines()[-1].split()[2])
    assert done.out.endswith(f"next: cd {folder} && pip install -e '.[test]' && pytest\n")
    assert all((folder.parent / line.removeprefix("wrote ")).is_file() for line in done.out.splitlines()[:-2])
    return folder


def run_tests_of(fake_distribution: FakeDistribution, *folders: Path) -> str:
    """Run the tests of packages, all in one process, as if they were installed; return what pytest prints."""
    for folder in folders:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        where = {"name": project["name"], "version": project["version"], "folder": str(folder.absolute())}
        fake_distribution({}, project["entry-points"]["nacre.plugins"], **where)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder.absolute()) for folder in folders)}
    done = subprocess.run([*command, *folders], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_is_begun_passes_its_own_tests(fake_distribution: FakeDistribution) -> None:
    printed = run_tests_of(fake_distribution, *(begun(kind, NAMES[kind]) for kind in KINDS))
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None and int(passed[1]) > 150, printed


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_template_is_left(kind: str) -> None:
    folder = begun(kind, NAMES[kind])
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.suffix in (".py", ".md", ".toml")]
    texts += [path.read_text(encoding="utf-8") for path in folder.glob(".github/workflows/*")]
    assert len(texts) >= 6
    assert [text for text in texts if "new_" in text or "NewName" in text or "new-" in text or "newname" in text] == []


def test_it_is_tested_with_the_oldest_nacre_that_it_admits_and_with_the_newest() -> None:
    folder = begun("layer", NAMES["layer"])
    oldest = __version__.rpartition(".")[0]
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"nacre>={oldest}" in project["dependencies"]
    workflow = (folder / ".github/workflows/test.yml").read_text(encoding="utf-8")
    assert f'nacre: ["nacre=={oldest}", "nacre"]\n' in workflow
    assert workflow.endswith("""      - run: pip install "${{ matrix.nacre }}" '.[test]'\n      - run: pytest\n""")


def test_names_follow_from_the_one_that_is_given() -> None:
    folders = [begun("layer", name).name for name in ("TurnPairs", "shift_all", "PReLU2", "nacre-bend", "FoldLayer")]
    assert folders == ["nacre-turn-pairs", "nacre-shift-all", "nacre-prelu2", "nacre-bend", "nacre-fold"]
    assert "class FoldLayer(Layer" in Path("nacre-fold/nacre_fold/layer.py").read_text(encoding="utf-8")
    light = Path("nacre-shift-all/nacre_shift_all/__init__.py").read_text(encoding="utf-8")
    assert '"ShiftAll": "nacre_shift_all.layer:ShiftAllLayer"' in light


def test_a_file_becomes_a_package(fake_distribution: FakeDistribution) -> None:
    Path("mine.py").write_text(MINE, encoding="utf-8")
    folder = begun("layer", "Copy", "--from", "mine.py")
    assert (folder / "nacre_copy/layer.py").read_text(encoding="utf-8") == MINE
    light = (folder / "nacre_copy/__init__.py").read_text(encoding="utf-8")
    assert 'OFFERS = {\n    "neuron": {"Half": "nacre_copy.layer:Half"},\n    "layer": {"Copy": ' in light
    assert "3 passed" in run_tests_of(fake_distribution, folder)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("layer", "2nd", "'2nd': a name must be letters and digits, and begin with a letter\n  such as Swirl"),
        ("layer", "Pool.ing", "a name must be letters and digits"),
        ("layer", "Pooling", f"nacre {__version__} has the layer 'Pooling' already\n  choose another name"),
        ("layer", "ReLU", "has the neuron 'ReLU' already"),  # which is a layer, too
        ("solver", "Adam", "has the solver 'Adam' already"),
        ("backend", "Numpy", "has the backend 'numpy' already"),
        ("command", "train", "nacre has the command 'train' already"),
        ("command", "summary", "has the command 'summary' already"),
        ("store", "H5", f"HDF5 of nacre {__version__} has files .h5 already"),
        ("source", "data", "has the layer 'Data' already"),
        ("layer", "Layers", "a package nacre_layers is installed already"),
        ("solver", "Method", "'Method' has another meaning in the code of a solver"),
        ("store", "None", "'None' has another meaning"),
    ],
)
def test_names_are_checked(kind: str, name: str, message: str, folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert message in run("new", kind, name, code=2).err
    assert sorted(folder.iterdir()) == before


def test_nothing_is_overwritten() -> None:
    folder = begun("layer", "Swirl")
    (folder / "README.md").write_text("mine\n", encoding="utf-8")
    done = run("new", "solver", "Swirl", code=2)
    assert "nacre-swirl: there is such a folder or file already\n  move it away" in done.err
    assert (folder / "README.md").read_text(encoding="utf-8") == "mine\n"
    assert not (folder / "nacre_swirl/solver.py").exists()


def test_a_folder_that_cannot_be_written_is_told(folder: Path) -> None:
    (folder / ".nacre-swirl.tmp").write_text("", encoding="utf-8")
    assert "nacre-swirl: cannot be written" in run("new", "layer", "Swirl", code=2).err
    assert not (folder / "nacre-swirl").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "mine.py: it has no class of a layer; it offers nothing"),
        (MINE.replace("CopyLayer", "_CopyLayer"), "it has no class of a layer; it offers neuron 'Half'"),
        (f"import nacre\n{MINE}\nnacre.register(CopyLayer)\n", "it offers its classes by itself"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_files_that_cannot_become_packages_are_told(text: str, message: str) -> None:
    Path("mine.py").write_text(text, encoding="utf-8")
    assert message in run("new", "layer", "Copy", "--from", "mine.py", code=2).err
    assert not Path("nacre-copy").exists()
