"""The way of a top's batches from the records into the blob: what changes them, and the arrays between."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from nacre import NacreError, Transformer
from nacre.random import RecordRandom

IN_CACHE = 1 << 18
"""Bytes of the part of a batch that several transformers change one after the other: they stay in a core's cache."""

Change = tuple[Transformer, RecordRandom | None]
"""A transformer and its random numbers; None for what is no transformer of the user's, and has none."""


def place_type(stored: np.dtype[Any], blob: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of batches that are read: as stored where that is smaller, as bytes are; else the blob's."""
    smaller = blob.kind == "f" and stored.itemsize < blob.itemsize
    return stored.newbyteorder("=") if smaller else blob


@dataclass
class Step:
    """One change of a batch: into `out`, or in place if that is None. Without a transformer it is copied."""

    where: tuple[str, str]
    transformer: Transformer | None
    random: Any
    out: np.ndarray | None

    @property
    def by_record(self) -> bool:
        return self.transformer is None or self.transformer.by_record

    def run(self, given: np.ndarray, rows: slice, phase: str) -> np.ndarray:
        """Change the rows that are `given`, and return them."""
        out = given if self.out is None else self.out[rows]
        if self.transformer is None:
            np.copyto(out, given)
            return out
        try:
            if self.out is None:
                self.transformer.transform(given, self.random, phase)
            else:
                self.transformer.transform_into(given, out, self.random, phase)
        except NacreError:
            with told(*self.where):  # only here: to enter it takes as long as to change a record
                raise
        return out


class Pipeline:
    """The changes of the batches of one top, planned once: from an array like `place` into `blob`.

    Records stay in the type of `place` until the first transformer that needs the blob's type, which converts them in
    the same pass over the memory. Neighbours that work record by record take one part of the batch after the other.
    `layer` and `top` begin the errors.
    """

    def __init__(
        self, layer: str, top: str, place: np.ndarray, blob: np.ndarray, changes: Sequence[Change], phase: str
    ) -> None:
        self.phase = phase
        self.randoms = [random for _, random in changes if random is not None]
        steps: list[Step] = []
        here, shape, kind = place if place is blob else None, place.shape, place.dtype
        for number, (transformer, random) in enumerate(changes):
            after = (len(blob), *transformer.checked_shape(shape[1:]))
            becomes = kind if transformer.keeps_type and number + 1 < len(changes) else blob.dtype
            if (after, becomes) == (blob.shape, blob.dtype):
                out = blob
            else:
                out = here if (after, becomes) == (shape, kind) else np.empty(after, becomes)
            where = layer, top if random is None else f"transformers: {top}"
            steps.append(Step(where, transformer, random, None if out is here else out))
            here, shape, kind = out, after, becomes
        if here is not blob:
            steps.append(Step((layer, top), None, None, blob))
        self.stages = [(each, list(some)) for each, some in groupby(steps, lambda step: step.by_record)]
        record = max(place[0].nbytes, blob[0].nbytes)
        self.rows = max(1, IN_CACHE // max(1, record))

    def run(self, batch: np.ndarray, records: np.ndarray, epochs: np.ndarray) -> None:
        """Bring a batch that was read into the blob; `records` are their numbers, `epochs` the passes they belong to.

        `batch` itself may be changed.
        """
        for random in self.randoms:
            random.at(records, epochs)
        for by_record, steps in self.stages:
            if not by_record:
                for step in steps:
                    batch = step.run(batch, slice(None), self.phase)
                continue
            for start in range(0, len(batch), self.rows):
                rows = slice(start, start + self.rows)
                part = batch[rows]
                for step in steps:
                    part = step.run(part, rows, self.phase)
            batch = next((step.out for step in reversed(steps) if step.out is not None), batch)


def shape_after(transformers: Sequence[Transformer], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of records after transformers."""
    for transformer in transformers:
        shape = transformer.checked_shape(shape)
    return shape


def applied(transformer: Transformer, batch: np.ndarray, random: Any, phase: str) -> np.ndarray:
    """Return a batch after a transformer, in its own type; in place unless the shape changes."""
    shape = transformer.checked_shape(batch.shape[1:])
    if shape == batch.shape[1:]:
        transformer.transform(batch, random, phase)
        return batch
    out = np.empty((len(batch), *shape), batch.dtype)
    transformer.transform_into(batch, out, random, phase)
    return out


@contextmanager
def told(layer: str, what: str) -> Generator[None]:
    """Make errors of transformers in the block begin with the layer and what they change."""
    try:
        yield
    except NacreError as error:
        if error.args[0].startswith(f"{layer}: "):  # from reading the records
            raise
        raise error.reworded(f"{layer}: {what}: {error.args[0]}") from error
