"""Losses on the cupy backend that are shared by ranks, or by parts of a batch, over the stand-in for CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cuda_on_host
import cupy_standin
from nacre import Net, Solver
from nacre.testing.crew import crew, own_backend, together
from nacre_data import MemoryDataLayer
from nacre_layers import InfogainLossLayer, InnerProductLayer, SoftmaxLossLayer
from nacre_solvers import SGD, GPipe

if reason := cuda_on_host.missing():
    pytest.skip(reason, allow_module_level=True)

pytestmark = pytest.mark.usefixtures("cupy")

X = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
LABELS = np.array([0, 1, 2, 1, 3, 9, 9, 9])  # of which the second half has fewer that are not ignored
LOSSES: list[dict[str, Any]] = [
    {},
    {"ignore_label": 9},
    {"ignore_label": 9, "normalize": "none"},
    {"ignore_label": 9, "normalize": "batch"},
]


def trained(backend: Any, loss: Any, communicator: Any = None, **options: Any) -> tuple[float, np.ndarray]:
    """Return the loss of an iteration, and how far it moves the weight."""
    size = 8 if communicator is None else 4
    layers = [
        MemoryDataLayer(tops=("x", "label"), data=(X, LABELS), batch_size=size, shuffle=False),
        InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=10),
        loss,
    ]
    algorithm: dict[str, Any] = {} if communicator else {"algorithm": GPipe(micro_batches=2)}
    given: dict[str, Any] = {"backend": backend, "communicator": communicator, "seed": 1, "phase": "train", **options}
    with Net("shared", layers, **given, **algorithm) as net:
        before = np.array(net.parameters["ip/weight"].value)
        with Solver(SGD(), lr_policy=0.1, momentum_policy=0.0, **algorithm).start(net) as training:
            training.step()
            return training.loss, np.array(net.parameters["ip/weight"].value) - before


def same(found: tuple[float, np.ndarray], wanted: tuple[float, np.ndarray], compute: str | None) -> None:
    tolerance = 2e-2 if compute else 1e-5
    assert isinstance(found[0], float) and abs(found[0] - wanted[0]) < tolerance * wanted[0]
    assert np.linalg.norm(found[1] - wanted[1]) < tolerance * np.linalg.norm(wanted[1])


def softmax(fields: dict[str, Any]) -> Any:
    return SoftmaxLossLayer(name="loss", bottoms=("y", "label"), **fields)


@pytest.mark.parametrize("compute", [None, "bf16"])
@pytest.mark.parametrize("fields", LOSSES, ids=str)
def test_on_two_ranks(fields: dict[str, Any], compute: str | None) -> None:
    ranks, here = crew(2), [cupy_standin.watched()() for _ in range(2)]
    found = together(ranks, lambda rank: trained(here[rank], softmax(fields), ranks[rank], compute=compute))
    ranks = crew(2)
    wanted = together(ranks, lambda rank: trained(own_backend("numpy"), softmax(fields), ranks[rank]))
    same(found[0], wanted[0], compute)


@pytest.mark.parametrize("compute", [None, "bf16"])
@pytest.mark.parametrize("fields", LOSSES, ids=str)
def test_in_parts_of_a_batch(backend: Any, fields: dict[str, Any], compute: str | None) -> None:
    same(trained(backend, softmax(fields), compute=compute), trained("numpy", softmax(fields)), compute)


def test_a_loss_without_a_kernel_in_parts_of_a_batch(backend: Any) -> None:
    """The labels that count are counted on the device, and nobody waits for their number in the pass."""
    fields: dict[str, Any] = {"bottoms": ("y", "label"), "matrix": np.eye(10) + 0.1, "ignore_label": 9}
    same(trained(backend, InfogainLossLayer(**fields)), trained("numpy", InfogainLossLayer(**fields)), None)
