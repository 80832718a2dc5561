"""Text for people to look at."""

from __future__ import annotations

from collections.abc import Sequence


def align(head: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return a table as lines of plain text; the columns of these numbers are pushed to the right."""
    table = [head, *body]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return [line(head), "  ".join("-" * width for width in widths), *map(line, body)]
