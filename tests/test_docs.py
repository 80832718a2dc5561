"""What the documentation says is so: its code runs, its tables are true, its links lead somewhere."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from pathlib import Path

import h5py
import numpy as np
import pytest

import caffe_catalogue
import nacre
from doc_pages import DOCS, PAGES, REFERENCE, ROOT, blocks, name_of
from nacre import hooks
from nacre.config import load
from nacre.config import netfile as config
from nacre.discovery.fitting import BASES
from page_tables import accepts, code, fields_of, is_ours, offered, own_classes, rows, takes


def sections(text: str) -> set[str]:
    """Return the anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def write_pictures(path: str) -> None:
    """Write records of the size of MNIST's where a page has the reader's own."""
    with h5py.File(path, "w") as file:
        file["data"] = np.random.default_rng(0).random((100, 1, 28, 28), np.float32)
        file["label"] = np.arange(100) % 10


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "toml") and page not in REFERENCE], ids=name_of
)
def test_toml_is_read(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        table = tomllib.loads(block)
        if "layer" in table:
            file = tmp_path / "net.toml"
            file.write_text(block, encoding="utf-8")
            net = load(file)
            for layer in net.layers:
                for path in getattr(layer, "source", ()):
                    write_pictures(path)
            assert net.net(backend="numpy").forward() > 0
            assert net.solver().max_iter == table["solver"]["max_iter"]


REST = '[[layer]]\ntype = "Input"\ntops = ["x"]\nshape = [2]\n\n[solver]\ntype = "SGD"\nmax_iter = 1\n'
"""What a part of a net file without layers is a part of."""


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml part")], ids=name_of)
def test_parts_of_net_files_are_read(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml part"):
        file = tmp_path / "part.toml"
        file.write_text(block if "[[layer]]" in block or "[solver]" in block else block + REST, encoding="utf-8")
        read = load(file)
        assert read.layers or "solver" in read.table
        assert "cluster" not in read.table or read.solver()


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("*.md"))], ids=str)
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
    pages = [name_of(page) for page in PAGES if page not in REFERENCE]
    assert [name for name in pages if name != "README.md" and f"({name})" not in index] == []


def test_pages_import_what_packages_hand_on() -> None:
    """What a page invites to use or to extend comes from a door, or from a package of nacre's itself."""
    doors = r"nacre\.(?:config|cli|files|testing|hooks|random)\b"
    deep = re.compile(rf"^(?:from|import) (?!{doors})nacre(?:_(?:layers|data|solvers|numpy|commands))?\.\w+", re.M)
    assert [name_of(page) for page in PAGES if deep.search(page.read_text(encoding="utf-8"))] == []


def test_every_hook_and_every_kind_is_documented() -> None:
    page = (DOCS / "plugins.md").read_text(encoding="utf-8")
    names = [name for name in vars(hooks) if name.startswith("offer_")]
    assert len(names) >= 5
    assert [name for name in names if f"| `{name}` |" not in page] == []
    kinds = set(nacre.registry().kinds()) - {"layer", "backend", "kernel", "command"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []


WITHOUT_EXAMPLE = {"Backend", "Codec", "Communicator", "Drawing", "MomentumPolicy"}
"""Classes to derive from that pages tell about, without a whole one."""


def test_some_page_shows_how_to_write_one_of_each_kind() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    bases = {*BASES.values()} - WITHOUT_EXAMPLE
    assert [name for name in sorted(bases) if not re.search(rf"^class \w+\({name}\b", text, re.M)] == []


def test_everything_that_a_backend_may_define_is_documented() -> None:
    page = (DOCS / "writing-a-backend.md").read_text(encoding="utf-8")
    names = [name for name in vars(nacre.Backend) if not name.startswith(("_", "nacre_"))]
    assert len(names) > 30
    assert [name for name in names if not re.search(rf"`{name}\b", page)] == []


def test_every_key_of_a_net_file_is_documented() -> None:
    page = (DOCS / "net-files.md").read_text(encoding="utf-8")
    assert [key for key in config._TOP if f"`{key}`" not in page and f"[{key}]" not in page] == []
    fields = [field.name for field in nacre.Solver.fields() if field.name not in ("method", "callbacks")]
    assert [name for name in fields if f"`{name}`" not in page] == []


def test_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))["pages"]()
    pages = {name: (DOCS / name).read_text(encoding="utf-8") for name in made}
    assert [name for name in made if pages[name] != made[name]] == [], "run python docs/make_reference.py"
    assert {name_of(page) for page in REFERENCE} == {*made} - {"reference.md"}, "remove the pages that are not made"
    text = "\n".join(pages.values())
    for kind in set(nacre.registry().kinds()) - {"backend", "kernel", "command", "layer_of", "number_of", "default_of"}:
        for offer in nacre.registry().offers(kind):
            assert offer.distribution != "nacre" or f"\n## {offer.name}\n" in text, f"{kind} {offer.name}"


