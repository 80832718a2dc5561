"""Records in memory that two processes share: an anonymous file, not /dev/shm, which is small in containers."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from math import prod

import numpy as np

from nacre import Field

NUMBERS, DRAWS = " numbers", " draws"
"""What stands in the memory besides the fields: the numbers of the records, and what is drawn for each."""
BESIDES = {NUMBERS: Field((), "int64"), DRAWS: Field((3,), "float64")}
ALIGNED = 64  # bytes


def bytes_of(field: Field) -> int:
    """Return how many bytes a record has in a field."""
    return np.dtype(field.dtype).itemsize * prod(field.shape or ())


class SharedRows:
    """The memory in a file; both processes lay it out alike."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.memory: mmap.mmap | None = None

    def arrays(self, fields: Mapping[str, Field], count: int) -> dict[str, np.ndarray]:
        """Return an array (count, *shape) in the memory for each field."""
        places, size = dict[str, int](), 0
        for name, field in fields.items():
            places[name] = size
            size += -(-count * bytes_of(field) // ALIGNED) * ALIGNED
        if self.memory is None or len(self.memory) < size:
            if os.fstat(self.descriptor).st_size < size:
                os.ftruncate(self.descriptor, size)
            self.memory = mmap.mmap(self.descriptor, size)
        return {
            name: np.ndarray((count, *(field.shape or ())), field.dtype, self.memory, places[name])
            for name, field in fields.items()
        }
