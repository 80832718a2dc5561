"""What the shell completes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from command_line import SCRIPT
from nacre.cli.app import nacre as command

pytestmark = pytest.mark.usefixtures("folder")


def completed(*words: str) -> list[str]:
    """Return what the shell is told for the last word."""
    *before, last = words
    found = BashComplete(command, {}, "nacre", "_NACRE_COMPLETE").get_completions(before, last)
    return [f"{one.type},{one.value}" for one in found]


def test_commands_layers_and_files() -> None:
    assert completed("tra") == ["plain,train"]
    assert completed("layers", "Conv") == ["plain,Convolution"]
    assert {"plain,SGD", "plain,Sigmoid"} <= set(completed("layers", "S"))
    assert completed("train", "sm") == ["file,sm"] == completed("predict", "small.toml", "snapshots", "sm")
    Path("bestiary").mkdir()
    for name in ("test", "predict"):
        assert completed(name, "small.toml", "be") == ["plain,best", "plain,bestiary"]
        assert {"plain,best", "plain,latest", "plain,train.h5"} <= {*completed(name, "small.toml", "")}
        assert completed(name, "small.toml", "snap") == ["file,snap"] == completed(name, "small.nacre", "snap")
        assert completed(name, "small.nacre", "be") == ["file,be"]
    assert completed("train", "small.toml", "--resume", "la") == ["plain,latest"]
    assert completed("train", "small.toml", "--backend", "num") == ["plain,numpy"]
    assert completed("graph", "small.toml", "--format", "p") == ["plain,png"]


def test_the_keys_of_the_net_file() -> None:
    assert completed("train", "small.toml", "--set", "layer.ip1.out") == ["plain,layer.ip1.output_dim="]
    assert completed("train", "small.toml", "--set", "callback.Snap") == [
        f"plain,callback.Snapshot.{name}=" for name in ("every_n_epoch", "every_n_iter", "folder", "keep", "store")
    ]
    assert completed("summary", "small.toml", "--set", "solver.max") == [
        "plain,solver.max_epoch=",
        "plain,solver.max_iter=",
    ]
    assert "plain,seed=" in completed("train", "--set", "se")
    assert completed("train", "no.toml", "--set", "layer.") == []
    Path("odd.toml").write_text('[[layer]]\ntype = "Odd"\nname = "ip1"\n')
    assert completed("train", "odd.toml", "--set", "layer.ip1.") == []


def test_the_line_that_installs_it_gives_a_script() -> None:
    for variables, told in (
        ({"_NACRE_COMPLETE": "bash_source"}, "_NACRE_COMPLETE=bash_complete"),
        ({"_NACRE_COMPLETE": "bash_complete", "COMP_WORDS": "nacre tra", "COMP_CWORD": "1"}, "plain,train\n"),
    ):
        done = subprocess.run(SCRIPT, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
        assert told in done.stdout and done.stderr == ""
