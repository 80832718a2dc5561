"""The statistics of single classes as tables: one row for each class, and a matrix for each two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from ..protocols.layer import Layer, about_statistic, statistic_of_classes
from ..text import screen_width
from .screen import number_text, print_table

MOST = 10  # pairs of classes, if the matrix is too wide

Names = Mapping[str, Sequence[str]]
Pairs = dict[tuple[int, ...], float]


@dataclass
class ByClass:
    """What a layer measures of single classes.

    `single` has for each statistic the value of each class, and its unit; `pairs` for each statistic of two classes
    the value for each pair.
    """

    layer: str
    names: Sequence[str]
    single: dict[str, tuple[dict[int, float], str]] = field(default_factory=dict[str, tuple[dict[int, float], str]])
    pairs: dict[str, Pairs] = field(default_factory=dict[str, Pairs])

    def name(self, number: int) -> str:
        """Return the name of a class, or its number if it has none."""
        return self.names[number] if number < len(self.names) else str(number)

    def show(self) -> None:
        """Print the tables."""
        if self.single:
            click.echo(f"\n{self.layer}, class by class:")
            classes = sorted({number for values, _ in self.single.values() for number in values})
            rows = [
                (self.name(one), *(number_text(values[one], unit) for values, unit in self.single.values()))
                for one in classes
            ]
            heads = [self._title(declared) for declared in self.single]
            print_table(("", *heads), rows, right=range(1, len(heads) + 1))
        for declared, values in self.pairs.items():
            self._show_pairs(_pair_words(declared), values)

    def _title(self, declared: str) -> str:
        """Return the head of a column: "recall" of "recall_{class}"; a plain "class_{class}" is the layer's own."""
        title = declared.replace("{class}", "").strip("_")
        return self.layer if title == "class" else title

    def matrix(self, values: Pairs) -> list[list[float]]:
        """Return the values of pairs as rows."""
        count = 1 + max(max(pair) for pair in values)
        return [[values.get((row, column), 0.0) for column in range(count)] for row in range(count)]

    def _show_pairs(self, words: str, values: Pairs) -> None:
        matrix = self.matrix(values)
        cells = [[f"{value:g}" if value else "." for value in row] for row in matrix]
        names = [self.name(number) for number in range(len(matrix))]
        numbers = [str(number) for number in range(len(matrix))]
        with_numbers = [one if one == name else f"{one} {name}" for one, name in zip(numbers, names, strict=True)]
        for heads, begins in ((names, names), (numbers, with_numbers)):
            rows = [(begin, *row) for begin, row in zip(begins, cells, strict=True)]
            if _width(("", *heads), rows) <= screen_width():
                click.echo(f"\n{self.layer}: the row's class {words} the column's")
                print_table(("", *heads), rows, right=range(1, len(matrix) + 1))
                return
        found = sorted((one for one in values.items() if one[0][0] != one[0][1] and one[1]), key=lambda one: -one[1])
        some = f"the {MOST} most frequent of {len(found)} kinds of mistakes" if len(found) > MOST else "all mistakes"
        click.echo(f"\n{self.layer}: {some}; --plot FILE.svg draws the whole matrix" if found else "")
        rows = [
            (names[row], names[column], f"{value:g}", number_text(value / sum(matrix[row]), "%"))
            for (row, column), value in found[:MOST]
        ]
        if rows:
            print_table(("class", words, "times", "of the class"), rows, right=(2, 3))


def by_class(layers: Mapping[str, Layer], statistics: Mapping[str, Mapping[str, float]], names: Names) -> list[ByClass]:
    """Return what layers measure of single classes; `names` are those of the classes of each layer."""
    found: list[ByClass] = []
    for layer, values in statistics.items():
        one = ByClass(layer, names.get(layer, ()))
        for name, value in values.items() if layer in layers else ():
            declared, classes = statistic_of_classes(layers[layer], name)
            if len(classes) == 1:
                unit = about_statistic(layers[layer], name)[1]
                one.single.setdefault(declared, ({}, unit))[0][classes[0]] = value
            elif len(classes) == 2:
                one.pairs.setdefault(declared, {})[classes] = value
        if one.single or one.pairs:
            found.append(one)
    return found


def _pair_words(declared: str) -> str:
    return declared.replace("{class}", "").replace("_", " ").strip()


def _width(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return sum(max(len(row[column]) for row in (head, *rows)) + 2 for column in range(len(head))) - 2
