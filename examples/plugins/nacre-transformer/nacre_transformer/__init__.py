"""Transformers, for nacre. This module only names what is offered; nothing of it is imported before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .attention import AttentionLayer as AttentionLayer
    from .block import TransformerBlockLayer as TransformerBlockLayer
    from .positions import PositionsLayer as PositionsLayer

nacre_api = "1"

LAYERS = {
    "Attention": "nacre_transformer.attention:AttentionLayer",
    "Positions": "nacre_transformer.positions:PositionsLayer",
    "TransformerBlock": "nacre_transformer.block:TransformerBlockLayer",
}


@hookimpl
def offer_layers() -> dict[str, str]:
    """Offer the layers."""
    return LAYERS


__getattr__ = lazy(__name__, LAYERS)
