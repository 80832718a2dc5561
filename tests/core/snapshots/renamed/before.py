"""The classes of test_renamed.py as they were; `python before.py` makes the kept files with them."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from nacre import Layer, LayerState, Names, Neuron, Parameter, default, exactly, finite
from nacre_layers import Constant


class Bent(Neuron):
    slope: Annotated[float, finite, "the slope below 0"] = 0.1

    def forward(self, backend, x, y):
        y[...] = np.where(x < 0, self.slope * x, x)

    def backward(self, backend, x, y, dy, dx):
        dx[...] = np.where(y < 0, self.slope * dy, dy)


class GrowLayer(Layer, has_param=True, has_neuron=True, can_do_bp=True):
    bottoms: Annotated[Names, exactly(1), "x"]
    tops: Annotated[Names, exactly(1), "y"]
    by: Annotated[float, finite, "the first weight"] = 1.0
    neuron: Annotated[Neuron, "the neuron"] = default("Bent")


class GrowState(LayerState, of=GrowLayer):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.weight = Parameter("amount", (1,), init=Constant(value=layer.by))
        self.seen = Parameter("count", (1,), init=Constant(), trainable=False)
        self.parameters = [self.weight, self.seen]

    def forward(self, inputs):
        np.multiply(inputs[0], self.weight.blob, out=self.blobs[0])
        if self.phase == "train":
            self.seen.blob += 1

    def backward(self, inputs, diffs):
        if self.weight.gradient is not None:
            self.weight.gradient[0] = (inputs[0] * self.blobs_diff[0]).sum()
        if diffs[0] is not None:
            np.multiply(self.blobs_diff[0], self.weight.blob, out=diffs[0])


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    import nacre
    from nacre.config import load

    here = Path(__file__).parent
    from nacre.snapshots.folder import default_snapshot_store

    nacre.register(GrowLayer)
    nacre.register(Bent)
    file = load(here / "net.toml", ["backend=numpy"])
    with tempfile.TemporaryDirectory() as folder, file.net() as net:
        options = [f"callback.Snapshot.folder={folder}"]
        load(here / "net.toml", options, allow_writes=[folder]).solver().solve(net, quiet=True)
        snapshot = nacre.load_snapshot(folder)
        snapshot.state["environment"] = {}  # neither this machine nor its paths belong here
        for origin in (*snapshot.state["parts"].values(), *snapshot.state["origins"].values()):
            origin.pop("file", None)
        (here / "before.h5").write_bytes(default_snapshot_store().encode(snapshot))
        net.save(here / "before.nacre")
