"""Every layer runs on a backend whose arrays NumPy cannot read: all of `LayerTests`, once more."""

import pytest

from fake_backends import ForeignBackend
from run_suite import failures
from suites_of_layers import suites

each = pytest.mark.parametrize("suite", list(suites()), ids=lambda suite: suite.__name__)


@each
def test_on_foreign_memory(suite):
    few = {"dtypes": ["float32"], "without": ["test_random_shapes", "test_growth"], "examples": 1}
    assert failures(suite, backend=ForeignBackend(), **few) == {}


@pytest.mark.long
@each
def test_all_on_foreign_memory(suite):
    assert failures(suite, backend=ForeignBackend()) == {}
