"""The example of a command, nacre-serve, passes its own tests, and is as short as an example should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).resolve().parents[1] / "examples/plugins/nacre-serve"


@pytest.mark.long  # `make wheels` runs them too
def test_it_passes_its_own_tests(tmp_path: Path) -> None:
    runner = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(PLUGIN / "tests")]
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN)}
    done = subprocess.run(runner, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_has_at_most_200_lines() -> None:
    files = list((PLUGIN / "nacre_serve").glob("*.py"))
    assert len(files) == 3 and sum(len(file.read_text("utf-8").splitlines()) for file in files) <= 200
