"""Pictures as bytes: every mode and format is converted rightly, or refused with a sentence."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nacre import ConfigError, DataError, Field
from nacre_data.codecs.picture import MAX_PIXELS, Picture, ending_of

Image = pytest.importorskip("PIL.Image")

GREY = np.array([[0, 64, 128], [192, 254, 255]], np.uint8)
COLOURS = np.stack([GREY, GREY[::-1], GREY[:, ::-1]], -1)
FORMATS = {"BMP": {}, "GIF": {}, "JPEG": {}, "PNG": {}, "PPM": {}, "TIFF": {}, "WEBP": {"lossless": True}}


def saved(picture: Any, ending: str = "PNG", **options: Any) -> bytes:
    """Return the bytes of a picture, or of an array (rows, columns) or (rows, columns, channels)."""
    picture = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    file = io.BytesIO()
    picture.save(file, ending, **options)
    return file.getvalue()


def read(data: bytes, *shape: int, **options: Any) -> np.ndarray:
    """Return the array of a picture, of this shape if one is given."""
    array = Picture(**options).decode(data, {"data": shape} if shape else {})["data"]
    assert array.dtype == np.uint8
    return array


def png(width: int, height: int, depth: int, colour: int, rows: bytes, **chunks: bytes) -> bytes:
    """Return a PNG of which Pillow writes none."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    inner = b"".join(chunk(name.encode(), data) for name, data in chunks.items())
    body = chunk(b"IHDR", head) + inner + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


# Formats and modes


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_read(ending: str) -> None:
    data = saved(COLOURS, ending, **FORMATS[ending])
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).transpose(2, 0, 1)
    if ending not in ("GIF", "JPEG"):
        np.testing.assert_array_equal(expected, COLOURS.transpose(2, 0, 1))
    np.testing.assert_array_equal(read(data), expected)
    assert Picture().describe(data) == {"data": Field(None, "uint8")}
    assert ending_of(data)[1:3] == ending[:2].lower()


@pytest.mark.parametrize(
    ("mode", "channels"), [("1", 1), ("L", 1), ("LA", 1), ("P", 3), ("RGB", 3), ("RGBA", 3), ("CMYK", 3), ("YCbCr", 3)]
)
def test_every_mode_is_converted(mode: str, channels: int) -> None:
    black_and_white = np.array([[0, 255], [255, 0]], np.uint8)
    picture = Image.fromarray(black_and_white).convert("RGB").convert(mode)
    data = (
        saved(picture, "TIFF", compression="tiff_deflate")  # else Pillow 11 cuts it
        if mode in ("CMYK", "YCbCr")
        else saved(picture)
    )
    assert mode == "YCbCr" or Image.open(io.BytesIO(data)).mode == mode
    assert read(data).shape == (channels, 2, 2)
    for wanted in (1, 3):
        np.testing.assert_allclose(read(data, wanted, 2, 2), [black_and_white] * wanted, atol=1)
    with_alpha = read(data, 4, 2, 2)
    np.testing.assert_allclose(with_alpha[:3], [black_and_white] * 3, atol=1)
    assert (with_alpha[3] == 255).all()


def test_inks_are_converted() -> None:
    """Adobe's JPEG of four inks stores them inverted."""
    inks = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    for data in (saved(inks, "JPEG", quality=100), saved(inks, "TIFF", compression="tiff_deflate")):
        np.testing.assert_allclose(read(data)[:, 4, 4], [255, 0, 0], atol=3)


def test_a_palette_has_its_colours() -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 0])
    picture.putdata([1, 0])
    np.testing.assert_array_equal(read(saved(picture)), [[[200, 10]], [[100, 20]], [[0, 30]]])


@pytest.mark.parametrize("ending", ["PNG", "PPM", "TIFF"])
def test_grey_of_16_bits(ending: str) -> None:
    """Pillow would clip it to 255."""
    numbers = GREY.astype(np.uint16) * 257
    numbers[0, 1] += 128  # the last that is rounded down
    numbers[0, 2] += 129
    expected = GREY + np.array([[0, 0, 1], [0, 0, 0]], np.uint8)
    data = saved(numbers, ending)
    np.testing.assert_array_equal(read(data), [expected])
    np.testing.assert_array_equal(read(data, 3, 2, 3), [expected] * 3)


