"""Every layer runs on a backend whose arrays NumPy cannot read: all of `LayerTests`, once more.

The stand-in for CuPy refuses as much in the default run, with fewer examples and checks: see test_on_cupy.py.
"""

import pytest

from fake_backends import ForeignBackend
from run_suite import failures
from suites_of_layers import suites

ALWAYS = ("TestReduction", "TestSquareLoss")
"""Suites of the default run, quick ones: whole numbers are computed in floats in them, with several functions."""


def each():
    """Yield the suites, all but a few for the long run."""
    for suite in suites():
        yield pytest.param(suite, id=suite.__name__, marks=[] if suite.__name__ in ALWAYS else pytest.mark.long)


@pytest.mark.parametrize("suite", list(each()))
def test_on_foreign_memory(suite):
    assert failures(suite, backend=ForeignBackend()) == {}
