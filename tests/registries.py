"""Registries for tests: another one for the process, and plugins that look installed. Only here are insides touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nacre.discovery.offers import Plugin, Provenance, make_offer
from nacre.discovery.registry import Registry
from nacre.testing.plugin import use_registry as use_registry

NewRegistry = Callable[..., Registry]
"""The type of the fixture `new_registry`."""


def install_plugin(registry: Registry, distribution: str, offered: Iterable[tuple[str, str, object]]) -> None:
    """Add a plugin as discovery would, as an installed distribution; it offers (kind, name, class or target)."""
    provenance = Provenance(distribution, "1.0", f"/{distribution}.py", False, distribution.replace("-", "_"))
    plugin = Plugin(distribution, distribution, provenance)
    registry.plugins()  # discovers
    registry._plugins.append(plugin)
    for kind, name, value in offered:
        registry._add(plugin, make_offer(kind, name, value, provenance))
