"""What layers do whose axis is the batch's: their records cannot be told apart any more, so all of them must count."""

from collections.abc import Sequence

import numpy as np
import pytest

from nacre import DataError, Layer, Net
from nacre.testing.trial import backends


def refuses_a_batch_that_is_not_full(layers: Sequence[Layer], name: str) -> None:
    """Check that layer `name`, whose bottom is "x" and whose top "y", takes full batches, and only those."""
    for backend in backends():
        with Net("joined", layers, backend=backend, phase="predict", keep=["y"]) as net:
            batch, *record = net.memory.final["x"].shape
            net.write("x", np.ones((batch, *record)))
            net.forward()
            assert net.blob("y").size
            net.write("x", np.ones((batch - 1, *record)))
            with pytest.raises(DataError, match=f"{name}: axis=0 .* {batch - 1} of {batch} "):
                net.forward()
