"""Every layer runs on a backend whose arrays NumPy cannot read: all of `LayerTests`, once more."""

import importlib.util
from pathlib import Path

import pytest

from fake_backends import ForeignBackend
from nacre.testing.layers import LayerTests
from run_suite import failures


def suites():
    for file in sorted(Path(__file__).parent.rglob("test_*.py")):
        if file == Path(__file__):
            continue
        spec = importlib.util.spec_from_file_location(f"again_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for thing in vars(module).values():
            is_suite = isinstance(thing, type) and issubclass(thing, LayerTests) and thing.__module__ == module.__name__
            if is_suite and not thing.layer.is_source:
                yield thing


each = pytest.mark.parametrize("suite", list(suites()), ids=lambda suite: suite.__name__)


@each
def test_on_foreign_memory(suite):
    few = {"dtypes": ["float32"], "without": ["test_random_shapes", "test_growth"], "examples": 1}
    assert failures(suite, backend=ForeignBackend(), **few) == {}


@pytest.mark.long
@each
def test_all_on_foreign_memory(suite):
    assert failures(suite, backend=ForeignBackend()) == {}
