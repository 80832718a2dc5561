"""A deep autoencoder of digits that begins as four restricted Boltzmann machines, one above the other.

    python examples/rbm/rbm.py [reconstructions.png]

Each machine learns the features of the one below it by contrastive divergence. Then the four are unrolled: their
weights are the first values of an encoder, 64 pixels to 8 numbers, and transposed of a decoder, and back-propagation
tunes both (Hinton and Salakhutdinov, "Reducing the dimensionality of data with neural networks", 2006; after SINGA's
example). The same autoencoder is trained from random weights, too.

Squared error of the 360 test images, mean of five seeds: 0.97 with pre-training, and 4.73 without, which is that of the
mean image (with 10,000 iterations, as many as all together, too). The 8 first principal components have 1.59.

The picture needs matplotlib: pip install 'nacre[plots]'. It has digits of the test set, what is left of them after the
8 numbers with pre-training, and without.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np

from nacre import Layer, Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers import CD, Identity, InnerProductLayer, RBMHiddenLayer, RBMVisibleLayer, Sigmoid, SquareLossLayer

DIGITS = Path(__file__).resolve().parents[1] / "digits"
SIZES = (64, 128, 64, 32, 8)
PRE_TRAINING, FINE_TUNING = 1500, 4000


def digits(file: str) -> np.ndarray:
    """Return the images as rows of 64 numbers from 0 to 1."""
    with h5py.File(DIGITS / file) as data:
        return (data["data"][...].reshape(-1, 64) / 16).astype("float32")


def pretrained(seed: int) -> dict[str, np.ndarray]:
    """Train the machines one after the other; return the parameters that the autoencoder begins with, by name."""
    found: dict[str, np.ndarray] = {}
    data, algorithm = digits("train.h5"), CD()
    for number, size in enumerate(SIZES[1:]):
        last = number + 2 == len(SIZES)
        layers = [
            MemoryDataLayer(name="source", tops=["data"], data=[data], batch_size=50, shuffle=True),
            RBMVisibleLayer(name="vis", bottoms=["data", "hid"], tops=["vis"]),
            RBMHiddenLayer(
                name="hid", bottoms=["vis"], tops=["hid"], output_dim=size, units="gaussian" if last else "binary"
            ),
        ]
        with Net(f"machine {number}", layers, seed=seed, algorithm=algorithm) as net:
            rate = 0.01 if last else 0.1  # of Gaussian units, whose numbers have no bound
            solver = Solver(
                "SGD", algorithm=algorithm, max_iter=PRE_TRAINING, lr_policy=rate, momentum_policy=0.5, regu_coef=2e-4
            )
            solver.solve(net)
            weight, up, down = (net.parameters[name].value for name in ("hid/weight", "hid/bias", "vis/bias"))
            found |= {f"encode{number}/weight": weight, f"encode{number}/bias": up}
            found |= {f"decode{number}/weight": weight, f"decode{number}/bias": down}
            data = net.predict(data, "hid")
    return found


def autoencoder(data: np.ndarray) -> list[Layer]:
    """Return the layers of the autoencoder of images."""
    layers: list[Layer] = [MemoryDataLayer(name="source", tops=["data"], data=[data], batch_size=50, shuffle=True)]
    blob, last = "data", len(SIZES) - 2
    for number, size in enumerate(SIZES[1:]):
        neuron = Identity() if number == last else Sigmoid()
        name, top = f"encode{number}", f"h{number}"
        layers.append(InnerProductLayer(name=name, bottoms=[blob], tops=[top], output_dim=size, neuron=neuron))
        blob = top
    for number, size in reversed([*enumerate(SIZES[:-1])]):
        fields = {"output_dim": size, "transpose": True, "neuron": Sigmoid()}
        layers.append(InnerProductLayer(name=f"decode{number}", bottoms=[blob], tops=[f"v{number}"], **fields))
        blob = f"v{number}"
    return [*layers, SquareLossLayer(name="loss", bottoms=[blob, "data"], weight=2.0)]


def reconstructions(first: dict[str, np.ndarray], seed: int) -> np.ndarray:
    """Train the autoencoder, beginning with these parameters; return what it makes of the test images."""
    with Net("autoencoder", autoencoder(digits("train.h5")), seed=seed) as net:
        for name, value in first.items():
            net.parameters[name].value = value
        Solver("SGD", max_iter=FINE_TUNING, lr_policy=0.02, momentum_policy=0.9).solve(net)
        return net.predict(digits("test.h5"), "v0")


def run(picture: str = "", seed: int = 0) -> tuple[float, float]:
    """Return the squared error of an image of the test set with pre-training, and without; draw the picture."""
    real = digits("test.h5")
    made = [reconstructions(pretrained(seed), seed), reconstructions({}, seed)]
    if picture:
        from matplotlib.image import imsave

        rows = np.stack([real, *made])[:, :20].reshape(3, 20, 8, 8)
        grid = np.pad(rows, ((0, 0), (0, 0), (1, 1), (1, 1))).transpose(0, 2, 1, 3).reshape(30, 200)
        imsave(picture, np.kron(grid, np.ones((4, 4))), cmap="gray", vmin=0, vmax=1)
    with_it, without = (float(np.mean(np.sum((one - real) ** 2, axis=1))) for one in made)
    return with_it, without


def main(picture: str = "reconstructions.png") -> None:
    """Train, and say how large the errors are and where the picture is."""
    if find_spec("matplotlib") is None:  # said before the training, not after it
        print("no picture is drawn, since matplotlib is not installed: pip install 'nacre[plots]'")
        picture = ""
    with_it, without = run(picture)
    where = f"; reconstructions in {picture}" if picture else ""
    print(f"squared error of an image: with pre-training {with_it:.2f}, without {without:.2f}{where}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
