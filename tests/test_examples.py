"""The nets under examples/: each can be made in every phase, has the shapes that its comments say, and learns."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from nacre import InputLayer
from nacre.config import load

ROOT = Path(__file__).resolve().parents[1]
NETS = sorted((ROOT / "examples").glob("*/*.toml"))
EXAMPLES = pytest.mark.parametrize("path", NETS, ids=lambda path: f"{path.parent.name}/{path.stem}")


@EXAMPLES
def test_shapes_are_those_of_the_comments(path: Path) -> None:
    file = load(path)
    net = file.net(backend="numpy", phase="train", keep="all")
    net.forward()
    sections = re.split(r"^\[\[?(?=\w)", path.read_text(encoding="utf-8"), flags=re.M)
    said = {
        top[1]: ast.literal_eval(shape[1])
        for section in sections
        if (top := re.search(r'^tops = \["(\w+)"', section, re.M))
        and (shape := re.search(r"# (\(\d+, [\d, ]+\))", section))
    }
    assert said, "no shape is told"
    assert {name: net.blob(name).shape for name in said} == said


@pytest.mark.parametrize("phase", ["train", "validation", "test"])
@EXAMPLES
def test_every_phase_can_be_made(path: Path, phase: str) -> None:
    file = load(path)
    with file.net(backend="numpy", phase=phase) as net:
        assert net.forward() >= 0
        assert ("accuracy" in net.statistics()) == (phase != "train")


@pytest.mark.parametrize("path", [path for path in NETS if path.parent.name != "digits"], ids=lambda path: path.stem)
def test_it_learns_a_batch(path: Path) -> None:
    """The nets without data of their own know one batch of random images better after some steps."""
    file = load(path)
    with file.net(backend="numpy") as net:
        random = np.random.default_rng(0)
        for layer in file.layers:
            if isinstance(layer, InputLayer):
                shape = (layer.batch_size, *layer.shape)
                labels = layer.tops == ("label",)
                net.write(layer.tops[0], random.integers(0, 10, shape) if labels else random.random(shape))
        before = net.forward()
        assert file.solver(max_iter=8, callbacks=[], lr_policy=0.02).solve(net).loss < before
