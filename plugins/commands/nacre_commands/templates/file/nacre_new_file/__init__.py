"""What nacre-new-thing offers, for nacre: by kind and name. Nothing of it is imported before it is used."""

from __future__ import annotations

from nacre import hookimpl, lazy

nacre_api = "1.1"

OFFERS = {
    "layer": {"NewName": "nacre_new_file.layer:NewNameLayer"},
}


@hookimpl
def offer_layers() -> dict[str, str]:
    """Offer the layers."""
    return OFFERS.get("layer", {})


@hookimpl
def offer_backends() -> dict[str, str]:
    """Offer the backends."""
    return OFFERS.get("backend", {})


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    """Offer everything else."""
    return {kind: named for kind, named in OFFERS.items() if kind not in ("layer", "backend")}


__getattr__ = lazy(__name__, *OFFERS.values())
