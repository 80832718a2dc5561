"""What the package offers can be used."""

from __future__ import annotations

import pytest
from nacre_new_file import OFFERS

import nacre


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, named in OFFERS.items() for name in named])
def test_it_is_found(kind: str, name: str) -> None:
    """By its kind and its name."""
    assert nacre.registry().open(kind, f"nacre-new-thing:{name}")
