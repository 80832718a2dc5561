"""Every layer runs on a backend whose arrays NumPy cannot read: all of `LayerTests`, once more.

The stand-in for CuPy refuses as much in the default run: see test_on_cupy.py.
"""

import pytest

from fake_backends import ForeignBackend
from run_suite import failures
from suites_of_layers import suites


@pytest.mark.long
@pytest.mark.parametrize("suite", list(suites()), ids=lambda suite: suite.__name__)
def test_on_foreign_memory(suite):
    assert failures(suite, backend=ForeignBackend()) == {}
