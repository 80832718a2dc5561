"""Sources that may begin at a random record, so that every rank works on other ones: SINGA's `random_skip`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from nacre import non_negative
from nacre.random import Random

from .data import FileDataLayer
from .source import RecordSourceState


class SkippingLayer(FileDataLayer, is_source=True):
    """The fields of a source over keys and values; a subclass names the store."""

    random_skip: Annotated[int, non_negative, "in phase train, begin at a random record, from 0 to this"] = 0

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for field in ("shuffle", "sampling"):
            if self.random_skip and getattr(self, field):
                yield f"random_skip={self.random_skip} with {field}, which draws the first record of each pass anyway"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        state = super().setup(backend, inputs, diffs)
        if self.random_skip and backend.phase == "train":
            count = state.passes.count
            skip = drawn_skip(backend.seed, backend.rank, self.random_skip)
            state.passes.order = np.roll(np.arange(count), -(skip % count))
        return state


def drawn_skip(seed: int, rank: int, most: int) -> int:
    """Return how many records a rank skips: from 0 to `most`, a function of seed and rank.

    It does not depend on the layer, so that sources of files that belong together stay together.
    """
    return int(Random(seed, "random_skip", lambda: rank).generator().integers(most, endpoint=True))
