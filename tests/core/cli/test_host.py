"""What works whatever is installed: the doctor, `nacre check`, nets without their solver's plugins, no home folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import NET, SCRIPT, run
from nacre import DataError
from nacre.config import load
from nacre.discovery.settings import settings
from nacre.testing.plugin import FakeDistribution
from registries import NewRegistry

HOOKS = "from nacre.hooks import hookimpl\nnacre_api = '1'\n"
Install = Callable[..., Path]


@pytest.fixture
def install(fake_distribution: FakeDistribution) -> Install:
    """Write a distribution to a folder of `sys.path`; its light module has its name."""

    def make(name: str, text: str, version: str = "1.0", site: str = "site") -> Path:
        return fake_distribution({f"{name}.py": text}, {name: name}, version=version, folder=site)

    return make


def offering(hook: str, offers: str, before: str = "") -> str:
    return f"{HOOKS}{before}\n@hookimpl\ndef {hook}():\n    return {offers}\n"


# The doctor


def test_where_nothing_is_odd(install: Install) -> None:
    install("calm", offering("offer_layers", "{'Calm': 'calm_layers:CalmLayer'}"))
    assert run("plugins", "doctor").out.splitlines()[-1] == "nothing odd was found"
    assert run("plugins", "doctor", "--json").json == []


def test_everything_that_is_odd_is_found(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("crashes", "import faulthandler\nfaulthandler._sigsegv()\n")
    install("raises", "raise ValueError('bad day')\n")
    install("heavy", offering("offer_layers", "{'Same': 'heavy_layers:X'}", "import numpy"))
    install("empty", offering("offer_layers", "{}"))
    install("other", offering("offer_layers", "{'Same': 'other_layers:X'}"))
    install("fast", offering("offer_kernels", "{('Poolng', 'numpy'): 'fast_kernels:K'}"))
    install("other", offering("offer_layers", "{'Same': 'other_layers:X'}"), "0.9", "behind")
    monkeypatch.setenv("NACRE_DISABLE_PLUGINS", "unheard-of")
    Path("nacre.toml").write_text("[plugins]\nkernels = ['fsat', 'crashes']\npin = { 'layer:Smae' = 'other' }\n")
    done = run("plugins", "doctor", "--json", code=1)
    found = {(one["about"].partition(" ")[0], one["problem"]): one["remedy"] for one in done.json}
    problems = [f"{about}: {problem}" for about, problem in found]
    expected = [
        "unheard-of: unheard-of (switch): NACRE_DISABLE_PLUGINS names 'unheard-of', but no such plugin",
        "crashes: importing it crashed Python: killed by SIGSEGV",
        "raises: raises 1.0 (import): ValueError: bad day",
        "heavy: its light module imports numpy, so that every command of nacre takes longer",
        "empty: it offers nothing",
        "other: it is installed twice: 0.9 in ",
        "settings: kernels has 'fsat', but no such plugin is installed (did you mean 'fast'?)",
        "settings: pin 'layer:Smae' = 'other' has no effect: nobody offers a layer 'Smae' (did you mean 'Same'?)",
        "layer:Same: 'layer:Same' is offered by heavy and other: using this name is an error",
        "fast: the kernel 'Poolng@numpy' of fast 1.0 is never used: nobody offers a layer 'Poolng' (did you mean 'Poo",
    ]
    for one in expected:
        assert any(problem.startswith(one) for problem in problems), (one, problems)
    assert len(found) == len(expected), problems
    assert all(found.values())
    assert "crashes" not in sys.modules
    assert f"{problems[0]}\n  " in run("plugins", "doctor", code=1).out.replace(" 1.0:", ":", 1)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("nacre.toml", "[", "not TOML"),
        ("nacre.lock", "version = 7", "its version is 7, but this nacre reads 1"),
        (
            "nacre.lock",
            "version = 1\n[[distribution]]\nname = 'gone'\nversion = '2.0'\nsha256 = '0'\n",
            "it has gone 2.0, which is not installed",
        ),
    ],
)
def test_files_that_cannot_be_used_are_findings(file: str, text: str, words: str) -> None:
    Path(file).write_text(text)
    found = run("plugins", "doctor", "--json", code=1).json
    assert any(words in one["problem"] for one in found)


@pytest.mark.parametrize("text", [None, "", "Name: odd\n", "\xff"])
def test_metadata_that_cannot_be_read_hurt_only_their_own(install: Install, text: str | None) -> None:
    site = install("odd", offering("offer_layers", "{'Odd': 'odd_layers:X'}"))
    install("calm", offering("offer_layers", "{'Calm': 'calm_layers:X'}"))
    file = site / "odd-1.0.dist-info/METADATA"
    file.unlink() if text is None else file.write_bytes(text.encode("latin-1"))
    found = {one["distribution"]: one for one in run("plugins", "--json").json}
    assert found["calm"]["status"] == "active"
    assert found["odd"]["status"] == "failed"
    assert found["odd"]["remedy"] == "pip install --ignore-installed odd"
    assert any(one["about"] == "odd" for one in run("plugins", "doctor", "--json", code=1).json)
    assert "odd" in run("layers", "Clam", code=2).err


def test_prints_at_import_stay_out_of_json(install: Install) -> None:
    site = install("loud", offering("offer_components", "{'neuron': {'Loud': 'loud_at:Loud'}}", "print('imported')"))
    neuron = "from nacre import Neuron\nclass Loud(Neuron):\n    def forward(self, backend, x, y): ...\n"
    (site / "loud_at.py").write_text(f"print('opened')\n{neuron}    def backward(self, *_): ...\n")
    done = run("layers", "neuron/Loud", "--json")
    assert done.json[0]["name"] == "Loud"
    assert done.err == "imported\nopened\n"


LOUD = """
import ctypes, os, subprocess
os.write(1, b"written\\n")
subprocess.run(["echo", "child"])
ctypes.CDLL(None).printf(b"printed at exit\\n")
print("from Python")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="its C library has no printf by this name")
def test_what_c_code_and_children_print_stays_out_of_json(install: Install, tmp_path: Path) -> None:
    install("loud", offering("offer_components", "{'neuron': {'Loud': 'loud_at:Loud'}}", LOUD))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *sys.path])}

    def process(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*SCRIPT, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = process("plugins", "--json")
    assert done.returncode == 0, done.stderr
    assert "loud" in [one["distribution"] for one in json.loads(done.stdout)]
    assert sorted(done.stderr.splitlines()) == ["child", "from Python", "printed at exit", "written"]
    failed = process("layers", "Nothing", "--json")
    assert (failed.returncode, list(json.loads(failed.stdout))) == (2, ["error", "remedy"])
    assert "printed at exit" in process("plugins").stdout  # a person may see it


# Processes that read

STORE = """
import os
import numpy as np
from nacre import Field, Reader, Store

class Numbers(Store):
    endings = (".num",)

    def open(self, path, fields=()):
        return NumbersReader()

class NumbersReader(Reader):
    count = 4
    fields = {"x": Field((), "float64")}

    def read(self, numbers, out):
        out["x"][:] = NUMBER
"""


def test_processes_that_read_follow_pins_and_switches(
    install: Install, new_registry: NewRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("one", "two")):
        offers = f"{{'store': {{'Numbers': '{name}_store:Numbers'}}}}"
        site = install(name, offering("offer_components", offers))
        (site / f"{name}_store.py").write_text(STORE.replace("NUMBER", f"{number}"))
    Path("x.num").touch()
    data = '[[layer]]\ntype = "Data"\nname = "data"\ntops = ["x"]\nsource = "x.num"\nbatch_size = 4\nprocesses = 1\n'
    pin = '[plugins]\npin = { "store:Numbers" = "two" }\n'

    def read(text: str) -> float:
        Path("read.toml").write_text(text)
        new_registry()
        with load("read.toml").net("test", keep="all") as net:
            net.forward()
            return float(net.blob("x")[0])

    with pytest.raises(DataError, match="several stores read such files: one:Numbers and two:Numbers"):
        read(data)
    assert read(data + pin) == 1
    Path("nacre.toml").write_text(pin)
    assert read(data) == 1
    Path("nacre.toml").unlink()
    monkeypatch.setenv("NACRE_DISABLE_PLUGINS", "two")
    assert read(data) == 0


# For authors


def test_check_names_all_that_is_wrong_with_a_plugin(install: Install) -> None:
    install("heavy", offering("offer_layers", "{'Heavy': 'heavy_layers:X'}", "import numpy, h5py"))
    site = install("sound", offering("offer_layers", "{'Sound': 'sound_layers:SoundLayer'}", "import json"))
    (site / "sound_layers.py").write_text(
        "import numpy\nfrom nacre import Layer, LayerState, Names\n"
        "class SoundLayer(Layer):\n    bottoms: Names\n    tops: Names\n"
        "class SoundState(LayerState, of=SoundLayer): ...\n"
    )
    found = {one["plugin"]: one["problems"] for one in run("check", "--json", code=1).json}
    assert found["sound"] == []
    imports, opens = found["heavy"]
    assert imports.startswith("its light module imports h5py, numpy: every command of nacre would")
    assert "layer 'Heavy' of heavy 1.0 cannot be opened: ModuleNotFoundError: No module named 'heavy_layers'" in opens
    assert run("check", "Sound").code == 0
    assert "imports h5py, numpy" in run("check", "heavy", "sound", code=1).out
    assert "no plugin 'sond' is installed (did you mean 'sound'?)" in run("check", "sond", code=2).err
    assert "nacre summary net.toml makes a net" in run("check", "net.toml", code=2).err


def test_check_takes_files() -> None:
    Path("mine.py").write_text("import numpy\nfrom nacre import Neuron\n\nclass Half(Neuron):\n    pass\n")
    (found,) = run("check", "mine.py", "nope.py", "--json", code=1).json[:1]
    assert (found["plugin"], found["offers"]) == ("mine", 1)
    (problem,) = found["problems"]
    assert "neuron 'Half' of mine cannot be opened: Half does not define forward and backward, but a neuron" in problem
    assert "nope.py: no such file" in run("check", "nope.py", code=1).out


def test_nacres_own_plugins_pass() -> None:
    assert all(one["problems"] == [] for one in run("check", "nacre", "--json").json)


# Nets whose solver and callbacks are not installed


def test_what_does_not_train_needs_no_plugin_of_the_solver(trained: Path) -> None:
    text = NET.replace('type = "SGD"', 'type = "Lyon"\nalgorithm = "Twice"').replace('"TrainingSummary"', '"Nowhere"')
    text = text.replace("lr_policy = 0.1", 'lr_policy = "Odd"').replace("every_n_iter = 30", "odd = 30")
    Path("small.toml").write_text(text, encoding="utf-8")
    tested = run("test", "small.toml", "latest", "--json").json
    assert tested["iterations"] == 60
    assert len(run("predict", "small.toml", trained, "test.h5", "--json").json) == 27
    assert "ip1" in run("summary", "small.toml").out
    run("graph", "small.toml", "--out", "x.svg")
    told = run("train", "small.toml", code=2).err
    assert "no solver 'Lyon'" in told and "no callback 'Nowhere'" in told


def homeless(path: Path) -> Path:
    """What `expanduser` does for a user without a home folder."""
    if path.parts[:1] == ("~",):
        raise RuntimeError("Could not determine home directory.")
    return path


# A user without a home, and an installation that cannot be written


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert settings().kernels == ()
    assert run("layers", "Pooling").code == 0
    assert run("train", "small.toml", "--set", "solver.max_iter=1").code == 0
    Path("nacre.toml").write_text('allow_writes = ["~/here"]\n')
    assert "allow_writes has '~/here', which is relative" in run("summary", "small.toml", code=2).err
    Path("nacre.toml").write_text('allow_writes = ["/tmp"]\n')
    assert "into your own settings file or train with --allow-writes DIR" in run("summary", "small.toml", code=2).err


def test_a_remote_file_without_a_home_folder_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from nacre.errors import ConfigError
    from nacre.files.remote import folder

    for name in ("NACRE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(ConfigError, match="the home folder is not known") as caught:
        folder()
    assert caught.value.remedy == "set NACRE_CACHE to a folder"
