"""Commands of nacre's own that take a net file pass the conformance kit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from command_line import NET, write_data
from nacre import registry
from nacre.testing import CommandTests as CommandSuite


class OfNets(CommandSuite):
    wrong = (("--plugin", "nowhere.py"),)

    def arguments(self, folder: Path) -> Sequence[str]:
        (folder / "small.toml").write_text(NET, encoding="utf-8")
        write_data(folder / "train.h5", 60, 0)
        write_data(folder / "test.h5", 27, 1)
        return ["small.toml"]


class TestSummary(OfNets):
    command = registry().open("command", "summary")
    name = "summary"


class TestGraph(OfNets):
    command = registry().open("command", "graph")
    name = "graph"


class TestTime(OfNets):
    command = registry().open("command", "time")
    name = "time"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "--runs", "1"]


class TestGradcheck(OfNets):
    command = registry().open("command", "gradcheck")
    name = "gradcheck"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "--entries", "2"]
