"""The pages of docs/: their code blocks, and the script that each page is when a reader follows it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.rglob("*.md")} - {DOCS / "index.md"})  # which shows README.md
REFERENCE = sorted((DOCS / "reference").glob("*.md"))  # tests/layers/test_pages.py runs its net files
FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"\w+ [\w./-]+\.\w+")
"""A block that is a file of the reader's: ```toml flowers.toml."""
KINDS = re.compile(rf"python|toml|toml part|sh|text|text output|{FILE.pattern}|\w+ not run: \S+( \S+)+")
# What a page leaves to be tried, appended to its code.
TRIALS = {
    "own-data.md": """
assert page_commands.run("nacre predict pets.nacre cat.jpg --top 1").startswith("cat.jpg  cat")
""",
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
""",
}
RUN_BY = {
    "own-data.md": "tests/data/test_own_data_page.py",
    "decisions.md": "tests/test_docs.py",
    "inside.md": "tests/test_docs.py",
    "mocha.md": "tests/test_mocha.py",
    "numerics.md": "tests/layers/test_numerics.py",
}
"""Pages, or commands of theirs, that are not run here: a test that reads the page, or that the page tells."""
LISTS = ("README.md", "reference.md")


def name_of(page: Path) -> str:
    """Return the path of a page in the docs."""
    return page.relative_to(DOCS).as_posix()


def all_blocks(page: Path) -> list[tuple[str, str]]:
    """Return the code blocks: what stands behind the back ticks, and the code."""
    return FENCED.findall(page.read_text(encoding="utf-8"))


def blocks(page: Path, what: str) -> list[str]:
    """Return the code blocks of a kind."""
    return [code for info, code in all_blocks(page) if info == what]


def script(page: Path) -> str:
    """Return a page as one script: its Python code, its files and its commands, one after the other."""
    parts = []
    for info, code in all_blocks(page):
        _, _, rest = info.partition(" ")
        if info == "python":
            parts.append(code)
        elif FILE.fullmatch(info):
            parts.append(f"page_commands.write({rest!r}, {code!r})")
        elif info == "sh" and page.name not in RUN_BY:
            parts.append(f"printed = page_commands.run({code!r})")
        elif info == "text output":
            parts.append(f"page_commands.check(printed, {code!r})")
    text = "\n\n".join(parts) + TRIALS.get(page.name, "")
    return f"import page_commands\n\n{text}" if "page_commands." in text else text


SCRIPTS = {page: script(page) for page in PAGES}
