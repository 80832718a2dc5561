"""Commands of nacre's own pass the conformance kit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import click

from command_line import NET, command, run, write_data
from nacre.testing import CommandTests as CommandSuite

NOT_TESTED = {
    "demo": "it trains for half a minute",
    "doctor": "its exit code says what lies around on the machine",
    "sample": "it needs a net of characters, which is trained longer",
}
HALF = """
from nacre import Neuron


class Half(Neuron):
    "y = x / 2."

    def forward(self, backend, x, y):
        backend.xp.multiply(x, 0.5, out=y)

    def backward(self, backend, x, y, dy, dx):
        backend.xp.multiply(dy, 0.5, out=dx)
"""


def opened(name: str) -> click.Command:
    """Return a command by its name, such as "data show"."""
    found: click.Command | None = command
    for word in name.split():
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    assert found is not None
    return found


def write_net(folder: Path) -> None:
    """Write the small net and its data into a folder."""
    (folder / "small.toml").write_text(NET, encoding="utf-8")
    write_data(folder / "train.h5", 60, 0)
    write_data(folder / "test.h5", 27, 1)


@cache
def trained() -> dict[str, bytes]:
    """Return the files that a short training of the small net leaves: a snapshot and a log."""
    with TemporaryDirectory() as folder, chdir(folder):
        write_net(Path(folder))
        run("train", "small.toml", "--set", "solver.max_iter=20", "--log", "log.jsonl", "--json")
        found = {"trained.h5": Path("snapshots/snapshot-000020.h5"), "log.jsonl": Path("log.jsonl")}
        return {name: path.read_bytes() for name, path in found.items()}


class OfNets(CommandSuite):
    wrong = (("--plugin", "nowhere.py"),)

    def arguments(self, folder: Path) -> Sequence[str]:
        write_net(folder)
        return ["small.toml"]


class OfTrainedNets(OfNets):
    def arguments(self, folder: Path) -> Sequence[str]:
        (folder / "trained.h5").write_bytes(trained()["trained.h5"])
        return [*super().arguments(folder), "trained.h5"]


class TestTrain(OfNets):
    command = opened("train")
    name = "train"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "--set", "solver.max_iter=2"]


class TestTest(OfTrainedNets):
    command = opened("test")
    name = "test"


class TestPredict(OfTrainedNets):
    command = opened("predict")
    name = "predict"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "test.h5"]


class TestExplain(OfNets):
    command = opened("explain")
    name = "explain"


class TestSummary(OfNets):
    command = opened("summary")
    name = "summary"


class TestGraph(OfNets):
    command = opened("graph")
    name = "graph"


class TestTime(OfNets):
    command = opened("time")
    name = "time"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "--runs", "1"]


class TestGradcheck(OfNets):
    command = opened("gradcheck")
    name = "gradcheck"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "--entries", "2"]


class TestLayers(CommandSuite):
    command = opened("layers")
    name = "layers"
    wrong = (("Dropout",),)

    def arguments(self, folder: Path) -> Sequence[str]:
        return ["Pooling"]


class TestBackends(CommandSuite):
    command = opened("backends")
    name = "backends"


class TestPlugins(CommandSuite):
    command = opened("plugins")
    name = "plugins"
    wrong = (("no-such-command",),)


class TestCheck(CommandSuite):
    command = opened("check")
    name = "check"
    wrong = (("no-such-plugin",),)
    expected_failures: ClassVar = {"odd_files": "what is wrong with a file is what it has to tell, with exit code 1"}

    def arguments(self, folder: Path) -> Sequence[str]:
        (folder / "half.py").write_text(HALF, encoding="utf-8")
        return ["half.py"]


class TestDataShow(CommandSuite):
    command = opened("data show")
    name = "data show"
    wrong = (("--field", "nothing_such"), ("--store", "NoSuch"))

    def arguments(self, folder: Path) -> Sequence[str]:
        write_data(folder / "some.h5", 9, 0)
        return ["some.h5"]


class TestDataConvert(TestDataShow):
    command = opened("data convert")
    name = "data convert"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "some.npz"]


class TestDataMean(TestDataShow):
    command = opened("data mean")
    name = "data mean"

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "mean.h5", "--field", "data"]


class TestDataSplit(TestDataShow):
    command = opened("data split")
    name = "data split"
    wrong = (*TestDataShow.wrong, ("--part", "b.h5=2"))

    def arguments(self, folder: Path) -> Sequence[str]:
        return [*super().arguments(folder), "--part", "a.h5=0.5", "--part", "rest.h5=0.5"]


class TestDataVerify(TestDataShow):
    command = opened("data verify")
    name = "data verify"


class TestPlot(CommandSuite):
    command = opened("plot")
    name = "plot"
    wrong = (("nowhere.jsonl",), ("--out", "curves.txt"))

    def arguments(self, folder: Path) -> Sequence[str]:
        (folder / "log.jsonl").write_bytes(trained()["log.jsonl"])
        return ["log.jsonl"]


class TestNew(CommandSuite):
    command = opened("new")
    name = "new"
    wrong = (("--from", "nowhere.py"),)

    def arguments(self, folder: Path) -> Sequence[str]:
        return ["layer", "TurnPairs"]


def test_every_command_has_a_suite() -> None:
    suites = [one for one in globals().values() if isinstance(one, type) and hasattr(one, "command")]
    tested = {suite.name.partition(" ")[0] for suite in suites if issubclass(suite, CommandSuite)}
    assert tested | NOT_TESTED.keys() == set(command.list_commands(click.Context(command)))
