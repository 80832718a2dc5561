"""Nets that are divided among ranks, which are threads, beside the same nets as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nacre import ConfigError, Net, Solver
from nacre.testing.crew import crew, own_backend, together
from nacre_data import MemoryDataLayer

BATCH, STEPS = 12, 10


def source(name, shape, classes=10, kind="float64"):
    """Return a source of 30 random records in one place."""
    random = np.random.default_rng(3)
    data = random.integers(0, 11, (30, *shape)) if kind == "int64" else random.normal(size=(30, *shape))
    label = random.integers(0, classes, 30)
    return MemoryDataLayer(name=name, tops=["data", "label"], data=[data, label], batch_size=BATCH, partition_dim=-1)


def solver(**fields):
    given = {"lr_policy": 0.1, "momentum_policy": 0.9, "regu_coef": 0.01, "max_iter": STEPS}
    return Solver("SGD", **{**given, **fields})


def learned(net, steps=STEPS, snapshot=None, **fields):
    """Train so many steps, from a snapshot on if there is one; return the losses, and the training."""
    training = solver(**fields).start(net)
    if snapshot is not None:
        training.restore(snapshot)
    losses = []
    for _ in range(steps):
        training.step()
        losses.append(training.loss)
    return losses, training


def gathered(nets):
    """Return the parameters of the whole net, from those of its ranks, which must agree where they have the same."""
    found = {}
    for net in nets:
        for name, handle in net.parameters.items():
            cut = handle.storage.cut
            if cut is None:
                same = np.array_equal(found.setdefault(name, handle.value), handle.value)
                assert same, f"{name} differs from rank to rank"
            else:
                cut.put(handle.value, found.setdefault(name, np.full(cut.whole, np.nan)))
    return found


OPTIONS = {"dtype": "float64", "seed": 5, "insert_splits": True}


def nets_of(make, ranks, **options):
    """Return the net of each rank."""
    return [Net("net", make(), backend=own_backend("numpy"), communicator=rank, **OPTIONS, **options) for rank in ranks]


def divisible(layers, parts, default):
    """Return layers of which those are whole that cannot be divided as they say: the error has to name them.

    Raises:
        TopologyError: a rank would have no layer.
    """
    while told := _refused(layers, parts, default):
        named = [one for one in layers if one.name in told and one.partition_dim != -1]
        assert named, f"the error names no layer that is divided: {told}"
        layers = [replace(one, partition_dim=-1) if one in named else one for one in layers]
    return layers


def _refused(layers, parts, default):
    """Return the names of the layers, or the containers of such, that cannot be divided as they say."""
    try:
        nets_of(lambda: layers, crew(parts), partition_dim=default, allocate=False)
    except ConfigError as error:
        return {line.partition(":")[0].partition("/")[0] for line in str(error.args[0]).splitlines()}
    return set()


def check_equal(make, parts, algorithm="BP", steps=STEPS, options=(), **fields):
    """Train a net as a whole, and divided among ranks, and compare losses and parameters."""
    ranks, more = crew(parts), dict(options)
    nets = nets_of(make, ranks, algorithm=algorithm, **more)
    whole = Net("net", make(), backend="numpy", **OPTIONS, **more)
    first = gathered(nets)
    for name, handle in whole.parameters.items():
        np.testing.assert_array_equal(first[name], handle.value, err_msg=f"first values of {name}")
    losses = together(ranks, lambda rank: learned(nets[rank], steps, algorithm=algorithm, **fields)[0])
    expected, _ = learned(whole, steps, **fields)
    for rank, found in enumerate(losses):
        np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=f"losses on rank {rank}")
    last = gathered(nets)
    assert set(last) == set(whole.parameters)
    for name, handle in whole.parameters.items():
        np.testing.assert_allclose(last[name], handle.value, rtol=1e-10, atol=1e-10, err_msg=name)
    return nets
