"""Real distributions among the example plugins: each in an environment of its own, by its README and its own tests."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from fresh import Environment, build_wheel, nacre_wheel

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "examples/plugins"
NAMES = ["nacre-numba", "nacre-parquet", "nacre-sklearn", "nacre-torch", "nacre-transformer"]
BLOCK = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nacre_wheel(tmp_path_factory.mktemp("nacre"))


@pytest.fixture(scope="module", params=NAMES)
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Environment]:
    """Return a distribution, and an environment with it; what it needs comes from an index where it is not here."""
    name = request.param
    environment = Environment(tmp_path_factory.mktemp(name))
    environment.install(wheel, build_wheel(PLUGINS / name, tmp_path_factory.mktemp("wheel")))
    table = tomllib.loads((PLUGINS / name / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [one for one in table["project"]["dependencies"] if not one.startswith("nacre")]
    done = environment.run("python", "-m", "pip", "install", "--quiet", *needed, folder=environment.folder)
    if done.returncode:
        pytest.skip(f"{', '.join(needed)} cannot be installed here")
    return name, environment


def test_it_passes_its_own_tests(installed: tuple[str, Environment], tmp_path: Path) -> None:
    name, environment = installed
    shutil.copytree(PLUGINS / name / "tests", tmp_path / "tests")
    done = environment.run("python", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_readme_is_true(installed: tuple[str, Environment], tmp_path: Path) -> None:
    """Files are written first; then its Python code runs, as one script, and then its commands."""
    name, environment = installed
    blocks = BLOCK.findall((PLUGINS / name / "README.md").read_text(encoding="utf-8"))
    for _, file, text in blocks:
        if file:
            (tmp_path / file).write_text(text, encoding="utf-8")
    script = "".join(text for language, file, text in blocks if language == "python" and not file)
    commands = [line.split() for language, _, text in blocks if language == "sh" for line in text.splitlines()]
    for program, *arguments in [["python", "-W", "error", "-c", script], *commands]:
        done = environment.run(program, *arguments, folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_model_of_characters_knows_half_a_bit_more_than_a_trigram_model(
    installed: tuple[str, Environment], tmp_path: Path
) -> None:
    name, environment = installed
    if name != "nacre-transformer":
        pytest.skip(f"{name} has none")
    shutil.copytree(PLUGINS / name / "text", tmp_path / "text")
    done = environment.run("python", "-W", "error", "text/text.py", "1500", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"net ([\d.]+), trigram ([\d.]+)", done.stdout)
    assert found, done.stdout
    assert float(found[1]) <= float(found[2]) - 0.5
