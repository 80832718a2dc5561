"""Damaged and hostile files of every format: they end in a sentence, or in records that are as they should be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

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


def read(name: str, first: int, count: int, folder: Path) -> dict[str, int]:
    """Let another process read some mutants of a format; return what became of how many."""
    command = [sys.executable, str(READER), name, str(first), str(count), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        how = "takes too long" if done.returncode == -signal.SIGPROF else f"ends the process ({done.returncode})"
        pytest.fail(f"mutant {(folder / 'number').read_text().strip()} of {name} {how}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["faults"], "\n".join(found["faults"])
    return found["outcomes"]


def check(name: str, first: int, count: int, folder: Path) -> None:
    total = {"read": 0, "told": 0, "past": 0}
    for begin in range(first, first + count, AT_ONCE):
        for what, many in read(name, begin, min(AT_ONCE, first + count - begin), folder).items():
            total[what] += many
    print(f"{name}: {total}")
    assert total["read"] + total["told"] == count
    assert total["past"] >= count // 2, f"{total}: too few get past the header for this to be a test of the rest"


@pytest.mark.parametrize("name", FORMATS)
def test_mutants_end_in_a_sentence_or_in_records(name: str, tmp_path: Path) -> None:
    check(name, 0, FEW, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_many_mutants_end_in_a_sentence_or_in_records(name: str, tmp_path: Path) -> None:
    check(name, FEW, MANY, tmp_path)
