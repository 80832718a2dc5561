"""What holds for the tests themselves: nothing in them depends on how fast or how busy the machine is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent
FILES = sorted(TESTS.rglob("*.py"))
CLOCKS = {  # off, faked, and of the processor: how much of it a hostile file may take
    "conftest.py": {"deadline"},
    "backends/deterministic_child.py": {"time"},
    "read_mutants.py": {"time"},
    "rank_trials.py": {"time"},  # how long one that hangs is waited for
    "slurm.py": {"time"},  # how long its services are waited for
    "standin/cupy/cuda/nccl.py": {"time"},
}
PATIENCE = 600  # seconds after which a process that hangs is given up: no measure of what is tested


def names(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported, and the names of the arguments of calls with their numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.keyword) and node.arg == "deadline":
            yield node.arg
        elif isinstance(node, ast.keyword) and node.arg == "timeout" and isinstance(node.value, ast.Constant):
            yield "impatience" if node.value.value < PATIENCE else "patience"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_no_test_looks_at_the_clock(file: Path) -> None:
    found = set(names(ast.parse(file.read_text(encoding="utf-8"))))
    allowed = CLOCKS.get(file.relative_to(TESTS).as_posix(), set())
    assert found & {"time", "timeit", "deadline", "impatience"} <= allowed


def test_the_tests_of_properties_have_no_deadline() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
