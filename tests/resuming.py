"""Trainings that go on from a snapshot, as it comes back from its file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre import Layer, Net, Snapshot, Solver
from nacre.training.training import Training
from nacre_data import HDF5Store
from nacre_solvers import SGD


def saved(training: Training) -> Snapshot:
    """Return a snapshot as it comes back from its file."""
    store = HDF5Store()
    return store.decode(store.encode(training.snapshot()), "here")


def trained(
    layers: Sequence[Layer],
    iterations: int,
    snapshot: Snapshot | None = None,
    reports: Sequence[Any] = (),
    rate: float = 0.01,
) -> tuple[Snapshot, bytes]:
    """Return the snapshot and the parameters' bytes after so many iterations, from a snapshot on if there is one."""
    solver = Solver(SGD(), max_iter=100, lr_policy=rate)
    with Net("t", layers, backend="numpy") as net, solver.start(net, [*reports]) as training:
        if snapshot is not None:
            training.restore(snapshot)
        for _ in range(iterations):
            training.step()
        return saved(training), b"".join(one.value.tobytes() for one in net.parameters.values())
