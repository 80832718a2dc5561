"""How layers are cut along their features, where a net is divided among ranks."""

from __future__ import annotations

from dataclasses import replace

from nacre import ConfigError, Layer, part_of


class OnNumbers(Layer):
    """A layer that computes every number of a top from those at its place, so that it can be cut along any axis."""

    feature_axis = None

    def partition(self, part: int, parts: int) -> Layer:
        return self


UNCUT = "set its partition_dim to 0 (by records) or -1 (not at all)"


def cut_field(layer: Layer, field: str, part: int, parts: int) -> Layer:
    """Return a layer with only a part of the features that one of its fields counts.

    Raises:
        ConfigError: there are fewer features than parts.
    """
    length: int = getattr(layer, field)
    start, stop = part_of(length, part, parts)
    if length < parts:
        raise ConfigError(
            f"{layer.name}: {field}={length}, which cannot be cut into {parts} parts", f"use fewer ranks, or {UNCUT}"
        )
    return replace(layer, **{field: stop - start})


def uncut(layer: Layer, reason: str) -> ConfigError:
    """Return the error of a layer that cannot be cut along its features because of one of its fields."""
    return ConfigError(
        f"{layer.name}: {reason}, so it cannot be cut along its features (partition_dim=1)",
        UNCUT,
    )
