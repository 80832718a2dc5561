"""What the scripts made of pages of docs/ do for a reader: write files, run commands, look at what these print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from click.testing import CliRunner

from fresh import build_wheel
from nacre.cli.app import nacre

INSTALLED = Path("installed")
"""What `pip install .` leaves on a page, in the page's own folder."""


def write(path: str, text: str) -> None:
    """Save a file, as the page says."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def run(lines: str) -> str:
    """Run commands, which must end well; return what they print."""
    return "".join(_run(shlex.split(line, comments=True)) for line in lines.replace("\\\n", "").splitlines())


def _run(words: list[str]) -> str:
    match words:
        case []:
            return ""
        case ["nacre", *arguments] if INSTALLED.exists():  # a new process finds what was installed since
            return _process("-c", "from nacre.cli import main; main()", *arguments)
        case ["nacre", *arguments]:
            result = CliRunner().invoke(nacre, arguments)
            assert isinstance(result.exception, SystemExit | None), result.exception
            assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
            return result.output
        case ["python", *arguments]:
            return _process(*arguments)
        case ["pip", "install", "."]:
            with zipfile.ZipFile(build_wheel(Path(), Path())) as wheel:
                wheel.extractall(INSTALLED)
            return ""
        case _:
            raise AssertionError(f"{shlex.join(words)}: not run in pages; mark the block 'sh not run: why'")


def _process(*arguments: str) -> str:
    path = os.pathsep.join([str(INSTALLED.absolute()), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def check(printed: str, shown: str) -> None:
    """Compare what was printed with what the page shows, whose numbers and `...` stand for any others."""
    for line in shown.splitlines():
        pattern = "".join(map(_pattern, re.split(r"(\.\.\.|\d+(?:\.\d+)?|\s+)", line.strip())))
        assert re.search(rf"^\s*{pattern}\s*$", printed, re.M), f"not printed: {line}\n{printed}"


def _pattern(part: str) -> str:
    if part == "...":
        return ".*"
    return r"[\d.]+" if part[:1].isdigit() else r"\s+" if part.isspace() else re.escape(part)
