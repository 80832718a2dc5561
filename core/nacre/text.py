"""Tables, sizes, lists of names and articles as text."""

from __future__ import annotations

import re
from collections.abc import Sequence


def align(head: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return a table as lines of plain text; the columns in `right` are right-aligned."""
    table = [head, *body]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return [line(head), "  ".join("-" * width for width in widths), *map(line, body)]


FEW = 5  # names in one line: more would not help


def listed(names: Sequence[str]) -> str:
    """Return names as one text; of many only the first few, and how many more there are."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{', '.join(names[: FEW - 1])} and {len(names) - FEW + 1} more"


def size(count: int) -> str:
    """Return a number of bytes in a unit that is easy to read, such as "1.5 MiB"."""
    number, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


_SPELLED = re.compile(r"[A-Z]+(?![a-z])|(?!str\b)[b-df-hj-np-tv-xz]+(?![A-Za-z])")
"""The beginning of a name that is read letter by letter, as in "SGD", "L2" and "lr_policy"."""

_VOWEL = re.compile(r"8|1[18](?!\d)|(?!eu|ui|uni|use|one|once)[aeiou]", re.IGNORECASE)
"""The beginning of a name that sounds like a vowel; "Uniform" and "oneDNN" do not."""


def with_article(name: str) -> str:
    """Return a name with "a" or "an" before it, as it sounds: "an Adam", "an lr_policy", "a Uniform"."""
    vowel = name[0] in "AEFHILMNORSXaefhilmnorsx" if _SPELLED.match(name) else _VOWEL.match(name)
    return f"{'an' if vowel else 'a'} {name}"


def with_containers(name: str) -> list[str]:
    """Return the name of a layer, and those of the containers that it is in, the innermost first."""
    found = [name]
    while "/" in found[-1]:
        found.append(found[-1].rpartition("/")[0])
    return found
