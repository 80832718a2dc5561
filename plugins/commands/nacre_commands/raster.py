"""PNG from the SVG that nacre writes, by Pillow: rectangles, texts, and paths of lines and curves, no more of SVG."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import dist
from typing import Any

from nacre import ConfigError

SVG = "{http://www.w3.org/2000/svg}"
LARGE = 4e6  # pixels of the picture that are drawn at its own size: else the lines are smoothed
FONTS = ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf", "Helvetica.ttc")
KNOWN = ("DejaVu Sans", "Liberation Sans", "Arial", "Helvetica")  # their names
STEPS = 16  # lines that a curve is drawn as
Point = tuple[float, float]
TIP = ((0.0, 0.0), (-8.0, -3.5), (-8.0, 3.5))  # of an arrow to the right


def png(svg: str) -> bytes:
    """Return a picture with two pixels for each of the SVG, as PNG.

    Raises:
        ConfigError: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        message = "a PNG is drawn by Pillow, which is not installed"
        raise ConfigError(message, 'pip install "nacre[images]", or use the ending .svg') from error
    root = ET.fromstring(svg)
    width, height = (round(float(root.attrib[side])) for side in ("width", "height"))
    fine = 2 if width * height < LARGE else 1  # drawn at four times the size, and halved
    picture = Image.new("RGB", (2 * fine * width, 2 * fine * height), "white")
    painter = _Painter(ImageDraw.Draw(picture), 2.0 * fine)
    painter.paint(root, {"font-size": root.get("font-size", "12")})
    if fine > 1:
        picture = picture.resize((2 * width, 2 * height), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


class _Painter:
    """Draws the elements of an SVG; `scale` is how many pixels one of its own becomes."""

    def __init__(self, draw: Any, scale: float) -> None:
        self.draw = draw
        self.scale = scale

    def paint(self, element: ET.Element, inherited: Mapping[str, str]) -> None:
        for one in element:
            style = {**inherited, **one.attrib}
            kind = one.tag.removeprefix(SVG)
            if kind == "g":
                self.paint(one, style)
            elif kind == "rect" and "x" in style:  # without x: the white ground
                self._rect(style)
            elif kind == "path":
                self._path(style)
            elif kind == "text":
                self._text(one.text or "", style)

    def _rect(self, style: Mapping[str, str]) -> None:
        x, y, width, height = (float(style[name]) * self.scale for name in ("x", "y", "width", "height"))
        self.draw.rounded_rectangle(
            (x, y, x + width, y + height),
            float(style.get("rx", 0)) * self.scale,
            fill=_colour(style.get("fill", "black")),
            outline=_colour(style.get("stroke", "none")),
            width=self._width(style),
        )

    def _width(self, style: Mapping[str, str]) -> int:
        return max(1, round(float(style.get("stroke-width", 1)) * self.scale))

    def _path(self, style: Mapping[str, str]) -> None:
        points = [(x * self.scale, y * self.scale) for x, y in _points(style["d"])]
        dashes = [float(one) * self.scale for one in style.get("stroke-dasharray", "").split()]
        for line in _dashed(points, *dashes) if dashes else [points]:
            self.draw.line(line, fill=_colour(style.get("stroke", "none")), width=self._width(style), joint="curve")
        if style.get("marker-end"):
            x, y = points[-1]  # all arrows of a net's drawing point down
            tip = [(x + across * self.scale, y + along * self.scale) for along, across in TIP]
            self.draw.polygon(tip, fill=_colour(style.get("stroke", "none")))

    def _text(self, text: str, style: Mapping[str, str]) -> None:
        from PIL import Image, ImageDraw

        font = _font(float(style["font-size"]) * self.scale)
        text = _readable(text, font)
        x, y = (float(style[name]) * self.scale for name in ("x", "y"))
        fill = _colour(style.get("fill", "black"))
        halo = self._width(style) if style.get("fill") == "none" else 0
        stroke = {"stroke_width": halo, "stroke_fill": _colour(style["stroke"])} if halo else {}
        bold = {"stroke_width": round(self.scale / 4), "stroke_fill": fill} if "font-weight" in style else {}
        anchor = {"middle": "ms", "end": "rs"}.get(style.get("text-anchor", ""), "ls")
        if "transform" not in style:
            self.draw.text((x, y), text, fill=fill or "white", font=font, anchor=anchor, **stroke, **bold)
            return
        _, top, right, bottom = font.getbbox(text, anchor="ls")  # turned upwards: drawn apart, and pasted
        size = (max(1, round(right)), max(1, round(bottom - top)))
        mask = Image.new("L", size)
        ImageDraw.Draw(mask).text((0, -top), text, fill=255, font=font, anchor="ls")
        turned = mask.rotate(90, expand=True)
        self.draw.bitmap((round(x + top), round(y - turned.height)), turned, fill=fill)


@cache
def _font(size: float) -> Any:
    """Return a font of this machine that has most letters, or else Pillow's own, which has the Latin ones."""
    from PIL import ImageFont

    for name in FONTS:
        with suppress(OSError):
            return ImageFont.truetype(name, size)
    return ImageFont.load_default(size)


def _readable(text: str, font: Any) -> str:
    """Return a text without the signs that Pillow's own font has not."""
    return text if font.getname()[0] in KNOWN else text.replace("×", "x").replace("…", "..")


def _colour(name: str) -> str | None:
    return None if name == "none" else name


def _dashed(points: Sequence[Point], dash: float, gap: float) -> Iterator[list[Point]]:
    """Yield the dashes of a line through points."""
    left, drawn, line = dash, True, [points[0]]
    for end in points[1:]:
        while (whole := dist(line[-1], end)) > left:
            x, y = (one + (other - one) * left / whole for one, other in zip(line[-1], end, strict=True))
            if drawn:
                yield [*line, (x, y)]
            drawn, line = not drawn, [(x, y)]
            left = dash if drawn else gap
        left -= whole
        line.append(end)
    if drawn:
        yield line


def _points(path: str) -> list[tuple[float, float]]:
    """Return the points of a path of M, L and C with absolute numbers; curves become lines."""
    points: list[tuple[float, float]] = []
    for kind, given in re.findall(r"([MLC])([^MLC]*)", path):
        numbers = [float(one) for one in re.findall(r"-?[\d.]+", given)]
        ends = list(zip(numbers[::2], numbers[1::2], strict=True))
        if kind != "C":
            points += ends
            continue
        for first, second, end in zip(ends[::3], ends[1::3], ends[2::3], strict=True):
            start = points[-1]
            for step in range(1, STEPS + 1):
                t = step / STEPS
                shares = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
                four = (start, first, second, end)
                x, y = (sum(share * one[axis] for share, one in zip(shares, four, strict=True)) for axis in (0, 1))
                points.append((x, y))
    return points
