"""`L`, and what editors know of it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jedi
import pytest

import nacre
from nacre import L

ROOT = Path(__file__).resolve().parents[3]
STUB = Path(nacre.__file__).parent / "calls" / "shelf.pyi"

RIGHT = """
from nacre import Input, L, Net, Top, feed

x = Input((1, 8, 8))
h: Top = L.Convolution(n_filter=2, kernel=(3, 3), neuron="ReLU", weight_init=0.1, exclude="train")(x)
first, second = L.Convolution(n_filter=2, name="both")(x, h)
a, b, c = L.Slice(axis=1)(first, tops=3)
d: Top = L.Concat()(a, b, c)
e: Top = L.ReLU(epsilon=0.1)(d)
net = Net("net", [e, L.SquareLoss()(e, second)])
other = L["nacre-swirl:Swirl"](angle_init=0.5)(x)
data, label = feed(train=L.HDF5Data(source="train.h5", batch_size=64))
block: Top = L.Residual(layer=[L.Convolution(n_filter=2), "ReLU", {"type": "BatchNorm"}])(h)
"""
WRONG = {
    'L.Convolution(n_filtr=2)': 'No parameter named "n_filtr"',
    'L.Convolution()': '"n_filter"',
    "L.SquareLoss()(x)": "1 more positional argument",
    'x + x': 'Operator "+" not supported',
    'x.shape': '"shape"',
    'L.Pooling(kernel="3")': '"kernel"',
    'L.Convolution(2, 3)': "positional argument",
    'L.Pooling()(L.Pooling())': '"Pooling"',
}  # fmt: skip


def test_the_stub_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_stub.py"))["text"]()
    assert STUB.read_text(encoding="utf-8") == made, "the layers have changed: python docs/make_stub.py"


def test_the_stub_has_every_name() -> None:
    text = STUB.read_text(encoding="utf-8")
    here = nacre.registry()
    ours = {one.name for one in here.offers("layer") if one.provenance.distribution == "nacre"}
    names = [name for name in dir(L) if name in ours or name == "ReLU"]
    assert len(names) > 80
    assert [name for name in names if f"    class {name}(" not in text and f"    def {name}(" not in text] == []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[jedi.Project]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jedi.settings, "cache_directory", str(tmp_path_factory.mktemp("jedi")))
        yield jedi.Project(str(ROOT), sys_path=sys.path)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("import nacre; nacre.So", "Solver"),
        ("from nacre import Net; Net('net', []).fi", "fit"),
        ("from nacre import Solver; Solver('Adam', max_it", "max_iter="),
        ("from nacre import L; L.Conv", "Convolution"),
        ("from nacre import L; L.Convolution(n_fi", "n_filter="),
        ("from nacre import L; L.ReLU(eps", "epsilon="),
        ("import nacre_layers; nacre_layers.Conv", "ConvolutionLayer"),
    ],
)
def test_jedi_completes_without_running_anything(typed: str, offered: str, project: jedi.Project) -> None:
    assert offered in [one.name for one in jedi.Script(typed, project=project).complete()]


@pytest.mark.long
def test_editors_see_what_is_right_and_what_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text("from nacre import Input, L\n\nx = Input(3)\n" + "\n".join(WRONG))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "right.py:" not in done.stdout, done.stdout
    for line, (code, words) in enumerate(WRONG.items(), 4):
        found = [one for one in done.stdout.split("\n") if f"wrong.py:{line}:" in one]
        assert any(words in one for one in found), (code, done.stdout)
