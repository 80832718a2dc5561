"""What the documentation says is so: its code runs, its tables are true, its links lead somewhere."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import nacre
from nacre import config, hooks
from nacre.config import load

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
PLUGINS = [ROOT / "examples/plugins/nacre-swirl", ROOT / "examples/plugins/nacre-swirl-fast"]
# What a page leaves to be tried, appended to its code.
TRIALS = {
    "writing-a-kernel.md": """
import nacre
from nacre_layers import ActivationLayer, ReLU


def test_neuron_kernel():
    nacre.register_kernel(ReLUKernel, "neuron/ReLU", "numpy")
    layers = [nacre.InputLayer(shape=(4,), batch_size=2), ActivationLayer(bottoms="data", tops="y", neuron=ReLU())]
    net = nacre.Net("relu", layers, backend="numpy", pins={"kernel:neuron/ReLU@numpy": "local"})
    assert isinstance(net.ops[-1].state, ReLUKernel)
    net.write("data", [[-1, 2, -3, 4]] * 2)
    net.forward()
    assert net.blob("y").tolist() == [[0, 2, 0, 4]] * 2
"""
}


def blocks(page: Path, language: str) -> list[str]:
    """Give the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def sections(text: str) -> set[str]:
    """Give the anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_python_runs(page: Path, tmp_path: Path) -> None:
    """All blocks of a page, one after the other in one file, as a reader would; tests in it are run as such."""
    code = "\n\n".join(blocks(page, "python")) + TRIALS.get(page.name, "")
    script = tmp_path / f"test_{page.stem.replace('-', '_')}.py"
    script.write_text(code, encoding="utf-8")
    tests = re.search(r"^(class Test|def test_)", code, re.M)
    runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"] if tests else ["-W", "error"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PLUGINS))}
    done = subprocess.run(
        [sys.executable, *runner, str(script)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=lambda page: page.stem)
def test_toml_is_read(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        table = tomllib.loads(block)
        if "layer" in table:
            file = tmp_path / "net.toml"
            file.write_text(block, encoding="utf-8")
            net = load(file)
            assert net.net(backend="numpy").forward() > 0
            assert net.solver().max_iter == table["solver"]["max_iter"]


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in sections(file.read_text(encoding="utf-8")), f"{page.name}: {target}"


def test_every_page_is_listed() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name != "README.md" and f"({page.name})" not in index] == []


def test_every_hook_and_every_kind_is_documented() -> None:
    page = (DOCS / "plugins.md").read_text(encoding="utf-8")
    names = [name for name in vars(hooks) if name.startswith("offer_")]
    assert len(names) >= 5
    assert [name for name in names if f"| `{name}` |" not in page] == []
    kinds = set(nacre.registry().kinds()) - {"layer", "backend", "kernel", "command"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []


def test_every_key_of_a_net_file_is_documented() -> None:
    page = (DOCS / "net-files.md").read_text(encoding="utf-8")
    assert [key for key in config._TOP if f"`{key}`" not in page and f"[{key}]" not in page] == []
    fields = [field.name for field in nacre.Solver.fields() if field.name not in ("method", "callbacks")]
    assert [name for name in fields if f"`{name}`" not in page] == []


def test_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))["text"]()
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    assert page == made, "the layers have changed: python docs/make_reference.py"
    for kind in ("layer", "solver", "lr_policy", "momentum_policy", "callback", "initializer", "regularizer", "neuron"):
        for offer in nacre.registry().offers(kind):
            assert offer.distribution != "nacre" or f"\n### {offer.name}\n" in page, f"{kind} {offer.name}"


def own_classes() -> list[Any]:
    """Give nacre's layers, components and solver."""
    kinds = [kind for kind in nacre.registry().kinds() if kind not in ("kernel", "backend", "command", "store")]
    offers = [offer for kind in kinds for offer in nacre.registry().offers(kind) if offer.distribution == "nacre"]
    return [nacre.Solver, *(nacre.registry().open_offer(offer) for offer in offers)]


def accepts(field: Any, value: Any) -> bool:
    """Say whether a field of a layer takes what a net file says; "none" is the word for None."""
    try:
        field.convert(None if value == "none" else value)
    except (ValueError, TypeError, nacre.NacreError):
        return False
    return True


def test_values_in_the_table_of_decisions_are_accepted() -> None:
    """Each `field = value` is one that some layer, component or solver of ours takes, or the net itself."""
    page = (DOCS / "decisions.md").read_text(encoding="utf-8")
    settings = [tomllib.loads(found) for found in re.findall(r"`(\w+ = [^`]+)`", page)]
    assert len(settings) > 10
    fields = [field for cls in own_classes() for field in cls.fields()]
    for setting in settings:
        ((name, value),) = setting.items()
        own = name in config._TOP and type(value) is config._TOP[name][0]
        assert own or any(accepts(field, value) for field in fields if field.name == name), setting
