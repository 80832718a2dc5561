"""Torch's modules as layers, for nacre. This module only names what is offered; nothing of it is imported before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .layer import TorchLayer as TorchLayer

nacre_api = "1"
nacre_libraries = ("torch",)

LAYERS = {"Torch": "nacre_torch.layer:TorchLayer"}

MODULES = {name: f"torch.nn:{name}" for name in ("BatchNorm2d", "Conv2d", "LSTM", "Linear")}
"""The modules that a net file may name: a kind of our own, to which any package may add its modules."""


@hookimpl
def offer_layers() -> dict[str, str]:
    """Offer the layer."""
    return LAYERS


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    """Offer the modules."""
    return {"torch_module": MODULES}


__getattr__ = lazy(__name__, LAYERS)
