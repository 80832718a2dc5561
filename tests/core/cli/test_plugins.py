"""`nacre plugins`: enabling a distribution, and finding the plugin that crashes or hangs nacre."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from nacre import ConfigError, RegistryError
from nacre.discovery.discovery import find_plugins
from nacre.discovery.isolate import tried
from nacre.discovery.settings import disable, enable, pin, settings
from nacre.testing.plugin import FakeDistribution
from registries import NewRegistry

GOOD = 'from nacre.hooks import hookimpl\nnacre_api = "1"\n@hookimpl\ndef offer_layers():\n    return {"Calm": "c:C"}\n'
FAULTS = {
    "crashes": ("import faulthandler\nfaulthandler._sigsegv()\n", "killed by SIGSEGV", "crashes_light.py"),
    "hangs": ("while True: pass\n", "not finished after 3 s", ""),
    "exits": ("import os\nos._exit(3)\n", "ended Python with exit code 3", ""),
    "leaves": ("import os\nos._exit(0)\n", "ended Python with exit code 0", ""),
    "raises": ("print('noise')\nraise BaseException('panicked')\n", "panicked", "raises_light.py:2"),
}

Install = Callable[[str, str], None]


@pytest.fixture
def install(fake_distribution: FakeDistribution) -> Install:
    def make(name: str, text: str) -> None:
        module = f"{name.replace('-', '_')}_light"
        fake_distribution({f"{module}.py": text}, {name: module}, folder="site")

    return make


# Alone


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plugin_by_itself_is_named_with_what_it_does(install: Install, fault: str) -> None:
    text, words, place = FAULTS[fault]
    install(fault, text)
    (plugin,) = [one for one in find_plugins(None)[0] if one.name == fault]
    trial = tried(plugin, 3 if fault == "hangs" else 300)
    assert words in trial.problem and place in trial.problem
    assert f"NACRE_DISABLE_PLUGINS={fault}" in trial.remedy
    assert f"{fault}_light" not in sys.modules


@pytest.fixture
def one_crashes(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("calm", GOOD + "print('noise')\n")
    install("crashes", FAULTS["crashes"][0])
    install("off", FAULTS["crashes"][0])
    monkeypatch.setenv("NACRE_DISABLE_PLUGINS", "off")


@pytest.mark.usefixtures("one_crashes")
def test_isolate_tries_all_and_blames_one() -> None:
    told = {one["distribution"]: one for one in run("plugins", "--isolate", "--json", code=1).json}
    assert [name for name, one in told.items() if one["problem"]] == ["crashes"]
    assert told["calm"]["offers"] == 1
    assert "off" not in told


@pytest.mark.long
@pytest.mark.usefixtures("one_crashes")
def test_isolate_prints_who_is_to_blame() -> None:
    assert "crashes 1.0: importing it crashed Python: killed by SIGSEGV" in run("plugins", "--isolate", code=1).out


def process(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_a_crash_at_import_prints_the_module(install: Install) -> None:
    install("crashes", FAULTS["crashes"][0])
    done = process("import nacre; nacre.registry().names('layer')")
    assert done.returncode < 0
    assert 'crashes_light.py", line 2' in done.stderr


def test_what_takes_long_at_import_is_shown_and_goes_on(install: Install) -> None:
    # It waits until the stack is printed to its end, not for a time.
    install("slow", "import os\nos.read(0, 1)\n" + GOOD)
    code = "import nacre; from nacre.discovery import discovery; discovery.PATIENCE = 0.1"
    code += "; print(nacre.registry().names('layer').count('Calm'))"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], **pipes, text=True, env=environment) as process:
        assert process.stderr is not None
        shown = ""
        while "os.read" not in shown and (line := process.stderr.readline()):
            shown += line
        out, _ = process.communicate("go on")
    assert "importing slow 1.0 (slow_light) takes longer than 0.1 s" in shown and "slow_light.py" in shown
    assert (process.returncode, out.strip()) == (0, "1")


@pytest.mark.parametrize("before", ["sys.stderr.close()", "sys.stderr = None", "import io; sys.stderr = io.StringIO()"])
def test_where_nothing_can_be_printed_plugins_work(before: str) -> None:
    done = process(f"import sys; {before}; import nacre; print('Pooling' in nacre.registry().names('layer'))")
    assert done.stdout.strip() == "True"


def test_faulthandler_is_left_as_it_was() -> None:
    code = "import faulthandler, nacre; {}; nacre.registry().names('layer'); print(faulthandler.is_enabled())"
    assert process(code.format("pass")).stdout.strip() == "False"
    assert process(code.format("faulthandler.enable()")).stdout.strip() == "True"


def test_the_timer_of_faulthandler_is_left_to_the_program() -> None:
    code = "import faulthandler as f; f.dump_traceback_later = f.cancel_dump_traceback_later = None; import nacre"
    done = process(f"{code}; print('Pooling' in nacre.registry().names('layer'))")
    assert (done.stdout.strip(), done.stderr) == ("True", "")


# Enabling


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only words",
        'backend = "numpy"',
        "[plugins]",
        '[plugins] # mine\r\npin = { "layer:A" = "b" }\r\n',
        "[plugins.pin]\n'layer:A' = 'b'\n",
        "[plugins]\nkernels = []\n",
        "[plugins]\nkernels = [ # theirs\n  'other-one', # why\n]\n",
        "plugins = { pin = {} }\n",
        "plugins = {}\n",
        "plugins = { kernels = ['other-one'] }\n",
        "plugins.pin = {} # dotted\nbackend = 'numpy'\n",
        "plugins.kernels = ['other-one']\n",
        '\ufeffbackend = "kernels = ["\n[ plugins ]\n"kernels" = ["other-one", "more"]',
        'backend = """\n[plugins]\nkernels = [\n"""\n',
    ],
)
def test_enabling_changes_nothing_else(empty: Path, text: str) -> None:
    file = Path("nacre.toml")
    file.write_bytes(text.encode())
    before = settings()
    assert enable("nacre-fast")
    after = settings()
    assert after.kernels == ("nacre-fast", *before.kernels)
    assert (after.backend, after.pins) == (before.backend, before.pins)
    written = file.read_bytes().decode()
    rest = iter(written)
    assert all(letter in rest for letter in text)  # all that was there, in its order
    if "\r\n" in text:
        assert written.count("\n") == written.count("\r\n")
    assert not enable("nacre-fast")
    assert file.read_bytes().decode() == written
    assert disable("nacre-fast")
    assert settings() == before
    rest = iter(file.read_bytes().decode())
    assert all(letter in rest for letter in text)
    assert not disable("nacre-fast")


def test_enabling_writes_into_the_file_behind_a_link(empty: Path) -> None:
    Path("real.toml").write_text('backend = "numpy"\n')
    Path("nacre.toml").symlink_to("real.toml")
    enable("nacre-fast")
    assert Path("nacre.toml").is_symlink()
    assert tomllib.loads(Path("real.toml").read_text())["plugins"] == {"kernels": ["nacre-fast"]}


def test_a_file_that_cannot_be_read_stays(empty: Path) -> None:
    Path("nacre.toml").write_text("[")
    with pytest.raises(ConfigError, match="not TOML"):
        enable("nacre-fast")
    assert Path("nacre.toml").read_text() == "["


def test_the_command_enables_what_is_installed_even_if_it_is_broken(empty: Path, install: Install) -> None:
    install("nacre-fast", "1 / 0")
    assert run("plugins", "enable", "Nacre_Fast").out == "nacre.toml: nacre-fast is now enabled in this folder\n"
    assert run("plugins", "enable", "nacre-fast").out == "nacre.toml: nacre-fast is already enabled\n"
    assert settings().kernels == ("nacre-fast",)
    told = run("plugins", "enable", "nacre-fats", code=2).err
    assert "no plugin 'nacre-fats' is installed (did you mean 'nacre-fast'?)" in told
    assert "no plugin 'nacre' is installed" in run("plugins", "enable", "nacre", code=2).err
    assert run("plugins", "disable", "Nacre_Fast").out == "nacre.toml: nacre-fast is not enabled any more\n"
    assert settings().kernels == ()
    assert run("plugins", "disable", "nacre-fast").out == "nacre.toml: nacre-fast is not enabled in this folder\n"


@pytest.mark.parametrize(
    "text",
    [
        "[plugins]\nkernels = ['a', \"Nacre_Fast\", 'b'] # mine\n",
        "[plugins]\nkernels = [\n  'a', # first\n  'nacre-fast',\n  'b',\n]\n",
        "plugins = { kernels = [ 'a','nacre-fast' ] }\n",
        'backend = "nacre-fast"\nplugins.kernels = ["nacre-fast", "a"]\n',
    ],
)
def test_disabling_changes_nothing_else(empty: Path, text: str) -> None:
    Path("nacre.toml").write_text(text)
    before = tomllib.loads(text)
    assert disable("nacre-fast")
    kernels = before["plugins"]["kernels"]
    before["plugins"]["kernels"] = [name for name in kernels if name not in ("Nacre_Fast", "nacre-fast")]
    assert tomllib.loads(Path("nacre.toml").read_text()) == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[plugins]",
        "[plugins] # mine\r\nkernels = ['a']\r\n",
        "[plugins]\npin = { 'layer:A' = 'one' }\n",
        "[plugins.pin]\n'layer:A' = 'one'\n",
        "[plugins]\npin.'layer:A' = 'one'\n",
        "plugins.pin.'layer:A' = 'one'\n",
        "plugins = { kernels = ['a'], pin = { 'layer:A' = 'one' } }\n",
        "plugins = {}\n",
        "[ plugins . pin ] # pins\n",
        'backend = "numpy"\n\n[plugins.pin]\n"layer:A" = "one"',
    ],
)
def test_pinning_changes_nothing_else(empty: Path, text: str) -> None:
    file = Path("nacre.toml")
    file.write_bytes(text.encode())
    before = settings()
    pin("layer:Gain", "acme")
    assert settings() == replace(before, pins={**before.pins, "layer:Gain": "acme"})
    rest = iter(file.read_bytes().decode())
    assert all(letter in rest for letter in text)


OFFERING = GOOD.replace('"Calm": "c:C"', '"Calm": "c:C", "Pooling": "c:P"')


def test_lock_pins_names_that_two_offer(empty: Path, install: Install, new_registry: NewRegistry) -> None:
    install("two", OFFERING)
    install("one", OFFERING)
    for name in ("broken", "off"):
        install(name, "1 / 0")
    os.environ |= {"NACRE_ALLOW_EDITABLE": "1", "NACRE_DISABLE_PLUGINS": "off"}
    for folder in (empty.parent / "site").glob("*.dist-info"):
        (folder / "RECORD").write_text("light.dat,sha256=x,1\n")
    registry = new_registry()
    with pytest.raises(RegistryError, match=r"layer 'Calm' is offered by one 1\.0 and two 1\.0"):
        registry.find("layer", "Calm")
    try:
        told = run("plugins", "lock").out
        again = run("plugins", "lock").out
    finally:
        del os.environ["NACRE_ALLOW_EDITABLE"], os.environ["NACRE_DISABLE_PLUGINS"]
    assert "nacre.toml: pin 'layer:Calm' = 'one', because two offers it too: change it if needed\n" in told
    assert "pin" not in again
    assert settings().pins == {"layer:Calm": "one"}  # Pooling is nacre's
    assert registry.find("layer", "Calm").distribution == "one"


# What is there and not enabled


KERNEL = """
from nacre.hooks import hookimpl
nacre_api = "1"

@hookimpl
def offer_kernels():
    return {("Dropout", "numpy"): "fast_kernels:Kernel", ("regularizer/L1", "numpy"): "fast_kernels:Kernel"}
"""


def test_train_and_explain_tell_what_is_not_enabled(install: Install, new_registry: NewRegistry) -> None:
    install("fast", KERNEL)
    new_registry()
    line = "kernels that are installed but not enabled: fast 1.0 for Dropout (nacre plugins enable NAME)"
    short = ("--set", "solver.max_iter=1")
    assert run("train", "small.toml", *short).out.splitlines()[1] == line
    assert line not in run("train", "small.toml", *short, "--json").out
    told = run("explain", "small.toml", "--json").json["layers"]
    (other,) = next(one for one in told if one["name"] == "drop1")["not_enabled"]
    assert other["kernel"] == "fast_kernels:Kernel" and "nacre plugins enable fast" in other["reason"]
    assert "  not enabled: fast_kernels:Kernel (fast 1.0): to enable it: " in run("explain", "small.toml").out
    assert "fast_kernels" not in sys.modules
    enable("fast")
    told = run("explain", "small.toml", "--json").json["layers"]
    (declined,) = next(one for one in told if one["name"] == "drop1")["declined"]
    assert "No module named 'fast_kernels'" in declined["reason"]
    assert line not in run("train", "small.toml", *short).out


@pytest.mark.long
def test_json_is_json_though_plugins_print_at_isolation(install: Install) -> None:
    install("loud", GOOD + "print('noise')\n")
    assert json.loads(run("plugins", "--isolate", "--json").out)


def test_a_command_that_panics_is_a_sentence(install: Install, new_registry: NewRegistry) -> None:
    def panics() -> None:
        raise BaseException("panicked")

    new_registry().register(panics, "panics", "command")
    assert "panics raised BaseException: panicked" in run("panics", code=1).err
