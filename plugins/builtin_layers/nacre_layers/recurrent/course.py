"""Course: which sequences of a batch are at work in which step, and where they begin anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import Array, DataError, number_text


class Course:
    """How the sequences of a batch run through the steps.

    `rows[t]` is how many are at work in step t: sequences of different lengths are sorted, the longest first. `order`
    has the index of each of them in the batch, `inverse` the opposite; None if they stay as they are. The state between
    two steps is numbered by the step after it, and `ends` are the flat indices (length · images + sequence) of those
    after the last steps. `masks[t]` is (images, 1), 0 for the sequences that begin at step t; None if none does.
    """

    def __init__(self, work: Any, steps: int, images: int) -> None:
        self.work, self.steps, self.images = work, steps, images
        self.rows: Sequence[int] = [images] * steps
        self.order: Array = None
        self.inverse: Array = None
        self.ends: Array = None
        self.masks: list[Array] = [None] * (steps + 1)
        self.mask: Array = None  # all of them, (steps + 1, images, 1), if there is one
        self._arrays: dict[str, Array] = {}

    def read_lengths(self, lengths: np.ndarray) -> None:
        """Take over the numbers of steps, one for each sequence."""
        order = np.argsort(-lengths, kind="stable")
        ranked = lengths[order]
        self.rows = [int(count) for count in (ranked[None] > np.arange(self.steps)[:, None]).sum(1)]
        self.order = self._put("order", order)
        self.inverse = self._put("inverse", np.argsort(order, kind="stable"))
        self.ends = self._put("ends", ranked * self.images + np.arange(self.images))

    def read_starts(self, starts: np.ndarray) -> None:
        """Take over where sequences begin: (steps, images), true for the first step of one."""
        goes_on = np.ones((self.steps + 1, self.images, 1), self.work.dtype)
        goes_on[:-1, :, 0] -= starts
        self.mask = self._put("mask", goes_on) if starts.any() else None
        self.masks = [self.mask[t] if t < self.steps and starts[t].any() else None for t in range(self.steps + 1)]

    def clear(self, array: Array) -> None:
        """Write 0 behind the ends of the sequences, into (steps, images, ...)."""
        if self.order is not None:
            for t, count in enumerate(self.rows):
                array[t][count:] = 0

    def _put(self, name: str, host: np.ndarray) -> Array:
        """Copy an array into one of the backend, the same at every call."""
        if name not in self._arrays:
            self._arrays[name] = self.work.empty(host.shape, str(host.dtype))
        self.work.from_host(host, self._arrays[name])
        return self._arrays[name]


def whole_numbers_of(layer: Any, backend: Any, name: str, given: Array, rows: int | None, most: int) -> np.ndarray:
    """Return whole numbers as a host array; those of the rows that are not real, behind the first `rows`, are 0.

    Raises:
        DataError: one of them is not a whole number from 0 to `most`; the message names the sequence.
    """
    host = backend.to_host(given)
    if rows is not None:
        host[rows:] = 0
    with np.errstate(invalid="ignore"):
        right = (host >= 0) & (host <= most) & (np.floor(host) == host)
    if not right.all():
        index = tuple(int(one) for one in np.argwhere(~right)[0])
        raise DataError(
            f"{layer.name}: '{name}' has {number_text(host[index])} for record {index[0]} of the batch, "
            f"but it must be a whole number from 0 to {most}",
            "lengths are from 0 to the number of steps; cont is 0 where a sequence begins, else 1",
        )
    return host.astype(np.int64)
