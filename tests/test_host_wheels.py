"""What nacre promises whatever is installed: strangers' wheels in one environment, many of them broken."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fresh import Environment, nacre_wheel, small_wheel

pytestmark = pytest.mark.long  # wheels and an environment


def light(before: str = "", **hooks: str) -> str:
    """Return a light module: hook -> what it returns, as Python text."""
    functions = [f"@hookimpl\ndef {name}():\n    return {given}\n" for name, given in hooks.items()]
    return "\n".join(["from nacre import hookimpl", before, *functions])


NEURON = """
from nacre import Neuron

class {0}(Neuron):
    def forward(self, backend, x, y):
        backend.xp.multiply(x, {1}, out=y)

    def backward(self, backend, x, y, dy, dx):
        backend.xp.multiply(dy, {1}, out=dx)
"""
NUMBERS = """
import json, os, sys
import numpy as np
from nacre import Field, Reader, Store

class Numbers(Store):
    endings = (".num",)

    def open(self, path, fields=()):
        return NumbersReader(path)

class NumbersReader(Reader):
    def __init__(self, path):
        self.values = np.loadtxt(path)
        self.count = len(self.values)
        self.fields = {"x": Field((), "float32"), "y": Field((), "float32")}
        if "ACME_REPORT" in os.environ:
            found = sorted(name for name in sys.modules if name.startswith(("acme", "nacre_file")))
            with open(os.environ["ACME_REPORT"], "a") as file:
                file.write(json.dumps({"pid": os.getpid(), "modules": found, "from": __name__}) + "\\n")

    def read(self, numbers, out):
        for array in out.values():
            array[:] = self.values[numbers]
"""
LYON = """
from nacre import Callback, CallbackState
from nacre_solvers import SGD

class Lyon(SGD):
    pass

class Tell(Callback):
    def start(self, training):
        return TellState(self, training)

class TellState(CallbackState):
    def run(self):
        pass
