"""The example of a command, nacre-serve, is as short as an example should be; test_third_party.py runs its tests."""

from __future__ import annotations

from pathlib import Path

PLUGIN = Path(__file__).resolve().parents[1] / "examples/plugins/nacre-serve"


def test_it_has_at_most_200_lines() -> None:
    files = list((PLUGIN / "nacre_serve").glob("*.py"))
    assert len(files) == 3 and sum(len(file.read_text("utf-8").splitlines()) for file in files) <= 200
