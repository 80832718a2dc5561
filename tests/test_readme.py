"""The README keeps its word: what it shows runs as it stands there, and is as short as it says."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fresh import build_wheel

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
PYTHON = [text for language, text in BLOCKS if language == "python"]
# Files are shown below a line that ends in their name: `nacre_gain/gain.py`:
FILES = dict(re.findall(r"`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```$", README, re.M | re.S))
NET = """
[[layer]]
type = "Input"
name = "data"
shape = [4]
batch_size = 2
[[layer]]
type = "Gain"
bottoms = ["data"]
tops = ["gain"]
factor = 3
"""


def code_lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def run(*arguments: str, folder: Path, path: Path | None = None) -> str:
    environment = {**os.environ, **({} if path is None else {"PYTHONPATH": str(path)})}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def nacre(*arguments: str) -> tuple[str, ...]:
    return ("-c", "from nacre.cli import main; main()", *arguments)


def test_it_says_what_nacre_is_in_two_sentences() -> None:
    first = README.split("\n\n")[1]
    assert len(re.findall(r"\.(?:\s|$)", first)) == 2, first


def test_the_two_commands_are_there() -> None:
    first = BLOCKS[0][1]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", first, re.M):
        assert re.search(rf"^{command}:", makefile, re.M), command
    assert re.findall(r"^make (\w+)", first, re.M) == ["demo", "test"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_tells_what_contributing_names() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    named = re.findall(r"^make (\w+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)
    assert len(named) > 5
    assert set(named) <= set(re.findall(r"^make (\w+)  ", done.stdout, re.M))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_what_make_would_run_can_be_read_by_the_shell() -> None:
    (named,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    command = ["make", "--no-print-directory", "--dry-run", "--always-make", *named.split()]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    read = subprocess.run(["sh", "-n"], input=shown, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr


def test_all_commands_of_the_command_line_are_named() -> None:
    from nacre import registry
    from nacre.cli.app import COMMANDS

    (line,) = re.findall(r"`nacre (\w+ \| [\w |]+)`", README)
    assert sorted(line.split(" | ")) == sorted([*COMMANDS, *registry().names("command")])


def test_the_python_example_learns_the_digits(tmp_path: Path) -> None:
    (tmp_path / "nacre-demo").mkdir()
    for name in ("train.h5", "test.h5"):
        shutil.copy(ROOT / "examples/digits" / name, tmp_path / "nacre-demo" / name)
    assert code_lines(PYTHON[0]) <= 20
    printed = ast.literal_eval(run("-c", PYTHON[0], folder=tmp_path).splitlines()[-1])
    assert printed["records"] == 360
    assert printed["accuracy"] > 0.9


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the README's package as pip would leave it."""
    source, made, site = (tmp_path_factory.mktemp(name) for name in ("source", "made", "site"))
    for name, text in FILES.items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    with zipfile.ZipFile(build_wheel(source, made)) as wheel:
        wheel.extractall(site)
    return site


def test_the_package_is_about_30_lines() -> None:
    assert set(FILES) == {"pyproject.toml", "nacre_gain/__init__.py", "nacre_gain/gain.py"}
    assert sum(code_lines(text) for name, text in FILES.items() if name.endswith(".py")) <= 30


def test_the_package_offers_its_layer(installed: Path, tmp_path: Path) -> None:
    layers = json.loads(run(*nacre("layers", "--json"), folder=tmp_path, path=installed))
    (gain,) = [layer for layer in layers if layer["name"] == "Gain"]
    assert (gain["distribution"], gain["version"], gain["problem"]) == ("nacre-gain", "1.0", None)
    assert [trait for trait, value in gain["traits"].items() if value] == ["can_do_bp"]
    (tmp_path / "net.toml").write_text(NET, encoding="utf-8")
    script = """if True:
        from nacre.config import load
        net = load("net.toml").net(phase="predict")
        net.write("data", [[1, 2, 3, 4]] * 2)
        net.forward()
        print(net.blob("gain")[0].tolist())"""
    assert ast.literal_eval(run("-c", script, folder=tmp_path, path=installed)) == [3, 6, 9, 12]


def test_the_package_passes_its_own_test(installed: Path, tmp_path: Path) -> None:
    (code,) = [text for text in PYTHON if "LayerTests" in text]
    (tmp_path / "test_gain.py").write_text(code, encoding="utf-8")
    printed = run("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path, path=installed)
    assert re.search(r"\d\d passed", printed), printed
