"""Uniform random numbers on the device: see random.cu."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from nacre import Array

from .launch import TYPES, launch, scalars

AXES = 5


def signed(word: int) -> int:
    """Return the lower 64 bits of a number as the signed one that has them."""
    word &= 2**64 - 1
    return word - 2**64 if word >= 2**63 else word


def fill_uniform(
    view: Any, out: Array, keys: Sequence[int], draw: int, whole: Sequence[int] | None, start: Sequence[int] | None
) -> None:
    """Fill an array with the numbers that `Random.uniform` gives in the iteration that the net's scalars say."""
    shape = (*[1] * (AXES - out.ndim), *out.shape)
    around = shape if whole is None else (*[1] * (AXES - out.ndim), *whole)
    begin = [0] * AXES if start is None else [*[0] * (AXES - out.ndim), *start]
    steps = [prod(around[axis + 1 :]) for axis in range(AXES)]
    first = sum(one * step for one, step in zip(begin, steps, strict=True))
    numbers = scalars(view), view.scalars.place("step"), draw, *map(signed, keys), first
    expression = f"uniform<{TYPES[str(out.dtype)]}>"
    launch(view, "random", expression, out.size, out, out.size, *numbers, *shape[1:], *steps)
