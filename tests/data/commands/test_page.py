"""The page of the commands: its examples run, and its options are those that there are."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from pathlib import Path

from command_line import run
from nacre_data.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "data-commands.md").read_text(encoding="utf-8")


def test_the_examples_run() -> None:
    Path("train.h5").unlink()
    shutil.copy(ROOT / "examples" / "digits" / "train.h5", "digits.h5")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
    lines = block.splitlines()
    assert len(lines) == 5
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "nacre"
        run(*arguments)


def test_every_option_is_told() -> None:
    for name in COMMANDS:
        assert f"\n## {name}\n" in PAGE
        for option in importlib.import_module(f"nacre_data.commands.{name}").command.params:
            if option.name not in ("help", "plugin", "locked", "allow_editable", "debug") and option.opts[0].startswith(
                "--"
            ):
                assert option.opts[0] in PAGE, option.opts
