"""PyTorch's DataLoader, and the data sets that it reads in `benchmarks.data`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

SHORT_SIDE, CROP = 256, 224


def installed() -> bool:
    """Return whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


def batches(
    dataset: Callable[[], Any], workers: int, stack: ExitStack, *, shuffled: bool, size: int
) -> Iterator[tuple[Any, Any]]:
    """Yield batches as nets take them, pass after pass; numbers become floats once they are together."""
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset(), size, shuffle=shuffled, num_workers=workers, persistent_workers=workers > 0)
    while True:
        for data, labels in loader:
            yield data.float(), labels


class Arrays:
    """Records in memory."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        import torch

        return torch.from_numpy(self.images[number]), int(self.labels[number])


class Datasets:
    """Records in an HDF5 file, which each process opens for itself."""

    def __init__(self, path: Path) -> None:
        import h5py

        file: Any
        self.path = path
        self.opened: Any = None
        with h5py.File(path) as file:
            self.count = len(file["label"])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[Any, int]:
        import h5py
        import torch

        if self.opened is None:
            file = h5py.File(self.path)
            self.opened = file["data"], file["label"]
        data, label = self.opened
        return torch.from_numpy(data[number]), int(label[number])


class Photographs:
    """Pictures, by the calls of Pillow of torchvision's Resize, RandomCrop, RandomHorizontalFlip and PILToTensor.

    Unless it `varies`, the window is in the middle, as CenterCrop cuts it, and nothing is mirrored.
    """

    def __init__(self, paths: Sequence[Path], *, varies: bool) -> None:
        self.paths = paths
        self.varies = varies
        self.classes = {name: number for number, name in enumerate(sorted({path.parent.name for path in paths}))}

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        import torch

        return torch.from_numpy(self.pixels(number)), self.classes[self.paths[number].parent.name]

    def pixels(self, number: int) -> np.ndarray:
        """Return a picture (channels, rows, columns)."""
        from PIL import Image

        with self.paths[number].open("rb") as file:
            image = Image.open(file).convert("RGB")
        width, height = image.size
        size = (SHORT_SIDE, SHORT_SIDE * height // width)
        if width > height:
            size = (SHORT_SIDE * width // height, SHORT_SIDE)
        image = image.resize(size, Image.Resampling.BILINEAR)
        left, top = (round((side - CROP) / 2) for side in size)
        if self.varies:
            left, top = (self._random(side - CROP + 1) for side in size)
        image = image.crop((left, top, left + CROP, top + CROP))
        if self.varies and self._random(2):
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return np.array(image).transpose(2, 0, 1)

    @staticmethod
    def _random(below: int) -> int:
        import torch

        return int(torch.randint(below, (1,)))
