"""Write train.h5 and test.h5 beside this file: real handwritten digits, 8 x 8 pixels, as HDF5.

The digits are the UCI "Optical Recognition of Handwritten Digits" (NOTICE names authors and licence), in the copy that
scikit-learn carries, and in its order: the last 360 are held out for testing, the 1,437 before them are for training.
The files are in the repository; this script says how they came about, and makes them again:

    pip install scikit-learn h5py
    python examples/digits/make_digits.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import h5py
import numpy as np
from sklearn.datasets import load_digits

HELD_OUT = 360


def main() -> None:
    """Write both files into the folder given on the command line, or into this script's own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent, help="folder to write into")
    folder: Path = parser.parse_args().out

    digits = load_digits()
    images = digits.images[:, np.newaxis]  # one channel: (images, channels, height, width)
    data = images.astype(np.uint8)
    assert np.array_equal(data, images), "the pixels are whole numbers from 0 to 16"

    for name, part in (("train.h5", slice(None, -HELD_OUT)), ("test.h5", slice(-HELD_OUT, None))):
        write(folder / name, data[part], digits.target[part].astype(np.uint8))


def write(path: Path, data: np.ndarray, label: np.ndarray) -> None:
    """Write one file: `data` (images, 1, 8, 8), whole numbers from 0 to 16, and `label` (images,), from 0 to 9."""
    # Neither compressed nor dated: with the same HDF5, the same digits make the same bytes. The file format is that of
    # HDF5 1.8, which every HDF5 since 2008 reads.
    with h5py.File(path, "w", libver=("v108", "v110")) as file:
        file.create_dataset("data", data=data, track_times=False)
        file.create_dataset("label", data=label, track_times=False)
    print(f"{path.name}: {len(data)} images, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
