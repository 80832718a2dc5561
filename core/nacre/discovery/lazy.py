"""A module `__getattr__` by which a plugin's light module gives its classes without importing them all."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(module: str, *offers: Mapping[Any, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` that finds classes by the strings that the plugin offers.

    `__getattr__ = lazy(__name__, LAYERS, NEURONS)`: `from nacre_layers import PoolingLayer` then imports one file.
    """
    places = {place.partition(":")[2]: place.partition(":")[0] for table in offers for place in table.values()}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        return getattr(importlib.import_module(places[name]), name)

    return find
