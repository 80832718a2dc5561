"""The first pictures of a set, as one PNG."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nacre import ConfigError, DataError, Field
from nacre.files import atomic_write

if TYPE_CHECKING:
    from PIL.Image import Image

COLUMNS, ROWS = 8, 8
GAP = 2  # pixels between two pictures
DARK = 63  # the largest byte of pictures that one could not see
LARGEST = 256  # rows and columns of a picture; larger ones are scaled down


class Sheet:
    """Collects the first pictures of the first field that looks like one: records (1 or 3, rows, columns).

    Raises:
        ConfigError: the file would not be a PNG.
        DataError: no field looks like a picture, or Pillow is missing.
    """

    def __init__(self, path: Path, fields: Mapping[str, Field], where: str) -> None:
        if path.suffix.lower() != ".png":
            raise ConfigError(f"--picture {path}: the name must end in .png")
        try:
            import PIL.Image as PIL
        except ImportError as error:
            raise DataError("--picture needs Pillow", 'pip install "nacre[images]"') from error
        self.pillow = PIL
        self.path = path
        found = [name for name, field in fields.items() if field.shape is None or _is_picture(field.shape)]
        if not found:
            shapes = ", ".join(f"{name} {field.shape}" for name, field in fields.items())
            message = f"{where}: no field looks like a picture, (1 or 3, rows, columns): {shapes}"
            raise DataError(message, "leave --picture out")
        self.name = found[0]
        self.where = where
        self.shown: list[np.ndarray] = []

    def add(self, rows: Any) -> None:
        """Keep the first pictures of a block."""
        for row in rows[: COLUMNS * ROWS - len(self.shown)]:
            array = np.asarray(row)
            if not _is_picture(array.shape):
                raise DataError(f"{self.where}: a record of '{self.name}' is no picture: its shape is {array.shape}")
            step = max(1, max(array.shape) // (2 * LARGEST))  # 64 pictures from a camera would need much memory
            self.shown.append(array[:, ::step, ::step].copy())

    def write(self) -> None:
        """Write the PNG. Raises DataError if there are no records, or it cannot be written."""
        if not self.shown:
            raise DataError(f"{self.where}: there are no records, so there is no picture")
        pictures = self._scaled()
        width, height = max(one.width for one in pictures), max(one.height for one in pictures)
        columns = min(COLUMNS, len(pictures))
        rows = -(-len(pictures) // columns)
        size = columns * (width + GAP) - GAP, rows * (height + GAP) - GAP
        sheet = self.pillow.new("RGB", size, "white")
        for number, one in enumerate(pictures):
            row, column = divmod(number, columns)
            sheet.paste(one, (column * (width + GAP), row * (height + GAP)))
        png = io.BytesIO()
        sheet.save(png, "PNG")
        atomic_write(self.path, png.getvalue(), DataError)

    def _scaled(self) -> list[Image]:
        """Return the pictures with 8 bits: bytes as they are, other numbers from the least (black) to the largest.

        Bytes that are all DARK are scaled too: the digits of UCI, for example, have 17 greys.
        """
        if any(array.dtype != np.uint8 for array in self.shown) or max(array.max() for array in self.shown) <= DARK:
            finite = np.concatenate([array[np.isfinite(array)].reshape(-1).astype(np.float64) for array in self.shown])
            least, most = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
            factor = 255 / ((most - least) or 1)
            self.shown = [
                np.nan_to_num(np.clip((array.astype(np.float64) - least) * factor, 0, 255)).round().astype(np.uint8)
                for array in self.shown
            ]
        pictures: list[Image] = []
        for array in self.shown:
            pixels = array[0] if len(array) == 1 else np.moveaxis(array, 0, -1)
            picture = self.pillow.fromarray(np.ascontiguousarray(pixels))
            picture.thumbnail((LARGEST, LARGEST))
            pictures.append(picture)
        return pictures


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[0] in (1, 3)
