"""Files .newname, for nacre."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .store import NewName as NewName

nacre_api = "1.1"

STORES = {"NewName": "nacre_new_store.store:NewName"}


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    """Offer the store."""
    return {"store": STORES}


__getattr__ = lazy(__name__, STORES)
