"""The site: `make docs` builds it from the pages beside this file. Nothing is fetched, neither now nor by a reader."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

import nacre

project = "nacre"
author = "The nacre authors"
release = version = nacre.__version__
extensions = ["myst_parser"]
exclude_patterns = ["README.md"]  # what index.md shows
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"nacre {release}"
html_copy_source = False
html_show_sphinx = False

LISTS = {"index": "README.md", "reference": "reference.md"}
"""Pages below which others stand: in the order in which the file lists them, by its headings."""


def add_toctrees(_: Sphinx, page: str, source: list[str]) -> None:
    """Add a toctree for each heading of a page that lists others."""
    if page in LISTS:
        text = Path(__file__).with_name(LISTS[page]).read_text(encoding="utf-8")
        for title, part in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", text, re.M):
            pages = re.findall(r"\]\(([\w/-]+)\.md\)", part)
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.connect("source-read", add_toctrees)
