"""How a table of text is written: the options of the store CSV, of the source CSVData and of CSVOutput."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from nacre import Check, Configured, Converted, Shape, Texts, default, positive, whole

from .cells import Cells
from .names import LABEL


class Columns(Converted[str | int | Sequence[str | int], tuple[str | int, ...]]):
    """Columns of a table, each by its name, or by its number, counted from 0."""

    wants = "a name or a number of a column, or a list of them"

    @staticmethod
    def convert(value: Any) -> tuple[str | int, ...]:
        given = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        return tuple(one if isinstance(one, str) else whole(one) for one in given)


def _separates(text: Any, _: Any) -> str | None:
    fits = not text or (len(text) == 1 and text.isascii() and not text.isalnum() and text not in '\n\r".+-_ ')
    return None if fits else "it must be one character that stands in no number, and is no quote or space"


def _is_encoding(name: Any, _: Any) -> str | None:
    try:
        "".encode(name)
    except (LookupError, ValueError):
        return "Python knows no such encoding of text"
    return None


class TextOptions(Configured):
    """How a table is written: the fields that the store `CSV`, `CSVData` and `CSVOutput` have in common."""

    separator: Annotated[
        str, Check(_separates), "what separates cells; by default a tab in .tsv files, a comma in others"
    ] = ""
    decimal: Annotated[Literal[".", ","], "the decimal point, or comma, of numbers"] = "."
    encoding: Annotated[str, Check(_is_encoding), "encoding of the text; a byte order mark is left out"] = "utf-8"

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.decimal == "," and self.separator in ("", ","):
            yield f"decimal=',' and separator={self.separator!r}, but the separator must be another one, such as ';'"


class TableOptions(TextOptions):
    """What is in a table: the fields that the store `CSV` and the source `CSVData` have in common."""

    header: Annotated[bool | None, "whether the first line names the columns; by default, if it has only texts"] = None
    label: Annotated[int | str, 'column of the label: its name, or its number from 0; "" if there is none'] = LABEL
    data: Annotated[Columns, "columns of the data, by name or by number; by default all others"] = default(())
    shape: Annotated[Shape, positive, "shape of a record of the data; by default a list"] = default(())
    missing: Annotated[Texts, "what stands for a missing value, besides NaN"] = default(
        ("", "NA", "N/A", "null", "NULL", "?")
    )
    fill: Annotated[float | None, "the number for missing values; without it, they are errors"] = None

    def cells(self, path: Path) -> Cells:
        """Return how cells are written in a file of this name."""
        separator = self.separator or ("\t" if path.name.lower().endswith(".tsv") else ",")
        return Cells(separator, self.decimal, self.missing)
