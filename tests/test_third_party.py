"""Strangers' packages are real: wheels, installed beside nacre's into a fresh environment, and used by name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fresh import Environment, build_wheel, nacre_wheel

pytestmark = pytest.mark.long  # wheels and an environment: `make wheels`, which .ci/run calls
ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "examples/plugins"
STRANGERS = {
    "nacre-swirl": "1.2.0",
    "nacre-swirl-fast": "0.3.0",
    "nacre-forward-twice": "0.1.0",
    "nacre-parquet": "0.1.0",
    "nacre-serve": "0.1.0",
}
KERNEL = "nacre_swirl_fast.kernel:SwirlKernel"
BROKEN = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "nacre-broken"
version = "6.6.6"
[project.entry-points."nacre.plugins"]
broken = "nacre_broken"
""",
    "nacre_broken/__init__.py": "from nacre import hookimpl\n\nimport a_module_that_is_not_there\n",
}


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheels of nacre, of all example plugins, and of one that cannot be imported."""
    sources = {file.parent.name: file.parent for file in sorted(PLUGINS.glob("*/pyproject.toml"))}
    sources["nacre-broken"] = lay_out(tmp_path_factory.mktemp("broken"), BROKEN)
    folders = [tmp_path_factory.mktemp(name) for name in sources]
    with ThreadPoolExecutor(2) as pool:
        nacre = pool.submit(nacre_wheel, tmp_path_factory.mktemp("nacre"))
        built = dict(zip(sources, pool.map(build_wheel, sources.values(), folders), strict=True))
        return {"nacre": nacre.result(), **built}


@pytest.fixture(scope="module")
def fresh(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("environment"))
    environment.install(*(wheels[name] for name in ("nacre", *STRANGERS, "nacre-broken")))
    return environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the example's net, and the digits where it looks for them."""
    net = tmp_path / "plugins/nacre-swirl/swirl.toml"
    net.parent.mkdir(parents=True)
    text = (PLUGINS / "nacre-swirl/swirl.toml").read_text(encoding="utf-8")
    net.write_text(f'backend = "numpy"\n{text}', encoding="utf-8")  # whose kernel nacre-swirl-fast has
    (tmp_path / "digits").mkdir()
    shutil.copy(ROOT / "examples/digits/train.h5", tmp_path / "digits/train.h5")
    return net.parent


@contextmanager
def without(fresh: Environment, wheels: dict[str, Path], *names: str) -> Iterator[None]:
    fresh.pip("uninstall", "--yes", *names)
    yield
    fresh.install(*(wheels[name] for name in names))


def named(found: list[dict[str, Any]], name: str, key: str = "name") -> dict[str, Any]:
    (one,) = [entry for entry in found if entry[key] == name]
    return one


def swirl(fresh: Environment, folder: Path, **variables: str) -> dict[str, Any]:
    """Return what `nacre explain` tells of the layer."""
    return named(fresh.json("explain", "swirl.toml", folder=folder, **variables)["layers"], "swirl1")


def enable(fresh: Environment, folder: Path) -> None:
    done = fresh.run("nacre", "plugins", "enable", "nacre-swirl-fast", folder=folder)
    assert done.returncode == 0, done.stderr


def trained(fresh: Environment, folder: Path, *options: str, **variables: str) -> dict[str, Any]:
    arguments = ("train", "swirl.toml", "--set", "solver.max_iter=40", *options)
    return fresh.json(*arguments, folder=folder, **variables)


