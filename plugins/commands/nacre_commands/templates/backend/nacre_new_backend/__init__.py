"""The backend new-name, for nacre."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .backend import NewNameBackend as NewNameBackend

nacre_api = "1.1"

BACKENDS = {"new-name": "nacre_new_backend.backend:NewNameBackend"}


@hookimpl
def offer_backends() -> dict[str, str]:
    """Offer the backend."""
    return BACKENDS


__getattr__ = lazy(__name__, BACKENDS)
