"""What the command prints, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

from nacre_new_command.command import command

from nacre.testing import CommandTests

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


class TestNewName(CommandTests):
    """Help, JSON, errors in sentences, and no traces elsewhere."""

    command = command
    name = "new-name"
    wrong = (("--set", "layer.nobody.output_dim=2"),)

    def arguments(self, folder: Path) -> list[str]:
        """Return the arguments of a call that ends well."""
        (folder / "net.toml").write_text(NET, encoding="utf-8")
        return ["net.toml"]

    def test_sizes(self, tmp_path: Path) -> None:
        """Weights are 5 x 3, unless an option changes the net."""
        with self.at_work(tmp_path) as arguments:
            assert json.loads(self.run(*arguments, "--json").out) == {"ip1/weight": 15, "ip1/bias": 5}
            assert "ip1/weight" in self.run(*arguments).out
            changed = self.run(*arguments, "--json", "--set", "layer.ip1.output_dim=2")
            assert json.loads(changed.out)["ip1/weight"] == 6
