"""NewName: sine waves, and how many periods each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from nacre import Array, DataError, Layer, Names, SourceState, count_in, default, exactly, positive

PERIODS = 4


class NewNameLayer(Layer, is_source=True):
    """Feed waves: record n is a sine of (n mod 4) + 1 periods, which begins at n; its label is n mod 4.

    Example:
        [[layer]]
        type = "NewName"
        tops = ["wave", "label"]  # (20, 32) and (20,), labels from 0 to 3
        batch_size = 20
    """

    needs_data: ClassVar[bool] = False  # it reads no file, so a net that is saved can keep it

    tops: Annotated[Names, exactly(2), "the waves, and their labels"] = default(("wave", "label"))
    batch_size: Annotated[int, positive, "waves in a batch"]
    count: Annotated[int, positive, "waves in a pass"] = 100
    length: Annotated[int, positive, "numbers in a wave"] = 32
    shuffle: Annotated[bool, "use a new random order of the records in each pass"] = False


class NewNameState(SourceState, of=NewNameLayer, host_only=True):
    """`NewNameLayer` on any backend.

    In training the next pass begins inside a batch. In the other phases the last batch of a pass is filled up with its
    last record, and `rows` is the number of real ones.
    """

    def __init__(self, layer: NewNameLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        if backend.phase == "train" and backend.joined(layer.batch_size)[1] > layer.count:
            raise DataError(f"{layer.name}: batch_size={layer.batch_size}, but a pass has only {layer.count} waves")
        self.blobs = [backend.blob((layer.batch_size, layer.length)), backend.blob((layer.batch_size,), "int64")]
        self.position = self.epoch = 0
        self.random = backend.random(layer.name, lambda: self.epoch)  # its numbers are those of the pass

    def forward(self, inputs: list[Array]) -> None:
        """Write the next batch."""
        records, passes = np.array(self._next()).T
        self.numbers = records, passes  # by which callbacks and transformers know the records
        waves, labels = self.blobs
        waves[:] = waves_of(records, self.layer.length)
        labels[:] = records % PERIODS

    def _next(self) -> list[tuple[int, int]]:
        """Return (record, pass) of each row of the next batch: of a batch of all ranks together, this rank's part."""
        size = self.layer.batch_size
        first, every = self.backend.joined(size)
        records: list[tuple[int, int]] = []
        while len(records) < every:
            part = self._order()[self.position :][: every - len(records)]
            records += [(record, self.epoch) for record in part.tolist()]
            self.position += len(part)
            if self.position == self.layer.count:
                self.position, self.epoch = 0, self.epoch + 1
                if self.phase != "train":
                    break
        mine = records[first : first + size]
        self.rows = len(mine)
        return mine + records[-1:] * (size - len(mine))

    def _order(self) -> Array:
        """Return the records in the order of this pass."""
        count = self.layer.count
        return self.random.generator().permutation(count) if self.layer.shuffle else np.arange(count)

    def rewind(self) -> None:
        """Begin this pass again."""
        self.position = 0

    def memory(self) -> dict[str, int]:
        """Return what a resumed training needs, to go on with the very next record."""
        return {"position": self.position, "epoch": self.epoch}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore it."""
        self.position, self.epoch = count_in(memory, "position"), count_in(memory, "epoch")


def waves_of(records: Array, length: int) -> Array:
    """Return the waves of these records."""
    numbers = records[:, np.newaxis]
    return np.sin((numbers % PERIODS + 1) * np.arange(length) * (2 * np.pi / length) + numbers)
