"""Every layer that nacre offers is tested with `LayerTests`."""

import ast
from pathlib import Path

import nacre

TESTS = Path(__file__).parents[1]
SUITES = {"LayerTests", "Agreement"}


def bases(node):
    return {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}


def layers_with_tests(file):
    """Give the names that the `LayerTests` of a file assign to `layer`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef) and bases(node) & SUITES and node.name.startswith("Test"):
            for line in node.body:
                if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == ["layer"]:
                    yield ast.unparse(line.value).rpartition(".")[2]


def test_every_layer_has_its_tests():
    files = [file for folder in ("layers", "data") for file in (TESTS / folder).glob("test_*.py")]
    tested = {name for file in files for name in layers_with_tests(file)}
    offered = {
        nacre.registry().open_offer(offer).__name__
        for offer in nacre.registry().offers("layer")
        if offer.distribution == "nacre"
    }
    assert offered, "nacre offers no layers: is it installed?"
    untested = offered - tested
    assert not untested, f"no LayerTests under tests/layers or tests/data for {', '.join(sorted(untested))}"
