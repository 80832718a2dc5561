"""Picture: PNG, JPEG and the like, through Pillow, which is optional: pip install "nacre[images]"."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from nacre import Codec, Converted, DataError, Field, Pair, default, non_negative, wholes

from ..quiet import quiet

if TYPE_CHECKING:
    from PIL.Image import Image

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
ENDINGS = {
    "BMP": ".bmp",
    "GIF": ".gif",
    "JPEG": ".jpg",
    "PNG": ".png",
    "PPM": ".ppm",
    "TIFF": ".tif",
    "WEBP": ".webp",
}
"""Formats that are read. Pillow looks at the content, and would start Ghostscript for PostScript in any file."""
FORMATS = tuple(ENDINGS)
BITS, PHOTOMETRIC, MIN_IS_WHITE = 258, 262, 0  # tags of TIFF
MAX_PIXELS = 1 << 26
GREY = ("1", "L", "LA", "I")
PLAIN = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes with 8 bits per channel, or 1, which it converts correctly."""
AS_PNG = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")
"""Pillow's modes that a PNG has, too."""
ORIENTATION = 0x112  # in EXIF data; with 5 to 8 rows and columns are exchanged
TILE_WIDTH, TILE_LENGTH = 322, 323  # tags of a TIFF
PARTS = (8, 4, 2)  # a JPEG can be unpacked at an eighth, a quarter or half of its size
SPARE = 5  # it stays so many times larger than the scaled picture: then those pixels differ by 2 or 3 at most

NewHeight = Annotated[int, non_negative, "rows that the picture is scaled to; 0: see `short_side`"]
NewWidth = Annotated[int, non_negative, "columns that the picture is scaled to"]
ShortSide = Annotated[int, non_negative, "length that its shorter side is scaled to; 0: it is not scaled"]
CropSize = Annotated[Pair, non_negative, "rows and columns that are cut out of the scaled picture; 0: it stays whole"]


class Colour(Converted["int | Sequence[int]", "tuple[int, ...]"]):
    """Red, green and blue, from 0 to 255; one number is a grey, and () no colour."""

    wants = "a number from 0 to 255, or three: red, green and blue"

    @staticmethod
    def convert(value: Any) -> tuple[int, ...]:
        numbers = wholes(value)
        if len(numbers) == 1:
            numbers *= 3
        if len(numbers) not in (0, 3) or not all(0 <= number <= 255 for number in numbers):
            raise ValueError
        return numbers


WRITE_AGAIN = (
    "write it again as PNG, or take it out (nacre data verify lists all of them); "
    'in a net, a source with on_error = "skip" leaves it out'
)
Background = Annotated[Colour, "colour behind transparent pixels; without it such pictures are refused"]