def test_colours_of_16_bits() -> None:
    rows = b"".join(b"\0" + np.repeat(row, 2, axis=-1).tobytes() for row in COLOURS)
    np.testing.assert_array_equal(read(png(3, 2, 16, 2, rows)), COLOURS.transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_numbers_that_are_no_colours(dtype: Any) -> None:
    with pytest.raises(DataError, match="its pixels are not colours"):
        read(saved(np.ones((2, 3), dtype), "TIFF"))


def transparent(kind: str) -> bytes:
    if kind == "one colour":
        rows = b"".join(b"\0" + row.tobytes() for row in COLOURS)
        return png(3, 2, 8, 2, rows, tRNS=struct.pack(">3H", *COLOURS[0, 0].tolist()))
    if kind == "one grey of 16 bits":
        rows = b"".join(b"\0" + np.repeat(row, 2).tobytes() for row in GREY)
        return png(3, 2, 16, 0, rows, tRNS=struct.pack(">H", 0))
    if kind == "P":
        return saved(Image.fromarray(GREY).convert("P"), transparency=0)
    if kind == "P with an alpha for each colour":
        return saved(Image.fromarray(GREY).convert("P"), transparency=bytes([0, *[255] * 255]))
    picture = Image.fromarray(COLOURS).convert(kind)
    picture.putalpha(Image.fromarray(np.where(GREY, 255, 0).astype(np.uint8)))
    return saved(picture)


KINDS = ["RGBA", "LA", "P", "P with an alpha for each colour", "one colour", "one grey of 16 bits"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_transparent_needs_a_background(kind: str) -> None:
    data = transparent(kind)
    for channels in (1, 3):
        with pytest.raises(DataError, match="it is transparent") as caught:
            read(data, channels, 2, 3)
        assert "background" in caught.value.remedy
        pixels = read(data, channels, 2, 3, background=200)
        np.testing.assert_array_equal(pixels[:, 0, 0], [200] * channels)
        assert pixels[0, 1, 2] == (255 if kind in ("one grey of 16 bits", "P") else pixels[0, 1, 2])
    assert read(data, 4, 2, 3)[3].tolist() == [[0, 255, 255], [255, 255, 255]]


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P"])
def test_an_alpha_channel_that_hides_nothing_needs_none(kind: str) -> None:
    if kind == "P":
        data = saved(Image.fromarray(GREY).convert("P"), transparency=bytes([255] * 256))
    else:
        data = saved(Image.fromarray(GREY).convert(kind))
    np.testing.assert_array_equal(read(data, 1, 2, 3), [GREY])


def test_a_background_shines_through() -> None:
    half = np.full((1, 1, 4), 100, np.uint8)
    half[..., 3] = 128
    np.testing.assert_allclose(read(saved(half), background=[200, 0, 100]).ravel(), [150, 50, 100], atol=1)


# The way up

SCENE = np.zeros((32, 64), np.uint8)
SCENE[:16, :32] = 255  # light above on the left
STORED = {
    1: SCENE,
    2: SCENE[:, ::-1],
    3: SCENE[::-1, ::-1],
    4: SCENE[::-1],
    5: SCENE.T,
    6: SCENE.T[::-1],
    7: SCENE.T[::-1, ::-1],
    8: SCENE.T[:, ::-1],
}


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the parts of their sizes at which JPEGs will be unpacked."""
    from PIL.JpegImagePlugin import JpegImageFile

    parts: list[int] = []
    draft = JpegImageFile.draft

    def spied(self: Any, mode: Any, size: Any) -> Any:
        parts.append(self.width // size[0])
        return draft(self, mode, size)

    monkeypatch.setattr(JpegImageFile, "draft", spied)
    return parts


def turned(orientation: int, ending: str, scene: np.ndarray | None = None) -> bytes:
    exif = Image.Exif()
    exif[0x112] = orientation
    stored = STORED[orientation] if scene is None else scene
    return saved(np.ascontiguousarray(stored), ending, exif=exif, **FORMATS[ending])


@pytest.mark.parametrize("ending", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", STORED)
def test_the_way_up(orientation: int, ending: str) -> None:
    data = turned(orientation, ending)
    np.testing.assert_allclose(read(data)[0], SCENE, atol=60 if ending == "JPEG" else 0)
    half = read(data, short_side=16)
    np.testing.assert_allclose(half[0, 4:6, 4:10], 255, atol=60)
    assert half.shape[1:] == (16, 32)


@pytest.mark.parametrize("orientation", STORED)
def test_the_way_up_of_a_jpeg_that_is_unpacked_smaller(orientation: int, unpacked: list[int]) -> None:
    big = STORED[orientation].repeat(40, 0).repeat(40, 1)
    pixels = read(turned(orientation, "JPEG", big), short_side=32)
    assert unpacked == [8]
    whole = Image.fromarray(SCENE.repeat(40, 0).repeat(40, 1)).resize((64, 32), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(pixels[0].astype(int), np.asarray(whole).astype(int), atol=2)


@pytest.mark.parametrize(("size", "part"), [((800, 1200), 2), ((801, 1200), 1), ((640, 1200), 2), ((638, 1200), 1)])
def test_a_jpeg_that_is_much_larger_is_unpacked_smaller(size: tuple[int, int], part: int, unpacked: list[int]) -> None:
    """By a part that divides its size, and if enough pixels are left: the result is as good as the same."""
    data = saved(smooth(*size), "JPEG", quality=90)
    pixels = read(data, short_side=64, crop_size=(60, 90))
    assert unpacked == ([part] if part > 1 else [])
    whole = np.asarray(scaled(data, 64)).transpose(2, 0, 1)
    left = (whole.shape[2] - 90) // 2
    np.testing.assert_allclose(pixels.astype(int), whole[:, 2:62, left : left + 90].astype(int), atol=2)


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_an_orientation_that_is_none_turns_nothing(orientation: int) -> None:
    np.testing.assert_array_equal(read(turned(orientation, "PNG", SCENE))[0], SCENE)


# Sizes


def smooth(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Return a picture with edges, fine texture and noise, as photographs have."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (rows // 40 + 2, columns // 40 + 2, 3), np.uint8))
    fine = np.asarray(coarse.resize((columns, rows), Image.Resampling.BICUBIC)).astype(float)
    y, x = np.mgrid[:rows, :columns]
    fine += 20 * (((x // 23) + (y // 31)) % 2)[..., None] + random.normal(0, 6, (rows, columns, 3))
    return fine.clip(0, 255).astype(np.uint8)


def scaled(data: bytes, short: int) -> Any:
    """Return a picture scaled as torchvision's Resize does it."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    width, height = picture.size
    size = (short, int(short * height / width)) if width < height else (int(short * width / height), short)
    return picture.resize(size, Image.Resampling.BILINEAR)


@pytest.mark.parametrize("size", [(375, 500), (500, 375), (256, 256), (100, 130), (427, 641)])
def test_scaling_and_cutting_at_once_gives_the_same_pixels(size: tuple[int, int]) -> None:
    for data in (saved(smooth(*size)), saved(smooth(*size), "JPEG", quality=90)):
        whole = scaled(data, 256)
        width, height = whole.size
        top, left = (height - 224) // 2, (width - 224) // 2
        expected = np.asarray(whole.crop((left, top, left + 224, top + 224))).transpose(2, 0, 1)
        found = read(data, short_side=256, crop_size=224)
        np.testing.assert_allclose(found.astype(int), expected.astype(int), atol=1)


def test_the_window_may_be_anywhere() -> None:
    data = saved(smooth(300, 400))
    whole = np.asarray(scaled(data, 240)).transpose(2, 0, 1).astype(int)
    codec = Picture(short_side=240, crop_size=(200, 220))
    almost = np.nextafter(1, 0)
    for place, top, left in (((0, 0), 0, 0), ((almost, almost), 40, 100), ((0.5, 0.25), 20, 25)):
        window = whole[:, top : top + 200, left : left + 220]
        pixels = codec.pixels(data, 3, None, place)
        np.testing.assert_allclose(pixels.astype(int), window, atol=1)
        np.testing.assert_array_equal(codec.pixels(data, 3, None, place, mirror=True), pixels[:, :, ::-1])


def test_a_cut_alone_changes_no_pixel() -> None:
    picture = smooth(30, 40).transpose(2, 0, 1)
    data = saved(picture.transpose(1, 2, 0))
    np.testing.assert_array_equal(read(data, crop_size=(11, 20)), picture[:, 9:20, 10:30])
    np.testing.assert_array_equal(read(data), picture)


def test_new_height_and_new_width_change_its_form() -> None:
    picture = Image.fromarray(smooth(30, 40))
    expected = np.asarray(picture.resize((20, 25), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    np.testing.assert_array_equal(read(saved(picture), new_height=25, new_width=20), expected)
    np.testing.assert_array_equal(read(saved(picture), 3, 25, 20), expected)
    np.testing.assert_array_equal(
        read(saved(picture), new_height=25, new_width=20, crop_size=5), expected[:, 10:15, 7:12]
    )


def test_a_picture_smaller_than_its_window_is_told() -> None:
    with pytest.raises(DataError, match=r"the picture has 2 rows and 3 columns, but crop_size=\(3, 3\)") as caught:
        read(saved(GREY), crop_size=3)
    assert "short_side" in caught.value.remedy


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"new_height": 3}, "new_height=3 and new_width=0"),
        ({"new_width": 3}, "new_height=0 and new_width=3"),
        ({"new_width": 3, "new_height": 3, "short_side": 2}, "short_side=2"),
        ({"crop_size": [0, 2]}, r"crop_size=\(0, 2\)"),
        ({"new_width": 3, "new_height": 5, "crop_size": 4}, r"crop_size=\(4, 4\), but .* 5 rows and 3 columns"),
        ({"short_side": 3, "crop_size": 4}, r"crop_size=\(4, 4\), but .*short_side=3"),
        ({"crop_size": -1}, "crop_size"),
        ({"short_side": -1}, "short_side"),
        ({"background": 256}, "background"),
        ({"background": [1, 2]}, "background"),
    ],
)
def test_fields_that_do_not_fit_are_told(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Picture(**fields)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 3), (5, 2, 2)])
def test_a_shape_that_no_picture_has_is_told(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="a picture cannot become a record of shape"):
        Picture().decode(saved(GREY), {"data": shape})


