"""Every page of docs/ is run, block by block, as a reader would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import page_folders
import page_server
from doc_pages import DOCS, FENCED, KINDS, LISTS, PAGES, REFERENCE, ROOT, RUN_BY, SCRIPTS, all_blocks, blocks, name_of

PLUGINS = [ROOT / "examples/plugins/nacre-swirl", ROOT / "examples/plugins/nacre-swirl-fast"]


def test_every_block_is_run_or_says_why_not() -> None:
    """`text` is no code; what is not run says why: ```sh not run: needs an hour."""
    strange = [(name_of(page), info) for page in PAGES for info, _ in all_blocks(page) if not KINDS.fullmatch(info)]
    assert strange == [], f"none of {KINDS.pattern}"
    rest = {page: FENCED.sub("", page.read_text(encoding="utf-8")) for page in PAGES}
    assert [name_of(page) for page, text in rest.items() if "```" in text or "\n\n    " in text] == []


def test_every_page_is_run() -> None:
    pages = {page for page in PAGES if page not in REFERENCE and name_of(page) not in LISTS}
    run = {page for page in pages if SCRIPTS[page] or blocks(page, "toml") or blocks(page, "toml part")}
    assert {name_of(page) for page in pages - run} <= {*RUN_BY}, "a page needs code that is run, or a test in RUN_BY"
    for page, test in RUN_BY.items():
        named = Path(test).name in (DOCS / page).read_text(encoding="utf-8")
        assert named or page in (ROOT / test).read_text(encoding="utf-8"), (page, test)


LONG = ("own-data.md", "from-pytorch.md", "conformance.md", "many-processes.md")
"""Pages that take the longest, and show what other tests do, too."""
RUN = [
    pytest.param(page, marks=pytest.mark.long if page.name in LONG else (), id=name_of(page))
    for page in PAGES
    if SCRIPTS[page]
]


@pytest.mark.skipif(page_server.METHOD == "spawn", reason="nothing can be forked here")
def test_what_most_pages_use_is_imported_once(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(f"import sys\n\nassert {page_server.IMPORTS!r} in sys.modules\n", encoding="utf-8")
    failed = page_server.run(script, [])
    assert failed is None, failed


@pytest.mark.parametrize("page", RUN)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    """Python code, files and commands of a page, one after the other; tests in it are run as such."""
    code = SCRIPTS[page]
    for package in re.findall(r"^(?:import|from) (torch|sklearn)\b", code, re.M):
        pytest.importorskip(package)
    script = tmp_path / f"test_{page.stem.replace('-', '_')}.py"
    script.write_text(code, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    prepare = getattr(page_folders, page.stem.replace("-", "_"), None)
    if prepare is not None:
        prepare(tmp_path)
    tests = re.search(r"^(class Test|def test_)", code, re.M)
    failed = page_server.run(script, [*PLUGINS, ROOT / "tests"], tests=tests is not None)
    assert failed is None, failed
