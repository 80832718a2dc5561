"""nacre.lock: what is not in it is not imported, and what has changed since does not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nacre.testing.plugin import FakeDistribution

LIGHT = """
from nacre import hookimpl

print("{name} is imported")


@hookimpl
def offer_components():
    return {{"neuron": {{"{title}": "{name}.model:{title}"}}}}
"""
MODEL = """
from nacre import Neuron


class {title}(Neuron):
    def forward(self, backend, x, y):
        y[...] = x
"""


class Place:
    """A folder to work in, and one with installed plugins."""

    def __init__(self, folder: Path, fake_distribution: FakeDistribution) -> None:
        self.folder, self.site = folder / "work", folder / "site"
        self.folder.mkdir()
        self.fake_distribution = fake_distribution

    def install(self, name: str, version: str = "1.0") -> Path:
        """Install a distribution with a plugin, and return the folder of its package."""
        words = {"name": name, "title": name.title()}
        files = {f"{name}/__init__.py": LIGHT.format(**words), f"{name}/model.py": MODEL.format(**words)}
        return self.fake_distribution(files, {name: name}, version=version, folder=self.site.name) / name

    def nacre(self, *words: str, code: int | None = 0, **variables: str) -> str:
        """Run a command; nacre itself is editable where its tests run. Return what it prints; None is any code."""
        environment = {**os.environ, "PYTHONPATH": str(self.site), "NACRE_ALLOW_EDITABLE": "1", **variables}
        program = "from nacre.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done.stdout + done.stderr

    def plugins(self, **variables: str) -> dict[str, Any]:
        """Return what is known of the two plugins."""
        text = self.nacre("plugins", "--json", **variables)
        found, _ = json.JSONDecoder().raw_decode(text[text.index("[") :])  # stderr stands behind it
        return {one["distribution"]: one for one in found if one["distribution"] in ("alpha", "beta")}


@pytest.fixture
def place(tmp_path: Path, fake_distribution: FakeDistribution) -> Place:
    """Return a place in which the plugin alpha is installed and locked."""
    made = Place(tmp_path, fake_distribution)
    made.install("alpha")
    assert "alpha 1.0, nacre " in made.nacre("plugins", "lock")
    return made


def test_what_is_locked_works_and_nothing_else_is_imported(place: Place) -> None:
    place.install("beta")
    found = place.plugins()
    assert [one["status"] for one in found.values()] == ["active", "active"]
    for switch in ({"NACRE_LOCKED": "1"}, {"NACRE_LOCKED": str(place.folder / "nacre.lock")}):
        found = place.plugins(**switch)
        assert found["alpha"]["status"] == "active"
        assert found["beta"]["status"] == "disabled"
        assert found["beta"]["problem"].startswith("beta is disabled: not in ")
        assert found["beta"]["remedy"] == "to use it: nacre plugins lock"
    told = place.nacre("layers", "neuron/Alpha", "--locked")
    assert "alpha is imported" in told
    assert "beta is imported" not in told
    told = place.nacre("layers", "neuron/Beta", "--locked", code=2)
    assert "beta is disabled: not in" in told
    assert "beta is imported" not in told


def test_commands_of_plugins_are_locked_too(place: Place) -> None:
    place.install("beta")
    assert "beta is imported" not in place.nacre("graph", "--help", "--locked")
    assert "beta is imported" not in place.nacre("--locked", "graph", "--help")
    assert "beta is imported" in place.nacre("graph", "--help")


@pytest.mark.parametrize("module", ["__init__.py", "model.py"])
def test_a_module_that_has_changed_does_not_run(place: Place, module: str) -> None:
    file = place.site / "alpha" / module
    file.write_text(file.read_text(encoding="utf-8") + "\nprint('mischief')\n", encoding="utf-8")
    assert "mischief" in place.nacre("layers", "neuron/Alpha")
    told = place.nacre("layers", "neuron/Alpha", "--locked", code=None)
    assert f"{file}: it has changed since its distribution was installed" in told
    assert "mischief" not in told


def test_a_compiled_module_without_its_source_does_not_run(place: Place) -> None:
    file = place.site / "alpha/model.py"
    other = file.with_name("other.py")
    other.write_text("print('mischief')", encoding="utf-8")
    code = "import sys, py_compile; py_compile.compile(sys.argv[1], sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, str(other), str(file.with_suffix(".pyc"))], check=True)
    file.unlink()
    other.unlink()
    told = place.nacre("layers", "neuron/Alpha", "--locked")
    assert "it was added after its distribution was installed" in told
    assert "mischief" not in told


def test_a_compiled_file_beside_the_source_is_not_believed(place: Place) -> None:
    file = place.site / "alpha/model.py"
    whole, state = file.read_text(encoding="utf-8"), file.stat()
    file.write_text("print('mischief')".ljust(len(whole)), encoding="utf-8")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    subprocess.run(
        [sys.executable, "-c", "import sys, py_compile; py_compile.compile(sys.argv[1])", str(file)], check=True
    )
    file.write_text(whole, encoding="utf-8")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert "mischief" in place.nacre("layers", "neuron/Alpha")
    assert "mischief" not in place.nacre("layers", "neuron/Alpha", "--locked")


def test_another_version_or_other_files_of_a_version(place: Place) -> None:
    place.install("alpha")
    record = place.site / "alpha-1.0.dist-info/RECORD"
    record.write_text(record.read_text(encoding="utf-8") + "alpha/more.py,sha256=AAAA,1\n", encoding="utf-8")
    found = place.plugins(NACRE_LOCKED="1")["alpha"]
    assert found["status"] == "disabled"
    assert "nacre.lock: the files of alpha 1.0 are not those in it" in found["problem"]
    assert found["remedy"].startswith("to use it: nacre plugins lock\n`nacre plugins lock` writes the lock anew")
    for file in (place.site / "alpha-1.0.dist-info").iterdir():
        file.unlink()
    (place.site / "alpha-1.0.dist-info").rmdir()
    place.install("alpha", "1.1")
    assert "alpha 1.1 is installed, but it has version 1.0" in place.plugins(NACRE_LOCKED="1")["alpha"]["problem"]


@pytest.mark.parametrize("change", ["changed", "removed"])
def test_a_plugin_whose_modules_are_not_those_that_were_installed_is_not_locked(place: Place, change: str) -> None:
    before = (place.folder / "nacre.lock").read_bytes()
    file = place.site / "alpha/model.py"
    file.unlink() if change == "removed" else file.write_text("print('mischief')", encoding="utf-8")
    told = place.nacre("plugins", "lock", code=2)
    assert f"{file}: it has" in told and f"{change} since its distribution was installed" in told
    assert "pip install --force-reinstall alpha" in told
    assert (place.folder / "nacre.lock").read_bytes() == before
    assert f"{file}: it has" in place.nacre("plugins", "doctor", code=1)


def test_what_is_locked_but_not_installed_is_told(place: Place) -> None:
    place.install("beta")
    place.nacre("plugins", "lock", "--requirements", "plugins.txt")
    requirements = (place.folder / "plugins.txt").read_text(encoding="utf-8").splitlines()
    assert requirements[:2] == ["alpha==1.0", "beta==1.0"]
    assert requirements[2].startswith("nacre==")
    (place.site / "beta-1.0.dist-info/entry_points.txt").unlink()
    found = place.plugins(NACRE_LOCKED="1")["beta"]
    assert found["problem"] == "beta 1.0 (lock): nacre.lock has it, but it is not installed"
    assert found["remedy"] == "pip install beta"


def test_a_plugin_that_is_disabled_or_broken_can_be_left_out(place: Place) -> None:
    (place.install("beta") / "__init__.py").write_text("1 / 0", encoding="utf-8")
    told = place.nacre("plugins", "lock", NACRE_DISABLE_PLUGINS="beta")
    assert "alpha" in told
    assert "beta" not in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "nacre.lock: there is no lock of plugins"),
        ("version = 2\n", "its version is 2, but this nacre reads 1"),
        ("version = 1\n", "it has no entry for nacre itself"),
        ('version = 1\n[[distribution]]\nname = "nacre"\n', "each [[distribution]] needs name, version and sha256"),
        ('version = 1\n[[distribution]]\nname = "nacre"\nversion = "1"\nsha256 = "x"\n', "it has version 1"),
        ("version = ", "nacre.lock"),
    ],
)
def test_a_lock_that_cannot_be_used_ends_every_command(place: Place, text: str | None, words: str) -> None:
    file = place.folder / "nacre.lock"
    file.unlink() if text is None else file.write_text(text, encoding="utf-8")
    told = place.nacre("layers", "--locked", code=2)
    assert words in told
    assert "alpha is imported" not in told
    place.nacre("plugins", "lock")
    place.nacre("layers", "--locked")


def test_editable_installs_are_refused_unless_they_are_allowed(place: Place) -> None:
    url = place.site / "alpha-1.0.dist-info/direct_url.json"
    url.write_text('{"url": "file:///alpha", "dir_info": {"editable": true}}', encoding="utf-8")
    told = place.nacre("plugins", "lock", code=2, NACRE_ALLOW_EDITABLE="")
    assert "is installed editable: its files may change" in told
    assert "add --allow-editable" in told
    assert "alpha is installed" not in place.nacre("plugins", "lock", "--allow-editable", NACRE_ALLOW_EDITABLE="")
    assert place.plugins(NACRE_LOCKED="1")["alpha"]["status"] == "active"
    url.unlink()
    assert "the files of alpha 1.0 are not those in it" in place.plugins(NACRE_LOCKED="1")["alpha"]["problem"]


def test_a_package_that_hides_a_locked_one_does_not_run(place: Place) -> None:
    other = place.folder / "alpha"
    other.mkdir()
    (other / "__init__.py").write_text("print('mischief')", encoding="utf-8")
    hidden = f"{place.folder}{os.pathsep}{place.site}"
    told = place.nacre("layers", "neuron/Alpha", "--locked", code=None, PYTHONPATH=hidden)
    assert f"{other / '__init__.py'}: it hides the package alpha that was installed" in told
    assert "mischief" not in told
