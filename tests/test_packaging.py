"""What is built from this checkout holds what it must, and the folders keep to the rules of the house."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from fresh import hasty

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Import name -> the folder it lies in, as the house has them: core/nacre, plugins/<kind>/nacre_<name>.
PACKAGES = {folder.name: folder for folder in [ROOT / "core/nacre", *sorted(ROOT.glob("plugins/*/nacre_*"))]}
VERSION = re.search(r'^__version__ = "(.+)"$', (ROOT / "core/nacre/_version.py").read_text(encoding="utf-8"), re.M)

HELPER = "nacre_onednn/helper/_helper.so"
"""What is compiled, in a wheel."""


def tracked_files() -> list[str]:
    """The files that git tracks, or would if they were added; in an sdist, which has no git, every file."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, encoding="utf-8").stdout
        return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())
    made = re.compile(r"(^|/)(__pycache__|\.[a-z-]+_cache|\.venv|\.ci-venv|\.hypothesis|dist|build)/")
    files = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())
    return sorted(name for name in files if not made.search(name))


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build a wheel or an sdist with the installed hatchling: no isolation, so no network."""
    pytest.importorskip("hatchling")
    pytest.importorskip("build")
    helper = ROOT / "plugins/backends/nacre_onednn/helper/_helper.so"
    before = helper.stat().st_mtime_ns if helper.exists() else 0
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, env=hasty(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (helper.stat().st_mtime_ns if helper.exists() else 0) == before, "the checkout's own helper is another now"
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


def compiles() -> bool:
    """Whether a wheel built here holds the onednn backend's helper: on Linux, with a C compiler."""
    return sys.platform == "linux" and any(map(shutil.which, ("cc", "gcc")))


def names_in(archive: Path) -> set[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return set(file.namelist())
    with tarfile.open(archive) as file:
        return {member.name.partition("/")[2] for member in file if member.isfile()}


@pytest.mark.long
def test_wheel_holds_every_package_whole_and_nothing_else(wheel: Path) -> None:
    expected = {
        f"{package}/{Path(name).relative_to(folder.relative_to(ROOT)).as_posix()}"
        for package, folder in PACKAGES.items()
        for name in tracked_files()
        if Path(name).is_relative_to(folder.relative_to(ROOT))
    }
    expected |= {f"nacre_commands/digits/{name}" for name in ("lenet.toml", "train.h5", "test.h5")}
    if compiles():
        expected.add(HELPER)
    assert {name for name in names_in(wheel) if ".dist-info/" not in name} == expected


@pytest.mark.long
def test_wheel_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (info,) = {name.partition("/")[0] for name in file.namelist() if ".dist-info/" in name}
        metadata = Parser().parsestr(file.read(f"{info}/METADATA").decode())
        entry_points = configparser.ConfigParser(delimiters=["="])
        entry_points.read_string(file.read(f"{info}/entry_points.txt").decode())
        assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"} <= set(file.namelist())
        assert file.read("nacre_commands/digits/test.h5") == (ROOT / "examples/digits/test.h5").read_bytes()
    assert metadata["Name"] == "nacre"
    assert metadata["Requires-Python"] == ">=3.11"
    assert dict(entry_points["console_scripts"]) == {"nacre": "nacre.cli:main"}
    plugins = set(entry_points["nacre.plugins"].values())
    assert plugins == set(PACKAGES) - {"nacre"}, "every plugin folder has an entry point, and the other way round"


@pytest.mark.long
def test_versions_agree(wheel: Path, sdist: Path) -> None:
    assert VERSION is not None
    version = VERSION[1]
    tag = sysconfig.get_platform().translate(str.maketrans("-.", "__")) if compiles() else "any"
    assert wheel.name == f"nacre-{version}-py3-none-{tag}.whl"
    assert sdist.name == f"nacre-{version}.tar.gz"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(version)}\b", changelog, re.M), f"CHANGELOG.md says nothing of {version}"


@pytest.mark.long
def test_sdist_is_the_whole_checkout_and_makes_the_same_wheel_without_a_compiler_one_for_every_platform(
    wheel: Path, sdist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names_in(sdist) - {"PKG-INFO"} == set(tracked_files()) - {"PKG-INFO"}
    with tarfile.open(sdist) as file:
        # The argument came with 3.11.4; from 3.12 on, leaving it out is a warning.
        file.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = tmp_path.iterdir()
    (tmp_path / "wheel").mkdir()
    monkeypatch.setenv("CC", "no-such-compiler")
    again = build("wheel", source, tmp_path / "wheel")
    assert again.name.endswith("-py3-none-any.whl")
    assert names_in(again) == names_in(wheel) - {HELPER}


def test_every_root_is_in_pyproject() -> None:
    roots = {folder.parent.relative_to(ROOT).as_posix() for folder in PACKAGES.values()}
    hatch = PROJECT["tool"]["hatch"]["build"]
    assert set(hatch["dev-mode-dirs"]) == roots
    assert set(hatch["targets"]["wheel"]["sources"]) == roots
    assert set(PROJECT["tool"]["pyright"]["extraPaths"]) == roots
    assert set(PROJECT["tool"]["mypy"]["mypy_path"].split(":")) == roots
    assert set(PROJECT["tool"]["ruff"]["lint"]["isort"]["known-first-party"]) == set(PACKAGES)


def test_packages_are_typed() -> None:
    assert [name for name, folder in PACKAGES.items() if not (folder / "py.typed").is_file()] == []


def test_the_same_ruff_everywhere() -> None:
    dev = PROJECT["project"]["optional-dependencies"]["dev"]
    assert [requirement for requirement in dev if re.fullmatch(r"ruff==[\d.]+", requirement)]


def test_no_file_names_the_machine_it_was_written_on() -> None:
    # In pieces, or this file would be the first to be found.
    folders = ["/wo" + "rk/", "/ro" + "ot/", "/tm" + "p/w/", "/ho" + "me/", "/Us" + "ers/"]
    hosts = ["pypi" + ".org", "python" + "hosted"]
    found = []
    for name in tracked_files():
        content = (ROOT / name).read_bytes()
        found += [f"{name}: {word}" for word in folders + hosts if word.encode() in content]
    assert found == []


# --- imports run one way ---------------------------------------------------------------------------------------------


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level name of everything that a file imports, wherever in it, also for type checkers only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            yield node.lineno, node.module.partition(".")[0]


def may_import(package: str) -> set[str]:
    """The packages of this repository that one of them may import."""
    if package == "nacre":
        return {"nacre"}
    if PACKAGES[package].parent.name == "backends":
        return {"nacre", package, "nacre_layers"}  # to specialise a layer's state
    return {"nacre", package}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way(package: str) -> None:
    forbidden = set(PACKAGES) - may_import(package)
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: imports {name}"
        for path in sorted(PACKAGES[package].rglob("*.py"))
        if "templates" not in path.parts  # packages of others, as they begin
        for line, name in imports_of(path)
        if name in forbidden
    ]
    assert found == []


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "nacre"])
def test_light_modules_are_light(package: str) -> None:
    """Listing names must not import what opening needs: a plugin's `__init__` imports nacre, and nothing heavy."""
    script = f"import sys, {package}; print(*(sys.modules.keys() & {{'h5py', 'matplotlib', 'PIL', 'torch', 'scipy'}}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder.parent) for folder in PACKAGES.values())}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
