"""The nets of docs/wiring.md: ten lines each, and they learn what they should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre
from nacre.config import dumps, load

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "wiring.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def nets() -> dict[str, dict[str, Any]]:
    """Return what the names of each net's block mean, by the name of the net."""
    names: dict[str, Any] = {}
    found: dict[str, dict[str, Any]] = {}
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        for block in blocks():
            exec(compile(block, str(PAGE), "exec"), names)
            found.setdefault(names["net"].name, dict(names))
    finally:
        os.chdir(before)
    return found


def test_each_takes_ten_lines_beside_imports() -> None:
    for name in ('Net("digits", [L.', 'Net("prices"', 'Net("siamese"', 'Net("two"'):
        (block,) = (block for block in blocks() if name in block)
        lines = [line for line in block.splitlines() if line and not re.match(r"(from|import) ", line)]
        assert len(lines) <= 10, name


def test_a_table(nets: dict[str, dict[str, Any]]) -> None:
    net, table, price = (nets["prices"][name] for name in ("net", "table", "price"))
    assert np.abs(net.predict(table, "guess") - price).mean() < 0.2


def test_a_siamese_net(nets: dict[str, dict[str, Any]]) -> None:
    place = nets["siamese"]["place"]
    assert np.linalg.norm(place.predict(np.zeros((1, 5))) - place.predict(np.ones((1, 5)))) > 0.5
    assert len(nets["siamese"]["net"].parameters) == 4
    layers = [layer for layer in nets["siamese"]["net"].layers if getattr(layer, "param_key", "")]
    assert [layer.name for layer in layers] == ["sequential1", "sequential1_2"]


def test_two_outputs(nets: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    net = nets["two"]["net"]
    assert net.loss() < 0.1
    file = tmp_path / "two.toml"
    file.write_text(dumps(net))
    assert [repr(layer) for layer in load(file).layers] == [repr(layer) for layer in net.layers]


def test_digits() -> None:
    code = "\n".join(blocks()[1:3]) + "\nassert test.statistics()['accuracy']['accuracy'] > 0.9"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_type_checkers_accept_the_page(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    script = tmp_path / "page.py"
    script.write_text("# pyright: strict, reportUnknownMemberType=false\n" + "\n".join(blocks()), encoding="utf-8")
    core = Path(nacre.__file__).parents[1]
    roots = [core, *(path for path in (ROOT / "plugins").iterdir() if path.is_dir())]
    settings = {"extraPaths": [*map(str, roots)], "include": [str(script)]}
    (tmp_path / "pyrightconfig.json").write_text(str(settings).replace("'", '"'), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
