"""Damaged and hostile files of every format: they end in a sentence, or in records that are as they should be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")
pytest.importorskip("lmdb")
from mutant_formats import FORMATS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of memory are set and measured by Linux's means"
)

READER = Path(__file__).parents[2] / "read_mutants.py"
FEW, MANY = 100, 100 * int(os.environ.get("NACRE_TRIALS", "1000"))
AT_ONCE = 2000
"""Mutants that one process reads."""


@pytest.fixture(scope="module")
def reader() -> Iterator[subprocess.Popen[str]]:
    """Start what reads mutants, once: to import takes longer than to read a hundred."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(READER)], env=environment, **pipes) as process:
        yield process


def read(reader: subprocess.Popen[str], name: str, first: int, count: int, folder: Path) -> dict[str, int]:
    """Let another process read some mutants of a format; return what became of how many."""
    assert reader.stdin is not None and reader.stdout is not None
    reader.stdin.write(json.dumps([name, first, count, str(folder)]) + "\n")
    reader.stdin.flush()
    code = int(reader.stdout.readline())
    if code < 0:
        how = "takes too long" if code == -signal.SIGPROF else f"ends the process ({code})"
        pytest.fail(f"mutant {(folder / 'number').read_text().strip()} of {name} {how}")
    assert code == 0, "what it has raised is in the output"
    found = json.loads((folder / "outcomes.json").read_text())
    assert not found["faults"], "\n".join(found["faults"])
    return found["outcomes"]


def check(reader: subprocess.Popen[str], name: str, first: int, count: int, folder: Path) -> None:
    total = {"read": 0, "told": 0, "past": 0}
    for begin in range(first, first + count, AT_ONCE):
        for what, many in read(reader, name, begin, min(AT_ONCE, first + count - begin), folder).items():
            total[what] += many
    print(f"{name}: {total}")
    assert total["read"] + total["told"] == count
    assert total["past"] >= count // 2, f"{total}: too few get past the header for this to be a test of the rest"


@pytest.mark.parametrize("name", FORMATS)
def test_mutants_end_in_a_sentence_or_in_records(name: str, reader: subprocess.Popen[str], tmp_path: Path) -> None:
    check(reader, name, 0, FEW, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_many_mutants_end_in_a_sentence_or_in_records(name: str, reader: subprocess.Popen[str], tmp_path: Path) -> None:
    check(reader, name, FEW, MANY, tmp_path)
