"""The files that a page of docs/ takes for granted, made in a folder: functions have the names of pages."""

from __future__ import annotations

import re
import shlex
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nacre.cli.app import nacre

ROOT = Path(__file__).resolve().parents[1]
COLOURS = {"cat": (200, 120, 60), "dog": (60, 120, 200)}


def data_commands(folder: Path) -> None:
    """Make the file of digits that the page converts."""
    shutil.copy(ROOT / "examples/digits/test.h5", folder / "digits.h5")


def own_data(folder: Path, *, divided: bool = True) -> None:
    """Make folders of pictures of different sizes, and with `divided` what the page's first command makes of them."""
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for animal, colour in COLOURS.items():
        pets = folder / "all-pets" / animal
        pets.mkdir(parents=True)
        for number in range(34):
            noise = random.normal(0, 40, (*random.integers(40, 80, 2), 3))
            pixels = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
            image.fromarray(pixels).save(pets / f"{number}.jpg")
    shutil.copy(folder / "all-pets/cat/0.jpg", folder / "cat.jpg")
    if divided:
        page = (ROOT / "docs/own-data.md").read_text(encoding="utf-8")
        (command,) = re.findall("^nacre data split .*$", page, re.MULTILINE)
        with chdir(folder):
            done = CliRunner().invoke(nacre, shlex.split(command)[1:], catch_exceptions=False)
        assert done.exit_code == 0, done.output
