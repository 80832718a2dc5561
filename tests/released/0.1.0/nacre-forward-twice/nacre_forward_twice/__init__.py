"""The algorithm ForwardTwice, for nacre."""

from __future__ import annotations

from nacre import hookimpl

nacre_api = "1"


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    """Offer the algorithm."""
    return {"algorithm": {"ForwardTwice": "nacre_forward_twice.algorithm:ForwardTwice"}}
