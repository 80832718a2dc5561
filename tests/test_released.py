"""Plugins of the last release run unmodified; and what the public modules export only changes with `nacre_api`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from interface import interface, read_kept, wrong_changes
from nacre.discovery.offers import API

TESTS = Path(__file__).resolve().parent
PLUGINS = sorted((TESTS / "released").glob("*/*/pyproject.toml"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the plugins are installed in `site`, with their tests and nets beside it."""
    made = tmp_path_factory.mktemp("released")
    for pyproject in PLUGINS:
        project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
        name, version = project["name"], project["version"]
        shutil.copytree(pyproject.parent, made / "plugins" / name)
        info = made / "site" / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        ((entry, module),) = project["entry-points"]["nacre.plugins"].items()
        (info / "entry_points.txt").write_text(f"[nacre.plugins]\n{entry} = {module}\n", encoding="utf-8")
        shutil.move(made / "plugins" / name / module, made / "site")
    (made / "digits").mkdir()
    shutil.copy(TESTS.parent / "examples/digits/train.h5", made / "digits")
    return made


def python(folder: Path, *words: str) -> str:
    """Run Python with the plugins, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "NACRE_BACKEND": "numpy"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_plugins_of_the_last_release_pass_their_own_tests(folder: Path) -> None:
    told = python(folder, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "plugins")
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None and int(passed[1]) > 100, told


def test_nets_use_them_as_before(folder: Path) -> None:
    """Except that a stranger's kernel now has to be enabled, as the changelog says."""
    net = folder / "plugins/nacre-swirl/swirl.toml"
    enabled = net.with_name("enabled.toml")
    enabled.write_text(f'{net.read_text(encoding="utf-8")}\nkernels = ["nacre-swirl-fast"]\n', encoding="utf-8")
    train = ["-m", "nacre", "train", "--set", "solver.max_iter=2"]
    told = python(folder, "-W", "error", *train, str(net))
    assert "not enabled: nacre-swirl-fast 0.3.0 for Swirl" in told and "2 iterations" in told
    told = python(folder, "-W", "default", *train, str(enabled), "--set", "solver.algorithm=ForwardTwice")
    assert "not enabled" not in told and "2 iterations" in told
    warnings = [line for line in told.splitlines() if line.startswith("warning: ")]
    assert warnings == ["warning: nacre.schedule will be gone in nacre 0.3: write `from nacre import Step`"]


def test_what_is_public_changes_only_with_the_version_of_the_interface() -> None:
    kept, now = read_kept(), interface()
    assert wrong_changes(kept, now) == [], "gone or changed: raise API in core/nacre/discovery/offers.py, or keep it"
    assert kept == (API, now), "new: `python tests/interface.py` writes it down"


def test_what_is_gone_or_has_other_parameters_is_found() -> None:
    _, before = read_kept()
    assert wrong_changes((API, before), before) == []
    gone = [line for line in before if line != "nacre.Layer.setup(self, backend, inputs, diffs)"]
    changed = [line.replace("(self, backend, inputs, diffs)", "(self, backend, inputs)") for line in before]
    for now in (gone, changed):
        assert "nacre.Layer.setup(self, backend, inputs, diffs)" in wrong_changes((API, before), now)
        assert wrong_changes(("1.0", before), now) == []
