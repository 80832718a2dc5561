"""Tables, sizes, lists of names and articles as text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, count, zip_longest

NARROW = 8
"""Characters that a column of a table has at least, if its cells are as long."""

PARTS = re.compile(r"\s*(?:[^\s/_]*?[^\s/_A-Z](?=[A-Z][a-z])|[^\s/_]+[/_]*|[/_]+)")
"""The parts of a cell, with the blanks before them: words, and names up to a slash, a low line or the next Word."""

JOINERS = "\u200c\u200d"
"""What joins letters and pictures, or keeps them apart: it is not printable by itself, but names need it."""


def plain(text: str, *, lines: bool = False) -> str:
    """Return a text in which what is not printable is escaped: a terminal would obey control characters in a name.

    Joiners and all blanks stay, and the ends of `lines`.
    """
    if text.isprintable():  # as nearly every text
        return text
    from unicodedata import category

    kept = f"{JOINERS}\n" if lines else JOINERS
    seen = (one.isprintable() or one in kept or category(one) == "Zs" for one in text)
    return "".join(one if stays else repr(one)[1:-1] for one, stays in zip(text, seen, strict=True))


def align(head: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[int] = (), width: int = 0) -> list[str]:
    """Return a table as lines of plain text; the columns in `right` are right-aligned.

    The longest cells are wrapped until it is not wider than `width`; 0 is any width. Words are only broken if that does
    not suffice.
    """
    head, *body = ([plain(cell) for cell in row] for row in (head, *body))
    table = [head, *body]
    columns = list(zip(*table, strict=True))
    widths = [max(map(wide, cells)) for cells in columns]
    words = [max(wide(part.strip()) for cell in cells for part in ["", *PARTS.findall(cell)]) for cells in columns]
    for least in (words, [NARROW] * len(words)):
        while width and sum(widths) + 2 * len(widths) - 2 > width:
            spare = [one for one in range(len(widths)) if widths[one] > max(NARROW, least[one])]
            if not spare:
                break
            widths[max(spare, key=widths.__getitem__)] -= 1

    def lines(row: Sequence[str]) -> Iterator[str]:
        wrapped = [_wrapped(cell, most) for cell, most in zip(row, widths, strict=True)]
        for parts in zip_longest(*wrapped, fillvalue=""):
            cells = [
                padded(part, most, right=column in right)
                for column, (part, most) in enumerate(zip(parts, widths, strict=True))
            ]
            yield "  ".join(cells).rstrip()

    return [*lines(head), "  ".join("-" * most for most in widths), *(line for row in body for line in lines(row))]


def _wrapped(cell: str, width: int) -> list[str]:
    """Return the lines of a cell, which end at blanks, else where a part of it does, or anywhere in what is longer."""
    lines = [""]
    words: list[str] = re.findall(r"\s*\S+", cell)
    for part in chain.from_iterable([word] if wide(word.strip()) <= width else PARTS.findall(word) for word in words):
        if wide(lines[-1]) + wide(part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
        while wide(lines[-1]) > width:
            whole = max(1, next(end for end in range(len(lines[-1]), -1, -1) if wide(lines[-1][:end]) <= width))
            lines[-1:] = [lines[-1][:whole], lines[-1][whole:]]
    return lines


def wide(text: str) -> int:
    """Return how many columns of a terminal a text takes: East Asian letters and pictures two, accents none."""
    if text.isascii():  # as nearly every text
        return len(text)
    from unicodedata import category, east_asian_width

    taken = (0 if category(one) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(one) in "WF") for one in text)
    return sum(taken)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with blanks before it, or behind it, so that it takes so many columns of a terminal."""
    blanks = " " * (width - wide(text))
    return blanks + text if right else text + blanks


def screen_width() -> int:
    """Return the columns of the terminal, or of the variable COLUMNS; 80 where there is neither."""
    import shutil

    return shutil.get_terminal_size().columns


def fill(text: str, width: int, indent: str = "") -> str:
    """Return a text in which each paragraph that is wider than `width` is wrapped; what is indented stays as it is.

    With `indent`, which begins the lines after the first of a wrapped paragraph, indented ones are wrapped too.
    """
    import textwrap

    def filled(paragraph: str) -> str:
        long = max(map(len, paragraph.split("\n"))) > width
        if not long or (paragraph[:1].isspace() and not indent) or "\n " in paragraph:
            return paragraph
        return textwrap.fill(paragraph, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

    return "\n\n".join(map(filled, text.split("\n\n")))


FEW = 5  # names in one line: more would not help


def listed(names: Sequence[str]) -> str:
    """Return names as one text; of many only the first few, and how many more there are."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{', '.join(names[: FEW - 1])} and {len(names) - FEW + 1} more"


def counted(count: int, thing: str) -> str:
    """Return a number of things, such as "1 record" or "20 records"."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def short(count: int) -> str:
    """Return a large number with three digits, such as "1.23 M"."""
    number, unit = float(count), ""
    for unit in ("", " K", " M", " G", " T"):
        if number < 999.5 or unit == " T":
            break
        number /= 1000
    return f"{count}" if not unit else f"{number:.{0 if number >= 99.95 else 1 if number >= 9.995 else 2}f}{unit}"


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


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: the one that is wanted, or it with the first number from 2 on that is free."""
    return next(one for end in chain([""], map(str, count(2))) if (one := f"{wanted}{end}") not in taken)
