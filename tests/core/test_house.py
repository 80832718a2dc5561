"""The rooms of the core: what each may import stands in CONTRIBUTING.md, and every import is held to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

import numpy as np

import nacre

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core" / "nacre"
GROUND = "(ground)"
UPWARD = {
    ("protocols.layer", "net.at_work"),
    ("protocols.layer", "calls.call"),
    ("protocols.layer", "calls.handles"),
    ("protocols.algorithm", "net.net"),
    ("net.net", "config.saved"),
    ("net.net", "training.fit"),
    ("net.net", "training.training"),
    ("__main__", "cli"),
    ("schedule", "protocols.backend"),
}
"""(file, file in a room above): calls of one line, imported inside the function that makes them, or in types only."""

CIRCLES = [
    # in types only: a backend compiles steps of states of layers, whose components compute with a view of the backend
    {f"protocols.{name}" for name in ("backend", "components", "layer", "parameter", "state", "view")},
    # Net.predict and Net.evaluate make other nets
    {"net.net", "net.predict", "net.evaluate", "net.team"},
    # callbacks, policies and frameworks are started with the training, which a solver makes of them
    {f"training.{name}" for name in ("callback", "framework", "policies", "solver", "training")},
]
"""Files that may name each other; no others do."""


def rooms() -> dict[str, set[str]]:
    """Return for each room of the table in CONTRIBUTING.md the rooms that it may import, in the table's order."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("### The rooms of the core\n")[2]
    rows = re.findall(
        r"^\| (?:`(\w+)`|(\(ground\))) \|[^|\n]*\| ([^|\n]*) \|$", section.partition("\n## ")[0], re.MULTILINE
    )
    table: dict[str, set[str]] = {}
    for name, ground, may in rows:
        words = re.findall(r"[a-z]+", may)
        above = set(table) if words[:2] == ["all", "above"] else set[str]()
        but = {word for word in words[2:] if word in table or word == "ground"}
        named = {GROUND if word == "ground" else word for word in words if word in table or word == "ground"}
        table[name or ground] = above - {GROUND if word == "ground" else word for word in but} if above else named
    return table


def modules() -> dict[str, Path]:
    """Return every file of the core by its name below `nacre`; a package stands for its `__init__`."""
    return {
        ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in CORE.rglob("*.py")
    }


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Return the modules of the core that a file imports, wherever in it, for type checkers too."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    package = [] if name == "__init__" else package
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] == "nacre"):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = (node.module or "").split(".") if node.level else (node.module or "").split(".")[1:]
            base = ".".join([*start, *filter(None, module)])
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield inner if inner in known else base or "__init__"
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.partition(".")[2] or "__init__"
                for alias in node.names
                if alias.name.partition(".")[0] == "nacre"
            )


def room_of(module: str) -> str:
    first, dot, _ = module.partition(".")
    return first if dot or (CORE / first).is_dir() else GROUND


def arrows() -> dict[str, set[str]]:
    known = modules()
    return {name: set(imports(name, path, known)) - {name} for name, path in known.items() if name != "__init__"}


def test_the_table_has_every_room() -> None:
    folders = {path.name for path in CORE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert set(rooms()) - {GROUND} == folders
    assert len(folders) >= 10


def test_a_room_imports_only_what_the_table_says() -> None:
    table = rooms()
    for name, targets in arrows().items():
        here = room_of(name)
        for target in targets:
            there = room_of(target)
            assert target != "__init__", f"{name} imports the door of the core"
            assert there == here or there in table[here] or (name, target) in UPWARD, f"{name} imports {target}"


def test_files_name_each_other_only_where_that_is_justified() -> None:
    graph = {name: {one for one in targets if (name, one) not in UPWARD} for name, targets in arrows().items()}
    reach: dict[str, set[str]] = {}
    for name in graph:
        seen: set[str] = set()
        todo = [name]
        while todo:
            new = graph.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        reach[name] = seen
    circles = {
        frozenset(other for other in reach[name] if name in reach.get(other, ()))
        for name in graph
        if name in reach[name]
    }
    assert circles == {frozenset(one) for one in CIRCLES}


def test_a_room_says_what_it_is_in_one_sentence_and_nothing_else() -> None:
    doors = {"config", "files", "testing", "cli"}
    for room in set(rooms()) - {GROUND}:
        body = ast.parse((CORE / room / "__init__.py").read_text(encoding="utf-8")).body
        assert isinstance(body[0], ast.Expr)
        assert room in doors or len(body) == 1, room


WAY = ("sort", "wire", "set_up", "Memory", "place_parameters", "Schedule", "allocate", "ready", "compile_all")
"""What is called on the way from layers to calls, in this order."""


def test_one_function_of_a_net_shows_the_way_from_layers_to_calls() -> None:
    tree = ast.parse((CORE / "net" / "net.py").read_text(encoding="utf-8"))
    made = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    make = made["_make"]
    assert (make.end_lineno or 0) - make.lineno < 50
    way = [*ast.walk(make), *ast.walk(made["_allocate"])]  # which stands below it
    calls = [node for node in way if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func).rpartition(".")[2] for call in sorted(calls, key=lambda call: call.lineno)]
    assert list(dict.fromkeys(name for name in names if name in WAY)) == list(WAY)