class Picture(Codec):
    """A picture in any format that Pillow reads well, as (channels, rows, columns) of numbers from 0 to 255.

    It is scaled to `new_height` and `new_width`, or to `short_side`, and then `crop_size` is cut out of its middle;
    without these fields it is scaled to the shape that is wanted, if there is one. It becomes grey where one channel is
    wanted; without a wanted shape it has 1 or 3 channels. It is turned by its EXIF data, and 16 bits become 8. A JPEG
    that is ten times as large as its scaled size, or more, is unpacked at part of its size, if that divides it. What
    would need a guess is refused: transparent pixels, unless there is a `background` or four channels are wanted;
    several pictures in a file; numbers that are not colours. Pictures are written as PNG.
    """

    new_height: NewHeight = 0
    new_width: NewWidth = 0
    short_side: ShortSide = 0
    crop_size: CropSize = default((0, 0))
    background: Background = default(())

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        yield from misfits(self)

    def describe(self, data: bytes) -> Mapping[str, Field]:
        with _opened(data):
            return {"data": Field(None, "uint8")}

    def decode(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, np.ndarray]:
        shape = shapes.get("data")
        if shape is None:
            return {"data": self.pixels(data)}
        if len(shape) != 3 or shape[0] not in MODES:
            message = f"a picture cannot become a record of shape {shape}"
            raise DataError(message, "the shape must be (1, 3 or 4, rows, columns)")
        whole = self.new_height or self.short_side or self.crop_size[0]
        return {"data": self.pixels(data, shape[0], None if whole else shape[1:])}

    def pixels(
        self,
        data: bytes,
        channels: int = 0,
        size: Sequence[int] | None = None,
        place: tuple[float, float] | None = None,
        *,
        mirror: bool = False,
    ) -> np.ndarray:
        """Return a picture (channels, rows, columns).

        Args:
            data: the picture, in any format.
            channels: 1, 3 or 4; 0 means those of the picture.
            size: rows and columns to scale to, instead of what the codec's fields say.
            place: where the window that is cut out lies, from top to bottom and from left to right, as two numbers from
                [0, 1); by default in the middle.
            mirror: whether left and right are exchanged.
        """
        with _opened(data) as image:
            scaled = self._scaled(_size_of(image), size) if image.format == "JPEG" else None
            part = _unpack_smaller(image, scaled) if scaled else 1
            picture = _plain(image, MODES.get(channels) or ("L" if _is_grey(image) else "RGB"), self.background)
            picture = self._resized(picture, (picture.width * part, picture.height * part), size, place)
            array = np.asarray(picture, np.uint8)
        if mirror:
            array = array[:, ::-1]
        return array[np.newaxis] if array.ndim == 2 else np.moveaxis(array, -1, 0)

    def _scaled(self, size: tuple[int, int], wanted: Sequence[int] | None) -> tuple[int, int]:
        """Return columns and rows to which a picture of so many columns and rows is scaled, before it is cut."""
        width, height = size
        if wanted:
            return wanted[1], wanted[0]
        if self.new_height:
            return self.new_width, self.new_height
        if not self.short_side:
            return size
        short = self.short_side
        return (short, height * short // width) if width < height else (width * short // height, short)

    def _resized(
        self, picture: Image, size: tuple[int, int], wanted: Sequence[int] | None, place: tuple[float, float] | None
    ) -> Image:
        """Scale and cut a picture at once, so that only pixels that are needed are computed."""
        from PIL.Image import Resampling

        width, height = self._scaled(size, wanted)
        rows, columns = (height, width) if wanted or not self.crop_size[0] else self.crop_size
        if rows > height or columns > width:
            message = f"the picture has {height} rows and {width} columns, but crop_size={self.crop_size}"
            raise DataError(message, "give short_side, or new_height and new_width, so that it is scaled first")
        if rows * columns > MAX_PIXELS:
            raise _too_large()
        top, left = (height - rows) // 2, (width - columns) // 2
        if place is not None:
            top, left = int(place[0] * (height - rows + 1)), int(place[1] * (width - columns + 1))
        across, along = picture.width / width, picture.height / height
        right, bottom = min((left + columns) * across, picture.width), min((top + rows) * along, picture.height)
        return picture.resize((columns, rows), Resampling.BILINEAR, (left * across, top * along, right, bottom))

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return a record as PNG: an array of uint8, or a picture of Pillow's."""
        if len(record) != 1:
            raise DataError(f"a picture is one field, but there are {len(record)}: {', '.join(record)}")
        (given,) = record.values()
        if hasattr(given, "getexif"):
            return _written(given if given.mode in AS_PNG else given.convert("RGB"), exif=given.getexif())
        array = np.asarray(given)
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[0] not in MODES or 0 in array.shape:
            message = f"a record of shape {array.shape} and type {array.dtype} is no picture"
            last = array.ndim == 3 and array.shape[-1] in MODES
            remedy = "a picture is (1, 3 or 4, rows, columns) of numbers from 0 to 255, uint8"
            raise DataError(message, remedy + "; x.transpose(2, 0, 1) puts the channels first" * last)
        pixels = array[0] if len(array) == 1 else np.moveaxis(array, 0, -1)
        return _written(_pillow().fromarray(np.ascontiguousarray(pixels)))


def _written(picture: Image, **options: Any) -> bytes:
    """Return a picture as PNG."""
    written = io.BytesIO()
    picture.save(written, "PNG", **options)
    return written.getvalue()


def misfits(fields: Any) -> Iterator[str]:
    """Yield a message for each mistake in the fields that say how a picture is scaled and cut."""
    height, width, short, crop = fields.new_height, fields.new_width, fields.short_side, fields.crop_size
    if bool(height) != bool(width):
        yield f"new_height={height} and new_width={width}, but both are needed; short_side keeps the picture's form"
    if short and (height or width):
        yield f"short_side={short}, but new_height={height} and new_width={width} say the size too: remove one of them"
    if bool(crop[0]) != bool(crop[1]):
        yield f"crop_size={crop}, but both numbers must be above 0, or both 0"
    if height and width and (crop[0] > height or crop[1] > width):
        yield f"crop_size={crop}, but the pictures are scaled to {height} rows and {width} columns"
    if short and min(crop) > short:
        yield f"crop_size={crop}, but the shorter sides are scaled to short_side={short}"


def ending_of(data: bytes) -> str:
    """Return the end of the name of a file with this picture, such as ".jpg"."""
    with _opened(data) as image:
        return ENDINGS.get(image.format or "", ".jpg")  # a camera's MPO is a JPEG


@contextmanager
def _opened(data: bytes) -> Generator[Image]:
    """Open a picture for the block, in which pixels may be unpacked.

    Raises:
        DataError: Pillow is not installed, the picture cannot be read, is too large, or there are several.
    """
    pillow = _pillow()
    try:
        with quiet():  # of a size that is refused below
            opened = pillow.open(io.BytesIO(data), formats=FORMATS)
        with opened as image:
            tags: Mapping[int, int] = getattr(image, "tag_v2", {})  # the tiles of a TIFF may be larger than itself
            if max(image.width * image.height, tags.get(TILE_WIDTH, 0) * tags.get(TILE_LENGTH, 0)) > MAX_PIXELS:
                raise _too_large()  # nothing is unpacked yet
            several = getattr(image, "is_animated", False)  # to count them might take for ever
            if image.format != "MPO" and several:  # a camera's MPO has a preview behind the picture
                raise DataError("it holds several pictures, but a record is one", "save each in a file of its own")
            yield image
    except DataError:
        raise
    except pillow.DecompressionBombError as error:
        raise _too_large() from error
    except Exception as error:  # Pillow's plugins raise anything for damaged files
        why = "" if isinstance(error, pillow.UnidentifiedImageError) else f": {error}"
        message = f"this is not a picture that can be read ({', '.join(FORMATS)}){why}"
        raise DataError(message, WRITE_AGAIN) from error


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError("pictures need Pillow", 'pip install "nacre[images]"') from error
    return Image


def _size_of(image: Image) -> tuple[int, int]:
    """Return columns and rows of a JPEG that is the right way up."""
    width, height = image.size
    return (height, width) if image.getexif().get(ORIENTATION) in (5, 6, 7, 8) else (width, height)


def _unpack_smaller(image: Image, scaled: tuple[int, int]) -> int:
    """Let a JPEG that is much larger than its scaled size be unpacked at part of its size; return which part."""
    columns, rows = _size_of(image)
    for part in PARTS:
        fits = columns % part == rows % part == 0  # else the last pixels would be of other size
        if fits and columns >= SPARE * part * scaled[0] and rows >= SPARE * part * scaled[1]:
            image.draft(None, (image.width // part, image.height // part))
            return part
    return 1


def _plain(image: Image, mode: str, background: Sequence[int]) -> Image:
    """Return a picture the right way up, in a mode of 8 bits; raise DataError if that needs a guess."""
    from PIL import ImageOps
    from PIL.Image import new

    ImageOps.exif_transpose(image, in_place=True)
    turned = _of_16_bits(image) if _has_16_bits(image) else image
    if turned.mode not in PLAIN:
        raise DataError(f"its pixels are not colours (Pillow's mode {turned.mode})", WRITE_AGAIN)
    if mode != "RGBA" and turned.has_transparency_data:
        turned = turned.convert("RGBA")
        if background:
            behind = new("RGBA", turned.size, (*background, 255))
            behind.alpha_composite(turned)
            turned = behind
        elif np.asarray(turned)[..., 3].min() < 255:
            message = f"it is transparent, but {mode} is wanted, and the background is not known"
            raise DataError(message, "give a background, such as background = 255, or save it without an alpha channel")
    return turned if turned.mode == mode else turned.convert(mode)


def _is_grey(image: Image) -> bool:
    return image.mode in GREY or image.mode.startswith("I;16")


def _has_16_bits(image: Image) -> bool:
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))


def _of_16_bits(image: Image) -> Image:
    """Return a grey picture of 16 bits in 8: 65535 is white, as 255 is; a TIFF may say less, or that 0 is white."""
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(BITS, 16)
    most = (1 << (bits if isinstance(bits, int) else bits[0])) - 1
    numbers = np.minimum(np.asarray(image).astype(np.uint32), most)
    if tags.get(PHOTOMETRIC) == MIN_IS_WHITE:
        numbers = most - numbers
    grey = _pillow().fromarray(((numbers * 255 + most // 2) // most).astype(np.uint8))  # rounds
    if "transparency" in image.info:
        grey.info["transparency"] = image.info["transparency"] // 257
    return grey


def _too_large() -> DataError:
    return DataError(f"it has more than {MAX_PIXELS:,} pixels, the limit", "scale it down")
