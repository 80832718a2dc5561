"""A confusion matrix as SVG: a cell for each two classes, the darker the larger its share of the row."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .svg import document, shown, text

LARGE, SMALL = 38.0, 12.0  # sides of a cell, in pixels: with numbers, and of many classes without
MANY = 30  # classes: then the numbers have no room
CHARACTER = 6.7  # mean width of a character of 12 pixels, in pixels
MARGIN = 16.0
LONGEST = 24  # characters of a name
LEGEND = "rows: the classes of the labels; columns: what they were taken for"
RIGHT, WRONG = (47, 111, 78), (180, 80, 60)  # colours of the diagonal and of the rest, where a whole row is in one cell


def matrix_svg(title: str, classes: Sequence[str], matrix: Sequence[Sequence[float]]) -> str:
    """Return a matrix as SVG: rows are the classes of labels, columns what they were taken for."""
    classes = [*map(shown, classes)]
    cell = SMALL if len(classes) > MANY else LARGE
    font = 10 if len(classes) > MANY else 12
    names = [name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}…{name[-8:]}" for name in classes]
    label = max(map(len, names)) * CHARACTER * font / 12 + 8
    left, top, side = MARGIN + label, MARGIN + 44 + label, cell * len(classes)
    longest = max(len(title) * 8.0, len(LEGEND) * CHARACTER)
    width, height = max(left + side + MARGIN, longest + 2 * MARGIN), top + side + MARGIN + 18
    parts = [
        text(MARGIN, MARGIN + 12, title, 'font-size="14" font-weight="bold"'),
        text(MARGIN, MARGIN + 30, LEGEND, 'fill="#555"'),
    ]
    for number, name in enumerate(names):
        middle = (number + 0.5) * cell + font / 3
        parts.append(text(left - 6, top + middle, name, 'text-anchor="end"'))
        x = left + middle
        parts.append(text(x, top - 6, name, f'transform="rotate(-90 {x:.1f} {top - 6:.1f})"'))
    for row, values in enumerate(matrix):
        whole = sum(values)
        for column, value in enumerate(values):
            x, y, share = left + column * cell, top + row * cell, value / whole if whole else 0.0
            hint = f"<title>{html.escape(f'{classes[row]} as {classes[column]}: {value:g}')}</title>"
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell:.0f}" height="{cell:.0f}" stroke="#ddd" '
                f'fill="{_colour(RIGHT if row == column else WRONG, share)}">{hint}</rect>'
            )
            if value and cell == LARGE:
                style = f'text-anchor="middle" fill="{"white" if share > 0.5 else "#222"}"'
                parts.append(text(x + cell / 2, y + cell / 2 + 4, f"{value:g}", style))
    return document(title, width, height, parts, font)


def _colour(full: tuple[int, int, int], share: float) -> str:
    """Return a colour between white and `full`; the root makes small shares visible."""
    return "#" + "".join(f"{round(255 + (one - 255) * min(1.0, share) ** 0.5):02x}" for one in full)