def test_nobody_gets_a_net_that_is_not_ready() -> None:
    tree = ast.parse((CORE / "net" / "net.py").read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name in ("__init__", "_make", "_make_accessors"):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                assert "self" not in map(ast.unparse, given), ast.unparse(call)


MEANINGS = {"kernel", "command", "layer_of", "number_of", "default_of"}
"""Kinds whose names are made of other kinds' names, or are words of the command line."""
LIBRARIES = (str, OSError, TextIOWrapper, np.ndarray, np.random.Generator)
"""Classes whose attributes may be called like a plugin's field."""


def declared(tree: ast.AST) -> Iterator[str]:
    """Yield what a file of the core gives a name in a class, or as an attribute, and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for line in ast.walk(node):
                targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
                yield from (one.id for one in targets if isinstance(one, ast.Name) and line in node.body)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def named(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the texts of a file, docstrings left out, and the attributes that it reads, by `getattr` too."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts, attributes = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            texts.add(node.value)
        if isinstance(node, ast.Attribute):
            attributes.add(node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            attributes |= {ast.literal_eval(node.args[1])} if isinstance(node.args[1], ast.Constant) else set()
    return texts, attributes


def test_the_core_names_nothing_that_a_plugin_brings() -> None:
    here = nacre.registry()
    offers = [offer for kind in set(here.kinds()) - MEANINGS for offer in here.offers(kind)]
    offers = [offer for offer in offers if offer.distribution == "nacre" and not offer.target.startswith("nacre.")]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in CORE.rglob("*.py")}
    own = {name for tree in trees.values() for name in declared(tree)}
    # names that are no common words, and fields that the core has not itself
    names = {offer.name for offer in offers if offer.kind == "backend" or not offer.name.islower()} - own
    names |= {library for plugin in here.plugins() for library in plugin.libraries}
    names |= {plugin.provenance.module for plugin in here.plugins()} - {"nacre"}
    fields = {field.name for offer in offers for field in getattr(here.open_offer(offer), "fields", tuple)()} - own
    fields -= {name for cls in LIBRARIES for name in dir(cls)}
    assert {"InnerProduct", "SGD", "onednn", "h5py", "nacre_data"} <= names
    assert {"weight_init", "transformers", "source"} <= fields
    for path, tree in trees.items():
        texts, attributes = named(tree)
        if path.name == "environment.py":
            texts -= {"numpy"}  # the library, not the backend
        if path.name == "net.py":
            texts -= {"Adam"}  # the default of `fit`, as people write it
        assert not texts & names, f"{path} names {texts & names}"
        assert not {text for text in texts if "_" in text} & fields, f"{path} names {texts & fields}"
        assert not attributes & fields, f"{path} reads {attributes & fields}"


DOORS = {"nacre", "nacre.cli", "nacre.config", "nacre.files", "nacre.testing", "nacre.hooks", "nacre.random"}


def test_plugins_and_examples_come_in_by_the_doors() -> None:
    files = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("examples/**/*.py")]
    assert len(files) > 100
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in names:
                assert name.partition(".")[0] != "nacre" or name in DOORS, f"{file} imports {name}"
