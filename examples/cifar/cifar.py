"""Trains a small net on CIFAR-10, or, where its files are not there, on pictures of that form that it makes itself.

    python examples/cifar/cifar.py [FOLDER]

FOLDER is the binary version of CIFAR-10, cifar-10-batches-bin, from https://www.cs.toronto.edu/~kriz/cifar.html, which
is looked for in the working folder unless it is given. Without it there are 2,500 pictures to learn from and 500 to
test, of five shapes in warm and in cold colours, in files of the same format: what runs is the same in both cases.

The net sees every picture moved, turned left to right, in other colours and with a hole in each pass. It learns for
1,500 batches of 100, which takes about five minutes on two cores, and then knows 97 % of the pictures that are made
here and held out. Of CIFAR-10's it sees each 3 times only: to train on those as others do, see resnet20.toml.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nacre import L, Net, Solver, feed
from nacre_data import ColorJitter, Cutout, Mirror, RandomShift, Scale, SubMean
from nacre_solvers import Cosine, TrainingSummary

NAME = "cifar-10-batches-bin"
MEAN = [125.3, 123.0, 113.9]  # of CIFAR-10, red, green and blue
SHAPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "disc": lambda y, x: y**2 + x**2 < 1,
    "ring": lambda y, x: (y**2 + x**2 < 1) & (y**2 + x**2 > 0.4),
    "square": lambda y, x: np.maximum(abs(y), abs(x)) < 0.85,
    "triangle": lambda y, x: (y < 0.8) & (2 * abs(x) < y + 0.9),
    "cross": lambda y, x: (np.minimum(abs(y), abs(x)) < 0.3) & (np.maximum(abs(y), abs(x)) < 1),
}
"""Whether a point is in a shape, for y and x from -1 to 1."""


def write_pictures(folder: Path, count: int = 500, seed: int = 0) -> None:
    """Write files as those of CIFAR-10, each of `count` pictures of our own."""
    random = np.random.default_rng(seed)
    names = [f"{colour} {shape}" for shape in SHAPES for colour in ("warm", "cold")]
    (folder / "batches.meta.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        labels = random.permutation(np.arange(count) % len(names))
        records = np.empty((count, 1 + 3 * 32 * 32), np.uint8)
        for record, label in zip(records, labels.tolist(), strict=True):
            record[0], record[1:] = label, picture(random, label).ravel()
        (folder / name).write_bytes(records.tobytes())


def picture(random: np.random.Generator, label: int) -> np.ndarray:
    """Return a picture (3, 32, 32) of a class: its shape somewhere, in one of its colours, before another colour."""
    shape, cold = list(SHAPES.values())[label // 2], label % 2
    size, (row, column) = random.uniform(6, 11), random.uniform(11, 20, 2)
    rows, columns = np.mgrid[:32, :32]
    inside = shape((rows - row) / size, (columns - column) / size)
    strong, weak = random.uniform(150, 255), random.uniform(0, 80)
    colour = [weak, random.uniform(60, 140), strong] if cold else [strong, random.uniform(60, 140), weak]
    behind = random.uniform(40, 200, 3)
    pixels = np.where(inside, np.reshape(colour, (3, 1, 1)), behind.reshape(3, 1, 1))
    return np.clip(pixels + random.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8)


def classifier(data: Any) -> Any:
    """Return the scores of ten classes: three convolutions, and the means of what the last one finds."""
    for filters in (32, 64, 128):
        data = L.Convolution(n_filter=filters, kernel=3, pad=1, bias=False, weight_init="He")(data)
        data = L.BatchNorm(neuron="ReLU")(data)
        if filters < 128:
            data = L.Pooling(kernel=2, stride=2)(data)
    return L.InnerProduct(output_dim=10, name="scores")(L.GlobalPooling()(data))


def source(folder: Path, file: str = "", changes: Any = (), **fields: Any) -> Any:
    """Return a source of the pictures of a folder, or of one file in it, changed and then scaled to about -2 to 2."""
    transformers = [("data", one) for one in (*changes, SubMean(mean=MEAN), Scale(scale=1 / 64))]
    options: dict[str, Any] = {"store": "CIFAR", "tops": ["data", "label"], "transformers": transformers, **fields}
    return L.Data(source=folder / file, **options)


def train(folder: Path, iterations: int) -> float:
    """Train on the files of a folder; return which share of the pictures of its test file the net knows."""
    hole = Cutout(size=8, fill=[125, 123, 114])
    changes = [RandomShift(pixels=4), Mirror(), ColorJitter(brightness=0.2, contrast=0.2), hole]
    data, label = feed(
        train=source(folder, changes=changes, batch_size=100, shuffle=True),
        test=source(folder, "test_batch.bin", batch_size=100),
    )
    scores = classifier(data)
    accuracy = L.Accuracy(name="accuracy", exclude="train")(scores, label)
    with Net("cifar", [L.SoftmaxLoss(label_smoothing=0.1)(scores, label), accuracy]) as net:
        rate = Cosine(base=0.1, n_iter=iterations)
        options: dict[str, Any] = {"momentum_policy": 0.9, "regu_coef": 5e-4}
        summary = TrainingSummary(every_n_iter=100)
        Solver("SGD", max_iter=iterations, lr_policy=rate, callbacks=[summary], **options).solve(net)
        with net.derive("test") as test:
            test.forward_epoch()
            return test.statistics()["accuracy"]["accuracy"]


def run(folder: str = NAME, iterations: int = 1500) -> float:
    """Train on the files of a folder, or if there is none on pictures that are made; return the accuracy."""
    if Path(folder).is_dir():
        print(f"CIFAR-10 of {folder}", flush=True)
        return train(Path(folder), iterations)
    print(f"there is no folder {folder}: learning from pictures that are made here", flush=True)
    with tempfile.TemporaryDirectory() as made:
        write_pictures(Path(made))
        return train(Path(made), iterations)


if __name__ == "__main__":
    print(f"accuracy on the pictures held out: {run(*sys.argv[1:2]):.1%}")
