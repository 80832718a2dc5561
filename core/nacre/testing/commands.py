"""CommandTests: what every command has to do: help, JSON, errors in sentences, and no traces elsewhere."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest

from ..discovery.registry import registry
from .suite import Checks, When, only

ODD = {"is gone": None, "is empty": b"", "is no text": bytes(range(256)) * 4}
"""What an input file may be instead of what it should."""
JSON = When("commands with `--json`", lambda suite: any("--json" in one.opts for one in suite.command.params))


@dataclass
class Done:
    """How a command ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


class CommandTests(Checks):
    """The tests of a command.

    An author gives the command and its name, and the arguments of a call that ends well:

        class TestSizes(CommandTests):
            command = command
            name = "sizes"

            def arguments(self, folder):
                (folder / "net.toml").write_text(NET)
                return ["net.toml"]

    Every call runs in this process, in a folder of the test's.

    Attributes:
        command: the click command.
        name: its name behind `nacre`, such as "sizes", or "data show" for a command of a group.
        wrong: arguments, behind those of the good call, that must end in an error.
    """

    SUBJECT = "command"
    command: ClassVar[click.Command]
    name: ClassVar[str]
    wrong: ClassVar[Sequence[Sequence[str]]] = ()

    def arguments(self, folder: Path) -> Sequence[str]:
        """Write what a call needs into a folder, which is the working folder; return its arguments."""
        return ()

    def test_help(self) -> None:
        """The command says what it does; every option has a help, and every function argument a doc."""
        text = inspect.cleandoc(self.command.help or "").partition("\n")[0]
        assert text, f"`nacre {self.name} --help` does not say what it does: give the function a docstring"
        assert text.endswith((".", ":")), f"the first line of its help is no sentence: {text}"
        done = self.run("--help")
        assert done.code == 0, f"`nacre {self.name} --help` ends with exit code {done.code}: {done.err}"
        for one in self.command.params:
            if isinstance(one, click.Option) and not one.hidden:
                assert one.help, f"the option {one.opts[0]} has no help: click.option(..., help=...)"

    def test_listed(self) -> None:
        """`nacre --help`, or the help of its group, has a line for it."""
        *groups, name = self.name.split()
        lines = [line.split() for line in self._invoke([*groups, "--help"]).out.splitlines()]
        line = next((words for words in lines if words and words[0].rpartition(":")[2] == name), None)
        where = " ".join(["nacre", *groups, "--help"])
        assert line is not None, f"`{where}` does not list '{name}'"
        assert len(line) > 1, f"`{where}` says nothing of '{name}'"

    def test_runs(self, tmp_path: Path) -> None:
        """The call ends well, and leaves its input files as they are."""
        with self.at_work(tmp_path) as arguments:
            before = _contents(tmp_path)
            done = self.run(*arguments)
            assert done.code == 0, f"exit code {done.code}: {done.err or done.out}"
            after = _contents(tmp_path)
            changed = [name for name, data in before.items() if after.get(name) != data]
            assert not changed, f"it changes {changed[0]}, which it only has to read"

    @only(JSON)
    def test_json(self, tmp_path: Path) -> None:
        """With --json its output is JSON and nothing else: one value, or one in each line."""
        with self.at_work(tmp_path) as arguments:
            done = self.run(*arguments, "--json")
            assert done.code == 0, f"with --json the exit code is {done.code}: {done.err or done.out}"
            assert _is_json(done.out), f"with --json it prints what is no JSON: {done.out[:200]!r}"

    @only(JSON)
    def test_json_errors(self, tmp_path: Path) -> None:
        """With --json an error is JSON, too."""
        with self.at_work(tmp_path) as arguments:
            done = self.run(*arguments, "--json", "--no-such-option")
            assert done.code == 2, f"with an unknown option the exit code is {done.code} instead of 2"
            said: Any = json.loads(done.out) if _is_json(done.out) else {}
            assert "error" in said, f"with --json an error is printed as {done.out[:200]!r}"

    def test_errors(self, tmp_path: Path) -> None:
        """What is wrong ends in a sentence and exit code 2, never in a traceback, nor as a bug."""
        for number, more in enumerate([("--no-such-option",), *self.wrong]):
            with self.at_work(tmp_path / str(number)) as arguments:
                self._check_refused(self.run(*arguments, *more), f"with {' '.join(more)}")

    def test_odd_files(self, tmp_path: Path) -> None:
        """An input file that is not there, is empty or no text ends in a sentence."""
        with self.at_work(tmp_path / "whole") as arguments:
            files = [one for one in arguments if Path(one).is_file()]
        for name in files:
            for how, data in ODD.items():
                with self.at_work(tmp_path / f"{name.replace(os.sep, '-')} {how}") as arguments:
                    Path(name).unlink()
                    if data is not None:
                        Path(name).write_bytes(data)
                    done = self.run(*arguments)
                    if done.code or data is None:
                        self._check_refused(done, f"where {name} {how}")

    def test_writes_in_its_folder_only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It leaves nothing outside the working folder: not in the home folder, nor where temporary files are."""
        outside = tmp_path / "outside"
        outside.mkdir()
        for variable in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.setenv(variable, str(outside))
        monkeypatch.setattr(tempfile, "tempdir", str(outside))
        with self.at_work(tmp_path / "inside") as arguments:
            done = self.run(*arguments)
            assert done.code == 0, f"exit code {done.code}: {done.err or done.out}"
        left = sorted(path.relative_to(outside) for path in outside.rglob("*"))
        assert not left, f"it leaves {left[0]} outside of the working folder"

    def test_without_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It works without a home folder."""
        for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
        with self.at_work(tmp_path / "inside") as arguments:
            done = self.run(*arguments)
            assert done.code == 0, f"without a home folder the exit code is {done.code}: {done.err or done.out}"

    # How it is checked

    def run(self, *arguments: str) -> Done:
        """Run the command in this process."""
        return self._invoke([*self.name.split(), *arguments])

    @contextmanager
    def at_work(self, folder: Path) -> Generator[Sequence[str]]:
        """Make a folder the working folder; give the arguments of a call there."""
        folder.mkdir(parents=True, exist_ok=True)
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield [*self.arguments(folder)]
        finally:
            os.chdir(before)

    def _invoke(self, arguments: Sequence[str]) -> Done:
        from click.testing import CliRunner

        from ..cli.app import COMMANDS, nacre

        first = self.name.partition(" ")[0]
        if first == self.name not in COMMANDS and not registry().offers("command", first):
            registry().register(self.command, self.name, "command")
        result: Any = CliRunner().invoke(nacre, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(f"it raises {type(result.exception).__name__}") from result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def _check_refused(self, done: Done, where: str) -> None:
        said = done.err.strip()
        assert "Traceback" not in said, f"{where} it prints a traceback"
        assert done.code, f"{where} the exit code is 0: {done.out[-200:]}"
        sentence = said.startswith("error: ") and done.code == 2  # 1 is a bug, in nacre or in a plugin
        assert sentence, f"{where} it ends in no sentence of its own, but with exit code {done.code}: {said[:300]}"


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        try:
            return bool([json.loads(line) for line in text.splitlines()])
        except ValueError:
            return False
    return True
