"""`net.evaluate` on files: tests/core/training/test_fit.py has it on arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, DataError, Input, L, Net, Solver, feed, load

X = np.random.default_rng(0).normal(size=(30, 2)).round(3)
Y = np.where(X.sum(1) > 0, "plus", "minus")


def table(path: Path, x: Any = X, y: Any = Y) -> str:
    lines = [f"{a},{b},{label}" for (a, b), label in zip(x, y, strict=True)]
    path.write_text("\n".join(["a,b,label", *lines]) + "\n")
    return str(path)


def judged(data: Any, label: Any, **options: Any) -> Net:
    score = L.InnerProduct(output_dim=2)(data)
    return Net("n", [L.SoftmaxLoss()(score, label), L.Accuracy(name="accuracy")(score, label)], **options)


def test_a_net_of_arrays_is_tested_with_files(tmp_path: Path) -> None:
    net = judged(Input(2, name="data"), Input(dtype="int64", name="label"), dtype="float64")
    net.fit(X, Y, epochs=3, lr=0.1, quiet=True)
    wanted = net.evaluate(X, Y)
    path = table(tmp_path / "x.csv")
    assert net.evaluate(path) == net.evaluate(Path(path)) == pytest.approx(wanted)
    parts = [table(tmp_path / "one.csv", X[:10], Y[:10]), table(tmp_path / "two.csv", X[10:], Y[10:])]
    assert net.evaluate(parts, batch_size=7) == pytest.approx(wanted)
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        net.evaluate(str(tmp_path / "none.csv"))


@pytest.mark.parametrize("phases", [("train",), ("train", "validation"), ("train", "test")])
def test_a_net_of_sources_is_tested_with_other_files(phases: tuple[str, ...], tmp_path: Path) -> None:
    """The sources may be of any phases; the transformers keep what they learned of the training data."""
    x = X * 3 + 1
    table(tmp_path / "train.csv", x, Y)
    fields: dict[str, Any] = {"batch_size": 10, "label": "label", "transformers": [["data", "Standardize"]]}
    sources = {phase: L.CSVData(source=str(tmp_path / "train.csv"), shuffle=True, **fields) for phase in phases}
    net = judged(*feed(**sources), dtype="float64")
    Solver("Adam", max_iter=9, lr_policy=0.1).solve(net, quiet=True)
    found = net.evaluate(table(tmp_path / "other.csv", x[:17], Y[:17]))
    right = (net.predict(str(tmp_path / "other.csv"), classes=True) == Y[:17]).mean()
    assert found["accuracy/accuracy"] == pytest.approx(right)
    net.save(tmp_path / "n.nacre")
    with load(tmp_path / "n.nacre") as saved:
        assert saved.evaluate(str(tmp_path / "other.csv")) == pytest.approx(found)
    with pytest.raises(ConfigError, match="takes no arrays") as caught:
        net.evaluate(X, Y)
    assert "net.evaluate('data.csv')" in caught.value.remedy


def test_a_source_that_reads_no_files() -> None:
    net = judged(*feed(train=L.MemoryData(data=[X, (Y == "plus").astype(int)], batch_size=10)))
    with pytest.raises(ConfigError, match=r"MemoryData reads no files, so it cannot read x\.csv"):
        net.evaluate("x.csv")
