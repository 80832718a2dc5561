"""Every hook is documented, and discovery knows what it offers."""

from __future__ import annotations

import inspect

import pytest

from nacre import hooks
from nacre.discovery.offers import KIND_OF_HOOK

HOOKS = {name: function for name, function in vars(hooks).items() if hasattr(function, "nacre_spec")}


def test_discovery_knows_exactly_these_hooks() -> None:
    assert sorted(HOOKS) == sorted(KIND_OF_HOOK)


@pytest.mark.parametrize("name", sorted(KIND_OF_HOOK))
def test_a_hook_is_documented_and_takes_nothing(name: str) -> None:
    assert (HOOKS[name].__doc__ or "").startswith("Offer ")
    assert not inspect.signature(HOOKS[name]).parameters
