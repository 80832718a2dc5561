"""Curves over the iterations as SVG: a panel for losses, and one for each kind of statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite, log10

from nacre import Curve

from .svg import document, text

PANEL_WIDTH, PANEL_HEIGHT = 380.0, 240.0
LEFT, TOP, BETWEEN, BELOW = 64.0, 64.0, 84.0, 40.0
LINE = 18.0  # of the legend
TICKS = 5
COLOURS = ("#3b6ea5", "#d1495b", "#2a7f62", "#b07d2b", "#7a4f9a", "#4a9fb5", "#8c5a3c", "#666666")
STEEP = 20  # a loss that falls to less than a 20th is shown on a logarithmic axis


def curves_svg(title: str, panels: Mapping[str, Mapping[str, Curve]]) -> str:
    """Return curves as SVG: {panel: {name: ([iteration, ...], [value, ...])}}; panels stand side by side."""
    most = max((len(curves) for curves in panels.values()), default=0)
    width = LEFT + len(panels) * (PANEL_WIDTH + BETWEEN) - BETWEEN + 24
    height = TOP + PANEL_HEIGHT + BELOW + LINE * most + 16
    parts = [text(LEFT, 26, title, 'font-size="14" font-weight="bold"')]
    names = dict.fromkeys(name for curves in panels.values() for name in curves)
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    for number, (panel, curves) in enumerate(panels.items()):
        parts += _panel(LEFT + number * (PANEL_WIDTH + BETWEEN), panel, curves, colours)
    return document(title, width, height, parts)


def _panel(left: float, title: str, curves: Mapping[str, Curve], colours: Mapping[str, str]) -> list[str]:
    known = {name: _finite(curve) for name, curve in curves.items()}
    values = [value for _, some in known.values() for value in some]
    last = max((iteration for some, _ in known.values() for iteration in some), default=1) or 1
    steep = title == "loss" and bool(values) and min(values) > 0 and max(values) > STEEP * min(values)
    scale = log10 if steep else float
    ticks = _powers(min(values), max(values)) if steep else _ticks(min(values, default=0.0), max(values, default=1.0))
    low, high = scale(min(ticks[0], *values) if values else ticks[0]), scale(max(ticks[-1], *values) if values else 1)
    bottom = TOP + PANEL_HEIGHT

    def x(iteration: float) -> float:
        return left + PANEL_WIDTH * iteration / last

    def y(value: float) -> float:
        return bottom - PANEL_HEIGHT * (scale(value) - low) / ((high - low) or 1)

    parts = [text(left, TOP - 12, title, "")]
    for tick in ticks:
        parts.append(_line([(left, y(tick)), (left + PANEL_WIDTH, y(tick))], "#e3e3e3"))
        parts.append(text(left - 6, y(tick) + 4, f"{tick:g}", 'text-anchor="end" fill="#555"'))
    for tick in _ticks(0, last):
        if tick <= last:
            parts.append(text(x(tick), bottom + 16, f"{tick:g}", 'text-anchor="middle" fill="#555"'))
    parts.append(text(left + PANEL_WIDTH / 2, bottom + 32, "iteration", 'text-anchor="middle" fill="#555"'))
    parts.append(_line([(left, TOP), (left, bottom), (left + PANEL_WIDTH, bottom)], "#555"))
    for number, (name, (iterations, some)) in enumerate(known.items()):
        points = [(x(iteration), y(value)) for iteration, value in zip(iterations, some, strict=True)]
        place = bottom + BELOW + 10 + LINE * number
        if points:
            parts.append(_line(points if len(points) > 1 else [*points, *points], colours[name], 1.8))
        parts.append(_line([(left, place - 4), (left + 18, place - 4)], colours[name], 3))
        end = f" ({some[-1]:.4g})" if some else ""
        parts.append(text(left + 24, place, f"{name}{end}", ""))
    return parts


def _finite(curve: Curve) -> Curve:
    kept = [(iteration, value) for iteration, value in zip(*curve, strict=True) if isfinite(value)]
    return [iteration for iteration, _ in kept], [value for _, value in kept]


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from below `low` to above `high`, about `TICKS` of them."""
    span = (high - low) or abs(high) or 1.0
    power = 10 ** floor(log10(span / TICKS))
    step = next(power * one for one in (1, 2, 5, 10) if power * one * TICKS >= span)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    first -= first >= last and low > 0  # a line that stays, such as that of an accuracy of 1, has its room below
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _powers(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]


def _line(points: Sequence[tuple[float, float]], colour: str, width: float = 1) -> str:
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}" + "".join(f" L{to_x:.1f} {to_y:.1f}" for to_x, to_y in rest)
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'
