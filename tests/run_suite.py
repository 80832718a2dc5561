"""Running a suite of `nacre.testing` by hand, to see what it finds."""

import contextlib
import inspect
import tempfile
from pathlib import Path

import pytest


def kit_tests(suite):
    """Return the names of the tests of a suite."""
    return {name for name in dir(suite) if name.startswith("test_") and callable(getattr(suite, name))}


one_or_all = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["", "every"])
"""A test of a fault runs the check that is to find it; as a long test every check, of which few may find it."""


def besides(suite, check, every, slow=()):
    """Return the tests that a test of a fault leaves out: all besides its check, or of `every` the `slow` ones."""
    return (set(slow) if every else kit_tests(suite)) - {check}


def failures(suite, recorded=None, backend="numpy", dtypes=(), without=(), examples=None):
    """Run the tests of a suite on a backend, as pytest would, `without` some; return {test: first error}.

    Of a backend of its own only those that ask for one: the others would only be repeated. `recorded` takes what the
    tests record as properties; `dtypes` are the suite's if there are none, and of its `examples` the
    first so many are tried.
    """
    found = {}
    choices = {"backend": [backend], "dtype": dtypes or suite.dtypes}
    choices["record_property"] = [lambda *what: recorded.append(what) if recorded is not None else None]
    for name in sorted(kit_tests(suite) - set(without)):
        asked = [one for one in inspect.signature(getattr(suite, name)).parameters if one != "self"]
        if "example" in asked:
            choices["example"] = list(suite().examples())[:examples]
        if backend != "numpy" and "backend" not in asked:
            continue
        with tempfile.TemporaryDirectory() as folder:
            choices["tmp_path"] = [Path(folder)]
            for values in suite.rows(name, {one: choices[one] for one in asked}):
                try:
                    with contextlib.suppress(pytest.skip.Exception):
                        getattr(suite(), name)(*values)
                except Exception as error:
                    found.setdefault(name, error)
    return found
