"""The command itself: help, errors and exit codes, plugins, and what it does not import."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from importlib_metadata import EntryPoint

import nacre.discovery.registry
from command_line import run
from nacre.cli.app import COMMANDS
from nacre.cli.screen import command_line
from registries import NewRegistry, install_plugin

OFFERED = ("data", "demo", "gradcheck", "graph", "new", "plot", "sample", "summary", "time")
"""Commands of nacre's own plugins."""
LIGHT = """
import sys
from nacre.cli import main
sys.argv = {argv!r}
try:
    main()
finally:
    print(sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "argv", [["nacre", "--help"], ["nacre", "train", "--help"], ["nacre", "layers"], ["nacre", "plugins", "--json"]]
)
def test_looking_around_imports_nothing_heavy(argv: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT.format(argv=argv)], capture_output=True, text=True, check=True)
    modules = done.stderr.splitlines()[-1]
    assert "'click'" in modules
    for heavy in ("numpy", "h5py", "rich", "matplotlib", "nacre.net", "nacre_layers.convolution"):
        assert f"'{heavy}'" not in modules, heavy


def test_the_script_ends_with_the_exit_code() -> None:
    script = [sys.executable, "-c", "from nacre.cli import main; main()"]
    done = subprocess.run([*script, "summary", "no.toml", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.count("\n") == 1  # programs read the last line
    told = json.loads(done.stdout)
    assert (told["error"], list(told)) == ("no.toml: no such file", ["error", "remedy"])
    assert str(Path.cwd()) in told["remedy"]
    done = subprocess.run([*script, "summary", "smal.toml"], capture_output=True, text=True, check=False)
    assert "did you mean small.toml?" in done.stderr
    done = subprocess.run([*script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"nacre {nacre.__version__}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has this device")
def test_output_that_cannot_be_printed_is_told_once() -> None:
    told = "standard output cannot be written: No space left on device"
    script = [sys.executable, "-c", "from nacre.cli import main; main()"]
    for command, unbuffered in ((["layers"], ""), (["layers"], "1"), (["layers", "--json"], ""), (["--help"], "")):
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([*script, *command], stdout=full, stderr=subprocess.PIPE, text=True, env=env)
        assert (done.returncode, done.stderr) == (2, f"error: {told}\n  free some space, or use another place\n")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*script, "layers"], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_what_the_encoding_of_stdout_lacks_is_printed_as_it_can() -> None:
    """Into a file, Windows prints in an encoding of its own; letters that it lacks ended a command with an error."""
    script = [sys.executable, "-c", "from nacre.cli import main; main()"]
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}

    def printed(*command: str) -> str:
        done = subprocess.run([*script, *command], env=environment, capture_output=True, check=True)
        return done.stdout.decode("cp1252")

    assert "log softmax(x)[label] = x[label] - log ? exp(x)" in " ".join(printed("layers", "SoftmaxLoss").split())
    assert "\\u03a3 exp(x)" in printed("layers", "SoftmaxLoss", "--json")


def test_commands_are_named_as_they_can_be_typed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, link, elsewhere = folder / ".venv" / "bin" / "nacre", folder / "on path" / "nacre", folder / "other"
    for path in (script, elsewhere / "nacre"):
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    link.parent.mkdir()
    link.symlink_to(script)
    monkeypatch.setattr(sys, "argv", [str(script)])
    for search, typed in (
        (script.parent, "nacre"),
        (link.parent, "nacre"),
        (folder / "none", ".venv/bin/nacre"),
        (elsewhere, ".venv/bin/nacre"),
    ):
        monkeypatch.setenv("PATH", str(search))
        assert command_line("test", "a b.toml") == f"{typed} test 'a b.toml'"
    monkeypatch.chdir(elsewhere)
    assert command_line("test") == f"{script} test"
    monkeypatch.chdir(script.parent)
    assert command_line("test") == "./nacre test"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert command_line("test") == "nacre test"


def test_nacre_is_a_module_that_python_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "nacre", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("nacre ")
    monkeypatch.setattr(sys, "argv", [str(Path(nacre.__file__).parent / "__main__.py")])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/my python")
    assert command_line("test", "a b.toml") == "'/my python' -m nacre test 'a b.toml'"
    monkeypatch.setenv("NACRE_CALLED", "/usr/bin/nacre")  # in a rank, which is started so
    assert command_line("test") == "/usr/bin/nacre test"


def test_no_file_name_gives_orders_to_a_terminal() -> None:
    assert run("summary", "\x1b[31mred.toml", code=2).err.startswith("error: \\x1b[31mred.toml: no such file\n")


def test_a_plugin_file_that_is_not_there_or_offers_nothing() -> None:
    assert run("layers", "--plugin", "nope.py", code=2).err.startswith("error: nope.py: no such file\n")
    assert run("layers", "--plugin", ".", code=2).err.startswith("error: .: not a file\n")
    Path("nothing.py").write_text("x = 1\n")
    assert run("layers", "--plugin", "nothing.py").err.startswith("warning: --plugin nothing.py offers nothing: ")
    Path("itself.py").write_text(
        "import nacre\n\n@nacre.register\nclass Twice(nacre.Neuron):\n    pass\n\n"
        "class Thrice(nacre.Neuron):\n    pass\n"
    )
    Path("only.py").write_text(
        "import nacre\n\nnacre.register(type('One', (nacre.Neuron,), {'__module__': __name__}))\n"
    )
    Path("class.py").write_text("from nacre import Neuron\n\nclass Four(Neuron):\n    pass\n")
    for name in ("itself.py", "only.py", "class.py"):
        assert run("layers", "--plugin", name).err == ""


def test_help_lists_every_command_in_a_line() -> None:
    for out in (run("--help").out, run().out):
        lines = [line.split(maxsplit=1) for line in out.partition("Commands:")[2].splitlines() if line.strip()]
        assert [name for name, _ in lines] == [*COMMANDS, *OFFERED]
        assert all(text.endswith(".") for _, text in lines)


@pytest.mark.parametrize("name", [*COMMANDS, *OFFERED])
def test_every_command_has_help(name: str) -> None:
    out = run(name, "--help").out
    for option in ("--plugin", "--debug"):
        assert option in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["trian"], "there is no command 'trian' (did you mean 'train'?)"),
        (["train"], "Missing argument 'NET.toml'."),
        (["train", "small.toml", "--sed", "3"], "No such option"),  # versions of click go on otherwise
        (["test", "small.toml", "x", "--phase", "predict"], "Invalid value for '--phase'"),
        (["summary", "no.toml"], "no.toml: no such file"),
        (["summary", "."], ".: not a file"),
        (["summary", "small.toml", "--backend", "metal"], "no backend 'metal'"),
        (["summary", "small.toml", "--set", "layer.ip1.output=3"], "small.toml: ip1: unknown field 'output'"),
        (
            ["summary", "small.toml", "--set", "layer.ip1.bottoms=dta"],
            "reads blob 'dta', which no layer writes (did you",
        ),
        (["summary", "small.toml", "--set", 'layer.ip1.bottoms=["ip2"]'], "wait for each other's blobs"),
        (["summary", "small.toml", "--set", 'layer.train.source=["no.h5"]'], "no.h5"),
        (["summary", "small.toml", "--plugin", "no.py"], "no.py"),
        (["--plugin", "no.py", "layers"], "no.py"),
        (["layers", "Convolutoin"], "'Convolutoin' (did you mean 'Convolution'?)"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], error: str) -> None:
    done = run(*arguments, code=2)
    assert done.err.startswith("error: ")
    assert error in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    as_json = run(*arguments, "--json", code=2)
    told = json.loads(as_json.out)
    assert error in told["error"]
    assert as_json.out.count("\n") == 1
    assert isinstance(told["remedy"], str)
    if "no " in error or "unknown" in error:  # an unknown name, a missing file: there is always something to do
        assert told["remedy"], told["error"]
    assert set(told) == {"error", "remedy"}
    assert as_json.err == ""


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in run("summary", "no.toml", "--debug", code=2).err
    assert "Traceback" in run("--debug", "summary", "no.toml", code=2).err


def test_a_bug_is_told_apart_and_placed() -> None:
    Path("buggy.py").write_text(
        "from nacre import Layer, Names\n"
        "class BuggyLayer(Layer):\n"
        "    bottoms: Names\n"
        "    tops: Names\n"
        "    def setup(self, backend, inputs, diffs):\n"
        "        return 1 / 0\n"
    )
    change = ("--set", "layer.ip1.type=Buggy", "--plugin", "buggy.py")
    Path("buggy.toml").write_text(
        '[[layer]]\ntype = "Input"\n[[layer]]\ntype = "Buggy"\nbottoms = "data"\ntops = "x"\n'
    )
    done = run("summary", "buggy.toml", *change[2:], code=1)
    assert done.err.startswith("error: layer 'x' (Buggy of buggy): setup raised ZeroDivisionError: division by zero [")
    assert "buggy.py:6]" in done.err


def test_a_file_is_a_plugin_wherever_the_option_stands() -> None:
    Path("mine.py").write_text(
        "from nacre import Neuron\n"
        "class Twice(Neuron):\n"
        '    """f(x) = 2x."""\n'
        "    def forward(self, backend, x, y):\n"
        "        backend.xp.multiply(x, 2, out=y)\n"
        "    def backward(self, backend, x, y, dy, dx):\n"
        "        backend.xp.multiply(dy, 2, out=dx)\n"
    )
    change = ("summary", "small.toml", "--set", "layer.ip1.neuron=Twice", "--json")
    assert run(*change, "--plugin", "mine.py").json["layers"][1]["neuron"] == "Twice"
    assert run("--plugin", "mine.py", *change).json["layers"][1]["neuron"] == "Twice"


def test_a_file_that_is_switched_off_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("lay.py").write_text("raise ValueError('imported')\n")
    monkeypatch.setenv("NACRE_DISABLE_PLUGINS", "lay")
    done = run("summary", "small.toml", "--plugin", "lay.py")
    assert done.err == "warning: --plugin lay.py is not used: disabled: NACRE_DISABLE_PLUGINS\n"
    error = run("layers", "Lay", "--plugin", "lay.py", code=2).err
    assert "lay is disabled: NACRE_DISABLE_PLUGINS" in error


def test_commands_of_plugins_are_listed_without_being_imported() -> None:
    here = nacre.discovery.registry.registry()

    @click.command()
    @click.argument("what")
    def greet(what: str) -> None:
        click.echo(f"hello {what}")

    here.register(greet, "greet", "command", "acme-greet")
    here.register(lambda: click.echo("mine"), "train", "command", "acme-greet")
    here.register(lambda: click.echo("plain"), "plain", "command", "acme-greet")
    out = run("--help").out.partition("Commands of plugins:")[2]
    assert [line.split() for line in out.splitlines() if line] == [
        ["acme-greet:train", "from", "acme-greet"],
        ["greet", "from", "acme-greet"],
        ["plain", "from", "acme-greet"],
    ]
    assert run("greet", "you").out == "hello you\n"
    assert run("plain").out == "plain\n"
    assert run("acme-greet:train").out == "mine\n"
    assert "NET.toml" in run("train", "--help").out


def test_commands_of_plugins_take_a_file_as_a_plugin(tmp_path: Path, new_registry: NewRegistry) -> None:
    @click.command()
    @click.option("--debug", is_flag=True)
    def greet(debug: bool) -> None:
        click.echo(f"{debug} {'Mine' in here.names('layer')}")

    here = new_registry()
    here.register(greet, "greet", "command", "acme-greet")
    here.register(lambda: click.echo("plain"), "plain", "command", "acme-greet")
    (tmp_path / "mine.py").write_text(
        "from nacre import Layer, Names\n\n\nclass MineLayer(Layer):\n    bottoms: Names\n    tops: Names\n"
    )
    assert run("greet", "--debug", "--plugin", tmp_path / "mine.py").out == "True True\n"
    assert run("plain", "--plugin", tmp_path / "mine.py", "--debug").out == "plain\n"
    assert "--plugin FILE" in run("greet", "--help").out and len(greet.params) == 1


def test_without_the_plugin_of_commands_the_core_has_its_own(
    monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry
) -> None:
    monkeypatch.setenv("NACRE_NO_PLUGINS", "1")
    assert "Commands of plugins" not in run("--help").out
    assert run("summary", "small.toml").out
    monkeypatch.setenv("NACRE_DISABLE_PLUGINS", "nacre-commands")
    new_registry()
    names = [line.split()[0] for line in run("--help").out.partition("Commands:")[2].splitlines() if line.strip()]
    assert names == [*COMMANDS, "data", "plot"]  # which come with the layers of data and the solvers
    error = run("summary", "small.toml", code=2).err
    assert "there is no command 'summary'\n" in error
    assert "nacre:nacre-commands is disabled: NACRE_DISABLE_PLUGINS" in error
    assert run("train", "small.toml", "--set", "solver.max_iter=1").out


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise ValueError('torn')", "cannot be opened: ValueError: torn ["),
        ("raise SystemExit(7)", "cannot be opened: SystemExit: 7 ["),
        ("import no_such_package", "cannot be used here: it needs the package 'no_such_package'"),
        ("other = 1", "cannot be opened: AttributeError: "),
        ("command = 1", "must be a click command, but is 1"),
        ("from math import sin as command", "torn_module:command needs arguments (x), so it must be a click command"),
        ("command = min", "must be a click command, but is <built-in function min>"),
    ],
)
def test_a_command_that_cannot_be_opened_is_told_in_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: str
) -> None:
    (folder / "torn_module.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    for distribution in ("acme", "nacre"):
        offered = [("command", f"torn-{distribution}", "torn_module:command")]
        install_plugin(nacre.discovery.registry.registry(), distribution, offered)
        done = run(f"torn-{distribution}", code=2)
        assert error in done.err and "Traceback" not in done.err
        assert done.err.startswith(f"error: command 'torn-{distribution}' of {distribution} 1.0")
        sys.modules.pop("torn_module", None)
    own, _, others = run("--help").out.partition("Commands of plugins:")
    assert "torn-nacre cannot be used: `nacre torn-nacre` " in " ".join(own.split())
    assert others.split() == ["torn-acme", "from", "acme", "1.0"]
    sys.modules.pop("torn_module", None)


def test_a_plugin_of_commands_that_cannot_be_imported_is_named(new_registry: NewRegistry) -> None:
    new_registry(entry_points=[EntryPoint("acme", "no_such_module", "nacre.plugins")])
    error = run("summary", "small.toml", code=2).err
    assert error.startswith("error: there is no command 'summary'\n  `nacre --help` lists the commands\n  failed: ")
    assert "no_such_module" in error


def test_the_door_for_authors_of_commands_has_every_name_that_it_says() -> None:
    import nacre.cli

    assert [name for name in nacre.cli.__all__ if not callable(getattr(nacre.cli, name))] == []
    source = ast.parse(Path(nacre.cli.__file__).read_text(encoding="utf-8"))
    (typed,) = [node for node in source.body if isinstance(node, ast.If)]
    names = [alias.name for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted([*names, "main"]) == sorted(nacre.cli.__all__)
    page = (Path(__file__).resolve().parents[3] / "docs/writing-a-command.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []


def test_an_option_of_another_command_is_told_whose_it_is() -> None:
    told = run("predict", "small.toml", "--workers", "2", code=2).err
    assert "\n  --workers is an option of nacre train; nacre predict --help shows" in told


@pytest.mark.parametrize(
    ("option", "key"), [("--iter", "max_iter"), ("--max-epoch", "max_epoch"), ("--lr", "lr_policy"), ("--bakend", "")]
)
def test_an_option_for_a_field_of_the_solver_is_told_as_set(option: str, key: str) -> None:
    told = run("train", "small.toml", option, "5", code=2).err
    assert f"\n  {f'write --set solver.{key}=...; ' if key else ''}nacre train --help shows" in told
