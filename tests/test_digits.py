"""What the nets under examples/digits reach: held-out digits, over seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import Net, Solver
from nacre.config import load

DIGITS = Path(__file__).parents[1] / "examples" / "digits"


def accuracy(name: str, seed: int, *overrides: str) -> float:
    """Train an example without its callbacks; give the share of the 360 held-out digits that it hits."""
    loaded = load(DIGITS / f"{name}.toml", [f"seed={seed}", *overrides])
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
    assert accuracy("lenet", 0, "solver.max_iter=150") > 0.85


@pytest.mark.long
@pytest.mark.parametrize(("name", "reached"), [("lenet", 0.98), ("resnet20", 0.98), ("dropout_mlp", 0.97)])
def test_the_examples_hit_what_their_heads_say_over_ten_seeds(name: str, reached: float) -> None:
    found = [accuracy(name, seed) for seed in range(10)]
    assert sum(found) / len(found) >= reached - 0.005, found  # rounded to whole per cents, as the heads say it
    assert min(found) >= reached - 0.02, found  # a seed's 360 images are right or wrong by chance too: 2.7 deviations
