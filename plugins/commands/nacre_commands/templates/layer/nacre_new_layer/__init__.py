"""The layer NewName, for nacre."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .layer import NewNameLayer as NewNameLayer

nacre_api = "1.1"

LAYERS = {"NewName": "nacre_new_layer.layer:NewNameLayer"}


@hookimpl
def offer_layers() -> dict[str, str]:
    """Offer the layer."""
    return LAYERS


__getattr__ = lazy(__name__, LAYERS)
