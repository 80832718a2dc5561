"""`nacre demo`, from the files to the picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import NET, full_disk, run
from nacre import Callback, registry
from nacre_commands.demo import _places

SHORT = ("--set", "solver.max_iter=60", "--set", "callback.ValidationPerformance.every_n_iter=30")


def test_the_demo_trains_and_says_what_is_next() -> None:
    pytest.importorskip("matplotlib")
    lines = run("demo", *SHORT).out.splitlines()
    assert lines[0].startswith("training 'lenet': ")
    match = re.fullmatch(r"test accuracy: (\d+\.\d\d) % \((\d+) of 360\)", lines[-3])
    assert match is not None
    assert match[1] == f"{100 * int(match[2]) / 360:.2f}"
    assert int(match[2]) > 180
    assert lines[-2] == "learning curve: nacre-demo/learning-curve.png"
    assert lines[-1] == "next: nacre predict nacre-demo/lenet.toml nacre-demo/snapshots nacre-demo/test.h5 --top 3"
    names = sorted(path.name for path in Path("nacre-demo").iterdir())
    assert names == ["learning-curve.png", "lenet.toml", "snapshots", "test.h5", "train.h5"]
    assert Path("nacre-demo/learning-curve.png").read_bytes().startswith(b"\x89PNG")
    shown = run(*lines[-1].removeprefix("next: nacre ").split()).out.splitlines()
    assert len(shown) == 360
    assert all(line.count("%") == 3 for line in shown)


def test_the_demo_runs_again_and_leaves_a_changed_net_alone() -> None:
    first = run("demo", *SHORT)
    assert "was changed" not in first.out
    net = Path("nacre-demo/lenet.toml")
    changed = net.read_text().replace("max_iter = 1500", "max_iter = 40")
    net.write_text(changed)
    Path("nacre-demo/test.h5").write_bytes(b"damaged")
    again = run("demo", "--seed", 3)
    assert "nacre-demo/lenet.toml was changed, and is used as it is" in again.out
    assert "trained 40 iterations" in again.out
    assert net.read_text() == changed


def test_a_demo_on_a_full_disk_leaves_no_half_files() -> None:
    with full_disk():
        error = run("demo", *SHORT, code=2).err
    assert error.startswith(
        "error: nacre-demo/lenet.toml: cannot be written: No space left on device\n  free some space"
    )
    assert not list(Path("nacre-demo").iterdir())
    assert "was changed" not in run("demo", *SHORT).out


def test_a_file_in_the_place_of_the_demos_folder() -> None:
    Path("nacre-demo").touch()
    assert run("demo", code=2).err.startswith("error: nacre-demo: not a folder\n  rename that file")


def test_a_demo_without_a_snapshot_says_so() -> None:
    run("demo", *SHORT)
    net = Path("nacre-demo/lenet.toml")
    net.write_text(net.read_text().partition("[[callback]]")[0])
    assert "nothing was saved" in run("demo", "--set", "solver.max_iter=5").out


def test_what_any_callback_writes_goes_below_the_demos_folder() -> None:
    class Notes(Callback):
        outputs = ("notes", "list")

        notes: str = "notes.txt"
        list: str = "list.txt"

        def start(self, training: object) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    registry().register(Notes)
    net = Path("notes.toml")
    without = NET.replace('folder = "snapshots"', "")
    net.write_text(f'{without}[[callback]]\ntype = "Notes"\nlist = "mine.txt"\n')
    assert _places(net) == [
        "callback.Snapshot.folder=nacre-demo/snapshots",
        "callback.Notes.notes=nacre-demo/notes.txt",
    ]
