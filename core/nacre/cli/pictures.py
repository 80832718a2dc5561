"""Pictures that commands write: of nets, and of what is counted for pairs of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError, DataError

if TYPE_CHECKING:
    from ..net.summary import Drawing
    from .by_class import ByClass


def drawing_for(path: Path, pins: Mapping[str, str], kind: str = "") -> Drawing:
    """Return what draws a file: `kind`, or by default what is offered for its ending.

    Raises:
        ConfigError: nothing is offered for the ending.
        RegistryError: nothing of this kind is offered.
    """
    from ..discovery.registry import registry

    name = kind or path.suffix.removeprefix(".").lower()
    if not kind and not registry().offers("drawing", name):
        endings = " or ".join(sorted({f".{offer.name}" for offer in registry().offers("drawing")}))
        raise ConfigError(f"{path}: the ending of a drawing must be {endings}", "use another name")
    return registry().open("drawing", name, pins)()


def draw_pairs(path: Path, drawing: Drawing, title: str, tables: Sequence[ByClass]) -> None:
    """Write a picture of the first statistic of pairs of classes.

    Raises:
        ConfigError: no layer has such a statistic.
        DataError: the file cannot be written.
    """
    found = [(table, values) for table in tables for values in table.pairs.values()]
    if not found:
        raise ConfigError(
            f"{path}: no layer counts pairs of classes in this phase, so there is no matrix to draw",
            'add a [[layer]] with type = "ConfusionMatrix", its bottoms the scores and the labels',
        )
    table, values = found[0]
    matrix = table.matrix(values)
    names = [table.name(number) for number in range(len(matrix))]
    write_picture(path, drawing.draw_matrix(f"{title}: {table.layer}", names, matrix))


def write_picture(path: Path, drawn: str | bytes) -> None:
    """Write a drawing to a file; what UTF-8 cannot hold is escaped. Raises DataError if that fails."""
    from ..files.durable import atomic_write

    atomic_write(path, drawn.encode("utf-8", "backslashreplace") if isinstance(drawn, str) else drawn, DataError)
