"""The first hour, as a newcomer has it: nacre's wheel in a fresh environment, and what the pages say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

import page_folders
from doc_pages import DOCS, FENCED, FILE
from fresh import nacre_wheel
from page_commands import check

pytestmark = pytest.mark.long  # an environment with everything that the pages ask for, from the package index

Follow = Callable[..., list[str]]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs of a fresh environment with nacre and Jupyter."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    programs = Path(sysconfig.get_path("scripts", "venv", {"base": str(folder)}))
    wheel = nacre_wheel(tmp_path_factory.mktemp("wheel"))
    pip = [str(programs / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, f"{wheel}[plots,images]", "ipykernel", "nbclient", "pytest"], check=True)
    return programs


@pytest.fixture
def follow(scripts: Path) -> Follow:
    """Return a function that does in a folder what a page says up to some line, and returns what is printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NACRE_"))}
    environment = {**inherited, "PATH": os.pathsep.join([str(scripts), os.environ["PATH"]])}

    def run(folder: Path, *command: str) -> str:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def follow(page: str, folder: Path, end: str = "no such line") -> list[str]:
        printed = [""]
        program = ""
        text, _, _ = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition(end)
        for info, code in FENCED.findall(text):
            if info == "python":
                program += code
                (folder / "page.py").write_text(program, encoding="utf-8")
                printed.append(run(folder, "python", "-W", "error", "page.py"))
            elif FILE.fullmatch(info):
                path = folder / info.partition(" ")[2]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(code, encoding="utf-8")
            elif info == "sh":
                printed.append(run(folder, "bash", "-e", "-c", code))
            elif info == "text output":
                check(printed[-1], code)
        return printed

    return follow


def test_own_pictures_become_a_net_that_knows_cats(follow: Follow, tmp_path: Path) -> None:
    page_folders.own_data(tmp_path, divided=False)
    told = follow("own-data", tmp_path, "## From one file")
    assert any("accuracy: 100.00 % (20 of 20)" in one for one in told)
    assert any(re.search(r"^cat\.jpg  cat [0-9.]+ %$", one, re.M) for one in told)
    assert (tmp_path / "pets.nacre").exists()


@pytest.mark.parametrize(
    "page", ["tutorials/tables", "tutorials/sentences", "tutorials/words", "tutorials/first-layer"]
)
def test_a_tutorial_does_what_it_says(page: str, follow: Follow, tmp_path: Path) -> None:
    assert len(follow(page, tmp_path)) > 1


def test_the_notebook_runs(scripts: Path, tmp_path: Path) -> None:
    shutil.copy(DOCS / "tutorials/notebook.ipynb", tmp_path)
    subprocess.run([str(scripts / "jupyter"), "execute", "notebook.ipynb"], cwd=tmp_path, check=True)
    assert (tmp_path / "moons.nacre").exists()
