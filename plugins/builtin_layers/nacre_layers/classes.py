"""What layers over classes have in common: the axis, the labels, and the rows that count."""

from __future__ import annotations

from math import prod
from typing import Any

from nacre import Array, ConfigError, DataError


class Classes:
    """What a layer over scores and labels knows of its bottoms: the axis of the classes, and how many labels count.

    `shape` is that of the scores, read as (before the axis, classes, behind it).
    """

    def __init__(self, layer: Any, backend: Any, scores: tuple[int, ...], labels: tuple[int, ...]) -> None:
        axis = class_axis(layer, scores)
        check_label_shape(layer, scores, labels, axis)
        self.layer = layer
        self.backend = backend
        self.images = scores[0]
        self.shape = split_shape(scores, axis)

    @property
    def count(self) -> int:
        """How many labels belong to rows that are real."""
        before, _, behind = self.shape
        return before * behind * min(self.backend.rows, self.images) // self.images

    def labels(self, label: Array, count: int) -> Array:
        """Give the first `count` labels as a flat array of int64, checked.

        Raises:
            DataError: a label is not a whole number from 0 to classes - 1; the message names the record.
        """
        xp, scratch, classes = self.backend.xp, self.backend.scratch, self.shape[1]
        flat = label.reshape(-1)[:count]
        whole = scratch((count,), "int64", slot=7)
        right, below = (scratch((count,), "bool", slot=slot) for slot in (7, 8))
        xp.greater_equal(flat, 0, out=right)  # false for NaN
        xp.less(flat, classes, out=below)
        xp.logical_and(right, below, out=right)
        if bool(xp.all(right)):
            xp.copyto(whole, flat, casting="unsafe")
            xp.equal(whole, flat, out=right)
            if bool(xp.all(right)):
                return whole
        place = int(xp.argmin(right))
        record = place // (label.size // label.shape[0])  # a record may have many labels
        raise DataError(
            f"{self.layer.name}: label {float(flat[place]):g} of record {record} of the batch "
            f"is not a whole number from 0 to {classes - 1}",
            "check the label file, and the number of outputs of the layer below",
        )


def class_axis(layer: Any, shape: tuple[int, ...]) -> int:
    """Give the axis of the classes, counted from the front; it cannot be the batch's."""
    axis = layer.axis + len(shape) if layer.axis < 0 else layer.axis
    if not 0 < axis < len(shape):
        raise ConfigError(
            f"{layer.name}: axis={layer.axis}, but the bottom of shape {shape} has the axes 1 to {len(shape) - 1}"
        )
    return axis


def split_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Read a shape as (before the axis, classes, behind it)."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def check_label_shape(layer: Any, prediction: tuple[int, ...], label: tuple[int, ...], axis: int) -> None:
    """Check that labels are (N,), (N, 1), or of the prediction's shape with the axis of length 1."""
    full = (*prediction[:axis], 1, *prediction[axis + 1 :])
    squeezed = prediction[:axis] + prediction[axis + 1 :]
    if label not in (full, squeezed) and not (prod(full) == full[0] and label in ((full[0],), (full[0], 1))):
        raise ConfigError(
            f"{layer.name}: labels have the shape {label}, but {full} is needed for predictions {prediction}"
        )
