"""Fine-tuning: a net learns the digits 0 to 4, and what its convolutions have learned then reads 5 to 9.

    python examples/fine_tuning/fine_tuning.py

The second net begins with the parameters of the first, but for its last layer, and its convolutions are frozen: only
the inner products learn. It reads 97 % of the test images of 5 to 9 (mean of five seeds).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from nacre import Layer, Net, Solver, Training
from nacre.config import load
from nacre_data import MemoryDataLayer, RandomShift, Scale
from nacre_solvers import Snapshot, Step

DIGITS = Path(__file__).resolve().parents[1] / "digits"


def digits(file: str, classes: range) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of these digits, and their labels counted from 0."""
    with h5py.File(DIGITS / file) as data:
        images, labels = data["data"][...], data["label"][...].reshape(-1).astype(int)
    chosen = np.isin(labels, classes)
    return images[chosen], labels[chosen] - classes.start


def layers(classes: range) -> list[Layer]:
    """Return the layers of ../digits/lenet.toml, new ones, with sources of these digits, and as many scores."""
    kept = [layer for layer in load(DIGITS / "lenet.toml", ["layer.ip2.output_dim=5"]).layers if not layer.is_source]
    options: dict[str, Any] = {"tops": ["data", "label"], "batch_size": 50}
    scaled, moved = ("data", Scale(scale=0.0625)), ("data", RandomShift(pixels=1))
    training = MemoryDataLayer(
        name="train", data=digits("train.h5", classes), shuffle=True, transformers=[scaled, moved],
        exclude=["validation", "test", "predict"], **options,
    )  # fmt: skip
    test = MemoryDataLayer(
        name="test", data=digits("test.h5", classes), transformers=[scaled], exclude=["train", "predict"], **options
    )
    return [training, test, *kept]


def train(net: Net, *callbacks: Any) -> Training:
    """Train a net for 600 batches."""
    rate = Step(base=0.05, gamma=0.1, stepsize=400)
    return Solver("SGD", max_iter=600, lr_policy=rate, momentum_policy=0.9, callbacks=callbacks).solve(net)


def run(seed: int = 0) -> float:
    """Return the share of test images of 5 to 9 that the fine-tuned net reads right."""
    tuned = layers(range(5, 10))
    with tempfile.TemporaryDirectory() as folder:
        first = train(Net("0 to 4", layers(range(5)), seed=seed), Snapshot(folder=folder))
        net = Net("5 to 9", tuned, seed=seed, freeze=["conv1", "conv2"])
        # The shape of "ip2" fits too, but it knows other digits: what is renamed to nothing is passed over.
        print(net.load(first.snapshot_path, strict=False, rename={"ip2": ""}))
    train(net)
    with Net("test", tuned, phase="test") as test:
        test.forward_epoch()
        return test.statistics()["accuracy"]["accuracy"]


if __name__ == "__main__":
    print(f"accuracy on 5 to 9: {run(int(sys.argv[1]) if len(sys.argv) > 1 else 0):.1%}")
