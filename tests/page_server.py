"""Scripts of pages, each in a fork of one process that has imported what most use.

Importing takes half of the time of most pages.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
FORKS: Any = multiprocessing.get_context(METHOD)
IMPORTS = "page_imports"
"""What is imported before all forks; where nothing can be forked, each process imports what its page needs."""


@cache
def start() -> None:
    """Start the process that forks: it is not told `sys.path`, and leaves out in silence what it cannot import."""
    from multiprocessing import forkserver

    FORKS.set_forkserver_preload([IMPORTS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        forkserver.ensure_running()


def run(script: Path, path: Sequence[Path], *, tests: bool = False) -> str | None:
    """Run a script in its folder, or the tests that are in it, with these folders on Python's path.

    Returns what it prints if it fails, and otherwise nothing.
    """
    printed = script.with_suffix(".printed")
    if METHOD == "forkserver":
        start()
    process = FORKS.Process(target=_run, args=(script, [*map(str, path)], tests, printed, dict(os.environ)))
    process.start()
    process.join()
    return printed.read_text("utf-8") + f"\nended with {process.exitcode}" if process.exitcode else None


def _run(script: Path, path: list[str], tests: bool, printed: Path, environment: dict[str, str]) -> None:
    output = os.open(printed, os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(output, number)
    os.environ.clear()
    os.environ.update({**environment, "PYTHONPATH": os.pathsep.join(path)})
    os.chdir(script.parent)
    sys.path[:0] = [str(script.parent), *path]
    sys.argv = [str(script)]
    if tests:
        plain = "--assert=plain"  # what has been imported cannot be rewritten
        sys.exit(int(pytest.main(["-q", "-p", "no:cacheprovider", plain, "-W", "error", str(script)])))
    warnings.simplefilter("error")
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Exception:
        traceback.print_exc()
        sys.exit(1)