def test_pictures_are_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_pictures.py"))["pictures"]()
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "pictures").iterdir()}
    assert there == made, "run python docs/make_pictures.py"
    assert max(map(len, made.values())) < 100_000


def test_the_notebook_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_notebook.py"))["text"]()
    assert (DOCS / "tutorials/notebook.ipynb").read_text("utf-8") == made, "run python docs/make_notebook.py"


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


# The pages for people who come from elsewhere: their tables name what is here, and that must be so

NEWCOMERS = [
    DOCS / name
    for name in ("from-caffe.md", "from-pytorch.md", "mocha.md", "how-to/from-keras.md", "how-to/from-scikit-learn.md")
]


@pytest.mark.parametrize("page", NEWCOMERS, ids=lambda page: page.stem)
def test_what_tables_call_ours_is_there(page: Path) -> None:
    """What is in code in the second column, where that is headed "nacre"."""
    named = {name for _, head, cells in rows(page) if head[1] == "nacre" for name in code(cells[1])}
    assert len(named) > 20
    assert [name for name in sorted(named) if not is_ours(name)] == []


def test_the_options_of_a_layer_are_those_of_its_row() -> None:
    """In a third column, what an arrow leads to, and names without an arrow, are fields of the second's layers."""
    layers = [cells for section, head, cells in rows(DOCS / "from-caffe.md") if section == "Layers"]
    assert len(layers) > 40
    for _, ours, told in layers:
        fields = fields_of(code(ours))
        for clause in told.split(";"):
            _, arrow, right = clause.partition("→")
            names = code(right) if arrow else [] if ":" in clause else code(clause)
            known = [name for name in names if takes(fields, name) or offered(name) or name.startswith("nacre ")]
            assert names == known, (ours, clause)


def test_every_layer_and_option_of_caffe_is_told() -> None:
    page = DOCS / "from-caffe.md"
    told = [(set(code(cells[0])), cells) for section, _, cells in rows(page) if section in ("Layers", "Not here")]
    for layer, names in caffe_catalogue.LAYERS.items():
        found = [" ".join(cells) for called, cells in told if layer in called]
        assert len(found) == 1, layer
        assert [name for name in names.split() if f"`{name}`" not in found[0]] == [], layer
    for part, names in caffe_catalogue.MESSAGES.items():
        words = " ".join(cells[0] for section, _, cells in rows(page) if section == part)
        listed = names.replace("\n", "").split("|") if "|" in names else names.split()
        assert [name for name in listed if not re.search(rf"\b{re.escape(name.lstrip('-'))}\b", words)] == [], part


def names_in(file: Path) -> set[str]:
    """Return the names of a file's tests and classes of tests."""
    tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {node.name for node in tree if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_tests_that_pages_name_are_there() -> None:
    named = {found for page in PAGES for found in re.findall(r"(tests/[\w/]+\.py)::(\w+)", page.read_text("utf-8"))}
    assert len(named) > 25
    there = {(file, name) for file in {file for file, _ in named} for name in names_in(ROOT / file)}
    assert named - there == set()


def test_the_pictures_of_the_inside_name_files_and_rooms_that_are_there() -> None:
    page, core = (DOCS / "inside.md").read_text(encoding="utf-8"), ROOT / "core" / "nacre"
    files = set(re.findall(r"\w+/\w+\.py\b", page))
    assert len(files) > 20
    assert [file for file in files if not (core / file).exists()] == []
    tower = re.findall(r"^```text\n(.*?)^```$", page, re.M | re.S)[-1]
    rooms = {path.name for path in core.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set(re.findall(r"\w+", tower))
