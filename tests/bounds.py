"""Print pip's constraints for exactly the lower bounds that pyproject.toml admits: `python tests/bounds.py`."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lower_bounds(project: dict) -> list[str]:
    """Return `name==version` for what a project's users need, where it has a lower bound; its own tools stay free."""
    extras = [needed for name, needed in project["optional-dependencies"].items() if name != "dev"]
    requirements = itertools.chain(project["dependencies"], *extras)
    found = [re.match(r"([\w.-]+)(?:\[.*?\])?>=([\w.]+)", requirement) for requirement in requirements]
    return sorted({f"{one[1]}=={one[2]}" for one in found if one})


if __name__ == "__main__":
    with PROJECT.open("rb") as file:
        print(*lower_bounds(tomllib.load(file)["project"]), sep="\n")
