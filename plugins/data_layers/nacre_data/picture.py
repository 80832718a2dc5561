"""Pictures, through Pillow, which is optional: pip install "nacre[images]"."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nacre import DataError, RecordReader

if TYPE_CHECKING:
    from PIL.Image import Image

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are read. Pillow looks at the content, and would start Ghostscript for PostScript in any file."""
MAX_PIXELS = 1 << 26
PLAIN = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes with 8 bits per channel, or 1, which it converts correctly."""


class PictureReader(RecordReader):
    """A picture as one record (channels, rows, columns) of numbers from 0 to 255, scaled to the net's size.

    It becomes grey if the net takes one channel. It is rotated by its EXIF data; 16 bits of grey become 8. Pictures
    that would need a guess are refused: transparent pixels, unless the net takes four channels; several pictures in a
    file; numbers that are not colours.
    """

    needs_shape = True

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        """Return one record (1, channels, rows, columns)."""
        try:
            from PIL import Image, UnidentifiedImageError
        except ImportError as error:
            raise DataError(f"{path}: pictures need Pillow", 'pip install "nacre[images]"') from error
        if shape is None or len(shape) != 3 or shape[0] not in MODES:
            message = f"{path}: a picture cannot become a record of shape {shape}"
            raise DataError(f"{message}; the shape must be (1, 3 or 4, rows, columns)")
        try:
            with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as image:
                picture = _plain(image, str(path), MODES[shape[0]])
                picture = picture.resize((shape[2], shape[1]), Image.Resampling.LANCZOS)
        except DataError:
            raise
        except Image.DecompressionBombError as error:
            raise _too_large(str(path)) from error
        except Exception as error:  # Pillow's plugins raise anything for damaged files
            why = "" if isinstance(error, UnidentifiedImageError) else f": {error}"
            message = f"{path}: this is not a picture that can be read ({', '.join(FORMATS)}){why}"
            raise DataError(message, "write it again as PNG") from error
        pixels = np.asarray(picture, np.uint8).reshape(shape[1], shape[2], shape[0])
        return np.moveaxis(pixels, -1, 0)[np.newaxis]


def _plain(image: Image, where: str, mode: str) -> Image:
    """Return a picture the right way up, in a mode of 8 bits; raise DataError if that needs a guess."""
    from PIL import ImageOps

    if image.width * image.height > MAX_PIXELS:  # nothing is unpacked yet
        raise _too_large(where)
    if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:  # a camera's MPO has a preview behind the picture
        frames = image.n_frames  # pyright: ignore[reportAttributeAccessIssue] - of formats that have several
        raise DataError(f"{where}: it holds {frames} pictures, but a record is one", "save each in a file of its own")
    turned = ImageOps.exif_transpose(image)
    if turned.mode.startswith("I;16") or (turned.mode == "I" and image.format in ("PNG", "PPM")):
        turned = _of_16_bits(turned)
    if turned.mode not in PLAIN:
        raise DataError(f"{where}: its pixels are not colours (Pillow's mode {turned.mode})", "write it again as PNG")
    if mode != "RGBA" and turned.has_transparency_data and np.asarray(turned.convert("RGBA"))[..., 3].min() < 255:
        message = f"{where}: it is transparent, but the net takes {mode}, and the background is not known"
        raise DataError(message, "put it on a background, and save it without an alpha channel")
    return turned.convert(mode)


def _of_16_bits(image: Image) -> Image:
    """Return a grey picture of 16 bits in 8: 65535 is white, as 255 is."""
    from PIL import Image

    grey = Image.fromarray(((np.asarray(image).astype(np.uint32) + 128) // 257).astype(np.uint8))  # rounds
    if "transparency" in image.info:
        grey.info["transparency"] = image.info["transparency"] // 257
    return grey


def _too_large(where: str) -> DataError:
    return DataError(f"{where}: it has more than {MAX_PIXELS:,} pixels, the limit", "scale it down")
