"""The first page on own data: a person who follows it with pictures of their own gets what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Done, run
from page_folders import own_data

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "own-data.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make folders of pictures of different sizes, and go there."""
    monkeypatch.chdir(tmp_path)
    own_data(tmp_path, divided=False)


def follow(block: str) -> list[Done]:
    """Run the commands of a block of the page."""
    return [run(*shlex.split(line)[1:]) for line in block.splitlines()]


def test_the_page_leads_to_a_net_that_knows_cats() -> None:
    net, changed = re.findall(r"^```toml (?:pets.toml|part)\n(.*?)^```$", PAGE, re.M | re.S)
    divide, first, second = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
    Path("pets.toml").write_text(net, encoding="utf-8")
    assert follow(divide)[0].out == "wrote pets/train: 48 records\nwrote pets/test: 20 records\n"
    told = follow(first)
    assert "accuracy: 100.00 % (20 of 20)" in told[1].out
    assert re.fullmatch(r"cat\.jpg  cat [0-9.]+ %\n", told[2].out)
    changed, snapshot = changed.split("\n[[callback]]\n")
    head, _, _, *others = re.split(r"^(?=\[\[layer\]\])", net, flags=re.M)
    test = changed.replace("shuffle = true\n", "").replace("batch_size = 16", "batch_size = 10")
    test = test.replace("train", "test").replace('["validation", "test", "predict"]', '["train", "predict"]')
    text = "".join([head, changed, test, *others])
    before, _, _ = text.partition('[[callback]]\ntype = "Snapshot"\n')  # the last in the file
    Path("pets-h5.toml").write_text(f"{before}[[callback]]\n{snapshot}", encoding="utf-8")
    told = follow(second)
    assert "cat" in told[2].out and "(3, 32, 32)" in told[2].out
    assert re.fullmatch(r"cat\.jpg  cat [0-9.]+ %\n", told[4].out)


@pytest.mark.long  # tests/test_doc_pages.py runs these lines too
def test_its_lines_in_python_do_the_same() -> None:
    follow(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)[0])
    code = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert re.fullmatch(r"cat\.jpg  cat [0-9.]+ %\n", run("predict", "pets.nacre", "cat.jpg", "--top", 1).out)
