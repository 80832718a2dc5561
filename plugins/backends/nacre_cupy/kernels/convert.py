"""Pictures from bytes to what a net computes with, on the device: see convert.cu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from nacre import Array, DataError

from .launch import LANES, TYPES, launch, too_large

SOURCES = {"uint8": "u8", "float32": "float"}
"""Types in which pictures are stored, and what C++ calls them."""
SUBTRACT, MULTIPLY, OUTSIDE = 0, 1, 2
"""Numbers of what is done in convert.cu."""


@dataclass(frozen=True)
class Crop:
    """A window of so many pixels: in phase `train` anywhere, else in the middle."""

    rows: int
    columns: int


@dataclass(frozen=True)
class Mirror:
    """In phase `train`, half of the pictures are turned left to right."""


@dataclass(frozen=True)
class Shift:
    """In phase `train`, pictures move by up to so many pixels; those from outside are 0."""

    pixels: int


@dataclass(frozen=True)
class Arithmetic:
    """A mean to subtract, or a factor: one number, one for each channel, or an array of a picture's shape by then."""

    numbers: np.ndarray
    multiplies: bool


class Conversion:
    """Changes of pictures (channels, rows, columns), in their order, in one pass over memory.

    Numbers are those of nacre's transformers Crop, Mirror, RandomShift, SubMean and Scale: converted to the net's type
    and then changed one after the other; in bf16 they are rounded once, at the end.

    Args:
        view: of the net.
        shape: of a picture as it is stored.
        changes: what is done.

    Raises:
        DataError: an array of numbers fits neither a picture nor its channels.
    """

    def __init__(self, view: Any, shape: Sequence[int], changes: Sequence[Crop | Mirror | Shift | Arithmetic]) -> None:
        self.view, self.shape = view, tuple(shape)
        self.moves: list[Crop | Mirror | Shift] = []
        self.sizes = [self.shape]
        """The shape of a picture at each stage: as it is stored, and after each crop, mirror and shift."""
        rows: list[list[int]] = []
        self._operands: list[Array] = []
        for change in changes:
            if isinstance(change, Arithmetic):
                rows.append(self._row(change))
                continue
            if isinstance(change, Shift):  # what is outside here, becomes 0
                rows.append([OUTSIDE, len(self.moves), 0, 0, *self.sizes[-1][1:]])
            self.moves.append(change)
            size = (change.rows, change.columns) if isinstance(change, Crop) else self.sizes[-1][1:]
            self.sizes.append((self.shape[0], *size))
        self.count = len(rows)
        self.table = view.constant(np.array(rows or [[0] * 6], np.int64), "int64")

    def _row(self, change: Arithmetic) -> list[int]:
        numbers, size = np.asarray(change.numbers), self.sizes[-1]
        if numbers.size == 1:
            mode = 0
        elif numbers.shape == size or numbers.size == size[0]:
            mode = 2 if numbers.shape == size else 1
        else:
            raise DataError(f"numbers of shape {numbers.shape} fit no picture of shape {size}")
        operand = self.view.constant(numbers.reshape(-1), self.view.dtype)
        self._operands.append(operand)
        return [MULTIPLY if change.multiplies else SUBTRACT, len(self.moves), operand.data.ptr, mode, *size[1:]]

    @staticmethod
    def unfit(shape: Sequence[int], stored: str, images: int) -> str | None:
        """Return why a batch of so many pictures cannot be converted here, or None."""
        if stored not in SOURCES:
            return f"pictures are stored as {stored}, not as {' or '.join(SOURCES)}"
        return too_large([(images, *shape)])

    def places(self, drawn: Sequence[np.ndarray], images: int, phase: str) -> np.ndarray:
        """Return where the pixels of each picture come from, as int32 (stages, images, 3), for `enqueue`.

        `drawn` has for each crop and shift an array (images, 2) of numbers u from [0, 1), and for each mirror one of
        (images, 1); they are only looked at in phase `train`.
        """
        trains = phase == "train"
        found = np.zeros((len(self.sizes), images, 3), np.int32)
        found[-1] = 0, 0, 1
        for stage in reversed(range(len(self.moves))):
            row, column, step = found[stage + 1].T
            move, (_, rows, columns) = self.moves[stage], self.sizes[stage]
            if isinstance(move, Crop):
                rooms = np.array([rows - move.rows + 1, columns - move.columns + 1])
                corners = (drawn[stage] * rooms).astype(np.int32) if trains else np.tile((rooms - 1) // 2, (images, 1))
                row, column = row + corners[:, 0], column + corners[:, 1]
            elif trains and isinstance(move, Shift):
                far = (drawn[stage] * (2 * move.pixels + 1)).astype(np.int32) - move.pixels
                row, column = row + far[:, 0], column + far[:, 1]
            elif trains:
                turned = drawn[stage][:, 0] < 0.5
                column, step = np.where(turned, columns - 1 - column, column), np.where(turned, -step, step)
            found[stage] = np.stack([row, column, step], axis=1)
        return found

    def enqueue(self, batch: Array, places: Array, to: Array, dtype: str, to_channels: int = 0) -> None:
        """Convert a batch (images, channels, rows, columns) of uint8 or float32, with `places` on the device.

        `to` has the numbers in `dtype`, in C order, or with `to_channels` channels last, of which the last ones are 0.
        """
        images, (_, height, width) = batch.shape[0], self.sizes[-1]
        kind = TYPES[dtype]
        inner, lines = (to_channels, height * width) if to_channels else (width, self.shape[0] * height)
        items = images * lines * (inner // LANES[kind] if inner % LANES[kind] == 0 else inner)
        numbers = (self.count, images, *self.shape, height, width, to_channels)
        assert batch.size == images * prod(self.shape)
        name = f"convert<{kind}, {SOURCES[str(batch.dtype)]}>"
        launch(self.view, "convert", name, items, batch, to, places, self.table, *numbers)
