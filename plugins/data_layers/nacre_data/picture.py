"""Pictures, through Pillow, which is optional: pip install "nacre[images]"."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nacre import DataError, RecordReader

MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class PictureReader(RecordReader):
    """A picture as one record (channels, rows, columns) of numbers from 0 to 255, scaled to the net's size.

    It becomes grey where the net takes one channel.
    """

    needs_shape = True

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        """Give one record (1, channels, rows, columns)."""
        try:
            from PIL import Image
        except ImportError as error:
            raise DataError(f"{path}: pictures need Pillow", 'pip install "nacre[images]"') from error
        if shape is None or len(shape) != 3 or shape[0] not in MODES:
            told = f"{path}: a picture cannot become a record of shape {shape}"
            raise DataError(f"{told}; it must be (1, 3 or 4, rows, columns)")
        try:
            with Image.open(path) as image:
                picture = image.convert(MODES[shape[0]]).resize((shape[2], shape[1]), Image.Resampling.LANCZOS)
        except Exception as error:  # of Pillow, whose plugins raise whatever they like on damaged files
            raise DataError(f"{path}: this is no picture that Pillow reads: {error}") from error
        pixels = np.asarray(picture, np.uint8).reshape(shape[1], shape[2], shape[0])
        return np.moveaxis(pixels, -1, 0)[np.newaxis]