"""
TAKEN = """{
    "neuron": {"ReLU": 0}, "store": {"HDF5": 0}, "solver": {"SGD": 0}, "drawing": {"svg": 0}, "algorithm": {"BP": 0},
    "callback": {"Snapshot": 0}, "snapshot_store": {"HDF5": 0}, "initializer": {"Xavier": 0},
    "default_of": {"algorithm": 0, "initializer": 0},
}"""
HARM = '"acme_takes.harm:Harm"'
PACKAGES: dict[str, dict[str, str]] = {
    "acme-one": {
        "__init__.py": light(offer_components='{"neuron": {"Same": "acme_one.same:Same"}}'),
        "same.py": NEURON.format("Same", 2),
    },
    "acme-two": {
        "__init__.py": light(offer_components='{"neuron": {"Same": "acme_two.same:Same"}}'),
        "same.py": NEURON.format("Same", 3),
    },
    "acme-loud": {
        "__init__.py": light('print("loud is imported")', offer_components='{"neuron": {"Loud": "acme_loud.at:Loud"}}'),
        "at.py": 'print("loud is opened")\n' + NEURON.format("Loud", 1),
    },
    "acme-takes": {
        "__init__.py": light(
            offer_components=TAKEN.replace("0", HARM),
            offer_layers=f'{{"Pooling": {HARM}, "HDF5Data": {HARM}, "InnerProduct": {HARM}}}',
            offer_backends=f'{{"best": {HARM}, "onednn": {HARM}}}',
            offer_commands=f'{{"train": {HARM}, "layers": {HARM}}}',
            offer_kernels=f'{{("nacre:InnerProduct", "numpy"): {HARM}, ("solver/nacre:SGD", "numpy"): {HARM}}}',
        ),
        "harm.py": """
            import os
            open(os.environ["ACME_HARM"], "w").close()
            class Harm:
                auto = 1e9
        """,
    },
    "acme-extra": {
        "__init__.py": light(offer_components='{"neuron": {"Extra": "acme_extra.at:Extra"}}'),
        "at.py": "import a_library_of_nobody\n" + NEURON.format("Extra", 1),
    },
    "acme-numbers": {
        "__init__.py": light(offer_components='{"store": {"Numbers": "acme_numbers.at:Numbers"}}'),
        "at.py": NUMBERS,
    },
    "acme-numbers-too": {
        "__init__.py": light(offer_components='{"store": {"NumbersToo": "acme_numbers_too.at:Numbers"}}'),
        "at.py": NUMBERS,
    },
    "acme-lyon": {
        "__init__.py": light(
            offer_components='{"solver": {"Lyon": "acme_lyon.at:Lyon"}, "callback": {"Tell": "acme_lyon.at:Tell"}}'
        ),
        "at.py": LYON,
    },
}
BROKEN = {
    "acme-absent": ("import a_module_that_is_not_there\n", "No module named 'a_module_that_is_not_there'"),
    "acme-exit": ("raise SystemExit(7)\n", "SystemExit: 7"),
    "acme-hook": (light(offer_layer="{}"), "there is no hook offer_layer (did you mean 'offer_layers'?)"),
    "acme-newer": (light('nacre_api = "1.99"', offer_layers="{}"), 'needs nacre ≥ 9.9: it says nacre_api = "1.99"'),
    "acme-raising": (light(offer_layers="1 / 0"), "offer_layers raised ZeroDivisionError"),
    "acme-spoilt": (light(offer_layers="{}"), ""),  # its entry_points.txt is damaged below
}
METADATA = {
    "acme-extra": 'Provides-Extra: fast\nRequires-Dist: a-library-of-nobody; extra == "fast"\n',
    "acme-newer": "Requires-Dist: nacre>=9.9\n",
}
QUIET = ",".join([*BROKEN, "acme-loud"])
NET = """
name = "small"
[[layer]]
type = "HDF5Data"
name = "data"
tops = ["x", "label"]
source = ["train.h5"]
batch_size = 8
exclude = ["predict"]
[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["x"]
tops = ["ip"]
output_dim = 4
neuron = "ReLU"
[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["ip", "label"]
exclude = ["predict"]
[solver]
type = "SGD"
max_iter = 3
lr_policy = 0.1
[[callback]]
type = "Snapshot"
every_n_iter = 3
folder = "snapshots"
"""
READING = """
[[layer]]
type = "Data"
name = "data"
source = "x.num"
tops = ["x", "y"]
batch_size = 4
processes = 1
[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["x"]
tops = ["ip"]
output_dim = 1
[[layer]]
type = "SquareLoss"
name = "loss"
bottoms = ["ip", "y"]
[solver]
type = "SGD"
max_iter = 2
lr_policy = 0.01
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    found = {"nacre": nacre_wheel(folder)}
    packages = {**PACKAGES, **{name: {"__init__.py": text} for name, (text, _) in BROKEN.items()}}
    for name, files in packages.items():
        found[name] = small_wheel(folder, name, {"__init__.py": "", **files}, metadata=METADATA.get(name, ""))
    return found


@pytest.fixture(scope="module")
def fresh(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("environment"))
    environment.install(*wheels.values())
    spoil(environment)
    return environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a net, and its data."""
    (tmp_path / "net.toml").write_text(NET, encoding="utf-8")
    (tmp_path / "reading.toml").write_text(READING, encoding="utf-8")
    np.savetxt(tmp_path / "x.num", np.arange(12))
    random = np.random.default_rng(0)
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["x"] = random.normal(size=(32, 6)).astype("float32")
        file["label"] = random.integers(0, 4, 32).astype("float32")
    return tmp_path


def nacre(fresh: Environment, folder: Path, *words: str, code: int = 0, **variables: str) -> str:
    """Run a command; return what it prints."""
    done = fresh.run("nacre", *words, folder=folder, ACME_HARM=str(folder / "harm"), **variables)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


# Broken ones


def test_broken_ones_are_named_with_what_removes_them_and_everything_else_works(
    fresh: Environment, folder: Path
) -> None:
    found = {one["distribution"]: one for one in fresh.json("plugins", folder=folder)}
    for name, (_, reason) in BROKEN.items():
        assert found[name]["status"] == "failed"
        assert reason in found[name]["problem"]
        how = f"pip install --ignore-installed {name}" if name == "acme-spoilt" else f"pip uninstall {name}"
        assert how in found[name]["remedy"]
    assert "entry points cannot be read: UnicodeDecodeError" in found["acme-spoilt"]["problem"]
    assert {found[name]["status"] for name in PACKAGES} == {"active"}
    nacre(fresh, folder, "train", "net.toml")
    told = nacre(fresh, folder, "layers", "Poling", code=2)
    assert "did you mean 'Pooling'?" in told
    assert "acme-absent 1.0 (import): ModuleNotFoundError" in told


def test_nothing_depends_on_the_order_of_sets(fresh: Environment, folder: Path) -> None:
    """Nor on that of the packages' folders, which are in one place here."""
    told = {
        (
            nacre(fresh, folder, "plugins", PYTHONHASHSEED=seed),
            nacre(fresh, folder, "layers", "--all", PYTHONHASHSEED=seed),
        )
        for seed in ("0", "1", "2", "3")
    }
    assert len(told) == 1


def test_what_removes_or_disables_a_broken_one_works_while_it_is_broken(
    fresh: Environment, wheels: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    """Even one that crashes Python."""
    crash = small_wheel(tmp_path, "acme-crash", {"__init__.py": "import faulthandler\nfaulthandler._sigsegv()\n"})
    fresh.install(crash)
    try:
        done = fresh.run("nacre", "layers", folder=folder)
        assert done.returncode < 0
        assert "acme_crash/__init__.py" in done.stderr
        assert "Pooling" in nacre(fresh, folder, "layers", NACRE_DISABLE_PLUGINS="acme-crash")
        assert "now enabled" in nacre(fresh, folder, "plugins", "enable", "acme-crash")
        told = nacre(fresh, folder, "plugins", "doctor", code=1)
        assert "acme-crash 1.0: importing it crashed Python: killed by SIGSEGV" in told
        assert "pip uninstall acme-crash" in told
        assert "acme-crash 1.0: importing it crashed" in nacre(fresh, folder, "plugins", "--isolate", code=1)
        nacre(fresh, folder, "plugins", "lock", NACRE_DISABLE_PLUGINS="acme-crash,acme-spoilt")
        assert "Pooling" in nacre(fresh, folder, "layers", "--locked")
    finally:
        fresh.pip("uninstall", "--yes", "acme-crash")
    (folder / "nacre.toml").unlink()
    fresh.pip("uninstall", "--yes", "acme-absent")
    try:
        assert "acme-absent" not in {one["distribution"] for one in fresh.json("plugins", folder=folder)}
    finally:
        fresh.install(wheels["acme-absent"])
    # pip cannot uninstall what it cannot read
    fresh.pip("install", "--no-deps", "--no-index", "--ignore-installed", str(wheels["acme-spoilt"]))
    try:
        found = {one["distribution"]: one for one in fresh.json("plugins", folder=folder)}
        assert found["acme-spoilt"]["status"] == "active"
    finally:
        spoil(fresh)


def spoil(fresh: Environment) -> None:
    """Damage the metadata of a package."""
    (spoilt,) = fresh.folder.rglob("acme_spoilt-1.0.dist-info/entry_points.txt")
    spoilt.write_bytes(b"[nacre.plugins]\n\xff\xfe = x\n")


def test_prints_at_import_stay_out_of_json(fresh: Environment, folder: Path) -> None:
    done = fresh.run("nacre", "layers", "--all", "--json", folder=folder)
    assert json.loads(done.stdout)
    assert "loud is imported" in done.stderr
    done = fresh.run("nacre", "layers", "neuron/acme-loud:Loud", "--json", folder=folder)
    assert json.loads(done.stdout)
    assert "loud is opened" in done.stderr


def test_a_missing_library_is_told_with_the_extra_that_has_it(fresh: Environment, folder: Path) -> None:
    told = nacre(fresh, folder, "train", "net.toml", "--set", "layer.ip.neuron=Extra", code=2)
    assert "cannot be used here: it needs the package 'a_library_of_nobody'" in told
    assert 'pip install "acme-extra[fast]"' in told
    assert "Extra" in nacre(fresh, folder, "layers", "--all")


# Names


def test_a_name_that_two_offer_is_an_error_until_a_pin_decides(fresh: Environment, folder: Path) -> None:
    train = ("train", "net.toml", "--set", "layer.ip.neuron=Same")
    told = nacre(fresh, folder, *train, code=2)
    assert "neuron 'Same' is offered by acme-one 1.0 and acme-two 1.0" in told
    assert 'pin = { "neuron:Same" = "acme-one" } under [plugins]' in told
    nacre(fresh, folder, "train", "net.toml", "--set", "layer.ip.neuron=acme-two:Same")
    told = nacre(fresh, folder, "plugins", "lock", NACRE_DISABLE_PLUGINS=QUIET)
    assert "pin 'neuron:Same' = 'acme-one', because acme-two offers it too" in told
    nacre(fresh, folder, *train)
    nacre(fresh, folder, *train, "--locked")


def test_strangers_change_no_bit_of_a_net(fresh: Environment, folder: Path) -> None:
    """One of them offers what nacre offers, and is not even opened."""
    results: list[Any] = []
    for variables in ({"NACRE_NO_PLUGINS": "1"}, {}, {"NACRE_PLUGINS": "acme-takes"}):
        nacre(fresh, folder, "train", "net.toml", "--overwrite", "snapshots", **variables)
        (snapshot,) = (folder / "snapshots").rglob("*.h5")
        with h5py.File(snapshot) as file:
            arrays: dict[str, bytes] = {}
            file.visititems(
                lambda name, one, arrays=arrays: (
                    arrays.update({name: one[()].tobytes()})
                    if isinstance(one, h5py.Dataset) and "parameters" in name
                    else None
                )
            )
        explained = fresh.json("explain", "net.toml", folder=folder, **variables)
        chosen = [(one["name"], one["kernel"], one["backend"], one["why"]) for one in explained["layers"]]
        results.append((arrays, chosen))
        for path in (folder / "snapshots").rglob("*"):
            path.unlink()
        (folder / "snapshots").rmdir()
    assert results[0][0]
    assert results[1] == results[2] == results[0]
    assert not (folder / "harm").exists()
    explained = fresh.json("explain", "net.toml", "--backend", "numpy", folder=folder)
    (ip,) = [one for one in explained["layers"] if one["name"] == "ip"]
    assert [one["from"] for one in ip["lost"]] == ["acme-takes 1.0"]


def test_an_unknown_name_says_which_known_package_offers_it(fresh: Environment, folder: Path) -> None:
    told = nacre(fresh, folder, "train", "net.toml", "--set", "layer.ip.type=Attention", code=2)
    assert "nacre-transformer offers it: pip install nacre-transformer" in told


def test_a_file_is_a_plugin_like_an_installed_one(fresh: Environment, folder: Path) -> None:
    (folder / "mine.py").write_text(NEURON.format("Mine", 5), encoding="utf-8")
    explained = fresh.json("explain", "net.toml", "--plugin", "mine.py", "--set", "layer.ip.neuron=Mine", folder=folder)
    assert [one["distribution"] for one in explained["layers"] if one["name"] == "ip/Mine"] == ["mine"]


# Switches and the lock


@pytest.mark.parametrize(
    ("variables", "imported"),
    [
        ({"NACRE_NO_PLUGINS": "1"}, set()),
        ({"NACRE_PLUGINS": "acme-one"}, {"acme-one"}),
        ({"NACRE_DISABLE_PLUGINS": f"acme-takes,{QUIET}"}, {*PACKAGES} - {"acme-takes", "acme-loud"}),
    ],
)
def test_what_is_switched_off_is_not_imported(
    fresh: Environment, folder: Path, variables: dict[str, str], imported: set[str]
) -> None:
    code = "import nacre, sys; nacre.registry().names('layer'); print(*sys.modules)"
    done = fresh.run("python", "-c", code, folder=folder, **variables)
    found = {name.replace("_", "-") for name in done.stdout.split() if name.startswith("acme")}
    assert found == imported, done.stderr


def test_what_is_not_as_it_was_locked_does_not_run(fresh: Environment, wheels: dict[str, Path], folder: Path) -> None:
    others = ",".join({*BROKEN, *PACKAGES} - {"acme-one", "acme-loud"})
    told = nacre(fresh, folder, "plugins", "lock", "--requirements", "plugins.txt", NACRE_DISABLE_PLUGINS=others)
    assert "acme-loud 1.0, acme-one 1.0, nacre " in told
    links = str(wheels["nacre"].parent)
    fresh.pip("install", "--no-deps", "--no-index", "--find-links", links, "-r", str(folder / "plugins.txt"))
    status = {one["distribution"]: one["status"] for one in fresh.json("plugins", "--locked", folder=folder)}
    assert {name for name, what in status.items() if what == "active"} == {"nacre", "acme-one", "acme-loud"}
    nacre(fresh, folder, "train", "net.toml", "--locked", "--set", "layer.ip.neuron=Same")  # acme-two is not there
    (module,) = fresh.folder.rglob("acme_one/same.py")
    whole = module.read_text(encoding="utf-8")
    try:
        module.write_text(f"{whole}\nopen('mischief', 'w')\n", encoding="utf-8")
        told = nacre(fresh, folder, "train", "net.toml", "--locked", "--set", "layer.ip.neuron=Same", code=2)
        assert f"{module}: it has changed since its distribution was installed" in told
        assert not (folder / "mischief").exists()
    finally:
        module.write_text(whole, encoding="utf-8")
    fresh.install_editable(source(folder, "acme-edited"))
    try:
        told = nacre(fresh, folder, "plugins", "lock", code=2, NACRE_DISABLE_PLUGINS=others)
        assert "acme-edited 1.0 is installed editable" in told
        nacre(fresh, folder, "plugins", "lock", "--allow-editable", NACRE_DISABLE_PLUGINS=others)
        for options, what in (((), "disabled"), (("--allow-editable",), "active")):
            found = fresh.json("plugins", "--locked", *options, folder=folder)
            (edited,) = [one for one in found if one["distribution"] == "acme-edited"]
            assert (edited["status"], edited["editable"]) == (what, True)
    finally:
        fresh.pip("uninstall", "--yes", "acme-edited")


def source(folder: Path, name: str) -> Path:
    """Write the source of a package with a plugin that offers nothing much; return its folder."""
    package = name.replace("-", "_")
    made = folder / name
    (made / package).mkdir(parents=True)
    (made / package / "__init__.py").write_text(light(offer_layers="{}"), encoding="utf-8")
    (made / "pyproject.toml").write_text(
        f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "1.0"
[project.entry-points."nacre.plugins"]
{name} = "{package}"
[tool.hatch.build]
dev-mode-dirs = ["."]
""",
        encoding="utf-8",
    )
    return made


# Processes that read


def reports(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "report").read_text(encoding="utf-8").splitlines()
    (folder / "report").unlink()
    return [json.loads(line) for line in lines]


def test_processes_that_read_have_the_same_plugins_pins_switches_and_lock(fresh: Environment, folder: Path) -> None:
    report = {"ACME_REPORT": str(folder / "report")}
    train = ("train", "reading.toml")
    told = nacre(fresh, folder, *train, code=2, **report)
    assert "several stores read such files: acme-numbers-too:NumbersToo and acme-numbers:Numbers" in told
    # switches
    off = {"NACRE_DISABLE_PLUGINS": f"acme-numbers-too,{QUIET}"}
    nacre(fresh, folder, *train, **report, **off)
    found = reports(folder)
    assert {one["from"] for one in found} == {"acme_numbers.at"}
    assert all("acme_loud" not in one["modules"] and "acme_one" in one["modules"] for one in found)
    # the lock
    nacre(fresh, folder, "plugins", "lock", NACRE_DISABLE_PLUGINS=",".join({*BROKEN, *PACKAGES} - {"acme-numbers"}))
    nacre(fresh, folder, *train, "--locked", **report)
    assert {tuple(one["modules"]) for one in reports(folder)} == {("acme_numbers", "acme_numbers.at")}
    # pins
    net = folder / "reading.toml"
    pinned = READING + '[plugins]\npin = { "store:NumbersToo" = "acme-numbers-too" }\n'
    net.write_text(pinned, encoding="utf-8")
    nacre(fresh, folder, *train, **report)
    assert {one["from"] for one in reports(folder)} == {"acme_numbers_too.at"}
    # a file
    (folder / "mine.py").write_text(NUMBERS.replace("Numbers", "Mine"), encoding="utf-8")
    net.write_text(READING.replace('"x.num"', '"x.num"\nstore = "Mine"'), encoding="utf-8")
    nacre(fresh, folder, *train, "--plugin", "mine.py", **report)
    found = reports(folder)
    assert all(one["from"].startswith("nacre_file_mine_") for one in found)
    # the changed module of a locked plugin is not run there either
    net.write_text(READING, encoding="utf-8")
    (module,) = fresh.folder.rglob("acme_numbers/at.py")
    whole = module.read_text(encoding="utf-8")
    try:
        module.write_text(f"{whole}\nopen('mischief', 'w')\n", encoding="utf-8")
        assert "it has changed since" in nacre(fresh, folder, *train, "--locked", code=2)
        assert not (folder / "mischief").exists()
    finally:
        module.write_text(whole, encoding="utf-8")


# Places that are poor


GUARD = """
import os, sys

PREFIX, HOME = os.path.realpath(sys.prefix), os.path.expanduser("~")

def refuse(event, given):
    if event == "open" and isinstance(given[0], str) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        if os.path.realpath(given[0]).startswith(PREFIX):
            raise PermissionError(13, "read-only", given[0])
    if event in ("os.mkdir", "os.rename", "os.remove") and os.path.realpath(os.fsdecode(given[0])).startswith(PREFIX):
        raise PermissionError(13, "read-only", given[0])
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise OSError(101, "no network")

sys.addaudithook(refuse)
"""
NO_NETWORK_AND_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@contextmanager
def poor(fresh: Environment, folder: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield what runs commands without network and home folder, where the installation cannot be written to."""
    guard = folder / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    within = ["unshare", "--map-root-user", "--net", "--mount", "sh", "-c", NO_NETWORK_AND_READ_ONLY, str(fresh.folder)]
    try:
        possible = subprocess.run([*within, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        possible = False
    variables = {"HOME": str(folder / "nowhere"), "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "NACRE_CACHE": ""}
    yield within if possible else [], {**variables, "PYTHONPATH": str(guard)}
    assert not (folder / "nowhere").exists()


def test_nothing_needs_a_home_a_network_or_an_installation_that_can_be_written(
    fresh: Environment, folder: Path
) -> None:
    def contents() -> set[Path]:
        return {path for path in fresh.folder.rglob("*") if "acme" in str(path) or "nacre" in path.name}

    before = contents()
    off = {"NACRE_DISABLE_PLUGINS": f"acme-numbers-too,{QUIET}"}
    with poor(fresh, folder) as (within, variables):
        for code in ("open(sys.prefix + '/acme', 'w')", "socket.create_connection(('127.0.0.1', 9))"):
            done = fresh.run("python", "-c", f"import socket, sys; {code}", folder=folder, within=within, **variables)
            assert "Error: [Errno" in done.stderr  # it is poor
            assert "refused" not in done.stderr
        for words in (
            ("--version",),
            ("layers",),
            ("plugins",),
            ("backends",),
            ("plugins", "lock"),
            ("plugins", "enable", "acme-takes"),
            ("summary", "net.toml"),
            ("explain", "net.toml"),
            ("train", "net.toml"),
            ("train", "reading.toml", "--locked"),
            ("test", "net.toml", "latest"),
            ("predict", "net.toml", "latest", "train.h5"),
            ("new", "layer", "Gain"),
            ("check", "acme-one"),
        ):
            done = fresh.run("nacre", *words, folder=folder, within=within, **variables, **off)
            assert done.returncode == 0, (words, done.stdout + done.stderr)
            if words[0] == "plugins":
                (folder / "nacre.toml").unlink(missing_ok=True)
    assert contents() == before


def test_what_does_not_train_needs_no_plugin_of_the_solver(fresh: Environment, folder: Path) -> None:
    net = folder / "net.toml"
    text = NET.replace('type = "SGD"', 'type = "Lyon"') + '[[callback]]\ntype = "Tell"\n'
    net.write_text(text, encoding="utf-8")
    nacre(fresh, folder, "train", "net.toml")
    alone = {"NACRE_NO_PLUGINS": "1"}
    nacre(fresh, folder, "test", "net.toml", "latest", **alone)
    nacre(fresh, folder, "predict", "net.toml", "latest", "train.h5", **alone)
    nacre(fresh, folder, "summary", "net.toml", **alone)
    nacre(fresh, folder, "graph", "net.toml", "--out", "net.svg", **alone)
    told = nacre(fresh, folder, "train", "net.toml", code=2, **alone)
    assert "no solver 'Lyon'" in told
    assert "no callback 'Tell'" in told
