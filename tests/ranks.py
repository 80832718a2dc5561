"""A source at work on one of several ranks, and two of them compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import HostMemory, Layer, View
from nacre.protocols.view import Scalars


def state_at(
    layer: Layer, phase: str = "train", rank: int = 0, ranks: int = 1, seed: int = 0, fitted: Any = None
) -> Any:
    """Return the state of a source on one rank, with memory for its blobs."""
    where = {"phase": phase, "rank": rank, "ranks": ranks}
    view = View(HostMemory.shared(), dtype="float32", seed=seed, scalars=Scalars(), fitted=fitted, **where)
    state: Any = layer.setup(view, [], [])
    state.blobs = [np.empty(blob.shape, blob.dtype) for blob in state.blobs]
    state.ready()
    return state


def assert_same(plain: Any, early: Any, calls: Sequence[str | int]) -> None:
    """Check that two states feed and remember the same whatever is called; they are shut down.

    Calls are "forward", "rewind", "remember" (what was last kept: every third call keeps it), or a number by which the
    net's step changes besides.
    """
    memory: Any = {}
    step = 0
    for number, call in enumerate(calls):
        if isinstance(call, int):
            step = max(0, step + call)
            continue
        for state in (plain, early):
            if call == "forward":
                state.backend.scalars["step"] = step
                state.forward([])
            elif call == "rewind":
                state.rewind()
            else:
                state.remember(memory)
        for one, other in zip(plain.blobs, early.blobs, strict=True):
            assert call != "forward" or one.tobytes() == other.tobytes()
        assert (plain.rows, plain.epoch, plain.memory()) == (early.rows, early.epoch, early.memory())
        step += call == "forward"
        memory = plain.memory() if number % 3 == 0 else memory
    plain.shutdown()
    early.shutdown()
