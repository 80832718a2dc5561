"""The layer Swirl, for nacre. This module only names what is offered; nothing of it is imported before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .swirl import SwirlLayer as SwirlLayer

nacre_api = "1"

LAYERS = {"Swirl": "nacre_swirl.swirl:SwirlLayer"}


@hookimpl
def offer_layers() -> dict[str, str]:
    """Offer the layer."""
    return LAYERS


__getattr__ = lazy(__name__, LAYERS)
