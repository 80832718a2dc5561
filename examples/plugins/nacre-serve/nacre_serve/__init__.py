"""The command `nacre serve`. This module only names it; nothing of it is imported before it is used."""

from __future__ import annotations

from nacre import hookimpl

nacre_api = "1"


@hookimpl
def offer_commands() -> dict[str, str]:
    """Offer the command."""
    return {"serve": "nacre_serve.command:command"}
