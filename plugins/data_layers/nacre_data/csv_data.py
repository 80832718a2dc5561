"""CSVData: records from tables."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Paths, at_least

from .data import open_source
from .reading import ReadingLayer
from .source import CacheBytes, RecordSourceState
from .stores.csv import CSV
from .stores.table_options import TableOptions


class CSVDataLayer(TableOptions, ReadingLayer, is_source=True):
    """Feed the records of tables as text (.csv, .tsv): the columns of numbers are the data, another column the label.

    y[n] = field[order[position + n]], where position grows by batch_size with every batch.

    This is the source Data with the store CSV, whose options are fields here; see the store for what columns become. A
    top has the name of a column, or else the first is the data, (batch_size, columns), and the second the label.
    Several files are joined. A `.txt` file is a list of files, one on each line, relative to it. Raises DataError if a
    file cannot be read or does not match the others.

    Example:
        [[layer]]
        type = "CSVData"
        source = "iris.csv"
        tops = ["data", "label"]  # (10, 4), (10,)
        label = "species"
        batch_size = 10
        shuffle = true
    """

    source: Annotated[Paths, at_least(1), "tables, or .txt lists of them; relative to the net file"]
    cache_bytes: CacheBytes = 1 << 28

    def reading(self) -> dict[str, Any]:
        return {"store": CSV(**{field.name: getattr(self, field.name) for field in TableOptions.fields()})}

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Open the files, which are read once for the kinds of their columns.

        Raises:
            DataError: a file cannot be read, does not match the others, or there are fewer records than in a batch.
        """
        return open_source(self, backend, **self.reading())
