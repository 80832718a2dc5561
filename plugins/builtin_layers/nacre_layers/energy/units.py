"""The units of energy models: binary ones, and those of a normal distribution."""

from __future__ import annotations

from typing import Any, Literal

from nacre import Array

from ..neurons import Sigmoid

Units = Literal["binary", "gaussian"]


def to_means(backend: Any, units: str, x: Array) -> None:
    """Turn the inputs of units into their means, in place: σ(x), or x."""
    if units == "binary":
        Sigmoid().forward(backend, x, x)


def sample(backend: Any, random: Any, units: str, means: Array, out: Array, draw: int) -> None:
    """Draw units of these means: 1 where a uniform number is below the mean, else 0; or N(mean, 1)."""
    if units == "binary":
        uniform = backend.scratch(tuple(means.shape), "float32", slot=9)
        random.uniform(uniform, draw)
        backend.xp.less(uniform, means, out=out)
    else:
        rows, *others = means.shape
        first, every = random.joined(rows)
        exact = random.generator(draw).standard_normal((every, *others))[first : first + rows]  # the same in every type
        noise = backend.scratch(tuple(means.shape), slot=9)
        backend.from_host(exact.astype(str(noise.dtype), copy=False), noise)
        backend.xp.add(means, noise, out=out)
