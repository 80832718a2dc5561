"""Parquet files, for nacre. This module only names what is offered; nothing of it is imported before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .parquet import Parquet as Parquet

nacre_api = "1"
nacre_libraries = ("pyarrow",)

STORES = {"Parquet": "nacre_parquet.parquet:Parquet"}


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    """Offer the store."""
    return {"store": STORES}


__getattr__ = lazy(__name__, STORES)
