"""Sampling with replacement for training: every class equally often, or records by their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nacre import Converted, DataError, number_text

from .records import Records

KINDS = ("balanced", "weights")


class Sampling(Converted["str | Mapping[str, str] | None", "dict[str, str]"]):
    """How often records are drawn in phase `train`; {} means that each pass has every record once.

    `"balanced"` draws every class equally often, by the source's only top of whole numbers; `{balanced = "patient"}`
    does it by another field of whole numbers. `{weights = "w"}` draws records in proportion to the numbers in the field
    "w". Records are drawn with replacement, after `split`, and a pass has as many draws as there are records. The draws
    are as even as whole numbers can be: no class, and no record with a weight, is as much as 1 from its share in any
    pass. They are a function of seed, layer name and epoch.
    """

    wants = '"balanced", or a table such as {weights = "w"}'

    @staticmethod
    def convert(value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if value == "balanced":
            return {"balanced": ""}
        if not isinstance(value, Mapping) or not all(isinstance(field, str) for field in value.values()):
            raise ValueError
        return dict(value)


def sampling_complaints(sampling: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with a sampling."""
    if sampling and (len(sampling) > 1 or not set(sampling) <= set(KINDS)):
        yield f"sampling has {' and '.join(sampling)}, but it must have one of {' and '.join(KINDS)}"
    elif sampling.get("weights") == "":
        yield "sampling has weights='', but it must be the name of a field"


Arrange = Callable[[np.ndarray, np.random.Generator], None]


def sampled(layer: Any, records: Records, labels: Sequence[str]) -> Arrange:
    """Return what draws the records of a pass of a layer with `sampling`; `labels` are its tops of whole numbers.

    Raises:
        DataError: it is not clear what the classes are, or the weights cannot be used.
    """
    if "weights" in layer.sampling:
        return Weighted(_weights(layer, records))
    field = layer.sampling["balanced"] or (labels[0] if len(labels) == 1 else "")
    if not field:
        which = f"any of the tops {', '.join(labels)} may be" if labels else f"no top ({', '.join(layer.tops)}) is"
        raise DataError(
            f"{layer.name}: sampling is balanced, but {which} the class of a record",
            'name the field with one whole number for each record, such as sampling = {balanced = "label"}',
        )
    classes = records.column(field)
    if classes.dtype.kind == "f":
        raise DataError(f"{layer.name}: sampling is balanced by '{field}', but its type is {classes.dtype}: no classes")
    return Balanced(classes)


def _weights(layer: Any, records: Records) -> np.ndarray:
    field = layer.sampling["weights"]
    weights = records.column(field).astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    of_part = f" of part '{layer.split['part']}'" if layer.split else ""
    if len(bad):
        raise DataError(
            f"{layer.name}: sampling: '{field}' is {number_text(weights[bad[0]])} in record {bad[0]}{of_part}, but a "
            "weight must be a finite number that is not negative"
        )
    if not weights.any():
        raise DataError(
            f"{layer.name}: sampling: '{field}' is 0 in all {len(weights)} records{of_part}, so there is none to draw"
        )
    with np.errstate(over="ignore"):  # NumPy 1 warns of the smallest numbers there are, wrongly
        return weights / weights.max()  # so that their sum is finite


class Balanced:
    """Fills a pass so that every class comes equally often, and so do the records of a class."""

    def __init__(self, classes: np.ndarray) -> None:
        of_class = np.argsort(classes, kind="stable")
        self.members = np.split(of_class, np.flatnonzero(np.diff(classes[of_class])) + 1)

    def __call__(self, order: np.ndarray, generator: np.random.Generator) -> None:
        share, left = divmod(len(order), len(self.members))
        times = np.full(len(self.members), share)
        times[generator.permutation(len(times))[:left]] += 1
        drawn = zip(self.members, times.tolist(), strict=True)
        order[:] = np.concatenate([np.resize(generator.permutation(records), number) for records, number in drawn])
        generator.shuffle(order)


class Weighted:
    """Fills a pass with records in proportion to their weights: systematic resampling in a random order."""

    def __init__(self, weights: np.ndarray) -> None:
        self.records = np.flatnonzero(weights)
        self.weights = weights

    def __call__(self, order: np.ndarray, generator: np.random.Generator) -> None:
        records = generator.permutation(self.records)
        ends = np.cumsum(self.weights[records])
        points = (np.arange(len(order)) + generator.random()) * (ends[-1] / len(order))
        places = np.searchsorted(ends, points, "right")
        order[:] = records[np.minimum(places, len(records) - 1)]  # rounding may take the last point to the end
        generator.shuffle(order)
