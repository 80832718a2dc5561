"""Label: one whole number for each record, as SINGA's parser makes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import ConfigError, DataError, Transformer, misfit, number_text

from ..records import ONE_NUMBER
from .parser import ParserLayer, ParserState


class Label(Transformer):
    """Makes a label of each record, and checks that it is one whole number: records of shape () or (1,) become ().

    Raises DataError with the first batch that holds another number.
    """

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape not in ONE_NUMBER:
            raise ConfigError(f"Label: records must hold one number, but they have the shape {shape}")
        return ()

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        if (bad := misfit(batch, np.dtype(np.int64))) is not None:
            number = number_text(batch[bad])
            raise DataError(f"Label: {number} in record {bad} of the batch is no label: it must be a whole number")

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        labels = given.reshape(out.shape)
        self.transform(labels, random, phase)
        np.copyto(out, labels, casting="unsafe")


class LabelLayer(ParserLayer):
    """Make a label of each record of a source: one whole number, int64.

    y[n] = x[n], or x[n, 0] if records have the shape (1,).

    The top has no gradient. Raises DataError for a number that is not whole.

    Example:
        [[layer]]
        type = "Label"
        bottoms = ["labels"]  # (8, 1)
        tops = ["label"]  # (8,)
    """

    parses = Label


class LabelState(ParserState, of=LabelLayer, host_only=True, reads=""):
    """The state of `LabelLayer`."""

    dtype = "int64"
