"""What rank processes run in tests of divided nets."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import Communicator
from nacre.config import load


def trained(communicator: Communicator | None, path: str, steps: int, backend: str = "numpy") -> dict[str, Any]:
    """Train the net of a net file so many steps, alone without a communicator.

    Returns the losses, and the parameters of the whole net as lists.
    """
    file = load(path)
    with file.net("train", backend=backend, communicator=communicator) as net, file.solver().start(net) as training:
        losses: list[float] = []
        for _ in range(steps):
            training.step()
            losses.append(training.loss)
        arrays = training.snapshot().arrays
        found = {name: array for name, array in arrays.items() if name.startswith("parameters/")}
        return {"losses": losses, "parameters": {name: np.asarray(array).tolist() for name, array in found.items()}}
