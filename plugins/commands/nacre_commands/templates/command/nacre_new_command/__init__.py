"""The command `nacre new-name`."""

from __future__ import annotations

from nacre import hookimpl

nacre_api = "1.1"


@hookimpl
def offer_commands() -> dict[str, str]:
    """Offer the command."""
    return {"new-name": "nacre_new_command.command:command"}