def test_everything_comes_from_the_wheels(fresh: Environment, tmp_path: Path) -> None:
    script = "import nacre, nacre_numpy, nacre_swirl; print(nacre.__file__, nacre_numpy.__file__, nacre_swirl.__file__)"
    done = fresh.run("python", "-W", "error", "-c", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(Path(file).is_relative_to(fresh.folder) for file in done.stdout.split()), done.stdout


def test_plugins_are_named_with_their_distributions(fresh: Environment, tmp_path: Path) -> None:
    found = fresh.json("plugins", folder=tmp_path)
    for name, version in STRANGERS.items():
        plugin = named(found, name, "distribution")
        assert (plugin["version"], plugin["status"], plugin["problem"]) == (version, "active", None)
        assert Path(plugin["file"]).is_relative_to(fresh.folder)
        assert not plugin["editable"]
    assert {one["version"] for one in found if one["distribution"] == "nacre"} == {own_version()}


def own_version() -> str:
    namespace: dict[str, str] = {}
    exec((ROOT / "core/nacre/_version.py").read_text(encoding="utf-8"), namespace)
    return namespace["__version__"]


def test_a_broken_one_is_named_and_takes_nothing_down(fresh: Environment, folder: Path) -> None:
    broken = named(fresh.json("plugins", folder=folder), "nacre-broken", "distribution")
    assert broken["status"] == "failed"
    assert "a_module_that_is_not_there" in broken["problem"]
    assert "nacre_broken" in broken["problem"]
    done = fresh.run("nacre", "train", "swirl.toml", "--set", "layer.swirl1.type=Twirl", folder=folder)
    assert done.returncode == 2
    assert "did you mean 'Swirl'" in done.stderr
    assert "nacre-broken 6.6.6" in done.stderr
    assert "pip uninstall nacre-broken" in done.stderr


def test_the_layer_has_a_page(fresh: Environment, tmp_path: Path) -> None:
    layer = named(fresh.json("layers", folder=tmp_path), "Swirl")
    assert (layer["distribution"], layer["version"]) == ("nacre-swirl", "1.2.0")
    assert (layer["module"], layer["problem"]) == ("nacre_swirl.swirl", None)
    assert layer["summary"].startswith("Turn channels 2i and 2i + 1")
    assert [trait for trait, value in layer["traits"].items() if value] == ["has_param", "can_do_bp"]
    angle = named(layer["fields"], "angle_init")
    assert angle["type"] == "Initializer"
    assert angle["doc"] == "first values of the angles"


def test_a_kernel_that_got_installed_is_told_and_not_taken(fresh: Environment, folder: Path) -> None:
    told = swirl(fresh, folder)
    assert told["kernel"] is None
    (offered,) = told["not_enabled"]
    assert (offered["kernel"], offered["from"]) == (KERNEL, "nacre-swirl-fast 0.3.0")
    done = fresh.run("nacre", "train", "swirl.toml", "--set", "solver.max_iter=1", folder=folder)
    assert "not enabled: nacre-swirl-fast 0.3.0 for Swirl (nacre plugins enable NAME)" in done.stdout


def test_explain_tells_the_strangers_kernel(fresh: Environment, folder: Path) -> None:
    enable(fresh, folder)
    told = swirl(fresh, folder)
    assert (told["type"], told["distribution"], told["version"]) == ("Swirl", "nacre-swirl", "1.2.0")
    assert (told["kernel"], told["from"], told["backend"]) == (KERNEL, "nacre-swirl-fast 0.3.0", "numpy")
    assert told["why"] == "nacre-swirl-fast is enabled, and no owner's kernel serves"
    assert told["lost"] == told["declined"] == told["not_enabled"] == []


@pytest.mark.parametrize("name", [name for name in STRANGERS if name != "nacre-parquet"])
def test_they_pass_their_own_tests(fresh: Environment, tmp_path: Path, name: str) -> None:
    """With nacre's kit, as their authors run them; test_distributions.py has those that need other libraries."""
    shutil.copytree(PLUGINS / name / "tests", tmp_path / "tests")
    done = fresh.run("python", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kernel_and_layer_train_alike(fresh: Environment, folder: Path) -> None:
    enable(fresh, folder)
    fast = trained(fresh, folder)
    assert fast["iterations"] == 40
    assert fast["loss"] < 1  # it learns: chance is ln 10 = 2.3
    variables = {"NACRE_DISABLE_PLUGINS": "nacre-swirl-fast,nacre-broken"}
    assert swirl(fresh, folder, **variables)["kernel"] is None
    own = trained(fresh, folder, **variables)
    assert own["loss"] == pytest.approx(fast["loss"], rel=1e-3)


def test_another_algorithm_trains(fresh: Environment, folder: Path) -> None:
    """Forward twice and backward once computes what forward and backward once does."""
    twice = trained(fresh, folder, "--set", "solver.algorithm=ForwardTwice")
    assert twice["loss"] == trained(fresh, folder)["loss"]


def test_locked_plugins_train_and_others_stay_out(fresh: Environment, folder: Path) -> None:
    done = fresh.run("nacre", "plugins", "lock", folder=folder, NACRE_DISABLE_PLUGINS="nacre-broken,nacre-parquet")
    assert done.returncode == 0, done.stderr
    found = fresh.json("plugins", "--locked", folder=folder)
    status = {one["distribution"]: one["status"] for one in found}
    assert {name for name, what in status.items() if what != "active"} == {"nacre-broken", "nacre-parquet"}
    done = fresh.run("nacre", "train", "swirl.toml", "--set", "solver.max_iter=2", "--locked", folder=folder)
    assert done.returncode == 0, done.stderr


def test_uninstalling_a_kernel_brings_the_layers_own_state_back(
    fresh: Environment, wheels: dict[str, Path], folder: Path
) -> None:
    enable(fresh, folder)
    with without(fresh, wheels, "nacre-swirl-fast"):
        told = swirl(fresh, folder)
        assert told["kernel"] is None
        assert told["why"].startswith("no kernel serves it on ")
        assert trained(fresh, folder)["loss"] < 1


def test_a_net_says_what_to_install(fresh: Environment, wheels: dict[str, Path], folder: Path) -> None:
    with without(fresh, wheels, "nacre-swirl"):
        told = fresh.json("train", "swirl.toml", folder=folder, code=2)
    assert "nacre-swirl" in told["error"]
    assert "pip install" in told["remedy"]
    assert "nacre-swirl>=1.2" in told["remedy"]


def test_a_snapshot_says_which_version_to_install(fresh: Environment, wheels: dict[str, Path], folder: Path) -> None:
    net = folder / "swirl.toml"
    text = net.read_text(encoding="utf-8").partition("[plugins]")[0]
    net.write_text(f'{text}[[callback]]\ntype = "Snapshot"\nfolder = "snapshots"\n', encoding="utf-8")
    trained(fresh, folder)
    with without(fresh, wheels, "nacre-swirl"):
        for command in (("train", "swirl.toml", "--resume", "auto"), ("test", "swirl.toml", "snapshots")):
            told = fresh.json(*command, folder=folder, code=2)
            assert "no layer 'Swirl'" in told["error"]
            assert 'pip install "nacre-swirl==1.2.0"' in told["remedy"]