# Files that are no pictures


@pytest.mark.parametrize("ending", FORMATS)
def test_a_truncated_picture_is_told(ending: str) -> None:
    """Cut after each byte, it is refused, or has all its pixels."""
    data = saved(COLOURS.repeat(4, 0).repeat(4, 1), ending, **FORMATS[ending])
    whole, noticed = read(data), 0
    for end in range(len(data)):
        try:
            found = read(data[:end])
        except DataError:
            noticed += 1
        else:
            np.testing.assert_array_equal(found, whole)
    assert noticed > 0.6 * len(data)


@given(st.binary(max_size=64), st.sampled_from(sorted(FORMATS)), st.data())
def test_damaged_bytes_end_in_a_sentence(noise: bytes, ending: str, draw: st.DataObject) -> None:
    data = bytearray(saved(COLOURS, ending, **FORMATS[ending]))
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at : at + len(noise)] = noise
    with suppress(DataError):  # with the noise it may still be a picture
        assert read(bytes(data)).ndim == 3


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", b"GIF89a"]
)
def test_what_is_no_picture_is_told(data: bytes) -> None:
    for use in (read, Picture().describe, ending_of):
        with pytest.raises(DataError, match=r"this is not a picture that can be read \(BMP, GIF, JPEG, PNG"):
            use(data)


