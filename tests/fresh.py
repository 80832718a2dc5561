"""Wheels, and a fresh environment to install them into: no network, and no trace of the outer environment's nacre."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

DEPENDENCIES = ("numpy", "h5py", "pluggy", "importlib_metadata", "rich", "click", "pytest")


def hasty() -> dict[str, str]:
    """Return the environment for building wheels that are tried, but not timed: compiling takes a tenth of the time."""
    return {**os.environ, "CFLAGS": "-O0"}


def build_wheel(source: Path, folder: Path) -> Path:
    """Build a wheel with the installed hatchling: no isolation, so no network."""
    pytest.importorskip("hatchling")
    before = set(folder.glob("*.whl"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=source, env=hasty(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = set(folder.glob("*.whl")) - before
    return made


class Environment:
    """A fresh virtual environment, with pytest and whatever nacre depends on from the outer one.

    The outer packages lie behind its own, and only as plain folders: an editable nacre there is not found at all, and
    an installed one not before the wheel.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        paths = sysconfig.get_paths("venv", {"base": str(folder), "platbase": str(folder)})
        self.scripts = Path(paths["scripts"])
        specs = [importlib.util.find_spec(name) for name in DEPENDENCIES]
        outer = {str(Path(spec.origin).parents[1]) for spec in specs if spec is not None and spec.origin is not None}
        (Path(paths["purelib"]) / "zz_outer.pth").write_text("\n".join(sorted(outer)) + "\n", encoding="utf-8")

    def run(self, program: str, *arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one of the environment's programs in a folder."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NACRE_"))}
        environment = {**kept, "PYTHONNOUSERSITE": "1", "XDG_CONFIG_HOME": str(self.folder), **variables}
        command = [str(self.scripts / program), *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def pip(self, *arguments: str) -> None:
        """Install or uninstall, from files alone."""
        command = ("-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)
        done = self.run("python", *command, folder=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def install(self, *wheels: Path) -> None:
        """Install wheels as they are."""
        self.pip("install", "--no-deps", "--no-index", *map(str, wheels))

    def json(self, *arguments: str, folder: Path, code: int = 0, **variables: str) -> Any:
        """Run `nacre ... --json`, and read the last thing that it prints."""
        done = self.run("nacre", *arguments, "--json", folder=folder, **variables)
        assert done.returncode == code, done.stdout + done.stderr
        whole = done.stdout.strip()
        return json.loads(whole if whole.startswith(("[", "{\n")) else whole.splitlines()[-1])
