"""The files that a page of docs/ takes for granted, made in a folder: functions have the names of pages."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
COLOURS = {"cat": (200, 120, 60), "dog": (60, 120, 200)}


def data_commands(folder: Path) -> None:
    """Make the file of digits that the page converts."""
    shutil.copy(ROOT / "examples/digits/test.h5", folder / "digits.h5")


def own_data(folder: Path) -> None:
    """Make folders of pictures of different sizes."""
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for part, count in (("train", 24), ("test", 10)):
        for animal, colour in COLOURS.items():
            pets = folder / "pets" / part / animal
            pets.mkdir(parents=True)
            for number in range(count):
                noise = random.normal(0, 40, (*random.integers(40, 80, 2), 3))
                pixels = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
                image.fromarray(pixels).save(pets / f"{number}.jpg")
    shutil.copy(folder / "pets/test/cat/0.jpg", folder / "cat.jpg")
