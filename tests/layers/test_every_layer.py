"""Every layer that nacre offers is tested with `Agreement`, or where there is nothing to compare, with `LayerTests`."""

import ast
from pathlib import Path

import pytest

import nacre

TESTS = Path(__file__).parents[1]
# Layers that compute no blob and no loss from bottoms, so that 200 random cases would compare nothing.
GIVEN = "its tops are what it reads, compared with that number by number in tests/data"
COUNTED = "it only counts: LayerTests compares its statistics with those of a loop, in 200 random cases as well"
KEPT = "it keeps what it reads, compared with that number by number in tests/data"
WITHOUT_AGREEMENT = {
    "Accuracy": COUNTED,
    "AsyncHDF5Data": GIVEN,
    "AveragePrecision": COUNTED,
    "BinaryAccuracy": COUNTED,
    "CSVData": GIVEN,
    "CSVOutput": KEPT,
    "CalibrationError": COUNTED,
    "CharText": GIVEN,
    "ConfusionMatrix": COUNTED,
    "Data": GIVEN,
    "HDF5Data": GIVEN,
    "HDF5Output": KEPT,
    "ImageData": GIVEN,
    "Input": "its tops are what is written into them",
    "IoU": COUNTED,
    "IterableData": GIVEN,
    "JSONLOutput": KEPT,
    "LMDBData": GIVEN,
    "LMDBOutput": KEPT,
    "MeanAbsoluteError": COUNTED,
    "MemoryData": GIVEN,
    "MemoryOutput": KEPT,
    "NumpyData": GIVEN,
    "NumpyOutput": KEPT,
    "Output": KEPT,
    "Perplexity": COUNTED,
    "PrecisionRecall": COUNTED,
    "Prefetch": "its tops are those of the layers in it, compared with these number by number in tests/data",
    "R2": COUNTED,
    "ROCAUC": COUNTED,
    "RandomNormal": "its tops are random numbers, compared with those of nacre.random in test_sources.py",
    "ShardData": GIVEN,
    "ShardOutput": KEPT,
    "Silence": "it computes nothing",
    "TarData": GIVEN,
    "TopKAccuracy": COUNTED,
    "WordText": GIVEN,
}
OFFERS = [offer for offer in nacre.registry().offers("layer") if offer.distribution == "nacre"]


def bases(node):
    return {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}


def layers_with_tests(file):
    """Yield the names that the test classes of a file assign to `layer`, and the bases of those classes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for line in node.body:
                if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == ["layer"]:
                    yield ast.unparse(line.value).rpartition(".")[2], bases(node)


@pytest.fixture(scope="module")
def suites():
    """Return the suites that each layer's class is tested with."""
    found = {}
    for folder in ("layers", "data"):
        for file in (TESTS / folder).rglob("test_*.py"):
            for name, over in layers_with_tests(file):
                found.setdefault(name, set()).update(over)
    return found


def test_there_are_layers():
    assert OFFERS, "nacre offers no layers: is it installed?"


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: offer.name)
def test_every_layer_has_its_tests(offer, suites):
    name = nacre.registry().open_offer(offer).__name__
    wanted = "LayerTests" if offer.name in WITHOUT_AGREEMENT else "Agreement"
    assert wanted in suites.get(name, ()), f"no class Test...({wanted}) with layer = {name} under tests/layers or data"


@pytest.mark.parametrize("name", WITHOUT_AGREEMENT)
def test_nothing_that_computes_goes_without_agreement(name):
    cls = nacre.registry().open("layer", name)
    assert cls.is_source or (cls.is_sink and not cls.has_loss)
