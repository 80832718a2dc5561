"""Uniform random numbers on the device: see random.cu."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from nacre import Array, NacreError

from .launch import TYPES, launch, scalars

AXES = 5


def signed(word: int) -> int:
    """Return the lower 64 bits of a number as the signed one that has them."""
    word &= 2**64 - 1
    return word - 2**64 if word >= 2**63 else word


def box(
    shape: Sequence[int], whole: Sequence[int] | None, start: Sequence[int] | None
) -> tuple[list[int], list[int], list[int]]:
    """Return the lengths of a box, those of the whole array, and where the box begins, along `AXES` axes.

    Axes are joined to the one before where the box is as long as the whole.

    Raises:
        NacreError: too many are left.
    """
    axes: list[list[int]] = []
    for own, all_of, first in zip(shape, whole or shape, start or [0] * len(shape), strict=True):
        if axes and own == all_of:
            axes[-1] = [one * all_of for one in axes[-1]]
        else:
            axes.append([own, all_of, first])
    if len(axes) > AXES:
        raise NacreError(
            f"random numbers for {tuple(shape)} of {tuple(whole or shape)}: more than {AXES} axes are cut",
            "divide the net along fewer axes, or use the backend 'numpy'",
        )
    lengths, lengths_of_whole, begins = map(list, zip(*[[1, 1, 0]] * (AXES - len(axes)), *axes, strict=True))
    return lengths, lengths_of_whole, begins


def fill_uniform(
    view: Any, out: Array, keys: Sequence[int], draw: int, whole: Sequence[int] | None, start: Sequence[int] | None
) -> None:
    """Fill an array with the numbers that `Random.uniform` gives in the iteration that the net's scalars say."""
    shape, around, begin = box(out.shape, whole, start)
    steps = [prod(around[axis + 1 :]) for axis in range(AXES)]
    first = sum(one * step for one, step in zip(begin, steps, strict=True))
    numbers = scalars(view), view.scalars.place("step"), draw, *map(signed, keys), first
    expression = f"uniform<{TYPES[str(out.dtype)]}>"
    launch(view, "random", expression, out.size, out, out.size, *numbers, *shape[1:], *steps)
