"""A module `__getattr__` by which a plugin's light module gives its classes without importing them all."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import RegistryError


class ElsewhereError(RegistryError, ImportError):
    """A class is in another package; not an AttributeError, for which `from ... import` would have other words."""


def lazy(module: str, *offers: Mapping[Any, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` that finds classes by the strings that the plugin offers.

    `__getattr__ = lazy(__name__, LAYERS, NEURONS)`: `from nacre_layers import PoolingLayer` then imports one file. The
    names are in `dir(nacre_layers)`, and `from nacre_layers import *` imports them all.
    """
    places = {place.partition(":")[2]: place.partition(":")[0] for table in offers for place in table.values()}

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(places)
        if name not in places:
            raise absent(module, name, places)
        return getattr(importlib.import_module(places[name]), name)

    if module in sys.modules:
        own = vars(sys.modules[module])
        own.setdefault("__dir__", lambda: sorted({*own, *places}))
    return find


def absent(module: str, name: str, here: Mapping[str, Any]) -> Exception:
    """Return the error of whoever asks a module for a name that it has not; a class elsewhere is named."""
    if name[:1].isupper():
        if f"{name}Layer" in here:
            return ElsewhereError(f"{module} has no '{name}'", f"the layer is called {name}Layer, or L.{name}")
        door = __name__.partition(".")[0]
        if name in dir(sys.modules[door]):
            return ElsewhereError(f"{module} has no '{name}': it is in {door}", f"from {door} import {name}")
        from .offers import FIRST_PARTY
        from .registry import registry

        known = registry()
        offers = [offer for kind in known.kinds() for offer in known.offers(kind)]
        for called in (name, f"{name}Layer"):
            for offer in offers:
                path, _, found = offer.target.partition(":")
                package = path.partition(".")[0]
                if found == called and package != module:
                    it = "it" if called == name else called
                    place = package if offer.distribution == FIRST_PARTY else path
                    return ElsewhereError(
                        f"{module} has no '{name}': {it} is in {package}", f"from {place} import {called}"
                    )
    return AttributeError(f"module '{module}' has no attribute '{name}'")
