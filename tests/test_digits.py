"""What the example of the README reaches: held-out digits, over seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import Net, Solver
from nacre.config import load

NET = Path(__file__).parents[1] / "examples" / "digits" / "lenet.toml"


def accuracy(seed: int, *overrides: str) -> float:
    """Train the example without its callbacks; give the share of the 360 held-out digits that it hits."""
    loaded = load(NET, [f"seed={seed}", *overrides])
    net = loaded.net("train", backend="numpy")
    usual = loaded.solver()
    fields = {name: value for name, value in usual.given().items() if name not in ("method", "callbacks")}
    Solver(usual.method, **fields).solve(net)
    held_out: Net = loaded.net("test", backend="numpy")
    held_out.forward_epoch()
    statistics = held_out.statistics()["accuracy"]
    assert statistics["records"] == 360
    return statistics["accuracy"]


def test_the_example_learns_in_its_first_iterations() -> None:
    assert accuracy(0, "solver.max_iter=150") > 0.85


@pytest.mark.long
def test_the_example_hits_98_of_100_digits_over_ten_seeds() -> None:
    found = [accuracy(seed) for seed in range(10)]
    assert sum(found) / len(found) >= 0.98, found
    assert min(found) >= 0.97, found
