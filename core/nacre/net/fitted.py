"""What a net knows of its training data: what sources learned from them, and the names of classes of its blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ConfigError, SnapshotError, brief
from ..graph.containers import expand
from ..protocols.graph import Graph
from ..protocols.layer import PHASES, Layer
from ..protocols.view import Fitted

CLASSES = "classes"
"""The key of the list of names that the numbers of a top count."""


def read_fitted(where: str, given: Any) -> dict[str, dict[str, Any]]:
    """Return a copy of what is known of training data. Raises ConfigError if it has another form."""
    try:
        return {_text(top): _read_values(values) for top, values in dict(given or {}).items()}
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{where}: fitted={brief(given)}, but it must be {{top: {{key: value}}}}, with lists of names as 'classes'",
            "take that of another net (net.fitted), or of a snapshot (snapshot.fitted())",
        ) from error


def _read_values(given: Any) -> dict[str, Any]:
    read = {_text(key): value for key, value in dict(given).items()}
    if CLASSES in read:
        if not isinstance(read[CLASSES], list | tuple):
            raise ValueError
        read[CLASSES] = [_text(name) for name in read[CLASSES]]
        if len({*read[CLASSES]}) < len(read[CLASSES]):
            raise ValueError
    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def joined(parts: Iterable[Fitted]) -> dict[str, dict[str, Any]]:
    """Return what several sources know, in one mapping; later ones win."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for top, values in part.items():
            found.setdefault(top, {}).update(values)
    return found


def check_alike(here: Fitted, there: Fitted) -> None:
    """Raise SnapshotError if the sources of a net know other things of their training data than a snapshot."""
    for top, values in there.items():
        for key, value in values.items():
            mine = here.get(top, {}).get(key, value)
            if not _same(mine, value):
                found = "" if _is_array(value) else f": {brief(value)} in the snapshot, here {brief(mine)}"
                raise SnapshotError(
                    f"the net's sources found another '{key}' of '{top}' in their data than the snapshot has{found}",
                    "make the net with what the snapshot knows: fitted=snapshot.fitted()",
                )


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype")


def _same(one: Any, other: Any) -> bool:
    import numpy as np

    if _is_array(one) and _is_array(other):
        return np.array_equal(one, other)
    return not (_is_array(one) or _is_array(other)) and one == other


def two_classes(layers: Iterable[Layer], blob: str) -> tuple[str, float, str] | None:
    """Return how each number of a blob tells two classes apart, or None if no loss does.

    It is the blob that the loss reads, from which `blob` may be made by layers of one bottom without parameters, such
    as a sigmoid; the number above which it stands for the second class; and the blob of the labels.
    """
    graph = Graph.of(layer for layer in layers if not layer.is_source)
    every = [*dict.fromkeys(node for phase in PHASES for node in expand(graph, phase).nodes)]
    judges = {node.bottoms[0]: node for node in every if node.layer.boundary is not None}
    makers = {top: node for node in every for top in node.tops if not node.in_place}
    while blob not in judges:
        maker = makers.get(blob)
        if maker is None or maker.layer.has_param or len(maker.bottoms) != 1:
            return None
        (blob,) = maker.bottoms
    boundary = judges[blob].layer.boundary
    return None if boundary is None else (blob, boundary, judges[blob].bottoms[1])


def class_names(
    layers: Iterable[Layer], fitted: Fitted, count: Callable[[str], int | None]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of blobs: of labels, and of the outputs that are compared with them.

    An output shares a loss or a statistic with a label, or is made from such an output by layers of one bottom without
    parameters, such as a softmax. `count` returns how many numbers a blob has in a record, or None if the net does not
    have it; an output has names only if it has as many numbers as there are classes.
    """
    graph = Graph.of(layer for layer in layers if not layer.is_source)
    every = [*dict.fromkeys(node for phase in PHASES for node in expand(graph, phase).nodes)]
    labels = {top: tuple(values[CLASSES]) for top, values in fitted.items() if values.get(CLASSES)}
    found: dict[str, set[tuple[str, ...]]] = {}
    for node in every:
        read = {*node.bottoms}
        if node.layer.has_loss or node.layer.has_stats:
            for blob in read - labels.keys():
                found.setdefault(blob, set()).update(labels[label] for label in labels.keys() & read)
    size = -1
    while size != (size := sum(map(len, found.values()))):  # until nothing is handed on any more
        for node in every:
            if not node.layer.has_param and len(node.bottoms) == 1:
                for top in node.tops:
                    found.setdefault(top, set()).update(found.get(node.bottoms[0], ()))
    sure = {blob: min(lists) for blob, lists in found.items() if len(lists) == 1}
    return labels | {blob: names for blob, names in sure.items() if count(blob) == len(names)}
