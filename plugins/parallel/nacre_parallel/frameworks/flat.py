"""Flat: arrays of a net as one flat NumPy array, which can be sent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nacre import Array, Communicator, Net, Storage, Training


class Flat:
    """Arrays of a net, one behind the other in `numbers`: `take` copies them there, and `put` writes them back.

    `storages` are those whose memory the arrays are, if they are parameters: `put` tells that they have changed.
    """

    def __init__(self, net: Net, arrays: Sequence[Array], storages: Sequence[Storage] = ()) -> None:
        self.backend, self.arrays, self.storages = net.backend, list(arrays), list(storages)
        ends = np.cumsum([0, *(int(array.size) for array in self.arrays)])
        self.numbers: np.ndarray[Any, Any] = np.zeros(int(ends[-1]), net.dtype)
        parts = [self.numbers[begin:end] for begin, end in pairwise(ends)]
        self._parts = [part.reshape(array.shape) for part, array in zip(parts, self.arrays, strict=True)]

    def take(self) -> None:
        """Copy the arrays into `numbers`."""
        for array, part in zip(self.arrays, self._parts, strict=True):
            np.copyto(part, self.backend.to_host(array), casting="unsafe")

    def put(self) -> None:
        """Write `numbers` into the arrays."""
        for array, part in zip(self.arrays, self._parts, strict=True):
            self.backend.from_host(part, array)
        Storage.note_changes(self.storages)

    def average(self, communicator: Communicator, *, ordered: bool = False, weight: int = 1, total: int = 0) -> None:
        """Replace the arrays by their means over all ranks: this one counts `weight` times, all together `total` times.

        By default each rank counts once.
        """
        if not self.numbers.size:
            return
        self.take()
        if not weight:
            self.numbers[...] = 0
        elif weight > 1:
            self.numbers *= weight
        communicator.allreduce(self.numbers, ordered=ordered)
        self.numbers /= total or communicator.size
        self.put()


def values_of(net: Net, slots: Sequence[Any]) -> Flat:
    """Return the values of parameters."""
    storages = [slot.storage for slot in slots]
    return Flat(net, [storage.array for storage in storages], storages)


def gradients_of(net: Net, slots: Sequence[Any]) -> Flat:
    """Return the gradients of parameters."""
    return Flat(net, [slot.gradient for slot in slots])


def buffers_of(net: Net) -> Flat:
    """Return the buffers of a net."""
    return values_of(net, [slot for slot in net.slots if not slot.trainable])


def histories_of(training: Training) -> Flat:
    """Return the histories of the parameters that a rank updates."""
    return Flat(training.net, [array for some in training.method.histories.values() for array in some])
