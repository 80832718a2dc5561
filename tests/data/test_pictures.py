"""Pictures as records: converted rightly, or refused with a sentence."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import DataError, Net
from nacre_data import DataLayer
from record_files import read_records

Image = pytest.importorskip("PIL.Image")

GREY = np.array([[0, 64, 128], [192, 254, 255]], np.uint8)
COLOURS = np.stack([GREY, GREY[::-1], GREY[:, ::-1]], -1)
PIXELS = 1 << 26


def read(path: Path, channels: int, size: tuple[int, int] = (2, 3)) -> np.ndarray:
    return read_records(path, shape=(channels, *size))[0]


def png(path: Path, width: int, height: int, depth: int, colour: int, rows: bytes, **chunks: bytes) -> Path:
    """Write a PNG of which Pillow writes none."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    inner = b"".join(chunk(name.encode(), data) for name, data in chunks.items())
    body = chunk(b"IHDR", head) + inner + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


@pytest.mark.parametrize("ending", ["png", "pgm", "tif"])
def test_grey_of_16_bits(ending: str, tmp_path: Path) -> None:
    """Pillow would clip it to 255."""
    numbers = GREY.astype(np.uint16) * 257
    numbers[0, 1] += 128  # the last that is rounded down
    numbers[0, 2] += 129
    path = tmp_path / f"a.{ending}"
    Image.fromarray(numbers).save(path)
    expected = GREY + np.array([[0, 0, 1], [0, 0, 0]], np.uint8)
    assert np.array_equal(read(path, 1)[0], expected)
    assert np.array_equal(read(path, 3), [expected] * 3)


def test_colours_of_16_bits(tmp_path: Path) -> None:
    rows = b"".join(b"\0" + np.repeat(row, 2, axis=-1).tobytes() for row in COLOURS)
    path = png(tmp_path / "a.png", 3, 2, 16, 2, rows)
    assert np.array_equal(read(path, 3), COLOURS.transpose(2, 0, 1))


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_way_up(orientation: int, ending: str, tmp_path: Path) -> None:
    scene = np.zeros((32, 64), np.uint8)
    scene[:16, :32] = 255  # light above on the left
    back = {
        1: scene,
        2: scene[:, ::-1],
        3: scene[::-1, ::-1],
        4: scene[::-1],
        5: scene.T,
        6: scene.T[::-1],
        7: scene.T[::-1, ::-1],
        8: scene.T[:, ::-1],
    }
    exif = Image.Exif()
    exif[0x112] = orientation
    path = tmp_path / f"a.{ending}"
    Image.fromarray(np.ascontiguousarray(back[orientation])).convert("RGB").save(path, exif=exif)
    assert np.allclose(read(path, 1, (32, 64))[0], scene, atol=60)  # JPEG is not exact


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr", "LA", "RGBA"])
def test_opaque_modes_are_converted(mode: str, tmp_path: Path) -> None:
    white_and_black = Image.fromarray(np.repeat(np.array([[255, 0]], np.uint8), 2, 0)).convert("RGB").convert(mode)
    if mode in ("CMYK", "YCbCr"):
        white_and_black.save(path := tmp_path / "a.tif", compression="tiff_deflate")  # else Pillow 11 cuts it
    else:
        white_and_black.save(path := tmp_path / "a.png")
    for channels in (1, 3):
        assert np.allclose(read(path, channels, (2, 2)), [[255, 0], [255, 0]], atol=1)
    rgba = read(path, 4, (2, 2))
    assert np.allclose(rgba[:3], [[255, 0], [255, 0]], atol=1)
    assert (rgba[3] == 255).all()


def see_through(path: Path, mode: str) -> None:
    if mode == "one colour":
        rows = b"".join(b"\0" + row.tobytes() for row in COLOURS)
        png(path, 3, 2, 8, 2, rows, tRNS=struct.pack(">3H", *COLOURS[0, 0].tolist()))
    elif mode == "one grey of 16 bits":
        rows = b"".join(b"\0" + np.repeat(row, 2).tobytes() for row in GREY)
        png(path, 3, 2, 16, 0, rows, tRNS=struct.pack(">H", 64 * 257))
    elif mode == "P":
        Image.fromarray(GREY).convert("P").save(path, transparency=0)
    else:
        picture = Image.fromarray(COLOURS).convert(mode)
        picture.putalpha(Image.fromarray(GREY))
        picture.save(path)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "one colour", "one grey of 16 bits"])
def test_what_one_can_see_through_has_no_background(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    see_through(path, mode)
    for channels in (1, 3):
        with pytest.raises(DataError, match="transparent") as caught:
            read(path, channels)
        assert "background" in caught.value.remedy
    assert (read(path, 4)[3] < 255).any()


@pytest.mark.parametrize("ending", ["gif", "png", "webp", "tiff"])
def test_several_pictures_are_no_record(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    frames = [Image.fromarray(np.full((2, 3, 3), value, np.uint8)) for value in (0, 100, 200)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with pytest.raises(DataError, match="several pictures"):
        read(path, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_numbers_that_are_no_colours(dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    Image.fromarray(np.ones((2, 3), dtype)).save(path)
    with pytest.raises(DataError, match="pixels"):
        read(path, 1)


FOREIGN = {
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n",
    "PostScript behind a DOS head": struct.pack("<IIIIIIH", 0xC6D3D0C5, 32, 60, 0, 0, 0, 0xFFFF).ljust(32, b"\0")
    + b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n",
    "FITS": b"SIMPLE  =                    T".ljust(80) + b"END".ljust(2800),
    "XBM": b"#define a_width 8\n#define a_height 1\nstatic char a_bits[] = {\n0x01};\n",
}


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "tif"])
def test_only_our_formats_are_opened(what: str, ending: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Pillow goes by content, and starts Ghostscript for PostScript."""
    from PIL import EpsImagePlugin

    started: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *args, **_: started.append(args))
    monkeypatch.setattr("subprocess.check_call", lambda *args, **_: started.append(args))
    path = tmp_path / f"a.{ending}"
    path.write_bytes(FOREIGN[what])
    with pytest.raises(DataError, match=r"\(BMP, GIF, JPEG, PNG"):
        read(path, 3)
    assert started == []


@pytest.mark.parametrize("width", [PIXELS // 8 + 1, PIXELS // 5, PIXELS])
def test_too_many_pixels_are_told_in_one_sentence(width: int, tmp_path: Path) -> None:
    path = png(tmp_path / "a.png", width, 8, 8, 0, b"")
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        with pytest.raises(DataError) as caught:
            read(path, 1)
    assert caught.value.args[0] == f"{path}: it has more than 67,108,864 pixels, the limit"
    assert others == []


def test_pictures_without_a_shape_are_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for name in "ab":
        Image.fromarray(COLOURS).save(tmp_path / f"cat/{name}.png")
    with pytest.raises(DataError, match=r"may differ in shape.*\n  give shape, .* ImageData takes pictures as large"):
        Net("n", [DataLayer(name="data", source=str(tmp_path), batch_size=2)], backend="numpy")
