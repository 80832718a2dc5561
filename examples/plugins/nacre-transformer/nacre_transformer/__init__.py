"""Transformers, for nacre. This module only names what is offered; nothing of it is imported before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .attention import AttentionLayer as AttentionLayer
    from .block import TransformerBlockLayer as TransformerBlockLayer
    from .dot_product import DotProductAttentionLayer as DotProductAttentionLayer
    from .fused import FusedKernel as FusedKernel
    from .kernel import FlashKernel as FlashKernel
    from .positions import PositionsLayer as PositionsLayer

nacre_api = "1"

LAYERS = {
    "Attention": "nacre_transformer.attention:AttentionLayer",
    "DotProductAttention": "nacre_transformer.dot_product:DotProductAttentionLayer",
    "Positions": "nacre_transformer.positions:PositionsLayer",
    "TransformerBlock": "nacre_transformer.block:TransformerBlockLayer",
}
KERNELS = {
    ("nacre-transformer:DotProductAttention", "cupy"): "nacre_transformer.fused:FusedKernel",
    ("nacre-transformer:DotProductAttention", "onednn"): "nacre_transformer.kernel:FlashKernel",
}


@hookimpl
def offer_layers() -> dict[str, str]:
    """Offer the layers."""
    return LAYERS


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    """Offer the kernels."""
    return KERNELS


__getattr__ = lazy(__name__, LAYERS, KERNELS)
