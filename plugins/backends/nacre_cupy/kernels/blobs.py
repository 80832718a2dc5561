"""Copies of arrays into another type or another order of their axes: see blobs.cu."""

from __future__ import annotations

from math import gcd
from typing import Any

from nacre import Array

from .launch import LANES, THREADS, launch

KINDS = {"float32": "float", "float64": "double", "uint16": "bf16"}
"""The types of arrays, and what C++ calls their numbers: those of bf16 lie in arrays of uint16."""
Piece = tuple[Array, int, int]
"""A part of an array: the array, where it begins, and how far its rows lie apart."""
TILE = 32
"""Rows and columns of the tiles in which matrices are transposed."""


def kind_of(array: Array) -> str:
    """Return what C++ calls the numbers of an array."""
    return KINDS[str(array.dtype)]


def convert(view: Any, given: Array, made: Array) -> None:
    """Write the numbers of an array into one of the other type, or of the same; `view` is a net's, or the backend."""
    to, kind = kind_of(made), kind_of(given)
    launch(
        view,
        "blobs",
        f"convert_to<{to}, {kind}>",
        -(-given.size // min(LANES[to], LANES[kind])),
        given,
        made,
        given.size,
    )


def transpose(view: Any, given: Array, made: Array, rows: int, columns: int) -> None:
    """Write matrices (rows, columns) that lie one after the other as (columns, rows), in the type of `made`."""
    if min(rows, columns) <= 1:
        return convert(view, given, made)
    count = given.size // (rows * columns)
    tiles = count * -(-rows // TILE) * -(-columns // TILE)
    name = f"transpose_to<{kind_of(made)}, {kind_of(given)}>"
    return launch(view, "blobs", name, tiles * THREADS, given, made, count, rows, columns)


def swap(view: Any, given: Array, made: Array) -> None:
    """Write an array (first, second, width) as (second, first, width), in the type of `made`."""
    to, kind, (first, second, width) = kind_of(made), kind_of(given), given.shape
    lanes = min(LANES[to], LANES[kind])
    items = first * second * (width // lanes if width % lanes == 0 else width)
    launch(view, "blobs", f"swap_to<{to}, {kind}>", items, given, made, first, second, width)


def copy_rows(view: Any, given: Piece, made: Piece, rows: int, width: int) -> None:
    """Copy rows of so many numbers out of a part of an array into one of another, of its type."""
    kind = kind_of(given[0])
    numbers = [width, *given[1:], *made[1:]]
    lanes = gcd(LANES[kind], *numbers)
    launch(view, "blobs", f"copy_rows<{kind}>", rows * width // lanes, *given, *made, rows, width)


def add(view: Any, part: Array, total: Array) -> None:
    """Add an array to another of its type."""
    kind = kind_of(total)
    launch(view, "blobs", f"add_to<{kind}>", -(-total.size // LANES[kind]), part, total, total.size)
