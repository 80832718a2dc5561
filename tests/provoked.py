"""The full texts of errors: what provokes one in an empty folder, and what a person then reads."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre import NacreError

Message = tuple[Callable[[], object], str]
"""What provokes an error, and its text with its remedy.

HERE stands for the folder, PROCESS for this process, and LINE for a line in a test.
"""


def check_message(message: Message, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the text of an error; of the names that are installed, which grow, only the first words."""
    provoke, text = message
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    with pytest.raises(NacreError) as caught:
        provoke()
    read = str(caught.value).replace(str(Path.cwd()), "HERE")
    read = re.sub(rf"{Path(__file__).parent}/[\w/]+\.py:\d+", "LINE", read)
    read = read.replace(f"process {os.getpid()} on {platform.node()}", "PROCESS")
    assert re.sub(r"(installed|known endings): [^\n]*", r"\1: ...", read) == text
