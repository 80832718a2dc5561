"""Backends with several threads in Python: what one does is no other's, and no number hangs on how many there are."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pytest

from nacre import InputLayer, Net, open_backend
from nacre.protocols.backend import Step
from nacre_layers.initializers import Orthogonal
from nacre_layers.linear.inner_product import InnerProductLayer

MOMENT = 0.2
"""Seconds in which another thread could do harm."""


def test_looking_into_a_blob_is_no_part_of_what_another_thread_records() -> None:
    backend: Any = open_backend("onednn")
    blob, plain = backend.own((1, 16, 2, 2), "float32"), backend.empty((1, 16, 2, 2), "float32")
    blob.layout = "channels last"
    backend.place(blob, backend.empty((64,), "float32"))
    blob.memory[...] = np.arange(64)
    looked: list[Future[None]] = []
    recorded: list[Any] = []

    def look() -> None:
        looked.append(pool.submit(backend.unpack, blob, plain))
        wait(looked, MOMENT)  # it has to wait itself until this run is over
        recorded.append(backend.record)

    with ThreadPoolExecutor(1) as pool:
        backend.wrap(backend.compile([Step("forward", "look", look, backend)]))()
        looked[0].result()
    assert recorded[0].operations == []
    np.testing.assert_array_equal(plain.reshape(16, 4).T.reshape(-1), np.arange(64))


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_first_weights_do_not_hang_on_the_threads_of_blas(backend: str) -> None:
    numpy: Any = open_backend("numpy")

    def weights(threads: int) -> Any:
        layer = InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=700, weight_init=Orthogonal())
        data = InputLayer(name="in", tops="data", shape=700, batch_size=1)
        with numpy.blas.limit(threads):
            net = Net("net", [data, layer], backend=backend, dtype="float64", phase="test")
        return net.parameters["ip/weight"].value

    np.testing.assert_array_equal(weights(1), weights(4))
