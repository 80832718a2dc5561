"""MemoryData: records from arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from nacre import Converted, DataError, class_order, default

from .checks import check_counts, check_entries
from .fitting import ClassNames
from .records import ArrayRecords
from .source import RecordSourceLayer, RecordSourceState

Given = Sequence[Any] | Mapping[str, Any] | np.ndarray
Read = tuple[np.ndarray, ...] | dict[str, np.ndarray]


class Arrays(Converted[Given, Read]):
    """Arrays, or values that NumPy converts to arrays: a list, {top: array}, or a single one."""

    wants = "a list of arrays, or {top: array}"

    @staticmethod
    def convert(value: Any) -> Read:
        if isinstance(value, Mapping):
            return {str(name): _whole(array) for name, array in value.items()}
        if hasattr(value, "__array__"):
            return (_whole(value),)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError
        return tuple(_whole(array) for array in value)


def _whole(value: Any) -> np.ndarray:
    """Return an array; raise DataError if values of it are masked, for which there would be any numbers."""
    if np.ma.is_masked(value):
        message = f"an array of data has {np.ma.count_masked(value):,} masked values, but a blob has no masks"
        raise DataError(message, "give numbers for them, such as array.filled(0)")
    return np.asarray(value)


def _numbered(array: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return an array, with numbers in place of texts, and the names that these count."""
    texts: list[Any] = array.tolist() if array.dtype.kind in "OU" and array.ndim == 1 else []
    if not texts or not all(isinstance(one, str) for one in texts):
        return array, ()
    names = class_order(texts)
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[text] for text in texts]), names


class MemoryDataLayer(RecordSourceLayer, is_source=True):
    """Feed the records of arrays: axis 0 counts the records, and each top is a batch (batch_size, ...) of one array.

    y[n] = array[order[position + n]], where position grows by batch_size with every batch.

    The arrays are neither copied nor changed. In phase `train` batches continue into the next pass over the records; in
    the others the last batch of a pass is filled up, and only its real rows count. Labels (one whole number per record)
    become int64 blobs, the others have the net's type. Texts count classes, or are made numbers of by transformers such
    as `Categories` and `Words`. Raises DataError if the arrays hold no numbers or no records, or
    different numbers of records. After Mocha.jl's `MemoryDataLayer`.

    Example:
        import numpy as np
        from nacre_data import MemoryDataLayer

        images, labels = np.zeros((100, 1, 28, 28)), np.arange(100) % 10
        layer = MemoryDataLayer(data=[images, labels], batch_size=20)  # "data" (20, 1, 28, 28), "label" (20,)
    """

    data: Annotated[Arrays, "the arrays, one for each top: a list, or {top: array}"]
    column_names: Annotated[ClassNames, "names of the columns of a table that make up a record: {top: names}"] = (
        default(None)
    )

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for top in self.column_names:
            if top not in self.tops:
                yield f"column_names name the top '{top}', but it must be one of {', '.join(self.tops)}"
        wanted = f"it needs one for each top: {', '.join(self.tops)}"
        if isinstance(self.data, dict):
            if not set(self.tops) <= set(self.data):
                yield f"data has the arrays {', '.join(self.data) or '(none)'}, but {wanted}"
        elif self.data and len(self.data) != len(self.tops):
            yield f"data has {len(self.data)} arrays, but {wanted}"

    def standalone(self) -> MemoryDataLayer:
        """Return a source without arrays, for a saved net: it changes records as this one does."""
        return replace(super().standalone(), data=())

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Check the arrays.

        Raises:
            DataError: they hold no numbers or no records, differ in their number, or are fewer than a training's batch.
        """
        data = self.data
        if not data:
            raise DataError(f"{self.name}: there are no arrays in data", "give one for each top")
        given = [data[top] for top in self.tops] if isinstance(data, dict) else list(data)
        arrays, names = zip(*map(_numbered, given), strict=True)
        for top, array in zip(self.tops, arrays, strict=True):
            check_entries(f"{self.name}: '{top}'", array.shape, array.dtype)
        if not len(arrays[0]):
            raise DataError(f"{self.name}: there are no records in data")
        columns = {}
        for field, what in self.columns(backend.phase).items():
            if not isinstance(data, dict) or field not in data:
                raise DataError(
                    f"{self.name}: {what} is '{field}', but data has no array of this name",
                    f"give the arrays by name, as data={{..., '{field}': ...}}",
                )
            columns[field] = data[field]
        check_counts(self.name, [*self.tops, *columns], [*map(len, arrays), *map(len, columns.values())])
        records = ArrayRecords(self.name, self.tops, arrays, columns)
        records.classes = dict(zip(self.tops, names, strict=True))
        records.column_names = self.column_names
        return RecordSourceState(self, backend, records)