@pytest.mark.parametrize("ending", ["GIF", "PNG", "WEBP", "TIFF"])
def test_several_pictures_are_no_record(ending: str) -> None:
    frames = [Image.fromarray(np.full((2, 3, 3), value, np.uint8)) for value in (0, 100, 200)]
    with pytest.raises(DataError, match="it holds several pictures"):
        read(saved(frames[0], ending, save_all=True, append_images=frames[1:]))


@pytest.mark.parametrize("ending", ["GIF", "TIFF"])
def test_nobody_counts_the_pictures_of_a_file(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a TIFF of 2 MB, with 20,000 of them, it took five seconds."""
    from PIL import GifImagePlugin, TiffImagePlugin

    frames = [Image.fromarray(np.full((2, 3, 3), value, np.uint8)) for value in (0, 100, 200)]
    data = saved(frames[0], ending, save_all=True, append_images=frames[1:])
    for counts in (GifImagePlugin.GifImageFile, TiffImagePlugin.TiffImageFile):
        monkeypatch.setattr(counts, "n_frames", property(lambda _: pytest.fail("they are counted")))
    with pytest.raises(DataError, match="it holds several pictures"):
        read(data)


def huge(kind: str, width: int, height: int) -> bytes:
    """Return a small file that declares many pixels."""
    if kind == "PNG":
        return png(width, height, 8, 0, b"")
    if kind == "GIF":
        return (
            b"GIF89a"
            + struct.pack("<HHBBB", min(width, 65535), min(height, 65535), 0x80, 0, 0)
            + bytes(6)
            + (b"," + struct.pack("<HHHHB", 0, 0, min(width, 65535), min(height, 65535), 0) + b"\x02\x01\x44\0;")
        )
    if kind == "BMP":
        return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 60, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    if kind == "PPM":
        return b"P5 %d %d 255\n" % (width, height)
    data = bytearray(saved(np.zeros((16, 16), np.uint8), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", min(height, 65535), min(width, 65535))
    return bytes(data)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "PPM", "JPEG"])
@pytest.mark.parametrize("side", [MAX_PIXELS, 1 << 30])
def test_too_many_pixels_are_told_before_they_are_unpacked(kind: str, side: int) -> None:
    width, height = (65535, side // 65535 + 1)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"it has more than 67,108,864 pixels, the limit"):
            read(huge(kind, width, height))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_large_tiles_are_told_before_they_are_unpacked() -> None:
    """libtiff would take memory for a whole tile of a small picture."""
    tags = {256: 10, 257: 10, 258: 8, 259: 8, 262: 1, 277: 1, 322: 40000, 323: 40000, 324: 134, 325: 40}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    data = (
        b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + zlib.compress(bytes(1000)).ljust(40, b"\0")
    )
    with pytest.raises(DataError, match="more than 67,108,864 pixels"):
        read(data)


def test_what_it_is_scaled_to_has_a_limit_too() -> None:
    with pytest.raises(DataError, match="more than 67,108,864 pixels"):
        read(saved(np.zeros((1, 1000), np.uint8)), short_side=1000)


def test_without_pillow_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(GREY)
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(DataError, match="pictures need Pillow") as caught:
        read(data)
    assert "nacre[images]" in caught.value.remedy


# Writing


@given(arrays(np.uint8, st.tuples(st.sampled_from([1, 3, 4]), st.integers(1, 6), st.integers(1, 6))))
def test_what_is_written_is_read_again(pixels: np.ndarray) -> None:
    data = Picture().encode({"data": pixels})
    assert ending_of(data) == ".png"
    np.testing.assert_array_equal(read(data, *pixels.shape), pixels)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"a": np.zeros((1, 2, 2), np.uint8), "b": np.zeros((1, 2, 2), np.uint8)},
        {"a": np.zeros((1, 2, 2), np.float32)},
        {"a": np.zeros((2, 2), np.uint8)},
        {"a": np.zeros((2, 2, 2), np.uint8)},
        {"a": np.zeros((1, 0, 2), np.uint8)},
    ],
)
def test_what_is_no_picture_is_not_written(record: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="picture"):
        Picture().encode(record)


def test_a_tiff_says_how_many_bits_it_has():
    entries = [(256, 3, 2), (257, 3, 1), (258, 3, 12), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1), (278, 3, 1)]
    entries.append((279, 4, 3))
    head = b"II*\0" + struct.pack("<I", 12) + b"\xff\xf8\x00\0" + struct.pack("<H", len(entries))
    data = head + b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries) + bytes(4)
    assert Picture().pixels(data).ravel().tolist() == [255, 128]


def test_a_tiff_of_16_bits_says_which_number_is_white():
    file = io.BytesIO()
    Image.fromarray(np.array([[0, 65535]], np.uint16)).save(file, "TIFF", tiffinfo={262: 0})
    assert Picture().pixels(file.getvalue()).ravel().tolist() == [255, 0]
