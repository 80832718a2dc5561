"""Trains the variational auto-encoder of vae.toml, and draws a hundred new digits into a picture.

    python examples/vae/vae.py [samples.png]

The picture needs matplotlib: pip install 'nacre[plots]'. Without it only the negative ELBO is told.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nacre.config import load

NET = Path(__file__).with_name("vae.toml")


def run(picture: str = "", seed: int = 0) -> float:
    """Train, save the picture where a name is given, and give the negative ELBO on the test images."""
    file = load(NET, [f"seed={seed}"])
    with file.net("train") as net:
        file.solver().solve(net)
        losses: list[float] = []
        for draw in range(5):  # for each image
            with net.derive("test", seed=seed + draw) as test:
                losses.append(test.forward_epoch())
        elbo = np.mean(losses)
    if picture:
        from matplotlib.image import imsave

        with file.net("predict") as net:
            images = net.predict(np.random.default_rng(seed).standard_normal((100, 8)), "image")
        framed = np.pad(images.reshape(10, 10, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
        grid = framed.transpose(0, 2, 1, 3).reshape(100, 100)
        imsave(picture, np.kron(grid, np.ones((4, 4))), cmap="gray", vmin=0, vmax=1)
    return float(elbo)


def main(picture: str = "samples.png") -> None:
    """Train, and say how good it is and where the picture is."""
    if find_spec("matplotlib") is None:  # said before the training, not after it
        print("no picture is drawn, since matplotlib is not installed: pip install 'nacre[plots]'")
        picture = ""
    elbo = run(picture)
    print(f"negative ELBO {elbo:.2f}" + (f"; a hundred new digits in {picture}" if picture else ""))


if __name__ == "__main__":
    main(*sys.argv[1:2])
