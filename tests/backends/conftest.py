"""Fixtures of the tests of the cupy backend."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

import cupy_standin


@pytest.fixture(scope="module")
def cupy() -> Generator[Any]:
    """CuPy, or the stand-in for it where there is no GPU."""
    with cupy_standin.installed() as found:
        yield found


@pytest.fixture
def backend(cupy: Any) -> Any:
    """A backend of its own."""
    return cupy_standin.watched()()
