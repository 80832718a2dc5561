"""Every backend that can be used here passes the conformance kit, and so do two that keep the core honest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fake_backends import BlockedBackend, ForeignBackend
from nacre import HostMemory, L, registry
from nacre.testing import BackendTests as BackendSuite

RECORDS = np.random.default_rng(0).normal(size=(12, 2, 6, 6))
CLASSES = np.arange(12) % 3


def pictures() -> Any:
    """Return a net whose layers have kernels on nacre's own backends."""
    x, label = L.MemoryData(data=[RECORDS, CLASSES], tops=["x", "label"], batch_size=4, shuffle=True)()
    maps = L.Convolution(n_filter=5, kernel=3, pad=1, neuron="ReLU", weight_regu="L2")(x)
    maps = L.Pooling(kernel=2, stride=2)(L.BatchNorm()(maps))
    hidden = L.InnerProduct(output_dim=7, neuron="Tanh", weight_cons={"type": "L2Norm", "threshold": 2})(maps)
    loss = L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(L.Dropout(ratio=0.25)(hidden)), label)
    return [loss]


class OfPictures(BackendSuite):
    def layers(self) -> Any:
        return pictures()


class TestNumpy(OfPictures):
    backend = registry().open("backend", "numpy")


@pytest.mark.skipif(registry().open("backend", "onednn").unusable() is not None, reason="onednn cannot be used here")
class TestOnednn(OfPictures):
    backend = registry().open("backend", "onednn")
    dtypes = ("float32", "float64")


@pytest.mark.skipif(registry().open("backend", "cupy").unusable() is not None, reason="cupy cannot be used here")
class TestCupy(OfPictures):
    backend = registry().open("backend", "cupy")
    dtypes = ("float32", "float64")


class TestHost(BackendSuite):
    backend = HostMemory


class TestForeign(BackendSuite):
    backend = ForeignBackend


class TestBlocked(BackendSuite):
    backend = BlockedBackend
