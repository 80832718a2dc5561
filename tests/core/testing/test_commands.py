"""CommandTests pass what keeps its promises, and find what breaks one; check_plugin tells all that is wrong."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from nacre import DataError
from nacre.testing import CommandTests as CommandSuite
from nacre.testing import check_plugin
from nacre.testing.plugin import FakeDistribution
from registries import NewRegistry
from run_suite import failures

BROKEN: dict[str, tuple[Any, str, str]] = {}


def counted(file: Path) -> int:
    """Return the number of lines of a file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: it cannot be read") from error
    return len(text.splitlines())


def shown(number: int, as_json: bool) -> None:
    click.echo(json.dumps({"lines": number}) if as_json else f"{number} lines")


def broken(check: str, words: str, text: str = "Count the lines of a file.", **option: Any) -> Callable[[Any], Any]:
    """Note a wrong command, the check that must find it, and what that says."""

    def note(function: Any) -> Any:
        made = click.option("--json", "as_json", is_flag=True, **{"help": "Print JSON.", **option})(function)
        made = click.argument("file", type=click.Path(path_type=Path))(made)
        BROKEN[function.__name__] = click.command(help=text)(made), f"test_{check}", words
        return function

    return note


@broken("", "")
def good(file: Path, as_json: bool) -> None:
    shown(counted(file), as_json)


@broken("help", "does not say what it does", text="")
def says_nothing(file: Path, as_json: bool) -> None:
    shown(counted(file), as_json)


@broken("help", "the option --json has no help", help=None)
def has_an_option_without_help(file: Path, as_json: bool) -> None:
    shown(counted(file), as_json)


@broken("runs", "exit code 3")
def ends_badly(file: Path, as_json: bool) -> int:
    shown(counted(file), as_json)
    return 0 if as_json else 3


@broken("runs", "it changes lines.txt, which it only has to read")
def writes_into_its_input(file: Path, as_json: bool) -> None:
    shown(counted(file), as_json)
    file.write_text("read\n", encoding="utf-8")


@broken("json", "with --json it prints what is no JSON")
def prints_besides(file: Path, as_json: bool) -> None:
    click.echo("counting ...")
    shown(counted(file), as_json)


@broken("odd_files", "it ends in no sentence of its own")
def believes_files(file: Path, as_json: bool) -> None:
    shown(len(file.read_bytes().decode().splitlines()), as_json)


@broken("odd_files", "where lines.txt is gone the exit code is 0")
def takes_what_is_not_there(file: Path, as_json: bool) -> None:
    shown(counted(file) if file.exists() else 0, as_json)


@broken("writes_in_its_folder_only", "it leaves .* outside of the working folder")
def leaves_a_file(file: Path, as_json: bool) -> None:
    shown(counted(file), as_json)
    with tempfile.NamedTemporaryFile(delete=False) as left:
        left.write(b"notes")


@broken("without_home", "without a home folder the exit code is")
def needs_a_home(file: Path, as_json: bool) -> None:
    if not Path(os.environ.get("HOME", "")).is_dir():
        raise DataError("there is no home folder")
    shown(counted(file), as_json)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(
    name: str, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry, tmp_path: Path
) -> None:
    made, check, words = BROKEN[name]
    new_registry()
    called = name.replace("_", "-")

    class Suite(CommandSuite):
        command = made
        name = called

        def arguments(self, folder: Path) -> Sequence[str]:
            (folder / "lines.txt").write_text("one\ntwo\n", encoding="utf-8")
            return ["lines.txt"]

    monkeypatch.setenv("HOME", str(tmp_path))
    found: dict[str, Exception] = {}
    with_patch = {"test_writes_in_its_folder_only", "test_without_home"}
    found |= failures(Suite, without=with_patch)
    for test in sorted(with_patch):
        (tmp_path / test).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            try:
                getattr(Suite(), test)(tmp_path / test, patch)
            except Exception as error:
                found[test] = error
    if not words:
        assert found == {}
        return
    assert check in found, f"{name} is not found by {check}, but by {found}"
    with pytest.raises(AssertionError, match=words):
        raise found[check]
    assert len(found) <= 4, f"{name} is found by {sorted(found)}"


def test_check_plugin_tells_all_that_is_wrong(fake_distribution: FakeDistribution) -> None:
    light = "import h5py\nfrom nacre import hookimpl\nnacre_api = '1'\n\n@hookimpl\ndef offer_layers():\n    return "
    light += "{'Odd': 'nacre_odd_layers:OddLayer', 'Gone': 'nacre_gone:X'}\n"
    layers = "from nacre import Layer, LayerState, Names\nclass OddLayer(Layer):\n    x: 'Nowhere'\n"
    layers += "class OddState(LayerState, of=OddLayer): ...\n"
    fake_distribution({"nacre_odd.py": light, "nacre_odd_layers.py": layers}, {"odd": "nacre_odd"}, name="nacre-odd")
    with pytest.raises(AssertionError) as told:
        check_plugin("nacre-odd")
    text = str(told.value)
    assert "its light module imports h5py" in text
    assert "layer 'Odd'" in text and "Nowhere" in text
    assert "No module named 'nacre_gone'" in text
