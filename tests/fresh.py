"""Wheels, and a fresh environment to install them into: no network, and no trace of the outer environment's nacre."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
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


def nacre_wheel(folder: Path) -> Path:
    """Build nacre's own wheel from this checkout; or it has just been built, and `NACRE_WHEEL` is its path."""
    built = os.environ.get("NACRE_WHEEL")
    return ROOT / built if built else build_wheel(ROOT, folder)


def small_wheel(
    folder: Path, name: str, files: Mapping[str, str], *, version: str = "1.0", metadata: str = "", entry: str = ""
) -> Path:
    """Write a wheel with a plugin, whose light module is the package of its name, or `entry`."""
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    whole = {
        **{f"{package}/{path}": textwrap.dedent(text) for path, text in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[nacre.plugins]\n{entry or package} = {package}\n",
    }
    digests = {path: urlsafe_b64encode(sha256(text.encode()).digest()).decode() for path, text in whole.items()}
    record = "".join(f"{path},sha256={digest.rstrip('=')},\n" for path, digest in digests.items())
    made = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in {**whole, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
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

    def run(
        self, program: str, *arguments: str, folder: Path, within: Sequence[str] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the environment's programs in a folder; `within` is a command that runs commands."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NACRE_"))}
        environment = {**kept, "PYTHONNOUSERSITE": "1", "XDG_CONFIG_HOME": str(self.folder), **variables}
        command = [*within, str(self.scripts / program), *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def pip(self, *arguments: str) -> None:
        """Install or uninstall, from files alone."""
        command = ("-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)
        done = self.run("python", *command, folder=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def install(self, *wheels: Path) -> None:
        """Install wheels as they are."""
        self.pip("install", "--no-deps", "--no-index", *map(str, wheels))

    def install_editable(self, source: Path) -> None:
        """Install a package from its source, as its author does, with the outer environment's hatchling."""
        self.pip("install", "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(source))

    def json(self, *arguments: str, folder: Path, code: int = 0, **variables: str) -> Any:
        """Run `nacre ... --json`, and read the last thing that it prints."""
        done = self.run("nacre", *arguments, "--json", folder=folder, **variables)
        assert done.returncode == code, done.stdout + done.stderr
        whole = done.stdout.strip()
        return json.loads(whole if whole.startswith(("[", "{\n")) else whole.splitlines()[-1])
