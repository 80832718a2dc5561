"""What the command prints, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from nacre_new_command.command import command

NET = """
[[layer]]
type = "RandomNormal"
tops = ["x"]
output_dims = 3
batch_size = 8

[[layer]]
type = "InnerProduct"
name = "ip1"
bottoms = ["x"]
tops = ["y"]
output_dim = 5
"""


def run(folder: Path, *options: str) -> str:
    """Run the command on a net file; return what it printed."""
    net = folder / "net.toml"
    net.write_text(NET, encoding="utf-8")
    done = CliRunner().invoke(command, [str(net), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_sizes_are_shown(tmp_path: Path) -> None:
    """Weights are 5 x 3."""
    assert json.loads(run(tmp_path, "--json")) == {"ip1/weight": 15, "ip1/bias": 5}
    assert "ip1/weight" in run(tmp_path)


def test_options_change_the_net(tmp_path: Path) -> None:
    """As with nacre's own commands."""
    assert json.loads(run(tmp_path, "--json", "--set", "layer.ip1.output_dim=2"))["ip1/weight"] == 6
