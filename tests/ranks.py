"""A source at work on one of several ranks."""

from typing import Any

import numpy as np

from nacre import HostMemory, Layer, View
from nacre.protocols.view import Scalars


def state_at(
    layer: Layer, phase: str = "train", rank: int = 0, ranks: int = 1, seed: int = 0, fitted: Any = None
) -> Any:
    """Return the state of a source on one rank, with memory for its blobs."""
    view = View(HostMemory.shared(), phase=phase, dtype="float32", seed=seed, scalars=Scalars(), fitted=fitted)
    view.rank, view.ranks = rank, ranks
    state: Any = layer.setup(view, [], [])
    state.blobs = [np.empty(blob.shape, blob.dtype) for blob in state.blobs]
    state.ready()
    return state
